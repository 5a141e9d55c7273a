//! Which files of containers programs have open as `views/stored`: to them a commit is what it is
//! to readers of the source.
//!
//! A program of HDF5 keeps in memory where chunks lie, so that a file which it has open is not
//! changed in place. Who opens one while it is being changed finds another version. Each
//! handle holds a reader. Used by [`super::entry`], and by `live::committing`.

use std::collections::HashMap;
use std::sync::Arc;

use super::open_container::OpenContainer;
use super::open_entry::{OpenContent, OpenEntry};
use crate::error::Result;
use crate::live::ground::Ground;
use crate::live::opening::pinned::pinned;
use crate::live::version::ContainerVersion;
use crate::source::FileId;
use crate::sync::{Mutex, MutexGuard};

/// Of all containers of a mount.
#[derive(Default)]
pub(crate) struct StoredReaders(Mutex<HashMap<FileId, usize>>);

/// A handle that has a file open, until it is dropped.
pub(crate) struct StoredReader {
    of: Arc<StoredReaders>,
    file: FileId,
}

impl StoredReaders {
    fn open(self: &Arc<Self>, file: FileId) -> StoredReader {
        *self.lock().entry(file).or_default() += 1;
        StoredReader {
            of: Arc::clone(self),
            file,
        }
    }

    /// The file that a container is, as it is stored now.
    pub(crate) fn open_stored(
        self: &Arc<Self>,
        ground: &Ground,
        version: &ContainerVersion,
        opened: Arc<OpenContainer>,
    ) -> Result<OpenEntry> {
        let path = ground.places.path(version.container)?;
        let source = pinned(ground, version, &path).open(&path)?;
        let reader = self.open(source.stat()?.id);
        Ok(OpenEntry::new(OpenContent::Stored(source, reader), opened))
    }

    pub(crate) fn has(&self, file: &FileId) -> bool {
        self.lock().contains_key(file)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FileId, usize>> {
        self.0.lock()
    }
}

impl Drop for StoredReader {
    fn drop(&mut self) {
        let mut files = self.of.lock();
        if let Some(handles) = files.get_mut(&self.file) {
            *handles -= 1;
            if *handles == 0 {
                files.remove(&self.file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_open_as_long_as_one_handle_has_it() {
        let readers = Arc::new(StoredReaders::default());
        let [one, other] = [1, 2].map(|inode| FileId {
            inode,
            ..FileId::default()
        });
        let (first, second) = (readers.open(one), readers.open(one));
        drop(first);
        assert!(readers.has(&one) && !readers.has(&other));
        drop(second);
        assert!(!readers.has(&one));
    }
}
