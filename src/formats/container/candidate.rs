//! A file or directory that may be a container: what recognising may look at.
//!
//! Everything is read at most once however many formats look, and only when one does.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::Preferences;
use crate::error::{Error, Result};
use crate::source::{FileKind, Source, Store};

/// Enough for every signature at the start of a file, and behind the user blocks of HDF5 files; a
/// page costs no more than its first bytes.
const HEAD: usize = 4096;

pub struct Candidate<'a> {
    pub store: &'a dyn Store,
    pub path: &'a Path,
    pub kind: FileKind,
    pub preferences: Preferences,
    head: OnceCell<Vec<u8>>,
    further: OnceCell<Arc<dyn Source>>,
}

impl<'a> Candidate<'a> {
    pub fn new(
        store: &'a dyn Store,
        path: &'a Path,
        kind: FileKind,
        preferences: Preferences,
    ) -> Self {
        Candidate {
            store,
            path,
            kind,
            preferences,
            head: OnceCell::new(),
            further: OnceCell::new(),
        }
    }

    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }

    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    pub fn extension(&self) -> Option<&OsStr> {
        self.path.extension()
    }

    /// The first bytes of the file.
    pub fn head(&self) -> Result<&[u8]> {
        if self.head.get().is_none() {
            let _ = self.head.set(self.read(self.path, HEAD)?);
        }
        Ok(self.head.get().map_or(&[], Vec::as_slice))
    }

    /// The first bytes of a file in the directory; none if there is no such file.
    pub fn member_head(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>> {
        match self.read(&self.path.join(name), most) {
            Ok(head) => Ok(Some(head)),
            // A directory, a link, a pipe, a device or a secret is not what makes a container; a
            // shortage of descriptors or a failing disk must not be taken for that.
            Err(e) if is_no_file(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether the directory has a file of this name, or a link that may lead to one.
    pub fn has_member(&self, name: &str) -> Result<bool> {
        match self.store.stat(&self.path.join(name)) {
            Ok(stat) => Ok(matches!(stat.kind, FileKind::File | FileKind::Symlink)),
            Err(e) if is_no_file(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Bytes further on in the file; none if it ends before.
    pub fn bytes_at(&self, offset: u64, len: usize) -> Result<Option<Vec<u8>>> {
        if self.further.get().is_none() {
            let _ = self.further.set(self.store.open(self.path)?);
        }
        let Some(source) = self.further.get() else {
            return Ok(None);
        };
        let mut bytes = vec![0; len];
        let read = source.read(offset, &mut bytes)?;
        Ok((read == len).then_some(bytes))
    }

    fn read(&self, path: &Path, most: usize) -> Result<Vec<u8>> {
        let mut head = vec![0; most];
        let n = self.store.head(path, &mut head)?;
        head.truncate(n);
        Ok(head)
    }
}

/// Whether there is nothing to read there, rather than that reading failed.
pub(super) fn is_no_file(error: &Error) -> bool {
    use libc::{EACCES, EINVAL, EISDIR, ELOOP, ENOENT, ENOTDIR, ENXIO, EPERM, ESPIPE};
    // A pipe has no bytes at a place.
    let no_file = [
        ENOENT, ENOTDIR, EISDIR, ELOOP, EINVAL, ENXIO, EACCES, EPERM, ESPIPE,
    ];
    match error {
        Error::NotFound | Error::NotADirectory | Error::IsADirectory => true,
        Error::Io { cause, .. } => {
            let code = cause.raw_os_error();
            code.is_some_and(|code| no_file.contains(&code))
        }
        _ => false,
    }
}
