//! Datatypes in the words of `arrays.json`: what it takes to make the very same type again.
//!
//! As bounded as [`super::types`]: what has too many members, or is nested too deeply, is said to
//! be. A type that cannot be described is one that is not known. Used by `walk`, `details` and
//! `attribute`.

use std::borrow::Cow;
use std::ffi::c_uint;
use std::mem::MaybeUninit;

use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5o::{H5O_INFO_BASIC, H5O_info2_t, H5Oget_info3};
use hdf5_sys::h5t::{
    H5T_FLOAT_F8E4M3, H5T_FLOAT_F8E5M2, H5T_STD_REF, H5T_STD_REF_DSETREG, H5T_STD_REF_OBJ,
    H5T_VAX_F32, H5T_VAX_F64, H5T_class_t, H5T_cset_t, H5T_norm_t, H5T_pad_t, H5Tcommitted,
    H5Tequal, H5Tget_array_dims2, H5Tget_array_ndims, H5Tget_class, H5Tget_cset, H5Tget_inpad,
    H5Tget_member_offset, H5Tget_member_type, H5Tget_member_value, H5Tget_norm, H5Tget_pad,
    H5Tget_size, H5Tget_tag,
};
use serde_json::{Number, Value};

use super::identifier::{Identifier, Outcome, check, owned};
use super::types::{above, float, integer, is_variable, member_name, members, padding};
use super::{json, links};
use crate::container::hdf5::index::details::TypeSpelling;
use crate::container::hdf5::index::{Float, FloatOrder, Integer, Padding, TYPE_DEPTH_MOST};
use crate::container::names;
use crate::container::stored::{BitOrder, NoOfBits};
use crate::container::stored::{SpelledFloat, SpelledInteger, SpelledType, StoredType};

/// Members of compounds and enumerations in one type, all levels together.
const PARTS_MOST: u32 = 100_000;

/// The type behind a handle, and which committed one it is.
pub(super) fn of(of: &Identifier) -> TypeSpelling {
    TypeSpelling {
        text: text(of),
        committed: committed(of),
    }
}

/// The type as JSON.
pub(super) fn text(of: &Identifier) -> String {
    let spelled = Spelling { parts: PARTS_MOST }.spell(of, 1);
    let spelled = spelled.unwrap_or_else(|why| unknown(0, why));
    serde_json::to_string(&spelled).unwrap_or_default()
}

/// The token of the committed datatype that a handle is.
fn committed(of: &Identifier) -> Option<u64> {
    // SAFETY: the handle is a datatype.
    if unsafe { H5Tcommitted(of.id()) } <= 0 {
        return None;
    }
    let mut info = MaybeUninit::<H5O_info2_t>::zeroed();
    // SAFETY: the handle is an object, and there is room for the answer.
    check(unsafe { H5Oget_info3(of.id(), info.as_mut_ptr(), H5O_INFO_BASIC) }).ok()?;
    // SAFETY: filled in by the call, with kinds of objects that the crate knows.
    Some(links::address(unsafe { info.assume_init() }.token))
}

struct Spelling {
    parts: u32,
}

