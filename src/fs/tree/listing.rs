//! Listing directories in steps, each from a place on; attributes when they are asked for.
//!
//! Directories of the source are read when a listing begins, and their names kept for the next
//! steps ([`super::listing_cache`]). What a version of a container holds never changes: it is
//! listed from the container itself. Used by `kernel::directory`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::arrival::is_shown;
use super::attr::Attr;
use super::container_directory::ContainerDirectory;
use super::inode::{Dirent, InodeId};
use super::listing_cache::{ListingCache, NameRun, RunBuilder};
use super::listing_step::{Inside, ListedEntry, ListingStep, STEP, StepNames};
use super::lookup::NameLookup;
use super::mounted_fs::MountedFs;
use super::node::Node;
use crate::error::{Error, Result};
use crate::live::LiveContainer;
use crate::live::shown::cookie::Cookie;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::version::ContainerVersion;
use crate::source::{FileKind, Listed};

/// Lists directories.
pub(crate) struct DirectoryListing {
    pub(super) fs: Arc<MountedFs>,
    pub(super) names: Arc<NameLookup>,
    pub(super) listing_cache: Arc<ListingCache>,
}

impl DirectoryListing {
    /// The names of a directory that follow a place, as it is now or was after the listing began.
    pub fn list(&self, directory: InodeId, after: Cookie) -> Result<ListingStep> {
        match &*self.fs.inodes.get(directory)? {
            node @ Node::Directory(_) => {
                let path = self.fs.places.locate_directory(directory, node)?;
                let shown = |name: &OsStr| self.fs.shows(name);
                let run = self.names_in_source(directory, &path, after, shown, &[])?;
                let step = ListingStep::in_source(directory, run, after, path);
                self.expect_looks(&step);
                Ok(step)
            }
            Node::Container(container) => self.list_container(directory, container, after),
            Node::Entry(version, entry) => {
                if after == Cookie::START {
                    self.fs.live.current.check(version)?;
                }
                match self.listed_beside(directory) {
                    Ok(Some(beside)) => self.list_beside(directory, beside, after),
                    Err(e) if after == Cookie::START => Err(e),
                    // A listing goes on in the version that it began with.
                    Ok(None) | Err(_) => self.list_inside(directory, version, *entry, after),
                }
            }
            Node::File(_) | Node::Special(..) => Err(Error::NotADirectory),
            Node::Unseen(_) => Err(self.fs.unseen(directory)),
        }
    }

    /// The kernel has read a listing to its end, and keeps it. What belongs to a version of a
    /// container stays as it is; a directory of the source is to be asked for again the next time.
    pub fn listed_to_the_end(&self, directory: InodeId) {
        let node = self.fs.inodes.get(directory);
        let in_source = node.is_ok_and(|node| match &*node {
            Node::Directory(_) => true,
            Node::Container(container) => {
                container.stored == FileKind::Directory
                    || container.new.is_new()
                    || self.has_beside(directory)
            }
            Node::Entry(..) => self.has_beside(directory),
            Node::File(_) | Node::Special(..) | Node::Unseen(..) => false,
        });
        if in_source {
            self.listing_cache.forget(directory);
            self.fs.places.invalidate(directory, None);
        }
    }

    /// An entry of a listing with its inode; counts one look-up. None if it has gone meanwhile:
    /// what is there and cannot be looked at is listed as any other. An error if there is no memory
    /// for its inode.
    pub fn enter_listed(&self, step: &ListingStep, name: &OsStr) -> Result<Option<ListedEntry>> {
        if self.is_not_entered(step, name) {
            return self.enter_unseen(step, name);
        }
        let link = Dirent::new(step.directory, name);
        let live = &self.fs.live;
        let entered = match (step.entry(name), &step.inside, &step.path) {
            // To know its size, all of the text must be read: only who asks for it waits for that.
            (Some(entry), Some(at), _)
                if live.text_views.is_unmeasured(
                    &at.version,
                    &at.opened,
                    at.opened.file_of(entry),
                ) =>
            {
                return self.enter_unseen(step, name);
            }
            (Some(entry), Some(at), _) => self.names.enter(&at.version, &at.opened, entry, link),
            (None, _, Some(path)) => {
                let enter = || self.names.enter_source_listed(link.clone(), path);
                self.fs.moves.retry(enter)
            }
            _ => return Ok(None),
        };
        match entered {
            Ok(attr) => Ok(Some(ListedEntry { attr, seen: true })),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => {
                log::debug!("{e}");
                self.enter_unseen(step, name)
            }
        }
    }

