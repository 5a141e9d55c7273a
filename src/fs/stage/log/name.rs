//! Names of logs, of the new files of commits, and of directories of drafts and of added files:
//! hidden, beside the container, made of its name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const LOG: &[u8] = b".arrayfs-stage";
const NEW: &[u8] = b".arrayfs-new";
const NEXT: &[u8] = b".arrayfs-next";
const DRAFTS: &[u8] = b".arrayfs-drafts";
const ADDED: &[u8] = b".arrayfs-files";
const MOVE: &[u8] = b".arrayfs-move";

/// What file systems allow.
const LONGEST: usize = 255;

/// `~` and the digits of a hash.
const HASH: usize = 17;

/// Under how many names a container's logs may lie.
const MOST_LOGS: usize = 8;

/// The names that a log of a container may have. A file that has the first one may be another
/// program's, or of another version of the container: then changes are staged in a log of the next
/// name.
pub fn log_names(container: &OsStr) -> impl Iterator<Item = OsString> + use<'_> {
    log_suffixes().map(|suffix| name_with(container, &suffix))
}

fn log_suffixes() -> impl Iterator<Item = Vec<u8>> {
    let numbered = |number: usize| [LOG, format!("-{number}").as_bytes()].concat();
    std::iter::once(LOG.to_vec()).chain((2..=MOST_LOGS).map(numbered))
}

/// The container whose log has this name; none if it is no log's. Of a long name only the beginning
/// is left.
pub fn container_of_log(name: &OsStr) -> Option<&OsStr> {
    let suffix = log_suffixes().find(|suffix| has_suffix(name, suffix))?;
    let name = name.as_bytes();
    Some(OsStr::from_bytes(&name[1..name.len() - suffix.len()]))
}

/// Of the file that is to replace a container.
pub fn new_name(container: &OsStr) -> OsString {
    name_with(container, NEW)
}

/// Of the file that the next commit of a container makes, begun while its arrays are written.
pub fn next_name(container: &OsStr) -> OsString {
    name_with(container, NEXT)
}

/// Of the directory of the drafts of a container that is still new.
pub fn drafts_name(container: &OsStr) -> OsString {
    name_with(container, DRAFTS)
}

/// Of the directory of files that were put into the directory of a container, and are no part of
/// it.
pub fn added_name(container: &OsStr) -> OsString {
    name_with(container, ADDED)
}

/// Of what says where the added files of a container are that has just got this name.
pub fn move_name(container: &OsStr) -> OsString {
    name_with(container, MOVE)
}

/// Whether a name is that of a directory of added files.
pub fn is_added_name(name: &OsStr) -> bool {
    has_suffix(name, ADDED)
}

/// Whether a name is one of ours, which are not shown.
pub fn is_hidden_name(name: &OsStr) -> bool {
    let is_ours = |suffix| has_suffix(name, suffix);
    is_log_name(name) || [NEW, NEXT, DRAFTS, ADDED, MOVE].into_iter().any(is_ours)
}

fn is_log_name(name: &OsStr) -> bool {
    container_of_log(name).is_some()
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

    fn is_new_name(name: &OsStr) -> bool {
        has_suffix(name, NEW)
    }

    #[test]
    fn names_are_hidden_and_recognised() {
        let container = OsStr::new("x.blp");
        assert_eq!(new_name(container), ".x.blp.arrayfs-new");
        assert!(is_new_name(&new_name(container)));
        assert_eq!(drafts_name(container), ".x.blp.arrayfs-drafts");
        assert_eq!(added_name(container), ".x.blp.arrayfs-files");
        assert!(is_added_name(&added_name(container)) && !is_added_name(&drafts_name(container)));
        for hidden in [new_name, next_name, drafts_name, added_name, move_name] {
            assert!(is_hidden_name(&hidden(container)));
        }
        let logs: Vec<_> = log_names(container).collect();
        assert_eq!(logs.len(), MOST_LOGS);
        assert!(logs[0] == ".x.blp.arrayfs-stage" && logs[1] == ".x.blp.arrayfs-stage-2");
        for log in &logs {
            assert!(is_log_name(log) && !is_new_name(log));
            assert!(is_hidden_name(log));
            assert_eq!(container_of_log(log), Some(container));
        }
        for other in [
            ".arrayfs-stage",
            ".arrayfs-stage-2",
            ".x.arrayfs-stage-1",
            ".x.arrayfs-stage-22",
            "x.arrayfs-stage",
            ".x.arrayfs-stage.bak",
            "",
        ] {
            assert!(!is_hidden_name(OsStr::new(other)), "{other}");
        }
    }

    #[test]
    fn long_names_fit_and_stay_apart() {
        let log_name = |container: &OsStr| log_names(container).next().unwrap();
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
