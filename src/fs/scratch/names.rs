//! How names of a scratch mount and names of its store correspond.
//!
//! A regular file `x` is stored as `x.blp`. Everything else keeps its name, unless that ends in
//! `.blp` and any number of `~`: then it gets one `~` more, so that no name of one kind is ever
//! that of another. What lay in the store before need not keep to that, and is found all the same
//! ([`Look`] says in which order). Pure; used by [`super::find`] and [`super::store`].
//!
//! Source: docs/formats.md, "Names in a scratch store".

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The mark of a store ([`super::store_mark`]), in its root.
pub(super) const MARK_NAME: &str = ".arrayfs-scratch";

const PACKED: &[u8] = b".blp";
const RAW: &[u8] = b"~raw";

/// What a rename is to replace has such a name until that has happened.
const RENAMING: &[u8] = b".arrayfs-renaming-";

/// The longest name that a scratch mount can show: its file's has four bytes more.
pub(super) const LONGEST: u32 = 251;

/// The name under which a regular file is stored.
pub(super) fn packed(name: &OsStr) -> OsString {
    OsString::from_vec([name.as_bytes(), PACKED].concat())
}

/// What a regular file that is stored under this name is shown as; none if it is no such name.
pub(super) fn unpacked(stored: &OsStr) -> Option<&OsStr> {
    let name = stored.as_bytes().strip_suffix(PACKED)?;
    (!name.is_empty()).then(|| OsStr::from_bytes(name))
}

/// Whether a name ends in `.blp` and any number of `~`.
fn is_marked(name: &OsStr) -> bool {
    let mut rest = name.as_bytes();
    while let Some(shorter) = rest.strip_suffix(b"~") {
        rest = shorter;
    }
    rest.ends_with(PACKED)
}

/// The name under which a directory, link or special file is stored.
pub(super) fn escaped(name: &OsStr) -> OsString {
    match is_marked(name) {
        true => OsString::from_vec([name.as_bytes(), b"~"].concat()),
        false => name.to_owned(),
    }
}

/// What a directory, link or special file that is stored under this name is shown as.
pub(super) fn unescaped(stored: &OsStr) -> &OsStr {
    match stored.as_bytes().strip_suffix(b"~") {
        Some(name) if is_marked(OsStr::from_bytes(name)) => OsStr::from_bytes(name),
        _ => stored,
    }
}

/// Whether a name may be stored in two ways: escaped, or as it was before there was a scratch
/// mount.
pub(super) fn may_be_old(name: &OsStr) -> bool {
    is_marked(name)
}

/// What something is shown as whose name a regular file has, the `number`-th try.
pub(super) fn raw_name(name: &OsStr, number: u32) -> OsString {
    let mut raw = [name.as_bytes(), RAW].concat();
    if number > 0 {
        raw.extend(number.to_string().into_bytes());
    }
    OsString::from_vec(raw)
}

/// The name before `~raw` and a number.
pub(super) fn raw_of(name: &OsStr) -> Option<&OsStr> {
    let bytes = name.as_bytes();
    let digits = bytes.iter().rev().take_while(|b| b.is_ascii_digit());
    let before = bytes[..bytes.len() - digits.count()].strip_suffix(RAW)?;
    (!before.is_empty()).then(|| OsStr::from_bytes(before))
}

/// The second name of what a rename replaces, by its inode.
pub(super) fn renaming(inode: u64) -> OsString {
    let number = format!("{inode:x}");
    OsString::from_vec([RENAMING, number.as_bytes()].concat())
}

/// Whether a name is such a second name.
pub(super) fn is_renaming(name: &OsStr) -> bool {
    let number = name.as_bytes().strip_prefix(RENAMING);
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_hexdigit))
}

/// Whether an entry of a directory of the store is the store's own, and is not shown.
pub(super) fn is_own(directory: &Path, name: &OsStr) -> bool {
    directory.as_os_str().is_empty() && name == MARK_NAME || is_renaming(name)
}

/// The name under which something of the other kind is stored that is shown by the same name.
pub(super) fn other_kind(stored: &OsStr, is_packed: bool) -> OsString {
    match unpacked(stored).filter(|_| is_packed) {
        Some(name) => escaped(name),
        None => packed(unescaped(stored)),
    }
}

/// Whether any directory on this path may be stored under another name.
pub(super) fn leads_through_marked(path: &Path) -> bool {
    path.iter().any(is_marked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = OsString> {
        let pieces = prop_oneof![
            Just(".blp"),
            Just("~"),
            Just("~raw"),
            Just("a"),
            Just("1"),
            Just(".")
        ];
        let joined = |pieces: Vec<&str>| OsString::from(pieces.concat());
        proptest::collection::vec(pieces, 1..6).prop_map(joined)
    }

    proptest! {
        /// No stored name stands for two things, or for something of another kind.
        #[test]
        fn every_stored_name_says_what_it_stands_for(one in name(), other in name()) {
            let (stored, other_kind) = (packed(&one), escaped(&one));
            prop_assert_eq!(unpacked(&stored), Some(&*one));
            prop_assert_eq!(unescaped(&other_kind), &*one);
            prop_assert_ne!(stored, escaped(&other));
            if one != other {
                prop_assert_ne!(escaped(&one), escaped(&other));
            }
        }

        #[test]
        fn raw_names_lead_back(one in name(), number in 0u32..200) {
            let raw = raw_name(&one, number);
            prop_assert_eq!(raw_of(&raw), Some(&*one));
        }
    }

    #[test]
    fn names_are_as_documented() {
        let text = |name: &str| escaped(OsStr::new(name)).into_string().unwrap();
        assert_eq!(text("results"), "results");
        assert_eq!(text("results.blp"), "results.blp~");
        assert_eq!(text("results.blp~"), "results.blp~~");
        assert_eq!(text("results~"), "results~");
        assert_eq!(unpacked(OsStr::new(".blp")), None);
        assert_eq!(unpacked(OsStr::new("x")), None);
        assert!(leads_through_marked(Path::new("a.blp/b")));
        assert_eq!(raw_of(OsStr::new("~raw")), None);
    }
}
