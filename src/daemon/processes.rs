//! What other processes have to do with a mount, from `/proc`: who serves it, who keeps it mounted.
//!
//! Used for messages, when a daemon does not answer or does not end, or has a source locked. What this user may not look at is
//! left out, so nothing may depend on a list being complete.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::mount_table::{Device, Mounted, mounts_of};

/// A process in another mount namespace, in which a file system is mounted, too.
#[derive(Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// As that namespace sees it.
    pub mountpoint: PathBuf,
}

/// One process of each mount namespace but ours that has this file system.
pub fn holders(device: Device) -> Vec<Holder> {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let mut seen: HashSet<_> = namespace("self").into_iter().collect();
    let mut holders = Vec::new();
    for pid in pids() {
        let process = pid.to_string();
        if !namespace(&process).is_some_and(|namespace| seen.insert(namespace)) {
            continue;
        }
        let mounts = mounts_of(&process).unwrap_or_default();
        let held = mounts.into_iter().find(|mounted| mounted.device == device);
        holders.extend(held.map(|Mounted { mountpoint, .. }| Holder { pid, mountpoint }));
    }
    holders
}

/// The daemon of a mount, if it can be told from others.
pub fn daemon_of(device: Device, mountpoint: &Path) -> Option<u32> {
    let serving = |pid: &u32| is_ours(*pid) && has_connection(*pid);
    let daemons = || pids().into_iter().filter(serving);
    // Kernels since 6.16 tell the connection; before, the arguments have to do.
    let mut by_connection = daemons().filter(|pid| serves(*pid, device));
    if let Some(pid) = by_connection.next() {
        return Some(pid);
    }
    let mut by_arguments = daemons().filter(|pid| was_told(*pid, mountpoint));
    by_arguments
        .next()
        .filter(|_| by_arguments.next().is_none())
}

/// The mount that a daemon serves, as the daemon itself sees it; of those that it may be `related` to, where only
/// numbers speak for it.
pub(super) fn mount_of(pid: u32, related: impl Fn(&Mounted) -> bool) -> Option<Mounted> {
    let connections = connections(pid);
    let is_its = |mounted: &Mounted| {
        let told = || was_told(pid, &mounted.mountpoint);
        match connections.is_empty() {
            true => told(),
            false => connections.contains(&mounted.device.minor) && (related(mounted) || told()),
        }
    };
    let mounts = mounts_of(&pid.to_string()).or_else(|_| mounts_of("self"));
    mounts.unwrap_or_default().into_iter().rfind(is_its)
}

/// What a process is called, if it has not ended.
pub(super) fn name(pid: u32) -> Option<String> {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(comm.trim_end().to_owned())
}

/// Whether a process is one of this program's daemons, by its name.
pub fn is_ours(pid: u32) -> bool {
    name(pid).is_some_and(|name| name == DAEMON)
}

/// Whether a process is stopped, by a signal or a debugger.
pub fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    matches!(state, Some('T' | 't'))
}

/// What daemons are called, however they were started.
const DAEMON: &str = env!("CARGO_PKG_NAME");

/// Gives this process the name of a daemon: mount(8) starts it as `mount.fuse.arrayfs`.
pub fn name_daemon() {
    // Without /proc the name stays; only messages need it.
    let _ = std::fs::write("/proc/self/comm", DAEMON);
}

fn pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids
}

/// Whether it has the device open; those who ask are called like daemons, but serve nothing.
fn has_connection(pid: u32) -> bool {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let mut fds = fds.into_iter().flatten().flatten();
    fds.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|file| file.ends_with("dev/fuse")))
}

fn serves(pid: u32, device: Device) -> bool {
    connections(pid).contains(&device.minor)
}

/// The numbers of the connections that a process has open, on kernels that tell them.
fn connections(pid: u32) -> Vec<u32> {
    let infos = std::fs::read_dir(format!("/proc/{pid}/fdinfo"));
    let number = |info: std::fs::DirEntry| {
        let text = std::fs::read_to_string(info.path()).unwrap_or_default();
        let mut lines = text.lines();
        let number = lines.find_map(|line| line.strip_prefix("fuse_connection:"))?;
        number.trim().parse().ok()
    };
    let infos = infos.into_iter().flatten().flatten();
    infos.filter_map(number).collect()
}

/// Whether an argument names the mountpoint; the directory that it was relative to is not known any more.
fn was_told(pid: u32, mountpoint: &Path) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = arguments.split(|&b| b == 0).filter(|arg| !arg.is_empty());
    arguments.any(|argument| {
        let argument = Path::new(OsStr::from_bytes(argument));
        mountpoint.ends_with(argument.strip_prefix(".").unwrap_or(argument))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there_and_runs() {
        let own = std::process::id();
        assert!(pids().contains(&own));
        assert!(!is_stopped(own));
        let program = std::env::current_exe().unwrap();
        assert!(was_told(own, &program));
        assert!(!was_told(own, Path::new("/no/such")));
    }

    #[test]
    fn nobody_holds_or_serves_what_is_not_mounted() {
        let proc = super::super::mount_table::device_at(Path::new("/proc")).unwrap();
        assert_eq!(holders(proc), []);
        assert_eq!(daemon_of(proc, Path::new("/no/such")), None);
    }
}
