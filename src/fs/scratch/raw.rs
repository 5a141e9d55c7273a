//! Files that lay in the store before it was mounted: shown and written as they are.
//!
//! One that a program cuts to nothing is written anew, so from then on it is stored like any other:
//! it gets the name of a packed file, and keeps its inode. All its handles change over at that
//! moment. Uses [`super::handles`] for those; used by [`super::store`] and [`super::disk`], which
//! open such files.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use super::file::ScratchFile;
use super::files::ScratchFiles;
use super::handles::{ScratchReader, ScratchWriter};
use super::names;
use crate::disk::{Allocation, Caller, DiskFile, Place, Putting, Renaming};
use crate::error::{Error, Result};
use crate::source::{Fetch, FileId, PosixFile, Source, SourceIdentity, Stat};
use crate::sync::{Mutex, RwLock, RwLockReadGuard};

/// A raw file that somebody has open: none until it is packed. Who works on the raw bytes holds it
/// shared meanwhile.
#[derive(Default)]
pub(super) struct RawFile(RwLock<Option<Arc<ScratchFile>>>);

impl RawFile {
    fn packed(&self) -> RwLockReadGuard<'_, Option<Arc<ScratchFile>>> {
        self.0.read()
    }
}

/// All that are open.
#[derive(Default)]
pub(super) struct RawFiles(Mutex<HashMap<FileId, Weak<RawFile>>>);

impl RawFiles {
    pub(super) fn of(&self, id: FileId) -> Arc<RawFile> {
        let mut all = self.0.lock();
        if let Some(known) = all.get(&id).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, file| file.strong_count() > 0);
        let file = Arc::default();
        all.insert(id, Arc::downgrade(&file));
        file
    }
}

/// A raw file that is open for reading.
pub(super) struct RawReader {
    raw: Arc<dyn Source>,
    file: Arc<RawFile>,
    packed: OnceLock<ScratchReader>,
}

impl RawReader {
    pub(super) fn new(raw: Arc<dyn Source>, file: Arc<RawFile>) -> RawReader {
        let packed = OnceLock::new();
        RawReader { raw, file, packed }
    }
}

/// One that is open for writing.
pub(super) struct RawWriter {
    raw: Arc<dyn DiskFile>,
    file: Arc<RawFile>,
    packed: OnceLock<ScratchWriter>,
    files: Arc<ScratchFiles>,
    /// Where it was stored when it was opened.
    stored: PathBuf,
}

impl RawWriter {
    pub(super) fn new(
        (raw, file): (Arc<dyn DiskFile>, Arc<RawFile>),
        files: &Arc<ScratchFiles>,
        stored: PathBuf,
    ) -> RawWriter {
        RawWriter {
            file,
            raw,
            packed: OnceLock::new(),
            files: Arc::clone(files),
            stored,
        }
    }

    /// Works on the file as it is stored now.
    fn on<T>(&self, work: impl FnOnce(&dyn DiskFile) -> Result<T>) -> Result<T> {
        let packed = self.file.packed();
        match &*packed {
            None => work(&*self.raw),
            Some(file) => work(once(&self.packed, || {
                ScratchWriter::new(Arc::clone(file), Arc::clone(&self.files))
            })?),
        }
    }

    /// Cuts the file to nothing, and has it stored like those of the mount from now on, if that may
    /// be.
    fn empty(&self, caller: Caller) -> Result<()> {
        let mut packed = self.file.0.write();
        if packed.is_none() {
            self.raw.set_len(0, caller)?;
            // Where its directory cannot be changed it stays as it is.
            *packed = self.pack().unwrap_or_else(|e| {
                log::debug!("{}: stays as it is: {e}", self.stored.display());
                None
            });
            return Ok(());
        }
        drop(packed);
        self.on(|file| file.set_len(0, caller))
    }

    fn pack(&self) -> Result<Option<Arc<ScratchFile>>> {
        let stat = self.raw.source().stat()?;
        let (Some(directory), Some(name)) = (self.stored.parent(), self.stored.file_name()) else {
            return Ok(None);
        };
        let inner = &self.files.shared.inner;
        let is_it = |found: Stat| found.id == stat.id;
        let is_there = inner.stat(&self.stored).is_ok_and(is_it);
        let packed = names::packed(names::unescaped(name));
        let is_free = inner.stat(&directory.join(&packed)).is_err();
        let fits = name.len() <= names::LONGEST as usize;
        if !(is_there && is_free && fits && stat.nlink == 1) {
            return Ok(None);
        }
        self.rename(directory, name, &packed)?;
        let path = inner.display(&directory.join(&packed));
        let reader: Arc<dyn Source> = Arc::new(SourceOf(Arc::clone(&self.raw)));
        let opened = ScratchFile::open(&self.files.shared, &path, reader);
        let opened = opened.or_else(|e| {
            self.rename(directory, &packed, name)?;
            Err(e)
        });
        let file = self.files.share(opened?);
        file.set_writer(Arc::clone(&self.raw));
        file.stamp();
        self.files.note_changed(&file);
        Ok(Some(file))
    }