    /// Files that are far away are looked into many at a time.
    fn expect_looks(&self, step: &ListingStep) {
        let Some(path) = step.path.as_ref().filter(|_| self.fs.store.is_far()) else {
            return;
        };
        let names = step.names();
        let is_file = |name: &OsStr| step.stored_kind(name) == FileKind::File;
        let files = names.iter().filter(|(_, name)| is_file(name));
        let paths = files.map(|(_, name)| path.join(name));
        let store = &self.fs.store;
        store.expect_heads(&mut paths.filter(|path| store.is_looked_into(path)));
    }

    /// What a directory far away holds takes a request to find out: that is for who enters it.
    fn is_not_entered(&self, step: &ListingStep, name: &OsStr) -> bool {
        let is_far_directory = self.fs.store.is_far()
            && step.entry(name).is_none()
            && step.stored_kind(name) == FileKind::Directory;
        let Some(path) = step.path.as_ref().filter(|_| is_far_directory) else {
            return false;
        };
        let link = Dirent::new(step.directory, name);
        let stat = self.fs.store.stat(&path.join(name));
        let known = stat
            .ok()
            .and_then(|stat| self.fs.inodes.named(&link, &stat));
        !known.is_some_and(|(_, node)| matches!(*node, Node::Directory(_) | Node::Container(_)))
    }

    fn enter_unseen(&self, step: &ListingStep, name: &OsStr) -> Result<Option<ListedEntry>> {
        let (node, kind) = match (step.entry(name), &step.inside, &step.path) {
            (Some(entry), Some(at), _) => {
                let kind = at.opened.kind(entry)?;
                let file = at.opened.file_of(entry);
                (Node::Entry(Arc::clone(&at.version), file), kind)
            }
            (None, _, Some(_)) => {
                let kind = step.stored_kind(name);
                (Node::Unseen(kind), kind)
            }
            _ => return Ok(None),
        };
        let link = Dirent::new(step.directory, name);
        let (inode, _) = self.fs.inodes.enter(link, node)?;
        let attr = Attr::unseen(inode, kind, &self.fs.settings);
        Ok(Some(ListedEntry { attr, seen: false }))
    }

    /// What a listed entry is, without an inode; None if it has gone meanwhile.
    pub fn listed_kind(&self, step: &ListingStep, name: &OsStr) -> Option<FileKind> {
        if self.is_not_entered(step, name) {
            return Some(FileKind::Directory);
        }
        match (step.entry(name), &step.inside, &step.path) {
            (Some(entry), Some(at), _) => at.opened.kind(entry).ok(),
            (None, _, Some(path)) => {
                let link = Dirent::new(step.directory, name);
                match self.names.shown_kind(&link, path) {
                    Ok(kind) => Some(kind),
                    Err(e) if e.is_not_found() => None,
                    Err(_) => Some(step.stored_kind(name)),
                }
            }
            _ => None,
        }
    }

    /// A container's own directory, with what lies beside the arrays.
    fn list_container(
        &self,
        inode: InodeId,
        container: &LiveContainer,
        after: Cookie,
    ) -> Result<ListingStep> {
        let mut version = self.fs.live.current.version_of(inode.into(), container)?;
        if container.new.is_new() {
            match self.list_drafts(inode, after) {
                // It has been packed meanwhile: what was put into it is in the container now.
                Err(e) if e.is_not_found() => {
                    version = self.fs.live.current.version_of(inode.into(), container)?;
                    if container.new.is_new() {
                        return Err(e);
                    }
                }
                listed => return listed,
            }
        }
        match self.listed_beside(inode)? {
            Some(beside) => self.list_beside(inode, beside, after),
            None => self.list_inside(inode, &version, EntryIndex::ROOT, after),
        }
    }

