//! Datatypes as they are stored.
//!
//! A type is a tree; a file may nest it deeply or give it many members, so both are bounded and
//! what goes beyond is [`Type::Other`], which is never shown. Used by `dataset` and `attribute`.

use std::ffi::c_uint;

use hdf5_sys::h5t::{
    H5T_class_t, H5T_order_t, H5T_sign_t, H5T_str_t, H5Tget_array_dims2, H5Tget_array_ndims,
    H5Tget_class, H5Tget_ebias, H5Tget_fields, H5Tget_member_name, H5Tget_member_offset,
    H5Tget_member_type, H5Tget_member_value, H5Tget_nmembers, H5Tget_offset, H5Tget_order,
    H5Tget_precision, H5Tget_sign, H5Tget_size, H5Tget_strpad, H5Tget_super, H5Tis_variable_str,
};

use super::identifier::{Identifier, Outcome, check, complaint, owned};
use crate::container::hdf5::index::{
    Datatype, DatatypeMember, Float, FloatOrder, Integer, Padding, TYPE_DEPTH_MOST,
};

/// Members of compounds and enumerations in one type, all levels together.
const PARTS_MOST: u32 = 100_000;

/// The type behind a handle.
pub(super) fn describe(of: &Identifier) -> Outcome<Datatype> {
    Describing { parts: PARTS_MOST }.describe(of, 1)
}

struct Describing {
    parts: u32,
}

impl Describing {
    fn describe(&mut self, of: &Identifier, depth: u32) -> Outcome<Datatype> {
        // SAFETY: the handle is a datatype.
        let (class, size) = unsafe { (H5Tget_class(of.id()), H5Tget_size(of.id()) as u64) };
        if depth >= TYPE_DEPTH_MOST {
            return Ok(other(size, "a type nested too deeply"));
        }
        Ok(match class {
            H5T_class_t::H5T_INTEGER => Datatype::Integer(integer(of, size)?),
            H5T_class_t::H5T_BITFIELD => Datatype::Bitfield(integer(of, size)?),
            H5T_class_t::H5T_FLOAT => Datatype::Float(float(of, size)?),
            H5T_class_t::H5T_COMPLEX => self.complex(of, size)?,
            H5T_class_t::H5T_STRING if is_variable(of)? => Datatype::VariableString,
            H5T_class_t::H5T_STRING => Datatype::FixedString {
                size,
                padding: padding(of),
            },
            H5T_class_t::H5T_ENUM => self.enumeration(of, size)?,
            H5T_class_t::H5T_COMPOUND => self.compound(of, size, depth)?,
            H5T_class_t::H5T_ARRAY => self.array(of, depth)?,
            H5T_class_t::H5T_OPAQUE => Datatype::Opaque { size },
            H5T_class_t::H5T_VLEN => self.sequence(of, size, depth)?,
            H5T_class_t::H5T_REFERENCE => other(size, "reference"),
            H5T_class_t::H5T_TIME => other(size, "time"),
            H5T_class_t::H5T_NO_CLASS | H5T_class_t::H5T_NCLASSES => return Err(complaint()),
        })
    }

    fn complex(&mut self, of: &Identifier, size: u64) -> Outcome<Datatype> {
        let part = above(of)?;
        // SAFETY: the handle is a datatype.
        let (class, bytes) = unsafe { (H5Tget_class(part.id()), H5Tget_size(part.id()) as u64) };
        if class == H5T_class_t::H5T_FLOAT && bytes.checked_mul(2) == Some(size) {
            return Ok(Datatype::Complex(float(&part, bytes)?));
        }
        Ok(other(size, "complex of an odd type"))
    }

    fn enumeration(&mut self, of: &Identifier, size: u64) -> Outcome<Datatype> {
        let base = above(of)?;
        let count = members(of)?;
        if !self.take(count) {
            return Ok(other(size, "an enumeration of too many names"));
        }
        let Datatype::Integer(base) = self.describe(&base, 1)? else {
            return Ok(other(size, "an enumeration of an odd type"));
        };
        let mut values = Vec::new();
        for at in 0..count {
            let mut value = vec![0; size as usize];
            // SAFETY: the value has the size of the type, which is what libhdf5 copies.
            check(unsafe { H5Tget_member_value(of.id(), at, value.as_mut_ptr().cast()) })?;
            values.push((member_name(of, at)?, value));
        }
        Ok(Datatype::Enum { base, values })
    }

    fn compound(&mut self, of: &Identifier, size: u64, depth: u32) -> Outcome<Datatype> {
        let count = members(of)?;
        if !self.take(count) {
            return Ok(other(size, "a compound of too many members"));
        }
        let mut found = Vec::new();
        for at in 0..count {
            // SAFETY: the handle is a compound type with more than `at` members.
            let element = Identifier::new(unsafe { H5Tget_member_type(of.id(), at) })?;
            found.push(DatatypeMember {
                name: member_name(of, at)?,
                // SAFETY: as above.
                offset: unsafe { H5Tget_member_offset(of.id(), at) } as u64,
                element: self.describe(&element, depth + 1)?,
            });
        }
        Ok(Datatype::Compound {
            size,
            members: found,
        })
    }

