//! The cache on the disk: what was fetched, for later mounts and for other processes.
//!
//! A directory of this user's, with a file for each version of an object ([`super::cached_file`]).
//! Whole files go, those first that were not used for the longest time, when the cache has become
//! too large or the disk too full. Whatever goes wrong costs speed alone: it is logged once, and
//! the cache does without. Used by [`super::object`].

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use lru::LruCache;
use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, fstat, fstatvfs, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use tokio::sync::Semaphore;

use super::body::Body;
use super::cached_file::{BLOCK, CachedFile, CachedName, NAME};
use crate::error::{Error, Result, plain};
use crate::sync::Mutex;

/// Of the free disk, and at most, if nothing is said.
const SHARE: u64 = 10;
const MOST: u64 = 20 << 30;
/// So many percent of the disk stay free.
const KEPT_FREE: u64 = 5;
/// The directory is looked over after so many parts of its size have been put.
const PARTS: u64 = 32;
/// So long a file counts as just used.
const JUST: Duration = Duration::from_secs(60);
/// The disk is slower than a store then.
const PATIENCE: Duration = Duration::from_secs(2);
const USERS: usize = 4;
/// Files that are kept open.
const OPEN: usize = 64;

const SUFFIX: &str = ".object";

pub(super) struct DiskCache {
    directory: OwnedFd,
    most: u64,
    open: Mutex<LruCache<CachedName, OpenCachedFile>>,
    /// Bytes that were put since the directory was looked over.
    put: AtomicU64,
    is_broken: AtomicBool,
    /// Who uses the disk now: of the threads that may block, others look names up.
    using: Semaphore,
    pub(super) hit_bytes: AtomicU64,
    pub(super) put_bytes: AtomicU64,
}

#[derive(Clone)]
struct OpenCachedFile {
    file: Arc<CachedFile>,
    used: Instant,
}

impl DiskCache {
    /// An error if the directory is not this user's alone.
    pub(super) fn open(path: &Path, size: Option<u64>) -> Result<DiskCache> {
        let failed = |why: String| Error::Invalid(format!("disk_cache={}: {why}", path.display()));
        let refused = |e: Errno| failed(plain(&e.into()));
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(refused(e)),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let directory = openat(CWD, path, flags, Mode::empty()).map_err(refused)?;
        let found = fstat(&directory).map_err(refused)?;
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return Err(failed("it belongs to another user".into()));
        }
        if found.st_mode & 0o022 != 0 {
            return Err(failed("others may write there: chmod 700 it".into()));
        }
        let disk = fstatvfs(&directory).map_err(refused)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let cache = DiskCache {
            directory,
            most: size.unwrap_or_else(|| (free / SHARE).min(MOST)),
            open: Mutex::new(LruCache::new(
                NonZeroUsize::new(OPEN).unwrap_or(NonZeroUsize::MIN),
            )),
            put: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            using: Semaphore::new(USERS),
            hit_bytes: AtomicU64::new(0),
            put_bytes: AtomicU64::new(0),
        };
        cache.look_over();
        Ok(cache)
    }

    /// Uses the disk on a thread that may block; none if that takes too long: then the cache does
    /// without it from then on.
    pub(super) async fn in_time<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.is_broken.load(Ordering::Relaxed) {
            return None;
        }
        let used = tokio::time::timeout(PATIENCE, async {
            let _permit = self.using.acquire().await;
            tokio::task::spawn_blocking(work).await.ok()
        });
        let Ok(used) = used.await else {
            self.note_broken(&io::Error::from_raw_os_error(libc::ETIMEDOUT));
            // Who hangs there keeps the thread.
            self.using.forget_permits(1);
            return None;
        };
        used
    }

    /// Bytes of a version of an object of this length, if all of them are there.
    pub(super) fn read(&self, name: &CachedName, size: u64, range: &Range<u64>) -> Option<Body> {
        let bytes = self.file(name, size, false)?.read(range)?;
        self.hit_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Some(bytes)
    }

    /// What it has of a range that was fetched: whole blocks.
    pub(super) fn put(&self, name: &CachedName, size: u64, (at, bytes): (u64, &[u8])) {
        let skip = (at.next_multiple_of(BLOCK) - at).min(bytes.len() as u64);
        let end = at.saturating_add(bytes.len() as u64);
        let whole = match end == size {
            true => at + skip..end,
            false => at + skip..end - end % BLOCK,
        };
        if whole.start >= whole.end || self.is_broken.load(Ordering::Relaxed) {
            return;
        }
        let Some(file) = self.file(name, size, true) else {
            return;
        };
        let len = (whole.end - whole.start) as usize;
        if self.is_full_of(&file, len as u64) {
            return;
        }
        match file.put(&whole, &bytes[skip as usize..][..len]) {
            Ok(()) => {
                self.put_bytes.fetch_add(len as u64, Ordering::Relaxed);
                let put = self.put.fetch_add(len as u64, Ordering::Relaxed);
                if put > self.most / PARTS {
                    self.look_over();
                }
            }
            Err(e) => {
                self.look_over();
                self.note_broken(&e);
            }
        }
    }

    /// Whether one object would take more than half: the rest of it would push out whatever else
    /// was kept, and then itself.
    fn is_full_of(&self, file: &CachedFile, more: u64) -> bool {
        let used = file
            .file()
            .metadata()
            .map_or(0, |found| found.blocks() * 512);
        used.saturating_add(more) > self.most / 2
    }

    fn note_broken(&self, e: &io::Error) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            log::warn!("the cache on the disk is used no more: {}", plain(e));
        }
    }

    /// The file of an object, made if that is wanted and there is none.
    fn file(&self, name: &CachedName, size: u64, is_made: bool) -> Option<Arc<CachedFile>> {
        let mut open = self.open.lock();
        if let Some(known) = open.get_mut(name)
            && (!is_made && known.used.elapsed() < JUST || known.file.has_name())
        {
            if known.used.elapsed() >= JUST {
                known.used = Instant::now();
                note_use(known.file.file());
            }
            return Some(Arc::clone(&known.file));
        }
        let file = Arc::new(
            self.found(name, size)
                .or_else(|| self.made(name, size, is_made))?,
        );
        note_use(file.file());
        let used = Instant::now();
        let file_too = Arc::clone(&file);
        open.put(
            *name,
            OpenCachedFile {
                file: file_too,
                used,
            },
        );
        Some(file)
    }

    fn open_at(&self, name: &CachedName, more: OFlags) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
        let mode = Mode::RUSR | Mode::WUSR;
        let opened = openat(self.directory.as_fd(), file_name(name), flags, mode)?;
        Ok(File::from(opened))
    }

    fn found(&self, name: &CachedName, size: u64) -> Option<CachedFile> {
        let file = self.open_at(name, OFlags::empty()).ok()?;
        CachedFile::found(file, name, size)
    }

    /// One that cannot be read is in the way of no other for ever: it is made anew.
    fn made(&self, name: &CachedName, size: u64, is_made: bool) -> Option<CachedFile> {
        if !is_made {
            return None;
        }
        let exclusive = OFlags::CREATE | OFlags::EXCL;
        let made = self.open_at(name, exclusive).or_else(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                unlinkat(&self.directory, file_name(name), AtFlags::empty())?;
                self.open_at(name, exclusive)
            }
            _ => Err(e),
        });
        let begun = made.and_then(|file| CachedFile::begin(file, name, size));
        begun.inspect_err(|e| self.note_broken(e)).ok()
    }

    /// Removes what is too much.
    fn look_over(&self) {
        self.put.store(0, Ordering::Relaxed);
        let Ok(mut files) = self.files() else {
            return;
        };
        files.sort_unstable();
        let mut used: u64 = files.iter().map(|file| file.1).fold(0, u64::saturating_add);
        let mut free_wanted = self.missing();
        let least = self.most - self.most / PARTS;
        for (_, bytes, name) in files {
            if used <= least && free_wanted == 0 {
                return;
            }
            if unlinkat(&self.directory, &*name, AtFlags::empty()).is_ok() {
                used = used.saturating_sub(bytes);
                free_wanted = free_wanted.saturating_sub(bytes);
            }
        }
        if used > least || free_wanted > 0 {
            self.note_broken(&io::Error::from_raw_os_error(libc::ENOSPC));
        }
    }

    /// Bytes that the disk has too few of.
    fn missing(&self) -> u64 {
        let Ok(disk) = fstatvfs(&self.directory) else {
            return 0;
        };
        let wanted = disk.f_blocks / 100 * KEPT_FREE;
        wanted
            .saturating_sub(disk.f_bavail)
            .saturating_mul(disk.f_frsize)
    }

    /// When each was used, what it takes, and its name.
    fn files(&self) -> io::Result<Vec<(i64, u64, String)>> {
        let mut files = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            // Whatever else lies there is nobody's but the user's.
            if !is_own(name) {
                continue;
            }
            if let Ok(found) = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                let bytes = u64::try_from(found.st_blocks)
                    .unwrap_or(0)
                    .saturating_mul(512);
                files.push((found.st_mtime, bytes, name.to_owned()));
            }
        }
        Ok(files)
    }
}

