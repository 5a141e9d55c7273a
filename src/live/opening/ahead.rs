//! Opening a container as a commit in place is about to make it.
//!
//! Readers wait while the files are changed, and not for the container to be opened again: that has
//! been done before, through the log. Faults that the commit would make are found before anything
//! is changed, too: a container with faults is not made. Used by `committing::publish`.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::pinned::pinned;
use crate::cache::VersionId;
use crate::commit::FutureFile;
use crate::error::{Error, Result};
use crate::live::Containers;
use crate::live::shown::open_container::OpenContainer;
use crate::live::staged::lock;
use crate::live::version::ContainerVersion;
use crate::source::Store;
use crate::source::passing::Passing;
use crate::source::switched::SwitchedSource;

/// A container as it is going to be.
pub(crate) struct OpenedAhead {
    opened: Arc<OpenContainer>,
    blocks: VersionId,
    /// Its files that are changed.
    files: Arc<FutureFiles>,
}

type FutureFiles = Mutex<Vec<(FutureFile, Arc<SwitchedSource>)>>;

impl OpenedAhead {
    /// Under which its blocks are cached.
    pub(crate) fn blocks(&self) -> VersionId {
        self.blocks
    }
}

impl Containers {
    /// Opens a container of which these files are about to be changed.
    pub(crate) fn open_ahead(
        &self,
        version: &ContainerVersion,
        files: &[FutureFile],
    ) -> Result<OpenedAhead> {
        let path = self.places.path(version.container)?;
        let (ahead, budget) = (Arc::<FutureFiles>::default(), self.cache.budget());
        let store = self.future_store(version, &path, (files, &ahead))?;
        let container = version.recognised.open_as_told(&store, &path, budget)?;
        if let Some(fault) = container.faults.first() {
            return Err(fault.clone().into());
        }
        let is_file = version.recognised.format.members().is_empty();
        let stored = is_file.then(|| files.first().map_or(0, |file| file.len));
        let blocks = self.versions.next_id();
        let at = (self.store.display(&path), blocks);
        let opened = OpenContainer::of(version, at, (container, stored), budget)?;
        Ok(OpenedAhead {
            opened: Arc::new(opened),
            blocks,
            files: ahead,
        })
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
        Ok(Arc::new(Passing::new(&below, move |path, stored| {
            let mut files = files.iter();
            let Some(file) = files.find(|file| directory.join(&file.name) == path) else {
                return stored;
            };
            let source = Arc::new(SwitchedSource::new(file.over(stored)?));
            lock(&ahead).push((file.clone(), Arc::clone(&source)));
            Ok(source)
        })))
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
        for (file, source) in &*lock(&ahead.files) {
            let now = store.open(&directory.join(&file.name))?;
            // Another process may have changed it at the very same time.
            if !file.is(&now.identity()) {
                return self.reopen_version(version, path);
            }
            source.switch(now);
        }
        self.take_for_opened(version, &ahead.opened);
        Ok(Arc::clone(&ahead.opened))
    }
}