    fn array(&mut self, of: &Identifier, depth: u32) -> Outcome<Datatype> {
        // SAFETY: the handle is an array type.
        let rank = check(unsafe { H5Tget_array_ndims(of.id()) })?;
        let mut dims = vec![0; rank];
        // SAFETY: there is room for every dimension.
        check(unsafe { H5Tget_array_dims2(of.id(), dims.as_mut_ptr()) })?;
        let base = Box::new(self.describe(&above(of)?, depth + 1)?);
        Ok(Datatype::Array { dims, base })
    }

    fn sequence(&mut self, of: &Identifier, size: u64, depth: u32) -> Outcome<Datatype> {
        let base = self.describe(&above(of)?, depth + 1)?;
        let name = format!("variable-length sequence of {}", name(&base));
        Ok(Datatype::Other { size, name })
    }

    fn take(&mut self, parts: u32) -> bool {
        match self.parts.checked_sub(parts) {
            Some(left) => {
                self.parts = left;
                true
            }
            None => false,
        }
    }
}

fn other(size: u64, name: &str) -> Datatype {
    Datatype::Other {
        size,
        name: name.into(),
    }
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

pub(super) fn member_name(of: &Identifier, at: c_uint) -> Outcome<Vec<u8>> {
    // SAFETY: the handle has more than `at` members; the name is ours to free.
    owned(unsafe { H5Tget_member_name(of.id(), at) })
}

/// Whether it is a string of variable length.
pub(super) fn is_variable(of: &Identifier) -> Outcome<bool> {
    // SAFETY: the handle is a datatype.
    Ok(check(unsafe { H5Tis_variable_str(of.id()) })? > 0)
}

pub(super) fn padding(of: &Identifier) -> Padding {
    // SAFETY: the handle is a string type of fixed length.
    match unsafe { H5Tget_strpad(of.id()) } {
        H5T_str_t::H5T_STR_NULLTERM => Padding::Terminated,
        H5T_str_t::H5T_STR_SPACEPAD => Padding::Spaces,
        _ => Padding::Zeros,
    }
}

pub(super) fn integer(of: &Identifier, size: u64) -> Outcome<Integer> {
    // SAFETY: the handle is an integer or a bit field.
    let offset = check(unsafe { H5Tget_offset(of.id()) })?;
    // SAFETY: as above; a bit field has no sign and says so.
    let (precision, sign) = unsafe { (H5Tget_precision(of.id()), H5Tget_sign(of.id())) };
    Ok(Integer {
        size,
        big_endian: order(of)? == FloatOrder::Big,
        signed: sign == H5T_sign_t::H5T_SGN_2,
        precision: bits(precision)?,
        offset: bits(offset)?,
    })
}

pub(super) fn float(of: &Identifier, size: u64) -> Outcome<Float> {
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
    Ok(Float {
        size,
        order: order(of)?,
        precision: bits(precision)?,
        offset: bits(offset)?,
        sign_at: bits(sign)?,
        exponent_at: bits(exponent)?,
        exponent_bits: bits(exponents)?,
        mantissa_at: bits(mantissa)?,
        mantissa_bits: bits(mantissas)?,
        exponent_bias: bias as u64,
    })
}

fn bits(count: usize) -> Outcome<u32> {
    u32::try_from(count).map_err(|_| format!("a type of {count} bits"))
}

fn order(of: &Identifier) -> Outcome<FloatOrder> {
    // SAFETY: the handle is a datatype.
    match unsafe { H5Tget_order(of.id()) } {
        H5T_order_t::H5T_ORDER_LE | H5T_order_t::H5T_ORDER_NONE => Ok(FloatOrder::Little),
        H5T_order_t::H5T_ORDER_BE => Ok(FloatOrder::Big),
        H5T_order_t::H5T_ORDER_VAX => Ok(FloatOrder::Vax),
        H5T_order_t::H5T_ORDER_MIXED => Err("a number of mixed byte order".into()),
        H5T_order_t::H5T_ORDER_ERROR => Err(complaint()),
    }
}

/// A short name for messages.
pub(super) fn name(of: &Datatype) -> String {
    match of {
        Datatype::Integer(i) if i.signed => format!("int{}", i.precision),
        Datatype::Integer(i) => format!("uint{}", i.precision),
        Datatype::Float(f) => format!("float{}", f.precision),
        Datatype::Complex(f) => format!("complex of float{}", f.precision),
        Datatype::Bitfield(i) => format!("bit field of {}", i.precision),
        Datatype::FixedString { .. } | Datatype::VariableString => "string".into(),
        Datatype::Enum { .. } => "enumeration".into(),
        Datatype::Compound { .. } => "compound".into(),
        Datatype::Array { base, .. } => format!("array of {}", name(base)),
        Datatype::Opaque { .. } => "opaque".into(),
        Datatype::Other { name, .. } => name.clone(),
    }
}

/// Whether elements are what they say by themselves: no references, nothing in the global heap.
/// Only those are given by libhdf5 as they are stored.
pub(super) fn is_plain(of: &Datatype) -> bool {
    match of {
        Datatype::VariableString | Datatype::Other { .. } => false,
        Datatype::Array { base, .. } => is_plain(base),
        Datatype::Compound { members, .. } => members.iter().all(|m| is_plain(&m.element)),
        _ => true,
    }
}
