//! Versions and element types of classic NetCDF.
//!
//! Used by every part of the reader.

use crate::array::dtype::Dtype;

/// The version byte after `CDF`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClassicVersion {
    One,
    Two,
    Five,
}

impl ClassicVersion {
    pub(super) fn from_byte(byte: u8) -> Option<ClassicVersion> {
        match byte {
            1 => Some(ClassicVersion::One),
            2 => Some(ClassicVersion::Two),
            5 => Some(ClassicVersion::Five),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            ClassicVersion::One => "CDF-1",
            ClassicVersion::Two => "CDF-2",
            ClassicVersion::Five => "CDF-5",
        }
    }

    pub(super) fn has_long_sizes(self) -> bool {
        self == ClassicVersion::Five
    }

    pub(super) fn has_long_offsets(self) -> bool {
        self != ClassicVersion::One
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementKind {
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

impl ElementKind {
    /// The type of this code; only CDF-5 has those from 7 on.
    pub(super) fn from_code(code: u32, version: ClassicVersion) -> Option<ElementKind> {
        let kind = match code {
            1 => ElementKind::Byte,
            2 => ElementKind::Char,
            3 => ElementKind::Short,
            4 => ElementKind::Int,
            5 => ElementKind::Float,
            6 => ElementKind::Double,
            7 => ElementKind::UByte,
            8 => ElementKind::UShort,
            9 => ElementKind::UInt,
            10 => ElementKind::Int64,
            11 => ElementKind::UInt64,
            _ => return None,
        };
        (code < 7 || version == ClassicVersion::Five).then_some(kind)
    }

    /// As NetCDF names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            ElementKind::Byte => "NC_BYTE",
            ElementKind::Char => "NC_CHAR",
            ElementKind::Short => "NC_SHORT",
            ElementKind::Int => "NC_INT",
            ElementKind::Float => "NC_FLOAT",
            ElementKind::Double => "NC_DOUBLE",
            ElementKind::UByte => "NC_UBYTE",
            ElementKind::UShort => "NC_USHORT",
            ElementKind::UInt => "NC_UINT",
            ElementKind::Int64 => "NC_INT64",
            ElementKind::UInt64 => "NC_UINT64",
        }
    }

    pub(super) fn code(self) -> u32 {
        match self {
            ElementKind::Byte => 1,
            ElementKind::Char => 2,
            ElementKind::Short => 3,
            ElementKind::Int => 4,
            ElementKind::Float => 5,
            ElementKind::Double => 6,
            ElementKind::UByte => 7,
            ElementKind::UShort => 8,
            ElementKind::UInt => 9,
            ElementKind::Int64 => 10,
            ElementKind::UInt64 => 11,
        }
    }

    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        match self {
            ElementKind::Byte | ElementKind::Char | ElementKind::UByte => 1,
            ElementKind::Short | ElementKind::UShort => 2,
            ElementKind::Int | ElementKind::UInt | ElementKind::Float => 4,
            ElementKind::Double | ElementKind::Int64 | ElementKind::UInt64 => 8,
        }
    }

    /// As it is shown: little-endian.
    pub(super) fn dtype(self) -> Dtype {
        let descr = match self {
            ElementKind::Byte => "|i1",
            ElementKind::Char => "|S1",
            ElementKind::Short => "<i2",
            ElementKind::Int => "<i4",
            ElementKind::Float => "<f4",
            ElementKind::Double => "<f8",
            ElementKind::UByte => "|u1",
            ElementKind::UShort => "<u2",
            ElementKind::UInt => "<u4",
            ElementKind::Int64 => "<i8",
            ElementKind::UInt64 => "<u8",
        };
        Dtype::numpy(descr, self.size() as u64)
    }
}
