//! What commands say: results on standard output, messages on standard error, and how paths are spelled.
//!
//! Standard error may be closed or full, and nobody could be told: that is ignored. A result that cannot
//! be written is a failure, unless its reader has gone (`arrayfs ls | head`).

use std::fmt;
use std::io::{self, StdoutLock, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{CommandResult, Failure};
use crate::container::names::escape;
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

/// Nobody misses what a reader that has gone does not get.
pub(super) fn failed(e: io::Error) -> Option<Failure> {
    (e.kind() != io::ErrorKind::BrokenPipe)
        .then(|| Failure::new(format!("cannot write to standard output: {e}")))
}

/// A path as text that leads back to its bytes: escaped as names are (docs/semantics.md, "Names"), but
/// `~`, which no number follows here, stays.
pub(super) fn path_text(path: &Path) -> String {
    let parts = path.as_os_str().as_bytes().split(|&b| b == b'/');
    let shown = parts.map(|part| match part {
        b"." => ".".to_owned(),
        b".." => "..".to_owned(),
        // `%` is escaped as well, so this is a `~`.
        part => escape(part).replace("%7E", "~"),
    });
    shown.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn paths_of_any_bytes_become_text() {
        let text = |bytes: &[u8]| path_text(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(text(b"/data/x.blp"), "/data/x.blp");
        assert_eq!(text("../größe/./a~".as_bytes()), "../größe/./a~");
        assert_eq!(text(b"/a\n\xff%7E/"), "/a%0A%FF%257E/");
        assert_eq!(text(b""), "");
    }
}
