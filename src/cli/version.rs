//! `arrayfs --version`: what this program is made of.
//!
//! Used by [`super::definition`].

use crate::codec::blosc::Codec;
use crate::codec::filters;
use crate::container::FORMATS;
use crate::container::hdf5::library_version;

/// The version that all say, and each says first.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The long form, after the program's name. `commit` is empty where it is not known.
pub(super) fn long(commit: &str) -> String {
    let commit = match commit {
        "" => "not known",
        commit => commit,
    };
    let linked = match cfg!(feature = "static") {
        true => "built in",
        false => "the system's",
    };
    let formats: Vec<_> = FORMATS.iter().map(|format| format.name()).collect();
    let codecs = Codec::ALL.map(Codec::name);
    [
        VERSION.to_owned(),
        format!("commit: {commit}"),
        format!("built for: {}", target()),
        format!("HDF5: {} ({linked})", library_version()),
        format!("formats: {}", formats.join(", ")),
        format!("Blosc codecs: {}", codecs.join(", ")),
        format!("HDF5 filters: {}", filters::NAMES.join(", ")),
    ]
    .join("\n")
}

/// Which machine, and which C library.
fn target() -> String {
    let library = match (
        cfg!(target_env = "musl"),
        cfg!(target_feature = "crt-static"),
    ) {
        (true, _) => "musl, static",
        (false, true) => "glibc, static",
        (false, false) => "glibc",
    };
    let allocator = match cfg!(feature = "mimalloc") {
        true => ", mimalloc",
        false => "",
    };
    format!(
        "{}-{} ({library}{allocator})",
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_long_form_names_what_it_is_made_of() {
        let said = super::long("abc123");
        assert!(said.starts_with(env!("CARGO_PKG_VERSION")), "{said}");
        for part in [
            "commit: abc123",
            "HDF5: 2.",
            "blosclz",
            "gzip",
            "bitshuffle",
            "bpcells",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(super::long("").contains("commit: not known"));
    }
}
