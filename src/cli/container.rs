//! Finding and opening containers for the commands that work without a mount.
//!
//! A path may be that of a container, of an array in it (`CONTAINER/ARRAY`, as `ls` prints it), or
//! of either in a mount: [`place_of`] finds out which.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::failure::Failure;
use super::given_path::{existing, real};
use super::in_mount::{InMount, joined};
use super::no_such_array::missing;
use super::remote;
use crate::commit::added::added_of;
use crate::commit::through_log::open_through;
use crate::container::{
    Candidate, Container, FORMATS, Preferences, Recognised, lookalike, recognise,
};
use crate::disk::Disk;
use crate::disk::local::open_local;
use crate::error::{Error, Fault, plain};
use crate::memory::budget::Budget;
use crate::source::remote::{SourceUrl, is_url};
use crate::source::{FileKind, Listed, Store};
use crate::stage::{is_added_name, is_hidden_name};

/// A place in a store.
pub(super) struct Root {
    pub(super) store: Arc<dyn Store>,
    /// What the store is changed through, if it can be.
    pub(super) disk: Option<Arc<dyn Disk>>,
    pub(super) path: PathBuf,
}

/// What a path that was given leads to.
struct GivenPlace {
    root: Root,
    /// Where that lies, without links, in no mount.
    stored: PathBuf,
    /// An array or group of the container that it is, or nothing: all of it.
    within: String,
}

/// A container that was found.
#[derive(Clone)]
pub(super) struct FoundContainer {
    pub(super) store: Arc<dyn Store>,
    disk: Option<Arc<dyn Disk>>,
    pub(super) path: PathBuf,
    pub(super) recognised: Recognised,
    /// The array or group that is meant; empty: all of it.
    pub(super) within: String,
}

/// What a walk comes across.
pub(super) enum Found {
    Container(FoundContainer),
    /// A file that is named like a container and is none.
    Lookalike(Fault),
    /// Files that were put into the directory of a container which is not there any more: a
    /// directory that has them.
    Orphans(PathBuf),
}

impl Found {
    pub(super) fn container(self) -> Option<FoundContainer> {
        match self {
            Found::Container(container) => Some(container),
            Found::Lookalike(_) | Found::Orphans(_) => None,
        }
    }
}

/// The line that reports orphans.
pub(super) fn orphans_line(path: &Path) -> String {
    format!(
        "{}: files that were put into a container which is not here any more; move it to where the container is \
         (NAME in the place of the container's name in .NAME.arrayfs-files), or move the files out of it",
        path.display()
    )
}

/// The store and the path in it of what is to be mounted: a directory, or one container file.
pub(super) fn root_of(
    path: &Path,
    preferences: Preferences,
    budget: &Arc<Budget>,
) -> Result<Root, Failure> {
    if let Some(url) = remote::url(path) {
        let root = remote::root(&url?, budget)?;
        let kind = root.store.stat(&root.path)?.kind;
        return match kind == FileKind::Directory || found_at(&root, preferences)?.is_some() {
            true => Ok(root),
            false => Err(no_container(path)),
        };
    }
    let failed = |e| Failure::new(format!("{}: {}", path.display(), plain(&e)));
    let root = root_at(&real(path).map_err(failed)?, path)?;
    let kind = root.store.stat(&root.path)?.kind;
    if kind == FileKind::Directory || found_at(&root, preferences)?.is_some() {
        return Ok(root);
    }
    Err(not_a_container(path, preferences))
}

/// Directories are stores of their own; a file lies in the store of its directory. Messages spell
/// paths as they were given: `given` is `stored`, however it is spelled.
pub(super) fn root_at(stored: &Path, given: &Path) -> Result<Root, Failure> {
    let (directory, shown, name) = match (stored.is_dir(), stored.parent(), stored.file_name()) {
        (false, Some(parent), Some(name)) => {
            let is_named = given.file_name() == Some(name);
            let shown = given.parent().filter(|_| is_named).unwrap_or(parent);
            (parent, shown, PathBuf::from(name))
        }
        _ => (stored, given, PathBuf::new()),
    };
    let opened = open_local(directory, shown);
    let failed = |e| Failure::new(format!("{}: {}", directory.display(), plain(&e)));
    let (store, disk) = opened.map_err(failed)?;
    Ok(Root {
        store,
        disk: Some(disk),
        path: name,
    })
}

