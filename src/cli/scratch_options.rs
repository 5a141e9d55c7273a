//! Mount options of scratch mode: how files are encoded, where that is not to be found out.
//!
//! Used by [`super::options`].

use super::{Failure, size};
use crate::codec::blosc::encode::Compressor;
use crate::codec::checksum::Checksum;
use crate::scratch::EncodeOptions;

/// Options that need a value. The last one is for tests: what a merge may move at once.
pub(super) const NAMED: [&str; 6] = ["codec", "level", "chunk", "checksum", "typesize", "moves"];

/// Plain bytes of a chunk, at least and at most.
const CHUNK: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 20;

/// Those that Bloscpack's own program reads.
const CODECS: [(&str, Option<Compressor>); 6] = [
    ("auto", None),
    ("blosclz", Some(Compressor::BloscLz)),
    ("lz4", Some(Compressor::Lz4)),
    ("lz4hc", Some(Compressor::Lz4Hc)),
    ("zlib", Some(Compressor::Zlib)),
    ("zstd", Some(Compressor::Zstd)),
];

/// Sets one of [`NAMED`].
pub(super) fn set(options: &mut EncodeOptions, name: &str, value: &str) -> Result<(), Failure> {
    let wrong = |why: String| Failure::usage(format!("option {name}={value}: {why}"));
    let within = |most: u8| match value.parse::<u8>() {
        Ok(n) if n <= most => Ok(n),
        _ => Err(wrong(format!("expected a number up to {most}"))),
    };
    match name {
        "codec" => {
            let found = CODECS.iter().find(|(name, _)| *name == value);
            let names = CODECS.map(|(name, _)| name).join(", ");
            let unknown = || wrong(format!("expected one of {names}"));
            options.compressor = found.ok_or_else(unknown)?.1;
        }
        "level" => options.level = Some(within(9)?),
        "typesize" => match within(255)? {
            0 => return Err(wrong("expected 1 to 255".into())),
            typesize => options.typesize = Some(typesize),
        },
        "checksum" => {
            let codes = (0..=8).filter_map(Checksum::from_code);
            let mut found = codes.filter(|checksum| checksum.name().eq_ignore_ascii_case(value));
            let unknown = || wrong("expected none, adler32, crc32, md5 or sha1 to sha512".into());
            options.checksum = found.next().ok_or_else(unknown)?;
        }
        "moves" => options.most_moved = size::parse(value).map_err(wrong)?,
        _ => match size::parse(value).map_err(wrong)? {
            bytes if CHUNK.contains(&bytes) => options.chunk_size = bytes as u32,
            _ => return Err(wrong("expected 4K to 64M".into())),
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_is_as_it_is_asked_for() {
        let mut options = EncodeOptions::default();
        for (name, value) in [
            ("codec", "zlib"),
            ("level", "3"),
            ("chunk", "1M"),
            ("checksum", "sha256"),
            ("moves", "1M"),
            ("typesize", "8"),
        ] {
            assert!(NAMED.contains(&name));
            set(&mut options, name, value).unwrap();
        }
        let expected = EncodeOptions {
            compressor: Some(Compressor::Zlib),
            level: Some(3),
            typesize: Some(8),
            chunk_size: 1 << 20,
            checksum: Checksum::Sha256,
            most_moved: 1 << 20,
        };
        assert_eq!(options, expected);
        set(&mut options, "codec", "auto").unwrap();
        assert_eq!(options.compressor, None);
        for (name, value) in [
            ("codec", "snappy"),
            ("level", "10"),
            ("chunk", "1K"),
            ("checksum", "crc"),
            ("typesize", "0"),
        ] {
            let refused = set(&mut options, name, value).unwrap_err();
            assert!(refused.message.contains(value), "{}", refused.message);
        }
    }
}
