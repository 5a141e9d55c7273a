//! Descriptors in every spelling, lengths, and the full check against a plain one.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::levels::{Level, LevelLayout};
use super::sample::{INTEGERS, Sample, member, raw_member, scalar_member};
use super::*;
use crate::array::dtype::Dtype;
use crate::memory::budget::Budget;

const FORMATS: [&str; 12] = [
    "DVEC", "DMATR", "DMATC", "DMAT", "CVEC", "CSR", "CSC", "DCSR", "DCSC", "COOR", "COOC", "COO",
];

const STRUCTURES: [&str; 4] = [
    "symmetric_lower",
    "symmetric_upper",
    "skew_symmetric_lower",
    "skew_symmetric_upper",
];

fn faults(text: &Value, members: &[Member]) -> Vec<String> {
    let examined = examine(text.to_string().as_bytes(), members).unwrap();
    examined
        .faults
        .iter()
        .map(|fault| fault.to_string())
        .collect()
}

/// What the full check reports.
fn content(text: &Value, members: &[Member]) -> Vec<String> {
    let mut reported = Vec::new();
    let examined = examine(text.to_string().as_bytes(), members).unwrap();
    if let Some(check) = examined.check {
        check
            .check(&Budget::by_default(), &mut |fault| {
                reported.push(fault.to_string())
            })
            .unwrap();
    }
    reported
}

/// A CSR matrix of 3 x 4 with 5 values.
fn csr() -> (Value, Vec<Member>) {
    let descriptor = json!({ "binsparse": {
        "version": "0.1",
        "format": "CSR",
        "shape": [3, 4],
        "number_of_stored_values": 5,
        "data_types": { "pointers_to_1": "uint64", "indices_1": "uint16", "values": "float32" },
    }});
    let members = vec![
        member("pointers_to_1", &[0, 2, 2, 5], INTEGERS[6]),
        member("indices_1", &[0, 3, 0, 1, 2], INTEGERS[2]),
        raw_member("values", vec![0; 20], Dtype::F32),
    ];
    (descriptor, members)
}

#[test]
fn a_sound_matrix_has_no_faults() {
    let (text, members) = csr();
    assert_eq!(faults(&text, &members), [""; 0]);
    assert_eq!(content(&text, &members), [""; 0]);
    let examined = examine(text.to_string().as_bytes(), &members).unwrap();
    assert_eq!(examined.version, "0.1");
    assert_eq!(examined.attributes["shape"], json!([3, 4]));
}

#[test]
fn what_writers_spell_differently_is_read() {
    let (text, members) = csr();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut text = text.clone();
        change(&mut text["binsparse"]);
        text
    };
    let remove = |key: &'static str| with(&move |n| drop(n.as_object_mut().unwrap().remove(key)));
    let spellings = [
        text["binsparse"].clone(),
        remove("version"),
        with(&|n| n["version"] = json!(0.1)),
        with(&|n| n["version"] = json!("0.1.0")),
        remove("number_of_stored_values"),
        with(&|n| {
            n.as_object_mut().unwrap().remove("number_of_stored_values");
            n["nnz"] = json!(5);
        }),
        with(&|n| n["shape"] = json!([3.0, 4e0])),
        with(&|n| n["structure"] = Value::Null),
        with(&|n| n["fill"] = json!(false)),
        with(&|n| n["attributes"] = json!({ "x": [1] })),
        with(&|n| {
            n["custom"] = json!({ "level": { "level_desc": "dense", "rank": 1, "level": {
            "level_desc": "sparse", "rank": 1, "level": { "level_desc": "element" } } } })
        }),
    ];
    for spelling in spellings {
        assert_eq!(faults(&spelling, &members), [""; 0], "{spelling}");
    }
    let padded = format!("{text}\0\0\0");
    assert!(
        examine(padded.as_bytes(), &members)
            .unwrap()
            .faults
            .is_empty()
    );
}

#[test]
fn a_single_value_without_dimensions_is_a_custom_format() {
    let text = |stored: u64| {
        json!({ "binsparse": {
            "version": "0.1",
            "shape": [],
            "number_of_stored_values": stored,
            "custom": { "level": { "level_desc": "element" } },
            "data_types": { "values": "float32" },
        }})
    };
    let members = [raw_member("values", vec![0; 4], Dtype::F32)];
    assert_eq!(faults(&text(1), &members), [""; 0]);
    assert!(!faults(&text(2), &members).is_empty());
}

