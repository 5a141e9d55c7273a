//! A BP-128 stream: `X_data`, `X_idx`, `X_idx_offsets` and `X_starts` (docs/formats.md).
//!
//! [`PackedStream`] decodes any run of its chunks; [`PackedArray`] shows one as an array, in blocks
//! of [`BLOCK_BYTES`]. What a container claims is compared with the lengths of the stored arrays
//! when the stream is opened, the index of a run when the run is decoded: never all of it, and no
//! memory is taken by a claimed size. Used by `matrix`, `fragments` and `pointers`.

pub(super) mod ends;

pub(super) mod idx_offsets;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::fields::{Field, Fields, Number, decoded_bytes};
use super::version::Generation;
use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece, even_pieces};
use crate::codec::bp128::{self, Bp128Error, CHUNK, Transform};
use crate::error::{Error, Fault, Result};
use crate::memory::{Arena, room};
use crate::source::StoredRanges;
use idx_offsets::{Offsets, WRAP};

/// Decoded bytes of a block: 512 chunks, 65536 values.
pub(super) const BLOCK_BYTES: u64 = 256 * 1024;
/// Decoded bytes of a chunk.
const CHUNK_BYTES: u64 = 4 * CHUNK as u64;
/// What the chunks of one decode are read into.
struct Buffers<'a> {
    /// An entry for each chunk, and one more.
    idx: &'a mut [u32],
    /// One for each chunk, if the stream has any.
    starts: &'a mut [u32],
    /// Room for the stored words at full width.
    words: &'a mut [u8],
}

pub(super) struct PackedStream {
    transform: Transform,
    /// Values; the stream itself knows its length only up to a chunk.
    len: u64,
    data: Arc<dyn Field>,
    idx: Arc<dyn Field>,
    starts: Option<Arc<dyn Field>>,
    offsets: Offsets,
    stored_bytes: u64,
}

impl PackedStream {
    /// Opens the stream `name` of `len` values and makes sure that it can hold them.
    pub(super) fn open(
        fields: &dyn Fields,
        name: &str,
        transform: Transform,
        len: u64,
        generation: Generation,
    ) -> Result<Self> {
        PackedStream::open_wrapping(fields, name, transform, len, generation, WRAP)
    }

    /// Opens a stream whose index begins again after `wrap` words, which is a parameter for tests
    /// alone.
    pub(super) fn open_wrapping(
        fields: &dyn Fields,
        name: &str,
        transform: Transform,
        len: u64,
        generation: Generation,
        wrap: u64,
    ) -> Result<Self> {
        decoded_bytes(len, Number::U32)?;
        let chunks = len.div_ceil(CHUNK as u64);
        let field = |part: &str| fields.field(&format!("{name}_{part}"), Number::U32);
        let data = field("data")?;
        let idx = field("idx")?;
        idx.require(chunks + 1)?;
        let starts = transform
            .has_starts()
            .then(|| field("starts"))
            .transpose()?;
        starts
            .as_ref()
            .map_or(Ok(()), |starts| starts.require(chunks))?;
        let (offsets, offset_bytes) = match generation {
            Generation::V1 => (Offsets::none(), 0),
            _ => {
                let name = format!("{name}_idx_offsets");
                Offsets::open(fields, &name, chunks + 1, wrap)?
            }
        };
        let parts = [Some(&data), Some(&idx), starts.as_ref()];
        let parts = parts
            .into_iter()
            .flatten()
            .map(|field| field.stored_bytes());
        let stored_bytes = parts.fold(offset_bytes, u64::saturating_add);
        let stream = PackedStream {
            transform,
            len,
            data,
            idx,
            starts,
            offsets,
            stored_bytes,
        };
        stream.check_end(chunks)?;
        Ok(stream)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// How many index entries the stream has.
    pub(super) fn entries(&self) -> u64 {
        self.len.div_ceil(CHUNK as u64) + 1
    }

    /// Index entries as they are stored.
    pub(super) fn read_idx(&self, first: u64, out: &mut [u32]) -> Result<()> {
        self.idx.read_u32s(first, out)
    }

    /// That the index is lower behind these chunks than before them.
    pub(super) fn goes_back(&self, chunks: Range<u64>) -> Fault {
        let fault = Fault::new("the index goes back");
        self.idx.locate(fault, entries(chunks.start, chunks.end))
    }

    /// The word that index entry `entry`, stored as `low`, stands for, if that is within the data.
    pub(super) fn word(&self, entry: u64, low: u32) -> Result<u64> {
        let word = self.offsets.position(entry, low).unwrap_or(u64::MAX);
        self.check_within(entry, word)?;
        Ok(word)
    }

    /// Its name as a codec.
    pub(super) fn codec(&self) -> &'static str {
        match self.transform {
            Transform::Plain => "bp128",
            Transform::MinusOne => "bp128 m1",
            Transform::Delta => "bp128 d1",
            Transform::DeltaZigzag => "bp128 d1z",
        }
    }

