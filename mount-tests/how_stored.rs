//! What `arrays.json` says of how HDF5 and NetCDF files store their arrays, against the formats'
//! own libraries: `stored_hdf5.py` compares, `write_hdf5.py` and `write_netcdf.py` write the files
//! that the corpus lacks.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::process::{ARRAYFS, arrayfs};
use crate::harness::python::{Written, script};
use crate::harness::reads::walk;

/// Has each file be compared; all of them together have at least so many datasets and attributes.
fn compare(files: &[PathBuf], [datasets, attributes]: [u64; 2]) {
    let arguments = std::iter::once(OsStr::new(ARRAYFS));
    let arguments = arguments.chain(files.iter().map(|file| file.as_os_str()));
    let compared = script("stored_hdf5.py", arguments).success().text();
    let numbers = compared
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    let [found_datasets, found_attributes] = numbers[..] else {
        panic!("{compared}");
    };
    assert!(found_datasets >= datasets, "{compared}");
    assert!(found_attributes >= attributes, "{compared}");
}

fn golden(directory: &str) -> Vec<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (files, failures) = walk(&package.join("mount-tests/golden").join(directory));
    assert!(failures.is_empty(), "{failures:?}");
    let is_sound = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let head = std::fs::read(file).unwrap();
        !name.starts_with("bad-") && head.starts_with(b"\x89HDF")
    };
    files.into_iter().filter(is_sound).collect()
}

fn described(file: &Path) -> Value {
    let told = arrayfs(["info".as_ref(), "--json".as_ref(), file.as_os_str()]);
    serde_json::from_str(&told.success().text()).unwrap()
}

#[test]
fn every_type_layout_and_filter_of_the_corpus_is_told_as_hdf5_has_it() {
    let files = [
        golden("binsparse"),
        golden("bpcells"),
        golden("hdf5-written"),
    ]
    .concat();
    assert!(files.len() > 40, "{}", files.len());
    compare(&files, [250, 50]);
}

#[test]
fn attributes_links_scales_and_odd_types_are_told() {
    for kind in ["kinds", "how_stored"] {
        let written = Written::new(kind);
        let (files, _) = walk(&written.source());
        compare(&files, [1, 15]);
    }
    let written = Written::new("how_stored");
    let told = described(&written.source().join("stored.h5"));
    assert_eq!(told["hard_links"], json!({"g/hard": "be", "ghard": "g"}));
    let soft = json!({"dangling": "/nope", "g/soft": "/chunked", "glink": "g"});
    assert_eq!(told["soft_links"], soft);
    let external = json!({"elsewhere": {"file": "o.h5", "path": "/x"}});
    assert_eq!(told["external_links"], external);
    assert_eq!(told["user_block"], json!(512));
    let dimension = json!({"length": 3, "unlimited": false});
    let dimensions = json!({"lat": dimension, "lat2": dimension});
    assert_eq!(told["dimensions"], dimensions);
    let arrays = told["arrays"].as_array().unwrap();
    let array = |name: &str| arrays.iter().find(|array| array["name"] == name).unwrap();
    assert_eq!(array("be")["scales"], json!([["lat", "lat2"]]));
    assert_eq!(array("lat")["scale"], json!("latitude"));
    assert_eq!(array("chunked")["dims"], json!([null, "col"]), "a label");
}

#[test]
fn dimensions_of_netcdf_are_told_whatever_its_form() {
    let written = Written::new("dimensions");
    let source = written.source();
    let of = |name: &str| described(&source.join(name));
    let (four, classic, eight) = (of("four.nc"), of("classic.nc"), of("eight.nc"));
    compare(&[source.join("four.nc")], [7, 7]);
    for told in [&four, &classic, &eight] {
        let dimensions = json!({
            "alone": {"length": 2, "unlimited": false, "id": 2},
            "time": {"length": 4, "unlimited": true, "id": 0},
            "x": {"length": 3, "unlimited": false, "id": 1},
        });
        let mut found = told["dimensions"].clone();
        let in_group = found.as_object_mut().unwrap().remove("g/y");
        assert_eq!(in_group.is_some(), std::ptr::eq(told, &four));
        assert_eq!(found, dimensions);
        let arrays = told["arrays"].as_array().unwrap();
        let array = |name: &str| arrays.iter().find(|array| array["name"] == name).unwrap();
        assert_eq!(array("t2m")["dims"], json!(["time", "x"]));
        assert_eq!(array("time")["dims"], json!(["time"]));
        assert_eq!(array("w")["dims"], json!(["x", "alone"]));
        let attributes = &array("t2m")["attributes"];
        assert_eq!(
            (&attributes["n"], &attributes["l"]),
            (&json!(3), &json!([1, 2]))
        );
        assert!(arrays.iter().all(|array| array["name"] != "alone"));
    }
    assert!(four["netcdf4"]["properties"].is_string());
    let arrays = classic["arrays"].as_array().unwrap();
    let types = |array: &Value| array["type"].as_str().unwrap().to_owned();
    let types: Vec<String> = arrays.iter().map(types).collect();
    assert_eq!(types, ["NC_FLOAT", "NC_DOUBLE", "NC_SHORT", "NC_CHAR"]);
    let of_attributes = json!({
        "_FillValue": {"type": "NC_FLOAT"},
        "n": {"type": "NC_SHORT"},
        "nan": {"type": "NC_FLOAT", "stored": "7fc00000"},
    });
    assert_eq!(arrays[0]["attribute_types"], of_attributes);
}

#[test]
fn info_tells_people_how_an_array_is_stored() {
    let written = Written::new("how_stored");
    let file = written.source().join("stored.h5");
    let told = arrayfs(["info".as_ref(), file.as_os_str()])
        .success()
        .text();
    for line in [
        "  stored  H5T_IEEE_F64LE, chunked (2, 3), at most (unlimited, 6)",
        "  filters shuffle (8), deflate (4), fletcher32",
        "  fill    7.5",
        "  dims    - = 4, col = 6",
        "  the same as be",
        "  dimension of 3",
    ] {
        assert!(told.lines().any(|found| found == line), "{line}: {told}");
    }
}

#[test]
fn absurd_types_and_attributes_are_told_within_bounds() {
    let written = Written::new("absurd");
    let told = described(&written.source().join("absurd.h5"));
    let text = told.to_string();
    assert!(text.len() < 64 << 20);
    let arrays = told["arrays"].as_array().unwrap();
    let unreadable = told["unreadable"].as_array().unwrap();
    let all = || arrays.iter().chain(unreadable);
    let named = |name: &str| all().find(|one| one["name"] == name).unwrap();
    assert_eq!(named("many")["type"]["class"], "H5T_ENUM");
    assert_eq!(
        named("many")["type"]["members"].as_array().unwrap().len(),
        2000
    );
    let mut of = &named("deep")["type"];
    let mut depth = 0;
    while of["class"] == "H5T_ARRAY" {
        (of, depth) = (&of["base"], depth + 1);
    }
    assert!((25..40).contains(&depth), "{depth}");
    assert_eq!(of["class"], "H5T_NO_CLASS");
    assert_eq!(
        named("chunked")["attributes"].as_object().unwrap().len(),
        2000
    );
    let types = &told["attribute_types"];
    assert_eq!(types["long"]["omitted"], "100000 elements");
}
