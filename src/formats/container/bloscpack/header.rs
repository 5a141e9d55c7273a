//! The 32 bytes at the start of a Bloscpack file, checked by every rule that they alone can break.
//!
//! Assumes nothing about the rest of the file: that what is claimed here fits into it is checked by
//! [`crate::container::bloscpack::sections`]. Used when a file is opened.

use std::fmt;

use crate::codec::checksum::Checksum;
use crate::error::{Error, Fault, Result};

pub(super) const MAGIC: &[u8; 4] = b"blpk";
pub(super) const LEN: usize = 32;
const VERSION: u8 = 3;

const OFFSETS: u8 = 0x01;
const METADATA: u8 = 0x02;

/// The largest chunk that Blosc compresses: 2^31 - 1 less its own header.
pub(super) const MAX_CHUNK_SIZE: i32 = 2_147_483_631;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHeader {
    pub has_offsets: bool,
    pub has_metadata: bool,
    pub checksum: Checksum,
    /// Advice only: every chunk has its own.
    pub typesize: u8,
    /// Plain bytes of every chunk but the last; `None` is the format's -1, unknown.
    pub chunk_size: Option<u32>,
    pub last_chunk: Option<u32>,
    pub nchunks: Option<u64>,
    /// Spare entries of the offsets section.
    pub max_app_chunks: u64,
}

impl FileHeader {
    pub fn parse(bytes: &[u8; LEN]) -> Result<Self> {
        if &bytes[..4] != MAGIC {
            return Err(wrong(
                "not a Bloscpack file",
                0,
                4,
                "the magic \"blpk\"",
                hex(&bytes[..4]),
            ));
        }
        if bytes[4] != VERSION {
            return Err(wrong("unknown format version", 4, 1, VERSION, bytes[4]));
        }
        if bytes[5] & !(OFFSETS | METADATA) != 0 {
            let found = format!("{:#04x}", bytes[5]);
            return Err(wrong(
                "unknown option bits",
                5,
                1,
                "only 0x01 and 0x02",
                found,
            ));
        }
        let checksum = Checksum::from_code(bytes[6])
            .ok_or_else(|| wrong("unknown checksum code", 6, 1, "0 to 8", bytes[6]))?;
        let chunk_size = plain_size("chunk_size", bytes, 8)?;
        let last_chunk = plain_size("last_chunk", bytes, 12)?;
        if let (Some(size), Some(last)) = (chunk_size, last_chunk)
            && last > size
        {
            let expected = format!("at most chunk_size, {size}");
            return Err(wrong("last_chunk is too large", 12, 4, expected, last));
        }
        let header = FileHeader {
            has_offsets: bytes[5] & OFFSETS != 0,
            has_metadata: bytes[5] & METADATA != 0,
            checksum,
            typesize: bytes[7],
            chunk_size,
            last_chunk,
            nchunks: known(count("nchunks", bytes, 16, -1)?),
            max_app_chunks: known(count("max_app_chunks", bytes, 24, 0)?).unwrap_or(0),
        };
        header.check_counts()?;
        Ok(header)
    }

    /// As it is stored.
    pub fn bytes(&self) -> [u8; LEN] {
        let size = |bytes: Option<u32>| bytes.map_or([0xff; 4], u32::to_le_bytes);
        let options = [(self.has_offsets, OFFSETS), (self.has_metadata, METADATA)];
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = VERSION;
        for (_, bit) in options.iter().filter(|(set, _)| *set) {
            bytes[5] |= bit;
        }
        bytes[6] = self.checksum.code();
        bytes[7] = self.typesize;
        bytes[8..12].copy_from_slice(&size(self.chunk_size));
        bytes[12..16].copy_from_slice(&size(self.last_chunk));
        let nchunks = self.nchunks.map_or([0xff; 8], u64::to_le_bytes);
        bytes[16..24].copy_from_slice(&nchunks);
        bytes[24..32].copy_from_slice(&self.max_app_chunks.to_le_bytes());
        bytes
    }

    fn check_counts(&self) -> Result<()> {
        let Some(nchunks) = self.nchunks else {
            if self.max_app_chunks != 0 {
                let found = self.max_app_chunks;
                let what = "max_app_chunks of a file whose nchunks is unknown";
                return Err(wrong(what, 24, 8, 0, found));
            }
            if self.has_offsets {
                let what = "the offsets section has no known length";
                return Err(wrong(what, 16, 8, "a number of chunks", -1));
            }
            return Ok(());
        };
        // Both are at most 2^63 - 1, so the sum fits.
        let sum = nchunks + self.max_app_chunks;
        if sum > i64::MAX as u64 {
            let what = "nchunks and max_app_chunks together are too large";
            return Err(wrong(what, 16, 16, "at most 2^63 - 1", sum));
        }
        Ok(())
    }

    /// Decoded bytes, if the header knows them.
    pub fn plain_len(&self) -> Result<Option<u64>> {
        let (Some(size), Some(last), Some(nchunks)) =
            (self.chunk_size, self.last_chunk, self.nchunks)
        else {
            return Ok(None);
        };
        let Some(before_last) = nchunks.checked_sub(1) else {
            return Ok(Some(0));
        };
        before_last
            .checked_mul(u64::from(size))
            .and_then(|bytes| bytes.checked_add(u64::from(last)))
            .filter(|&bytes| bytes <= i64::MAX as u64)
            .map(Some)
            .ok_or_else(|| {
                let found = format!("{nchunks} chunks of {size} bytes");
                wrong(
                    "the decoded size is too large",
                    8,
                    16,
                    "at most 2^63 - 1 bytes",
                    found,
                )
            })
    }
}

