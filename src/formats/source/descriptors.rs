//! Files that are open while they are used, so that there may be more of them than the process may
//! have descriptors.
//!
//! A container keeps a file open for each of its own, what is staged of it one more, and there may
//! be thousands of both. [`Reopened`] is such a file: it is opened when it is wanted, as the very
//! file that it was, and closed when too many are open and it is not in use. At most half of the
//! descriptors that the process may have (RLIMIT_NOFILE) are for these; the rest is for what cannot
//! be closed: the files of programs, sockets, and what is opened for a moment. A call that meets
//! the limit all the same has some closed and tries again ([`retrying`]).
//!
//! Which are closed is found out as a clock does it: those come first that were opened longest ago
//! and have not been used since they were last looked at. The limit is the process's, so there is
//! one list. Locks: that of a file, then the list; while others are closed, neither is waited for.
//! Used by [`super::ReopenedSource`], by `disk` for files that are written, and wherever something
//! local is opened.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use lru::LruCache;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::error::Result;
use crate::sync::{Mutex, MutexGuard, RwLock};

/// How many are closed at once for a call that has met the limit.
const CLOSED_AT_ONCE: usize = 4;

static DESCRIPTORS: LazyLock<Arc<Descriptors>> = LazyLock::new(|| {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    Arc::new(Descriptors::new(limit / 2))
});

/// How a file is opened again.
pub trait Reopening: Send + Sync + 'static {
    type File: ?Sized + Send + Sync;

    /// Opens the file, which must be the same.
    fn open(&self) -> Result<Arc<Self::File>>;

    /// Called before it is closed, while it is not in use. False: it has to stay open.
    fn may_close(&self, _file: &Self::File) -> bool {
        true
    }
}

/// A file that is open while it is used.
pub struct Reopened<R: Reopening> {
    number: u64,
    how: R,
    open: RwLock<Option<Arc<R::File>>>,
    used: AtomicBool,
    of: Arc<Descriptors>,
}

impl<R: Reopening> Reopened<R> {
    /// `file` has just been opened.
    pub fn new(how: R, file: Arc<R::File>) -> Arc<Self> {
        Self::among(Arc::clone(&DESCRIPTORS), how, file)
    }

    fn among(of: Arc<Descriptors>, how: R, file: Arc<R::File>) -> Arc<Self> {
        let this = Arc::new(Reopened {
            number: of.next.fetch_add(1, Ordering::Relaxed),
            how,
            open: RwLock::new(Some(file)),
            used: AtomicBool::new(true),
            of,
        });
        this.was_opened();
        this
    }

    /// The open file, which stays open as long as this is held.
    pub fn get(self: &Arc<Self>) -> Result<Arc<R::File>> {
        self.used.store(true, Ordering::Relaxed);
        if let Some(file) = self.if_open() {
            return Ok(file);
        }
        let mut open = self.open.write();
        if let Some(file) = &*open {
            return Ok(Arc::clone(file));
        }
        let file = self.how.open()?;
        *open = Some(Arc::clone(&file));
        drop(open);
        self.was_opened();
        Ok(file)
    }

    /// The file, if it is open.
    pub fn if_open(&self) -> Option<Arc<R::File>> {
        let open = self.open.read();
        open.clone()
    }

    pub fn how(&self) -> &R {
        &self.how
    }

    fn was_opened(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        self.of.add(self.number, this);
        self.of.close_beyond(self.of.most);
    }
}

impl<R: Reopening> Drop for Reopened<R> {
    fn drop(&mut self) {
        self.of.lock().pop(&self.number);
    }
}

/// What can be closed.
trait Closing: Send + Sync {
    /// Whether it has been used since this was last asked.
    fn was_used(&self) -> bool;

    /// Closes it, unless it is in use or has to stay open.
    fn close(&self) -> bool;
}

impl<R: Reopening> Closing for Reopened<R> {
    fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    fn close(&self) -> bool {
        let Some(mut open) = self.open.try_write() else {
            return false;
        };
        let is_idle = |file: &&Arc<R::File>| Arc::strong_count(file) == 1;
        let idle = open.as_ref().filter(is_idle);
        let closes = idle.is_some_and(|file| self.how.may_close(file));
        if closes {
            *open = None;
        }
        closes
    }
}

struct Descriptors {
    /// So many are open, unless more are used at once.
    most: usize,
    next: AtomicU64,
    /// Those that are open, and some that have just been closed.
    open: Mutex<LruCache<u64, Weak<dyn Closing>>>,
}

