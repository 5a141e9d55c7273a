//! Opening what lies below a directory and nothing else: no symbolic link is followed, no `..` and
//! no absolute path is taken, whatever is renamed meanwhile.
//!
//! `openat2` does that in one call. Where it is missing (kernels before 5.6, gVisor) or forbidden
//! (seccomp), every directory on the way is opened from the descriptor of the one above it.
//! Used by [`super`] and by `disk`.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{self, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};

use crate::source::descriptors::retrying;

/// Bytes of a path in one call, with its end.
const PATH_MAX: usize = 4096;

/// How often `openat2` is asked again when it could not make sure of the way.
const TRIES: u32 = 16;

/// Opens `path` below `root`; the empty path is `root` itself. A link at its end is opened as such
/// with `O_PATH`, and is ELOOP without, or where a directory is wanted. A file on which another
/// program holds a lease is EAGAIN: the kernel has signalled that program to give it up.
pub fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    match resolve(root, path, flags) {
        Err(Errno::NOTDIR) if flags.contains(OFlags::DIRECTORY) && is_link(root, path) => {
            Err(Errno::LOOP)
        }
        other => other,
    }
}

fn resolve(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    // A pipe must not hold the daemon up; O_PATH opens nothing and refuses to hear of it.
    let patient = if flags.contains(OFlags::PATH) {
        OFlags::empty()
    } else {
        OFlags::NONBLOCK
    };
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | patient;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    for _ in 0..TRIES {
        match retrying(|| fs::openat2(root, here(path), flags, Mode::empty(), how)) {
            // A rename on the way, or a lease; the walk below tells them apart.
            Err(Errno::INTR | Errno::AGAIN) => continue,
            // Filters of system calls answer one that they do not know with either.
            Err(Errno::NOSYS | Errno::PERM) => break,
            // Longer than a path may be at once.
            Err(Errno::NAMETOOLONG) if path.as_os_str().len() >= PATH_MAX => break,
            other => return other,
        }
    }
    walk(root, path, flags)
}

/// The directory that holds an entry, and the entry's name in it; `None` if the path is that of the
/// root.
pub(super) fn split(path: &Path) -> Result<Option<(&Path, &OsStr)>> {
    let mut last = None;
    for name in names(path) {
        last = Some(name?);
    }
    let above = path.parent().unwrap_or(Path::new(""));
    Ok(last.map(|name| (above, name)))
}

/// The root itself is the empty path.
fn here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

/// The names on the way; EXDEV, as `openat2` says it, for what could lead upwards.
fn names(path: &Path) -> impl Iterator<Item = Result<&OsStr>> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(Ok(name)),
        Component::CurDir => None,
        Component::ParentDir | Component::RootDir | Component::Prefix(_) => Some(Err(Errno::XDEV)),
    })
}

/// `flags` have `O_NOFOLLOW`.
fn walk(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let Some((above, last)) = split(path)? else {
        return open_name(root, OsStr::new("."), flags);
    };
    let mut reached: Option<OwnedFd> = None;
    for name in names(above) {
        let from = reached.as_ref().map_or(root, |fd| fd.as_fd());
        reached = Some(enter(from, name?)?);
    }
    let from = reached.as_ref().map_or(root, |fd| fd.as_fd());
    open_name(from, last, flags)
}

/// A directory in `from`; ELOOP for a link on the way, as `openat2` says it.
fn enter(from: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open_name(from, name, flags).map_err(|e| match e {
        Errno::NOTDIR if is_link(from, Path::new(name)) => Errno::LOOP,
        e => e,
    })
}

fn is_link(from: BorrowedFd<'_>, path: &Path) -> bool {
    let found = resolve(from, path, OFlags::PATH).and_then(fs::fstat);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_symlink())
}

