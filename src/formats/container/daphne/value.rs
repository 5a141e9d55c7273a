//! Value types of DAPHNE files: sizes, names and the two sets of codes.
//!
//! The specification and the program number them differently, and no code has the same size in both
//! (docs/formats.md). Pure; used by everything here.

use crate::array::dtype::Dtype;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ValueType {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

use ValueType::*;

/// In the order of the specification's codes, which begin at 1.
const SPEC: [ValueType; 10] = [U8, U16, U32, U64, I8, I16, I32, I64, F32, F64];

/// In the order of the program's codes, which begin at 0; 8 and 9 are strings.
const PROGRAM: [ValueType; 8] = [I8, I32, I64, U8, U32, U64, F32, F64];

impl ValueType {
    pub(super) fn spec(code: u8) -> Option<Self> {
        SPEC.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// The specification's code.
    pub(super) fn spec_code(self) -> u8 {
        let place = SPEC.iter().position(|value| *value == self);
        // One behind its place in the list.
        place.map_or(0, |place| place as u8 + 1)
    }

    pub(super) fn program(code: u8) -> Option<Self> {
        PROGRAM.get(usize::from(code)).copied()
    }

    /// The program's code; none if it does not have the type.
    pub(super) fn program_code(self) -> Option<u8> {
        let place = PROGRAM.iter().position(|value| *value == self);
        place.and_then(|place| u8::try_from(place).ok())
    }

    /// The type of that place in the order of the variants.
    pub(super) fn from_index(index: u8) -> Self {
        SPEC[usize::from(index) % SPEC.len()]
    }

    /// Bytes of a value.
    pub(super) fn size(self) -> usize {
        match self {
            U8 | I8 => 1,
            U16 | I16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 => 8,
        }
    }

    /// Bits that tell a value from zero: all but the sign of a float.
    pub(super) fn nonzero_bits(self) -> u64 {
        match self {
            F32 => 0x7fff_ffff,
            F64 => u64::MAX >> 1,
            _ => u64::MAX,
        }
    }

    pub(super) fn dtype(self) -> Dtype {
        let descr = match self {
            U8 => "|u1",
            U16 => "<u2",
            U32 => "<u4",
            U64 => "<u8",
            I8 => "|i1",
            I16 => "<i2",
            I32 => "<i4",
            I64 => "<i8",
            F32 => "<f4",
            F64 => "<f8",
        };
        Dtype::numpy(descr, self.size() as u64)
    }

    /// As DAPHNE's metadata files spell it.
    pub(super) fn name(self) -> &'static str {
        match self {
            U8 => "ui8",
            U16 => "ui16",
            U32 => "ui32",
            U64 => "ui64",
            I8 => "si8",
            I16 => "si16",
            I32 => "si32",
            I64 => "si64",
            F32 => "f32",
            F64 => "f64",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_has_the_same_size_in_both_forms() {
        for code in 1..=7 {
            let (spec, program) = (ValueType::spec(code), ValueType::program(code));
            assert_ne!(spec.unwrap().size(), program.unwrap().size());
        }
        for value in SPEC {
            let code = value.program_code();
            assert!(code.is_none_or(|code| ValueType::program(code) == Some(value)));
            assert_eq!(code.is_none(), [U16, I16].contains(&value));
        }
        assert_eq!((ValueType::spec(0), ValueType::spec(11)), (None, None));
        assert_eq!(ValueType::program(8), None);
    }

    #[test]
    fn an_index_is_the_place_of_the_variant() {
        for value in SPEC {
            assert_eq!(ValueType::from_index(value as u8), value);
        }
    }
}