    /// Size of all values.
    pub(super) fn bytes(&self) -> u64 {
        4 * self.len
    }

    /// Memory that decoding this block takes: its index, its starts, and its words at full width.
    pub(super) fn scratch(&self, block: BlockId) -> u64 {
        let chunks = self.block_bytes(block).div_ceil(CHUNK_BYTES);
        let starts = if self.starts.is_some() { chunks } else { 0 };
        room(4 * (chunks + 1)) + room(4 * starts) + room(CHUNK_BYTES * chunks)
    }

    /// Decoded bytes of a block; the last may be shorter than the others.
    pub(super) fn block_bytes(&self, block: BlockId) -> u64 {
        let before = block.0.saturating_mul(BLOCK_BYTES);
        self.bytes().saturating_sub(before).min(BLOCK_BYTES)
    }

    /// Names what decoding a block fetches ([`Array::stored`]): its index and its starts, and then
    /// the words that they lead to.
    pub(super) fn stored(
        &self,
        block: BlockId,
        round: u32,
        needed: &mut StoredRanges,
    ) -> Result<bool> {
        let first = block.0.saturating_mul(BLOCK_BYTES / CHUNK_BYTES);
        let last = first.saturating_add(self.block_bytes(block).div_ceil(CHUNK_BYTES));
        let index = self.idx.stored(entries(first, last), round, needed)?;
        let starts = match &self.starts {
            Some(starts) => starts.stored(4 * first..4 * last, round, needed)?,
            None => false,
        };
        let words_follow = round == 0 || index;
        if words_follow {
            return Ok(true);
        }
        let word = |entry| self.word(entry, self.idx.read_unsigned(entry)? as u32);
        let (start, end) = (word(first)?, word(last)?);
        // Another index is a fault, which decoding tells.
        let most = (CHUNK as u64).saturating_mul(last.saturating_sub(first));
        if end.checked_sub(start).is_none_or(|words| words > most) {
            return Ok(false);
        }
        let words = byte_range(&(start..end));
        Ok(self.data.stored(words, round - 1, needed)? || starts)
    }

    /// Decodes one block into `out`.
    pub(super) fn decode_block(
        &self,
        block: BlockId,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        let chunks = (out.len() as u64).div_ceil(CHUNK_BYTES);
        let starts = if self.starts.is_some() { chunks } else { 0 };
        let buffers = Buffers {
            idx: scratch.take_u32s(chunks + 1)?,
            starts: scratch.take_u32s(starts)?,
            words: scratch.take(CHUNK_BYTES * chunks)?,
        };
        let first = block.0.saturating_mul(BLOCK_BYTES / CHUNK_BYTES);
        self.decode(first, out, buffers)
            .map_err(|e| e.map_fault(|fault| fault.block(block.0)))
    }

    /// Decodes chunks from number `first` on until `out` is full, which may be within the last one.
    fn decode(&self, first: u64, out: &mut [u8], buffers: Buffers<'_>) -> Result<()> {
        let Buffers { idx, starts, words } = buffers;
        self.idx.read_u32s(first, idx)?;
        if let Some(stored) = &self.starts {
            stored.read_u32s(first, starts)?;
        }
        let range = self.words(first, idx)?;
        let len = 4 * (range.end - range.start) as usize;
        // At most 128 words for each chunk: the index has been checked.
        let words = words.get_mut(..len).ok_or_else(|| {
            Error::Bug(format!("{len} bytes of words for {} chunks", idx.len() - 1))
        })?;
        self.data.read(4 * range.start, words)?;
        bp128::decode(self.transform, idx, starts, words, out).map_err(|e| {
            self.data
                .locate(Fault::new(e.to_string()), byte_range(&range))
                .into()
        })
    }

    /// The value of number `index`, for which one chunk is decoded.
    pub(super) fn value(&self, index: u64) -> Result<u32> {
        let (chunk, within) = (index / CHUNK as u64, index % CHUNK as u64);
        let mut values = [0; CHUNK_BYTES as usize];
        let end = 4 * (within as usize + 1);
        let buffers = Buffers {
            idx: &mut [0; 2],
            starts: &mut [0; 1][..usize::from(self.starts.is_some())],
            words: &mut [0; CHUNK_BYTES as usize],
        };
        self.decode(chunk, &mut values[..end], buffers)?;
        let mut value = [0; 4];
        value.copy_from_slice(&values[end - 4..end]);
        Ok(u32::from_le_bytes(value))
    }

