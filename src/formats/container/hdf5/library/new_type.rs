//! Datatypes of the library's, made of [`StoredType`]s: the way back of [`super::types`].
//!
//! What is stated comes from a user: the number of parts is bounded here (how deep a type is nested
//! where it is read), and whether a type can be is the library's judgement. Used by
//! [`super::editing`].

use std::ffi::CString;

use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5o::H5Oopen;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5t::{
    H5T_C_S1, H5T_IEEE_F64LE, H5T_STD_B64LE, H5T_STD_I64LE, H5T_STD_U64LE, H5T_VARIABLE,
    H5T_class_t, H5T_cset_t, H5T_norm_t, H5T_order_t, H5T_pad_t, H5T_str_t, H5Tarray_create2,
    H5Tcomplex_create, H5Tcopy, H5Tcreate, H5Tenum_create, H5Tenum_insert, H5Tinsert, H5Tset_cset,
    H5Tset_ebias, H5Tset_fields, H5Tset_inpad, H5Tset_norm, H5Tset_offset, H5Tset_order,
    H5Tset_pad, H5Tset_precision, H5Tset_size, H5Tset_strpad, H5Tset_tag, H5Tvlen_create,
};
use serde_json::{Number, Value as Json};

use super::from_json::ValueMaker;
use super::identifier::{Identifier, Outcome, check};
use super::types::PARTS_MOST;
use crate::container::names;
use crate::container::stored::{
    BitOrder, Charset, FloatNorm, NoOfBits, Padding, StoredFloat, StoredInteger, StoredType,
};

/// The type that is stated; one that is committed is looked for in `file`.
pub(super) fn make(stated: &StoredType, file: &Identifier) -> Outcome<Identifier> {
    let parts = PARTS_MOST;
    TypeMaker { parts, file }.make(stated)
}

struct TypeMaker<'a> {
    parts: usize,
    file: &'a Identifier,
}

impl TypeMaker<'_> {
    fn make(&mut self, stated: &StoredType) -> Outcome<Identifier> {
        match stated {
            StoredType::Named(name) => Err(format!("a type named {name}")),
            StoredType::Integer(of) if of.signed => integer(of, *H5T_STD_I64LE),
            StoredType::Integer(of) => integer(of, *H5T_STD_U64LE),
            StoredType::BitField(of) => integer(of, *H5T_STD_B64LE),
            StoredType::Float(of) => float(of),
            StoredType::Text {
                size,
                padding,
                charset,
            } => string(*size, *padding, *charset),
            StoredType::Opaque { size, tag } => opaque(*size, tag),
            StoredType::Complex { base } => {
                let base = self.make(base)?;
                // SAFETY: the handle is a datatype.
                Identifier::new(unsafe { H5Tcomplex_create(base.id()) })
            }
            StoredType::Sequence { base } => {
                let base = self.make(base)?;
                // SAFETY: the handle is a datatype.
                Identifier::new(unsafe { H5Tvlen_create(base.id()) })
            }
            StoredType::Array { dims, base } => {
                let base = self.make(base)?;
                // SAFETY: the handle is a datatype, and there are as many dimensions as is said.
                Identifier::new(unsafe {
                    H5Tarray_create2(base.id(), dims.len() as u32, dims.as_ptr())
                })
            }
            StoredType::Enumeration { base, members } => {
                let base = self.make(base)?;
                self.enumeration(&base, members)
            }
            StoredType::Compound { size, members } => self.compound(*size, members),
            StoredType::Committed { name } => self.committed(name),
            StoredType::Time { .. } => Err("a type of class H5T_TIME".into()),
            StoredType::Unknown { .. } => Err("a type of class H5T_NO_CLASS".into()),
        }
    }

    fn take(&mut self, parts: usize) -> Outcome<()> {
        let left = self.parts.checked_sub(parts);
        self.parts = left.ok_or("a type of too many parts")?;
        Ok(())
    }

    fn enumeration(
        &mut self,
        base: &Identifier,
        members: &[(String, Number)],
    ) -> Outcome<Identifier> {
        // SAFETY: the handle is a datatype.
        let made = Identifier::new(unsafe { H5Tenum_create(base.id()) })?;
        self.take(members.len())?;
        for (name, value) in members {
            let (name, value) = (c_name(name)?, Json::Number(value.clone()));
            let value = ValueMaker::default().values(base, &[], &value)?;
            // SAFETY: the value has the size of the base type.
            check(unsafe { H5Tenum_insert(made.id(), name.as_ptr(), value.as_ptr().cast()) })?;
        }
        Ok(made)
    }

    fn compound(
        &mut self,
        size: u64,
        members: &[(String, u64, StoredType)],
    ) -> Outcome<Identifier> {
        let made = sized(H5T_class_t::H5T_COMPOUND, size)?;
        self.take(members.len())?;
        for (name, offset, element) in members {
            let (name, offset, element) = (c_name(name)?, fits(*offset)?, self.make(element)?);
            // SAFETY: both are datatypes; the library checks that the member has room.
            check(unsafe { H5Tinsert(made.id(), name.as_ptr(), offset, element.id()) })?;
        }
        Ok(made)
    }

    fn committed(&self, name: &str) -> Outcome<Identifier> {
        let path = names::path_of(name);
        let path = CString::new(path.into_os_string().into_encoded_bytes());
        let path = path.map_err(|e| e.to_string())?;
        // SAFETY: the handle is a file, the path is NUL-terminated.
        Identifier::new(unsafe { H5Oopen(self.file.id(), path.as_ptr(), H5P_DEFAULT) })
    }
}

