//! Datatypes made of what `arrays.json` calls them: the way back of [`super::types`].
//!
//! The text comes from a user: depth and number of parts are bounded here, and whether a type can
//! be is the library's judgement. Used by [`super::editing`].

use std::ffi::CString;

use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5o::H5Oopen;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5t::{
    H5T_C_S1, H5T_FLOAT_F8E4M3, H5T_FLOAT_F8E5M2, H5T_IEEE_F64LE, H5T_STD_B64LE, H5T_STD_I64LE,
    H5T_STD_U64LE, H5T_VARIABLE, H5T_VAX_F32, H5T_VAX_F64, H5T_class_t, H5T_cset_t, H5T_norm_t,
    H5T_order_t, H5T_pad_t, H5T_str_t, H5Tarray_create2, H5Tcomplex_create, H5Tcopy, H5Tcreate,
    H5Tenum_create, H5Tenum_insert, H5Tget_size, H5Tinsert, H5Tset_cset, H5Tset_ebias,
    H5Tset_fields, H5Tset_inpad, H5Tset_norm, H5Tset_offset, H5Tset_order, H5Tset_pad,
    H5Tset_precision, H5Tset_size, H5Tset_strpad, H5Tset_tag, H5Tvlen_create,
};
use serde_json::Value as Json;

use super::from_json::ValueMaker;
use super::identifier::{Identifier, Outcome, check};
use crate::container::hdf5::index::TYPE_DEPTH_MOST;
use crate::container::names;

/// Members of compounds and enumerations in one type, all levels together.
const PARTS_MOST: usize = 100_000;

/// The type that a text stands for; one that is committed is looked for in `file`.
pub(super) fn make(text: &str, file: &Identifier) -> Outcome<Identifier> {
    let described: Json = serde_json::from_str(text).map_err(|e| format!("a type: {e}"))?;
    let mut maker = TypeMaker {
        parts: PARTS_MOST,
        file,
    };
    maker.make(&described, 0)
}

struct TypeMaker<'a> {
    parts: usize,
    file: &'a Identifier,
}

impl TypeMaker<'_> {
    fn make(&mut self, described: &Json, depth: u32) -> Outcome<Identifier> {
        if depth >= TYPE_DEPTH_MOST {
            return Err("a type nested too deeply".into());
        }
        if let Some(name) = described.as_str() {
            return named(name);
        }
        let base = |maker: &mut Self| maker.make(field(described, "base")?, depth + 1);
        match text(described, "class")? {
            "H5T_INTEGER" => integer(described, described["signed"].as_bool().unwrap_or(false)),
            "H5T_BITFIELD" => bit_field(described),
            "H5T_FLOAT" => float(described),
            "H5T_STRING" => string(described),
            "H5T_OPAQUE" => opaque(described),
            "H5T_COMPLEX" => {
                let base = base(self)?;
                // SAFETY: the handle is a datatype.
                Identifier::new(unsafe { H5Tcomplex_create(base.id()) })
            }
            "H5T_VLEN" => {
                let base = base(self)?;
                // SAFETY: the handle is a datatype.
                Identifier::new(unsafe { H5Tvlen_create(base.id()) })
            }
            "H5T_ARRAY" => {
                let (base, dims) = (base(self)?, dims(described)?);
                // SAFETY: the handle is a datatype, and there are as many dimensions as is said.
                Identifier::new(unsafe {
                    H5Tarray_create2(base.id(), dims.len() as u32, dims.as_ptr())
                })
            }
            "H5T_ENUM" => {
                let base = base(self)?;
                self.enumeration(described, &base)
            }
            "H5T_COMPOUND" => self.compound(described, depth),
            "H5T_COMMITTED" => self.committed(described),
            other => Err(format!("a type of class {other}")),
        }
    }

    fn take(&mut self, parts: usize) -> Outcome<()> {
        let left = self.parts.checked_sub(parts);
        self.parts = left.ok_or("a type of too many parts")?;
        Ok(())
    }

    fn enumeration(&mut self, described: &Json, base: &Identifier) -> Outcome<Identifier> {
        // SAFETY: the handle is a datatype.
        let made = Identifier::new(unsafe { H5Tenum_create(base.id()) })?;
        let members = list(described, "members")?;
        self.take(members.len())?;
        for member in members {
            let name = c_name(member[0].as_str().ok_or("a member without a name")?)?;
            let value = ValueMaker::default().values(base, &[], &member[1])?;
            // SAFETY: the value has the size of the base type.
            check(unsafe { H5Tenum_insert(made.id(), name.as_ptr(), value.as_ptr().cast()) })?;
        }
        Ok(made)
    }

    fn compound(&mut self, described: &Json, depth: u32) -> Outcome<Identifier> {
        let made = sized(H5T_class_t::H5T_COMPOUND, number(described, "size")?)?;
        let members = list(described, "members")?;
        self.take(members.len())?;
        for member in members {
            let name = c_name(member[0].as_str().ok_or("a member without a name")?)?;
            let offset = member[1].as_u64().ok_or("a member without a place")?;
            let element = self.make(&member[2], depth + 1)?;
            // SAFETY: both are datatypes; the library checks that the member has room.
            check(unsafe { H5Tinsert(made.id(), name.as_ptr(), offset as usize, element.id()) })?;
        }
        Ok(made)
    }

    fn committed(&self, described: &Json) -> Outcome<Identifier> {
        let path = names::path_of(text(described, "name")?);
        let path = CString::new(path.into_os_string().into_encoded_bytes());
        let path = path.map_err(|e| e.to_string())?;
        // SAFETY: the handle is a file, the path is NUL-terminated.
        Identifier::new(unsafe { H5Oopen(self.file.id(), path.as_ptr(), H5P_DEFAULT) })
    }
}

