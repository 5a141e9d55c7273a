//! `arrayfs --version`: what this program is made of.
//!
//! Used by [`super::definition`].

use crate::codec::blosc::Codec;
use crate::codec::filters;
use crate::container::FORMATS;
use crate::container::hdf5::library_version;

/// The version that all say, and each says first.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the program alone knows of how it was built.
#[derive(Debug)]
pub struct Build {
    /// Of the source; empty without a repository, as in a source package.
    pub commit: &'static str,
    /// Whether it asks for no library when it starts.
    pub is_static: bool,
}

/// The long form, after the program's name.
pub(super) fn long(build: &Build) -> String {
    let commit = match build.commit {
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
        format!("built for: {}", target(build)),
        format!("HDF5: {} ({linked})", library_version()),
        format!("formats: {}", formats.join(", ")),
        format!("Blosc codecs: {}", codecs.join(", ")),
        format!("HDF5 filters: {}", filters::NAMES.join(", ")),
    ]
    .join("\n")
}

/// Which machine, and which C library.
fn target(build: &Build) -> String {
    let library = match (cfg!(target_env = "musl"), build.is_static) {
        (true, _) => "musl",
        (false, true) => "glibc, static",
        (false, false) => "glibc",
    };
    format!(
        "{}-{} ({library})",
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_long_form_names_what_it_is_made_of() {
        let said = super::long(&super::Build {
            commit: "abc123",
            is_static: true,
        });
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
        let unknown = super::Build {
            commit: "",
            is_static: false,
        };
        assert!(super::long(&unknown).contains("commit: not known"));
    }
}