impl Descriptors {
    fn new(most: usize) -> Descriptors {
        Descriptors {
            most,
            next: AtomicU64::new(0),
            open: Mutex::new(LruCache::unbounded()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<u64, Weak<dyn Closing>>> {
        self.open.lock()
    }

    fn add(&self, number: u64, file: Weak<dyn Closing>) {
        self.lock().push(number, file);
    }

    /// Closes what is not used until only `most` are open. Says whether any was closed.
    fn close_beyond(&self, most: usize) -> bool {
        let (open, mut closed) = (self.lock().len(), false);
        // Each is looked at twice: what was used is passed over once.
        for _ in 0..open.saturating_mul(2) {
            let Some((number, file)) = self.oldest_beyond(most) else {
                break;
            };
            let Some(file) = file.upgrade() else {
                continue;
            };
            match !file.was_used() && file.close() {
                true => closed = true,
                false => self.add(number, Arc::downgrade(&file)),
            }
        }
        closed
    }

    fn oldest_beyond(&self, most: usize) -> Option<(u64, Weak<dyn Closing>)> {
        let mut open = self.lock();
        match open.len() > most {
            true => open.pop_lru(),
            false => None,
        }
    }

    fn close_some(&self) -> bool {
        let open = self.lock().len();
        open > 0 && self.close_beyond(open.saturating_sub(CLOSED_AT_ONCE))
    }
}

/// Runs a call that opens something; if there is no descriptor left, has others closed and runs it
/// again.
pub fn retrying<T>(mut open: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match open() {
            Err(Errno::MFILE | Errno::NFILE) if DESCRIPTORS.close_some() => {}
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::error::Error;

    /// Counts how often it was opened.
    #[derive(Default)]
    struct Counted {
        opened: AtomicUsize,
        stays: AtomicBool,
        is_gone: AtomicBool,
    }

    impl Reopening for Counted {
        type File = usize;

        fn open(&self) -> Result<Arc<usize>> {
            match self.is_gone.load(Ordering::Relaxed) {
                true => Err(Error::NotFound),
                false => Ok(Arc::new(self.opened.fetch_add(1, Ordering::Relaxed) + 1)),
            }
        }

        fn may_close(&self, _: &usize) -> bool {
            !self.stays.load(Ordering::Relaxed)
        }
    }

    fn files(most: usize, count: usize) -> (Arc<Descriptors>, Vec<Arc<Reopened<Counted>>>) {
        let all = Arc::new(Descriptors::new(most));
        let file = |_| Reopened::among(Arc::clone(&all), Counted::default(), Arc::new(0));
        let files = (0..count).map(file).collect();
        (all, files)
    }

    fn open(files: &[Arc<Reopened<Counted>>]) -> Vec<bool> {
        files.iter().map(|file| file.if_open().is_some()).collect()
    }

    #[test]
    fn no_more_are_open_than_may_be_and_each_is_opened_again() {
        let (all, files) = files(3, 10);
        assert_eq!(open(&files).iter().filter(|open| **open).count(), 3);
        for file in files.iter().chain(&files) {
            file.get().unwrap();
            assert!(all.lock().len() <= 3);
        }
        assert!(files.iter().all(|file| *file.get().unwrap() > 0));
    }

    #[test]
    fn what_is_used_stays_open_and_what_was_used_stays_longer() {
        let (all, files) = files(4, 4);
        let used = files[0].get().unwrap();
        all.close_beyond(4);
        for file in &files {
            file.was_used();
        }
        files[1].get().unwrap();
        assert!(all.close_beyond(2));
        assert_eq!(open(&files), [true, true, false, false]);
        assert!(all.close_beyond(0));
        assert_eq!(open(&files), [true, false, false, false]);
        drop(used);
        assert!(all.close_beyond(0) && all.lock().is_empty());
    }

    #[test]
    fn what_has_to_stay_open_is_not_closed() {
        let (all, files) = files(2, 2);
        files[0].how().stays.store(true, Ordering::Relaxed);
        assert!(all.close_beyond(0));
        assert_eq!(open(&files), [true, false]);
        assert!(!all.close_some());
    }

    #[test]
    fn what_is_dropped_counts_no_more_and_what_is_gone_is_told() {
        let (all, mut files) = files(2, 2);
        files.pop();
        assert_eq!(all.lock().len(), 1);
        all.close_beyond(0);
        files[0].how().is_gone.store(true, Ordering::Relaxed);
        assert!(files[0].get().is_err_and(|e| e.is_not_found()));
        assert_eq!(all.lock().len(), 0);
    }

    #[test]
    fn who_has_no_descriptor_left_tries_again_as_long_as_others_can_be_closed() {
        let refused = retrying::<()>(|| Err(Errno::ACCESS));
        assert_eq!(refused, Err(Errno::ACCESS));
        let mut tries = 0;
        let opened = retrying(|| {
            tries += 1;
            Ok(tries)
        });
        assert_eq!(opened, Ok(1));
    }
}
