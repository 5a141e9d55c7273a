//! The names of mount options that take a value, and what to say of options that there are not.
//!
//! Used by [`super`], for `-o`, the long flags and fstab alike.

use super::super::failure::Failure;
use super::flags::{FAKE, FLAGS};
use super::{remote, scratch};

/// What programs of libfuse say for the columns of the mount table.
pub(super) const FSNAME: &str = "fsname";
pub(super) const SUBTYPE: &str = "subtype";

/// For tests, which cannot wait as long: milliseconds that a new container is not used before it is
/// packed.
pub(super) const SETTLE: &str = "settle";

/// For tests, which are not to depend on how fast a machine is: a commit that takes more
/// milliseconds is slow.
pub(super) const SLOW_COMMIT: &str = "slow_commit";

/// Options that need a value, and one as an example.
const VALUED: &[(&str, &str)] = &[
    ("cache", "2G"),
    ("readahead", "1M"),
    ("threads", "8"),
    ("uid", "1000"),
    ("gid", "1000"),
    ("umask", "022"),
    ("log", "/var/log/arrayfs.log"),
    ("log_level", "warn"),
    ("dialect", "auto"),
    ("commit", "replace"),
    ("codec", "zstd"),
    ("level", "5"),
    ("chunk", "128K"),
    ("checksum", "crc32"),
    ("typesize", "8"),
    (FSNAME, "data"),
    (SUBTYPE, "arrayfs"),
];

/// Those that no help names.
const FOR_TESTS: &[(&str, &str)] = &[
    (SETTLE, "100"),
    (SLOW_COMMIT, "100"),
    (scratch::MOVES, "1M"),
];

/// A value of an option that needs one.
pub(super) fn example(name: &str) -> Option<&'static str> {
    let mut valued = VALUED.iter().chain(remote::VALUED).chain(FOR_TESTS);
    valued
        .find(|(known, _)| *known == name)
        .map(|(_, example)| *example)
}

/// What to say of an option that there is not.
pub(super) fn unknown(name: &str) -> Failure {
    let valued = VALUED.iter().chain(remote::VALUED);
    let valued = valued.map(|(name, _)| name);
    let flags = FLAGS
        .iter()
        .map(|flag| &flag.word)
        .filter(|word| **word != FAKE);
    let nearest = flags
        .chain(valued)
        .map(|known| (strsim::damerau_levenshtein(name, known), *known))
        .min()
        .filter(|(distance, _)| *distance <= 2 && distance * 2 < name.len());
    let hint = match nearest {
        Some((_, known)) => match example(known) {
            Some(example) => format!("did you mean '{known}', as in {known}={example}?"),
            None => format!("did you mean '{known}'?"),
        },
        None => "'arrayfs mount --help' has those there are".to_owned(),
    };
    Failure::usage(format!("unknown mount option '{name}'; {hint}"))
}
