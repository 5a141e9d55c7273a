//! A mount from beginning to end: mount, serve, unmount.
//!
//! fuser's own unmounting is not used: after an unmount from outside it would unmount the same path
//! again, which may be another mount by then. The session is never dropped; the process ends.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::Duration;

use crossbeam_channel::Receiver;
use fuser::{BackgroundSession, Config, INodeNo, MountOption, Notifier, Session, SessionACL};

use super::dispatch::Adapter;
use super::root_mount::mount_as_root;
use super::stale_pages::StaleFiles;
use crate::tree::{Invalidation, Later, Tree};

/// How the mount is shown to the kernel.
#[derive(Clone)]
pub struct Options {
    /// What the mount table shows as the source: a path whose `%` are escaped.
    pub source_name: String,
    pub writable: bool,
    pub allow_other: bool,
    /// Root is let in beside the user who mounts.
    pub allow_root: bool,
    pub direct_io: bool,
    /// Let the kernel read ordinary files by itself; needs privileges.
    pub passthrough: bool,
    /// Show access control lists, and let the kernel decide by them.
    pub lists: bool,
    /// Threads that serve requests.
    pub(super) threads: usize,
    pub suid: bool,
    pub dev: bool,
    pub exec: bool,
    pub atime: bool,
    /// Every write, or every change of a directory, is synced.
    pub sync: bool,
    pub dirsync: bool,
    /// Whether symbolic links of the mount are followed; only root may say no.
    pub symfollow: bool,
}

impl Options {
    pub fn new(source_name: String, threads: usize) -> Self {
        Options {
            source_name,
            writable: false,
            allow_other: false,
            allow_root: false,
            direct_io: false,
            lists: false,
            passthrough: rustix::process::geteuid().is_root(),
            // The last one that is free listens; alone it would hand over all there is to do.
            threads: threads.max(2),
            suid: false,
            dev: false,
            exec: true,
            atime: true,
            sync: false,
            dirsync: false,
            symfollow: true,
        }
    }
}

/// Where a tree is served.
pub enum ServeAt<'a> {
    /// It is mounted there.
    Mountpoint(&'a Path),
    /// Somebody has mounted it, and hands over the connection to the kernel.
    Connection(OwnedFd),
}

/// A mounted tree that is being served.
pub struct Mount {
    /// Dropping it would unmount by path.
    _session: ManuallyDrop<BackgroundSession>,
    ended: Receiver<()>,
}

impl Mount {
    /// Mounts and serves; when this returns, the mount is usable. Starts threads, so it is called
    /// after the process went to the background.
    pub fn start(
        tree: Arc<Tree>,
        invalidations: Receiver<Invalidation>,
        at: ServeAt<'_>,
        options: &Options,
    ) -> io::Result<Mount> {
        let (ended, wait_ended) = crossbeam_channel::bounded(1);
        let wanted = Arc::new(OnceLock::new());
        let stale_files = StaleFiles::start(Arc::clone(&tree), Arc::clone(&wanted))?;
        let [new_containers, committing] = [(); 2].map(|()| Arc::clone(&tree));
        let adapter = Adapter::new(tree, options.clone(), ended, stale_files);
        let config = fuser_config(options);
        let session = match at {
            // The kernel lets in whom the mount does.
            ServeAt::Connection(device) => {
                Session::from_fd(adapter, device, SessionACL::All, config)?
            }
            ServeAt::Mountpoint(mountpoint) if rustix::process::geteuid().is_root() => {
                let device = mount_as_root(mountpoint, options)?;
                Session::from_fd(adapter, device, config.acl, config)?
            }
            ServeAt::Mountpoint(mountpoint) => Session::new(adapter, mountpoint, &config)?,
        };
        let notifier = session.notifier();
        let _ = wanted.set(notifier.clone());
        let session = session.spawn()?;
        std::thread::Builder::new()
            .name("invalidate".into())
            .spawn(move || invalidate(&notifier, &invalidations))?;
        if options.writable {
            std::thread::Builder::new()
                .name("new-containers".into())
                .spawn(move || new_containers.containers().packing.pack_when_quiet())?;
            for (later, name) in [(Later::PutOff, "put-off"), (Later::Large, "large")] {
                for _ in 0..later.threads() {
                    let committing = Arc::clone(&committing);
                    std::thread::Builder::new()
                        .name(format!("{name}-commits"))
                        .spawn(move || committing.containers().later.commit_when_due(later))?;
                }
            }
        }
        Ok(Mount {
            _session: ManuallyDrop::new(session),
            ended: wait_ended,
        })
    }

    /// Receives once when the kernel has ended the connection: the mount is gone.
    pub fn ended(&self) -> &Receiver<()> {
        &self.ended
    }
}

fn fuser_config(options: &Options) -> Config {
    // The mount options are fusermount3's; root's own mount makes them up itself.
    let flag = |on, yes, no| if on { yes } else { no };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(fs_name(&options.source_name)),
        MountOption::Subtype("arrayfs".into()),
        flag(options.writable, MountOption::RW, MountOption::RO),
        MountOption::DefaultPermissions,
        MountOption::CUSTOM(format!("max_read={}", super::config::READ)),
        flag(options.suid, MountOption::Suid, MountOption::NoSuid),
        flag(options.dev, MountOption::Dev, MountOption::NoDev),
        flag(options.exec, MountOption::Exec, MountOption::NoExec),
        flag(options.atime, MountOption::Atime, MountOption::NoAtime),
        flag(options.sync, MountOption::Sync, MountOption::Async),
    ];
    if options.dirsync {
        config.mount_options.push(MountOption::DirSync);
    }
    config.acl = match (options.allow_other, options.allow_root) {
        (true, _) => SessionACL::All,
        // To the kernel that is everybody; others are refused here.
        (false, true) => SessionACL::RootAndOwner,
        (false, false) => SessionACL::Owner,
    };
    config.n_threads = Some(options.threads);
    config.clone_fd = true;
    config
}

