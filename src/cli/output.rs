//! What commands say: results on standard output, messages on standard error, and how paths are
//! spelled.
//!
//! Standard error may be closed or full, and there is nowhere to report that: it is ignored. A
//! result that cannot be written is a failure, unless its reader has gone (`arrayfs ls | head`).

use std::fmt;
use std::io::{self, StdoutLock, Write};

use super::failure::{CommandResult, Failure};
pub(super) use crate::container::names::path_text;
use crate::daemon::log::one_line;

/// A message, on one line of standard error.
pub(super) fn complain(message: impl fmt::Display) {
    let message = message.to_string();
    // In one piece, so that lines of several processes do not mix.
    let line = format!("arrayfs: {}\n", one_line(&message));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Writes a result to standard output, to the end.
pub(super) fn print(write: impl FnOnce(&mut StdoutLock<'_>) -> io::Result<()>) -> CommandResult {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) => failed(e).map_or(Ok(()), Err),
    }
}

/// That a reader has gone is no failure: it wants no more.
pub(super) fn failed(e: io::Error) -> Option<Failure> {
    (e.kind() != io::ErrorKind::BrokenPipe)
        .then(|| Failure::new(format!("cannot write to standard output: {e}")))
}
