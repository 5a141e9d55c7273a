//! Opening a container as a commit is about to make it.
//!
//! Readers wait while the files are changed, and not for the container to be opened again: that has
//! been done before, through the log, or from the new files. Faults that the commit would make are
//! found before anything is changed, too: a container with faults is not made. Used by
//! `committing::publish`.

use std::path::Path;
use std::sync::Arc;

use super::pinned::{files_at, pinned};
use crate::cache::VersionId;
use crate::commit::FutureFile;
use crate::container::rewrite::Successor;
use crate::error::{Error, Fault, Result};
use crate::live::Containers;
use crate::live::shown::open_container::OpenContainer;
use crate::live::version::ContainerVersion;
use crate::source::switched::{Handover, SwitchedSource};
use crate::source::wrapping::WrappingStore;
use crate::source::{Identity, SourceIdentity, Store};
use crate::sync::Mutex;

/// A container as it is going to be.
pub(crate) struct OpenedAhead {
    opened: Arc<OpenContainer>,
    blocks: VersionId,
    /// The container before.
    before: Identity,
    /// Its files that are changed.
    files: Arc<FutureFiles>,
}

/// In the order of [`files_at`].
fn all_of(identity: &Identity) -> impl Iterator<Item = Option<SourceIdentity>> {
    std::iter::once(identity.file()).chain(identity.companions())
}

type FutureFiles = Mutex<Vec<(FutureFile, Handover)>>;

impl OpenedAhead {
    /// Under which its blocks are cached.
    pub(crate) fn blocks(&self) -> VersionId {
        self.blocks
    }

    /// It is not shown: what it shares with the container before is that one's again.
    pub(crate) fn take_back(&self) {
        for (_, handover) in &*self.files.lock() {
            handover.take_back();
        }
    }
}

impl Containers {
    /// Opens a container of which these files are about to be changed or replaced. `base`: as it is
    /// before.
    pub(crate) fn open_ahead(
        &self,
        version: &ContainerVersion,
        base: &OpenContainer,
        files: &[FutureFile],
    ) -> Result<OpenedAhead> {
        let path = self.places.path(version.container)?;
        let (before, ahead) = (version.identity(), Arc::<FutureFiles>::default());
        let budget = self.cache.budget();
        let (container, changed) = match self.succeed(version, (base, &path), files)? {
            Some(successor) => {
                let handed = files.iter().cloned().zip([successor.handover]);
                ahead.lock().extend(handed);
                (successor.container, successor.changed)
            }
            None => {
                let store = self.future_store(version, &path, (files, &ahead))?;
                (version.recognised.open(&store, &path, budget)?, None)
            }
        };
        let shown = self.store.display(&path);
        if let Some(fault) = container.faults.first() {
            return Err(fault.clone().container(&shown).into());
        }
        let is_file = version.recognised.layout().is_file();
        let stored = files.first().filter(|_| is_file).map(|file| file.len);
        let blocks = self.versions.next_id();
        let at = (shown, blocks);
        let opened = match changed {
            Some(changed) => base.succeeded(at, (container, &changed), stored, budget)?,
            None => OpenContainer::of(version, at, (container, stored), budget)?,
        };
        Ok(OpenedAhead {
            opened: Arc::new(opened),
            blocks,
            before,
            files: ahead,
        })
    }

    /// What the format knows by itself of a container that is one file.
    fn succeed(
        &self,
        version: &ContainerVersion,
        (base, path): (&OpenContainer, &Path),
        files: &[FutureFile],
    ) -> Result<Option<Successor>> {
        let is_file = version.recognised.layout().is_file();
        let (Some(rewrite), [file], true) = (base.rewrite(), files, is_file) else {
            return Ok(None);
        };
        let store = pinned(&self.store, version, path, self.at_path(version));
        let future = file.over(store.open(path))?;
        let succeeded = rewrite.succeed(base.outermost()?, &future, self.cache.budget());
        let shown = self.store.display(path);
        let named = |fault: Fault| fault.container(&shown);
        succeeded.map_err(|e| e.of_container(&shown).map_fault(named))
    }

    /// The version's files, and those that are about to be changed as they are going to be; these
    /// are put into `ahead`.
    fn future_store(
        &self,
        version: &ContainerVersion,
        path: &Path,
        (files, ahead): (&[FutureFile], &Arc<FutureFiles>),
    ) -> Result<Arc<dyn Store>> {
        let (directory, _) = version
            .recognised
            .first_file(path)
            .ok_or(Error::Unsuitable)?;
        let (files, ahead) = (files.to_vec(), Arc::clone(ahead));
        let below = pinned(&self.store, version, path, self.at_path(version));
        Ok(Arc::new(WrappingStore::new(&below, move |path, stored| {
            let mut files = files.iter();
            let Some(file) = files.find(|file| directory.join(&file.name) == path) else {
                return stored;
            };
            let source = Arc::new(SwitchedSource::new(file.over(stored)?));
            ahead.lock().push((file.clone(), Handover::of(&source)));
            Ok(source)
        })))
    }

    /// Whether a file is another one than when the container was opened ahead, and none that the
    /// commit has changed.
    fn others_changed(&self, version: &ContainerVersion, path: &Path, ahead: &OpenedAhead) -> bool {
        let changed = ahead.files.lock();
        let is_changed = |of: &Path| {
            let name = of.file_name();
            changed.iter().any(|(file, _)| Some(&*file.name) == name)
        };
        let now = version.identity();
        files_at(&version.recognised, path)
            .zip(all_of(&ahead.before).zip(all_of(&now)))
            .any(|(path, (before, now))| before != now && !is_changed(&path))
    }

    /// The container that was opened ahead is the version now: its files have become as foreseen.
    pub(crate) fn open_as_ahead(
        &self,
        version: &ContainerVersion,
        path: &Path,
        ahead: &OpenedAhead,
    ) -> Result<Arc<OpenContainer>> {
        let first = version.recognised.first_file(path);
        let (directory, _) = first.ok_or(Error::Unsuitable)?;
        let store = pinned(&self.store, version, path, self.at_path(version));
        if self.others_changed(version, path, ahead) {
            return self.reopen_version(version, path);
        }
        for (file, handover) in &*ahead.files.lock() {
            let now = store.open(&directory.join(&file.name))?;
            // Another process may have changed it at the very same time.
            if !file.is(&now.identity()) {
                return self.reopen_version(version, path);
            }
            handover.hand_over(now);
        }
        self.take_for_opened(version, &ahead.opened);
        Ok(Arc::clone(&ahead.opened))
    }
}
