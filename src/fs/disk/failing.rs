//! A disk for tests whose n-th call fails.
//!
//! Every call is counted, those on opened files too. Used by tests of changes to the source:
//! whatever fails, the error is returned, and the tree shows what is there.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{
    Allocation, Caller, Disk, DiskFile, NewAttributes, NewEntry, Place, Putting, Renaming, Target,
    Trial, XattrSetting,
};
use crate::error::{Error, Result};
use crate::source::{FileId, Source, on_descriptor};
use crate::sync::{Mutex, MutexGuard};

/// Calls until one fails; the others succeed.
#[derive(Default)]
pub struct Failure {
    left: AtomicUsize,
    /// Whether names can only be replaced, as on some file systems.
    no_exchange: AtomicBool,
    /// Whether directories are open to others, as some file systems keep no modes.
    no_modes: AtomicBool,
    /// Whether times of files cannot be set, as by a user who may write them and does not own them.
    no_times: AtomicBool,
    /// Which file that is given the mode of another one cannot have it, nor any after it, counted
    /// from 1. 0: none.
    no_rights: AtomicUsize,
    given_rights: AtomicUsize,
    /// Whether what was put into a file fails when it is closed.
    fails_at_close: AtomicBool,
    /// Whether all calls fail after the one that fails.
    dies: AtomicBool,
    has_died: AtomicBool,
    /// What is done instead of failing.
    instead: Mutex<Option<Instead>>,
    /// What is done while a caller waits for the disk.
    at_sync: Mutex<Option<Instead>>,
    /// What it fails with.
    pub code: i32,
}

/// Seconds and nanoseconds of a time that is never recorded.
pub const TIME_OF_WRITES: (i64, i64) = (2_000_000_000, 0);

type Instead = Box<dyn FnOnce() + Send>;

impl Failure {
    pub fn new(code: i32) -> Arc<Failure> {
        Arc::new(Failure {
            code,
            ..Failure::default()
        })
    }

    /// The call with this number from now on, counted from 1, fails. 0: none does.
    pub fn arm(&self, call: usize) {
        self.left.store(call, Ordering::SeqCst);
    }

    /// Whether a call has failed that was to be the first of those that do.
    pub fn has_died(&self) -> bool {
        self.has_died.load(Ordering::SeqCst)
    }

    /// That call fails, and all after it.
    pub fn die_at(&self, call: usize) {
        self.dies.store(true, Ordering::SeqCst);
        self.arm(call);
    }

    /// Before the call with this number, which succeeds, this is done.
    pub fn arm_with(&self, call: usize, instead: impl FnOnce() + Send + 'static) {
        *self.instead() = Some(Box::new(instead));
        self.arm(call);
    }

    /// This is done while the next sync is waited for.
    pub fn at_sync(&self, meanwhile: impl FnOnce() + Send + 'static) {
        let mut at_sync = self.at_sync.lock();
        *at_sync = Some(Box::new(meanwhile));
    }

    /// What is put into files is lost from now on, and closing them says so.
    pub fn fail_at_close(&self) {
        self.fails_at_close.store(true, Ordering::SeqCst);
    }

    fn sync(&self) {
        let mut at_sync = self.at_sync.lock();
        let meanwhile = at_sync.take();
        drop(at_sync);
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
    }

    fn instead(&self) -> MutexGuard<'_, Option<Instead>> {
        self.instead.lock()
    }

    /// The file system keeps no modes from now on.
    pub fn keep_no_modes(&self) {
        self.no_modes.store(true, Ordering::SeqCst);
    }

    /// Times of files cannot be set from now on. What is written then has [`TIME_OF_WRITES`].
    pub fn refuse_times(&self) {
        self.no_times.store(true, Ordering::SeqCst);
    }

    /// New files cannot be given the modes of others from now on.
    pub fn refuse_rights(&self) {
        self.refuse_rights_from(1);
    }

    /// New files cannot be given the modes of others, but for those before the one with this number
    /// from now on, counted from 1.
    pub fn refuse_rights_from(&self, file: usize) {
        self.given_rights.store(0, Ordering::SeqCst);
        self.no_rights.store(file, Ordering::SeqCst);
    }

    fn refuses_rights(&self) -> bool {
        let from = self.no_rights.load(Ordering::SeqCst);
        from > 0 && self.given_rights.fetch_add(1, Ordering::SeqCst) + 1 >= from
    }

    /// A modification, whose time is the same always where times cannot be set.
    fn was_modified(&self, file: &dyn DiskFile) {
        if !self.no_times.load(Ordering::SeqCst) {
            return;
        }
        let at = |(tv_sec, tv_nsec)| rustix::fs::Timespec { tv_sec, tv_nsec };
        let times = rustix::fs::Timestamps {
            last_access: at((0, rustix::fs::UTIME_OMIT)),
            last_modification: at(TIME_OF_WRITES),
        };
        let set = |fd: BorrowedFd<'_>| rustix::fs::futimens(fd, &times);
        on_descriptor(file.source(), set).unwrap().unwrap();
    }

    fn refuses(&self, to: &NewAttributes) -> Result<()> {
        let is_refused = (to.changes_times() && self.no_times.load(Ordering::SeqCst))
            || (to.mode.is_some() && self.refuses_rights());
        match is_refused {
            true => {
                let cause = std::io::Error::from_raw_os_error(libc::EPERM);
                Err(Error::io("not the owner", cause))
            }
            false => Ok(()),
        }
    }

    /// The file system can only replace names from now on.
    pub fn refuse_exchanges(&self) {
        self.no_exchange.store(true, Ordering::SeqCst);
    }

    /// Whether the failure has not happened yet.
    pub fn is_armed(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    fn error(&self) -> Error {
        let cause = std::io::Error::from_raw_os_error(self.code);
        Error::io("failing as it was told", cause)
    }

    fn call(&self) -> Result<()> {
        let count = |left: usize| left.checked_sub(1);
        let before = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, count);
        match before {
            Ok(1) if self.dies.load(Ordering::SeqCst) => {
                self.arm(1);
                self.has_died.store(true, Ordering::SeqCst);
                Err(self.error())
            }
            Ok(1) => {
                let instead = self.instead().take();
                if let Some(instead) = instead {
                    instead();
                    return Ok(());
                }
                Err(self.error())
            }
            _ => Ok(()),
        }
    }
}

