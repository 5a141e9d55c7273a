//! Types of elements as they are stored, in the words of HDF5 and NetCDF: the one description of
//! them, whether a file has it, a user states it, or elements are read by it.
//!
//! As JSON (see [`super::type_names`]) a type that has a name there is that name; any other is an
//! object that says what class it is of. Names are shown ones. Used by `hdf5` for what a file has
//! and what is made, by `describe`, and by all that shows values.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::of_text;

/// A type of elements. Sizes in bytes, precisions and offsets in bits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "class")]
pub enum StoredType {
    /// Of which the name is all that is known: `NC_SHORT`, a kind of references.
    #[serde(skip)]
    Named(Cow<'static, str>),
    #[serde(rename = "H5T_INTEGER")]
    Integer(StoredInteger),
    #[serde(rename = "H5T_BITFIELD")]
    BitField(StoredInteger),
    #[serde(rename = "H5T_FLOAT")]
    Float(StoredFloat),
    /// Real and imaginary part (HDF5 2.0; before that a compound of two floats).
    #[serde(rename = "H5T_COMPLEX")]
    Complex { base: Box<StoredType> },
    #[serde(rename = "H5T_STRING")]
    Text {
        /// None for a variable length.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        #[serde(default)]
        padding: Padding,
        #[serde(default)]
        charset: Charset,
    },
    #[serde(rename = "H5T_ENUM")]
    Enumeration {
        base: Box<StoredType>,
        /// In their order; whole numbers.
        members: Vec<(String, Number)>,
    },
    #[serde(rename = "H5T_COMPOUND")]
    Compound {
        size: u64,
        /// Name, offset and type.
        members: Vec<(String, u64, StoredType)>,
    },
    #[serde(rename = "H5T_ARRAY")]
    Array {
        dims: Vec<u64>,
        base: Box<StoredType>,
    },
    #[serde(rename = "H5T_VLEN")]
    Sequence { base: Box<StoredType> },
    #[serde(rename = "H5T_OPAQUE")]
    Opaque {
        size: u64,
        #[serde(default)]
        tag: String,
    },
    #[serde(rename = "H5T_TIME")]
    Time { size: u64 },
    /// One of the `types` of the file.
    #[serde(rename = "H5T_COMMITTED")]
    Committed { name: String },
    /// Not described; `name` says why.
    #[serde(rename = "H5T_NO_CLASS")]
    Unknown { size: u64, name: String },
}

/// An integer or a bit field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredInteger {
    pub size: u64,
    #[serde(default)]
    pub byte_order: BitOrder,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signed: bool,
    /// Significant bits, from bit `offset` on.
    pub precision: u32,
    #[serde(default)]
    pub offset: u32,
    /// None where there are only zeros, or no other bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<[NoOfBits; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFloat {
    pub size: u64,
    #[serde(default)]
    pub byte_order: BitOrder,
    pub precision: u32,
    #[serde(default)]
    pub offset: u32,
    /// Which bit.
    pub sign: u32,
    /// First bit, and how many.
    pub exponent: [u32; 2],
    pub mantissa: [u32; 2],
    pub bias: u64,
    #[serde(default)]
    pub norm: FloatNorm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<NoOfBits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<[NoOfBits; 2]>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BitOrder {
    #[default]
    #[serde(rename = "LE")]
    Little,
    #[serde(rename = "BE")]
    Big,
    #[serde(rename = "VAX")]
    Vax,
}

/// What the bits are that no value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoOfBits {
    Zero,
    One,
    Background,
}

/// Whether the topmost bit of a mantissa is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FloatNorm {
    #[default]
    Implied,
    MsbSet,
    None,
}

/// What follows a string of fixed length that is shorter than its room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Padding {
    /// A NUL, and then anything.
    #[default]
    #[serde(rename = "NULLTERM")]
    Terminated,
    #[serde(rename = "NULLPAD")]
    Zeros,
    #[serde(rename = "SPACEPAD")]
    Spaces,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Charset {
    #[serde(rename = "ASCII")]
    Ascii,
    #[default]
    #[serde(rename = "UTF-8")]
    Utf8,
}

impl StoredType {
    /// Strings of variable length.
    pub const TEXT: StoredType = StoredType::Text {
        size: None,
        padding: Padding::Terminated,
        charset: Charset::Utf8,
    };

