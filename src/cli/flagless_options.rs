//! Options of `-o` that have no long option of `arrayfs mount`, for its manual page.
//!
//! Used by [`super::manual`].

/// The option, and what it means.
pub(super) const FLAGLESS: &[(&str, &str)] = &[
    (
        "scratch",
        "Files that are made are stored compressed, as Bloscpack; nothing is a container",
    ),
    (
        "codec=NAME",
        "Scratch: auto (default), blosclz, lz4, lz4hc, zlib or zstd",
    ),
    (
        "level=0..9",
        "Scratch: as Blosc counts (default: 5, of Zstandard 2)",
    ),
    (
        "chunk=SIZE",
        "Scratch: plain bytes of a chunk of a new file, 4K to 64M (default: 128K)",
    ),
    (
        "checksum=NAME",
        "Scratch: digest of chunks: adler32 (default), none, crc32, md5, sha1 to sha512",
    ),
    (
        "typesize=1..255",
        "Scratch: bytes of an element (default: found out for each file)",
    ),
    (
        "sync, dirsync",
        "Each write, or each change of a directory, is on the disk when it returns",
    ),
    (
        "defaults, auto, noauto, user, users, owner, group, nofail, _netdev, comment=..., x-...",
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
                let one = match one.split_once('=') {
                    None => one.replace("...", "y"),
                    Some((name @ ("codec" | "checksum"), _)) => {
                        let value = if name == "codec" { "zstd" } else { "md5" };
                        format!("{name}={value}")
                    }
                    Some((name @ "chunk", _)) => format!("{name}=64K"),
                    Some((name, _)) => format!("{name}=3"),
                };
                assert!(
                    MountOptions::parse(std::slice::from_ref(&one)).is_ok(),
                    "{one}"
                );
            }
        }
    }
}