    /// Checks the index entries of consecutive chunks, `first` being the number of the first one,
    /// and returns where their words lie. Every pair of neighbours in the index is checked in the
    /// run that has it, and the runs share their outer entries, so all runs together check all of
    /// it.
    fn words(&self, first: u64, idx: &[u32]) -> Result<Range<u64>> {
        let last = first + idx.len().saturating_sub(1) as u64;
        let count = bp128::check_index(idx).map_err(|e| self.bad_index(first, last, e))?;
        let position = |entry, low: Option<&u32>| {
            low.and_then(|&low| self.offsets.position(entry, low))
                .unwrap_or(u64::MAX)
        };
        let words = position(first, idx.first())..position(last, idx.last());
        if words.end.checked_sub(words.start) != Some(count) {
            let fault = Fault::new("the index does not agree with its idx_offsets")
                .expected(format_args!("{count} words"))
                .found(format_args!("words {}..{}", words.start, words.end));
            return Err(self.idx.locate(fault, entries(first, last)).into());
        }
        self.check_within(last, words.end)?;
        Ok(words)
    }

    /// A fault of the index, at the entries of its chunk where that is known.
    fn bad_index(&self, first: u64, last: u64, error: Bp128Error) -> Fault {
        let Bp128Error::Step { chunk, step } = error else {
            return self
                .idx
                .locate(Fault::new(error.to_string()), entries(first, last));
        };
        let chunk = first + chunk as u64;
        let fault = Fault::new(format!("the index step of chunk {chunk} is wrong"))
            .expected("a multiple of 4 words, at most 128")
            .found(step.cast_signed());
        self.idx.locate(fault, entries(chunk, chunk + 1))
    }

    /// The last index entry must lie within the data: reported at opening, for all of the stream.
    fn check_end(&self, chunks: u64) -> Result<()> {
        let low = self.idx.read_unsigned(chunks)? as u32;
        self.word(chunks, low).map(drop)
    }

    /// Index entry `entry` stands for `position`, which must not be past the data.
    fn check_within(&self, entry: u64, position: u64) -> Result<()> {
        if position <= self.data.len() {
            return Ok(());
        }
        let fault = Fault::new("the index points past the end of the data")
            .expected(format_args!("at most {} words", self.data.len()))
            .found(position);
        Err(self.idx.locate(fault, entries(entry, entry)).into())
    }

    /// The rule of the index that no block sees: it begins with 0.
    pub(super) fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        let first = self.idx.read_unsigned(0)?;
        if first != 0 {
            let fault = Fault::new("the first index entry is wrong")
                .expected(0)
                .found(first);
            report(self.idx.locate(fault, entries(0, 0)));
        }
        Ok(())
    }
}

/// Bytes of the index entries `first..=last`.
fn entries(first: u64, last: u64) -> Range<u64> {
    first.saturating_mul(4)..last.saturating_add(1).saturating_mul(4)
}

fn byte_range(words: &Range<u64>) -> Range<u64> {
    words.start.saturating_mul(4)..words.end.saturating_mul(4)
}

/// What every array of 32-bit values in even blocks says of itself.
pub(super) fn describe(stream: &PackedStream, codec: impl Into<Cow<'static, str>>) -> Info {
    Info {
        dtype: Dtype::U32,
        shape: vec![stream.len()],
        order: Order::C,
        bytes: stream.bytes(),
        stored_bytes: stream.stored_bytes(),
        blocks: stream.bytes().div_ceil(BLOCK_BYTES),
        codec: codec.into(),
    }
}

/// A stream shown as it is.
pub(super) struct PackedArray {
    name: String,
    stream: Arc<PackedStream>,
}

impl PackedArray {
    pub(super) fn new(name: &str, stream: Arc<PackedStream>) -> Self {
        PackedArray {
            name: name.to_owned(),
            stream,
        }
    }
}

impl Array for PackedArray {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        Ok(describe(&self.stream, self.stream.codec()))
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        even_pieces(self.stream.bytes(), BLOCK_BYTES, range, out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn stored(&self, piece: &Piece, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        match piece.block() {
            Some(block) => self.stream.stored(block, round, needed),
            None => Ok(false),
        }
    }

    fn scratch(&self, block: BlockId) -> u64 {
        self.stream.scratch(block)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        self.stream.decode_block(block, out, scratch)
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        self.stream.verify(report)
    }
}
