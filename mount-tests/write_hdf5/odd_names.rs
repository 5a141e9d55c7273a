//! Names of attributes, members, labels and links that are no text, or have signs that are escaped:
//! they are shown apart, and come back.

use std::path::Path;

use serde_json::Value;

use crate::harness::place::Place;
use crate::harness::python::script;
use crate::harness::reads::assert_content;
use crate::harness::tools::shell;

#[test]
fn variables_called_like_other_dimensions_have_their_names() {
    let place = Place::mounted(&[]);
    let [stored, copied] = ["x.nc", "y.nc"].map(|name| place.stored(name));
    script(
        "write_hdf5/scenario.py",
        [Path::new("not_coordinates"), &stored],
    )
    .success();
    assert_content(&place.join("x.nc/lat"), &7i32.to_le_bytes());
    let numbers: Vec<u8> = [1f64, 2., 3.]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    assert_content(&place.join("x.nc/g/x"), &numbers);
    shell(place.path(), "cp -r x.nc y.nc", &[]);
    place.wait_packed("y.nc");
    let changed: Vec<u8> = [4f64, 5., 6.]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    for name in ["x.nc", "y.nc"] {
        std::fs::write(place.join(name).join("g/x"), &changed).unwrap();
    }
    let both = [Path::new("same_variables"), &stored, &copied];
    script("write_hdf5/scenario.py", both).success();
}

#[test]
fn odd_names_are_shown_apart_and_come_back() {
    let place = Place::mounted(&[]);
    let [stored, copied] = ["x.h5", "y.h5"].map(|name| place.stored(name));
    script("write_hdf5/scenario.py", [Path::new("odd_names"), &stored]).success();
    let told = std::fs::read(place.join("x.h5/arrays.json")).unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    let escaped = [
        ("caf%E9", 0),
        ("caf%EA", 1),
        ("caf\u{fffd}", 2),
        ("caf%25E9", 3),
        ("m%2Fs", 4),
        ("100%25", 5),
        ("%7E", 6),
        ("a%7E1", 7),
        ("tab%09", 8),
        ("%FF", 9),
        ("gr\u{f6}\u{df}e", 10),
        ("%2E", 11),
    ];
    let arrays = told["arrays"].as_array().unwrap();
    let array = |name: &str| arrays.iter().find(|array| array["name"] == name).unwrap();
    for of in [
        &array("d")["attributes"],
        &told["attributes"],
        &told["groups"]["g%E9"],
    ] {
        for (name, number) in escaped {
            assert_eq!(of[name], number, "{name}: {of}");
        }
        assert_eq!(of["compound%E9"]["m%2Fs"], 1);
    }
    for (of, at) in [("c", 0), ("e", 0)] {
        let members = array(of)["type"]["members"].as_array().unwrap().iter();
        let members: Vec<&str> = members.map(|one| one[at].as_str().unwrap()).collect();
        assert_eq!(members, escaped.map(|(name, _)| name));
    }
    assert_eq!(array("d")["dims"], serde_json::json!(["m%2Fs"]));
    assert_eq!(array("c")["dims"], serde_json::json!(["caf%E9"]));
    let dims = array("plane")["dims"].as_array().unwrap();
    assert_eq!(dims[..2], ["caf%E9", "caf%EA"]);
    assert_eq!(told["soft_links"]["soft0"], "/nowhere/caf%E9");
    shell(place.path(), "cp -r x.h5 y.h5", &[]);
    place.wait_packed("y.h5");
    let both = [Path::new("same_names"), &stored, &copied];
    script("write_hdf5/scenario.py", both).success();
}
