//! New classic files, told into memory and opened again.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::kind::ClassicVersion;
use super::super::sample::{File, open};
use super::*;
use crate::array::Array;
use crate::array::uncached::read_all;
use crate::container::Container;
use crate::container::creation::{RawArray, ToldFiles, empty_container};
use crate::container::describe::arrays_json;
use crate::source::BytesSource;

type Raw<'a> = (&'a str, Vec<u8>);

fn made(arrays: &[Raw<'_>], description: &Value) -> Result<(Vec<u8>, Vec<String>)> {
    let raw = |(name, bytes): &Raw<'_>| {
        let source = Arc::new(BytesSource::new(bytes.clone()));
        Arc::new(RawArray::new(name, source)) as Arc<dyn Array>
    };
    let given = GivenDescription::parse(description.to_string().as_bytes())?;
    NetCdf.accepts(&given)?;
    let content = GivenContent::of_arrays(arrays.iter().map(raw).collect(), Some(given));
    let (budget, mut told) = (Budget::by_default(), ToldFiles::default());
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
