//! Every type of which values are shown can be made again, and is the same.

use hdf5_sys::h5t::*;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::container::hdf5::library::identifier::Identifier;
use crate::container::hdf5::library::{new_type, types};
use crate::container::stored::StoredType;

// SAFETY: the library's own, of which its bindings do not know yet.
unsafe extern "C" {
    static H5T_IEEE_F16LE_g: hdf5_sys::h5i::hid_t;
    static H5T_IEEE_F16BE_g: hdf5_sys::h5i::hid_t;
    static H5T_FLOAT_F6E2M3_g: hdf5_sys::h5i::hid_t;
    static H5T_FLOAT_F6E3M2_g: hdf5_sys::h5i::hid_t;
    static H5T_FLOAT_F4E2M1_g: hdf5_sys::h5i::hid_t;
}

/// The type that is made of what is told of another.
fn again(of: &Identifier) -> (String, std::result::Result<Identifier, String>) {
    let told = json!(types::describe(of).unwrap()).to_string();
    (told.clone(), made(&told, of))
}

/// No type here is committed: none is looked for in a file.
fn made(told: &str, none: &Identifier) -> std::result::Result<Identifier, String> {
    let told: StoredType = serde_json::from_str(told).unwrap();
    new_type::make(&told, none)
}

#[track_caller]
fn assert_again(of: &Identifier) {
    let (told, made) = again(of);
    let made = made.unwrap_or_else(|why| panic!("{told}: {why}"));
    // SAFETY: both are datatypes.
    assert!(unsafe { H5Tequal(of.id(), made.id()) } > 0, "{told}");
}

#[test]
fn the_types_of_the_library_are_made_again() {
    start().unwrap();
    let _lock = hdf5_sys::LOCK.lock();
    let known = [
        *H5T_STD_I8BE,
        *H5T_STD_I16LE,
        *H5T_STD_I32BE,
        *H5T_STD_I64LE,
        *H5T_STD_U8LE,
        *H5T_STD_U16BE,
        *H5T_STD_U32LE,
        *H5T_STD_U64BE,
        *H5T_STD_B8LE,
        *H5T_STD_B16BE,
        *H5T_STD_B32LE,
        *H5T_STD_B64BE,
        *H5T_IEEE_F32BE,
        *H5T_IEEE_F32LE,
        *H5T_IEEE_F64BE,
        *H5T_IEEE_F64LE,
        *H5T_FLOAT_BFLOAT16BE,
        *H5T_FLOAT_BFLOAT16LE,
        *H5T_FLOAT_F8E4M3,
        *H5T_FLOAT_F8E5M2,
        *H5T_VAX_F32,
        *H5T_VAX_F64,
        *H5T_NATIVE_LDOUBLE,
        *H5T_COMPLEX_IEEE_F16BE,
        *H5T_COMPLEX_IEEE_F32LE,
        *H5T_COMPLEX_IEEE_F64BE,
        *H5T_NATIVE_LDOUBLE_COMPLEX,
        *H5T_C_S1,
        *H5T_FORTRAN_S1,
    ];
    // SAFETY: set by the library when it starts.
    let more = unsafe {
        let halves = [H5T_IEEE_F16LE_g, H5T_IEEE_F16BE_g];
        let small = [H5T_FLOAT_F6E2M3_g, H5T_FLOAT_F6E3M2_g, H5T_FLOAT_F4E2M1_g];
        halves.into_iter().chain(small)
    };
    for known in known.into_iter().chain(more) {
        // SAFETY: a datatype of the library's.
        assert_again(&Identifier::new(unsafe { H5Tcopy(known) }).unwrap());
    }
}

/// A float of any layout: size, precision, offset, and its fields one after another in some order.
fn floats() -> impl Strategy<Value = Value> {
    let sizes = (
        1u64..=16,
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
    );
    let fields = (any::<prop::sample::Index>(), 0..3usize, any::<u16>());
    let told = (prop::sample::select(vec!["LE", "BE"]), 0..3usize, 0..3usize);
    (sizes, fields, told).prop_map(
        |((size, precise, off), (split, turn, bias), (order, norm, pad))| {
            let bits = 8 * size as usize;
            let precision = 3 + precise.index(bits - 2);
            let offset = off.index(bits - precision + 1);
            // HDF5 holds an exponent in a machine word.
            let exponents = (1 + split.index(precision - 2)).min(30);
            let mantissas = precision - 1 - exponents;
            let mut places = [
                ("sign", 1),
                ("exponent", exponents),
                ("mantissa", mantissas),
            ];
            places.rotate_left(turn);
            let mut told = json!({
                "class": "H5T_FLOAT", "size": size, "byte_order": order, "precision": precision,
                "offset": offset, "bias": u64::from(bias) % (1 << exponents.min(14)),
                "norm": (["implied", "msbset", "none"][norm]),
            });
            let mut at = 0;
            for (name, len) in places {
                told[name] = match name {
                    "sign" => json!(at),
                    _ => json!([at, len]),
                };
                at += len;
            }
            let names = ["zero", "one", "background"];
            told["inner"] = json!(names[pad]);
            told["padding"] = json!([names[(pad + 1) % 3], names[pad]]);
            told
        },
    )
}

proptest! {
    #[test]
    fn floats_of_any_layout_are_made_again(told in floats()) {
        start().unwrap();
        let _lock = hdf5_sys::LOCK.lock();
        // SAFETY: a datatype of the library's.
        let none = Identifier::new(unsafe { H5Tcopy(*H5T_STD_I8LE) }).unwrap();
        let made = made(&told.to_string(), &none);
        let made = made.map_err(|why| TestCaseError::fail(format!("{told}: {why}")))?;
        assert_again(&made);
    }
}