/// A field of 4 bytes: -1 or a size that Blosc can hold.
fn plain_size(name: &str, bytes: &[u8; LEN], at: usize) -> Result<Option<u32>> {
    let value = i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if !(-1..=MAX_CHUNK_SIZE).contains(&value) {
        let expected = format!("-1 to {MAX_CHUNK_SIZE}");
        return Err(wrong(
            &format!("{name} is out of range"),
            at,
            4,
            expected,
            value,
        ));
    }
    Ok(u32::try_from(value).ok())
}

/// A field of 8 bytes: at least `least`.
fn count(name: &str, bytes: &[u8; LEN], at: usize, least: i64) -> Result<i64> {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    let value = i64::from_le_bytes(field);
    if value < least {
        let expected = format!("at least {least}");
        return Err(wrong(
            &format!("{name} is out of range"),
            at,
            8,
            expected,
            value,
        ));
    }
    Ok(value)
}

fn known(value: i64) -> Option<u64> {
    u64::try_from(value).ok()
}

fn wrong(
    what: &str,
    at: usize,
    len: usize,
    expected: impl fmt::Display,
    found: impl fmt::Display,
) -> Error {
    let fault = Fault::new(what)
        .bytes(at as u64..(at + len) as u64)
        .expected(expected)
        .found(found);
    fault.into()
}

/// Bytes as messages show them.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    digits.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::bloscpack::tests::files;

    fn with(at: usize, value: &[u8]) -> Result<FileHeader> {
        let mut bytes = files::header(0, 1, 2000, 1424, 4, 0);
        bytes[at..at + value.len()].copy_from_slice(value);
        FileHeader::parse(&bytes)
    }

    #[test]
    fn good_header() {
        let header = with(7, &[8]).unwrap();
        assert_eq!(
            (header.chunk_size, header.last_chunk),
            (Some(2000), Some(1424))
        );
        assert_eq!((header.nchunks, header.max_app_chunks), (Some(4), 0));
        assert_eq!((header.typesize, header.checksum), (8, Checksum::Adler32));
        assert!(!header.has_offsets && !header.has_metadata);
        assert_eq!(header.plain_len().unwrap(), Some(7424));
    }

    #[test]
    fn what_is_stored_is_what_was_read() {
        for (at, value) in [
            (5, 1),
            (5, 2),
            (6, 8),
            (7, 255),
            (8, 9),
            (12, 3),
            (16, 7),
            (24, 5),
        ] {
            let mut bytes = files::header(0, 1, 2000, 0, 4, 0);
            bytes[at] = value;
            assert_eq!(FileHeader::parse(&bytes).unwrap().bytes(), bytes);
        }
        let mut unknown = files::header(0, 1, 0, 0, 0, 0);
        unknown[8..24].fill(0xff);
        assert_eq!(FileHeader::parse(&unknown).unwrap().bytes(), unknown);
    }

    #[test]
    fn every_rule() {
        let minus = |n: i64| n.to_le_bytes();
        let refused: [(usize, &[u8], &str); 15] = [
            (0, b"blpq", "not a Bloscpack file"),
            (4, &[0], "version"),
            (4, &[4], "version"),
            (5, &[4], "option"),
            (5, &[0x81], "option"),
            (6, &[9], "checksum"),
            (8, &(-2i32).to_le_bytes(), "chunk_size"),
            (8, &2_147_483_632u32.to_le_bytes(), "chunk_size"),
            (12, &(-2i32).to_le_bytes(), "last_chunk"),
            (12, &2001u32.to_le_bytes(), "last_chunk"),
            (16, &minus(-2), "nchunks"),
            (24, &minus(-1), "max_app_chunks"),
            (24, &minus(i64::MAX), "together"),
            (16, &[0xff; 9], "unknown"),
            (
                5,
                &[
                    1, 1, 8, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255,
                    255,
                ],
                "no known length",
            ),
        ];
        for (at, value, what) in refused {
            let Error::Fault(fault) = with(at, value).unwrap_err() else {
                panic!("no fault")
            };
            assert!(fault.what.contains(what), "{fault}");
            assert!(fault.bytes.is_some() && fault.found.is_some(), "{fault}");
        }
    }

    #[test]
    fn unknown_sizes_are_legal() {
        let header = with(8, &[0xff; 4]).unwrap();
        assert_eq!(
            (header.chunk_size, header.plain_len().unwrap()),
            (None, None)
        );
        assert_eq!(with(12, &[0xff; 4]).unwrap().last_chunk, None);
        assert_eq!(with(16, &[0xff; 8]).unwrap().nchunks, None);
        assert_eq!(with(16, &[0; 8]).unwrap().plain_len().unwrap(), Some(0));
    }

    #[test]
    fn decoded_size_must_fit() {
        let header = with(16, &(1i64 << 60).to_le_bytes()).unwrap();
        assert!(
            header
                .plain_len()
                .unwrap_err()
                .to_string()
                .contains("too large")
        );
    }
}
