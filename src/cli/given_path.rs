//! Paths as they were given, and as the file system has them.
//!
//! Here alone it is asked where something that was given leads. Used by all commands.

use std::io;
use std::path::{Path, PathBuf};

/// Where a path leads, without links.
pub(super) fn real(given: &Path) -> io::Result<PathBuf> {
    given.canonicalize()
}

/// The part of a path that is there, without links, and what follows it.
pub(super) fn existing(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let missing = match real(path) {
        Ok(whole) => return Ok((whole, PathBuf::new())),
        Err(e) if !matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => return Err(e),
        Err(e) => e,
    };
    for above in path.ancestors().skip(1) {
        let above_or_here = match above.as_os_str().is_empty() {
            true => Path::new("."),
            false => above,
        };
        if let (Ok(found), Ok(rest)) = (real(above_or_here), path.strip_prefix(above)) {
            return Ok((found, rest.to_owned()));
        }
    }
    Err(missing)
}
