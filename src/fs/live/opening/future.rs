//! Opening a container as a commit is about to make it.
//!
//! Readers wait while the files are changed, and not for the container to be opened again: that has
//! been done before, through the log, or from the new files. Faults that the commit would make are
//! found before anything is changed, too: a container with faults is not made. Used by
//! `committing::publish`.

use std::path::Path;
use std::sync::Arc;

use super::opener::Opener;
use super::pinned::{files_at, pinned};
use crate::cache::VersionId;
use crate::commit::FutureFile;
use crate::container::writable::Successor;
use crate::error::{Error, Fault, Result};
use crate::live::ground::Ground;
use crate::live::shown::open_container::OpenContainer;
use crate::live::version::ContainerVersion;
use crate::live::versions::Versions;
use crate::source::switched::{Handover, SwitchedSource};
use crate::source::wrapping::WrappingStore;
use crate::source::{Identity, SourceIdentity, Store};
use crate::sync::Mutex;

/// A container as it is going to be.
pub(crate) struct FutureContainer {
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

impl FutureContainer {
    /// Under which its blocks are cached.
    pub(crate) fn blocks(&self) -> VersionId {
        self.blocks
    }

    /// Whether a file is another one than when the container was opened ahead, and none that the
    /// commit has changed.
    fn others_changed(&self, version: &ContainerVersion, path: &Path) -> bool {
        let changed = self.files.lock();
        let is_changed = |of: &Path| {
            let name = of.file_name();
            changed.iter().any(|(file, _)| Some(&*file.name) == name)
        };
        let now = version.identity();
        files_at(&version.recognised, path)
            .zip(all_of(&self.before).zip(all_of(&now)))
            .any(|(path, (before, now))| before != now && !is_changed(&path))
    }

    /// It is not shown: what it shares with the container before is that one's again.
    pub(crate) fn take_back(&self) {
        for (_, handover) in &*self.files.lock() {
            handover.take_back();
        }
    }
}

/// Opens containers as commits are about to make them.
pub(crate) struct FutureOpener {
    pub(crate) ground: Arc<Ground>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) opener: Arc<Opener>,
}

impl FutureOpener {
    /// Opens a container of which these files are about to be changed or replaced. `base`: as it is
    /// before.
    pub(crate) fn open(
        &self,
        version: &ContainerVersion,
        base: &OpenContainer,
        files: &[FutureFile],
    ) -> Result<FutureContainer> {
        let path = self.ground.places.path(version.container)?;
        let (before, future) = (version.identity(), Arc::<FutureFiles>::default());
        let budget = self.ground.budget();
        let (container, changed) = match self.succeed(version, (base, &path), files)? {
            Some(successor) => {
                let handed = files.iter().cloned().zip([successor.handover]);
                future.lock().extend(handed);
                (successor.container, successor.changed)
            }
            None => {
                let store = self.future_store(version, &path, (files, &future))?;
                (version.recognised.open(&store, &path, budget)?, None)
            }
        };
        let shown = self.ground.store.display(&path);
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
        Ok(FutureContainer {
            opened: Arc::new(opened),
            blocks,
            before,
            files: future,
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
        let (Some(writable), [file], true) = (base.writable(), files, is_file) else {
            return Ok(None);
        };
        let store = pinned(&self.ground, version, path);
        let future = file.over(store.open(path))?;
        let succeeded = writable.succeed(base.outermost()?, &future, self.ground.budget());
        let shown = self.ground.store.display(path);
        let named = |fault: Fault| fault.container(&shown);
        succeeded.map_err(|e| e.of_container(&shown).map_fault(named))
    }

    /// The version's files, and those that are about to be changed as they are going to be; these
    /// are put into `future`.
    fn future_store(
        &self,
        version: &ContainerVersion,
        path: &Path,
        (files, future): (&[FutureFile], &Arc<FutureFiles>),
    ) -> Result<Arc<dyn Store>> {
        let (directory, _) = version
            .recognised
            .first_file(path)
            .ok_or(Error::Unsuitable)?;
        let (files, future) = (files.to_vec(), Arc::clone(future));
        let below = pinned(&self.ground, version, path);
        Ok(Arc::new(WrappingStore::new(&below, move |path, stored| {
            let mut files = files.iter();
            let Some(file) = files.find(|file| directory.join(&file.name) == path) else {
                return stored;
            };
            let source = Arc::new(SwitchedSource::new(file.over(stored)?));
            future.lock().push((file.clone(), Handover::of(&source)));
            Ok(source)
        })))
    }

    /// The container that was opened ahead is the version now: its files have become as foreseen.
    pub(crate) fn open_as_foreseen(
        &self,
        version: &ContainerVersion,
        path: &Path,
        future: &FutureContainer,
    ) -> Result<Arc<OpenContainer>> {
        let first = version.recognised.first_file(path);
        let (directory, _) = first.ok_or(Error::Unsuitable)?;
        let store = pinned(&self.ground, version, path);
        if future.others_changed(version, path) {
            return self.opener.reopen(version, path);
        }
        for (file, handover) in &*future.files.lock() {
            let now = store.open(&directory.join(&file.name))?;
            // Another process may have changed it at the very same time.
            if !file.is(&now.identity()) {
                return self.opener.reopen(version, path);
            }
            handover.hand_over(now);
        }
        self.opener.take(version, &future.opened);
        Ok(Arc::clone(&future.opened))
    }
}
