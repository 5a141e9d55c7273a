//! Floating-point types: the layouts that NumPy has are numbers, all others are raw bytes.
//!
//! Nothing is rounded and no layout is guessed: a float is a number only if every field of it lies
//! where IEEE 754 (or the x87 unit) has it. Used by [`super`].

use super::ElementPart;
use super::cast::Cast;
use crate::container::stored::{BitOrder, StoredFloat};

/// Where the fields of a float lie, in bits: size in bytes, precision, sign, exponent and mantissa
/// with their widths, bias of the exponent.
type FloatPlaces = (u64, u32, u32, [u32; 2], [u32; 2], u64);

const LAYOUTS: [FloatPlaces; 4] = [
    (2, 16, 15, [10, 5], [0, 10], 15),
    (4, 32, 31, [23, 8], [0, 23], 127),
    (8, 64, 63, [52, 11], [0, 52], 1023),
    // x87 in 16 bytes: what NumPy calls `f16`; the bytes above are padding.
    (16, 80, 79, [64, 15], [0, 64], 16383),
];

/// NumPy's number of bytes, for the layouts that it has.
fn known(float: &StoredFloat) -> Option<u64> {
    let fields = (
        float.size,
        float.precision,
        float.sign,
        float.exponent,
        float.mantissa,
        float.bias,
    );
    let order = match float.byte_order {
        BitOrder::Little => true,
        BitOrder::Big => float.size <= 8,
        BitOrder::Vax => false,
    };
    (float.offset == 0 && order && LAYOUTS.contains(&fields)).then_some(float.size)
}

fn cast(float: &StoredFloat) -> Cast {
    match float.byte_order {
        BitOrder::Big => Cast::swap(float.size as usize),
        BitOrder::Little | BitOrder::Vax => Cast::same(),
    }
}

pub(super) fn part(float: &StoredFloat) -> Result<ElementPart, String> {
    match known(float) {
        Some(size) => ElementPart::sized(format!("<f{size}"), size, cast(float)),
        None => ElementPart::same(format!("|V{}", float.size), float.size),
    }
}

/// Two floats; NumPy has complex numbers of 4, 8 and 16 bytes each.
pub(super) fn complex(float: &StoredFloat) -> Result<ElementPart, String> {
    match known(float) {
        Some(size @ (4 | 8 | 16)) => {
            ElementPart::sized(format!("<c{}", 2 * size), 2 * size, cast(float))
        }
        Some(size) => {
            let descr = format!("[('r', '<f{size}'), ('i', '<f{size}')]");
            ElementPart::sized(descr, 2 * size, cast(float))
        }
        None => Err(format!(
            "complex numbers of floats of {} bits",
            float.precision
        )),
    }
}