impl Spelling {
    fn spell(&mut self, of: &Identifier, depth: u32) -> Outcome<StoredType> {
        // SAFETY: the handle is a datatype.
        let (class, size) = unsafe { (H5Tget_class(of.id()), H5Tget_size(of.id()) as u64) };
        if depth >= TYPE_DEPTH_MOST {
            return Ok(unknown(size, "nested too deeply"));
        }
        let below = |this: &mut Self| this.spell(&above(of)?, depth + 1);
        Ok(match class {
            H5T_class_t::H5T_INTEGER => whole_number(of, size)?,
            H5T_class_t::H5T_BITFIELD => bit_field(of, size)?,
            H5T_class_t::H5T_FLOAT => floating(of, size)?,
            H5T_class_t::H5T_COMPLEX => complex(below(self)?),
            H5T_class_t::H5T_STRING => string(of, size)?,
            H5T_class_t::H5T_ENUM => self.enumeration(of, size)?,
            H5T_class_t::H5T_COMPOUND => self.compound(of, size, depth)?,
            H5T_class_t::H5T_ARRAY => spelled(SpelledType::Array {
                dims: array_dims(of)?,
                base: below(self)?,
            }),
            H5T_class_t::H5T_VLEN => spelled(SpelledType::Sequence { base: below(self)? }),
            H5T_class_t::H5T_OPAQUE => {
                // SAFETY: the handle is an opaque type; the tag is ours to free.
                let tag = names::escape(&owned(unsafe { H5Tget_tag(of.id()) })?);
                spelled(SpelledType::Opaque { size, tag })
            }
            H5T_class_t::H5T_REFERENCE => reference(of, size),
            H5T_class_t::H5T_TIME => spelled(SpelledType::Time { size }),
            H5T_class_t::H5T_NO_CLASS | H5T_class_t::H5T_NCLASSES => {
                unknown(size, "of no known class")
            }
        })
    }

    fn enumeration(&mut self, of: &Identifier, size: u64) -> Outcome<StoredType> {
        let base = above(of)?;
        let count = members(of)?;
        if !self.take(count) || size > 8 {
            return Ok(unknown(
                size,
                "an enumeration of too many names, or too long values",
            ));
        }
        let width = size as usize;
        let mut values = vec![0; width * count as usize];
        for (at, value) in (0..).zip(values.chunks_exact_mut(width.max(1))) {
            // SAFETY: the value has the size of the type, which is what libhdf5 copies.
            check(unsafe { H5Tget_member_value(of.id(), at, value.as_mut_ptr().cast()) })?;
        }
        let numbers = json::integers(&base, &values, count as usize)?;
        let number = |value: Value| match value {
            Value::Number(number) => number,
            _ => Number::from(0),
        };
        let named = |(at, value): (c_uint, Value)| {
            let name = names::escape(&member_name(of, at)?);
            Ok((name, number(value)))
        };
        Ok(spelled(SpelledType::Enumeration {
            base: self.spell(&base, TYPE_DEPTH_MOST - 1)?,
            members: (0..).zip(numbers).map(named).collect::<Outcome<_>>()?,
        }))
    }

    fn compound(&mut self, of: &Identifier, size: u64, depth: u32) -> Outcome<StoredType> {
        let count = members(of)?;
        if !self.take(count) {
            return Ok(unknown(size, "a compound of too many members"));
        }
        let mut found = Vec::new();
        for at in 0..count {
            // SAFETY: the handle is a compound type with more than `at` members.
            let member = Identifier::new(unsafe { H5Tget_member_type(of.id(), at) })?;
            // SAFETY: as above.
            let offset = unsafe { H5Tget_member_offset(of.id(), at) } as u64;
            let member = self.spell(&member, depth + 1)?;
            found.push((names::escape(&member_name(of, at)?), offset, member));
        }
        Ok(spelled(SpelledType::Compound {
            size,
            members: found,
        }))
    }

    fn take(&mut self, parts: u32) -> bool {
        let left = self.parts.checked_sub(parts);
        self.parts = left.unwrap_or(self.parts);
        left.is_some()
    }
}

fn spelled(of: SpelledType) -> StoredType {
    StoredType::Spelled(Box::new(of))
}

fn unknown(size: u64, why: impl Into<String>) -> StoredType {
    let name = why.into();
    spelled(SpelledType::Unknown { size, name })
}

fn array_dims(of: &Identifier) -> Outcome<Vec<u64>> {
    // SAFETY: the handle is an array type.
    let rank = check(unsafe { H5Tget_array_ndims(of.id()) })?;
    let mut dims = vec![0; rank];
    // SAFETY: there is room for every dimension.
    check(unsafe { H5Tget_array_dims2(of.id(), dims.as_mut_ptr()) })?;
    Ok(dims)
}