/// For those that look the directory over, in whatever process.
fn note_use(file: &File) {
    if let Err(e) = file.set_modified(SystemTime::now()) {
        log::debug!("the use of a cached file cannot be noted: {}", plain(&e));
    }
}

fn is_own(name: &str) -> bool {
    let digits = name.strip_suffix(SUFFIX);
    digits.is_some_and(|digits| {
        digits.len() == 2 * NAME && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

fn file_name(name: &CachedName) -> String {
    let digits: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    digits + SUFFIX
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn cache(path: &Path, size: u64) -> DiskCache {
        DiskCache::open(path, Some(size)).unwrap()
    }

    #[test]
    fn another_process_finds_what_was_put_and_old_files_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache");
        let first = cache(&path, 64 << 20);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let size = 3 * BLOCK + 5;
        let bytes: Vec<u8> = (0..size).map(|at| at as u8).collect();
        first.put(&[1; 32], size, (100, &bytes[100..]));
        let second = cache(&path, 64 << 20);
        assert_eq!(second.read(&[1; 32], size, &(0..10)), None);
        let read = second.read(&[1; 32], size, &(BLOCK + 7..size));
        assert_eq!(read.as_deref(), Some(&bytes[BLOCK as usize + 7..].to_vec()));
        assert_eq!(second.read(&[2; 32], size, &(BLOCK..size)), None);
        // No room for anything: what is there goes, and nothing fails.
        let third = cache(&path, 0);
        assert_eq!(third.read(&[1; 32], size, &(BLOCK..size)), None);
        third.put(&[1; 32], size, (0, &bytes));
    }

    #[test]
    fn a_directory_that_others_write_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(DiskCache::open(path, None).is_err());
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(DiskCache::open(path, None).is_ok());
        let link = path.join("link");
        std::os::unix::fs::symlink(path, &link).unwrap();
        assert!(DiskCache::open(&link, None).is_err());
        assert!(DiskCache::open(&path.join("none/none"), None).is_err());
    }
}
