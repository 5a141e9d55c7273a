//! Types as NumPy spells them, and conversions against straightforward ones.

mod store;

use super::*;
use crate::container::names;
use crate::container::stored::StoredFloat;
use proptest::prelude::*;

fn order(big_endian: bool) -> BitOrder {
    match big_endian {
        true => BitOrder::Big,
        false => BitOrder::Little,
    }
}

fn int(size: u64, big_endian: bool, signed: bool) -> StoredInteger {
    StoredInteger::whole(size, order(big_endian), signed)
}

fn float(name: &str) -> StoredFloat {
    match StoredType::called(name) {
        StoredType::Float(float) => float,
        other => panic!("{other:?}"),
    }
}

fn big_double() -> StoredType {
    StoredType::called("H5T_IEEE_F64BE")
}

fn little(size: u64) -> StoredType {
    StoredType::called(&format!("H5T_IEEE_F{}LE", 8 * size))
}

fn member(name: &str, offset: u64, element: StoredType) -> (String, u64, StoredType) {
    (name.into(), offset, element)
}

fn compound(size: u64, members: Vec<(String, u64, StoredType)>) -> StoredType {
    StoredType::Compound { size, members }
}

fn descr(of: &StoredType) -> String {
    Element::of(of)
        .unwrap()
        .dtype
        .npy_descr()
        .trim_matches('\'')
        .to_owned()
}

fn refused(of: &StoredType) -> String {
    Element::of(of).unwrap_err()
}

fn convert(of: &StoredType, stored: &[u8]) -> Vec<u8> {
    let element = Element::of(of).unwrap();
    let count = stored.len() / element.stored as usize;
    let mut shown = vec![0; count * element.shown as usize];
    element.cast.run(stored, &mut shown);
    shown
}

fn string(size: u64, padding: Padding) -> StoredType {
    StoredType::fixed(size, padding)
}

#[test]
fn padding_of_strings_becomes_nuls() {
    let stored = b"ab  ef\0xa\0\0\0    ";
    for (padding, shown) in [
        (Padding::Zeros, stored),
        (Padding::Terminated, b"ab  ef\0\0a\0\0\0    "),
        (Padding::Spaces, b"ab\0\0ef\0xa\0\0\0\0\0\0\0"),
    ] {
        assert_eq!(convert(&string(4, padding), stored), shown);
    }
    assert_eq!(convert(&string(1, Padding::Terminated), b"a\0 b"), b"a\0 b");
    assert_eq!(convert(&string(1, Padding::Spaces), b"a\0 b"), b"a\0\0b");
}

#[test]
fn simple_types_are_spelled_as_numpy_does() {
    assert_eq!(descr(&StoredType::Integer(int(1, true, true))), "|i1");
    assert_eq!(descr(&StoredType::Integer(int(8, true, false))), "<u8");
    assert_eq!(descr(&StoredType::BitField(int(2, false, true))), "<u2");
    assert_eq!(descr(&StoredType::called("H5T_IEEE_F16BE")), "<f2");
    assert_eq!(descr(&StoredType::called("H5T_COMPLEX_IEEE_F64BE")), "<c16");
    assert_eq!(descr(&string(9, Padding::Spaces)), "|S9");
    assert_eq!(descr(&StoredType::opaque(5)), "|V5");
}

#[test]
fn booleans_are_enumerations_of_false_and_true() {
    let of = |base, names: &[(&str, u8)]| {
        let members = names.iter();
        let members = members.map(|(name, value)| ((*name).to_owned(), (*value).into()));
        descr(&StoredType::Enumeration {
            base: Box::new(StoredType::Integer(base)),
            members: members.collect(),
        })
    };
    let byte = int(1, false, true);
    assert_eq!(of(byte, &[("TRUE", 1), ("FALSE", 0)]), "|b1");
    assert_eq!(of(byte, &[("TRUE", 0), ("FALSE", 1)]), "|i1");
    assert_eq!(of(byte, &[("FALSE", 0), ("TRUE", 1), ("NA", 2)]), "|i1");
    assert_eq!(of(int(2, true, false), &[("FALSE", 0), ("TRUE", 1)]), "<u2");
}

