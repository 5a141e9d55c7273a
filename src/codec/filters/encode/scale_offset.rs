//! Scale-offset (filter 6) of integers, encoded: see `filters/scale_offset.rs` for the form.
//!
//! The bits per number are as many as the chunk's values need, so none is lost: where a dataset
//! gives their number, or scales floats, chunks do not come here.

use super::super::nbit::read;
use super::super::scale_offset::{HEADER, Scale, ScaleOffset, ones};
use super::bit_packer::BitPacker;

/// Smallest value, and bits that hold the largest less it.
struct ValueRange {
    least: u64,
    width: u32,
}

impl ScaleOffset {
    /// Whether every value comes back.
    pub(crate) fn keeps_values(&self) -> bool {
        self.keeps_bytes() || self.scale == Scale::Integers && self.minbits == 0
    }

    /// Encodes to the front of `out` and returns the number of bytes written; none if they do not
    /// fit, or if the plain bytes are not the elements of a chunk.
    pub(crate) fn encode(&self, plain: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.elements.checked_mul(self.size) != Some(plain.len()) {
            return None;
        }
        let ValueRange { least, width } = self.value_range(plain);
        let (head, rest) = out.split_first_chunk_mut::<HEADER>()?;
        head.fill(0);
        head[..4].copy_from_slice(&width.to_le_bytes());
        head[4] = 8;
        head[5..13].copy_from_slice(&self.extended(least).to_le_bytes());
        if width == self.bits() {
            // As long as the plain bytes, and the header in front.
            return None;
        }
        let mut bits = BitPacker::new(rest);
        for element in plain.chunks_exact(self.size) {
            let value = read(self.big_endian, element);
            bits.put(self.packed(value, least, width), width);
        }
        // HDF5 stores a byte more than whole ones need.
        if (self.elements as u64 * u64::from(width)).is_multiple_of(8) {
            bits.put(0, 8);
        }
        bits.finish().map(|len| HEADER + len)
    }

    fn bits(&self) -> u32 {
        8 * self.size as u32
    }

    /// What is stored of a value: all ones for the fill value.
    fn packed(&self, value: u64, least: u64, width: u32) -> u64 {
        match self.fill {
            Some(fill) if value == fill => ones(width),
            _ => value.wrapping_sub(least) & ones(width),
        }
    }

    /// Of all values but the fill value.
    fn value_range(&self, plain: &[u8]) -> ValueRange {
        // Signed values are in order once their highest bit is turned.
        let turn = u64::from(self.signed) << (self.bits() - 1);
        let values = plain.chunks_exact(self.size);
        let values = values.map(|element| read(self.big_endian, element));
        let values = values.filter(|value| Some(*value) != self.fill);
        let range = values.fold(None, |range, value| {
            let value = value ^ turn;
            let (least, most) = range.unwrap_or((value, value));
            Some((least.min(value), most.max(value)))
        });
        let (least, most) = range.unwrap_or((turn, turn));
        ValueRange {
            least: least ^ turn,
            width: self.width(most - least),
        }
    }

    /// Bits for numbers up to `largest`, and one more number where there is a fill value.
    fn width(&self, largest: u64) -> u32 {
        // As HDF5 decides.
        if largest > ones(self.bits()) - 2 {
            return self.bits();
        }
        let largest = largest + u64::from(self.fill.is_some());
        u64::BITS - largest.leading_zeros()
    }

    /// A value in 64 bits.
    fn extended(&self, value: u64) -> u64 {
        let unused = u64::BITS - self.bits();
        match self.signed {
            true => ((value << unused).cast_signed() >> unused).cast_unsigned(),
            false => value,
        }
    }
}
