//! The local file system as a [`Store`].
//!
//! Everything is resolved below a directory descriptor opened once, without following symbolic
//! links ([`beneath`]): a mount over the source's own parent keeps working, and nothing outside the
//! source is opened because a file says so or because another process renames. Files are read with
//! `pread` and never mapped: a file that shrinks under a mapping would kill the daemon with SIGBUS,
//! a short `pread` is just an error.

mod attributes;
pub mod beneath;
mod file;
pub mod growing;
pub mod status;

pub use file::LocalSource;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::acl::{self, AccessList};
use super::descriptors::retrying;
use super::{
    Fetch, FileId, FileKind, Listed, PosixStore, Source, Space, Stat, Store, on_descriptor,
};
use crate::error::{Error, Result};
use file::read_full;

/// A directory of the local file system.
pub struct LocalStore {
    root: OwnedFd,
    path: PathBuf,
    /// Whether modes are made to agree with access control lists, which costs a call for each
    /// `stat`.
    heeds_lists: AtomicBool,
}

impl LocalStore {
    /// Opens `path`, a directory; messages call it `shown`.
    pub fn open(path: &Path, shown: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(path, flags, Mode::empty())?;
        Ok(LocalStore {
            root,
            path: shown.to_owned(),
            heeds_lists: AtomicBool::new(false),
        })
    }

    /// The directory below which everything lies.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// How messages call a path.
    pub fn shown(&self, path: &Path) -> PathBuf {
        match path.as_os_str().is_empty() {
            true => self.path.clone(),
            false => self.path.join(path),
        }
    }

    fn open_at(&self, path: &Path, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
        beneath::open(self.root.as_fd(), path, flags)
    }

    /// A file on which another program holds a lease: waits until that one gives it up, as every
    /// program does that opens it (at most as long as the system's `lease-break-time`).
    fn open_leased(&self, path: &Path) -> std::result::Result<OwnedFd, Errno> {
        let fd = self.open_at(path, OFlags::PATH)?;
        if !FileType::from_raw_mode(fs::fstat(&fd)?.st_mode).is_file() {
            return Err(Errno::AGAIN);
        }
        loop {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let open = || fs::open(proc_name(fd.as_fd()), flags, Mode::empty());
            match retrying(open) {
                Err(Errno::INTR) => continue,
                opened => return opened,
            }
        }
    }