    fn rename(&self, directory: &Path, from: &OsStr, to: &OsStr) -> Result<()> {
        let shared = &self.files.shared;
        let id = shared.inner.stat(directory)?.id;
        let place = |name| Place {
            directory,
            id,
            name,
        };
        let disk = shared.disk()?;
        disk.rename(place(from), place(to), Renaming::NoReplace)
    }
}

/// What is made when it is wanted first.
fn once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    match cell.get() {
        Some(made) => Ok(made),
        None => {
            let made = make()?;
            Ok(cell.get_or_init(|| made))
        }
    }
}

impl DiskFile for RawWriter {
    fn source(&self) -> &dyn Source {
        self
    }

    fn put(&self, offset: u64, bytes: &[u8], how: Putting, caller: Caller) -> Result<usize> {
        self.on(|file| file.put(offset, bytes, how, caller))
    }

    fn set_len(&self, len: u64, caller: Caller) -> Result<()> {
        match len {
            0 => self.empty(caller),
            _ => self.on(|file| file.set_len(len, caller)),
        }
    }

    fn allocate(&self, what: Allocation, caller: Caller) -> Result<()> {
        self.on(|file| file.allocate(what, caller))
    }

    fn copy(&self, from: &dyn Source, range: Range<u64>, to: u64, caller: Caller) -> Result<usize> {
        self.on(|file| file.copy(from, range, to, caller))
    }

    fn flush(&self) -> Result<()> {
        self.on(|file| file.flush())
    }
}

/// A file that is open for writing, to be read.
pub(super) struct SourceOf(pub(super) Arc<dyn DiskFile>);

/// What passes reads on to another source.
pub(super) trait PassesOn: Send + Sync {
    fn read_from<T>(&self, work: impl FnOnce(&dyn Source) -> Result<T>) -> Result<T>;

    /// Of the file as it was opened.
    fn opened(&self) -> &dyn Source;

    /// Lends the descriptor while what it leads to is what programs see.
    fn lend(&self, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        self.opened().posix()?.with_descriptor(with)
    }
}

impl PassesOn for RawReader {
    fn read_from<T>(&self, work: impl FnOnce(&dyn Source) -> Result<T>) -> Result<T> {
        let packed = self.file.packed();
        match &*packed {
            None => work(&*self.raw),
            Some(file) => work(once(&self.packed, || ScratchReader::new(Arc::clone(file)))?),
        }
    }

    fn opened(&self) -> &dyn Source {
        &*self.raw
    }

    fn lend(&self, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        lend_raw(&self.file, &*self.raw, with)
    }
}

impl PassesOn for RawWriter {
    fn read_from<T>(&self, work: impl FnOnce(&dyn Source) -> Result<T>) -> Result<T> {
        self.on(|file| work(file.source()))
    }

    fn opened(&self) -> &dyn Source {
        self.raw.source()
    }

    fn lend(&self, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        lend_raw(&self.file, self.raw.source(), with)
    }
}

fn lend_raw(file: &RawFile, raw: &dyn Source, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
    let packed = file.packed();
    match &*packed {
        None => raw.posix()?.with_descriptor(with),
        Some(_) => Err(Error::Unsupported),
    }
}

impl PassesOn for SourceOf {
    fn read_from<T>(&self, work: impl FnOnce(&dyn Source) -> Result<T>) -> Result<T> {
        work(self.0.source())
    }

    fn opened(&self) -> &dyn Source {
        self.0.source()
    }
}

macro_rules! pass_on {
    ($($each:ty)*) => {$(
        impl Source for $each {
            fn len(&self) -> u64 {
                self.opened().len()
            }

            fn identity(&self) -> SourceIdentity {
                self.opened().identity()
            }

            fn stat(&self) -> Result<Stat> {
                self.read_from(|source| source.stat())
            }

            fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
                self.read_from(|source| source.fetch(ranges))
            }

            fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
                self.read_from(|source| source.read(offset, buf))
            }

            fn stat_opened(&self) -> Result<Stat> {
                self.opened().stat_opened()
            }


            fn as_posix(&self) -> Option<&dyn PosixFile> {
                Some(self)
            }
        }

        impl PosixFile for $each {
            fn xattr(&self, name: &OsStr) -> Result<Vec<u8>> {
                self.opened().posix()?.xattr(name)
            }

            fn xattr_names(&self) -> Result<Vec<OsString>> {
                self.opened().posix()?.xattr_names()
            }

            fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
                self.read_from(|source| source.posix()?.seek(offset, hole))
            }

            fn with_descriptor(&self, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
                self.lend(with)
            }
        }
    )*};
}

pass_on!(RawReader RawWriter SourceOf);
