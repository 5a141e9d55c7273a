//! Datatypes of the library's as [`StoredType`]s: what it takes to make the very same type again.
//!
//! A type is a tree; a file may nest it deeply or give it many members, so both are bounded and
//! what goes beyond is [`StoredType::Unknown`]. The way back is [`super::new_type`]. Used by all
//! here that looks at types.

use std::ffi::c_uint;

use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5t::{
    H5T_STD_REF, H5T_STD_REF_DSETREG, H5T_STD_REF_OBJ, H5T_class_t, H5T_cset_t, H5T_norm_t,
    H5T_order_t, H5T_pad_t, H5T_sign_t, H5T_str_t, H5Tcommitted, H5Tequal, H5Tget_array_dims2,
    H5Tget_array_ndims, H5Tget_class, H5Tget_cset, H5Tget_ebias, H5Tget_fields, H5Tget_inpad,
    H5Tget_member_name, H5Tget_member_offset, H5Tget_member_type, H5Tget_member_value,
    H5Tget_nmembers, H5Tget_norm, H5Tget_offset, H5Tget_order, H5Tget_pad, H5Tget_precision,
    H5Tget_sign, H5Tget_size, H5Tget_strpad, H5Tget_super, H5Tget_tag, H5Tis_variable_str,
};
use serde_json::{Number, Value};

use super::identifier::{Identifier, Outcome, check, complaint, owned};
use super::{json, links};
use crate::container::names;
use crate::container::stored::{
    BitOrder, Charset, FloatNorm, NoOfBits, Padding, StoredFloat, StoredInteger, StoredType,
    TYPE_DEPTH_MOST,
};

/// Members of compounds and enumerations in one type, all levels together.
pub(super) const PARTS_MOST: usize = 100_000;

/// The type behind a handle.
pub(super) fn describe(of: &Identifier) -> Outcome<StoredType> {
    Describing { parts: PARTS_MOST }.describe(of, 1)
}

/// The type behind a handle; one that cannot be described is one that is not known.
pub(super) fn described(of: &Identifier) -> StoredType {
    describe(of).unwrap_or_else(|why| unknown(0, why))
}

/// The token of the committed datatype that a handle is.
pub(super) fn committed(of: &Identifier) -> Option<u64> {
    // SAFETY: the handle is a datatype.
    if unsafe { H5Tcommitted(of.id()) } <= 0 {
        return None;
    }
    links::token_of(of).ok()
}

struct Describing {
    parts: usize,
}

