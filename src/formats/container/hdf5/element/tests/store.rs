//! Shown values stored again: what was stored comes out as it was shown, and what is not shown is
//! left alone.

use super::*;

/// Stores into bytes that were all ones.
fn stored(of: &StoredType, shown: &[u8]) -> Result<Vec<u8>, u64> {
    let element = Element::of(of).unwrap();
    let count = shown.len() / element.shown as usize;
    let mut stored = vec![0xff; count * element.stored as usize];
    element.store(shown, &mut stored).map(|()| stored)
}

fn enumeration(base: StoredInteger, values: &[u8]) -> StoredType {
    let members = values.iter();
    let members = members.map(|value| (value.to_string(), (*value).into()));
    StoredType::Enumeration {
        base: Box::new(StoredType::Integer(base)),
        members: members.collect(),
    }
}

fn narrow(signed: bool, big_endian: bool) -> StoredType {
    StoredType::Integer(StoredInteger {
        precision: 7,
        offset: 4,
        ..int(2, big_endian, signed)
    })
}

#[test]
fn a_value_must_fit_its_precision() {
    let bytes = |value: i16| value.to_le_bytes();
    for (signed, least, most) in [(true, -64, 63), (false, 0, 127)] {
        for big_endian in [false, true] {
            let of = narrow(signed, big_endian);
            for value in [least, 0, 1, most] {
                let stored = stored(&of, &bytes(value)).unwrap();
                let mut little = [stored[0], stored[1]];
                if big_endian {
                    little.reverse();
                }
                let expected = 0xf80f | (value.cast_unsigned() & 0x7f) << 4;
                assert_eq!(u16::from_le_bytes(little), expected);
                assert_eq!(convert(&of, &stored), bytes(value));
            }
            for value in [least - 1, most + 1, i16::MIN, i16::MAX] {
                let shown = [bytes(0), bytes(1), bytes(value)].concat();
                assert_eq!(stored(&of, &shown), Err(2));
            }
        }
    }
}

#[test]
fn strings_get_their_padding_back() {
    let shown = b"ab\0\0efgha\0b\0\0\0\0\0";
    for (padding, expected) in [
        (Padding::Zeros, shown),
        (Padding::Terminated, b"ab\0\0efgha\0\0\0\0\0\0\0"),
        (Padding::Spaces, b"ab  efgha\0b     "),
    ] {
        assert_eq!(stored(&string(4, padding), shown).unwrap(), expected);
    }
}

/// As in HDF5 itself, a value of an enumeration need not have a name.
#[test]
fn every_value_of_the_base_type_is_taken() {
    let bools = StoredType::boolean();
    assert_eq!(stored(&bools, &[0, 1, 7, 255]), Ok(vec![0, 1, 7, 255]));
    let of = enumeration(int(2, true, true), &[9, 3]);
    assert_eq!(stored(&of, &[9, 0, 3, 1]), Ok(vec![0, 9, 1, 3]));
    assert_eq!(
        stored(&enumeration(int(1, false, true), &[]), &[8]),
        Ok(vec![8])
    );
    // What the base type has no bits for is none of its values.
    let StoredType::Integer(narrow) = narrow(true, false) else {
        panic!("no integer");
    };
    assert!(Element::of(&enumeration(narrow, &[1])).unwrap().refuses());
}

#[test]
fn it_is_known_what_stays_and_what_is_refused() {
    let known = |of: &StoredType| {
        let element = Element::of(of).unwrap();
        (!element.cast.is_lossless(), element.refuses())
    };
    let swapped = StoredType::Integer(int(4, true, true));
    assert_eq!(known(&little(8)), (false, false));
    assert_eq!(known(&swapped), (false, false));
    assert_eq!(known(&string(4, Padding::Spaces)), (true, false));
    assert_eq!(known(&narrow(true, false)), (true, true));
    let named = enumeration(int(1, false, true), &[1]);
    assert_eq!(known(&named), (false, false));
    let of = |size, element| compound(size, vec![member("x", 0, element)]);
    assert_eq!(known(&of(8, little(8))), (false, false));
    assert_eq!(known(&of(9, little(8))), (true, false));
    assert_eq!(known(&of(4, swapped)), (true, false));
    assert_eq!(known(&of(2, narrow(true, false))), (true, true));
}

/// Types of all kinds that are converted.
fn types() -> impl Strategy<Value = StoredType> {
    let number = (0u32..4, any::<bool>(), any::<bool>(), 0u32..64, 0u32..64);
    let number = number.prop_map(|(log, big_endian, signed, a, b)| {
        let width = 8 << log;
        let offset = a % width * (b % 2);
        let precision = match b % 3 {
            0 => width - offset,
            _ => 1 + b % (width - offset),
        };
        StoredType::Integer(StoredInteger {
            precision,
            offset,
            ..int(1 << log, big_endian, signed)
        })
    });
    let padding = prop_oneof![
        Just(Padding::Zeros),
        Just(Padding::Terminated),
        Just(Padding::Spaces)
    ];
    let leaf = prop_oneof![
        4 => number,
        2 => (1u64..6, padding).prop_map(|(size, padding)| string(size, padding)),
        1 => prop_oneof![Just(big_double()), Just(little(4))],
        1 => any::<bool>().prop_map(|big| enumeration(int(2, big, true), &[0, 1, 5])),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let members = prop::collection::vec((0u64..3, inner.clone()), 1..4);
        let array = (1u64..4, inner).prop_map(|(count, base)| StoredType::Array {
            dims: vec![count],
            base: Box::new(base),
        });
        let compound = (members, 0u64..3).prop_map(|(members, behind)| apart(members, behind));
        prop_oneof![array, compound]
    })
}

/// A compound of members, each behind so many bytes of padding.
fn apart(members: Vec<(u64, StoredType)>, behind: u64) -> StoredType {
    let (mut at, mut placed) = (0, Vec::new());
    for (i, (gap, element)) in members.into_iter().enumerate() {
        let size = Element::of(&element).unwrap().stored;
        placed.push(member(&i.to_string(), at + gap, element));
        at += gap + size;
    }
    compound(at + behind, placed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_stored_is_shown_again_and_the_rest_stays(
        of in types(),
        seed in prop::collection::vec(any::<u8>(), 2000),
        old in prop_oneof![Just(0u8), Just(0xff), Just(0x5a)],
    ) {
        let element = Element::of(&of).unwrap();
        let (from, to) = (element.stored as usize, element.shown as usize);
        let count = (2000 / from.max(to)).min(5);
        // As they are after reading, so that all can be stored.
        let mut shown = vec![0; count * to];
        element.cast.run(&seed[..count * from], &mut shown);
        let (mut new, mut other) = (vec![old; count * from], vec![!old; count * from]);
        element.store(&shown, &mut new).unwrap();
        let mut again = vec![0xaa; count * to];
        element.cast.run(&new, &mut again);
        prop_assert_eq!(again, shown.clone());
        element.store(&shown, &mut other).unwrap();
        // What depends on what was there is as it was there.
        for (new, other) in new.iter().zip(&other) {
            prop_assert_eq!((new ^ other) & (new ^ old), 0);
        }
        prop_assert!(new == other || !element.cast.is_lossless());
    }
}
