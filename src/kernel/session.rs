//! A mount from beginning to end: mount, serve, unmount.
//!
//! fuser's own unmounting is not used: after an unmount from outside it would unmount the same path
//! again, which may be somebody else's mount by then. The session is never dropped; the process
//! ends.

use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crossbeam_channel::Receiver;
use fuser::{BackgroundSession, Config, INodeNo, MountOption, Notifier, Session, SessionACL};

use super::dispatch::Adapter;
use super::fault_log::FaultLog;
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
    pub direct_io: bool,
    /// Let the kernel read ordinary files by itself; needs privileges.
    pub passthrough: bool,
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
    pub(super) faults: Arc<FaultLog>,
}

impl Options {
    pub fn new(source_name: String, threads: usize) -> Self {
        Options {
            source_name,
            writable: false,
            allow_other: false,
            direct_io: false,
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
            faults: Arc::default(),
        }
    }
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
        mountpoint: &Path,
        options: &Options,
    ) -> io::Result<Mount> {
        let (ended, wait_ended) = crossbeam_channel::bounded(1);
        let wanted = Arc::new(OnceLock::new());
        let stale_files = StaleFiles::start(Arc::clone(&tree), Arc::clone(&wanted))?;
        let (new_containers, put_off, large) =
            (Arc::clone(&tree), Arc::clone(&tree), Arc::clone(&tree));
        let adapter = Adapter::new(tree, options.clone(), ended, stale_files);
        let config = fuser_config(options);
        let session = if rustix::process::geteuid().is_root() {
            let device = mount_as_root(mountpoint, options)?;
            Session::from_fd(adapter, device, config.acl, config)?
        } else {
            Session::new(adapter, mountpoint, &config)?
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
                .spawn(move || new_containers.containers().pack_when_quiet())?;
            std::thread::Builder::new()
                .name("put-off-commits".into())
                .spawn(move || put_off.containers().commit_when_due(Later::PutOff))?;
            std::thread::Builder::new()
                .name("large-commits".into())
                .spawn(move || large.containers().commit_when_due(Later::Large))?;
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
    config.acl = if options.allow_other {
        SessionACL::All
    } else {
        SessionACL::Owner
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
/// and its open files keep working until they are closed.
pub fn unmount(mountpoint: &Path, lazily: bool) -> io::Result<()> {
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

/// What the helper means: it knows no other way to tell than words, and does not translate them.
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

    #[test]
    fn a_source_name_cannot_smuggle_options() {
        assert_eq!(fs_name("/data/foo%25,rw\\x\n"), "/data/foo%25%2Crw%5Cx%0A");
        assert_eq!(fs_name("/plain/größe"), "/plain/größe");
    }
}
