//! Files that a commit of this process makes longer while they are read: they are shown as they
//! were before, until it says otherwise.
//!
//! Bytes behind the end change nothing that was there, but the size and the time of the file, which
//! tell its versions apart. So whoever asks for these while a file grows ([`as_before`]) is told
//! those from before, as long as the file is what the last step of the growth has left; another
//! process's change is seen as ever. A step and a look exclude each other, for each file. Used by
//! [`super::status`], through which all looks at files go, and by `commit`.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::status::ask;
use crate::error::{Error, Result};
use crate::source::{FileId, FileIdentity, Source, Stat, on_descriptor};
use crate::sync::{Mutex, MutexGuard, RwLock};

/// What a file looked like.
#[derive(Clone, Copy)]
struct GrownIdentity {
    before: FileIdentity,
    /// As the last step has left it.
    now: FileIdentity,
    has_ended: bool,
}

type GrowthTable = RwLock<HashMap<FileId, Arc<Mutex<GrownIdentity>>>>;

static FILES: LazyLock<GrowthTable> = LazyLock::new(GrowthTable::default);

/// How many there are, so that a look costs nothing where there are none.
static GROWING: AtomicUsize = AtomicUsize::new(0);

/// Counts beginnings and ends: a look in between is of neither.
static TURNS: AtomicU64 = AtomicU64::new(0);

/// That a file grows, until this is dropped: then everybody sees it as it is.
pub struct Growth {
    id: FileId,
    file: Arc<Mutex<GrownIdentity>>,
}

fn lock(file: &Mutex<GrownIdentity>) -> MutexGuard<'_, GrownIdentity> {
    file.lock()
}

fn stat_of(file: BorrowedFd<'_>) -> rustix::io::Result<Stat> {
    ask(file, Path::new(""), AtFlags::EMPTY_PATH)
}

fn as_it_is(file: &dyn Source) -> Result<FileIdentity> {
    let found = on_descriptor(file, stat_of)?;
    found.map(|stat| stat.file()).map_err(failed)
}

fn failed(e: Errno) -> Error {
    Error::io("cannot look at a file that grows", e)
}

/// What a look says, but for the growth of a file.
pub(super) fn as_before(look: impl Fn() -> rustix::io::Result<Stat>) -> rustix::io::Result<Stat> {
    let turn = TURNS.load(Ordering::SeqCst);
    let found = look()?;
    if GROWING.load(Ordering::SeqCst) == 0 && TURNS.load(Ordering::SeqCst) == turn {
        return Ok(found);
    }
    loop {
        let files = FILES.read();
        let Some(file) = files.get(&found.id).map(Arc::clone) else {
            // None begins meanwhile.
            return look();
        };
        // A step may take long, and other files need not wait for it.
        drop(files);
        let grown = lock(&file);
        let mut now = look()?;
        // It may be growing again by now.
        if grown.has_ended {
            continue;
        }
        if now.file() == grown.now {
            (now.size, now.mtime) = (grown.before.size, grown.before.mtime);
        }
        return Ok(now);
    }
}

impl Growth {
    /// From now on a file is shown as it is at this moment; another growth of it is EBUSY. Its
    /// descriptor stays open.
    pub fn begin(file: &dyn Source) -> Result<Growth> {
        let now = as_it_is(file)?;
        let mut files = FILES.write();
        if files.contains_key(&now.id) {
            return Err(failed(Errno::BUSY));
        }
        let grown = Arc::new(Mutex::new(GrownIdentity {
            before: now,
            now,
            has_ended: false,
        }));
        files.insert(now.id, Arc::clone(&grown));
        GROWING.fetch_add(1, Ordering::SeqCst);
        TURNS.fetch_add(1, Ordering::SeqCst);
        Ok(Growth {
            id: now.id,
            file: grown,
        })
    }

    /// What it is shown as.
    pub fn before(&self) -> FileIdentity {
        lock(&self.file).before
    }

    /// Changes the file, which is not longer than it was or `len` bytes then; ESTALE if another
    /// process has changed it.
    pub fn step<T>(
        &self,
        file: &dyn Source,
        len: u64,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut grown = lock(&self.file);
        if as_it_is(file)? != grown.now {
            return Err(foreign());
        }
        let changed = change();
        let now = as_it_is(file)?;
        if now.size > grown.now.size.max(len) {
            return Err(foreign());
        }
        grown.now = now;
        changed
    }
}

fn foreign() -> Error {
    let path = Path::new("a file that grows").to_owned();
    Error::Changed { path }
}

impl Drop for Growth {
    fn drop(&mut self) {
        lock(&self.file).has_ended = true;
        let mut files = FILES.write();
        files.remove(&self.id);
        GROWING.fetch_sub(1, Ordering::SeqCst);
        TURNS.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::source::local::LocalStore;
    use crate::source::{SourceIdentity, Store};

    #[test]
    fn a_file_that_grows_is_shown_as_it_was_and_a_foreign_change_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, [1; 100]).unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        let reader = store.open(Path::new("x")).unwrap();
        let before = reader.identity();
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        let growth = Growth::begin(&*reader).unwrap();
        assert!(Growth::begin(&*reader).is_err());
        let put = |file: &mut std::fs::File| {
            file.write_all(&[2; 50]).unwrap();
            Ok(())
        };
        for _ in 0..3 {
            growth.step(&*reader, 300, || put(&mut file)).unwrap();
            assert_eq!(store.stat(Path::new("x")).unwrap().identity(), before);
            assert_eq!(store.open(Path::new("x")).unwrap().len(), 100);
            reader.fetch_one(0, &mut [0; 100]).unwrap();
        }
        assert_eq!(SourceIdentity::from(growth.before()), before);
        let late = growth.step(&*reader, 260, || put(&mut file));
        assert!(late.is_err(), "it is longer than this process has made it");
        assert_eq!(store.stat(Path::new("x")).unwrap().size, 300);
        assert!(reader.fetch_one(0, &mut [0; 100]).is_err());
        assert!(growth.step(&*reader, 400, || put(&mut file)).is_err());
        drop(growth);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 300);
        assert_eq!(store.stat(Path::new("x")).unwrap().size, 300);
    }

    /// Looks while a file begins and ends to grow are of before it, or of what it has become.
    #[test]
    fn no_look_sees_a_file_that_has_grown_in_part() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, [1; 8]).unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        std::thread::scope(|threads| {
            let looker = threads.spawn(|| {
                let mut last = 0;
                while last < 8 + 200 * 30 {
                    last = store.stat(Path::new("x")).unwrap().size;
                    assert_eq!((last - 8) % 30, 0, "{last}");
                }
            });
            for _ in 0..200 {
                let opened = store.open(Path::new("x")).unwrap();
                let growth = Growth::begin(&*opened).unwrap();
                for _ in 0..3 {
                    let put = || {
                        file.write_all(&[2; 10]).unwrap();
                        Ok(())
                    };
                    growth.step(&*opened, 1 << 20, put).unwrap();
                }
            }
            looker.join().unwrap();
        });
    }
}
