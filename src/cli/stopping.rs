//! The user's wish that a command should end (^C), for commands that end in order.
//!
//! A second signal ends the process at once. Used by the commands that write files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Becomes true when a signal asks for an end.
pub(super) fn when_stopped() -> io::Result<Arc<AtomicBool>> {
    let (stopped, ignored) = (Arc::new(AtomicBool::new(false)), ignored_signals());
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // What the process was started to ignore (nohup) it goes on to ignore.
        if ignored & (1 << (signal - 1)) == 0 {
            flag::register_conditional_default(signal, Arc::clone(&stopped))?;
            flag::register(signal, Arc::clone(&stopped))?;
        }
    }
    Ok(stopped)
}

/// A bit for each signal, the lowest for the first.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
