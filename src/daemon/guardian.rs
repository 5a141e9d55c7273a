//! A process that outlives the daemon for a moment, to end the kernel's connection when the daemon
//! has died.
//!
//! A thread that tells the kernel to forget a name waits, and cannot be killed, as long as a
//! program holds the directory; and that program may wait for an answer. If the daemon is killed
//! just then, that thread keeps the connection open and no thread will ever answer: every program
//! waits for ever. Nor does the process count as ended, so watching it as a whole would show
//! nothing. The guardian is started by a thread that does nothing but wait for it, and gets a
//! signal at the end of that very thread.
//!
//! It has a descriptor of what ends the connection and no other: no device, no lock, no directory.
//! It takes no other signal, so that it is there after the daemon, even if both are ended; and it
//! is not called like a daemon. Where the system does not show connections to this user there is
//! none. Used by `cli`.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::gettid;

use super::connection;
use super::mount_table::Device;
use super::processes;

/// The command of this program that guards.
const COMMAND: &str = "guardian";
const NAME: &str = "arrayfs-guard";

/// What the kernel sends the guardian when the thread that has started it has ended.
const ENDED: Signal = Signal::USR1;

/// Starts the guardian of a mount that this process serves; if it has a mountpoint, the guardian's
/// last work is to unmount what the daemon has left there.
pub fn start(device: Device, mountpoint: Option<&Path>) -> io::Result<()> {
    let abort = connection::open_abort(device)?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(env!("CARGO_PKG_NAME"))
        .args([COMMAND, &std::process::id().to_string()])
        .stdin(Stdio::from(abort))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env_clear()
        .current_dir("/")
        .process_group(0);
    let mountpoint = mountpoint.map(Path::to_owned);
    let start_and_wait = move || {
        command.arg(gettid().as_raw_nonzero().to_string());
        if let Some(mountpoint) = mountpoint {
            command.arg(device.to_string()).arg(mountpoint);
        }
        let ended = command.spawn().and_then(|mut child| child.wait());
        let why = match ended {
            Ok(status) => format!("the guardian has ended: {status}"),
            Err(e) => format!("there is no guardian: {e}"),
        };
        log::warn!("{why}; if the daemon is killed, programs may wait until `arrayfs umount`");
    };
    std::thread::Builder::new()
        .name("guardian".into())
        .spawn(start_and_wait)?;
    Ok(())
}

/// Waits for the end of a thread of the daemon, which is the parent, and ends the connection, which
/// is the standard input.
pub fn guard(daemon: u32, thread: u32) -> io::Result<()> {
    // Without /proc it is called "exe".
    let _ = std::fs::write("/proc/self/comm", NAME);
    let all = block_signals();
    set_parent_process_death_signal(Some(ENDED))?;
    // It may have ended before it was asked for the signal.
    let thread = PathBuf::from(format!("{daemon}/task/{thread}"));
    if processes::is_alive(&thread) {
        while sender_of_next(&all) != Some(daemon) {}
    }
    rustix::io::write(rustix::stdio::stdin(), b"1")?;
    Ok(())
}

/// Has all signals wait until they are asked for.
fn block_signals() -> libc::sigset_t {
    // SAFETY: a signal set is plain data, which sigfillset fills; pthread_sigmask only reads it.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        all
    }
}

/// Waits for a signal, and says which process has sent it. For that of the kernel it is the one
/// that has ended.
fn sender_of_next(signals: &libc::sigset_t) -> Option<u32> {
    // SAFETY: the description of a signal is plain data, which sigwaitinfo fills; of a signal that
    // a process has sent, or the kernel for it, the sender is a part.
    let (signal, sender) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let signal = libc::sigwaitinfo(&raw const *signals, &raw mut info);
        (signal, info.si_pid())
    };
    let is_it = signal == ENDED.as_raw();
    is_it.then(|| sender.try_into().ok()).flatten()
}
