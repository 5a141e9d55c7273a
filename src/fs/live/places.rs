//! What [`super::Containers`] asks of the tree that shows containers: where they lie, whether they
//! are in use, and to forget what no longer holds.
//!
//! Assumes that a place is asked for whenever it is needed: a container, or a directory above it,
//! may be moved at any moment. Implemented by `tree::places`, and by [`super::unmounted`] for one
//! container that no mount shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::container::LiveContainer;
use super::shown::entry_table::EntryIndex;
use super::writing::replacing::OldPages;
use crate::cache::VersionId;
use crate::error::Result;
use crate::source::{FileId, Stat};
use crate::sync::RwLockReadGuard;

/// A container, whatever its name and place are by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerId(pub u64);

/// Where containers are shown.
pub trait Places: Send + Sync {
    /// NotFound if it has been forgotten, and NotADirectory if it is no container any more.
    fn container(&self, id: ContainerId) -> Result<Arc<LiveContainer>>;

    /// Where it lies now: never in a directory that has taken the place of its own.
    fn path(&self, id: ContainerId) -> Result<PathBuf>;

    /// Where it lay when it was looked up, which costs no look at the source.
    fn known_path(&self, id: ContainerId) -> Result<PathBuf>;

    /// Whether it has no name any more: it was removed, or replaced.
    fn is_removed(&self, id: ContainerId) -> bool;

    /// Nothing is moved before this is dropped.
    fn pin(&self) -> RwLockReadGuard<'_, ()>;

    /// [`Places::pin`], unless something is being moved right now.
    fn try_pin(&self) -> Option<RwLockReadGuard<'_, ()>>;

    /// How many moves there have been.
    fn moves(&self) -> u64;

    /// Runs `work`, again if it finds nothing and something has been moved meanwhile.
    fn retry(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()>;

    /// [`Places::retry`] for a caller that may hold locks that a move waits for: it waits for a
    /// move only a moment.
    fn retry_briefly(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()>;

    /// Whether something in it is open.
    fn is_in_use(&self, id: ContainerId) -> bool;

    /// Whether an array of a version is open for writing.
    fn is_open_for_writing(&self, version: VersionId) -> bool;

    /// Whether a file was made or written where the containers are shown.
    fn has_written(&self, file: FileId) -> bool;

    /// Keeps it from being forgotten, until it is let go as often. A container that is forgotten
    /// then is returned.
    fn hold(&self, id: ContainerId);
    fn let_go(&self, id: ContainerId) -> Option<Arc<LiveContainer>>;

    /// Names, attributes or pages of it that have been shown do not hold any more.
    fn forget(&self, id: ContainerId, what: Forget<'_>);

    /// A draft of a new container has been removed, from that path in it; `id` is none if the
    /// kernel has no inode of it.
    fn draft_removed(&self, id: Option<ContainerId>, path: &Path, stat: &Stat);

    /// Runs `exchange` while nothing is moved. If it returns a directory, that is an ordinary one
    /// from then on.
    fn exchanged(
        &self,
        id: ContainerId,
        exchange: &mut dyn FnMut() -> Result<Option<Stat>>,
    ) -> Result<()>;
}

/// The parts of a container that are to be forgotten.
pub enum Forget<'a> {
    /// The names in its directory, and all of this version.
    Entries(Option<VersionId>),
    /// The attributes of the entries of a version.
    Attributes(VersionId),
    /// Of each entry of a version, what the function returns.
    Stale(VersionId, &'a dyn Fn(EntryIndex) -> Stale),
}

/// The part of an entry that does not hold any more.
pub enum Stale {
    Nothing,
    Attributes,
    /// The kernel's pages; the value is dropped when these have gone.
    Pages(Option<Arc<OldPages>>),
}