    /// Strings of so many bytes.
    pub const fn fixed(size: u64, padding: Padding) -> StoredType {
        StoredType::Text {
            size: Some(size),
            padding,
            charset: Charset::Ascii,
        }
    }

    pub const fn opaque(size: u64) -> StoredType {
        let tag = String::new();
        StoredType::Opaque { size, tag }
    }

    /// How HDF5 users store booleans.
    pub fn boolean() -> StoredType {
        let member = |name: &str, value: u8| (name.to_owned(), value.into());
        StoredType::Enumeration {
            base: Box::new(StoredType::called("H5T_STD_I8LE")),
            members: vec![member("FALSE", 0), member("TRUE", 1)],
        }
    }

    /// Whether it is an enumeration of exactly FALSE and TRUE in one byte.
    pub fn is_boolean(&self) -> bool {
        let StoredType::Enumeration { base, members } = self else {
            return false;
        };
        let has = |name: &str, value: u8| members.contains(&(name.to_owned(), value.into()));
        let is_byte = matches!(&**base, StoredType::Integer(of) if of.size == 1);
        is_byte && members.len() == 2 && has("FALSE", 0) && has("TRUE", 1)
    }

    /// Whether elements are strings of variable length.
    pub fn is_text(&self) -> bool {
        matches!(self, StoredType::Text { size: None, .. })
    }

    /// Whether elements are what they say by themselves: no references, nothing elsewhere in the
    /// file.
    pub fn is_plain(&self) -> bool {
        match self {
            StoredType::Array { base, .. } | StoredType::Complex { base } => base.is_plain(),
            StoredType::Compound { members, .. } => members.iter().all(|(_, _, of)| of.is_plain()),
            StoredType::Integer(_)
            | StoredType::BitField(_)
            | StoredType::Float(_)
            | StoredType::Enumeration { .. }
            | StoredType::Opaque { .. } => true,
            StoredType::Text { size, .. } => size.is_some(),
            StoredType::Named(_)
            | StoredType::Sequence { .. }
            | StoredType::Time { .. }
            | StoredType::Committed { .. }
            | StoredType::Unknown { .. } => false,
        }
    }

    /// About the bytes that it takes in memory beside itself, and as text.
    pub fn weight(&self) -> usize {
        const INSIDE: usize = size_of::<StoredType>() + 64;
        const MEMBER: usize = size_of::<(String, u64, StoredType)>() + 64;
        match self {
            StoredType::Named(name) => of_text(name),
            StoredType::Integer(of) | StoredType::BitField(of) if of.is_whole() => 24,
            StoredType::Float(_) if self.name().is_some() => 24,
            StoredType::Integer(_) | StoredType::BitField(_) => 256,
            StoredType::Float(_) => 384,
            StoredType::Text { .. } | StoredType::Time { .. } => 96,
            StoredType::Complex { base } | StoredType::Sequence { base } => INSIDE + base.weight(),
            StoredType::Array { dims, base } => INSIDE + 32 * dims.len() + base.weight(),
            StoredType::Enumeration { base, members } => {
                let members = members.iter().map(|(name, _)| of_text(name) + MEMBER);
                INSIDE + base.weight() + members.sum::<usize>()
            }
            StoredType::Compound { members, .. } => {
                let members = members.iter();
                let members = members.map(|(name, _, of)| of_text(name) + MEMBER + of.weight());
                INSIDE + members.sum::<usize>()
            }
            StoredType::Opaque { tag: name, .. }
            | StoredType::Committed { name }
            | StoredType::Unknown { name, .. } => INSIDE + of_text(name),
        }
    }
}

impl StoredInteger {
    /// One of 1, 2, 4 or 8 bytes, all bits of which count.
    pub const fn whole(size: u64, byte_order: BitOrder, signed: bool) -> StoredInteger {
        StoredInteger {
            size,
            byte_order,
            signed,
            precision: 8 * size as u32,
            offset: 0,
            padding: None,
        }
    }

    pub fn is_whole(&self) -> bool {
        let is_usual = matches!(self.size, 1 | 2 | 4 | 8);
        is_usual && *self == StoredInteger::whole(self.size, self.byte_order, self.signed)
    }
}
