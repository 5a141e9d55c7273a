//! Shuffle (filter 2): byte `j` of all elements together, and a tail shorter than an element as it
//! is.

use super::error::FilterError;
use crate::blosc::encode::shuffle::shuffle as separate;
use crate::blosc::shuffle::{Planes, unshuffle as interleave};

/// Separates the bytes of elements of `width` bytes; `out` is as long as `plain`.
pub(super) fn encode(width: usize, plain: &[u8], out: &mut [u8]) {
    // As in `unshuffle`.
    if plain.len() / 2 < width {
        return out.copy_from_slice(plain);
    }
    let whole = plain.len() - plain.len() % width;
    let (elements, tail) = plain.split_at(whole);
    let (planes, rest) = out.split_at_mut(whole);
    rest.copy_from_slice(tail);
    separate(elements, width, planes, whole / width);
}

/// Decodes into the front of `out`; returns the number of bytes written.
pub(super) fn decode(width: usize, stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let most = out.len();
    let out = out.get_mut(..stored.len());
    let out = out.ok_or_else(|| FilterError::too_long(most).found(stored.len()))?;
    unshuffle(width, stored, out);
    Ok(stored.len())
}

/// Puts elements of `width` bytes together again; `out` is as long as `stored`.
pub(crate) fn unshuffle(width: usize, stored: &[u8], out: &mut [u8]) {
    // A single element is as it was; neither then may time grow with a width that is only claimed.
    if stored.len() / 2 < width {
        return out.copy_from_slice(stored);
    }
    let whole = stored.len() - stored.len() % width;
    let (bytes, tail) = stored.split_at(whole);
    let (elements, rest) = out.split_at_mut(whole);
    rest.copy_from_slice(tail);
    interleave(Planes::Joined { bytes, width }, elements);
}
