//! N-bit (filter 5), encoded: see `filters/nbit.rs` for the form. What it does not store, bits
//! beside the precision and padding, is what has no meaning in such a dataset.

use super::super::nbit::{Nbit, NbitKind, NbitType, read};
use super::bit_packer::BitPacker;

impl Nbit {
    /// Encodes to the front of `out` and returns the number of bytes written; none if these are not
    /// the elements of a chunk, or are stored as they are.
    pub(crate) fn encode(&self, plain: &[u8], out: &mut [u8]) -> Option<usize> {
        let (elements, kind) = self.packed.as_ref()?;
        if elements.checked_mul(kind.size) != Some(plain.len()) {
            return None;
        }
        let mut bits = BitPacker::new(out);
        for element in plain.chunks_exact(kind.size) {
            kind.pack(&mut bits, element);
        }
        bits.finish()
    }
}

impl NbitType {
    fn pack(&self, bits: &mut BitPacker, element: &[u8]) {
        match &self.kind {
            NbitKind::Number {
                big_endian,
                precision,
                offset,
            } if self.size <= 8 => bits.put(read(*big_endian, element) >> offset, *precision),
            NbitKind::Number {
                big_endian,
                precision,
                offset,
            } => pack_wide(bits, *big_endian, *offset, *precision, element),
            NbitKind::Array(base) => {
                for item in element.chunks_exact(base.size) {
                    base.pack(bits, item);
                }
            }
            NbitKind::Compound(members) => {
                for (offset, member) in members {
                    member.pack(bits, &element[*offset..][..member.size]);
                }
            }
            NbitKind::Bytes => {
                for byte in element {
                    bits.put(u64::from(*byte), 8);
                }
            }
        }
    }
}

/// Takes bits of a number of more than eight bytes, from the highest byte that has any.
fn pack_wide(bits: &mut BitPacker, big_endian: bool, offset: u32, precision: u32, element: &[u8]) {
    let mut end = offset + precision;
    while end > offset {
        let byte = (end - 1) / 8;
        let low = offset.max(8 * byte);
        let at = match big_endian {
            true => element.len() - 1 - byte as usize,
            false => byte as usize,
        };
        bits.put(u64::from(element[at] >> (low - 8 * byte)), end - low);
        end = low;
    }
}