    /// A directory of a container beside whose entries something may lie, and where that is.
    fn listed_beside(&self, inode: InodeId) -> Result<Option<(ContainerDirectory, PathBuf)>> {
        let Some(directory) = ContainerDirectory::find(&self.fs, inode)? else {
            return Ok(None);
        };
        let path = directory.found_beside(&self.fs)?;
        Ok(path.map(|path| (directory, path)))
    }

    fn has_beside(&self, inode: InodeId) -> bool {
        let found = self.listed_beside(inode);
        found.is_ok_and(|found| found.is_some())
    }

    fn list_beside(
        &self,
        inode: InodeId,
        (directory, path): (ContainerDirectory, PathBuf),
        after: Cookie,
    ) -> Result<ListingStep> {
        let inside = self.inside(&directory.version, directory.at)?;
        let all = (Cookie::START, usize::MAX);
        let own = inside.children_after(all, self.fs.settings.views)?;
        let own: Vec<&OsStr> = own
            .iter()
            .filter_map(|(_, entry)| inside.name(*entry))
            .collect();
        let beside = |name: &OsStr| {
            is_shown(name) && directory.shows_beside(name) && inside.find(name).is_none()
        };
        let run = self.names_in_source(inode, &path, after, beside, &own)?;
        Ok(ListingStep {
            inside: Some(inside),
            ..ListingStep::in_source(inode, run, after, path)
        })
    }

    /// What has been put into a new container.
    fn list_drafts(&self, container: InodeId, after: Cookie) -> Result<ListingStep> {
        let Some(path) = self.fs.live.drafts.at(container.into())? else {
            return Ok(ListingStep {
                directory: container,
                names: StepNames::Container(Vec::new()),
                is_last: true,
                path: None,
                inside: None,
            });
        };
        let run = self.names_in_source(container, &path, after, is_shown, &[])?;
        Ok(ListingStep::in_source(container, run, after, path))
    }

    fn list_inside(
        &self,
        directory: InodeId,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
        after: Cookie,
    ) -> Result<ListingStep> {
        let inside = self.inside(version, entry)?;
        let mut entries = inside.children_after((after, STEP + 1), self.fs.settings.views)?;
        let is_last = entries.len() <= STEP;
        entries.truncate(STEP);
        Ok(ListingStep {
            directory,
            names: StepNames::Container(entries),
            is_last,
            path: None,
            inside: Some(inside),
        })
    }

    fn inside(&self, version: &Arc<ContainerVersion>, directory: EntryIndex) -> Result<Inside> {
        Ok(Inside {
            version: Arc::clone(version),
            opened: self.fs.live.opener.open(version)?,
            directory,
        })
    }

