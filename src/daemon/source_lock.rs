//! One daemon at a time may write to a source, by locks (flock(2)) on the source and the
//! directories above it.
//!
//! A daemon that writes locks the source exclusively and every directory above it shared. So
//! writers of the same source, of a tree that contains it and of a tree in it meet at one of these
//! locks; writers side by side do not. The locks are the kernel's: nothing is left behind when
//! their holder ends, however it ends.
//!
//! Assumes that the path is canonical, and that the process that locks is the one that will serve:
//! the kernel notes which process took a lock, and messages name that process. Never waits for a
//! lock itself, so that two daemons cannot wait for each other. Used by the command that mounts.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::mount_table::Mounted;
use super::processes;

/// The right to write. Given back when it is dropped, or its process ends.
#[derive(Debug)]
pub struct SourceLock {
    _held: Vec<File>,
}

/// How the lowest directory is locked; those above it are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Exclusive,
    Shared,
}

/// Why a source is not locked.
#[derive(Debug)]
pub enum Refusal {
    /// Another process has it.
    Held(Rival),
    Failed(io::Error),
}

/// A process that has a lock that is needed.
#[derive(Debug)]
pub struct Rival {
    /// What is locked: the source, or a directory above.
    path: PathBuf,
    /// As far as it can be seen from here.
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    pid: u32,
    /// Empty when it has ended meanwhile.
    name: String,
    is_daemon: bool,
    /// What it serves, if it is a daemon whose mount is there.
    mount: Option<Box<Mounted>>,
}

/// A lock that could not be had.
struct Conflict {
    path: PathBuf,
    /// Whether a shared lock was asked for, which only an exclusive one refuses.
    shared: bool,
}

/// How long a daemon that is just starting or ending is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a process that cannot be seen is waited for: a lock that was given back meanwhile is
/// had at the next try.
const PATIENCE_WITH_UNSEEN: Duration = Duration::from_millis(200);

/// An end is noticed at once; what appears in the mount table is looked for this often.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

const AFTER_END: Duration = Duration::from_millis(1);

/// Locks a source. `shown` is how the mount table spells it. A daemon that is just ending is waited
/// for, and one that is just starting until it serves or has ended.
pub fn acquire(source: &Path, shown: &str) -> Result<SourceLock, Refusal> {
    acquire_as(Mode::Exclusive, source, shown)
}

/// Locks a source for a command that writes to one thing in `directory`, which has a lock of its
/// own: it is only in the way of a daemon that writes to all of it.
pub fn acquire_shared(directory: &Path, shown: &str) -> Result<SourceLock, Refusal> {
    acquire_as(Mode::Shared, directory, shown)
}

fn acquire_as(mode: Mode, source: &Path, shown: &str) -> Result<SourceLock, Refusal> {
    let started = Instant::now();
    loop {
        let conflict = match try_lock(source, mode).map_err(Refusal::Failed)? {
            Ok(lock) => return Ok(lock),
            Err(conflict) => conflict,
        };
        let (mut rivals, is_sure) = rivals(&conflict, shown);
        let settled = rivals.iter().position(|process| !process.is_changing());
        let patience = match settled {
            Some(_) if is_sure => Duration::ZERO,
            None if !rivals.is_empty() => PATIENCE,
            _ => PATIENCE_WITH_UNSEEN,
        };
        if started.elapsed() >= patience {
            let named = settled.unwrap_or(0);
            return Err(Refusal::Held(Rival {
                path: conflict.path,
                process: (named < rivals.len()).then(|| rivals.swap_remove(named)),
            }));
        }
        wait(rivals.first().map(|process| process.pid));
    }
}

/// All of the locks or none. From the source upwards: a process that gives up half-way has then
/// only been in the way of those that would meet the same lock higher up.
fn try_lock(source: &Path, mode: Mode) -> io::Result<Result<SourceLock, Conflict>> {
    let lock = open(source)?;
    let identity = identity(&lock)?;
    let shared = mode == Mode::Shared;
    if !lock_file(&lock, source, shared)? {
        let path = source.to_owned();
        return Ok(Err(Conflict { path, shared }));
    }
    let mut held = vec![lock];
    for directory in source.ancestors().skip(1) {
        let opened = match open(directory) {
            Ok(opened) => opened,
            // One that this user may enter and not read.
            Err(e) => {
                log::debug!("{} is not locked: {e}", directory.display());
                continue;
            }
        };
        // A bind mount can put a directory below itself.
        if self::identity(&opened)? == identity {
            continue;
        }
        if !lock_file(&opened, directory, true)? {
            let path = directory.to_owned();
            return Ok(Err(Conflict { path, shared: true }));
        }
        held.push(opened);
    }
    Ok(Ok(SourceLock { _held: held }))
}

