//! The metadata section: a header of its own, JSON text (plain or zlib), room to grow, a digest.
//!
//! Its damage does not touch the chunks: whatever is wrong inside becomes a fault of the container
//! while the data are shown, as long as it is known where the section ends. The real reader refuses
//! the whole file instead. A text of a few kilobytes may inflate to megabytes, and a value takes
//! many times its text: only a short text becomes a value, and long texts are read one at a time.
//! Used when a file is opened.

mod json;
pub(crate) mod numpy;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::codec::checksum::Checksum;
use crate::container::bloscpack::header::{self, hex};
use crate::container::bloscpack::metadata::numpy::MEMBERS;
use crate::error::{Error, Fault, Result};
use crate::memory::no_memory;
use crate::source::{Fetch, Source};
use crate::sync::{Mutex, MutexGuard};
use json::Said;

pub(crate) const MAGIC: &[u8; 8] = b"JSON\0\0\0\0";
/// Stored bytes of the section's header.
pub(crate) const HEADER: usize = 32;
const AT: u64 = header::LEN as u64;
const DATA: u64 = AT + HEADER as u64;

const PLAIN: u8 = 0;
const ZLIB: u8 = 1;
const MAX_LEVEL: u8 = 9;

/// Longest text that is read. Metadata are small; this bounds what a hostile file can make us hold.
const MAX_TEXT: u64 = 16 << 20;

/// Longest text that becomes a value, to be shown in `arrays.json` too.
pub(crate) const MAX_ATTRIBUTE: usize = 64 << 10;

/// Texts longer than this are read one at a time.
const LONG: u64 = 1 << 20;

static ONE_LONG_TEXT: Mutex<()> = Mutex::new(());

/// Deflate gives at most 1032 bytes for one.
const MAX_RATIO: u64 = 1032;

/// What the section holds.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    /// Where the section ends.
    pub(crate) end: u64,
    /// The text as it was stored, uncompressed; only if it is sound.
    pub(crate) text: Option<Arc<Vec<u8>>>,
    /// What it says; of a text longer than [`MAX_ATTRIBUTE`] only what describes a NumPy array.
    pub(crate) said: Option<Said>,
    pub(crate) faults: Vec<Fault>,
}

/// The section's header.
struct Section {
    options: u8,
    checksum: Checksum,
    codec: u8,
    level: u8,
    plain: u64,
    room: u64,
    used: u64,
}

/// Reads the section, whose header lies behind the file's, if it is there. An error means that the
/// section's end, and so everything behind it, is unknown.
pub(crate) fn read(source: &dyn Source, header: Option<&[u8; HEADER]>) -> Result<Metadata> {
    let Some(bytes) = header else {
        return Err(cut_short(AT..source.len(), HEADER as u64).into());
    };
    let section = Section::parse(bytes)?;
    let end = DATA + section.room + section.checksum.digest_len() as u64;
    if end > source.len() {
        return Err(cut_short(AT..source.len(), end - AT).into());
    }
    let mut metadata = Metadata {
        end,
        faults: section.faults(),
        ..Metadata::default()
    };
    match section.text(bytes, source) {
        Ok((text, said)) => {
            metadata
                .faults
                .extend(section.check_size(text.len() as u64));
            (metadata.text, metadata.said) = (Some(text), Some(said));
        }
        Err(Error::Fault(fault)) => metadata.faults.push(*fault),
        Err(other) => return Err(other),
    }
    Ok(metadata)
}

impl Section {
    fn parse(bytes: &[u8; HEADER]) -> Result<Self> {
        let field = |at: usize| {
            u64::from(u32::from_le_bytes([
                bytes[at],
                bytes[at + 1],
                bytes[at + 2],
                bytes[at + 3],
            ]))
        };
        let checksum = Checksum::from_code(bytes[9]).ok_or_else(|| {
            wrong(
                "unknown checksum code of the metadata",
                41..42,
                "0 to 8",
                bytes[9],
            )
        })?;
        Ok(Section {
            options: bytes[8],
            checksum,
            codec: bytes[10],
            level: bytes[11],
            plain: field(12),
            room: field(16),
            used: field(20),
        })
    }

