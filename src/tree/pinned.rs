//! A store that opens the files of one version of a container and no others by their names.
//!
//! Names are not files: between two looks at a name it may have led to another file, which nobody was
//! asked about. So what is opened is compared, not what the name leads to afterwards. Used by `opening`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::version::ContainerVersion;
use crate::error::{Error, Result};
use crate::source::{FileId, FileIdentity, FileKind, Source, Space, Stat, Store};

pub(super) struct Pinned {
    store: Arc<dyn Store>,
    files: Vec<(PathBuf, FileIdentity)>,
}

impl Pinned {
    /// The files of `version`, which lies at `path`, and whatever else is in `store`.
    pub(super) fn new(store: &Arc<dyn Store>, version: &ContainerVersion, path: &Path) -> Pinned {
        let identity = version.identity();
        let own = (path.to_owned(), identity.file());
        let companions = version.recognised.companions(path);
        let files = companions.zip(identity.companions());
        Pinned {
            store: Arc::clone(store),
            files: std::iter::once(own)
                .chain(files)
                .filter_map(|(path, file)| Some((path, file?)))
                .collect(),
        }
    }
}

impl Store for Pinned {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let source = self.store.open(path)?;
        let pinned = self.files.iter().find(|(of, _)| of == path);
        if pinned.is_some_and(|(_, identity)| *identity != source.identity()) {
            let path = self.store.display(path);
            return Err(Error::Changed { path });
        }
        Ok(source)
    }

    fn stat(&self, path: &Path) -> Result<Stat> {
        self.store.stat(path)
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(&OsStr, FileKind)) -> Result<()> {
        self.store.list(path, each)
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        self.store.head(path, buf)
    }

    fn read_link(&self, path: &Path) -> Result<OsString> {
        self.store.read_link(path)
    }

    fn space(&self) -> Result<Space> {
        self.store.space()
    }

    fn xattr(&self, path: &Path, file: Option<FileId>, name: &OsStr) -> Result<Vec<u8>> {
        self.store.xattr(path, file, name)
    }

    fn xattr_names(&self, path: &Path, file: Option<FileId>) -> Result<Vec<OsString>> {
        self.store.xattr_names(path, file)
    }

    fn display(&self, path: &Path) -> PathBuf {
        self.store.display(path)
    }
}