fn open(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|meta| (meta.dev(), meta.ino()))
}

/// Whether no other process is in the way. Where a file system has no such locks none is.
fn lock_file(file: &File, path: &Path, shared: bool) -> io::Result<bool> {
    let operation = match shared {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::io::retry_on_intr(|| flock(file, operation)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        // NFS makes them locks of ranges, for which an exclusive one has to be opened for writing.
        Err(e @ (Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::BADF)) => {
            let shown = path.display();
            log::debug!(
                "{shown}: its file system has no locks ({e}); other writers are not noticed"
            );
            Ok(true)
        }
        Err(e) => Err(e.into()),
    }
}

/// The processes whose locks are in the way of one, and whether these are sure to be of that file.
fn rivals(conflict: &Conflict, shown: &str) -> (Vec<Process>, bool) {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let locks: Vec<Lock> = locks.lines().filter_map(Lock::parse).collect();
    let Ok(meta) = std::fs::metadata(&conflict.path) else {
        return (Vec::new(), false);
    };
    let in_the_way =
        |lock: &&Lock| lock.inode == meta.ino() && (lock.exclusive || !conflict.shared);
    let device = rustix::fs::major(meta.dev()).into();
    let device = (device, u64::from(rustix::fs::minor(meta.dev())));
    let mut found: Vec<&Lock> = locks.iter().filter(in_the_way).collect();
    // Some file systems (btrfs) report other device numbers for files than they have in the kernel.
    // On others who holds the lock may just have ended, and these are locks of other files: the
    // roots of all ext4 file systems have one number.
    let is_sure = found.iter().any(|lock| lock.device == device);
    if is_sure {
        found.retain(|lock| lock.device == device);
    }
    let process = |lock: &Lock| Process::look(lock.pid, shown);
    (found.into_iter().map(process).collect(), is_sure)
}

/// A line of `/proc/locks` about a lock that is held.
#[derive(Debug, PartialEq, Eq)]
struct Lock {
    exclusive: bool,
    pid: u32,
    device: (u64, u64),
    inode: u64,
}

impl Lock {
    /// Fields: number, kind, ADVISORY, READ or WRITE, process, device and inode, range.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, access, pid, file, ..] = &fields[..] else {
            return None;
        };
        let mut file = file.split(':');
        let mut hex = || u64::from_str_radix(file.next()?, 16).ok();
        let device = (hex()?, hex()?);
        Some(Lock {
            exclusive: access == "WRITE",
            pid: pid.parse().ok()?,
            device,
            inode: file.next()?.parse().ok()?,
        })
    }
}

impl Process {
    fn look(pid: u32, shown: &str) -> Self {
        let is_daemon = processes::is_ours(pid);
        // The number of a mount that is gone may be another's by now; that one is of another
        // source.
        let related = |mounted: &Mounted| is_related(&mounted.source, shown);
        let mount = || processes::mount_of(pid, related);
        Process {
            pid,
            name: processes::name(pid).unwrap_or_default(),
            is_daemon,
            mount: is_daemon.then(mount).flatten().map(Box::new),
        }
    }

    /// Whether it is about to end, or to mount.
    fn is_changing(&self) -> bool {
        self.name.is_empty() || self.is_daemon && self.mount.is_none()
    }
}

/// Whether one is the other or lies in it.
fn is_related(one: &str, other: &str) -> bool {
    Path::new(one).starts_with(other) || Path::new(other).starts_with(one)
}