fn whole_number(of: &Identifier, size: u64) -> Outcome<StoredType> {
    let integer = integer(of, size)?;
    let sign = if integer.signed { 'I' } else { 'U' };
    match suffix(&integer) {
        Some(suffix) => Ok(StoredType::Named(format!("H5T_STD_{sign}{suffix}").into())),
        None => Ok(spelled(SpelledType::Integer(bits(of, &integer)?))),
    }
}

fn bit_field(of: &Identifier, size: u64) -> Outcome<StoredType> {
    let integer = Integer {
        signed: false,
        ..integer(of, size)?
    };
    match suffix(&integer) {
        Some(suffix) => Ok(StoredType::Named(format!("H5T_STD_B{suffix}").into())),
        None => Ok(spelled(SpelledType::BitField(bits(of, &integer)?))),
    }
}

/// Width and byte order in the name of a type that uses all its bits.
fn suffix(of: &Integer) -> Option<String> {
    let bits = u64::from(of.precision);
    let is_whole = matches!(of.size, 1 | 2 | 4 | 8) && bits == 8 * of.size && of.offset == 0;
    let order = if of.big_endian { "BE" } else { "LE" };
    is_whole.then(|| format!("{bits}{order}"))
}

fn bits(of: &Identifier, integer: &Integer) -> Outcome<SpelledInteger> {
    Ok(SpelledInteger {
        size: integer.size,
        byte_order: if integer.big_endian {
            BitOrder::Big
        } else {
            BitOrder::Little
        },
        signed: integer.signed,
        precision: integer.precision,
        offset: integer.offset,
        padding: outer(of)?,
    })
}

/// What the bits around a number are, if they are not zeros.
fn outer(of: &Identifier) -> Outcome<Option<[NoOfBits; 2]>> {
    let (mut low, mut high) = (H5T_pad_t::H5T_PAD_ZERO, H5T_pad_t::H5T_PAD_ZERO);
    // SAFETY: the handle is a number, and there is room for both answers.
    check(unsafe { H5Tget_pad(of.id(), &mut low, &mut high) })?;
    let outer = [low, high].map(no_bits);
    Ok((outer != [NoOfBits::Zero; 2]).then_some(outer))
}

fn no_bits(of: H5T_pad_t) -> NoOfBits {
    match of {
        H5T_pad_t::H5T_PAD_ONE => NoOfBits::One,
        H5T_pad_t::H5T_PAD_BACKGROUND => NoOfBits::Background,
        H5T_pad_t::H5T_PAD_ZERO | H5T_pad_t::H5T_PAD_ERROR | H5T_pad_t::H5T_NPAD => NoOfBits::Zero,
    }
}

fn floating(of: &Identifier, size: u64) -> Outcome<StoredType> {
    if let Some(name) = float_name(of, size)? {
        return Ok(StoredType::Named(name));
    }
    let float = float(of, size)?;
    // SAFETY: the handle is a floating-point type.
    let (norm, inner) = unsafe { (H5Tget_norm(of.id()), H5Tget_inpad(of.id())) };
    let inner = no_bits(inner);
    Ok(spelled(SpelledType::Float(SpelledFloat {
        size,
        byte_order: match float.order {
            FloatOrder::Little => BitOrder::Little,
            FloatOrder::Big => BitOrder::Big,
            FloatOrder::Vax => BitOrder::Vax,
        },
        precision: float.precision,
        offset: float.offset,
        sign: float.sign_at,
        exponent: [float.exponent_at, float.exponent_bits],
        mantissa: [float.mantissa_at, float.mantissa_bits],
        bias: float.exponent_bias,
        norm: Cow::Borrowed(match norm {
            H5T_norm_t::H5T_NORM_MSBSET => "msbset",
            H5T_norm_t::H5T_NORM_NONE => "none",
            H5T_norm_t::H5T_NORM_IMPLIED | H5T_norm_t::H5T_NORM_ERROR => "implied",
        }),
        inner: (inner != NoOfBits::Zero).then_some(inner),
        padding: outer(of)?,
    })))
}

