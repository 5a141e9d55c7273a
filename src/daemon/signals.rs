//! Signals as messages: SIGTERM and SIGINT end the mount, SIGHUP reopens the log.

use std::io;

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

/// Starts the thread that receives signals.
pub fn receive() -> io::Result<Receiver<Request>> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (sender, receiver) = crossbeam_channel::unbounded();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                let request = if signal == SIGHUP {
                    Request::ReopenLog
                } else {
                    Request::End
                };
                if sender.send(request).is_err() {
                    return;
                }
            }
        })?;
    Ok(receiver)
}
