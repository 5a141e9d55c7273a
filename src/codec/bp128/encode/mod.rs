//! BP-128 encoding, the inverse of the decoders.
//!
//! Chooses what the real library chooses (the smallest width that holds the transformed values of a
//! chunk, 32 bits for original values), so its output is byte for byte what BPCells would store.
//! Every chunk is encoded by itself.
//!
//! Memory is handed in, and lengths are checked here once per run, so that neither encoder can
//! leave its slices. [`encode`] takes the AVX2 path where the CPU has it; [`encode_scalar`] is the
//! reference for it.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod scalar;
#[cfg(test)]
mod tests;

use super::{Bp128Error, CHUNK_BYTES, ChunkBytes, LANES, Transform};

/// Encodes a run of values, and says how many bytes of words they take.
///
/// `values` are little-endian; a last chunk that is not full is filled with copies of the last
/// value. `idx` has one entry more than there are chunks: the first one is the number of words
/// before the run, the others are written (cumulative word counts, modulo 2^32). `starts` takes a
/// value per chunk if the transform has them and is empty otherwise. `words` has [`most_words`]
/// bytes at least.
pub fn encode(
    transform: Transform,
    values: &[u8],
    idx: &mut [u32],
    starts: &mut [u32],
    words: &mut [u8],
) -> Result<usize, Bp128Error> {
    #[cfg(target_arch = "x86_64")]
    {
        check_run(transform, values, idx, starts, words)?;
        if let Some(len) = avx2::encode_run(transform, values, idx, starts, words) {
            return Ok(len);
        }
    }
    encode_scalar(transform, values, idx, starts, words)
}

/// [`encode`] without vector instructions: the fallback, and the oracle of tests and benches.
pub fn encode_scalar(
    transform: Transform,
    values: &[u8],
    idx: &mut [u32],
    starts: &mut [u32],
    words: &mut [u8],
) -> Result<usize, Bp128Error> {
    check_run(transform, values, idx, starts, words)?;
    Ok(encode_run(values, idx, starts, words, |chunk, words| {
        scalar::encode_chunk(transform, chunk, words)
    }))
}

/// Bytes of words that so many bytes of values take at most.
pub fn most_words(values: usize) -> Option<usize> {
    values.checked_next_multiple_of(CHUNK_BYTES)
}

/// Makes sure that the slices of a run belong together; the encoders rely on it.
fn check_run(
    transform: Transform,
    values: &[u8],
    idx: &[u32],
    starts: &[u32],
    words: &[u8],
) -> Result<(), Bp128Error> {
    let chunks = values.len().div_ceil(CHUNK_BYTES);
    if !values.len().is_multiple_of(4) {
        let present = values.len();
        return Err(Bp128Error::Values { present });
    }
    let (needed, present) = (chunks + 1, idx.len());
    if needed != present {
        return Err(Bp128Error::Index { needed, present });
    }
    let needed = if transform.has_starts() { chunks } else { 0 };
    let present = starts.len();
    if needed != present {
        return Err(Bp128Error::Starts { needed, present });
    }
    let present = words.len();
    match most_words(values.len()) {
        Some(needed) if needed <= present => Ok(()),
        _ => Err(Bp128Error::Room { chunks, present }),
    }
}

/// Encodes the chunks of a checked run one behind the other. `encode_chunk` writes one to the start
/// of as many bytes as it may take, and says its width.
#[inline(always)]
fn encode_run(
    values: &[u8],
    idx: &mut [u32],
    starts: &mut [u32],
    words: &mut [u8],
    mut encode_chunk: impl FnMut(&ChunkBytes, &mut ChunkBytes) -> usize,
) -> usize {
    let (whole, cut) = values.as_chunks::<CHUNK_BYTES>();
    let filled = filled(cut);
    let chunks = whole.iter().chain(&filled);
    let (first, ends) = idx.split_at_mut(1.min(idx.len()));
    let mut end = first.first().copied().unwrap_or(0);
    let (mut starts, mut at) = (starts.iter_mut(), 0);
    for (chunk, idx) in chunks.zip(ends) {
        let Some(room) = words[at..].first_chunk_mut() else {
            return at; // not reached: the run was checked
        };
        let words = LANES * encode_chunk(chunk, room);
        at += 4 * words;
        end = end.wrapping_add(words as u32);
        *idx = end;
        if let (Some(start), Some(first)) = (starts.next(), chunk.first_chunk()) {
            *start = u32::from_le_bytes(*first);
        }
    }
    at
}

/// A chunk that is not full, filled with its last value.
fn filled(cut: &[u8]) -> Option<ChunkBytes> {
    let last = cut.last_chunk::<4>()?;
    let mut chunk = [0; CHUNK_BYTES];
    for (value, place) in std::iter::repeat(last).zip(chunk.as_chunks_mut().0) {
        *place = *value;
    }
    chunk[..cut.len()].copy_from_slice(cut);
    Some(chunk)
}

/// The smallest width that holds every field, of which these are all bits that are set in any.
fn bit_width(all: u32) -> usize {
    (u32::BITS - all.leading_zeros()) as usize
}