fn field<'a>(described: &'a Json, key: &str) -> Outcome<&'a Json> {
    described
        .get(key)
        .ok_or_else(|| format!("a type without {key}"))
}

fn text<'a>(described: &'a Json, key: &str) -> Outcome<&'a str> {
    let found = field(described, key)?.as_str();
    found.ok_or_else(|| format!("a type whose {key} is no text"))
}

fn number(described: &Json, key: &str) -> Outcome<usize> {
    let found = field(described, key)?.as_u64().map(usize::try_from);
    match found {
        Some(Ok(number)) => Ok(number),
        _ => Err(format!("a type whose {key} is no number")),
    }
}

fn list<'a>(described: &'a Json, key: &str) -> Outcome<&'a [Json]> {
    let found = field(described, key)?.as_array();
    found
        .map(Vec::as_slice)
        .ok_or_else(|| format!("a type whose {key} is no list"))
}

fn numbers<const N: usize>(described: &Json, key: &str) -> Outcome<[usize; N]> {
    let found = list(described, key)?.iter();
    let found: Option<Vec<usize>> = found.map(|n| n.as_u64().map(|n| n as usize)).collect();
    let found = found.and_then(|found| found.try_into().ok());
    found.ok_or_else(|| format!("a type whose {key} are no {N} numbers"))
}

fn dims(described: &Json) -> Outcome<Vec<u64>> {
    let found: Option<Vec<u64>> = list(described, "dims")?.iter().map(Json::as_u64).collect();
    found.ok_or_else(|| "an array type without dimensions".into())
}

/// A name that is escaped.
fn c_name(shown: &str) -> Outcome<CString> {
    CString::new(names::unescaped(shown)).map_err(|e| e.to_string())
}

fn copy(of: hid_t) -> Outcome<Identifier> {
    // SAFETY: a datatype of the library's.
    Identifier::new(unsafe { H5Tcopy(of) })
}

fn sized(class: H5T_class_t, size: usize) -> Outcome<Identifier> {
    // SAFETY: makes a new type; the library checks the size.
    Identifier::new(unsafe { H5Tcreate(class, size) })
}

