//! Codecs that change elements one by one: each fills the whole of `out`, and needs as many stored
//! elements as that has.

use super::number::Scalar;
use super::{ChunkCodec, NumberType};
use crate::filters::{FilterError, shuffle};

pub(super) fn decode(
    codec: &ChunkCodec,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    match codec {
        ChunkCodec::Shuffle { size } => unshuffle(*size, stored, out),
        ChunkCodec::Delta { shown, stored: of } => delta((*shown, *of), stored, out),
        ChunkCodec::AsType { shown, stored: of } => {
            convert((*shown, *of), stored, out, |value| value)
        }
        ChunkCodec::FixedScaleOffset {
            scale,
            offset,
            shown,
            stored: of,
        } => {
            // As NumPy divides: numbers with a point in their own type, integers in the largest.
            let round = |x: f64| match of.number.is_float() {
                true => of.number.round(x),
                false => x,
            };
            let (scale, offset) = (round(*scale), round(*offset));
            convert((*shown, *of), stored, out, |value| {
                Scalar::Float(round(round(value.float() / scale) + offset))
            })
        }
        ChunkCodec::Packbits => unpack(stored, out),
        ChunkCodec::Categorize {
            labels,
            size,
            stored: of,
        } => label((labels, *size), *of, stored, out),
        ChunkCodec::Reorder(reorder) => {
            same_length(stored, out)?;
            reorder.undo(stored, out);
            Ok(out.len())
        }
        ChunkCodec::ByteTurn(turn) => {
            same_length(stored, out)?;
            out.copy_from_slice(stored);
            turn.apply(out);
            Ok(out.len())
        }
        _ => Err(FilterError::new("it does not change elements")),
    }
}

fn same_length(stored: &[u8], out: &[u8]) -> Result<(), FilterError> {
    needs(stored, out.len())
}

fn needs(stored: &[u8], len: usize) -> Result<(), FilterError> {
    match stored.len() == len {
        true => Ok(()),
        false => {
            let error = FilterError::new("the chunk has another length");
            Err(error.expected(len).found(stored.len()))
        }
    }
}

fn unshuffle(size: usize, stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let len = stored.len();
    if size > 1 && !len.is_multiple_of(size) {
        let error = FilterError::new("the bytes are no whole elements");
        return Err(error
            .expected(format_args!("a multiple of {size}"))
            .found(len));
    }
    let most = out.len();
    let out = out
        .get_mut(..len)
        .ok_or_else(|| FilterError::too_long(most).found(len))?;
    match size {
        0 | 1 => out.copy_from_slice(stored),
        size => shuffle::unshuffle(size, stored, out),
    }
    Ok(len)
}

/// Pairs of stored elements and the places of the shown ones.
fn pairs<'a>(
    (shown, of): (NumberType, NumberType),
    stored: &'a [u8],
    out: &'a mut [u8],
) -> Result<impl Iterator<Item = (&'a [u8], &'a mut [u8])>, FilterError> {
    let count = out.len() / shown.size();
    needs(stored, count.saturating_mul(of.size()))?;
    Ok(stored
        .chunks_exact(of.size())
        .zip(out.chunks_exact_mut(shown.size())))
}

fn convert(
    types: (NumberType, NumberType),
    stored: &[u8],
    out: &mut [u8],
    change: impl Fn(Scalar) -> Scalar,
) -> Result<usize, FilterError> {
    let (shown, of) = types;
    for (from, to) in pairs(types, stored, out)? {
        shown.write(change(of.read(from)), to);
    }
    Ok(out.len())
}

/// Each element is the sum of the stored ones so far, added up in the shown type.
fn delta(
    types: (NumberType, NumberType),
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    let (shown, of) = types;
    let (mut int, mut float) = (0i128, None);
    for (from, to) in pairs(types, stored, out)? {
        let value = of.read(from);
        if shown.number.is_float() {
            let value = shown.number.round(value.float());
            // Not added to 0, which would lose the sign of the first one's.
            let sum = float.map_or(value, |sum: f64| shown.number.round(sum + value));
            float = Some(sum);
            shown.write(Scalar::Float(sum), to);
        } else {
            int = int.wrapping_add(value.int());
            shown.write(Scalar::Int(int), to);
        }
    }
    Ok(out.len())
}

/// Eight booleans in a byte, the first in the highest bit, behind the number of bits left over.
fn unpack(stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let (left, bits) = stored.split_first().ok_or_else(FilterError::truncated)?;
    let count = (bits.len() * 8).checked_sub(usize::from(*left));
    if count != Some(out.len()) || *left > 7 {
        let error = FilterError::new("another number of bits");
        let found = format_args!("{} bytes, {left} bits left over", bits.len());
        return Err(error.expected(out.len()).found(found));
    }
    for (out, byte) in out.chunks_mut(8).zip(bits) {
        for (at, out) in out.iter_mut().enumerate() {
            *out = byte >> (7 - at) & 1;
        }
    }
    Ok(out.len())
}

fn label(
    (labels, size): (&[u8], usize),
    of: NumberType,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, FilterError> {
    let size = size.max(1);
    needs(stored, (out.len() / size).saturating_mul(of.size()))?;
    for (from, to) in stored
        .chunks_exact(of.size())
        .zip(out.chunks_exact_mut(size))
    {
        let number = usize::try_from(of.read(from).int()).ok();
        let label = number.and_then(|number| labels.chunks_exact(size).nth(number.checked_sub(1)?));
        match label {
            Some(label) => to.copy_from_slice(label),
            None => to.fill(0),
        }
    }
    Ok(out.len())
}
