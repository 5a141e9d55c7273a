//! Options of `-o` that have no long option of `arrayfs mount`, for its manual page.
//!
//! Used by [`super::manual`].

/// The option, and what it means.
pub(super) const FLAGLESS: &[(&str, &str)] = &[
    (
        "sync, dirsync",
        "Each write, or each change of a directory, is on the disk when it returns",
    ),
    (
        "nonempty, big_writes, kernel_cache, auto_cache, noviews, fsname=..., subtype=...",
        "Of other FUSE file systems: taken with a word, for they say how things are anyway",
    ),
    (
        "nofail",
        "A source that is not there is no failure: nothing is mounted",
    ),
    (
        "defaults, auto, noauto, user, users, owner, group, _netdev, comment=..., x-...",
        "Of mount(8) and systemd, and without a meaning here. So are relatime, lazytime and others",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::options::MountOptions;

    #[test]
    fn each_is_an_option() {
        for (option, _) in FLAGLESS.iter() {
            for one in option.split(", ") {
                let one = one.replace("...", "y");
                assert!(
                    MountOptions::parse(std::slice::from_ref(&one)).is_ok(),
                    "{one}"
                );
            }
        }
    }
}
