//! Floating-point types: the layouts that NumPy has are numbers, all others are raw bytes.
//!
//! Nothing is rounded and no layout is guessed: a float is a number only if every field of it lies
//! where IEEE 754 (or the x87 unit) has it. Used by [`super`].

use super::ElementPart;
use super::cast::Cast;
use crate::container::hdf5::index::{Float, FloatOrder};

/// Where the fields of a float lie, in bits: size in bytes, precision, sign, exponent, its width,
/// width of the mantissa (which begins at bit 0), bias of the exponent.
const LAYOUTS: [(u64, u32, u32, u32, u32, u32, u64); 4] = [
    (2, 16, 15, 10, 5, 10, 15),
    (4, 32, 31, 23, 8, 23, 127),
    (8, 64, 63, 52, 11, 52, 1023),
    // x87 in 16 bytes: what NumPy calls `f16`; the bytes above are padding.
    (16, 80, 79, 64, 15, 64, 16383),
];

/// NumPy's number of bytes, for the layouts that it has.
fn known(float: &Float) -> Option<u64> {
    let fields = (
        float.size,
        float.precision,
        float.sign_at,
        float.exponent_at,
        float.exponent_bits,
        float.mantissa_bits,
        float.exponent_bias,
    );
    let at_start = float.offset == 0 && float.mantissa_at == 0;
    let order = match float.order {
        FloatOrder::Little => true,
        FloatOrder::Big => float.size <= 8,
        FloatOrder::Vax => false,
    };
    (at_start && order && LAYOUTS.contains(&fields)).then_some(float.size)
}

fn cast(float: &Float) -> Cast {
    match float.order {
        FloatOrder::Big => Cast::swap(float.size as usize),
        FloatOrder::Little | FloatOrder::Vax => Cast::same(),
    }
}

pub(super) fn part(float: &Float) -> Result<ElementPart, String> {
    match known(float) {
        Some(size) => ElementPart::sized(format!("<f{size}"), size, cast(float)),
        None => ElementPart::same(format!("|V{}", float.size), float.size),
    }
}

/// Two floats; NumPy has complex numbers of 4, 8 and 16 bytes each.
pub(super) fn complex(float: &Float) -> Result<ElementPart, String> {
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