    /// Rules of the header that do not keep the text from being read.
    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.options != 0 {
            faults.push(wrong("unknown metadata options", 40..41, 0, self.options));
        }
        if self.level > MAX_LEVEL {
            faults.push(wrong(
                "metadata level is out of range",
                43..44,
                "0 to 9",
                self.level,
            ));
        }
        faults
    }

    /// The real reader does not look at this size, so a wrong one does not make the text unsound.
    fn check_size(&self, found: u64) -> Option<Fault> {
        let what = "the metadata has another length than it claims";
        (found != self.plain).then(|| wrong(what, 44..48, self.plain, found))
    }

    fn text(&self, header: &[u8; HEADER], source: &dyn Source) -> Result<(Arc<Vec<u8>>, Said)> {
        if &header[..8] != MAGIC {
            let (expected, found) = (hex(MAGIC), hex(&header[..8]));
            return Err(wrong("unknown format of the metadata", 32..40, expected, found).into());
        }
        let mut turn = (self.used.max(self.plain) > LONG).then(take_turn);
        let stored = self.stored(source)?;
        let text = match self.codec {
            PLAIN => stored,
            ZLIB => self.inflate(stored, &mut turn)?,
            other => {
                let what = "unknown codec of the metadata";
                return Err(wrong(what, 42..43, "0 (none) or 1 (zlib)", other).into());
            }
        };
        let said = json::value_of(&text, MAX_ATTRIBUTE, &MEMBERS);
        let said = said.map_err(|e| e.map_fault(|fault| fault.bytes(self.data())))?;
        Ok((text.into(), said))
    }

    fn data(&self) -> Range<u64> {
        DATA..DATA + self.used
    }

    /// The stored bytes, if they are what the digest says.
    fn stored(&self, source: &dyn Source) -> Result<Vec<u8>> {
        if self.used > self.room {
            let what = "the metadata is larger than its room";
            return Err(wrong(what, 48..56, self.room, self.used).into());
        }
        if self.used > MAX_TEXT {
            let what = "the metadata is too large to be shown";
            return Err(wrong(what, self.data(), format!("at most {MAX_TEXT}"), self.used).into());
        }
        let mut stored = zeros(self.used)?;
        let mut digest = vec![0; self.checksum.digest_len()];
        source.fetch(&mut [
            Fetch {
                offset: DATA,
                buf: &mut stored,
            },
            Fetch {
                offset: DATA + self.room,
                buf: &mut digest,
            },
        ])?;
        let found = self.checksum.digest(&stored);
        if found.as_bytes() != digest {
            let what = format!("{} mismatch of the metadata", self.checksum.name());
            return Err(wrong(&what, self.data(), hex(&digest), hex(found.as_bytes())).into());
        }
        Ok(stored)
    }

    /// Tries the claimed size first, as far as it is possible, then the largest possible.
    fn inflate(
        &self,
        stored: Vec<u8>,
        turn: &mut Option<MutexGuard<'static, ()>>,
    ) -> Result<Vec<u8>> {
        let most = (stored.len() as u64 * MAX_RATIO + 64).min(MAX_TEXT);
        let mut decompressor = libdeflater::Decompressor::new();
        let mut outcome = Err(libdeflater::DecompressionError::InsufficientSpace);
        for room in [self.plain.min(most), most] {
            if room > LONG {
                turn.get_or_insert_with(take_turn);
            }
            let mut text = zeros(room)?;
            outcome = decompressor.zlib_decompress(&stored, &mut text).map(|n| {
                text.truncate(n);
                text
            });
            if outcome != Err(libdeflater::DecompressionError::InsufficientSpace) {
                break;
            }
        }
        use libdeflater::DecompressionError::{BadData, InsufficientSpace};
        outcome.map_err(|e| {
            let found = match e {
                BadData => "damaged data".to_owned(),
                InsufficientSpace => format!("more than {most} bytes of text"),
            };
            let fault = Fault::new("the metadata is not a zlib stream that can be shown");
            fault.bytes(self.data()).found(found).into()
        })
    }
}

/// `len` zeros, at most [`MAX_TEXT`].
fn zeros(len: u64) -> Result<Vec<u8>> {
    let mut buf = Vec::new();
    let reserved = buf.try_reserve_exact(len as usize);
    reserved.map_err(|_| no_memory("cannot read long metadata"))?;
    buf.resize(len as usize, 0);
    Ok(buf)
}

fn take_turn() -> MutexGuard<'static, ()> {
    ONE_LONG_TEXT.lock()
}

fn cut_short(bytes: Range<u64>, needed: u64) -> Fault {
    let found = bytes.end.saturating_sub(bytes.start);
    let bytes = bytes.start.min(bytes.end)..bytes.end;
    let what = "the metadata section does not fit into the file";
    wrong(
        what,
        bytes,
        format!("{needed} bytes"),
        format!("{found} bytes"),
    )
}

