//! New classic files, told into memory and opened again.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::kind::ClassicVersion;
use super::super::sample::{File, open};
use super::*;
use crate::array::Array;
use crate::array::uncached::read_all;
use crate::container::Container;
use crate::container::creation::{RawArray, RecipeInMemory, empty_container};
use crate::container::describe::arrays_json;
use crate::container::names;
use crate::source::BytesSource;

type Raw<'a> = (&'a str, Vec<u8>);

fn made(arrays: &[Raw<'_>], description: &Value) -> Result<(Vec<u8>, Vec<String>)> {
    made_with(arrays, description, None)
}

fn made_with(
    arrays: &[Raw<'_>],
    description: &Value,
    descriptor: Option<&Value>,
) -> Result<(Vec<u8>, Vec<String>)> {
    let raw = |(name, bytes): &Raw<'_>| {
        let source = Arc::new(BytesSource::new(bytes.clone()));
        Arc::new(RawArray::new(name, source)) as Arc<dyn Array>
    };
    let given = GivenDescription::parse(description.to_string().as_bytes())?;
    NetCdf.accepts(&given)?;
    let mut content = GivenContent::of_arrays(arrays.iter().map(raw).collect(), Some(given));
    let descriptor = descriptor.map(|text| (String::new(), text.to_string().into_bytes()));
    content.descriptors.extend(descriptor);
    let (budget, mut told) = (Budget::by_default(), RecipeInMemory::default());
    let not_kept = NetCdf.recipe(&content, Preferences::default(), &budget, &mut told)?;
    Ok((told.0.into_values().next().unwrap(), not_kept))
}

fn sound(bytes: &[u8]) -> Container {
    let (_directory, container) = open(bytes);
    assert!(container.faults.is_empty(), "{:?}", container.faults);
    container
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 % 251) as u8).collect()
}

#[test]
fn without_anything_it_is_the_least_that_is_a_file() {
    let files = empty_container(&NetCdf, &Budget::by_default()).unwrap();
    let file = files.into_values().next().unwrap();
    assert_eq!((file.len(), &file[..4]), (32, &b"CDF\x01"[..]));
    assert!(sound(&file).arrays.is_empty());
}

#[test]
fn it_is_of_the_least_version_that_holds_it_and_not_less_than_is_said() {
    let of = |said: Option<&str>, dtype: &str, size: usize| {
        let array = json!({"name": "a", "dtype": dtype, "shape": [3]});
        let mut description = json!({"format": "netcdf", "arrays": [array]});
        if let Some(said) = said {
            description["version"] = said.into();
        }
        let (file, _) = made(&[("a", bytes(3 * size))], &description).unwrap();
        let container = sound(&file);
        let array = container.array("a").unwrap();
        assert_eq!(array.info().unwrap().dtype.name(), dtype);
        assert_eq!(read_all(&**array).unwrap(), bytes(3 * size));
        container.version
    };
    assert_eq!(of(None, "int16", 2), ClassicVersion::One.name());
    assert_eq!(of(Some("CDF-2"), "int16", 2), "CDF-2");
    assert_eq!(of(Some("CDF-5"), "float64", 8), "CDF-5");
    assert_eq!(of(Some("CDF-1"), "uint16", 2), "CDF-5");
    assert_eq!(of(None, "int64", 8), "CDF-5");
}

#[test]
fn a_copy_has_the_dimensions_attributes_and_records_of_the_file() {
    let description = json!({
        "format": "netcdf", "version": "CDF-2",
        "dimensions": {
            "time": {"length": 3, "unlimited": true, "id": 1},
            "x": {"length": 2, "unlimited": false, "id": 0},
            "alone": {"length": 9, "unlimited": false, "id": 2},
        },
        "attributes": {"title": "text", "many": [1, -2], "half": 0.5, "n": 7},
        "attribute_types": {"n": {"type": "NC_SHORT"}},
        "arrays": [
            {"name": "t", "dtype": "float32", "shape": [3, 2], "dims": ["time", "x"],
             "attributes": {"_FillValue": -9.5, "bits": "NaN"},
             "attribute_types": {
                "_FillValue": {"type": "NC_FLOAT"},
                "bits": {"type": "NC_FLOAT", "stored": "7fc00001"}}},
            {"name": "b", "dtype": "int8", "shape": [1], "dims": ["time"]},
            {"name": "c", "dtype": "|S1", "shape": [2], "dims": ["x"]},
            {"name": "s", "dtype": "float64", "shape": [], "dims": []},
        ],
    });
    let arrays = [
        ("t", bytes(24)),
        ("b", bytes(1)),
        ("c", b"xy".to_vec()),
        ("s", bytes(8)),
    ];
    let (file, not_kept) = made(&arrays, &description).unwrap();
    assert_eq!(not_kept, [""; 0]);
    let container = Arc::new(sound(&file));
    assert_eq!(
        read_all(&**container.array("t").unwrap()).unwrap(),
        bytes(24)
    );
    // Where a variable is shorter than the longest, readers see fill.
    let shorter = read_all(&**container.array("b").unwrap()).unwrap();
    assert_eq!(shorter, [bytes(1)[0], -127i8 as u8, -127i8 as u8]);
    let said: Value = serde_json::from_slice(&arrays_json(&container).unwrap()).unwrap();
    for key in ["version", "attributes", "dimensions", "attribute_types"] {
        assert_eq!(said[key], description[key], "{key}");
    }
    for key in ["attributes", "attribute_types", "dims"] {
        assert_eq!(
            said["arrays"][0][key], description["arrays"][0][key],
            "{key}"
        );
    }
}

