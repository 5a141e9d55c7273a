//! What the parts of `live` stand on: the source, the disk through which it is changed, the cache,
//! the places of containers, and how all that is set.
//!
//! Knows no container: it says where one lies, and how that is told. Held by the parts of
//! [`super::Containers`], and by nothing that a task of the background has: it would wait for its
//! own thread if it were the last to let go.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::places::{ContainerId, Places};
use super::settings::ContainerSettings;
use super::version::ContainerVersion;
use crate::cache::{BlockCache, VersionId};
use crate::commit::Spot;
use crate::commit::new_container::NewContainerPlace;
use crate::container::creation::Creation;
use crate::disk::{Caller, Disk, NewAttributes, Target};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::processors::processors;
use crate::source::{FileId, Store};
use crate::workers::WorkerThreads;

pub(crate) struct Ground {
    pub(crate) store: Arc<dyn Store>,
    /// The disk through which the source is changed; without one containers are only read.
    pub(crate) disk: Option<Arc<dyn Disk>>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) places: Arc<dyn Places>,
    pub(crate) settings: ContainerSettings,
    background: Option<WorkerThreads>,
}

/// Tasks that wait for each background thread at most: more are better left to a commit, which has
/// all cores.
const WAITING_EACH: usize = 2;

fn background() -> WorkerThreads {
    WorkerThreads::as_many("background", processors(), processors() * WAITING_EACH)
}

impl Ground {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        disk: Option<Arc<dyn Disk>>,
        cache: Arc<BlockCache>,
        places: Arc<dyn Places>,
        settings: ContainerSettings,
    ) -> Ground {
        let background = disk.is_some().then(background);
        Ground {
            store,
            disk,
            cache,
            places,
            settings,
            background,
        }
    }

    pub(crate) fn writable(&self) -> Result<&dyn Disk> {
        self.disk.as_deref().ok_or(Error::ReadOnly)
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        self.cache.budget()
    }

    /// Where a file lies that is a container, or belongs to one.
    pub(crate) fn spot(&self, path: &Path) -> Result<Spot> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().ok_or(Error::Unsuitable)?;
        Ok(Spot {
            id: self.store.stat(directory)?.id,
            directory: directory.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Where a new container is written, under a hidden name, as long as `go_on` says so.
    pub(crate) fn new_place<'a>(
        &'a self,
        (spot, creation): (&'a Spot, &dyn Creation),
        owner: Caller,
        go_on: &'a dyn Fn() -> bool,
    ) -> Result<NewContainerPlace<'a>> {
        Ok(NewContainerPlace {
            disk: self.writable()?,
            store: &self.store,
            spot,
            layout: creation.layout(),
            owner,
            go_on,
        })
    }

    /// Returns when a file or directory is on the disk.
    pub(crate) fn sync(&self, path: &Path, id: FileId) -> Result<()> {
        let disk = self.writable()?;
        disk.sync(Target::Named { path, id }, false)
    }

    pub(crate) fn set_attributes(&self, path: &Path, id: FileId, to: &NewAttributes) -> Result<()> {
        let disk = self.writable()?;
        disk.set_attributes(Target::Named { path, id }, to)
    }

    /// Where a container lay when it was looked up last: for messages.
    pub(crate) fn known_path(&self, id: ContainerId) -> PathBuf {
        self.places.known_path(id).unwrap_or_default()
    }

    /// Where a container lay when it was looked up last, as users spell it.
    pub(crate) fn shown_path(&self, id: ContainerId) -> PathBuf {
        self.store.display(&self.known_path(id))
    }

    /// An error that a container met, as a line of the log.
    pub(crate) fn told(&self, id: ContainerId, e: &Error) -> String {
        e.told_of(&self.shown_path(id), "")
    }

    /// Another process has changed what lies at this path.
    pub(crate) fn changed(&self, path: &Path) -> Error {
        let path = self.store.display(path);
        Error::Changed { path }
    }

    /// Whether a container has no name any more: it was removed, or replaced.
    pub(crate) fn is_removed(&self, version: &ContainerVersion) -> bool {
        self.places.is_removed(version.container)
    }

    /// Runs `work`, again if it finds nothing and a directory has been moved meanwhile.
    pub(crate) fn retry<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        done_by(|work| self.places.retry(work), work)
    }

    /// Runs `work`, again if it finds nothing and a directory has been moved meanwhile, for a
    /// caller that may hold locks that a move waits for.
    pub(crate) fn retry_briefly<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        done_by(|work| self.places.retry_briefly(work), work)
    }

    /// Has a thread of the background carry out a task, which is dropped where none takes it up.
    /// Says whether one does.
    pub(crate) fn order(&self, task: impl FnOnce() + Send + 'static) -> bool {
        let workers = self.background.as_ref();
        workers.is_some_and(|workers| workers.order(task))
    }

    /// Frees decoded blocks that a commit has made useless: much work, if there are many.
    pub(crate) fn forget_blocks(&self, of: VersionId) {
        let cache = Arc::clone(&self.cache);
        if !self.order(move || cache.forget(of)) {
            self.cache.forget(of);
        }
    }
}

/// The result of work that `run` carries out.
fn done_by<T>(
    run: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<()>,
    mut work: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut done = None;
    run(&mut || {
        done = Some(work()?);
        Ok(())
    })?;
    done.ok_or_else(|| Error::Bug("nothing was tried".into()))
}