/// `H5T_STD_I32BE`, `H5T_IEEE_F64LE` and the like.
fn named(name: &str) -> Outcome<Identifier> {
    let unknown = || format!("a type named {name}");
    match name {
        "H5T_VAX_F32" => return copy(*H5T_VAX_F32),
        "H5T_VAX_F64" => return copy(*H5T_VAX_F64),
        "H5T_FLOAT_F8E4M3" => return copy(*H5T_FLOAT_F8E4M3),
        "H5T_FLOAT_F8E5M2" => return copy(*H5T_FLOAT_F8E5M2),
        _ => {}
    }
    let parsed = name.strip_prefix("H5T_").and_then(|rest| {
        let (rest, big_endian) = match rest.strip_suffix("LE") {
            Some(rest) => (rest, false),
            None => (rest.strip_suffix("BE")?, true),
        };
        let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        let bits: usize = digits.parse().ok()?;
        Some((&rest[..rest.len() - digits.len()], bits, big_endian))
    });
    let (kind, bits, big_endian) = parsed.ok_or_else(unknown)?;
    let made = match (kind, bits) {
        ("STD_I", 8 | 16 | 32 | 64) => whole(*H5T_STD_I64LE, bits / 8)?,
        ("STD_U", 8 | 16 | 32 | 64) => whole(*H5T_STD_U64LE, bits / 8)?,
        ("STD_B", 8 | 16 | 32 | 64) => whole(*H5T_STD_B64LE, bits / 8)?,
        ("IEEE_F" | "COMPLEX_IEEE_F", 16) => layout(2, [15, 10, 5, 0, 10], 15)?,
        ("IEEE_F" | "COMPLEX_IEEE_F", 32) => layout(4, [31, 23, 8, 0, 23], 127)?,
        ("IEEE_F" | "COMPLEX_IEEE_F", 64) => layout(8, [63, 52, 11, 0, 52], 1023)?,
        ("FLOAT_BFLOAT", 16) => layout(2, [15, 7, 8, 0, 7], 127)?,
        _ => return Err(unknown()),
    };
    if big_endian {
        order(&made, H5T_order_t::H5T_ORDER_BE)?;
    }
    match kind.starts_with("COMPLEX") {
        // SAFETY: the handle is a datatype.
        true => Identifier::new(unsafe { H5Tcomplex_create(made.id()) }),
        false => Ok(made),
    }
}

fn order(of: &Identifier, order: H5T_order_t) -> Outcome<()> {
    // SAFETY: the handle is a type of our own.
    check(unsafe { H5Tset_order(of.id(), order) }).map(drop)
}

fn told_order(described: &Json) -> Outcome<H5T_order_t> {
    match described["byte_order"].as_str() {
        None | Some("LE") => Ok(H5T_order_t::H5T_ORDER_LE),
        Some("BE") => Ok(H5T_order_t::H5T_ORDER_BE),
        Some("VAX") => Ok(H5T_order_t::H5T_ORDER_VAX),
        Some(other) => Err(format!("a byte order {other}")),
    }
}

/// A copy of a number type in so many bytes, all of which count.
fn whole(of: hid_t, size: usize) -> Outcome<Identifier> {
    let made = copy(of)?;
    // SAFETY: the handle is a type of our own.
    check(unsafe { H5Tset_size(made.id(), size) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_precision(made.id(), size.saturating_mul(8)) })?;
    Ok(made)
}

fn integer(described: &Json, signed: bool) -> Outcome<Identifier> {
    let of = if signed {
        *H5T_STD_I64LE
    } else {
        *H5T_STD_U64LE
    };
    partial(described, of)
}

fn bit_field(described: &Json) -> Outcome<Identifier> {
    partial(described, *H5T_STD_B64LE)
}

/// Of the bits of which some count.
fn partial(described: &Json, of: hid_t) -> Outcome<Identifier> {
    let made = whole(of, number(described, "size")?)?;
    let (precision, offset) = (
        number(described, "precision")?,
        number(described, "offset")?,
    );
    // SAFETY: the handle is a type of our own; the library checks the numbers.
    check(unsafe { H5Tset_precision(made.id(), precision) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_offset(made.id(), offset) })?;
    pad(&made, described)?;
    order(&made, told_order(described)?)?;
    Ok(made)
}

fn pad(made: &Identifier, described: &Json) -> Outcome<()> {
    let Some([low, high]) = described["padding"].as_array().map(Vec::as_slice) else {
        return Ok(());
    };
    let (low, high) = (padding(low.as_str())?, padding(high.as_str())?);
    // SAFETY: the handle is a type of our own.
    check(unsafe { H5Tset_pad(made.id(), low, high) }).map(drop)
}

fn padding(described: Option<&str>) -> Outcome<H5T_pad_t> {
    match described {
        None | Some("zero") => Ok(H5T_pad_t::H5T_PAD_ZERO),
        Some("one") => Ok(H5T_pad_t::H5T_PAD_ONE),
        Some("background") => Ok(H5T_pad_t::H5T_PAD_BACKGROUND),
        Some(other) => Err(format!("bits padded with {other}")),
    }
}

