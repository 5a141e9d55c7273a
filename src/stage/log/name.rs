//! Names of logs, of the new files of commits, and of directories of drafts: hidden, beside the container, made of its name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const LOG: &[u8] = b".arrayfs-stage";
const NEW: &[u8] = b".arrayfs-new";
const DRAFTS: &[u8] = b".arrayfs-drafts";

/// What file systems allow.
const LONGEST: usize = 255;

/// `~` and the digits of a hash.
const HASH: usize = 17;

/// Of the log of a container.
pub fn log_name(container: &OsStr) -> OsString {
    name_with(container, LOG)
}

/// Of the file that is to replace a container.
pub fn new_name(container: &OsStr) -> OsString {
    name_with(container, NEW)
}

/// Of the directory of what has been put into a container that is still new.
pub fn drafts_name(container: &OsStr) -> OsString {
    name_with(container, DRAFTS)
}

/// Whether a name is one of ours, which nobody is shown.
pub fn is_hidden_name(name: &OsStr) -> bool {
    is_log_name(name) || is_new_name(name) || has_suffix(name, DRAFTS)
}

fn is_log_name(name: &OsStr) -> bool {
    has_suffix(name, LOG)
}

fn is_new_name(name: &OsStr) -> bool {
    has_suffix(name, NEW)
}

fn has_suffix(name: &OsStr, suffix: &[u8]) -> bool {
    let name = name.as_bytes();
    name.starts_with(b".") && name.len() > 1 + suffix.len() && name.ends_with(suffix)
}

fn name_with(container: &OsStr, suffix: &[u8]) -> OsString {
    let container = container.as_bytes();
    let mut name = Vec::with_capacity(LONGEST);
    name.push(b'.');
    if 1 + container.len() + suffix.len() <= LONGEST {
        name.extend_from_slice(container);
    } else {
        let room = LONGEST - 1 - suffix.len() - HASH;
        name.extend_from_slice(&container[..room]);
        name.extend_from_slice(format!("~{:016x}", hash(container)).as_bytes());
    }
    name.extend_from_slice(suffix);
    OsString::from_vec(name)
}

/// FNV-1a: names are short, and need telling apart, not protecting.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hidden_and_recognised() {
        let container = OsStr::new("x.blp");
        assert_eq!(log_name(container), ".x.blp.arrayfs-stage");
        assert_eq!(new_name(container), ".x.blp.arrayfs-new");
        assert!(is_log_name(&log_name(container)) && !is_new_name(&log_name(container)));
        assert!(is_new_name(&new_name(container)));
        assert_eq!(drafts_name(container), ".x.blp.arrayfs-drafts");
        for hidden in [log_name, new_name, drafts_name] {
            assert!(is_hidden_name(&hidden(container)));
        }
        for other in [
            ".arrayfs-stage",
            "x.arrayfs-stage",
            ".x.arrayfs-stage.bak",
            "",
        ] {
            assert!(!is_hidden_name(OsStr::new(other)), "{other}");
        }
    }

    #[test]
    fn long_names_fit_and_stay_apart() {
        let long = |last: &str| OsString::from("n".repeat(254) + last);
        let names = ["a", "b"].map(|last| log_name(&long(last)));
        assert_ne!(names[0], names[1]);
        for name in names {
            assert_eq!(name.len(), LONGEST);
            assert!(is_log_name(&name));
        }
        let fits = OsString::from("n".repeat(LONGEST - 1 - LOG.len()));
        let whole = log_name(&fits);
        assert!(whole.len() == LONGEST && !whole.as_bytes().contains(&b'~'));
    }
}