#[test]
fn unusual_floats_are_raw_bytes() {
    let bfloat = StoredType::called("H5T_FLOAT_BFLOAT16LE");
    assert_eq!(descr(&bfloat), "|V2");
    assert_eq!(descr(&StoredType::called("H5T_VAX_F64")), "|V8");
    let base = Box::new(bfloat);
    assert!(refused(&StoredType::Complex { base }).contains("complex"));
    let x87 = StoredFloat {
        size: 16,
        precision: 80,
        sign: 79,
        exponent: [64, 15],
        mantissa: [0, 64],
        bias: 16383,
        ..float("H5T_IEEE_F64LE")
    };
    assert_eq!(descr(&StoredType::Float(x87)), "<f16");
    let big = StoredFloat {
        byte_order: BitOrder::Big,
        ..x87
    };
    assert_eq!(descr(&StoredType::Float(big)), "|V16");
}

#[test]
fn array_types_add_dimensions() {
    let inner = StoredType::Array {
        dims: vec![4],
        base: Box::new(StoredType::Integer(int(2, true, true))),
    };
    let outer = StoredType::Array {
        dims: vec![2, 3],
        base: Box::new(inner),
    };
    let element = Element::of(&outer).unwrap();
    assert_eq!(
        (&element.dims[..], element.stored, element.shown),
        (&[2, 3, 4][..], 48, 48)
    );
    assert_eq!(element.dtype.itemsize(), Some(2));
    for dims in [vec![0], vec![u64::MAX, 2], vec![1; 65], vec![1 << 32]] {
        let base = Box::new(StoredType::opaque(1));
        assert!(refused(&StoredType::Array { dims, base }).contains("array type"));
    }
}

#[test]
fn compounds_are_packed_in_the_order_of_their_bytes() {
    let nested = compound(8, vec![member("x", 4, little(4))]);
    let array = StoredType::Array {
        dims: vec![3],
        base: Box::new(StoredType::Integer(int(2, true, true))),
    };
    let of = compound(
        24,
        vec![
            member("n", 16, nested),
            member("a", 0, StoredType::Integer(int(4, false, true))),
            member("it's", 6, array),
        ],
    );
    let expected = "[('a', '<i4'), ('it\\'s', '<i2', (3,)), ('n', [('x', '<f4')])]";
    assert_eq!(descr(&of), expected);
    let stored: Vec<u8> = (0..24).collect();
    let shown = [0, 1, 2, 3, 7, 6, 9, 8, 11, 10, 20, 21, 22, 23];
    assert_eq!(convert(&of, &stored), shown);
    assert_eq!(convert(&of, &stored.repeat(3)), shown.repeat(3));
}

#[test]
fn a_packed_compound_is_shown_as_it_is() {
    let of = compound(
        12,
        vec![member("b", 4, little(8)), member("a", 0, little(4))],
    );
    let element = Element::of(&of).unwrap();
    assert!(element.cast.is_same());
    assert_eq!(element.dtype.npy_descr(), "[('a', '<f4'), ('b', '<f8')]");
}

#[test]
fn two_floats_named_r_and_i_are_complex() {
    let pair = |a: &str, b: &str, at, size| {
        compound(
            size,
            vec![member(a, 0, little(4)), member(b, at, little(4))],
        )
    };
    assert_eq!(descr(&pair("r", "i", 4, 8)), "<c8");
    assert_eq!(descr(&pair("real", "imag", 4, 8)), "<c8");
    assert_eq!(
        descr(&pair("r", "i", 8, 12)),
        "[('r', '<f4'), ('i', '<f4')]"
    );
    assert_eq!(descr(&pair("i", "r", 4, 8)), "[('i', '<f4'), ('r', '<f4')]");
    let big = big_double();
    let big = compound(16, vec![member("r", 0, big.clone()), member("i", 8, big)]);
    let stored = [1.5f64.to_be_bytes(), 2.5f64.to_be_bytes()].concat();
    let shown = [1.5f64.to_le_bytes(), 2.5f64.to_le_bytes()].concat();
    assert_eq!(convert(&big, &stored), shown);
}

