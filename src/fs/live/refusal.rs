//! What is refused to a program with a number of the system. Used by `live` and by `tree`.

use std::path::Path;

use crate::error::Error;

/// A failure that names the path, with a number of the system.
pub(crate) fn refused(doing: &str, path: &Path, code: i32) -> Error {
    refused_saying(format!("{doing} {}", path.display()), code)
}

/// A failure in these words, with a number of the system.
pub(crate) fn refused_saying(doing: String, code: i32) -> Error {
    let cause = std::io::Error::from_raw_os_error(code);
    Error::io(format!("cannot {doing}"), cause)
}
