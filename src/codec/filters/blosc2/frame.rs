//! The frame around a chunk: fixed fields of msgpack, metalayers, the chunk, the index of chunks.
//!
//! Numbers are big-endian, each behind a byte that gives its type; the fields read here have fixed
//! places. Offsets of chunks are counted from the end of the header, and are themselves stored as a
//! chunk of little-endian 64-bit numbers; one with the highest bit set stands for a chunk of one
//! value, which is not stored.

use super::boxes::Boxes;
use super::chunk::Special;
use crate::filters::error::FilterError;
use crate::filters::tools::Tools;

const MAGIC: &[u8; 8] = b"b2frame\0";
/// Places of fields in the header.
const MAGIC_AT: usize = 0x02;
const HEADER_SIZE: usize = 0x0b;
const PLAIN_SIZE: usize = 0x1e;
const STORED_SIZE: usize = 0x27;
const TYPE_SIZE: usize = 0x30;
const METALAYERS: usize = 0x5c;
/// Metalayers that are looked at; an array needs one.
const MAX_METALAYERS: u16 = 16;

/// A frame that holds one chunk.
pub(super) struct Frame<'a> {
    bytes: &'a [u8],
    header_size: usize,
    /// Plain bytes.
    pub(super) plain: usize,
    /// Stored bytes of the chunk, behind which the index lies.
    stored: usize,
    type_size: usize,
}

/// What stands for the chunk.
pub(super) enum FrameBody<'a> {
    Blosc2Chunk(&'a [u8]),
    Special(Special<'a>),
}

impl<'a> Frame<'a> {
    /// Whether these are the bytes of a frame.
    pub(super) fn is(bytes: &[u8]) -> bool {
        bytes.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC)
    }

    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, FilterError> {
        let frame = Self {
            bytes,
            header_size: size(bytes, HEADER_SIZE, 4)?,
            plain: size(bytes, PLAIN_SIZE, 8)?,
            stored: size(bytes, STORED_SIZE, 8)?,
            type_size: size(bytes, TYPE_SIZE, 4)?,
        };
        Ok(frame)
    }

    /// How an array's blocks lie in it, if this is one of several dimensions.
    pub(super) fn boxes(&self) -> Result<Option<Boxes>, FilterError> {
        let layer = match self.metalayer(b"b2nd")? {
            None => self.metalayer(b"caterva")?,
            found => found,
        };
        layer
            .map(|layer| Boxes::parse(layer, self.type_size))
            .transpose()
    }

    /// The chunk's stored bytes, which may be followed by others, or its value.
    pub(super) fn body(&self, tools: &mut Tools) -> Result<FrameBody<'a>, FilterError> {
        let index = self.header_size.checked_add(self.stored);
        let index = index
            .and_then(|at| self.bytes.get(at..))
            .ok_or_else(FilterError::truncated)?;
        let mut offset = [0; 8];
        // The index of one chunk is as long as one offset.
        if super::decode_chunk(&mut tools.lend(), index, &mut offset).map_err(
            |error| match error {
                FilterError::Damage(damage) => {
                    FilterError::new(format!("index of one chunk: {}", damage.what))
                }
                failed => failed,
            },
        )? != offset.len()
        {
            return Err(FilterError::new("the frame holds no chunk"));
        }
        let offset = u64::from_le_bytes(offset);
        if offset >> 63 == 1 {
            return Special::of_index((offset >> 56) as u8, self.type_size).map(FrameBody::Special);
        }
        let at = usize::try_from(offset)
            .ok()
            .and_then(|at| at.checked_add(self.header_size));
        let chunk = at.and_then(|at| self.bytes.get(at..));
        chunk
            .map(FrameBody::Blosc2Chunk)
            .ok_or_else(FilterError::truncated)
    }

    /// The content of a metalayer: the map of names gives its place in the header.
    fn metalayer(&self, name: &[u8]) -> Result<Option<&'a [u8]>, FilterError> {
        let header = self
            .bytes
            .get(..self.header_size)
            .ok_or_else(FilterError::truncated)?;
        let mut at = METALAYERS;
        let count = number::<2>(header, at)?;
        at += 2;
        for _ in 0..u16::from_be_bytes(count).min(MAX_METALAYERS) {
            let len = usize::from(number::<1>(header, at)?[0] & 0x1f);
            let found = header
                .get(at + 1..at + 1 + len)
                .ok_or_else(FilterError::truncated)?;
            at += 1 + len + 1;
            let place = size(header, at, 4)?;
            at += 4;
            if found == name {
                return content(header, place).map(Some);
            }
        }
        Ok(None)
    }
}

/// The bytes of a metalayer, which stand behind their type and length.
fn content(header: &[u8], place: usize) -> Result<&[u8], FilterError> {
    let len = size(header, place.saturating_add(1), 4)?;
    let from = place.saturating_add(5);
    header
        .get(from..from.saturating_add(len))
        .ok_or_else(FilterError::truncated)
}

/// A size of `width` bytes, 4 or 8, at `at`.
pub(super) fn size(bytes: &[u8], at: usize, width: usize) -> Result<usize, FilterError> {
    let value = match width {
        4 => i64::from(i32::from_be_bytes(number(bytes, at)?)),
        _ => i64::from_be_bytes(number(bytes, at)?),
    };
    usize::try_from(value).map_err(|_| FilterError::new("a size is negative").found(value))
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], FilterError> {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.first_chunk()
        .copied()
        .ok_or_else(FilterError::truncated)
}