impl Describing {
    fn describe(&mut self, of: &Identifier, depth: u32) -> Outcome<StoredType> {
        // SAFETY: the handle is a datatype.
        let (class, size) = unsafe { (H5Tget_class(of.id()), H5Tget_size(of.id()) as u64) };
        if depth >= TYPE_DEPTH_MOST {
            return Ok(unknown(size, "nested too deeply"));
        }
        let below = |this: &mut Self| this.describe(&above(of)?, depth + 1).map(Box::new);
        Ok(match class {
            H5T_class_t::H5T_INTEGER => StoredType::Integer(integer(of, size)?),
            H5T_class_t::H5T_BITFIELD => StoredType::BitField(StoredInteger {
                signed: false,
                ..integer(of, size)?
            }),
            H5T_class_t::H5T_FLOAT => StoredType::Float(float(of, size)?),
            H5T_class_t::H5T_COMPLEX => StoredType::Complex { base: below(self)? },
            H5T_class_t::H5T_STRING => string(of, size)?,
            H5T_class_t::H5T_ENUM => self.enumeration(of, size)?,
            H5T_class_t::H5T_COMPOUND => self.compound(of, size, depth)?,
            H5T_class_t::H5T_ARRAY => StoredType::Array {
                dims: array_dims(of)?,
                base: below(self)?,
            },
            H5T_class_t::H5T_VLEN => StoredType::Sequence { base: below(self)? },
            H5T_class_t::H5T_OPAQUE => {
                // SAFETY: the handle is an opaque type; the tag is ours to free.
                let tag = names::escape(&owned(unsafe { H5Tget_tag(of.id()) })?);
                StoredType::Opaque { size, tag }
            }
            H5T_class_t::H5T_REFERENCE => reference(of, size),
            H5T_class_t::H5T_TIME => StoredType::Time { size },
            H5T_class_t::H5T_NO_CLASS | H5T_class_t::H5T_NCLASSES => return Err(complaint()),
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
        let named = |(at, value): (c_uint, Value)| Ok((member_name(of, at)?, number(value)));
        Ok(StoredType::Enumeration {
            base: Box::new(self.describe(&base, TYPE_DEPTH_MOST - 1)?),
            members: (0..).zip(numbers).map(named).collect::<Outcome<_>>()?,
        })
    }

    fn compound(&mut self, of: &Identifier, size: u64, depth: u32) -> Outcome<StoredType> {
        let count = members(of)?;
        if !self.take(count) {
            return Ok(unknown(size, "a compound of too many members"));
        }
        let mut members = Vec::new();
        for at in 0..count {
            // SAFETY: the handle is a compound type with more than `at` members.
            let member = Identifier::new(unsafe { H5Tget_member_type(of.id(), at) })?;
            // SAFETY: as above.
            let offset = unsafe { H5Tget_member_offset(of.id(), at) } as u64;
            let member = self.describe(&member, depth + 1)?;
            members.push((member_name(of, at)?, offset, member));
        }
        Ok(StoredType::Compound { size, members })
    }

    fn take(&mut self, parts: c_uint) -> bool {
        let left = self.parts.checked_sub(parts as usize);
        self.parts = left.unwrap_or(self.parts);
        left.is_some()
    }
}

fn unknown(size: u64, why: impl Into<String>) -> StoredType {
    let name = why.into();
    StoredType::Unknown { size, name }
}

/// The type that an enumeration, array, sequence or complex number is made of.
pub(super) fn above(of: &Identifier) -> Outcome<Identifier> {
    // SAFETY: the handle is a datatype.
    Identifier::new(unsafe { H5Tget_super(of.id()) })
}

pub(super) fn members(of: &Identifier) -> Outcome<c_uint> {
    // SAFETY: the handle is a compound or an enumeration.
    let count = check(unsafe { H5Tget_nmembers(of.id()) })?;
    Ok(count as c_uint)
}

/// As it is shown.
pub(super) fn member_name(of: &Identifier, at: c_uint) -> Outcome<String> {
    // SAFETY: the handle has more than `at` members; the name is ours to free.
    let name = owned(unsafe { H5Tget_member_name(of.id(), at) })?;
    Ok(names::escape(&name))
}

pub(super) fn array_dims(of: &Identifier) -> Outcome<Vec<u64>> {
    // SAFETY: the handle is an array type.
    let rank = check(unsafe { H5Tget_array_ndims(of.id()) })?;
    let mut dims = vec![0; rank];
    // SAFETY: there is room for every dimension.
    check(unsafe { H5Tget_array_dims2(of.id(), dims.as_mut_ptr()) })?;
    Ok(dims)
}

/// Bytes of an element.
pub(super) fn size(of: &Identifier) -> usize {
    // SAFETY: the handle is a datatype.
    unsafe { H5Tget_size(of.id()) }
}

/// Whether it is a string of variable length.
pub(super) fn is_variable(of: &Identifier) -> Outcome<bool> {
    // SAFETY: the handle is a datatype.
    Ok(check(unsafe { H5Tis_variable_str(of.id()) })? > 0)
}

fn string(of: &Identifier, size: u64) -> Outcome<StoredType> {
    // SAFETY: the handle is a string type.
    let (padding, charset) = unsafe { (H5Tget_strpad(of.id()), H5Tget_cset(of.id())) };
    Ok(StoredType::Text {
        size: (!is_variable(of)?).then_some(size),
        padding: match padding {
            H5T_str_t::H5T_STR_NULLTERM => Padding::Terminated,
            H5T_str_t::H5T_STR_SPACEPAD => Padding::Spaces,
            _ => Padding::Zeros,
        },
        charset: match charset {
            H5T_cset_t::H5T_CSET_UTF8 => Charset::Utf8,
            _ => Charset::Ascii,
        },
    })
}

fn integer(of: &Identifier, size: u64) -> Outcome<StoredInteger> {
    // SAFETY: the handle is an integer or a bit field.
    let offset = check(unsafe { H5Tget_offset(of.id()) })?;
    // SAFETY: as above; a bit field has no sign and says so.
    let (precision, sign) = unsafe { (H5Tget_precision(of.id()), H5Tget_sign(of.id())) };
    let told = StoredInteger {
        size,
        byte_order: match order(of)? {
            BitOrder::Big => BitOrder::Big,
            BitOrder::Little | BitOrder::Vax => BitOrder::Little,
        },
        signed: sign == H5T_sign_t::H5T_SGN_2,
        precision: bits(precision)?,
        offset: bits(offset)?,
        padding: None,
    };
    Ok(StoredInteger {
        padding: if told.is_whole() { None } else { outer(of)? },
        ..told
    })
}

fn float(of: &Identifier, size: u64) -> Outcome<StoredFloat> {
    let (mut sign, mut exponent, mut exponents, mut mantissa, mut mantissas) = (0, 0, 0, 0, 0);
    // SAFETY: the handle is a floating-point type, the five numbers are ours.
    check(unsafe {
        H5Tget_fields(
            of.id(),
            &mut sign,
            &mut exponent,
            &mut exponents,
            &mut mantissa,
            &mut mantissas,
        )
    })?;
    // SAFETY: as above.
    let (precision, bias) = unsafe { (H5Tget_precision(of.id()), H5Tget_ebias(of.id())) };
    // SAFETY: as above.
    let offset = check(unsafe { H5Tget_offset(of.id()) })?;
    // SAFETY: as above.
    let (norm, inner) = unsafe { (H5Tget_norm(of.id()), no_bits(H5Tget_inpad(of.id()))) };
    let told = StoredFloat {
        size,
        byte_order: order(of)?,
        precision: bits(precision)?,
        offset: bits(offset)?,
        sign: bits(sign)?,
        exponent: [bits(exponent)?, bits(exponents)?],
        mantissa: [bits(mantissa)?, bits(mantissas)?],
        bias: bias as u64,
        norm: match norm {
            H5T_norm_t::H5T_NORM_MSBSET => FloatNorm::MsbSet,
            H5T_norm_t::H5T_NORM_NONE => FloatNorm::None,
            H5T_norm_t::H5T_NORM_IMPLIED | H5T_norm_t::H5T_NORM_ERROR => FloatNorm::Implied,
        },
        inner: None,
        padding: None,
    };
    // All bits of those with a name count.
    if StoredType::Float(told).name().is_some() {
        return Ok(told);
    }
    Ok(StoredFloat {
        inner: (inner != NoOfBits::Zero).then_some(inner),
        padding: outer(of)?,
        ..told
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

fn bits(count: usize) -> Outcome<u32> {
    u32::try_from(count).map_err(|_| format!("a type of {count} bits"))
}

fn order(of: &Identifier) -> Outcome<BitOrder> {
    // SAFETY: the handle is a datatype.
    match unsafe { H5Tget_order(of.id()) } {
        H5T_order_t::H5T_ORDER_LE | H5T_order_t::H5T_ORDER_NONE => Ok(BitOrder::Little),
        H5T_order_t::H5T_ORDER_BE => Ok(BitOrder::Big),
        H5T_order_t::H5T_ORDER_VAX => Ok(BitOrder::Vax),
        H5T_order_t::H5T_ORDER_MIXED => Err("a number of mixed byte order".into()),
        H5T_order_t::H5T_ORDER_ERROR => Err(complaint()),
    }
}

fn reference(of: &Identifier, size: u64) -> StoredType {
    let known = [
        ("H5T_STD_REF_OBJ", *H5T_STD_REF_OBJ),
        ("H5T_STD_REF_DSETREG", *H5T_STD_REF_DSETREG),
        ("H5T_STD_REF", *H5T_STD_REF),
    ];
    // SAFETY: both handles are datatypes.
    let equals = |other: hid_t| unsafe { H5Tequal(of.id(), other) > 0 };
    match known.into_iter().find(|(_, other)| equals(*other)) {
        Some((name, _)) => StoredType::named(name),
        None => unknown(size, "a reference of no known kind"),
    }
}
