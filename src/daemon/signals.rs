//! Signals as messages: SIGTERM and SIGINT end the mount, SIGHUP reopens the log.

use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Unmount and end.
    End,
    /// The log file was moved away: open it anew.
    ReopenLog,
}

/// One that ends the mount so soon after another asks for the same: `timeout` and terminals send
/// one to a process, and one to its group.
const AT_ONCE: Duration = Duration::from_millis(200);

/// Starts the thread that receives signals.
pub fn receive() -> io::Result<Receiver<Request>> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (sender, receiver) = crossbeam_channel::unbounded();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut ended: Option<Instant> = None;
            for signal in signals.forever() {
                let request = match signal {
                    SIGHUP => Request::ReopenLog,
                    _ if ended.is_some_and(|at| at.elapsed() < AT_ONCE) => continue,
                    _ => Request::End,
                };
                if request == Request::End {
                    ended = Some(Instant::now());
                }
                if sender.send(request).is_err() {
                    return;
                }
            }
        })?;
    Ok(receiver)
}