/// What a path means: what lies there, or else the nearest container above it and what of that is
/// named.
fn place_of(path: &Path, preferences: Preferences) -> Result<GivenPlace, Failure> {
    if let Some(url) = remote::url(path) {
        return place_in_bucket(&url?, path, preferences);
    }
    let failed = |e: io::Error| Failure::new(format!("{}: {}", path.display(), plain(&e)));
    let (mut stored, rest) = existing(path).map_err(failed)?;
    if let Some(place) = InMount::among_containers(&stored)? {
        stored = place.in_source()?;
        if is_url(&stored) {
            remote::remember(place.remote_settings()?);
            return place_of(&joined(stored, &rest), preferences);
        }
    }
    let whole = match rest.as_os_str().is_empty() {
        true => stored,
        false => stored.join(rest),
    };
    let mut within: Vec<&OsStr> = Vec::new();
    for (above, stored) in whole.ancestors().enumerate() {
        if let Some(root) = root_that_is(stored, spelled(path, above, stored), above, preferences)?
        {
            within.reverse();
            let within = within.iter().map(|name| name.to_string_lossy());
            return Ok(GivenPlace {
                root,
                stored: stored.to_owned(),
                within: within.collect::<Vec<_>>().join("/"),
            });
        }
        within.extend(stored.file_name());
    }
    Err(match std::fs::metadata(path) {
        Ok(_) => not_a_container(path, preferences),
        Err(e) => failed(e),
    })
}

/// The same of a URL: keys say no more than names, so what lies above an array is looked at.
fn place_in_bucket(
    url: &SourceUrl,
    given: &Path,
    preferences: Preferences,
) -> Result<GivenPlace, Failure> {
    if url.is_web() {
        return place_on_web(url, given, preferences);
    }
    let whole = remote::in_bucket(url, &Budget::by_default())?;
    let all = whole.path.ancestors();
    all.for_each(|named| whole.store.refresh(named));
    let mut within: Vec<&OsStr> = Vec::new();
    for (above, path) in whole.path.ancestors().enumerate() {
        let root = Root {
            store: Arc::clone(&whole.store),
            disk: None,
            path: path.to_owned(),
        };
        let is_it = match root.store.stat(path) {
            Ok(stat) if above == 0 && stat.kind == FileKind::Directory => true,
            Ok(_) => found_at(&root, preferences)?.is_some(),
            Err(e) if e.is_not_found() => false,
            Err(e) => return Err(remote::failed(url)(e)),
        };
        if is_it {
            within.reverse();
            let within = within.iter().map(|name| name.to_string_lossy());
            return Ok(GivenPlace {
                root,
                stored: given.to_owned(),
                within: within.collect::<Vec<_>>().join("/"),
            });
        }
        within.extend(path.file_name());
    }
    Err(match whole.store.stat(&whole.path) {
        Ok(_) => no_container(given),
        Err(e) => Failure::new(format!("{}: {e}", url.shown())),
    })
}

/// The same of a web server, which may have the file or one above it.
fn place_on_web(
    url: &SourceUrl,
    given: &Path,
    preferences: Preferences,
) -> Result<GivenPlace, Failure> {
    let mut first = None;
    for (file, within) in url.files_above() {
        let root = remote::in_bucket(&file, &Budget::by_default())?;
        root.store.refresh(&root.path);
        match found_at(&root, preferences) {
            Ok(Some(_)) => {
                return Ok(GivenPlace {
                    root,
                    stored: given.to_owned(),
                    within,
                });
            }
            Ok(None) => return Err(no_container(given)),
            Err(e) if !e.is_not_found() => return Err(remote::failed(&file)(e)),
            Err(e) => drop(first.get_or_insert_with(|| remote::failed(&file)(e))),
        }
    }
    Err(first.unwrap_or_else(|| no_container(given)))
}