/// The name of a floating-point type that has one.
pub(super) fn float_name(of: &Identifier, size: u64) -> Outcome<Option<Cow<'static, str>>> {
    // SAFETY: the handle is a floating-point type.
    let is_implied = unsafe { H5Tget_norm(of.id()) } == H5T_norm_t::H5T_NORM_IMPLIED;
    let float = float(of, size)?;
    if let Some(family) = family(&float).filter(|_| is_implied) {
        let order = match float.order {
            FloatOrder::Little => Some("LE"),
            FloatOrder::Big => Some("BE"),
            FloatOrder::Vax => None,
        };
        if let Some(order) = order {
            return Ok(Some(format!("{family}{order}").into()));
        }
    }
    let others = [
        ("H5T_VAX_F32", *H5T_VAX_F32),
        ("H5T_VAX_F64", *H5T_VAX_F64),
        ("H5T_FLOAT_F8E4M3", *H5T_FLOAT_F8E4M3),
        ("H5T_FLOAT_F8E5M2", *H5T_FLOAT_F8E5M2),
    ];
    let found = others.into_iter().find(|(_, other)| equals(of, *other));
    Ok(found.map(|(name, _)| name.into()))
}

fn family(of: &Float) -> Option<&'static str> {
    let fields = (of.exponent_at, of.exponent_bits, of.mantissa_bits);
    let (name, size, bias) = match fields {
        (10, 5, 10) => ("H5T_IEEE_F16", 2, 15),
        (23, 8, 23) => ("H5T_IEEE_F32", 4, 127),
        (52, 11, 52) => ("H5T_IEEE_F64", 8, 1023),
        (7, 8, 7) => ("H5T_FLOAT_BFLOAT16", 2, 127),
        _ => return None,
    };
    let bits = (u64::from(of.precision), u64::from(of.sign_at) + 1);
    let is_whole = of.size == size && bits == (8 * size, 8 * size);
    let is_usual = of.offset == 0 && of.mantissa_at == 0 && of.exponent_bias == bias;
    (is_whole && is_usual).then_some(name)
}

fn equals(of: &Identifier, other: hid_t) -> bool {
    // SAFETY: both handles are datatypes.
    unsafe { H5Tequal(of.id(), other) > 0 }
}

fn complex(base: StoredType) -> StoredType {
    match &base {
        StoredType::Named(name) if name.starts_with("H5T_IEEE_") => {
            StoredType::Named(name.replace("H5T_", "H5T_COMPLEX_").into())
        }
        _ => spelled(SpelledType::Complex { base }),
    }
}

fn string(of: &Identifier, size: u64) -> Outcome<StoredType> {
    let padding = match padding(of) {
        Padding::Terminated => "NULLTERM",
        Padding::Zeros => "NULLPAD",
        Padding::Spaces => "SPACEPAD",
    };
    // SAFETY: the handle is a string type.
    let charset = match unsafe { H5Tget_cset(of.id()) } {
        H5T_cset_t::H5T_CSET_UTF8 => "UTF-8",
        _ => "ASCII",
    };
    Ok(spelled(SpelledType::Text {
        size: (!is_variable(of)?).then_some(size),
        padding: padding.into(),
        charset: charset.into(),
    }))
}

fn reference(of: &Identifier, size: u64) -> StoredType {
    let known = [
        ("H5T_STD_REF_OBJ", *H5T_STD_REF_OBJ),
        ("H5T_STD_REF_DSETREG", *H5T_STD_REF_DSETREG),
        ("H5T_STD_REF", *H5T_STD_REF),
    ];
    match known.into_iter().find(|(_, other)| equals(of, *other)) {
        Some((name, _)) => StoredType::named(name),
        None => unknown(size, "a reference of no known kind"),
    }
}