    /// Names that are kept from the step before, or read now: those in the source that are
    /// `wanted`, and `others`.
    fn names_in_source(
        &self,
        directory: InodeId,
        path: &Path,
        after: Cookie,
        wanted: impl Fn(&OsStr) -> bool,
        others: &[&OsStr],
    ) -> Result<Arc<NameRun>> {
        let anew = after == Cookie::START;
        if !anew && let Some(run) = self.listing_cache.find(directory, after) {
            return Ok(run);
        }
        let moment = self.listing_cache.moment(directory, anew);
        let mut names = RunBuilder::new(after, &self.fs.budget);
        let mut add = |name: &OsStr| names.add(name, FileKind::File);
        others.iter().for_each(|name| add(name));
        self.fs.store.list(path, &mut |Listed { name, kind, .. }| {
            if wanted(name) {
                names.add(name, kind);
            }
        })?;
        let run = Arc::new(names.build()?);
        self.listing_cache.keep(directory, moment, &run);
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::array::prefetch::ReadAheadWorkers;
    use crate::cache::BlockCache;
    use crate::source::local::LocalStore;
    use crate::tree::{Settings, Tree};

    fn tree_of(source: &Path) -> Tree {
        let store = Arc::new(LocalStore::open(source, source).unwrap());
        let cache = BlockCache::new(1 << 20);
        let (root, settings) = (Path::new(""), Settings::default());
        let workers = ReadAheadWorkers::new(1).unwrap();
        Tree::new(store, None, root, cache, workers, settings)
            .unwrap()
            .0
    }

    /// A program that lists the root and takes a few names at a time.
    #[derive(Default)]
    struct Reader {
        at: Option<Cookie>,
        done: bool,
        found: BTreeMap<String, u32>,
    }

    impl Reader {
        fn step(&mut self, tree: &Tree, most: usize) {
            let after = self.at.unwrap_or(Cookie::START);
            let step = tree.listing.list(InodeId::ROOT, after).unwrap();
            let names = step.names();
            self.done = step.is_last() && names.len() <= most;
            for (at, name) in names.into_iter().take(most) {
                *self
                    .found
                    .entry(name.to_str().unwrap().to_owned())
                    .or_default() += 1;
                self.at = Some(at);
            }
        }
    }

    fn write(directory: &Path, name: &str) {
        std::fs::write(directory.join(name), "").unwrap();
    }

    /// More readers than listings could be remembered for, in a directory where names come, go and
    /// are replaced between any two of their steps.
    #[test]
    fn every_name_that_stays_is_listed_once_by_everybody() {
        let source = tempfile::tempdir().unwrap();
        for number in 0..300 {
            write(source.path(), &format!("stays-{number}"));
            write(source.path(), &format!("goes-{number}"));
        }
        let tree = tree_of(source.path());
        let mut readers: Vec<Reader> = (0..40).map(|_| Reader::default()).collect();
        for round in 0.. {
            for (number, reader) in readers.iter_mut().enumerate() {
                // They begin one after the other, and go at different paces.
                if round >= number && !reader.done {
                    reader.step(&tree, 5 + number);
                }
            }
            if readers.iter().all(|reader| reader.done) {
                break;
            }
            let _ = std::fs::remove_file(source.path().join(format!("goes-{round}")));
            write(source.path(), &format!("comes-{round}"));
            write(source.path(), "new");
            let replaced = source.path().join(format!("stays-{}", round % 300));
            std::fs::rename(source.path().join("new"), replaced).unwrap();
        }
        for reader in &readers {
            for number in 0..300 {
                let name = format!("stays-{number}");
                assert_eq!(reader.found.get(&name), Some(&1), "{name}");
            }
            assert!(reader.found.values().all(|times| *times == 1));
        }
    }

    #[test]
    fn a_long_listing_takes_several_steps() {
        let source = tempfile::tempdir().unwrap();
        (0..2 * STEP).for_each(|number| write(source.path(), &number.to_string()));
        let tree = tree_of(source.path());
        let first = tree.listing.list(InodeId::ROOT, Cookie::START).unwrap();
        assert!(first.names().len() == STEP && !first.is_last());
        let mut reader = Reader::default();
        while !reader.done {
            reader.step(&tree, usize::MAX);
        }
        assert_eq!(reader.found.len(), 2 * STEP);
    }

    #[test]
    fn a_listing_shows_what_was_there_before_it_began() {
        let source = tempfile::tempdir().unwrap();
        (0..50).for_each(|number| write(source.path(), &format!("old-{number}")));
        let tree = tree_of(source.path());
        let mut early = Reader::default();
        early.step(&tree, 10);
        (0..50).for_each(|number| write(source.path(), &format!("new-{number}")));
        let mut late = Reader::default();
        while !late.done || !early.done {
            early.step(&tree, 10);
            late.step(&tree, 10);
        }
        assert_eq!(late.found.len(), 100);
        assert!((0..50).all(|number| early.found.contains_key(&format!("old-{number}"))));
    }
}
