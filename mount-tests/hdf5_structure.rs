//! What `arrays.json` says of HDF5 files: attributes of every type, datasets that end elsewhere or
//! have no space, and damage that no reader needs to look at. `write_hdf5.py` writes the files with
//! h5py.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::mounted::Mounted;
use crate::harness::process::arrayfs;
use crate::harness::python::Written;
use crate::harness::reads::assert_content;

fn arrays_json(container: &Path) -> Value {
    let text = std::fs::read(container.join("arrays.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// What `arrays.json` says of an array.
fn array<'a>(described: &'a Value, name: &str) -> &'a Value {
    let mut arrays = described["arrays"].as_array().unwrap().iter();
    let found = arrays.find(|array| array["name"] == name);
    found.unwrap_or_else(|| panic!("{name} in {described}"))
}

/// The reason why a member cannot be read.
fn reason(described: &Value, name: &str) -> String {
    let mut members = described["unreadable"].as_array().unwrap().iter();
    let found = members.find(|member| member["name"] == name);
    let reason = found.and_then(|member| member["reason"].as_str());
    reason
        .unwrap_or_else(|| panic!("{name} in {described}"))
        .into()
}

fn numbers(numbers: impl IntoIterator<Item = i32>) -> Vec<u8> {
    numbers.into_iter().flat_map(i32::to_le_bytes).collect()
}

#[test]
fn attributes_of_every_type_are_shown() {
    let written = Written::new("kinds");
    let mounted = Mounted::new(written.source(), &[]);
    let described = arrays_json(&mounted.join("kinds.h5"));
    let expected = json!({
        "integer": -3, "unsigned": u64::MAX, "big-endian": 7,
        "half": 0.5, "single": 0.1, "double": ["NaN", "-Infinity"],
        "boolean": true, "list": [1, 2, 3], "matrix": [[0, 1, 2], [3, 4, 5]],
        "complex": [1.5, 2.0],
        "text": "größe", "texts": ["a", "bc"], "fixed": ["x", "yz"],
        "empty": [], "null": null,
        "compound": {"a": 1, "b": 2.5, "c": "abc"},
        "compounds": [{"n": 1, "list": [2, 3]}, {"n": 4, "list": [5, 6]}],
        "enumerated": 2, "opaque": "00ff10",
        "array": [[0, 1, 2], [3, 4, 5]], "ragged": [[1, 2, 3], []],
        "reference": "(not shown: reference)",
        "bits": [1, 255], "wide bits": [1, 256],
    });
    let shown = described["attributes"].as_object().unwrap();
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(shown.get(name), Some(value), "{name}");
    }
    assert_eq!(shown.len(), expected.as_object().unwrap().len());
}

#[test]
fn only_a_dimension_scale_hides_its_class_and_name() {
    let written = Written::new("kinds");
    let mounted = Mounted::new(written.source(), &[]);
    let described = arrays_json(&mounted.join("kinds.h5"));
    let table = &array(&described, "table")["attributes"];
    assert_eq!(*table, json!({"CLASS": "TABLE", "NAME": "mine"}));
    assert_eq!(
        array(&described, "scale")["attributes"],
        json!({"unit": "m"})
    );
}

#[test]
fn a_virtual_dataset_that_ends_in_another_file_is_not_empty_but_not_shown() {
    let written = Written::new("composed");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("composed.h5");
    let described = arrays_json(&file);
    let reason = reason(&described, "elsewhere");
    assert!(reason.contains("other.h5"), "{reason}");
    let arrays = described["arrays"].as_array().unwrap();
    assert!(arrays.iter().all(|array| array["name"] != "elsewhere"));
    let read = std::fs::read(file.join("elsewhere")).unwrap_err();
    assert_eq!(read.raw_os_error(), Some(libc::EIO));
}

#[test]
fn a_virtual_dataset_of_numbered_parts_is_put_together() {
    let written = Written::new("composed");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("composed.h5");
    assert_eq!(
        array(&arrays_json(&file), "numbered")["shape"],
        json!([6, 5])
    );
    assert_content(&file.join("numbered"), &numbers(0..30));
}

#[test]
fn damage_that_no_reader_needs_to_see_costs_nothing() {
    let written = Written::new("harmless");
    let mounted = Mounted::new(written.source(), &[]);
    assert_content(&mounted.join("free.h5/07"), &numbers(0..100));
    let rows = (0..4).flat_map(|row| (0..6).map(move |column| 12 * row + column));
    assert_content(&mounted.join("shrunk.h5/rows"), &numbers(rows));
    arrayfs([Path::new("verify"), &written.source()]).success();
}

#[test]
fn a_dataset_without_space_is_told_from_an_empty_one() {
    let written = Written::new("nothing");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("nothing.h5");
    let described = arrays_json(&file);
    assert_eq!(array(&described, "null")["space"], "null");
    assert_eq!(array(&described, "empty").get("space"), None);
    for name in ["null", "empty"] {
        assert_eq!(array(&described, name)["shape"], json!([0]));
        assert_content(&file.join(name), b"");
    }
}

#[test]
fn a_link_with_an_endless_name_is_named_as_far_as_it_goes() {
    let written = Written::new("nothing");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("nothing.h5");
    let described = arrays_json(&file);
    let unreadable = described["unreadable"].as_array().unwrap();
    assert_eq!(unreadable.len(), 1, "{described}");
    let (name, reason) = (&unreadable[0]["name"], &unreadable[0]["reason"]);
    assert!(name.as_str().unwrap().starts_with("nnnn"), "{name}");
    assert!(reason.as_str().unwrap().contains("70000 bytes"), "{reason}");
    assert_content(&file.join("numbers"), &numbers(0..3));
}
