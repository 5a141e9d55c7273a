//! Types of elements as they are stored, in the words of HDF5 and NetCDF.
//!
//! A type that has a name there is that name; any other an object that says what class it is of.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use super::of_text;

/// A type of elements.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum StoredType {
    /// `H5T_STD_I32BE`, `NC_SHORT`.
    Named(Cow<'static, str>),
    Spelled(Box<SpelledType>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "class")]
pub enum SpelledType {
    #[serde(rename = "H5T_INTEGER")]
    Integer(SpelledInteger),
    #[serde(rename = "H5T_BITFIELD")]
    BitField(SpelledInteger),
    #[serde(rename = "H5T_FLOAT")]
    Float(SpelledFloat),
    #[serde(rename = "H5T_COMPLEX")]
    Complex { base: StoredType },
    #[serde(rename = "H5T_STRING")]
    Text {
        /// None for a variable length.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// `NULLTERM`, `NULLPAD` or `SPACEPAD`.
        padding: Cow<'static, str>,
        /// `ASCII` or `UTF-8`.
        charset: Cow<'static, str>,
    },
    #[serde(rename = "H5T_ENUM")]
    Enumeration {
        base: StoredType,
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
    Array { dims: Vec<u64>, base: StoredType },
    #[serde(rename = "H5T_VLEN")]
    Sequence { base: StoredType },
    #[serde(rename = "H5T_OPAQUE")]
    Opaque { size: u64, tag: String },
    #[serde(rename = "H5T_TIME")]
    Time { size: u64 },
    /// One of the `types` of the file.
    #[serde(rename = "H5T_COMMITTED")]
    Committed { name: String },
    /// Not described; `name` says why.
    #[serde(rename = "H5T_NO_CLASS")]
    Unknown { size: u64, name: String },
}

/// An integer or a bit field that has no name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpelledInteger {
    pub size: u64,
    pub byte_order: BitOrder,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signed: bool,
    /// Significant bits, from bit `offset` on.
    pub precision: u32,
    #[serde(default)]
    pub offset: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<[NoOfBits; 2]>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpelledFloat {
    pub size: u64,
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
    /// `implied`, `msbset` or `none`.
    pub norm: Cow<'static, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<NoOfBits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<[NoOfBits; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BitOrder {
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

impl StoredType {
    pub const fn named(name: &'static str) -> StoredType {
        StoredType::Named(Cow::Borrowed(name))
    }

    /// About the bytes that it takes in memory, and as text.
    pub fn weight(&self) -> usize {
        match self {
            StoredType::Named(name) => of_text(name),
            StoredType::Spelled(spelled) => size_of::<SpelledType>() + 64 + spelled.parts_weight(),
        }
    }
}

impl SpelledType {
    fn parts_weight(&self) -> usize {
        const MEMBER: usize = size_of::<(String, u64, StoredType)>() + 64;
        match self {
            SpelledType::Integer(_) | SpelledType::BitField(_) => 128,
            SpelledType::Float(_) => 256,
            SpelledType::Text { .. } | SpelledType::Time { .. } => 128,
            SpelledType::Complex { base } | SpelledType::Sequence { base } => base.weight(),
            SpelledType::Array { dims, base } => 32 * dims.len() + base.weight(),
            SpelledType::Enumeration { base, members } => {
                let members = members.iter().map(|(name, _)| of_text(name) + MEMBER);
                base.weight() + members.sum::<usize>()
            }
            SpelledType::Compound { members, .. } => {
                let members = members.iter();
                members
                    .map(|(name, _, of)| of_text(name) + MEMBER + of.weight())
                    .sum()
            }
            SpelledType::Opaque { tag: name, .. }
            | SpelledType::Committed { name }
            | SpelledType::Unknown { name, .. } => of_text(name),
        }
    }
}

impl<'de> Deserialize<'de> for StoredType {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TypeVisitor)
    }
}

struct TypeVisitor;

impl<'de> Visitor<'de> for TypeVisitor {
    type Value = StoredType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a type, or an object with its class")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<StoredType, E> {
        Ok(StoredType::Named(Cow::Owned(name.to_owned())))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<StoredType, M::Error> {
        let spelled = SpelledType::deserialize(MapAccessDeserializer::new(map))?;
        Ok(StoredType::Spelled(Box::new(spelled)))
    }
}