#[test]
fn broken_descriptors_are_reported() {
    let (text, members) = csr();
    let broken: [(&str, Value); 18] = [
        ("version", json!("1.0")),
        ("version", json!(true)),
        ("format", json!("csr")),
        ("format", json!("custom")),
        ("format", Value::Null),
        ("shape", json!([3, -4])),
        ("shape", json!([3, 4.5])),
        ("shape", json!([3, 4, 1])),
        ("shape", json!([])),
        ("shape", json!([4, 4])),
        ("number_of_stored_values", json!(6)),
        ("number_of_stored_values", json!("5")),
        (
            "data_types",
            json!({ "pointers_to_1": "uint64", "indices_1": "uint16" }),
        ),
        ("data_types", json!([])),
        ("structure", json!("diagonal")),
        ("structure", json!("symmetric_lower")),
        ("fill", json!(true)),
        ("custom", json!({ "level": { "level_desc": "element" } })),
    ];
    for (key, value) in broken {
        let mut text = text.clone();
        text["binsparse"][key] = value;
        assert_ne!(faults(&text, &members), [""; 0], "{text}");
    }
    for text in ["", "{", "[]", "{}", "null", "{\"binsparse\": 1}"] {
        assert_eq!(
            examine(text.as_bytes(), &members).unwrap().faults.len(),
            1,
            "{text}"
        );
    }
}

#[test]
fn types_must_be_as_declared() {
    let (text, mut members) = csr();
    for (declared, dtype, bytes, sound) in [
        ("int8", Dtype::numpy("|i1", 1), 5, true),
        ("int8", Dtype::U8, 5, false),
        ("bint8", Dtype::U8, 5, true),
        ("bint8", Dtype::numpy("|b1", 1), 5, true),
        ("complex[float64]", Dtype::F64, 80, true),
        ("complex[float64]", Dtype::F64, 40, false),
        ("complex[float64]", Dtype::numpy("<c16", 16), 80, false),
        ("complex[int32]", Dtype::numpy("<i4", 4), 40, false),
        ("iso[complex[float32]]", Dtype::F32, 8, true),
        ("iso[float32]", Dtype::F32, 8, false),
        ("float16", Dtype::numpy("<f2", 2), 10, false),
    ] {
        let mut text = text.clone();
        text["binsparse"]["data_types"]["values"] = declared.into();
        members[2] = raw_member("values", vec![0; bytes], dtype);
        assert_eq!(
            faults(&text, &members).is_empty(),
            sound,
            "{declared}, {bytes} bytes"
        );
    }
}

#[test]
fn one_value_for_all_may_be_stored_without_a_dimension() {
    let (mut text, mut members) = csr();
    let scalar = |name| scalar_member(name, vec![0; 4], Dtype::F32);
    members[2] = scalar("values");
    let message = "values: the array has not one dimension: found shape []";
    assert_eq!(
        faults(&text, &members),
        [message],
        "five values are no scalar"
    );
    let types = &mut text["binsparse"]["data_types"];
    types["values"] = "iso[float32]".into();
    types["fill_value"] = "float32".into();
    text["binsparse"]["fill"] = true.into();
    members.push(scalar("fill_value"));
    assert_eq!(faults(&text, &members), [""; 0]);
    text["binsparse"]["data_types"]["values"] = "iso[complex[float32]]".into();
    let message = "values: the array has another length: expected 2, found 1";
    assert_eq!(faults(&text, &members), [message]);
    members[1] = scalar_member("indices_1", vec![0; 2], Dtype::numpy("<u2", 2));
    assert!(faults(&text, &members)[0].starts_with("indices_1: the array has not one dimension"));
}

#[test]
fn indices_must_be_whole_numbers() {
    for declared in ["float32", "bint8", "iso[uint16]"] {
        let (mut text, mut members) = csr();
        text["binsparse"]["data_types"]["indices_1"] = declared.into();
        members[1] = raw_member("indices_1", vec![0; 20], Dtype::F32);
        assert_ne!(faults(&text, &members), [""; 0], "{declared}");
        let examined = examine(text.to_string().as_bytes(), &members).unwrap();
        assert!(examined.check.is_none());
    }
}

#[test]
fn what_cannot_be_read_is_told_with_the_reason() {
    let (text, mut members) = csr();
    members[2].array = Err("an external link to x.h5; never followed".into());
    let message = "values: the array cannot be read: an external link to x.h5; never followed";
    assert_eq!(faults(&text, &members), [message]);
    members.remove(2);
    assert_eq!(faults(&text, &members), ["values: the array is missing"]);
}

