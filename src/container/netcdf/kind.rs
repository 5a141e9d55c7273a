//! Versions and element types of classic NetCDF.
//!
//! Used by every part of the reader.

use crate::array::dtype::Dtype;

/// The version byte after `CDF`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
    Five,
}

impl Version {
    pub(super) fn from_byte(byte: u8) -> Option<Version> {
        match byte {
            1 => Some(Version::One),
            2 => Some(Version::Two),
            5 => Some(Version::Five),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Version::One => "CDF-1",
            Version::Two => "CDF-2",
            Version::Five => "CDF-5",
        }
    }

    pub(super) fn has_long_sizes(self) -> bool {
        self == Version::Five
    }

    pub(super) fn has_long_offsets(self) -> bool {
        self != Version::One
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Byte,
    Char,
    Short,
    Int,
    Float,
    Double,
    UByte,
    UShort,
    UInt,
    Int64,
    UInt64,
}

impl Kind {
    /// The type of this code; only CDF-5 has those from 7 on.
    pub(super) fn from_code(code: u32, version: Version) -> Option<Kind> {
        let kind = match code {
            1 => Kind::Byte,
            2 => Kind::Char,
            3 => Kind::Short,
            4 => Kind::Int,
            5 => Kind::Float,
            6 => Kind::Double,
            7 => Kind::UByte,
            8 => Kind::UShort,
            9 => Kind::UInt,
            10 => Kind::Int64,
            11 => Kind::UInt64,
            _ => return None,
        };
        (code < 7 || version == Version::Five).then_some(kind)
    }

    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        match self {
            Kind::Byte | Kind::Char | Kind::UByte => 1,
            Kind::Short | Kind::UShort => 2,
            Kind::Int | Kind::UInt | Kind::Float => 4,
            Kind::Double | Kind::Int64 | Kind::UInt64 => 8,
        }
    }

    /// As it is shown: little-endian.
    pub(super) fn dtype(self) -> Dtype {
        let descr = match self {
            Kind::Byte => "|i1",
            Kind::Char => "|S1",
            Kind::Short => "<i2",
            Kind::Int => "<i4",
            Kind::Float => "<f4",
            Kind::Double => "<f8",
            Kind::UByte => "|u1",
            Kind::UShort => "<u2",
            Kind::UInt => "<u4",
            Kind::Int64 => "<i8",
            Kind::UInt64 => "<u8",
        };
        Dtype::numpy(descr, self.size() as u64)
    }
}