/// A float of so many bytes: where sign, exponent and mantissa lie, and how long they are.
fn layout(size: usize, fields: [usize; 5], bias: usize) -> Outcome<Identifier> {
    let made = copy(*H5T_IEEE_F64LE)?;
    let bits = size.saturating_mul(8);
    if size > 8 {
        // SAFETY: the handle is a type of our own; the library checks the numbers, here and below.
        check(unsafe { H5Tset_size(made.id(), size) })?;
        // SAFETY: as above.
        check(unsafe { H5Tset_precision(made.id(), bits) })?;
    }
    let [sign, exponent, exponents, mantissa, mantissas] = fields;
    let id = made.id();
    // SAFETY: as above.
    check(unsafe { H5Tset_fields(id, sign, exponent, exponents, mantissa, mantissas) })?;
    if size < 8 {
        // SAFETY: as above.
        check(unsafe { H5Tset_precision(id, bits) })?;
        // SAFETY: as above.
        check(unsafe { H5Tset_size(id, size) })?;
    }
    // SAFETY: as above.
    check(unsafe { H5Tset_ebias(id, bias) })?;
    Ok(made)
}

fn float(described: &Json) -> Outcome<Identifier> {
    let [exponent, exponents] = numbers(described, "exponent")?;
    let [mantissa, mantissas] = numbers(described, "mantissa")?;
    let fields = [
        number(described, "sign")?,
        exponent,
        exponents,
        mantissa,
        mantissas,
    ];
    let made = layout(
        number(described, "size")?,
        fields,
        number(described, "bias")?,
    )?;
    let (precision, offset) = (
        number(described, "precision")?,
        number(described, "offset")?,
    );
    let norm = match described["norm"].as_str() {
        None | Some("implied") => H5T_norm_t::H5T_NORM_IMPLIED,
        Some("msbset") => H5T_norm_t::H5T_NORM_MSBSET,
        Some("none") => H5T_norm_t::H5T_NORM_NONE,
        Some(other) => return Err(format!("a float of form {other}")),
    };
    let (id, inner) = (made.id(), padding(described["inner"].as_str())?);
    // SAFETY: the handle is a type of our own; the library checks the numbers, here and below.
    check(unsafe { H5Tset_precision(id, precision) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_offset(id, offset) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_norm(id, norm) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_inpad(id, inner) })?;
    pad(&made, described)?;
    order(&made, told_order(described)?)?;
    Ok(made)
}

fn string(described: &Json) -> Outcome<Identifier> {
    let made = copy(*H5T_C_S1)?;
    let size = match described.get("size") {
        None => H5T_VARIABLE,
        Some(_) => number(described, "size")?,
    };
    let padding = match described["padding"].as_str() {
        None | Some("NULLTERM") => H5T_str_t::H5T_STR_NULLTERM,
        Some("NULLPAD") => H5T_str_t::H5T_STR_NULLPAD,
        Some("SPACEPAD") => H5T_str_t::H5T_STR_SPACEPAD,
        Some(other) => return Err(format!("strings padded with {other}")),
    };
    let charset = match described["charset"].as_str() {
        Some("ASCII") => H5T_cset_t::H5T_CSET_ASCII,
        None | Some("UTF-8") => H5T_cset_t::H5T_CSET_UTF8,
        Some(other) => return Err(format!("strings of {other}")),
    };
    let id = made.id();
    // SAFETY: the handle is a string type of our own, here and below.
    check(unsafe { H5Tset_size(id, size) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_strpad(id, padding) })?;
    // SAFETY: as above.
    check(unsafe { H5Tset_cset(id, charset) })?;
    Ok(made)
}

fn opaque(described: &Json) -> Outcome<Identifier> {
    let made = sized(H5T_class_t::H5T_OPAQUE, number(described, "size")?)?;
    let tag = c_name(described["tag"].as_str().unwrap_or_default())?;
    // SAFETY: the handle is a type of our own, the tag is NUL-terminated.
    check(unsafe { H5Tset_tag(made.id(), tag.as_ptr()) })?;
    Ok(made)
}

/// Bytes of an element.
pub(super) fn size(of: &Identifier) -> usize {
    // SAFETY: the handle is a datatype.
    unsafe { H5Tget_size(of.id()) }
}