fn wrong(
    what: &str,
    bytes: Range<u64>,
    expected: impl fmt::Display,
    found: impl fmt::Display,
) -> Fault {
    Fault::new(what)
        .bytes(bytes)
        .expected(expected)
        .found(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::bloscpack::tests::files::{self, Stored};

    fn read_section(section: &[u8]) -> Result<Metadata> {
        let mut bytes = files::header(2, 1, 0, 0, 0, 0).to_vec();
        bytes.extend_from_slice(section);
        let header = bytes.get(32..).and_then(|bytes| bytes.first_chunk());
        read(&*Stored::new(&bytes).source(), header)
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut compressor = libdeflater::Compressor::new(Default::default());
        let mut out = vec![0; compressor.zlib_compress_bound(text.len())];
        let n = compressor.zlib_compress(text, &mut out).unwrap();
        out.truncate(n);
        out
    }

    const TEXT: &[u8] = br#"{"a": [1, "x"]}"#;

    #[test]
    fn plain_and_zlib() {
        for (stored, codec) in [(TEXT.to_vec(), 0), (zlib(TEXT), 1)] {
            let found = read_section(&files::metadata(&stored, codec, TEXT.len(), 100)).unwrap();
            assert_eq!(found.text.as_deref().map(Vec::as_slice), Some(TEXT));
            assert_eq!(found.said.unwrap().value["a"][1], "x");
            assert_eq!((found.faults.len(), found.end), (0, 64 + 100 + 4));
        }
    }

    #[test]
    fn a_wrong_plain_size_is_told_and_the_text_is_shown() {
        for claimed in [0, 3, u32::MAX as usize] {
            let found = read_section(&files::metadata(&zlib(TEXT), 1, claimed, 100)).unwrap();
            assert_eq!(found.text.as_deref().map(Vec::as_slice), Some(TEXT));
            assert_eq!(found.faults.len(), 1);
        }
    }

    #[test]
    fn damage_inside_is_a_fault() {
        let good = files::metadata(TEXT, 0, TEXT.len(), 100);
        let damage: [(usize, u8, &str); 7] = [
            (4, b' ', "format"),
            (8, 1, "options"),
            (10, 2, "codec"),
            (10, 1, "not a zlib"),
            (11, 10, "level"),
            (20, 200, "larger than its room"),
            (32, 0xff, "adler32 mismatch"),
        ];
        for (at, value, what) in damage {
            let mut section = good.clone();
            section[at] = value;
            let found = read_section(&section).unwrap();
            assert!(found.faults[0].what.contains(what), "{}", found.faults[0]);
            assert_eq!(found.end, 64 + 100 + 4);
        }
        for text in [&b"{"[..], b"\xff\"\"", b""] {
            let found = read_section(&files::metadata(text, 0, text.len(), 10)).unwrap();
            assert!(found.text.is_none() && found.faults[0].what.contains("not JSON"));
        }
    }

    #[test]
    fn an_unknown_end_refuses_the_file() {
        let good = files::metadata(TEXT, 0, TEXT.len(), 100);
        assert!(read_section(&good[..31]).is_err());
        assert!(read_section(&good[..135]).is_err());
        let mut section = good.clone();
        section[9] = 9;
        assert!(read_section(&section).is_err());
        section[9] = 1;
        section[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(read_section(&section).is_err());
    }

    #[test]
    fn a_long_text_is_shown_and_searched_but_no_value() {
        let shown = r#""container": "numpy", "dtype": "'<f8'", "shape": [3], "order": "C""#;
        for inflated in [MAX_ATTRIBUTE, MAX_TEXT as usize - 200] {
            let text = format!("{{\"more\": [0{}], {shown}}}", ",0".repeat(inflated / 2));
            let stored = zlib(text.as_bytes());
            for claimed in [text.len(), 0] {
                let section = files::metadata(&stored, 1, claimed, stored.len());
                let found = read_section(&section).unwrap();
                assert_eq!(
                    found.text.as_deref().map(Vec::as_slice),
                    Some(text.as_bytes())
                );
                let value = found.said.unwrap().value;
                assert!(value.get("more").is_none());
                assert_eq!(value["shape"][0], 3);
            }
            let broken = zlib(&text.as_bytes()[..text.len() - 1]);
            let section = files::metadata(&broken, 1, text.len() - 1, broken.len());
            let found = read_section(&section).unwrap();
            assert!(found.text.is_none() && found.faults[0].what.contains("not JSON"));
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_a_fault() {
        let text = format!("\"{}\"", "a".repeat(MAX_TEXT as usize));
        let stored = zlib(text.as_bytes());
        let found = read_section(&files::metadata(&stored, 1, text.len(), stored.len())).unwrap();
        assert!(found.text.is_none());
        let told = found.faults[0].to_string();
        assert!(
            told.contains(&format!("more than {MAX_TEXT} bytes")),
            "{told}"
        );
    }
}
