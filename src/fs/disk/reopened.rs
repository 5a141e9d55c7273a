//! A file that is written, and is open while that is done.
//!
//! Bytes that have not reached the disk are synced before the file is closed: the system reports a
//! failure only to open descriptors. Used by `stage`, for logs, and by `commit`, for new files.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::{Allocation, Caller, Disk, DiskFile, Putting, Target};
use crate::error::{Error, Result};
use crate::source::descriptors::{Reopened, Reopening};
use crate::source::{Fetch, FileId, PosixFile, Source, SourceIdentity, Stat};
use crate::sync::Mutex;

/// Runs what is given with the path by which a file is found now, and again if it is not found
/// because something is moved meanwhile.
pub type AtPath = Arc<dyn Fn(&mut dyn FnMut(&Path) -> Result<()>) -> Result<()> + Send + Sync>;

/// Opens something by the path that it has now.
pub fn opened_at<T>(at: &AtPath, open: impl Fn(&Path) -> Result<T>) -> Result<T> {
    let mut opened = None;
    at(&mut |path| {
        opened = Some(open(path)?);
        Ok(())
    })?;
    opened.ok_or_else(|| Error::Bug("nothing was opened".into()))
}

pub struct ReopenedFile {
    file: Arc<Reopened<FileOpener>>,
    /// When it was opened for the first time.
    identity: SourceIdentity,
    /// If it is not to be closed any more.
    kept: OnceLock<Arc<dyn DiskFile>>,
}

/// What is done with a file when it has been opened, and before it is closed.
#[derive(Clone, Copy)]
pub struct Hooks {
    pub opened: fn(&dyn DiskFile) -> Result<()>,
    pub closing: fn(&dyn DiskFile),
}

impl Hooks {
    pub const NONE: Hooks = Hooks {
        opened: |_| Ok(()),
        closing: |_| {},
    };
}

struct FileOpener {
    disk: Arc<dyn Disk>,
    at: Mutex<AtPath>,
    id: FileId,
    hooks: Hooks,
    /// Something that was written may never reach the disk.
    failed: AtomicBool,
    /// It is not written any more: the hooks are done with.
    is_ended: AtomicBool,
}

impl Reopening for FileOpener {
    type File = dyn DiskFile;

    fn open(&self) -> Result<Arc<dyn DiskFile>> {
        let at = self.at.lock();
        let now = Arc::clone(&at);
        drop(at);
        let file = opened_at(&now, |path| self.disk.open(path, self.id))?;
        if !self.is_ended.load(Ordering::Acquire) {
            (self.hooks.opened)(&*file)?;
        }
        Ok(file)
    }

    fn may_close(&self, file: &(dyn DiskFile + 'static)) -> bool {
        let synced = self.disk.sync(Target::Open(file.source()), true);
        match &synced {
            Ok(()) => (self.hooks.closing)(file),
            Err(e) => {
                log::debug!("a file stays open: {e}");
                self.failed.store(true, Ordering::Release);
            }
        }
        synced.is_ok()
    }
}

impl ReopenedFile {
    /// `file` has been opened, and is found by `at` when it is opened again.
    pub fn new(
        disk: &Arc<dyn Disk>,
        at: AtPath,
        file: Arc<dyn DiskFile>,
        hooks: Hooks,
    ) -> Result<Arc<ReopenedFile>> {
        (hooks.opened)(&*file)?;
        let identity = file.source().identity();
        let opener = FileOpener {
            disk: Arc::clone(disk),
            at: Mutex::new(at),
            id: file.source().id(),
            hooks,
            failed: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
        };
        Ok(Arc::new(ReopenedFile {
            file: Reopened::new(opener, file),
            identity,
            kept: OnceLock::new(),
        }))
    }

    fn open(&self) -> Result<Arc<dyn DiskFile>> {
        self.file.get()
    }

    /// It lies there from now on.
    pub fn lies_at(&self, at: AtPath) {
        let opener = self.file.how();
        *opener.at.lock() = at;
    }

    /// It is losing its name, and stays open as long as this lives.
    pub fn keep_open(&self) -> Result<()> {
        let file = self.open()?;
        self.kept.get_or_init(|| file);
        Ok(())
    }

    /// It is going to be read at most.
    pub fn end(&self) {
        let opener = self.file.how();
        let was_ended = opener.is_ended.swap(true, Ordering::AcqRel);
        if let Some(file) = self.file.if_open().filter(|_| !was_ended) {
            (opener.hooks.closing)(&*file);
        }
    }

    /// Whether what was written since this was last asked may never reach the disk, which the
    /// system reported when it was to be closed.
    pub fn take_failure(&self) -> bool {
        self.file.how().failed.swap(false, Ordering::AcqRel)
    }
}

impl Drop for ReopenedFile {
    fn drop(&mut self) {
        self.end();
    }
}

impl DiskFile for ReopenedFile {
    fn source(&self) -> &dyn Source {
        self
    }

    fn put(&self, offset: u64, bytes: &[u8], how: Putting, caller: Caller) -> Result<usize> {
        self.open()?.put(offset, bytes, how, caller)
    }

    fn set_len(&self, len: u64, caller: Caller) -> Result<()> {
        self.open()?.set_len(len, caller)
    }

    fn begin_writeback(&self, range: Range<u64>) {
        // What was closed has reached the disk.
        if let Some(file) = self.file.if_open() {
            file.begin_writeback(range);
        }
    }

    fn allocate(&self, what: Allocation, caller: Caller) -> Result<()> {
        self.open()?.allocate(what, caller)
    }

    fn copy(&self, from: &dyn Source, range: Range<u64>, to: u64, caller: Caller) -> Result<usize> {
        self.open()?.copy(from, range, to, caller)
    }

    fn flush(&self) -> Result<()> {
        self.open()?.flush()
    }

    fn release(&self) -> Result<()> {
        self.open()?.release()
    }
}

impl Source for ReopenedFile {
    fn len(&self) -> u64 {
        self.identity.size()
    }

    fn identity(&self) -> SourceIdentity {
        self.identity
    }

    fn stat(&self) -> Result<Stat> {
        self.open()?.source().stat()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        self.open()?.source().fetch(ranges)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.open()?.source().read(offset, buf)
    }

    fn as_posix(&self) -> Option<&dyn PosixFile> {
        Some(self)
    }
}

impl PosixFile for ReopenedFile {
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>> {
        self.open()?.source().posix()?.xattr(name)
    }

    fn xattr_names(&self) -> Result<Vec<OsString>> {
        self.open()?.source().posix()?.xattr_names()
    }

    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        self.open()?.source().posix()?.seek(offset, hole)
    }

    fn with_descriptor(&self, with: &mut dyn FnMut(BorrowedFd<'_>)) -> Result<()> {
        self.open()?.source().posix()?.with_descriptor(with)
    }
}