/// Names of attributes and dimensions of any bytes are shown apart, and come back.
#[test]
fn names_that_are_no_text_come_back() {
    let names: [&[u8]; 6] = [b"caf\xe9", b"caf\xea", b"caf%E9", b"m/s", b"a~1", b"\xff"];
    let escaped = names.map(names::escape);
    let attributes: Map<String, Value> = escaped
        .iter()
        .zip(0..)
        .map(|(name, number)| (name.clone(), number.into()))
        .collect();
    let dimensions: Map<String, Value> = escaped
        .iter()
        .map(|name| (name.clone(), json!({"length": 1})))
        .collect();
    let array = json!({
        "name": "a", "dtype": "int16", "shape": vec![1; names.len()], "dims": escaped,
        "attributes": attributes,
    });
    let description = json!({
        "format": "netcdf", "arrays": [array], "attributes": attributes, "dimensions": dimensions,
    });
    let (file, not_kept) = made(&[("a", bytes(2))], &description).unwrap();
    assert!(not_kept.is_empty(), "{not_kept:?}");
    for name in names {
        let found = file.windows(name.len()).filter(|window| *window == name);
        assert!(found.count() >= 3, "{name:?}");
    }
    let told: Value =
        serde_json::from_slice(&arrays_json(&Arc::new(sound(&file))).unwrap()).unwrap();
    let array = &told["arrays"][0];
    assert_eq!(array["dims"], json!(escaped));
    for of in [&told["attributes"], &array["attributes"]] {
        assert_eq!(of, &Value::from(attributes.clone()));
    }
}

#[test]
fn what_no_classic_file_holds_is_refused_or_told() {
    let array = |more: Value| {
        let mut array = json!({"name": "a", "dtype": "int8", "shape": [2]});
        array
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"format": "netcdf", "arrays": [array], "dimensions": {
            "t": {"length": 2, "unlimited": true}, "x": {"length": 3, "unlimited": false}}})
    };
    for more in [
        json!({"dtype": "complex64"}),
        json!({"shape": [0]}),
        json!({"dims": ["x"]}),
        json!({"dims": []}),
        json!({"dims": [null, null]}),
        json!({"dims": "t"}),
        json!({"shape": [1, 2], "dims": [null, "t"]}),
        json!({"type": "NC_STRING"}),
    ] {
        let refused = made(&[("a", bytes(2))], &array(more.clone()));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{more}");
    }
    let two = json!({"format": "netcdf", "arrays": [], "dimensions": {
        "t": {"length": 2, "unlimited": true}, "u": {"length": 3, "unlimited": true}}});
    assert!(matches!(made(&[], &two), Err(Error::Invalid(_))));
    let odd = array(json!({"attributes": {"x": {"omitted": "much"}, "y": null, "z": 1}}));
    let (file, not_kept) = made(&[("a", bytes(2))], &odd).unwrap();
    assert_eq!(not_kept.len(), 2, "{not_kept:?}");
    assert_eq!(sound(&file).described["a"]["z"], 1);
}

proptest! {
    #[test]
    fn files_come_back_from_what_is_said_of_them(
        version in proptest::sample::select(vec![1u8, 2, 5]), records in 0u64..5,
        codes in proptest::collection::vec((1u32..12, 0usize..4), 0..6),
    ) {
        let mut file = File::new(version, records, &[0, 3, 2]);
        for (number, (code, dims)) in codes.into_iter().enumerate() {
            let code = if version == 5 { code } else { 1 + (code - 1) % 6 };
            let dims: &[u64] = [&[0][..], &[0, 1], &[2, 1], &[]][dims];
            file = file.with(&format!("v{number}"), code, dims);
        }
        let built = file.build();
        let before = Arc::new(sound(&built.bytes));
        let said: Value = serde_json::from_slice(&arrays_json(&before).unwrap()).unwrap();
        let read = before.arrays.iter().map(|array| (array.name(), read_all(&**array).unwrap()));
        let arrays: Vec<Raw<'_>> = read.collect();
        let (file, not_kept) = made(&arrays, &said).unwrap();
        prop_assert!(not_kept.is_empty());
        let after = Arc::new(sound(&file));
        for (name, raw) in &arrays {
            prop_assert_eq!(&read_all(&**after.array(name).unwrap()).unwrap(), raw);
        }
        let again: Value = serde_json::from_slice(&arrays_json(&after).unwrap()).unwrap();
        for key in ["version", "dimensions", "attributes"] {
            prop_assert_eq!(&again[key], &said[key]);
        }
    }
}

