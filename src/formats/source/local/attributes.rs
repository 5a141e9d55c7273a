//! Extended attributes of what has a path. Used by [`super`] and by [`super::file`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs;
use rustix::io::{Errno, Result};

/// Bytes of an extended attribute, and of the list of them, at most.
const MOST: usize = 65536;

fn buffer() -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(MOST).map_err(|_| Errno::NOMEM)?;
    buffer.resize(MOST, 0);
    Ok(buffer)
}

/// The kernel asks for those that say who is let in, of one file after the other: most have none,
/// and few are long.
pub(super) fn value(path: &Path, name: &OsStr) -> Result<Vec<u8>> {
    let mut short = [0; 256];
    match fs::getxattr(path, name, &mut short[..]) {
        Err(Errno::RANGE) => {}
        found => return found.map(|len| short[..len].to_vec()),
    }
    let mut value = buffer()?;
    let len = fs::getxattr(path, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

/// None where the file system has no attributes.
pub(super) fn names(path: &Path) -> Result<Vec<OsString>> {
    let mut list = buffer()?;
    let len = match fs::listxattr(path, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        listed => listed?,
    };
    let names = list[..len]
        .split(|&b| b == 0)
        .filter(|name| !name.is_empty());
    Ok(names
        .map(|name| OsString::from_vec(name.to_vec()))
        .collect())
}