/// A name that is escaped.
fn c_name(shown: &str) -> Outcome<CString> {
    CString::new(names::unescaped(shown)).map_err(|e| e.to_string())
}

fn fits(number: u64) -> Outcome<usize> {
    usize::try_from(number).map_err(|e| e.to_string())
}

fn copy(of: hid_t) -> Outcome<Identifier> {
    // SAFETY: a datatype of the library's.
    Identifier::new(unsafe { H5Tcopy(of) })
}

fn sized(class: H5T_class_t, size: u64) -> Outcome<Identifier> {
    let size = fits(size)?;
    // SAFETY: makes a new type; the library checks the size.
    Identifier::new(unsafe { H5Tcreate(class, size) })
}

/// A copy of a number type in so many bytes, of the bits of which some count.
fn integer(stated: &StoredInteger, of: hid_t) -> Outcome<Identifier> {
    let (made, size) = (copy(of)?, fits(stated.size)?);
    let id = made.id();
    // SAFETY: the handle is a type of our own; the library checks the numbers, here and below.
    check(unsafe { H5Tset_size(id, size) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_precision(id, stated.precision as usize) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_offset(id, stated.offset as usize) })?;
    surround(&made, stated.padding, stated.byte_order)?;
    Ok(made)
}

/// What lies around the bits of a number, and the order of its bytes.
fn surround(made: &Identifier, around: Option<[NoOfBits; 2]>, order: BitOrder) -> Outcome<()> {
    if let Some(around) = around {
        let [low, high] = around.map(padding);
        // SAFETY: the handle is a type of our own, here and below.
        check(unsafe { H5Tset_pad(made.id(), low, high) })?;
    }
    let order = match order {
        BitOrder::Little => H5T_order_t::H5T_ORDER_LE,
        BitOrder::Big => H5T_order_t::H5T_ORDER_BE,
        BitOrder::Vax => H5T_order_t::H5T_ORDER_VAX,
    };
    // SAFETY: as above.
    check(unsafe { H5Tset_order(made.id(), order) }).map(drop)
}

fn padding(of: NoOfBits) -> H5T_pad_t {
    match of {
        NoOfBits::Zero => H5T_pad_t::H5T_PAD_ZERO,
        NoOfBits::One => H5T_pad_t::H5T_PAD_ONE,
        NoOfBits::Background => H5T_pad_t::H5T_PAD_BACKGROUND,
    }
}

fn float(stated: &StoredFloat) -> Outcome<Identifier> {
    let made = copy(*H5T_IEEE_F64LE)?;
    let (id, size) = (made.id(), fits(stated.size)?);
    let bits = size.saturating_mul(8);
    if size > 8 {
        // SAFETY: the handle is a type of our own; the library checks the numbers, here and below.
        check(unsafe { H5Tset_size(id, size) })?;
        // SAFETY: as above.
        check(unsafe { H5Tset_precision(id, bits) })?;
    }
    let [exponent, exponents] = stated.exponent.map(|bits| bits as usize);
    let [mantissa, mantissas] = stated.mantissa.map(|bits| bits as usize);
    let sign = stated.sign as usize;
    // SAFETY: as above.
    check(unsafe { H5Tset_fields(id, sign, exponent, exponents, mantissa, mantissas) })?;
    if size < 8 {
        // SAFETY: as above.
        check(unsafe { H5Tset_precision(id, bits) })?;
        // SAFETY: as above.
        check(unsafe { H5Tset_size(id, size) })?;
    }
    let norm = match stated.norm {
        FloatNorm::Implied => H5T_norm_t::H5T_NORM_IMPLIED,
        FloatNorm::MsbSet => H5T_norm_t::H5T_NORM_MSBSET,
        FloatNorm::None => H5T_norm_t::H5T_NORM_NONE,
    };
    let inner = padding(stated.inner.unwrap_or(NoOfBits::Zero));
    // SAFETY: as above.
    check(unsafe { H5Tset_ebias(id, fits(stated.bias)?) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_precision(id, stated.precision as usize) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_offset(id, stated.offset as usize) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_norm(id, norm) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_inpad(id, inner) })?;
    surround(&made, stated.padding, stated.byte_order)?;
    Ok(made)
}

fn string(size: Option<u64>, padding: Padding, charset: Charset) -> Outcome<Identifier> {
    let made = copy(*H5T_C_S1)?;
    let (id, size) = (made.id(), size.map_or(Ok(H5T_VARIABLE), fits)?);
    let padding = match padding {
        Padding::Terminated => H5T_str_t::H5T_STR_NULLTERM,
        Padding::Zeros => H5T_str_t::H5T_STR_NULLPAD,
        Padding::Spaces => H5T_str_t::H5T_STR_SPACEPAD,
    };
    let charset = match charset {
        Charset::Ascii => H5T_cset_t::H5T_CSET_ASCII,
        Charset::Utf8 => H5T_cset_t::H5T_CSET_UTF8,
    };
    // SAFETY: the handle is a string type of our own, here and below.
    check(unsafe { H5Tset_size(id, size) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_strpad(id, padding) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_cset(id, charset) })?;
    Ok(made)
}

fn opaque(size: u64, tag: &str) -> Outcome<Identifier> {
    let (made, tag) = (sized(H5T_class_t::H5T_OPAQUE, size)?, c_name(tag)?);
    // SAFETY: the handle is a type of our own, the tag is NUL-terminated.
    check(unsafe { H5Tset_tag(made.id(), tag.as_ptr()) })?;
    Ok(made)
}
