//! The words of a packed array that is not there yet, encoded again whenever they are read.
//!
//! All words of a container may be more than memory holds, so only its indices are kept of what was
//! told once: they say which chunks a word comes from, and each chunk is encoded by itself. Assumes
//! that the values are read without decoding, and that they stay what they were: others are an
//! error. Used by `new_fields`.

use std::ops::Range;
use std::sync::Arc;

use super::blocks::subtract;
use super::forms::StreamForm;
use super::spaces::CHUNK_BYTES;
use super::stored::StoredMembers;
use crate::array::Array;
use crate::array::lazy::Computed;
use crate::codec::bp128::{self, Transform};
use crate::container::bpcells::fields::{Field, Fields, Number};
use crate::container::bpcells::packed::idx_offsets::Offsets;
use crate::error::{Error, Result};

/// Chunks that are encoded at once, on the stack.
const AT_ONCE: usize = 32;

const VALUES: usize = AT_ONCE * CHUNK_BYTES as usize;

/// What is packed.
pub(super) struct NewStream {
    pub(super) transform: Transform,
    pub(super) values: Arc<dyn Array>,
    /// Is subtracted.
    pub(super) less: Option<Arc<dyn Array>>,
    /// Bytes of the values.
    pub(super) len: u64,
}

/// An index as it was told.
pub(super) struct ToldIndex {
    entries: Arc<dyn Field>,
    offsets: Offsets,
}

pub(super) struct PackedWords {
    name: String,
    stream: NewStream,
    index: ToldIndex,
    words: u64,
}

/// Consecutive chunks, as they are encoded.
struct EncodedRun {
    /// Bytes before them.
    start: u64,
    len: usize,
    words: [u8; VALUES],
}

impl NewStream {
    pub(super) fn chunks(&self) -> u64 {
        self.len.div_ceil(CHUNK_BYTES)
    }
}

impl ToldIndex {
    /// Of so many chunks of this array; it begins again after `wrap` words.
    pub(super) fn open(
        told: &StoredMembers,
        of: &str,
        (form, chunks): (StreamForm, u64),
        wrap: u64,
    ) -> Result<ToldIndex> {
        let offsets = match form.has_offsets() {
            true => Offsets::open(told, &format!("{of}_idx_offsets"), chunks + 1, wrap)?.0,
            false => Offsets::none(),
        };
        Ok(ToldIndex {
            entries: told.field(&format!("{of}_idx"), Number::U32)?,
            offsets,
        })
    }

    /// Words before a chunk.
    fn words(&self, chunk: u64) -> Result<u64> {
        let low = self.entries.read_unsigned(chunk)? as u32;
        let none = || Error::Bug(format!("nothing is told of chunk {chunk}"));
        self.offsets.position(chunk, low).ok_or_else(none)
    }

    /// The last of so many chunks that has no more than these words before it.
    fn chunk_of(&self, word: u64, chunks: u64) -> Result<u64> {
        let mut range = 0..chunks;
        while range.end - range.start > 1 {
            let middle = range.start + (range.end - range.start) / 2;
            match self.words(middle)? <= word {
                true => range.start = middle,
                false => range.end = middle,
            }
        }
        Ok(range.start)
    }
}

impl PackedWords {
    pub(super) fn new(name: &str, stream: NewStream, index: ToldIndex) -> Result<PackedWords> {
        let words = index.words(stream.chunks())?;
        Ok(PackedWords {
            name: name.to_owned(),
            stream,
            index,
            words,
        })
    }

    /// The chunk that a byte lies in, and some of those behind it, up to another byte.
    fn encoded(&self, bytes: Range<u64>) -> Result<EncodedRun> {
        let chunks = self.stream.chunks();
        let first = self.index.chunk_of(bytes.start / 4, chunks)?;
        let start = self.index.words(first)?;
        let mut ends = [0; AT_ONCE];
        let mut count = 0;
        for chunk in (first..chunks).take(AT_ONCE) {
            let end = self.index.words(chunk + 1)?;
            ends[count] = end.wrapping_sub(start) as u32;
            count += 1;
            if end.saturating_mul(4) >= bytes.end {
                break;
            }
        }
        let mut run = EncodedRun {
            start: start.saturating_mul(4),
            len: 0,
            words: [0; VALUES],
        };
        let mut idx = [0; AT_ONCE + 1];
        run.len = self.encode(first, &mut idx[..=count], &mut run.words)?;
        match idx[1..=count] == ends[..count] {
            true => Ok(run),
            false => Err(self.changed()),
        }
    }

    /// Encodes chunks from one on, as many as `idx` has ends for.
    fn encode(&self, first: u64, idx: &mut [u32], words: &mut [u8]) -> Result<usize> {
        let stream = &self.stream;
        let at = first.saturating_mul(CHUNK_BYTES);
        let count = idx.len().saturating_sub(1);
        let room = (count * CHUNK_BYTES as usize).min(VALUES) as u64;
        let len = stream.len.saturating_sub(at).min(room) as usize;
        let mut values = [0; VALUES];
        let values = &mut values[..len];
        stream.values.read_direct(at, values)?;
        if let Some(less) = &stream.less {
            let mut starts = [0; VALUES];
            let starts = &mut starts[..len];
            less.read_direct(at, starts)?;
            subtract(values, starts);
        }
        let mut starts = [0; AT_ONCE];
        let starts = match stream.transform.has_starts() {
            true => &mut starts[..count],
            false => &mut [],
        };
        let encoded = bp128::encode(stream.transform, values, idx, starts, words);
        encoded.map_err(|e| Error::Bug(format!("{}: cannot be encoded: {e}", self.name)))
    }

    fn changed(&self) -> Error {
        let name = &self.name;
        Error::Invalid(format!("{name}: its values changed while they were packed"))
    }
}

impl Computed for PackedWords {
    fn len(&self) -> u64 {
        self.words.saturating_mul(4)
    }

    fn fill(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let (mut at, mut out) = (at, out);
        while !out.is_empty() {
            let end = at.saturating_add(out.len() as u64);
            let run = self.encoded(at..end)?;
            let skip = usize::try_from(at.saturating_sub(run.start)).unwrap_or(usize::MAX);
            let words = run.words.get(skip..run.len).unwrap_or_default();
            let n = words.len().min(out.len());
            if n == 0 {
                return Err(self.changed());
            }
            let (now, later) = out.split_at_mut(n);
            now.copy_from_slice(&words[..n]);
            (at, out) = (at + n as u64, later);
        }
        Ok(())
    }
}
