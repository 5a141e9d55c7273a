//! Version strings: the whole description of a container's variant (docs/formats.md).
//!
//! Packing, element type and generation come from the string alone. Used by `mod` to recognise, and
//! by `matrix` and `fragments` to know which arrays there are.

use super::fields::Number;
use crate::error::Fault;

/// Enough for every known version and for telling that there is more than one line.
pub(crate) const MOST: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) packed: bool,
    pub(crate) content: Holds,
    pub(crate) generation: Generation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// A matrix of values of this type.
    Matrix(Number),
    Fragments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Pointers of 32 bits, no `*_idx_offsets`.
    V1,
    V2,
    /// Version 9999, experimental: as V2, with a packed `idxptr`.
    SparseColumns,
}

impl Generation {
    /// Type of `idxptr` and `chr_ptr` where they are stored plainly.
    pub(crate) fn pointer(self) -> Number {
        match self {
            Generation::V1 => Number::U32,
            Generation::V2 | Generation::SparseColumns => Number::U64,
        }
    }
}

/// What the first bytes of a file `version` say.
#[derive(Debug)]
pub(super) enum Seen {
    Known(Variant, String),
    /// A version of BPCells, but none that can be read.
    Unreadable(Fault),
    /// Another program's file.
    Foreign,
}

impl Variant {
    /// Reads a version string.
    pub(crate) fn parse(line: &str) -> Option<Variant> {
        let (packing, rest) = line.split_once('-')?;
        let packed = match packing {
            "packed" => true,
            "unpacked" => false,
            _ => return None,
        };
        let (content, number) = rest.rsplit_once("-v")?;
        let content = match content {
            "uint-matrix" => Holds::Matrix(Number::U32),
            "float-matrix" => Holds::Matrix(Number::F32),
            "double-matrix" => Holds::Matrix(Number::F64),
            "fragments" => Holds::Fragments,
            _ => return None,
        };
        let generation = match number {
            "1" => Generation::V1,
            "2" => Generation::V2,
            "9999" if packed && content != Holds::Fragments => Generation::SparseColumns,
            _ => return None,
        };
        Some(Variant {
            packed,
            content,
            generation,
        })
    }
}

/// Judges the first [`MOST`] bytes of a file `version`: exactly one line, whose end may be LF, CRLF
/// or missing.
pub(super) fn read(stored: &[u8]) -> Seen {
    let end = memchr::memchr(b'\n', stored).unwrap_or(stored.len());
    let line = stored[..end].strip_suffix(b"\r").unwrap_or(&stored[..end]);
    let more = end + 1 < stored.len();
    let text = std::str::from_utf8(line).unwrap_or("");
    match Variant::parse(text) {
        Some(version) if !more => Seen::Known(version, text.to_owned()),
        Some(_) => Seen::Unreadable(
            Fault::new("the version is not one line")
                .expected("one line")
                .found("more"),
        ),
        None if looks_like_one(line) => Seen::Unreadable(
            Fault::new("unknown version")
                .expected(
                    "{packed,unpacked}-{uint,float,double}-matrix-v{1,2} or -fragments-v{1,2}",
                )
                .found(line.escape_ascii()),
        ),
        None => Seen::Foreign,
    }
}

/// Whether the first bytes of a file are the one line of a known version.
pub(crate) fn is_known(head: &[u8]) -> bool {
    matches!(read(head), Seen::Known(..))
}

/// Whether this is a version of BPCells that this reader does not know yet.
fn looks_like_one(line: &[u8]) -> bool {
    let packing = line.starts_with(b"packed-") || line.starts_with(b"unpacked-");
    let has = |part: &[u8]| memchr::memmem::find(line, part).is_some();
    packing && (has(b"-matrix-v") || has(b"-fragments-v"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(stored: &[u8]) -> Option<Variant> {
        match read(stored) {
            Seen::Known(version, _) => Some(version),
            _ => None,
        }
    }

    #[test]
    fn every_known_version() {
        for (word, number) in [
            ("uint", Number::U32),
            ("float", Number::F32),
            ("double", Number::F64),
        ] {
            for (v, generation) in [("1", Generation::V1), ("2", Generation::V2)] {
                for (packing, packed) in [("packed", true), ("unpacked", false)] {
                    let version = Variant {
                        packed,
                        content: Holds::Matrix(number),
                        generation,
                    };
                    let text = format!("{packing}-{word}-matrix-v{v}\n");
                    assert_eq!(known(text.as_bytes()), Some(version), "{text}");
                    let version = Variant {
                        content: Holds::Fragments,
                        ..version
                    };
                    let text = format!("{packing}-fragments-v{v}\n");
                    assert_eq!(known(text.as_bytes()), Some(version), "{text}");
                }
            }
            let version = known(format!("packed-{word}-matrix-v9999\n").as_bytes());
            assert_eq!(
                version.map(|v| v.generation),
                Some(Generation::SparseColumns)
            );
        }
    }

    #[test]
    fn line_ends() {
        for stored in [
            "packed-uint-matrix-v2",
            "packed-uint-matrix-v2\n",
            "packed-uint-matrix-v2\r\n",
        ] {
            assert!(matches!(read(stored.as_bytes()),
                Seen::Known(_, text) if text == "packed-uint-matrix-v2"));
        }
    }

    #[test]
    fn what_looks_like_a_version_is_damage() {
        for stored in [
            "packed-uint-matrix-v3\n",
            "unpacked-ulong-matrix-v2\n",
            "unpacked-uint-matrix-v9999\n",
            "packed-fragments-v9999\n",
            "packed-uint-matrix-v2 \n",
            "packed-uint-matrix-v2\n\n",
            "packed-uint-matrix-v2\nmore",
        ] {
            assert!(
                matches!(read(stored.as_bytes()), Seen::Unreadable(_)),
                "{stored:?}"
            );
        }
        for stored in [
            &b""[..],
            b"1.2.3\n",
            b"\xff\xfe",
            b"packed-lunch\n",
            b"\npacked-uint-matrix-v2\n",
        ] {
            assert!(matches!(read(stored), Seen::Foreign), "{stored:?}");
        }
    }
}
