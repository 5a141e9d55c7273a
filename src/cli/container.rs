//! Finding and opening containers for the commands that work without a mount.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Failure;
use crate::commit::recovery::open_through;
use crate::container::{Candidate, Container, FORMATS, Preferences, Recognised, recognise};
use crate::error::{Error, plain};
use crate::memory::budget::Budget;
use crate::source::local::LocalStore;
use crate::source::{FileKind, Store};
use crate::stage::is_hidden_name;

/// A place in a store.
pub(super) struct Root {
    pub(super) store: Arc<LocalStore>,
    pub(super) path: PathBuf,
}

/// A container that was found.
pub(super) struct FoundContainer {
    pub(super) store: Arc<dyn Store>,
    /// The same, to be changed.
    pub(super) local: Arc<LocalStore>,
    pub(super) path: PathBuf,
    pub(super) recognised: Recognised,
}

/// The store and the path in it of what is to be mounted: a directory, or one container file.
pub(super) fn root_of(path: &Path, preferences: Preferences) -> Result<Root, Failure> {
    let root = place_of(path)?;
    let kind = root.store.stat(&root.path)?.kind;
    if kind == FileKind::Directory || found_at(&root, preferences)?.is_some() {
        return Ok(root);
    }
    Err(not_a_container(path))
}

/// Directories are stores of their own; a file lies in the store of its directory. Messages spell paths
/// as they were given.
fn place_of(path: &Path) -> Result<Root, Failure> {
    let failed = |at: &Path, e| Failure::new(format!("{}: {}", at.display(), plain(&e)));
    let canonical = path.canonicalize().map_err(|e| failed(path, e))?;
    let split = (
        canonical.is_dir(),
        canonical.parent(),
        canonical.file_name(),
    );
    let (directory, shown, name) = match split {
        (false, Some(parent), Some(name)) => {
            let given = path.file_name() == Some(name);
            let shown = path.parent().filter(|_| given).unwrap_or(parent);
            (parent, shown, PathBuf::from(name))
        }
        _ => (canonical.as_path(), path, PathBuf::new()),
    };
    let store = LocalStore::open(directory, shown).map_err(|e| failed(directory, e))?;
    Ok(Root {
        store: Arc::new(store),
        path: name,
    })
}

fn found_at(root: &Root, preferences: Preferences) -> Result<Option<FoundContainer>, Error> {
    let kind = root.store.stat(&root.path)?.kind;
    let candidate = Candidate::new(&*root.store, &root.path, kind, preferences);
    let recognised = recognise(&candidate)?;
    Ok(recognised.map(|recognised| FoundContainer {
        store: Arc::clone(&root.store) as _,
        local: Arc::clone(&root.store),
        path: root.path.clone(),
        recognised,
    }))
}

/// The container at exactly this path.
pub(super) fn find(path: &Path, preferences: Preferences) -> Result<FoundContainer, Failure> {
    found_at(&place_of(path)?, preferences)?.ok_or_else(|| not_a_container(path))
}

fn not_a_container(path: &Path) -> Failure {
    let formats: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
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
    visit: &mut dyn FnMut(FoundContainer),
) -> Result<(), Failure> {
    walk_place(place_of(path)?, preferences, failed, visit);
    Ok(())
}

/// The same for who looks beside containers, too, at what a mount has left there: one that is a directory itself is found in the one
/// above.
pub(super) fn walk_beside(
    path: &Path,
    preferences: Preferences,
    failed: &mut dyn FnMut(Error),
    visit: &mut dyn FnMut(FoundContainer),
) -> Result<(), Failure> {
    let root = place_of(path)?;
    let is_container = root.path.as_os_str().is_empty()
        && found_at(&root, preferences).is_ok_and(|found| found.is_some());
    let above = match is_container {
        true => path.canonicalize().ok().and_then(|path| above(&path)),
        false => None,
    };
    walk_place(above.unwrap_or(root), preferences, failed, visit);
    Ok(())
}

/// A directory as an entry of the one above; none if that cannot be looked into.
fn above(path: &Path) -> Option<Root> {
    let (directory, name) = (path.parent()?, path.file_name()?);
    let store = LocalStore::open(directory, directory).ok()?;
    Some(Root {
        store: Arc::new(store),
        path: PathBuf::from(name),
    })
}

fn walk_place(
    root: Root,
    preferences: Preferences,
    failed: &mut dyn FnMut(Error),
    visit: &mut dyn FnMut(FoundContainer),
) {
    // Files of a container are not containers; what else lies in its directory may be.
    let mut members: &[&str] = &[];
    match found_at(&root, preferences) {
        Ok(Some(found)) => {
            members = found.recognised.format.members();
            visit(found);
        }
        Ok(None) => {}
        Err(e) => return failed(e),
    }
    let kind = root.store.stat(&root.path).map(|stat| stat.kind);
    if !matches!(kind, Ok(FileKind::Directory)) {
        return;
    }
    let mut names = Vec::new();
    let listed = root.store.list(&root.path, &mut |name, kind| {
        let member = members.iter().any(|member| name == *member);
        let hidden = is_hidden_name(name);
        if !member && !hidden && matches!(kind, FileKind::File | FileKind::Directory) {
            names.push(name.to_owned());
        }
    });
    names.sort();
    for name in names {
        let path = root.path.join(&name);
        let store = Arc::clone(&root.store);
        walk_place(Root { store, path }, preferences, failed, visit);
    }
    if let Err(e) = listed {
        failed(e);
    }
}

impl FoundContainer {
    pub(super) fn open(&self, budget: &Arc<Budget>) -> Result<Arc<Container>, Error> {
        let opened = open_through(&self.recognised, &self.store, &self.path, budget);
        opened.map(Arc::new)
    }

    pub(super) fn shown(&self) -> PathBuf {
        self.store.display(&self.path)
    }
}