/// A comma would begin a further option (fuser 0.18 does not escape it), a NUL is a panic. `%`
/// stays: the name has escapes already.
pub(super) fn fs_name(source: &str) -> String {
    let escaped = |c: char| match c {
        ',' | '\\' => format!("%{:02X}", u32::from(c)),
        c if c.is_control() => format!("%{:02X}", u32::from(c)),
        c => c.to_string(),
    };
    source.chars().map(escaped).collect()
}

/// In a thread of its own: the kernel may hold a directory's lock while it waits for our answer to
/// a request, and takes the same lock for a notification.
fn invalidate(notifier: &Notifier, invalidations: &Receiver<Invalidation>) {
    while let Ok(gone) = invalidations.recv() {
        let Invalidation {
            inode,
            content,
            name,
        } = gone;
        // What lies before the first byte are the attributes alone.
        let first = if content { 0 } else { -1 };
        let dropped = notifier.inval_inode(INodeNo(inode.0), first, 0);
        let unnamed = match name {
            Some((parent, name)) => notifier.inval_entry(INodeNo(parent.0), &name),
            None => Ok(()),
        };
        for e in [dropped, unnamed].into_iter().filter_map(Result::err) {
            log::debug!("invalidation of inode {}: {e}", inode.0);
        }
    }
}

/// Unmounts `mountpoint`, as root or through fusermount3. `lazily`: the mount disappears at once
/// and its open files keep working until they are closed; otherwise it fails with EBUSY if the
/// mount is still used a tenth of a second later.
pub fn unmount(mountpoint: &Path, lazily: bool) -> io::Result<()> {
    while_busy(|| unmount_once(mountpoint, lazily), sleep)
}

/// Milliseconds between tries of a call that is EBUSY: programs that list the open files of all
/// others (lsof, fuser) hold each for an instant.
const BUSY_PAUSES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

fn while_busy(
    mut call: impl FnMut() -> io::Result<()>,
    pause: impl Fn(Duration),
) -> io::Result<()> {
    let is_busy = |e: &io::Error| e.raw_os_error() == Some(libc::EBUSY);
    for wait in BUSY_PAUSES {
        match call() {
            Err(e) if is_busy(&e) => pause(Duration::from_millis(wait)),
            done => return done,
        }
    }
    call()
}

fn unmount_once(mountpoint: &Path, lazily: bool) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        let flags = if lazily {
            rustix::mount::UnmountFlags::DETACH
        } else {
            rustix::mount::UnmountFlags::empty()
        };
        return Ok(rustix::mount::unmount(mountpoint, flags)?);
    }
    let mut command = std::process::Command::new(fusermount()?);
    command
        .arg(if lazily { "-uz" } else { "-u" })
        .arg("--")
        .arg(mountpoint);
    let ended = command.output()?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(refusal(&String::from_utf8_lossy(&ended.stderr))),
    }
}

/// The error that the helper means: it reports only in words, and does not translate them.
fn refusal(said: &str) -> io::Error {
    let says = |words| said.contains(words);
    if says("Device or resource busy") {
        io::Error::from_raw_os_error(libc::EBUSY)
    } else if says("not found in /etc/mtab") || says("Operation not permitted") {
        io::Error::from_raw_os_error(libc::EPERM)
    } else {
        io::Error::other(said.trim().to_owned())
    }
}

/// The helper that mounts for users who are not root.
pub fn fusermount() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/bin"), PathBuf::from("/bin")])
        .flat_map(|dir| [dir.join("fusermount3"), dir.join("fusermount")])
        .find(|program| program.is_file())
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_s_words_are_understood() {
        let code = |said| refusal(said).raw_os_error();
        let busy = "fusermount3: failed to unmount /x: Device or resource busy\n";
        let foreign = "fusermount3: entry for /x not found in /etc/mtab\n";
        assert_eq!(code(busy), Some(libc::EBUSY));
        assert_eq!(code(foreign), Some(libc::EPERM));
        assert_eq!(
            refusal("fusermount3: what?\n").to_string(),
            "fusermount3: what?"
        );
    }

    /// What a call gives that fails with these errors, one after the other, and then succeeds; and
    /// how often it was called.
    fn tried(errors: &[i32]) -> (Option<i32>, usize) {
        let mut tries = 0;
        let call = || {
            tries += 1;
            let code = errors.get(tries - 1).copied();
            code.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
        };
        let done = while_busy(call, |_| {});
        (done.err().and_then(|e| e.raw_os_error()), tries)
    }

    #[test]
    fn a_mount_that_is_busy_for_an_instant_is_tried_again() {
        use libc::{EBUSY, EPERM};
        assert_eq!(tried(&[]), (None, 1));
        assert_eq!(tried(&[EBUSY, EBUSY]), (None, 3));
        assert_eq!(tried(&[EBUSY, EPERM]), (Some(EPERM), 2));
        let all = BUSY_PAUSES.len() + 1;
        assert_eq!(tried(&[EBUSY; 100]), (Some(EBUSY), all));
    }

    #[test]
    fn a_source_name_cannot_smuggle_options() {
        assert_eq!(fs_name("/data/foo%25,rw\\x\n"), "/data/foo%25%2Crw%5Cx%0A");
        assert_eq!(fs_name("/plain/größe"), "/plain/größe");
    }
}