    /// Runs `with` on an entry: its directory, reached without symbolic links, and its name in
    /// there.
    fn at<T>(
        &self,
        path: &Path,
        with: impl FnOnce(BorrowedFd<'_>, &Path) -> std::result::Result<T, Errno>,
    ) -> std::result::Result<T, Errno> {
        match beneath::split(path)? {
            None => with(self.root.as_fd(), Path::new(".")),
            // A single name leads nowhere else.
            Some((above, name)) if above.as_os_str().is_empty() => {
                with(self.root.as_fd(), Path::new(name))
            }
            Some((above, name)) => {
                let above = self.open_at(above, OFlags::PATH | OFlags::DIRECTORY)?;
                with(above.as_fd(), Path::new(name))
            }
        }
    }

    fn stat_entry(
        &self,
        directory: BorrowedFd<'_>,
        name: &Path,
        heeds_lists: bool,
    ) -> std::result::Result<Stat, Errno> {
        let mut found = status::of_entry(directory, name)?;
        // The mode of a link means nothing.
        if found.kind != FileKind::Symlink && heeds_lists {
            let at = || proc_name(directory).join(name);
            heed(&mut found, |list| fs::lgetxattr(at(), acl::ACCESS, list));
        }
        Ok(found)
    }

    fn stat_heeding(&self, path: &Path, heeds_lists: bool) -> Result<Stat> {
        self.at(path, |directory, name| {
            self.stat_entry(directory, name, heeds_lists)
        })
        .map_err(|e| self.failed("stat", path, e))
    }

    fn failed(&self, doing: &str, path: &Path, cause: Errno) -> Error {
        Error::io(
            format!("cannot {doing} {}", self.display(path).display()),
            cause,
        )
    }

    /// A path by which the kernel finds an entry below `root` for calls that take no descriptor.
    /// `file`: which file the entry must be.
    fn proc_path(&self, path: &Path, file: Option<FileId>) -> Result<(OwnedFd, PathBuf)> {
        let failed = |e| self.failed("open", path, e);
        let fd = self.open_at(path, OFlags::PATH).map_err(failed)?;
        if let Some(file) = file
            && status::of_file(fd.as_fd()).map_err(failed)?.id != file
        {
            let path = self.display(path);
            return Err(Error::Changed { path });
        }
        let name = proc_name(fd.as_fd());
        Ok((fd, name))
    }
}

/// By this path the kernel finds what is opened, for calls that take no descriptor.
pub fn proc_name(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Takes what the access control list denies from the mode, and notes the list.
fn heed(stat: &mut Stat, get: impl FnOnce(&mut [u8]) -> std::result::Result<usize, Errno>) {
    if !acl::matters(stat.mode) {
        return;
    }
    let mut value = [0; acl::MOST];
    let list = match get(&mut value) {
        Ok(len) => AccessList::parse(stat.mode, &value[..len]),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return,
        Err(_) => None,
    };
    stat.mode = match &list {
        Some(list) => list.without_names(),
        None => acl::owner_only(stat.mode),
    };
    stat.list = list.map(Arc::new);
}

impl Store for LocalStore {
    fn stat(&self, path: &Path) -> Result<Stat> {
        self.stat_heeding(path, self.heeds_lists.load(Ordering::Relaxed))
    }

    fn stat_in(
        &self,
        directory: &Path,
        is_it: &dyn Fn(&Stat) -> bool,
        name: &OsStr,
    ) -> Result<Option<Stat>> {
        let reached = self.open_at(directory, OFlags::PATH | OFlags::DIRECTORY);
        let found = match reached {
            // Something else has its name; or a directory above has become a link, which is
            // reported.
            Err(Errno::NOTDIR | Errno::LOOP) => return self.stat(directory).map(|_| None),
            Err(e) => Err(e),
            Ok(reached) => status::of_file(reached.as_fd()).and_then(|found| match is_it(&found) {
                true => {
                    let heeds = self.heeds_lists.load(Ordering::Relaxed);
                    self.stat_entry(reached.as_fd(), Path::new(name), heeds)
                        .map(Some)
                }
                false => Ok(None),
            }),
        };
        found.map_err(|e| self.failed("stat", &directory.join(name), e))
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(Listed<'_>)) -> Result<()> {
        let failed = |e| self.failed("list", path, e);
        let fd = self
            .open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(failed)?;
        for entry in fs::Dir::new(fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            match entry.file_type() {
                FileType::Unknown => match self.stat(&path.join(name)) {
                    Ok(found) => each(Listed::new(name, found.kind)),
                    Err(e) if e.is_not_found() => {}
                    Err(_) => each(Listed::new(name, FileKind::File)),
                },
                known => each(Listed::new(name, status::kind(known))),
            }
        }
        Ok(())
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        let fd = self
            .open_at(path, OFlags::RDONLY)
            .map_err(|e| self.failed("open", path, e))?;
        read_full(&fd, 0, buf).map_err(|e| self.failed("read", path, e))
    }

    fn ends(&self, path: &Path, head: &mut [u8], tail: Fetch<'_>) -> Result<[usize; 2]> {
        let fd = self
            .open_at(path, OFlags::RDONLY)
            .map_err(|e| self.failed("open", path, e))?;
        let read =
            |at, buf: &mut [u8]| read_full(&fd, at, buf).map_err(|e| self.failed("read", path, e));
        Ok([read(0, head)?, read(tail.offset, tail.buf)?])
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let failed = |e| self.failed("open", path, e);
        let opened = match self.open_at(path, OFlags::RDONLY) {
            Err(Errno::AGAIN) => self.open_leased(path),
            opened => opened,
        };
        let fd = opened.map_err(failed)?;
        let source = LocalSource::new(fd, self.display(path));
        Ok(Arc::new(source.map_err(failed)?))
    }

    fn display(&self, path: &Path) -> PathBuf {
        self.shown(path)
    }

    fn as_posix(&self) -> Option<&dyn PosixStore> {
        Some(self)
    }
}

impl PosixStore for LocalStore {
    fn stat_with_list(&self, path: &Path) -> Result<Stat> {
        self.stat_heeding(path, true)
    }

    fn stat_made(&self, file: &dyn Source) -> Result<Stat> {
        let mut made = file.stat_opened()?;
        if self.heeds_lists.load(Ordering::Relaxed) {
            on_descriptor(file, |fd| {
                heed(&mut made, |list| fs::fgetxattr(fd, acl::ACCESS, list));
            })?;
        }
        Ok(made)
    }

    fn read_link(&self, path: &Path) -> Result<OsString> {
        self.at(path, |directory, name| {
            fs::readlinkat(directory, name, Vec::new())
        })
        .map(|target| OsString::from_vec(target.into_bytes()))
        .map_err(|e| self.failed("read the link", path, e))
    }

    fn serve_others(&self) {
        self.heeds_lists.store(true, Ordering::Relaxed);
    }

    fn space(&self) -> Result<Space> {
        let st = fs::fstatvfs(&self.root)
            .map_err(|e| self.failed("ask the free space of", Path::new(""), e))?;
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(Space {
            blocks: st.f_blocks,
            free: st.f_bfree,
            available: st.f_bavail,
            files: st.f_files,
            files_free: st.f_ffree,
            block_size: small(st.f_bsize),
            fragment_size: small(st.f_frsize),
            name_max: small(st.f_namemax),
        })
    }

    fn xattr(&self, path: &Path, file: Option<FileId>, name: &OsStr) -> Result<Vec<u8>> {
        let (_fd, at) = self.proc_path(path, file)?;
        attributes::value(&at, name).map_err(|e| match e {
            Errno::NODATA => Error::NoAttribute,
            Errno::OPNOTSUPP => Error::Unsupported,
            e => self.failed("read an attribute of", path, e),
        })
    }

    fn xattr_names(&self, path: &Path, file: Option<FileId>) -> Result<Vec<OsString>> {
        let (_fd, at) = self.proc_path(path, file)?;
        attributes::names(&at).map_err(|e| self.failed("list the attributes of", path, e))
    }

    fn has_lists(&self) -> bool {
        let asked = fs::fgetxattr(&self.root, acl::ACCESS, &mut [0; acl::MOST][..]);
        asked != Err(Errno::OPNOTSUPP)
    }
}

#[cfg(test)]
#[path = "../../../mount-tests/harness/seccomp.rs"]
mod seccomp;

#[cfg(test)]
mod tests {
    use rustix::fs::ResolveFlags;

    use super::*;

    /// Without waiting for the clock, the second content passes for the first.
    #[test]
    fn a_file_rewritten_within_a_tick_is_never_taken_for_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        for _ in 0..20 {
            std::fs::write(directory.path().join("x"), [1; 100]).unwrap();
            let source = store.open(Path::new("x")).unwrap();
            let mut found = [0; 100];
            source.fetch_one(0, &mut found).unwrap();
            assert_eq!(found, [1; 100]);
            std::fs::write(directory.path().join("x"), [2; 100]).unwrap();
            let again = source.fetch_one(0, &mut found);
            assert!(matches!(again, Err(Error::Changed { .. })), "{again:?}");
        }
    }

    /// Looking into it is refused at once; opening it waits for the holder.
    #[test]
    fn a_leased_file_is_opened_when_its_holder_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        let (path, name) = (directory.path().join("x"), Path::new("x"));
        std::fs::write(&path, "bytes").unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        lease(&file, libc::F_WRLCK);
        let refused = store.head(name, &mut [0]).unwrap_err();
        assert!(refused.is_would_block(), "{refused}");
        std::thread::scope(|threads| {
            let (tell, told) = std::sync::mpsc::channel();
            let store = &store;
            let opener = threads.spawn(move || {
                tell.send(std::fs::read_link("/proc/thread-self").unwrap())
                    .unwrap();
                store.open(name).map(|source| source.len())
            });
            let state = Path::new("/proc").join(told.recv().unwrap()).join("stat");
            while !std::fs::read_to_string(&state).unwrap().contains(") S ") {
                std::thread::yield_now();
            }
            lease(&file, libc::F_UNLCK);
            assert_eq!(opener.join().unwrap().unwrap(), 5);
        });
    }

    /// Takes a lease on a file, or gives it up. SIGURG, which is ignored, says that another process
    /// waits.
    fn lease(file: &std::fs::File, kind: i32) {
        const F_SETSIG: i32 = 10;
        // SAFETY: two calls that take numbers.
        let done = unsafe {
            libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) == 0
                && libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) == 0
        };
        assert!(done, "{}", io::Error::last_os_error());
    }

    #[test]
    fn nothing_is_reached_by_way_of_a_link() {
        assert_no_link_is_followed();
    }

    #[test]
    fn nothing_is_reached_by_way_of_a_link_without_openat2() {
        let alone = std::thread::spawn(|| {
            seccomp::forget_openat2().unwrap();
            let root = fs::open(".", OFlags::PATH, Mode::empty()).unwrap();
            let resolve = ResolveFlags::BENEATH;
            let missing = fs::openat2(root, ".", OFlags::PATH, Mode::empty(), resolve);
            assert_eq!(missing.err(), Some(Errno::NOSYS));
            assert_no_link_is_followed();
        });
        alone.join().unwrap();
    }

    #[test]
    fn nothing_above_the_store_is_reached() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("store/a")).unwrap();
        std::fs::write(directory.path().join("above"), "x").unwrap();
        let path = directory.path().join("store");
        let store = LocalStore::open(&path, &path).unwrap();
        let absolute = directory.path().join("above");
        for path in [Path::new("../above"), Path::new("a/../../above"), &absolute] {
            assert!(store.stat(path).is_err());
            assert!(store.open(path).is_err());
            assert!(store.head(path, &mut [0]).is_err());
            assert!(store.xattr_names(path, None).is_err());
        }
        for path in ["..", "/", "a/../.."].map(Path::new) {
            assert!(store.stat(path).is_err(), "{}", path.display());
            assert!(store.list(path, &mut |_| {}).is_err(), "{}", path.display());
        }
    }

    /// A directory is replaced by a link that leads out of the store, to one like it.
    fn assert_no_link_is_followed() {
        use std::os::unix::fs::symlink;
        let (directory, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(directory.path().join("a/d")).unwrap();
        let entries = |at: &Path| {
            std::fs::write(at.join("file"), "x").unwrap();
            symlink("target", at.join("link")).unwrap();
        };
        entries(&directory.path().join("a/d"));
        entries(outside.path());
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        let reached = || {
            let [file, link] = ["a/d/file", "a/d/link"].map(Path::new);
            [
                store.stat(file).is_ok(),
                store.stat(link).is_ok(),
                store.read_link(link).is_ok(),
                store.xattr_names(file, None).is_ok(),
                !matches!(
                    store.xattr(file, None, OsStr::new("user.x")),
                    Err(Error::Io { .. })
                ),
                store.list(Path::new("a/d"), &mut |_| {}).is_ok(),
                store.open(file).is_ok(),
                store.head(file, &mut [0]).is_ok(),
            ]
        };
        assert_eq!(reached(), [true; 8]);
        std::fs::rename(directory.path().join("a/d"), directory.path().join("old")).unwrap();
        symlink(outside.path(), directory.path().join("a/d")).unwrap();
        assert_eq!(reached(), [false; 8]);
        let link = store.stat(Path::new("a/d")).unwrap();
        assert_eq!(link.kind, FileKind::Symlink, "the link itself is there");
        assert_eq!(store.read_link(Path::new("a/d")).unwrap(), outside.path());
    }
}
