//! What the first bytes of an HDF5 file say about the whole: does it reach its end, was it closed.
//!
//! libhdf5 refuses such files too, but does not say which bytes are missing, and it costs nothing
//! to know before it is asked. Everything else about the superblock is left to the library.

use std::ops::Range;

use crate::error::{Fault, Result};
use crate::source::Source;

const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
/// The longest part that is looked at: version 1 with addresses of 8 bytes, up to the end address.
const HEAD: usize = 52;
/// Length of the checksum of versions 2 and 3.
const CHECKSUM: u64 = 4;
/// The flag of version 3 for a file that is being written.
const BEING_WRITTEN: u8 = 1;

/// Refuses a file that ends before its end address, or that its writer has not closed. Gives the
/// version of the superblock.
pub(super) fn check(source: &dyn Source) -> Result<u8> {
    let Some((start, head)) = find(source)? else {
        return Err(Fault::new("the file has no HDF5 signature").into());
    };
    let version = head[SIGNATURE.len()];
    let Some(superblock) = Superblock::parse(&head) else {
        return Ok(version);
    };
    if source.len() - start < superblock.size {
        return Err(Fault::new("the file ends early")
            .expected(format!(
                "at least {} bytes",
                start.saturating_add(superblock.size)
            ))
            .found(source.len())
            .into());
    }
    if superblock.being_written {
        return Err(Fault::new(
            "the file is marked as being written: its writer is at work, or ended without closing it \
             (h5clear -s removes the mark)",
        )
        .into());
    }
    match superblock.end_from(start) {
        Some(end) if end > source.len() => Err(Fault::new("the file ends early")
            .expected(format!("{end} bytes"))
            .found(source.len())
            .into()),
        _ => Ok(version),
    }
}

/// Where the file ends by its own word; none if it does not say.
pub(crate) fn end(source: &dyn Source) -> Result<Option<u64>> {
    let Some((start, head)) = find(source)? else {
        return Ok(None);
    };
    let superblock = Superblock::parse(&head);
    Ok(superblock.and_then(|superblock| superblock.end_from(start)))
}

/// The bytes by which a superblock says that, its checksum among them; none if that is not known.
pub(crate) fn end_places(source: &dyn Source) -> Result<Vec<Range<u64>>> {
    let Some((start, head)) = find(source)? else {
        return Ok(Vec::new());
    };
    let places = Superblock::parse(&head).map(|superblock| superblock.end_places(head[8]));
    let places = places.into_iter().flatten();
    Ok(places
        .map(|place| start + place.start..start + place.end)
        .collect())
}

/// Where the superblock starts, and its first bytes with zeros behind the end of the file. It is at
/// the beginning, or behind a user block of 512, 1024, 2048, ... bytes.
fn find(source: &dyn Source) -> Result<Option<(u64, [u8; HEAD])>> {
    let mut at: u64 = 0;
    while at < source.len() {
        let mut head = [0; HEAD];
        source.read(at, &mut head)?;
        if head.starts_with(&SIGNATURE) {
            return Ok(Some((at, head)));
        }
        at = (at * 2).max(512);
    }
    Ok(None)
}

#[derive(Debug, PartialEq, Eq)]
struct Superblock {
    /// RawBytes that it takes itself, at least.
    size: u64,
    base: u64,
    /// Address of the first byte behind the file's data.
    end: u64,
    being_written: bool,
}

impl Superblock {
    /// The end of the file of a superblock that lies there. The addresses count from `base`; a user
    /// block that was added or cut moves the signature only.
    fn end_from(&self, start: u64) -> Option<u64> {
        self.end.checked_add(start)?.checked_sub(self.base)
    }

    /// From where it starts.
    fn end_places(&self, version: u8) -> Vec<Range<u64>> {
        // Of four addresses the end is the third; a checksum follows in later versions.
        let (at, checksum) = match version {
            0 => (24, 0),
            1 => (28, 0),
            _ => (12, CHECKSUM),
        };
        let width = (self.size - at) / 4;
        let end = at + 2 * width;
        vec![end..end + width, self.size..self.size + checksum]
    }

    /// None for what only the library may judge.
    fn parse(head: &[u8; HEAD]) -> Option<Superblock> {
        let version = head[8];
        // Versions 0 and 1: base, free space, end. Versions 2 and 3: base, extension, end.
        let (width, at) = match version {
            0 => (head[13], 24),
            1 => (head[13], 28),
            2 | 3 => (head[9], 12),
            _ => return None,
        };
        let width = usize::from(width);
        let address = |nth: usize| {
            let from = at + nth * width;
            let bytes = head.get(from..from + width)?;
            // All bits set: undefined.
            (bytes.iter().any(|&b| b != 0xff)).then(|| little_endian(bytes))
        };
        if ![2, 4, 8].contains(&width) {
            return None;
        }
        Some(Superblock {
            size: (at + 4 * width) as u64,
            base: address(0)?,
            end: address(2)?,
            being_written: version == 3 && head[11] & BEING_WRITTEN != 0,
        })
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().rev();
    digits.fold(0, |value, &byte| value << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: u8, parts: &[&[u8]]) -> [u8; HEAD] {
        let mut bytes = SIGNATURE.to_vec();
        bytes.push(version);
        bytes.extend(parts.concat());
        bytes.resize(HEAD, 0);
        bytes.try_into().unwrap()
    }

    #[test]
    fn every_version_says_where_the_file_ends() {
        let address = |n: u64| n.to_le_bytes();
        let rest = [address(512), address(u64::MAX), address(4096)].concat();
        let old = [0, 0, 0, 0, 8, 8, 0, 4, 0, 16, 0, 0, 0, 0, 0];
        let expected = |size, being_written| {
            Some(Superblock {
                size,
                base: 512,
                end: 4096,
                being_written,
            })
        };
        assert_eq!(
            Superblock::parse(&head(0, &[&old, &rest])),
            expected(56, false)
        );
        let older = [&old[..], &[32, 0, 0, 0]].concat();
        assert_eq!(
            Superblock::parse(&head(1, &[&older, &rest])),
            expected(60, false)
        );
        assert_eq!(
            Superblock::parse(&head(2, &[&[8, 8, 1], &rest])),
            expected(44, false)
        );
        assert_eq!(
            Superblock::parse(&head(3, &[&[8, 8, 1], &rest])),
            expected(44, true)
        );
        let places = |version, parts: &[&[u8]]| {
            let superblock = Superblock::parse(&head(version, parts)).unwrap();
            superblock.end_places(version)
        };
        assert_eq!(places(0, &[&old, &rest]), [40..48, 56..56]);
        assert_eq!(places(1, &[&older, &rest]), [44..52, 60..60]);
        assert_eq!(places(2, &[&[8, 8, 0], &rest]), [28..36, 44..48]);
        assert_eq!(Superblock::parse(&head(9, &[&[8, 8, 0], &rest])), None);
        assert_eq!(Superblock::parse(&head(2, &[&[200, 8, 0], &rest])), None);
    }
}