/// What lies at a path: a container, or, if this is what was named (`above` is 0), any directory.
/// What lies above and cannot be looked at is none.
fn root_that_is(
    stored: &Path,
    given: &Path,
    above: usize,
    preferences: Preferences,
) -> Result<Option<Root>, Failure> {
    if std::fs::symlink_metadata(stored).is_err() {
        return Ok(None);
    }
    if above == 0 {
        let root = root_at(stored, given)?;
        let is_it = stored.is_dir() || found_at(&root, preferences)?.is_some();
        return Ok(is_it.then_some(root));
    }
    let root = root_at(stored, given).ok();
    Ok(root.filter(|root| matches!(found_at(root, preferences), Ok(Some(_)))))
}

/// So many names above a path, as it was given; as it is `stored` if that is another name, behind a
/// link.
fn spelled<'a>(path: &'a Path, above: usize, stored: &'a Path) -> &'a Path {
    match path.ancestors().nth(above) {
        Some(given) if above == 0 || given.file_name() == stored.file_name() => given,
        _ => stored,
    }
}

fn found_at(root: &Root, preferences: Preferences) -> Result<Option<FoundContainer>, Error> {
    let kind = root.store.stat(&root.path)?.kind;
    let candidate = Candidate::new(&*root.store, &root.path, kind, preferences);
    let recognised = recognise(&candidate)?;
    Ok(recognised.map(|recognised| FoundContainer {
        store: Arc::clone(&root.store),
        disk: root.disk.clone(),
        path: root.path.clone(),
        recognised,
        within: String::new(),
    }))
}

/// The container at a path, or that with the array at it.
pub(super) fn find(path: &Path, preferences: Preferences) -> Result<FoundContainer, Failure> {
    let place = place_of(path, preferences)?;
    let found =
        found_at(&place.root, preferences)?.ok_or_else(|| not_a_container(path, preferences))?;
    Ok(FoundContainer {
        within: place.within,
        ..found
    })
}

/// The file at a place, if it is only named like a container.
fn lookalike_at(root: &Root, preferences: Preferences) -> Result<Option<Fault>, Error> {
    let kind = root.store.stat(&root.path)?.kind;
    let candidate = Candidate::new(&*root.store, &root.path, kind, preferences);
    Ok(lookalike(&candidate)?.map(|found| found.fault))
}

fn not_a_container(path: &Path, preferences: Preferences) -> Failure {
    let root = real(path).ok();
    let root = root.and_then(|stored| root_at(&stored, path).ok());
    if let Some(Ok(Some(fault))) = root.map(|root| lookalike_at(&root, preferences)) {
        return Failure::new(fault);
    }
    no_container(path)
}

fn no_container(path: &Path) -> Failure {
    let mut formats: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
    formats.dedup();
    Failure::new(format!(
        "{} is not a container of a known format ({}); 'arrayfs ls' lists those in a directory",
        path.display(),
        formats.join(", ")
    ))
}

/// Every container at or below a path, in the order of names. What cannot be
/// looked at is passed to `failed`.
pub(super) fn walk(
    path: &Path,
    preferences: Preferences,
    failed: &mut dyn FnMut(Error),
    visit: &mut dyn FnMut(Found),
) -> Result<(), Failure> {
    let place = place_of(path, preferences)?;
    if !place.within.is_empty() {
        visit(Found::Container(find(path, preferences)?));
        return Ok(());
    }
    walk_place(&place.root, preferences, failed, visit);
    Ok(())
}

/// Every container at or below a path, and what a mount has left beside containers: what lies
/// beside a container that is a directory is found in the one above.
pub(super) fn walk_beside(
    path: &Path,
    preferences: Preferences,
    failed: &mut dyn FnMut(Error),
    visit: &mut dyn FnMut(Found),
) -> Result<(), Failure> {
    let GivenPlace { root, stored, .. } = place_of(path, preferences)?;
    let is_container = root.path.as_os_str().is_empty()
        && found_at(&root, preferences).is_ok_and(|found| found.is_some());
    let above = match is_container {
        true => above(&stored),
        false => None,
    };
    walk_place(&above.unwrap_or(root), preferences, failed, visit);
    Ok(())
}