/// A CSR matrix of two rows and three columns.
fn sparse_arrays(indices: &[i32], pointers: &[i32]) -> Vec<Raw<'static>> {
    let numbers = |numbers: &[i32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    vec![
        ("indices_1", numbers(indices)),
        ("pointers_to_1", numbers(pointers)),
        ("values", bytes(4 * indices.len())),
    ]
}

fn sparse_description(count: usize) -> Value {
    let array = |name: &str, dtype: &str, len: usize, dim: &str| json!({"name": name, "dtype": dtype, "shape": [len], "dims": [dim]});
    json!({"classic": "CDF-2", "format": "binsparse", "version": "0.1", "arrays": [
        array("indices_1", "int32", count, "n"), array("pointers_to_1", "int32", 3, "p"), array("values", "float32", count, "n")],
        "attributes": {"format": "CSR", "title": "x", "data_types": {"values": "float32"}},
        "groups": {"": {"title": "x"}}})
}

fn sparse_descriptor(count: usize) -> Value {
    let types = json!({"indices_1": "int32", "pointers_to_1": "int32", "values": "float32"});
    json!({"binsparse": {"version": "0.1", "format": "CSR", "shape": [2, 3],
        "number_of_stored_values": count, "data_types": types}})
}

#[test]
fn a_descriptor_makes_it_a_binsparse_container() {
    let arrays = sparse_arrays(&[0, 2, 1], &[0, 2, 3]);
    let made = made_with(&arrays, &sparse_description(3), Some(&sparse_descriptor(3)));
    let (file, not_kept) = made.unwrap();
    assert!(not_kept.is_empty(), "{not_kept:?}");
    assert_eq!(&file[..4], b"CDF\x02");
    let container = sound(&file);
    assert_eq!(
        (container.format, &*container.version),
        ("binsparse", "0.1")
    );
    assert_eq!(container.described[""].len(), 1);
    let text = String::from_utf8(arrays_json(&Arc::new(container)).unwrap()).unwrap();
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&told["classic"], &told["groups"][""]["title"]),
        (&json!("CDF-2"), &json!("x"))
    );
}

#[test]
fn a_descriptor_whose_rules_are_broken_is_refused() {
    let refused = |arrays: &[Raw<'_>], descriptor: &Value| {
        let count = arrays[0].1.len() / 4;
        let made = made_with(arrays, &sparse_description(count), Some(descriptor));
        let Err(Error::Invalid(why)) = made else {
            panic!("{descriptor} was made");
        };
        assert!(why.starts_with("binsparse.json"), "{why}");
    };
    let sound = sparse_descriptor(3);
    refused(&sparse_arrays(&[0, 3, 1], &[0, 2, 3]), &sound);
    refused(&sparse_arrays(&[2, 0, 1], &[0, 2, 3]), &sound);
    refused(&sparse_arrays(&[0, 2, 1], &[0, 3, 2]), &sound);
    refused(&sparse_arrays(&[0, 2, 1], &[1, 2, 3]), &sound);
    let arrays = sparse_arrays(&[0, 2, 1], &[0, 2, 3]);
    refused(&arrays, &sparse_descriptor(4));
    refused(&arrays, &json!({}));
    let mut typed = sound.clone();
    typed["binsparse"]["data_types"]["values"] = "int32".into();
    refused(&arrays, &typed);
    let mut lacking = sound;
    lacking["binsparse"]["format"] = "DCSR".into();
    refused(&arrays, &lacking);
    // Fill would follow where one has fewer records than another.
    let mut records = sparse_description(3);
    records["dimensions"] = json!({"n": {"length": 0, "unlimited": true}});
    let more = json!({"name": "more", "dtype": "int8", "shape": [5], "dims": ["n"]});
    records["arrays"].as_array_mut().unwrap().push(more);
    let mut with_more = arrays;
    with_more.push(("more", bytes(5)));
    let made = made_with(&with_more, &records, Some(&sparse_descriptor(3)));
    assert!(matches!(made, Err(Error::Invalid(why)) if why.contains("fill would follow")));
}