#[test]
fn only_the_first_faults_of_a_kind_are_told() {
    let (mut text, mut members) = csr();
    text["binsparse"]["shape"] = json!([3, 0]);
    members[1] = member("indices_1", &[0, 3, 0, 1, 2], INTEGERS[2]);
    let reported = content(&text, &members);
    assert_eq!(reported.len(), 4, "{reported:?}");
    assert_eq!(
        reported[3],
        "indices_1: 2 more elements are outside the shape"
    );
}

/// A doubly compressed matrix, rows 0 and 2 of 3, and the faults of its content.
fn dcsr(
    indices_0: &[i64],
    pointers_to_1: &[i64],
    indices_1: &[i64],
    columns: u64,
    structure: Option<&str>,
) -> Vec<String> {
    let text = json!({
        "version": "0.1",
        "format": "DCSR",
        "shape": [3, columns],
        "structure": structure,
        "data_types": {
            "indices_0": "int64", "pointers_to_1": "int64", "indices_1": "int64", "values": "int8",
        },
    });
    let members = [
        member("indices_0", indices_0, INTEGERS[7]),
        member("pointers_to_1", pointers_to_1, INTEGERS[7]),
        member("indices_1", indices_1, INTEGERS[7]),
        member("values", indices_1, INTEGERS[1]),
    ];
    assert_eq!(faults(&text, &members), [""; 0]);
    content(&text, &members)
}

#[test]
fn every_broken_rule_is_told_with_its_place() {
    let rows = &[0, 2];
    assert_eq!(dcsr(rows, &[0, 2, 3], &[1, 2, 0], 4, None), [""; 0]);
    for (message, expected) in [
        (
            dcsr(&[2, 2], &[0, 2, 3], &[1, 2, 0], 4, None),
            "indices_0: element 1 repeats the one before: expected more than 2, found 2",
        ),
        (
            dcsr(&[0, 3], &[0, 2, 3], &[1, 2, 0], 4, None),
            "indices_0: element 1 is outside the shape: expected 0 or more, less than 3, found 3",
        ),
        (
            dcsr(rows, &[0, 3, 3], &[0, 1, 2], 4, None),
            "pointers_to_1: element 2 repeats the one before: an empty slice is stored: found 3",
        ),
        (
            dcsr(rows, &[1, 2, 3], &[1, 2, 0], 4, None),
            "pointers_to_1: the first element is not 0: found 1",
        ),
        (
            dcsr(rows, &[0, 1, 2], &[1, 2, 0], 4, None),
            "pointers_to_1: the last element is not the number of indices: expected 3, found 2",
        ),
        (
            dcsr(rows, &[0, -1, 3], &[1, 2, 3], 4, None),
            "pointers_to_1: element 1 is negative: found -1",
        ),
        (
            dcsr(rows, &[0, 2, 3], &[2, 1, 0], 4, None),
            "indices_1: element 1 is out of order in slice 0: expected more than 2, found 1",
        ),
        (
            dcsr(rows, &[0, 2, 3], &[1, 2, -2], u64::MAX, None),
            "indices_1: element 2 is outside the shape: \
             expected 0 or more, less than 18446744073709551615, found -2",
        ),
        (
            dcsr(rows, &[0, 2, 3], &[0, 1, 0], 3, Some("symmetric_lower")),
            "indices_1: element 1 lies outside the stored triangle: \
             expected the lower triangle, found 1 beside 0",
        ),
    ] {
        assert_eq!(message, [expected]);
    }
}

