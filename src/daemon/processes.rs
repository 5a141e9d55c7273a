//! Other processes and a mount, from `/proc`: which one serves it, which ones keep it mounted.
//!
//! Used for messages, when a daemon does not answer or does not end, or has a source locked. What
//! this user may not look at is left out, so nothing may depend on a list being complete.

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
    let serving = |pid: &u32| is_ours(*pid) && has_connection(&pid.to_string());
    let daemons = || pids().into_iter().filter(serving);
    // Kernels since 6.16 show the connection; before, the arguments have to do.
    let mut by_connection = daemons().filter(|pid| serves(&pid.to_string(), device));
    if let Some(pid) = by_connection.next() {
        return Some(pid);
    }
    let told = |pid: &String| connections(pid).is_empty() && was_told(pid, mountpoint);
    let mut by_arguments = daemons().filter(|pid| told(&pid.to_string()));
    by_arguments
        .next()
        .filter(|_| by_arguments.next().is_none())
}

/// The daemon of a mount, if it has been killed and cannot end: in one of its threads the kernel
/// waits.
pub fn dead_daemon_of(device: Device, mountpoint: &Path) -> Option<u32> {
    let is_dead = |pid: &u32| is_ours(*pid) && !is_alive(Path::new(&pid.to_string()));
    let is_its = |thread: &String| {
        let told = || connections(thread).is_empty() && was_told(thread, mountpoint);
        has_connection(thread) && (serves(thread, device) || told())
    };
    let mut dead = pids().into_iter().filter(is_dead);
    dead.find(|pid| threads(*pid).iter().any(is_its))
}

/// The threads of a process, as `/proc` names them.
fn threads(pid: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"));
    let entries = entries.into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.map(|thread| format!("{pid}/task/{thread}")).collect()
}

/// The mount that a daemon serves, as the daemon itself sees it; of those that it may be `related`
/// to, where only numbers speak for it.
pub(super) fn mount_of(pid: u32, related: impl Fn(&Mounted) -> bool) -> Option<Mounted> {
    let process = &pid.to_string();
    let connections = connections(process);
    let is_its = |mounted: &Mounted| {
        let told = || was_told(process, &mounted.mountpoint);
        match connections.is_empty() {
            true => told(),
            false => connections.contains(&mounted.device.minor) && (related(mounted) || told()),
        }
    };
    let mounts = mounts_of(process).or_else(|_| mounts_of("self"));
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
    matches!(state(Path::new(&pid.to_string())), Some('T' | 't'))
}

/// Whether a process or thread, as `/proc` names it, is there and has not ended.
pub(super) fn is_alive(process: &Path) -> bool {
    !matches!(state(process), None | Some('Z' | 'X'))
}

fn state(process: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process).join("stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// What daemons are called, however they were started.
const DAEMON: &str = env!("CARGO_PKG_NAME");

/// Gives this process the name of a daemon: mount(8) starts it as `mount.fuse.arrayfs`.
pub fn name_daemon() {
    // Without /proc the name stays; only messages need it.
    let _ = std::fs::write("/proc/self/comm", DAEMON);
}

/// Gives it the name of a command that keeps others from mounting for long: it is no daemon.
pub fn name_command(command: &str) {
    let _ = std::fs::write("/proc/self/comm", format!("{DAEMON}-{command}"));
}

fn pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids
}

/// Whether it has the device open; the commands that ask are called like daemons, but serve
/// nothing.
fn has_connection(process: &str) -> bool {
    let fds = std::fs::read_dir(format!("/proc/{process}/fd"));
    let mut fds = fds.into_iter().flatten().flatten();
    fds.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|file| file.ends_with("dev/fuse")))
}

fn serves(process: &str, device: Device) -> bool {
    connections(process).contains(&device.minor)
}

/// The numbers of the connections that a process has open, on kernels that show them.
fn connections(process: &str) -> Vec<u32> {
    let infos = std::fs::read_dir(format!("/proc/{process}/fdinfo"));
    let number = |info: std::fs::DirEntry| {
        let text = std::fs::read_to_string(info.path()).unwrap_or_default();
        let mut lines = text.lines();
        let number = lines.find_map(|line| line.strip_prefix("fuse_connection:"))?;
        number.trim().parse().ok()
    };
    let infos = infos.into_iter().flatten().flatten();
    infos.filter_map(number).collect()
}

/// Whether an argument names the mountpoint; the directory that a relative one began at cannot be
/// found any more.
fn was_told(process: &str, mountpoint: &Path) -> bool {
    let arguments = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
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
        for process in [vec![own.to_string()], threads(own)].concat() {
            assert!(is_alive(Path::new(&process)));
            let program = std::env::current_exe().unwrap();
            assert!(was_told(&process, &program));
            assert!(!was_told(&process, Path::new("/no/such")));
        }
        assert!(!is_alive(Path::new("no/such")));
    }

    #[test]
    fn nobody_holds_or_serves_what_is_not_mounted() {
        let proc = super::super::mount_table::device_at(Path::new("/proc")).unwrap();
        assert_eq!(holders(proc), []);
        assert_eq!(daemon_of(proc, Path::new("/no/such")), None);
        assert_eq!(dead_daemon_of(proc, Path::new("/no/such")), None);
    }
}
