//! From the names that the mount shows to those that are stored: the way back of
//! [`crate::container::names`].
//!
//! What was escaped is so no more, and the number of a name that would hide a reserved one goes. A
//! name that HDF5 cannot store is refused. Used by [`super`].

use std::os::unix::ffi::OsStringExt;

use crate::container::hdf5::index::NOT_COORDINATE;
use crate::container::names::{RESERVED, path_of};

/// The path from the root of a shown path; of the container's own directory it is empty.
pub(super) fn stored(shown: &str) -> Result<Vec<u8>, String> {
    let mut path = Vec::new();
    for part in shown.split('/').filter(|_| !shown.is_empty()) {
        let part = unescaped(part)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend(part);
    }
    Ok(path)
}

/// The stored path of a variable that is called like a dimension along which it does not run, as
/// netCDF's library spells it.
pub(super) fn apart(mut path: Vec<u8>) -> Vec<u8> {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    let name = slash.map_or(0, |at| at + 1);
    path.splice(name..name, NOT_COORDINATE.iter().copied());
    path
}

fn unescaped(shown: &str) -> Result<Vec<u8>, String> {
    let name = path_of(plain(shown)).into_os_string().into_vec();
    let is_name = !name.is_empty() && !matches!(&name[..], b"." | b"..");
    match is_name && !name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        true => Ok(name),
        false => Err(format!("HDF5 has no name like {shown}")),
    }
}

/// Without the number of a name that would hide a reserved one.
fn plain(shown: &str) -> &str {
    match shown.rsplit_once('~') {
        Some((name, number)) if RESERVED.contains(&name) && is_number(number) => name,
        _ => shown,
    }
}

/// Where a soft link is to lead: also to what cannot be.
pub(super) fn target(shown: &str) -> Vec<u8> {
    let parts = shown
        .split('/')
        .map(|part| path_of(plain(part)).into_os_string());
    let parts: Vec<Vec<u8>> = parts.map(OsStringExt::into_vec).collect();
    parts.join(&b'/')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::names::shown;
    use proptest::prelude::*;

    #[test]
    fn what_was_escaped_comes_back() {
        let stored = |shown: &str| stored(shown).map(|path| String::from_utf8(path).unwrap());
        assert_eq!(stored("g/a%25b%7E").unwrap(), "g/a%b~");
        assert_eq!(stored("views~3").unwrap(), "views");
        assert_eq!(stored("backup~").unwrap(), "backup~");
        assert_eq!(stored("").unwrap(), "");
        for no in ["a%2Fb", "%2E", "x/%2E%2E", "a%00"] {
            assert!(stored(no).is_err(), "{no}");
        }
    }

    proptest! {
        #[test]
        fn shown_names_are_those_that_were_stored(
            name in proptest::collection::vec(1u8..=255, 1..60),
        ) {
            prop_assume!(!name.contains(&b'/') && name != b"." && name != b"..");
            let shown = shown(&[&name], true).unwrap();
            prop_assert_eq!(stored(&shown[0]).unwrap(), name);
        }
    }
}
