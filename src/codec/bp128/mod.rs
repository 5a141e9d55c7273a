//! BP-128, the integer codec of BPCells: chunks of 128 values, each packed with its own bit width.
//!
//! Value `i` of a chunk lies in lane `i % 4`, row `i / 4`. A lane is a stream of `b`-bit fields,
//! low bits first, in `b` words of 32 bits; word `w` of lane `l` is word `4 * w + l` of the chunk.
//! So a chunk takes `4 * b` words, and the index of cumulative word counts gives its position and
//! width. A chunk decodes from its own words and its own start value; nothing is carried between
//! chunks. All arithmetic is modulo 2^32.
//!
//! The caller owns the layout of files: it maps values to chunks, reads the words, and hands over
//! slices that belong together. Lengths are checked here once per run, so that neither decoder can
//! leave its slices, whatever was stored. Used by `container::bpcells`.
//!
//! [`decode`] takes the AVX2 path where the CPU has it; [`decode_scalar`] is the reference for it.
//! [`encode`] is the inverse.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod encode;
#[doc(hidden)]
pub mod encoded;
mod scalar;
#[cfg(test)]
mod tests;

use std::fmt;

pub use encode::{encode, encode_scalar, most_words};

/// Values in a chunk.
pub const CHUNK: usize = 128;
/// Bytes of a decoded chunk.
const CHUNK_BYTES: usize = 4 * CHUNK;
/// The values of a chunk, little-endian.
type ChunkBytes = [u8; CHUNK_BYTES];
/// Words of a chunk per bit of its width: one in each lane.
const LANES: usize = 4;
/// A chunk of this width stores its original values in order, without any transform.
const RAW_BITS: usize = 32;

/// What was done to the values of a chunk before they were packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// Nothing.
    Plain,
    /// One was subtracted (`m1`).
    MinusOne,
    /// Differences to the value before, the first one 0 (`d1`).
    Delta,
    /// Differences to the value before, the first one 0, small negative ones made small by zigzag
    /// (`d1z`).
    DeltaZigzag,
}

impl Transform {
    /// Whether each chunk has a start value that is stored apart.
    pub fn has_starts(self) -> bool {
        matches!(self, Transform::Delta | Transform::DeltaZigzag)
    }
}

/// Why a run of chunks cannot be decoded or encoded; `chunk` counts from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bp128Error {
    /// The index has no entry at all; a run of no chunks has one.
    EmptyIndex,
    /// A step of the index, modulo 2^32, that no bit width gives. An index that goes back is one.
    Step {
        /// Number of the chunk.
        chunk: usize,
        /// Words, modulo 2^32.
        step: u32,
    },
    /// The words end too early.
    Short {
        /// Number of the chunk in which they end.
        chunk: usize,
        /// Bytes of words up to its end.
        needed: u64,
        /// Bytes of words that are there.
        present: usize,
    },
    /// There are more words than the index speaks of.
    Excess {
        /// Bytes of words that the index speaks of.
        needed: u64,
        /// Bytes of words that are there.
        present: usize,
    },
    /// Not one start value per chunk, or start values for a transform that has none.
    Starts {
        /// Start values that there should be.
        needed: usize,
        /// Start values that are there.
        present: usize,
    },
    /// The output does not end within the last chunk or not on a whole value.
    Output {
        /// Chunks of the index.
        chunks: usize,
        /// Bytes of the output.
        present: usize,
    },
    /// Values to encode that do not end on a whole one.
    Values {
        /// Bytes that are there.
        present: usize,
    },
    /// An index for other chunks than those that are encoded.
    Index {
        /// Entries that there should be.
        needed: usize,
        /// Entries that are there.
        present: usize,
    },
    /// Less room than chunks may take.
    Room {
        /// Chunks that are encoded.
        chunks: usize,
        /// Bytes of room for words.
        present: usize,
    },
}

impl fmt::Display for Bp128Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EmptyIndex => write!(f, "the chunk index has no entries"),
            Self::Step { chunk, step } => write!(
                f,
                "the index step of chunk {chunk} is {step} words, not a multiple of 4 up to 128"
            ),
            Self::Short {
                chunk,
                needed,
                present,
            } => write!(
                f,
                "the packed words end within chunk {chunk}: {present} bytes present, {needed} needed"
            ),
            Self::Excess { needed, present } => {
                write!(
                    f,
                    "{present} bytes of packed words given, the index has {needed}"
                )
            }
            Self::Starts { needed, present } => {
                write!(f, "{present} start values given, {needed} needed")
            }
            Self::Output { chunks, present } => {
                write!(
                    f,
                    "an output of {present} bytes does not fit {chunks} chunks"
                )
            }
            Self::Values { present } => {
                write!(f, "{present} bytes are no whole values to encode")
            }
            Self::Index { needed, present } => {
                write!(f, "an index of {present} entries given, {needed} needed")
            }
            Self::Room { chunks, present } => {
                write!(
                    f,
                    "{chunks} chunks may take more than {present} bytes of words"
                )
            }
        }
    }
}

