//! Types as JSON: HDF5's names for those that have one, and how deep they may nest.
//!
//! Which name a type has is told by the way back alone, from the name to the type.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{BitOrder, FloatNorm, StoredFloat, StoredInteger, StoredType};

/// Types within types: more than any real file has, and no more than the stack bears.
pub const TYPE_DEPTH_MOST: u32 = 32;

const FLOATS: [(&str, StoredFloat); 12] = [
    ("H5T_IEEE_F16LE", float(2, BitOrder::Little, 5, 15)),
    ("H5T_IEEE_F16BE", float(2, BitOrder::Big, 5, 15)),
    ("H5T_IEEE_F32LE", float(4, BitOrder::Little, 8, 127)),
    ("H5T_IEEE_F32BE", float(4, BitOrder::Big, 8, 127)),
    ("H5T_IEEE_F64LE", float(8, BitOrder::Little, 11, 1023)),
    ("H5T_IEEE_F64BE", float(8, BitOrder::Big, 11, 1023)),
    ("H5T_FLOAT_BFLOAT16LE", float(2, BitOrder::Little, 8, 127)),
    ("H5T_FLOAT_BFLOAT16BE", float(2, BitOrder::Big, 8, 127)),
    ("H5T_FLOAT_F8E4M3", float(1, BitOrder::Little, 4, 7)),
    ("H5T_FLOAT_F8E5M2", float(1, BitOrder::Little, 5, 15)),
    ("H5T_VAX_F32", float(4, BitOrder::Vax, 8, 129)),
    ("H5T_VAX_F64", float(8, BitOrder::Vax, 11, 1025)),
];

/// Of a sign, so many bits of exponent, and the mantissa, from the top down.
const fn float(size: u64, byte_order: BitOrder, exponents: u32, bias: u64) -> StoredFloat {
    let precision = 8 * size as u32;
    let mantissas = precision - 1 - exponents;
    StoredFloat {
        size,
        byte_order,
        precision,
        offset: 0,
        sign: precision - 1,
        exponent: [mantissas, exponents],
        mantissa: [0, mantissas],
        bias,
        norm: FloatNorm::Implied,
        inner: None,
        padding: None,
    }
}

impl StoredType {
    pub const fn named(name: &'static str) -> StoredType {
        StoredType::Named(Cow::Borrowed(name))
    }

    /// The name that stands for the whole of it.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        let whole = |kind: char, of: &StoredInteger| {
            let order = if of.byte_order == BitOrder::Big {
                "BE"
            } else {
                "LE"
            };
            let name = format!("H5T_STD_{kind}{}{order}", of.precision);
            (StoredType::of_name(&name).as_ref() == Some(self)).then(|| name.into())
        };
        match self {
            StoredType::Named(name) => Some(Cow::Borrowed(name)),
            StoredType::Integer(of) => whole(if of.signed { 'I' } else { 'U' }, of),
            StoredType::BitField(of) => whole('B', of),
            StoredType::Float(of) => {
                let known = FLOATS.iter().find(|(_, known)| known == of);
                known.map(|(name, _)| Cow::Borrowed(*name))
            }
            StoredType::Complex { base } => {
                let base = base.name()?;
                let part = base.strip_prefix("H5T_IEEE_")?;
                Some(format!("H5T_COMPLEX_IEEE_{part}").into())
            }
            _ => None,
        }
    }

    /// What is called so.
    pub fn called(name: &str) -> StoredType {
        let known = StoredType::of_name(name);
        known.unwrap_or_else(|| StoredType::Named(Cow::Owned(name.to_owned())))
    }

    /// What HDF5 calls so.
    pub fn of_name(name: &str) -> Option<StoredType> {
        if let Some(part) = name.strip_prefix("H5T_COMPLEX_IEEE_") {
            let base = StoredType::of_name(&format!("H5T_IEEE_{part}"))?;
            return Some(StoredType::Complex {
                base: Box::new(base),
            });
        }
        if let Some((_, float)) = FLOATS.iter().find(|(known, _)| *known == name) {
            return Some(StoredType::Float(*float));
        }
        let rest = name.strip_prefix("H5T_STD_")?;
        let (bits, byte_order) = match rest.strip_suffix("LE") {
            Some(rest) => (rest, BitOrder::Little),
            None => (rest.strip_suffix("BE")?, BitOrder::Big),
        };
        let (kind, bits) = bits.split_at_checked(1)?;
        let size = match bits {
            "8" => 1,
            "16" => 2,
            "32" => 4,
            "64" => 8,
            _ => return None,
        };
        let of = StoredInteger::whole(size, byte_order, kind == "I");
        match kind {
            "I" | "U" => Some(StoredType::Integer(of)),
            "B" => Some(StoredType::BitField(of)),
            _ => None,
        }
    }
}

impl Serialize for StoredType {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.name() {
            Some(name) => to.serialize_str(&name),
            None => StoredType::serialize(self, to),
        }
    }
}

impl<'de> Deserialize<'de> for StoredType {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TypeVisitor)
    }
}

struct TypeVisitor;

thread_local! {
    /// How deep the type lies that is being read.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

impl<'de> Visitor<'de> for TypeVisitor {
    type Value = StoredType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a type, or an object with its class")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<StoredType, E> {
        Ok(StoredType::called(name))
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<StoredType, M::Error> {
        let depth = DEPTH.get();
        if depth > TYPE_DEPTH_MOST {
            return Err(M::Error::custom("types are nested too deeply"));
        }
        DEPTH.set(depth + 1);
        let read = StoredType::deserialize(MapAccessDeserializer::new(map));
        DEPTH.set(depth);
        read
    }
}