/// Until a process ends, or for a moment.
fn wait(process: Option<u32>) {
    let process = process.and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut ends: Vec<PollFd<'_>> = process
        .iter()
        .map(|process| PollFd::new(process, PollFlags::IN))
        .collect();
    let moment = Timespec::try_from(BETWEEN_LOOKS).unwrap_or_default();
    // Whatever it says, the lock is tried next. One that has ended may have left its descriptors to
    // a child that is about to close them: no reason to spin.
    if poll(&mut ends, Some(&moment)).is_ok_and(|ended| ended > 0) {
        std::thread::sleep(AFTER_END);
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locked = self.path.display();
        let Some(process) = &self.process else {
            return write!(
                f,
                "{locked} is locked by a process that cannot be seen from here"
            );
        };
        let Process { pid, name, .. } = process;
        match process.mount.as_deref() {
            Some(Mounted {
                mountpoint, source, ..
            }) => {
                let at = mountpoint.display();
                write!(
                    f,
                    "another daemon (pid {pid}) writes to {source}, mounted at {at}; end it first: arrayfs umount {at}"
                )
            }
            None if process.is_daemon => write!(
                f,
                "another daemon (pid {pid}) has written to {locked}; its mount is gone, but it goes on: programs, \
                 or other mount namespaces, still use it; end them, or the daemon: kill {pid}"
            ),
            None if name.is_empty() => write!(f, "{locked} is locked by process {pid}"),
            None => write!(
                f,
                "{locked} is locked (flock) by process {pid} ({name}); wait for it, or end it"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// `a/b/c`, and `side` beside `a`.
    fn tree() -> TempDir {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("a/b/c")).unwrap();
        std::fs::create_dir(tree.path().join("side")).unwrap();
        std::fs::write(tree.path().join("a/file"), "").unwrap();
        tree
    }

    fn lock(path: &Path) -> Result<SourceLock, PathBuf> {
        try_lock(path, Mode::Exclusive)
            .unwrap()
            .map_err(|conflict| conflict.path)
    }

    #[test]
    fn one_writes_to_a_tree_and_all_that_lies_in_it() {
        let tree = tree();
        let at = |path: &str| tree.path().join(path);
        let held = lock(&at("a/b")).unwrap();
        assert_eq!(lock(&at("a/b")).unwrap_err(), at("a/b"), "the same");
        assert_eq!(lock(&at("a")).unwrap_err(), at("a"), "above");
        assert_eq!(lock(&at("a/b/c")).unwrap_err(), at("a/b"), "below");
        lock(&at("side")).expect("beside");
        let file = lock(&at("a/file")).expect("a file beside");
        assert_eq!(lock(&at("a/file")).unwrap_err(), at("a/file"));
        drop((held, file));
        lock(&at("a")).expect("free again");
    }

    /// What was locked before the conflict was met is free again.
    #[test]
    fn who_is_refused_holds_nothing() {
        let tree = tree();
        let held = lock(&tree.path().join("a")).unwrap();
        let below = tree.path().join("a/b/c");
        assert!(lock(&below).is_err());
        drop(held);
        lock(&tree.path().join("a/b")).expect("nothing below is locked");
    }

    #[test]
    fn of_many_at_once_one_wins_each_round() {
        let tree = tree();
        let paths = ["a", "a/b", "a/b/c", "a/b"].map(|path| tree.path().join(path));
        let mut won = 0;
        for _ in 0..50 {
            let start = std::sync::Barrier::new(paths.len());
            let race = |path: &PathBuf| {
                start.wait();
                lock(path).ok()
            };
            let held: Vec<_> = std::thread::scope(|scope| {
                let racing: Vec<_> = paths
                    .iter()
                    .map(|path| scope.spawn(|| race(path)))
                    .collect();
                let joined = racing.into_iter().map(|thread| thread.join().unwrap());
                joined.collect()
            });
            // None may win while a program that another test starts holds a copy of our
            // descriptors, between fork and exec.
            assert!(held.iter().flatten().count() <= 1);
            won += held.iter().flatten().count();
        }
        assert!(won > 0, "nobody ever wins");
    }

    #[test]
    fn who_is_in_the_way_is_named() {
        let tree = tree();
        let path = tree.path().join("a/b");
        let _held = lock(&path).unwrap();
        let Err(Refusal::Held(rival)) = acquire(&path, "") else {
            panic!("locked twice");
        };
        let said = rival.to_string();
        let own = format!("process {} (", std::process::id());
        assert!(said.contains(&own), "{said}");
        assert!(said.starts_with(path.to_str().unwrap()), "{said}");
    }

    #[test]
    fn what_is_not_there_is_no_conflict() {
        let tree = tree();
        assert!(try_lock(&tree.path().join("none"), Mode::Exclusive).is_err());
        symlink("/nowhere", tree.path().join("link")).unwrap();
        assert!(try_lock(&tree.path().join("link"), Mode::Exclusive).is_err());
    }

    #[test]
    fn lines_of_the_kernel_s_table() {
        let lock = Lock::parse("7: FLOCK  ADVISORY  WRITE 4711 fe:0a:131 0 EOF").unwrap();
        let expected = Lock {
            exclusive: true,
            pid: 4711,
            device: (0xfe, 0x0a),
            inode: 131,
        };
        assert_eq!(lock, expected);
        for other in [
            "7: -> FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF",
            "8: POSIX  ADVISORY  WRITE 4711 fe:00:131 0 EOF",
            "9: FLOCK  ADVISORY",
            "",
        ] {
            assert_eq!(Lock::parse(other), None, "{other}");
        }
    }

    #[test]
    fn sources_are_related_by_whole_names() {
        assert!(is_related("/data", "/data") && is_related("/data/x", "/data"));
        assert!(is_related("/", "/data") && !is_related("/data", "/data2"));
    }
}