impl std::error::Error for Bp128Error {}

/// Checks an index of cumulative word counts (modulo 2^32, one more than there are chunks) and
/// returns the number of words from its first entry to its last.
pub fn check_index(idx: &[u32]) -> Result<u64, Bp128Error> {
    if idx.is_empty() {
        return Err(Bp128Error::EmptyIndex);
    }
    let mut words = 0;
    for (chunk, step) in steps(idx).enumerate() {
        if step % LANES as u32 != 0 || step > CHUNK as u32 {
            return Err(Bp128Error::Step { chunk, step });
        }
        words += u64::from(step);
    }
    Ok(words)
}

/// Decodes the `idx.len() - 1` consecutive chunks of a run.
///
/// `words` holds the stored little-endian words from `idx[0]` to the last entry of `idx`; `starts`
/// has a value per chunk if the transform has them and is empty otherwise; `out` takes the values
/// in little-endian order and may end within the last chunk, on a whole value. After an error `out`
/// is unchanged.
pub fn decode(
    transform: Transform,
    idx: &[u32],
    starts: &[u32],
    words: &[u8],
    out: &mut [u8],
) -> Result<(), Bp128Error> {
    check_run(transform, idx, starts, words, out)?;
    #[cfg(target_arch = "x86_64")]
    if avx2::decode_run(transform, idx, starts, words, out) {
        return Ok(());
    }
    scalar::decode_run(transform, idx, starts, words, out);
    Ok(())
}

/// [`decode`] without vector instructions: the fallback, and the oracle of tests and benches.
pub fn decode_scalar(
    transform: Transform,
    idx: &[u32],
    starts: &[u32],
    words: &[u8],
    out: &mut [u8],
) -> Result<(), Bp128Error> {
    check_run(transform, idx, starts, words, out)?;
    scalar::decode_run(transform, idx, starts, words, out);
    Ok(())
}

/// Turns lengths into ends, in place: adds to each little-endian value its start, modulo 2^32.
///
/// Stops at the end of the shorter slice.
pub fn add_in_place(lengths: &mut [u8], starts: &[u8]) {
    let starts = starts.as_chunks::<4>().0;
    for (length, start) in lengths.as_chunks_mut::<4>().0.iter_mut().zip(starts) {
        let end = u32::from_le_bytes(*length).wrapping_add(u32::from_le_bytes(*start));
        *length = end.to_le_bytes();
    }
}

/// The number of words of each chunk, unchecked.
fn steps(idx: &[u32]) -> impl Iterator<Item = u32> + '_ {
    idx.windows(2).map(|ends| ends[1].wrapping_sub(ends[0]))
}

/// Makes sure that the slices of a run belong together; the decoders rely on it.
fn check_run(
    transform: Transform,
    idx: &[u32],
    starts: &[u32],
    words: &[u8],
    out: &[u8],
) -> Result<(), Bp128Error> {
    let needed = 4 * check_index(idx)?;
    let present = words.len();
    if (present as u64) < needed {
        return Err(first_short(idx, present));
    }
    if (present as u64) > needed {
        return Err(Bp128Error::Excess { needed, present });
    }
    let chunks = idx.len() - 1;
    let needed = if transform.has_starts() { chunks } else { 0 };
    if starts.len() != needed {
        return Err(Bp128Error::Starts {
            needed,
            present: starts.len(),
        });
    }
    if !out.len().is_multiple_of(4) || out.len().div_ceil(CHUNK_BYTES) != chunks {
        return Err(Bp128Error::Output {
            chunks,
            present: out.len(),
        });
    }
    Ok(())
}

/// The error for the first chunk of a valid index that goes beyond `present` bytes of words.
fn first_short(idx: &[u32], present: usize) -> Bp128Error {
    let mut needed = 0;
    let mut chunk = 0;
    for (i, step) in steps(idx).enumerate() {
        needed += 4 * u64::from(step);
        chunk = i;
        if needed > present as u64 {
            break;
        }
    }
    Bp128Error::Short {
        chunk,
        needed,
        present,
    }
}

/// A chunk of a checked run: its packed bytes (16 per bit of width) and its start value.
#[derive(Clone, Copy)]
struct Packed<'a> {
    bytes: &'a [u8],
    start: u32,
}

impl Packed<'_> {
    fn bits(self) -> usize {
        self.bytes.len() / (4 * LANES)
    }
}

/// Cuts the words of a checked run into its chunks. Start values are 0 where there are none.
fn packed_chunks<'a>(
    idx: &'a [u32],
    starts: &'a [u32],
    mut words: &'a [u8],
) -> impl Iterator<Item = Packed<'a>> + 'a {
    let starts = starts.iter().copied().chain(std::iter::repeat(0));
    steps(idx).zip(starts).map(move |(step, start)| {
        let (bytes, rest) = words.split_at(4 * step as usize);
        words = rest;
        Packed { bytes, start }
    })
}
