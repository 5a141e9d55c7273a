//! What a daemon that writes for others must not inherit from the process that started it.
//!
//! Used by the command that mounts, before the process has a second thread: both are taken over by
//! the threads that are started later.

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities,
    set_thread_groups,
};

/// Files get the mode that the kernel's request says: it has applied the umask of the process that
/// makes them.
pub fn clear_umask() {
    rustix::process::umask(Mode::empty());
}

/// A limit of the length of files (`ulimit -f`) is an error of the write that meets it, not the end
/// of the daemon.
pub fn survive_length_limit() {
    // SAFETY: ignoring a signal runs no code of ours; no other thread runs yet.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// What is done for another user is done by that user alone: a group of root's would let him keep
/// the set-group-id bit of files that belong to it.
pub fn leave_groups() -> Result<(), Errno> {
    match rustix::process::geteuid().is_root() {
        true => set_thread_groups(&[]),
        false => Ok(()),
    }
}

/// Quotas, and the blocks that a file system keeps for root, hold for what is written for others:
/// the right to exceed them is given up for good, also for programs that are started.
pub fn respect_quotas() -> Result<(), Errno> {
    const EXCEED: CapabilitySet = CapabilitySet::SYS_RESOURCE;
    let mut sets = capabilities(None)?;
    if sets.permitted.contains(EXCEED) {
        // Needs a right of its own; without it only a program that is started as root could have it
        // again.
        let _ = remove_capability_from_bounding_set(EXCEED);
    }
    sets.effective.remove(EXCEED);
    sets.permitted.remove(EXCEED);
    sets.inheritable.remove(EXCEED);
    set_capabilities(None, sets)
}