#[test]
fn names_become_literals_of_ascii() {
    let of = |name: &[u8]| {
        let only = member(&names::escape(name), 0, little(4));
        descr(&compound(4, vec![only]))
    };
    assert_eq!(of("é\n".as_bytes()), "[('\\xe9\\x0a', '<f4')]");
    assert_eq!(
        of("\\日𝄞".as_bytes()),
        "[('\\\\\\u65e5\\U0001d11e', '<f4')]"
    );
    assert_eq!(of(b"a\xff"), "[('a\\udcff', '<f4')]");
}

#[test]
fn broken_compounds_are_refused() {
    let pair = |first, second, size| {
        compound(
            size,
            vec![
                member("x", first, little(4)),
                member("y", second, little(4)),
            ],
        )
    };
    assert!(refused(&compound(0, vec![])).contains("0 members"));
    assert!(refused(&compound(8, vec![])).contains("0 members"));
    assert!(refused(&pair(0, 3, 8)).contains("overlaps"));
    assert!(refused(&pair(0, 5, 8)).contains("outside"));
    assert!(refused(&pair(0, u64::MAX, 8)).contains("outside"));
    let twice = vec![member("x", 0, little(4)), member("x", 4, little(4))];
    assert!(refused(&compound(8, twice)).contains("two members"));
}

#[test]
fn what_points_elsewhere_is_refused_by_name() {
    let other = StoredType::named("H5T_STD_REF_OBJ");
    assert_eq!(refused(&other), "elements of type reference");
    let of = |element| refused(&compound(16, vec![member("x", 0, element)]));
    assert_eq!(of(other), "a compound with reference in member 'x'");
    let strings = "a compound with variable-length strings in member 'x'";
    assert_eq!(of(StoredType::TEXT), strings);
}

#[test]
fn odd_sizes_are_refused() {
    assert!(refused(&StoredType::Integer(int(3, false, false))).contains("3 bytes"));
    assert!(refused(&string(0, Padding::Terminated)).contains("0 bytes"));
    assert!(refused(&StoredType::opaque(1 << 32)).contains("bytes"));
    for (precision, offset) in [(0, 0), (9, 8), (17, 0), (1, u32::MAX)] {
        let odd = StoredInteger {
            precision,
            offset,
            ..int(2, false, false)
        };
        assert!(refused(&StoredType::Integer(odd)).contains("bits"));
    }
}

#[test]
fn deep_types_are_refused() {
    let mut deep = StoredType::opaque(1);
    for _ in 0..=TYPE_DEPTH_MOST {
        deep = compound(1, vec![member("x", 0, deep)]);
    }
    assert!(refused(&deep).contains("deeply"));
}

proptest! {
    #[test]
    fn integers_keep_their_value(
        raw in prop::collection::vec(any::<u64>(), 0..40),
        log in 0u32..4,
        big_endian: bool,
        signed: bool,
        (a, b) in (0u32..64, 0u32..64),
    ) {
        let size = 1usize << log;
        let width = 8 * size as u32;
        let offset = a % width;
        let precision = 1 + b % (width - offset);
        let of = StoredType::Integer(StoredInteger {
            precision,
            offset,
            ..int(size as u64, big_endian, signed)
        });
        let mut stored = Vec::new();
        let mut shown = Vec::new();
        for number in raw {
            let bytes = &number.to_le_bytes()[..size];
            stored.extend_from_slice(bytes);
            if big_endian {
                let end = stored.len();
                stored[end - size..].reverse();
            }
            let mut value = i128::from(number >> offset) & ((1 << precision) - 1);
            if signed && value >= 1 << (precision - 1) {
                value -= 1 << precision;
            }
            shown.extend_from_slice(&value.to_le_bytes()[..size]);
        }
        prop_assert_eq!(convert(&of, &stored), shown);
    }

    #[test]
    fn big_endian_numbers_are_turned_round(numbers in prop::collection::vec(any::<f64>(), 0..99)) {
        let of = big_double();
        let stored: Vec<u8> = numbers.iter().flat_map(|x| x.to_be_bytes()).collect();
        let shown: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        prop_assert_eq!(convert(&of, &stored), shown);
    }
}