/// `name` is one component, so it leads nowhere but into `directory`.
fn open_name(directory: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd> {
    loop {
        match retrying(|| fs::openat(directory, name, flags, Mode::empty())) {
            Err(Errno::INTR) => continue,
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{RenameFlags, renameat_with};
    use tempfile::TempDir;

    use super::*;

    /// A directory with `d/e/file` in it and a link `other` to a directory outside that is alike;
    /// the files say where they lie.
    fn ground() -> (TempDir, TempDir, OwnedFd) {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let fill = |directory: &Path, says: &str| {
            std::fs::create_dir_all(directory.join("e")).unwrap();
            std::fs::write(directory.join("e/file"), says).unwrap();
            std::fs::write(directory.join("file"), says).unwrap();
        };
        fill(&inside.path().join("d"), "inside");
        fill(outside.path(), "outside");
        symlink(outside.path(), inside.path().join("other")).unwrap();
        let root = fs::open(
            inside.path(),
            OFlags::PATH | OFlags::DIRECTORY,
            Mode::empty(),
        );
        (inside, outside, root.unwrap())
    }

    fn both(root: &OwnedFd, path: &str, flags: OFlags) -> [Result<OwnedFd>; 2] {
        let flags = flags | OFlags::NOFOLLOW;
        let (root, path) = (root.as_fd(), Path::new(path));
        [open(root, path, flags), walk(root, path, flags)]
    }

    #[test]
    fn with_and_without_openat2_the_answers_are_the_same() {
        let (inside, _outside, root) = ground();
        let absolute = inside.path().join("d/file");
        let table = [
            ("d/file", OFlags::RDONLY, None),
            ("./d/./file", OFlags::RDONLY, None),
            ("", OFlags::RDONLY, None),
            ("d", OFlags::RDONLY | OFlags::DIRECTORY, None),
            ("other", OFlags::PATH, None),
            (
                "d/file",
                OFlags::RDONLY | OFlags::DIRECTORY,
                Some(Errno::NOTDIR),
            ),
            ("other", OFlags::RDONLY, Some(Errno::LOOP)),
            ("other/file", OFlags::RDONLY, Some(Errno::LOOP)),
            ("other/e/file", OFlags::RDONLY, Some(Errno::LOOP)),
            ("d/../d/file", OFlags::RDONLY, Some(Errno::XDEV)),
            ("..", OFlags::PATH, Some(Errno::XDEV)),
            (
                absolute.to_str().unwrap(),
                OFlags::RDONLY,
                Some(Errno::XDEV),
            ),
            ("d/file/x", OFlags::RDONLY, Some(Errno::NOTDIR)),
            ("d/nothing", OFlags::RDONLY, Some(Errno::NOENT)),
        ];
        for (path, flags, expected) in table {
            // A step back within the tree is fine with the kernel; no path of the daemon has one.
            let [with, without] = both(&root, path, flags);
            assert_eq!(without.err(), expected, "{path}");
            if !path.contains("/../") {
                assert_eq!(with.err(), expected, "{path}");
            }
        }
    }

    #[test]
    fn a_link_is_no_directory() {
        let (_inside, _outside, root) = ground();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let opened = open(root.as_fd(), Path::new("other"), flags);
        assert_eq!(opened.err(), Some(Errno::LOOP));
    }

    #[test]
    fn a_path_is_split_only_if_it_leads_downwards() {
        let split = |path| split(Path::new(path));
        assert_eq!(split(""), Ok(None));
        assert_eq!(split("."), Ok(None));
        assert_eq!(split("x"), Ok(Some((Path::new(""), OsStr::new("x")))));
        assert_eq!(
            split("a/b/c"),
            Ok(Some((Path::new("a/b"), OsStr::new("c"))))
        );
        for upwards in ["..", "/", "/x", "a/..", "../x", "a/../b"] {
            assert_eq!(split(upwards), Err(Errno::XDEV), "{upwards}");
        }
    }

    /// A directory on the way becomes a link to the outside and back while paths are walked.
    #[test]
    fn no_swap_of_a_directory_with_a_link_leads_outside() {
        const WALKS: usize = 5_000;
        let (_inside, _outside, root) = ground();
        let done = AtomicBool::new(false);
        let (mut reached, mut refused) = (0, 0);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    renameat_with(&root, "d", &root, "other", RenameFlags::EXCHANGE).unwrap();
                }
            });
            while reached + refused < 2 * WALKS || reached == 0 || refused == 0 {
                for path in ["d/file", "d/e/file"] {
                    match walk(
                        root.as_fd(),
                        Path::new(path),
                        OFlags::RDONLY | OFlags::NOFOLLOW,
                    ) {
                        Ok(file) => {
                            let mut says = [0; 7];
                            let n = rustix::io::read(&file, &mut says).unwrap();
                            assert_eq!(&says[..n], b"inside");
                            reached += 1;
                        }
                        // The link had become the directory again when it was looked at.
                        Err(Errno::LOOP | Errno::NOTDIR) => refused += 1,
                        Err(e) => panic!("{e}"),
                    }
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