prop_compose! {
    /// A container of any format, sound but perhaps for the triangle that its entries lie in.
    fn sample(any_side: bool, least: u64)(
        one_side in any::<bool>(),
        format in 0..FORMATS.len() + 8,
        ranks in vec((any::<bool>(), 1usize..3), 1..4),
        extents in vec(least..6, 6),
        order in Just((0..6usize).collect::<Vec<_>>()).prop_shuffle(),
        structure in proptest::option::of(select(&STRUCTURES[..])),
        entries in vec(vec(0u64..6, 6), 0..60),
    ) -> Sample {
        let level = |&(sparse, rank): &(bool, usize)| match sparse {
            true => Level::Sparse { rank },
            false => Level::Dense { rank },
        };
        let name = FORMATS.get(format).copied().unwrap_or("custom");
        let layout = LevelLayout::predefined(name).unwrap_or_else(|| {
            let levels: Vec<Level> = ranks.iter().map(level).collect();
            let rank = levels.iter().map(|level| level.rank()).sum();
            let transpose = order.into_iter().filter(|&d| d < rank).collect();
            LevelLayout { levels, transpose, no_empty_slices: false, custom: true }
        });
        let rank = layout.transpose.len();
        let structure = structure.filter(|_| rank == 2 && name != "custom");
        let mut shape = extents[..rank].to_vec();
        if structure.is_some() {
            shape[1] = shape[0];
        }
        let mut entries: Vec<Vec<u64>> = entries.iter().map(|e| e[..rank].to_vec()).collect();
        entries.retain(|e| e.iter().zip(&shape).all(|(index, extent)| index < extent));
        if let Some(structure) = structure.filter(|_| one_side || !any_side) {
            let outer_is_greater = structure.ends_with("lower") == (layout.transpose == [0, 1]);
            entries.retain(|e| e[0] == e[1] || (e[0] > e[1]) == outer_is_greater);
        }
        entries.sort();
        entries.dedup();
        let LevelLayout { levels, transpose, no_empty_slices, .. } = layout;
        let arrays = Vec::new();
        let format = name.to_owned();
        let mut sample = Sample {
            format, levels, transpose, no_empty_slices, shape, structure, arrays, count: 0,
        };
        sample.fill(entries);
        sample
    }
}

proptest! {
    #[test]
    fn sound_containers_of_every_format_have_no_faults(
        sample in sample(false, 0),
        integers in select(&INTEGERS[..]),
    ) {
        prop_assert!(sample.is_sound());
        let text = sample.descriptor(integers.0);
        prop_assert_eq!(faults(&text, &sample.members(integers)), [""; 0]);
        prop_assert_eq!(content(&text, &sample.members(integers)), [""; 0]);
    }

    #[test]
    fn damaged_elements_are_reported_exactly_when_a_rule_is_broken(
        mut sample in sample(true, 0),
        integers in select(&INTEGERS[..]),
        damage in vec((any::<Index>(), any::<Index>(), -2i64..9), 0..3),
    ) {
        let signed = integers.0.starts_with("int");
        for (array, at, element) in damage {
            if sample.arrays.is_empty() {
                continue;
            }
            let array = array.index(sample.arrays.len());
            let numbers = &mut sample.arrays[array].1;
            if !numbers.is_empty() {
                let at = at.index(numbers.len());
                numbers[at] = if signed { element } else { element.abs() };
            }
        }
        let text = sample.descriptor(integers.0);
        prop_assert_eq!(faults(&text, &sample.members(integers)), [""; 0]);
        let reported = content(&text, &sample.members(integers));
        prop_assert_eq!(reported.is_empty(), sample.is_sound(), "{:?}", reported);
    }

    #[test]
    fn any_wrong_length_is_reported(
        mut sample in sample(false, 1),
        array in any::<Index>(),
        longer in any::<bool>(),
    ) {
        // Without positions below, nothing would say how many indices there must be.
        prop_assert!(sample.shape.iter().all(|&extent| extent > 0));
        let array = array.index(sample.arrays.len() + 1);
        let text = sample.descriptor("uint32");
        match sample.arrays.get_mut(array) {
            Some((_, numbers)) if longer || numbers.is_empty() => numbers.push(0),
            Some((_, numbers)) => drop(numbers.pop()),
            None if longer || sample.count == 0 => sample.count += 1,
            None => sample.count -= 1,
        }
        prop_assert_ne!(faults(&text, &sample.members(INTEGERS[4])), [""; 0]);
        content(&text, &sample.members(INTEGERS[4]));
    }

    #[test]
    fn no_descriptor_makes_it_panic(
        sample in sample(false, 0),
        changes in vec((any::<Index>(), any::<u8>()), 0..6),
        key in any::<Index>(),
        value in select(vec![
            json!(null), json!(u64::MAX), json!(-1), json!(1e300), json!("custom"), json!([]),
            json!({}), json!([u64::MAX, u64::MAX]), json!({ "level": { "level_desc": "dense" } }),
        ]),
    ) {
        let mut text = sample.descriptor("uint8");
        let members = sample.members(INTEGERS[0]);
        let keys: Vec<String> = text["binsparse"].as_object().unwrap().keys().cloned().collect();
        text["binsparse"][&keys[key.index(keys.len())]] = value;
        content(&text, &members);
        let mut bytes = text.to_string().into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let examined = examine(&bytes, &members).unwrap();
        if let Some(check) = examined.check {
            check.check(&Budget::by_default(), &mut |_| {}).unwrap();
        }
    }
}