/// A directory as an entry of the one above; none if that cannot be looked into.
fn above(path: &Path) -> Option<Root> {
    let (directory, name) = (path.parent()?, path.file_name()?);
    let (store, disk) = open_local(directory, directory).ok()?;
    Some(Root {
        store,
        disk: Some(disk),
        path: PathBuf::from(name),
    })
}

/// Says whether it is a container that is a file.
fn walk_place(
    root: &Root,
    preferences: Preferences,
    failed: &mut dyn FnMut(Error),
    visit: &mut dyn FnMut(Found),
) -> bool {
    let kind = root.store.stat(&root.path).map(|stat| stat.kind);
    let mut has_directories = false;
    let is_container = match found_at(root, preferences) {
        Ok(Some(found)) => {
            has_directories = found.recognised.layout().has_directories();
            visit(Found::Container(found));
            true
        }
        Ok(None) => {
            match lookalike_at(root, preferences) {
                Ok(Some(fault)) => visit(Found::Lookalike(fault)),
                Ok(None) => {}
                Err(e) => failed(e),
            }
            false
        }
        Err(e) => {
            failed(e);
            return false;
        }
    };
    if !matches!(kind, Ok(FileKind::Directory)) || has_directories {
        return is_container;
    }
    let (mut names, mut added) = (Vec::new(), Vec::new());
    let listed = root
        .store
        .list(&root.path, &mut |Listed { name, kind, .. }| {
            // Files in a container's directory are not containers; directories that lie in it may
            // be.
            let may_be = match kind {
                FileKind::File => !is_container,
                FileKind::Directory => !is_hidden_name(name),
                _ => false,
            };
            if may_be && !is_hidden_name(name) {
                names.push(name.to_owned());
            } else if kind == FileKind::Directory && is_added_name(name) {
                added.push(name.to_owned());
            }
        });
    names.sort();
    for name in names {
        let path = root.path.join(&name);
        let below = Root {
            store: Arc::clone(&root.store),
            disk: root.disk.clone(),
            path,
        };
        if walk_place(&below, preferences, failed, visit) {
            let own = added_of(&*root.store, &root.path.join(&name))
                .ok()
                .flatten();
            added.retain(|added| own.as_ref().is_none_or(|(own, _)| !own.ends_with(added)));
        }
    }
    tell_orphans(root, added, visit);
    if let Err(e) = listed {
        failed(e);
    }
    false
}

fn tell_orphans(root: &Root, mut names: Vec<OsString>, visit: &mut dyn FnMut(Found)) {
    names.sort();
    for name in names {
        let (path, mut any) = (root.path.join(name), false);
        let listed = root.store.list(&path, &mut |_| any = true);
        // What may not be looked into may have something in it.
        if any || listed.is_err() {
            visit(Found::Orphans(root.store.display(&path)));
        }
    }
}

impl FoundContainer {
    /// What it is changed through.
    pub(super) fn disk(&self) -> Result<Arc<dyn Disk>, Error> {
        self.disk.clone().ok_or(Error::ReadOnly)
    }

    pub(super) fn open(&self, budget: &Arc<Budget>) -> Result<Arc<Container>, Error> {
        let opened = open_through(&self.recognised, &self.store, &self.path, budget);
        opened.map(|(container, _)| Arc::new(container))
    }

    pub(super) fn shown(&self) -> PathBuf {
        self.store.display(&self.path)
    }

    /// The paths of the arrays that are meant: of the one that was named, or of those in the group
    /// that was.
    pub(super) fn meant(&self, opened: &Arc<Container>) -> Result<Meant, Failure> {
        let wanted = opened.resolve(&self.within);
        let meant = Meant::at(&wanted);
        let arrays = opened.all_arrays();
        match arrays.iter().any(|located| meant.has(&located.path())) || meant.0.is_empty() {
            true => Ok(meant),
            false => Err(missing(&self.shown(), opened, &meant.0)),
        }
    }
}

/// Which arrays of a container a path means.
pub(super) struct Meant(String);

impl Meant {
    /// Those of a path as the container resolves it.
    pub(super) fn at(path: &str) -> Meant {
        Meant(path.to_owned())
    }

    pub(super) fn has(&self, array: &str) -> bool {
        let rest = array.strip_prefix(&self.0);
        self.0.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
