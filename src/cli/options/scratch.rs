//! Mount options of scratch mode: how files are encoded, where that is not to be found out.
//!
//! Used by [`super::options`].

use super::super::size;
use crate::codec::blosc::encode::Compressor;
use crate::codec::checksum::Checksum;
use crate::scratch::EncodeOptions;

/// For tests: what a merge may move at once.
pub(super) const MOVES: &str = "moves";

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

/// Sets one of them; the error says what is wrong with the value.
pub(super) fn set(options: &mut EncodeOptions, name: &str, value: &str) -> Result<(), String> {
    let within = |most: u8| match value.parse::<u8>() {
        Ok(n) if n <= most => Ok(n),
        _ => Err(format!("expected a number up to {most}")),
    };
    match name {
        "codec" => {
            let found = CODECS.iter().find(|(name, _)| *name == value);
            let names = CODECS.map(|(name, _)| name).join(", ");
            options.compressor = found.ok_or(format!("expected one of {names}"))?.1;
        }
        "level" => options.level = Some(within(9)?),
        "typesize" => match within(255)? {
            0 => return Err("expected 1 to 255".into()),
            typesize => options.typesize = Some(typesize),
        },
        "checksum" => {
            let codes = (0..=8).filter_map(Checksum::from_code);
            let mut found = codes.filter(|checksum| checksum.name().eq_ignore_ascii_case(value));
            let expected = "expected none, adler32, crc32, md5 or sha1 to sha512";
            options.checksum = found.next().ok_or(expected)?;
        }
        MOVES => options.most_moved = size::parse(value)?,
        _ => match size::parse(value)? {
            bytes if CHUNK.contains(&bytes) => options.chunk_size = bytes as u32,
            _ => return Err("expected 4K to 64M".into()),
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
            assert!(super::super::known::example(name).is_some());
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
            let why = set(&mut options, name, value).unwrap_err();
            assert!(why.contains("expected"), "{why}");
        }
    }
}