pub struct FailingDisk {
    pub disk: Arc<dyn Disk>,
    pub failure: Arc<Failure>,
}

struct FailingFile {
    file: Arc<dyn DiskFile>,
    failure: Arc<Failure>,
}

impl FailingDisk {
    fn opened(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let failure = Arc::clone(&self.failure);
        Arc::new(FailingFile { file, failure })
    }
}

impl Disk for FailingDisk {
    fn create(&self, place: Place<'_>, mode: u32, caller: Caller) -> Result<Arc<dyn DiskFile>> {
        self.failure.call()?;
        Ok(self.opened(self.disk.create(place, mode, caller)?))
    }

    fn try_create(&self, place: Place<'_>, trial: Trial, caller: Caller) -> Result<()> {
        self.failure.call()?;
        self.disk.try_create(place, trial, caller)
    }

    fn open(&self, path: &Path, id: FileId) -> Result<Arc<dyn DiskFile>> {
        self.failure.call()?;
        Ok(self.opened(self.disk.open(path, id)?))
    }

    fn make(&self, place: Place<'_>, what: NewEntry<'_>, caller: Caller) -> Result<()> {
        self.failure.call()?;
        let what = match what {
            NewEntry::Directory { .. } if self.failure.no_modes.load(Ordering::SeqCst) => {
                NewEntry::Directory { mode: 0o755 }
            }
            other => other,
        };
        self.disk.make(place, what, caller)
    }

    fn link(&self, file: Target<'_>, place: Place<'_>) -> Result<()> {
        self.failure.call()?;
        self.disk.link(file, place)
    }

    fn unlink(&self, place: Place<'_>) -> Result<()> {
        self.failure.call()?;
        self.disk.unlink(place)
    }

    fn remove_directory(&self, place: Place<'_>) -> Result<()> {
        self.failure.call()?;
        self.disk.remove_directory(place)
    }

    fn rename(&self, from: Place<'_>, to: Place<'_>, how: Renaming) -> Result<()> {
        self.failure.call()?;
        if how != Renaming::Over && self.failure.no_exchange.load(Ordering::SeqCst) {
            let cause = std::io::Error::from_raw_os_error(libc::EINVAL);
            return Err(Error::io("no exchange here", cause));
        }
        self.disk.rename(from, to, how)
    }

    fn set_attributes(&self, of: Target<'_>, to: &NewAttributes) -> Result<()> {
        self.failure.call()?;
        self.failure.refuses(to)?;
        self.disk.set_attributes(of, to)
    }

    fn set_xattr(
        &self,
        of: Target<'_>,
        name: &OsStr,
        value: &[u8],
        how: XattrSetting,
    ) -> Result<()> {
        self.failure.call()?;
        self.disk.set_xattr(of, name, value, how)
    }

    fn remove_xattr(&self, of: Target<'_>, name: &OsStr) -> Result<()> {
        self.failure.call()?;
        self.disk.remove_xattr(of, name)
    }

    fn may_share(&self, of: &dyn Source) -> bool {
        self.disk.may_share(of)
    }

    fn share(&self, file: &dyn DiskFile, all_of: &dyn Source, caller: Caller) -> bool {
        self.disk.share(file, all_of, caller)
    }

    fn sync(&self, of: Target<'_>, data: bool) -> Result<()> {
        self.failure.call()?;
        self.failure.sync();
        self.disk.sync(of, data)
    }

    fn sync_named(&self, file: &dyn Source, directory: Target<'_>) -> Result<()> {
        self.failure.call()?;
        self.failure.sync();
        self.disk.sync_named(file, directory)
    }
}

impl DiskFile for FailingFile {
    fn source(&self) -> &dyn Source {
        self.file.source()
    }

    fn put(&self, offset: u64, bytes: &[u8], how: Putting, caller: Caller) -> Result<usize> {
        self.failure.call()?;
        let put = self.file.put(offset, bytes, how, caller);
        self.failure.was_modified(&*self.file);
        put
    }

    fn set_len(&self, len: u64, caller: Caller) -> Result<()> {
        self.failure.call()?;
        let set = self.file.set_len(len, caller);
        self.failure.was_modified(&*self.file);
        set
    }

    fn allocate(&self, what: Allocation, caller: Caller) -> Result<()> {
        self.failure.call()?;
        let allocated = self.file.allocate(what, caller);
        self.failure.was_modified(&*self.file);
        allocated
    }

    fn copy(&self, from: &dyn Source, range: Range<u64>, to: u64, caller: Caller) -> Result<usize> {
        self.failure.call()?;
        self.file.copy(from, range, to, caller)
    }

    fn flush(&self) -> Result<()> {
        match self.failure.fails_at_close.load(Ordering::SeqCst) {
            true => Err(self.failure.error()),
            false => self.file.flush(),
        }
    }

    fn release(&self) -> Result<()> {
        self.file.release()
    }
}
