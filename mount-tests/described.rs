//! `ls -l` and `info` for people: tables and descriptions, of containers, arrays and groups.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, Ran, arrayfs, run};
use crate::harness::python::{Written, script};
use crate::harness::scratch_directory;
use crate::harness::writers::Bloscpack;

fn on(path: &Path, arguments: &[&str]) -> Ran {
    let arguments = arguments.iter().map(OsStr::new);
    arrayfs(arguments.chain([path.as_os_str()]))
}

fn said(path: &Path, arguments: &[&str]) -> String {
    on(path, arguments).success().text()
}

/// Three arrays of different sizes in two files.
fn three() -> tempfile::TempDir {
    let source = scratch_directory();
    for (name, len) in [("b.blp", 80_000), ("a.blp", 800)] {
        Bloscpack::default().write(&source.path().join(name), &vec![1; len]);
    }
    let deep = source.path().join("deep");
    std::fs::create_dir(&deep).unwrap();
    Bloscpack::default().write(&deep.join("c.blp"), &[1; 8000]);
    source
}

#[test]
fn a_long_listing_has_its_words_above_and_its_sums_below() {
    let source = three();
    let listed = said(source.path(), &["ls", "-l"]);
    let lines: Vec<&str> = listed.lines().collect();
    let words: Vec<&str> = lines[0].split_whitespace().collect();
    let expected = ["name", "type", "shape", "size", "stored", "ratio", "codec"];
    assert_eq!(words, expected);
    let rows: Vec<&&str> = lines
        .iter()
        .filter(|line| line.starts_with("  data"))
        .collect();
    assert_eq!(rows.len(), 3);
    // Numbers end where their words do.
    let end_of = |line: &str, what: &str| line.find(what).unwrap() + what.len();
    let end = end_of(lines[0], "size");
    for size in ["800 B", "78.1 KiB", "7.8 KiB"] {
        assert!(
            rows.iter()
                .any(|row| row.contains(size) && end_of(row, size) == end),
            "{listed}"
        );
    }
    let sums = lines.last().unwrap();
    assert!(
        sums.starts_with("3 containers, 3 arrays, 86.7 KiB in "),
        "{sums}"
    );
    assert!(sums.contains(", ratio "), "{sums}");
    let one = said(&source.path().join("a.blp"), &["ls", "-l"]);
    assert!(one.contains("\n1 container, 1 array, 800 B in "), "{one}");
    let none = scratch_directory();
    assert_eq!(
        said(none.path(), &["ls", "-l"]),
        "0 containers, 0 arrays, 0 B in 0 B\n"
    );
}

#[test]
fn listings_are_sorted_across_containers() {
    let source = three();
    let name = |line: &str| {
        let path = line.split_whitespace().next().unwrap();
        let path = Path::new(path).strip_prefix(source.path()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plain = |arguments: &[&str]| -> Vec<String> {
        said(source.path(), arguments).lines().map(name).collect()
    };
    let by_size = ["b.blp/data", "deep/c.blp/data", "a.blp/data"];
    assert_eq!(plain(&["ls", "--sort=size"]), by_size);
    let by_name = ["a.blp/data", "b.blp/data", "deep/c.blp/data"];
    assert_eq!(plain(&["ls", "--sort=name"]), by_name);
    let long = said(source.path(), &["ls", "-l", "--sort=size"]);
    let rows = long.lines().filter(|line| line.contains("/data"));
    assert_eq!(rows.map(name).collect::<Vec<_>>(), by_size);
    let listed = said(source.path(), &["ls", "--json", "--sort=size"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let paths = listed.as_array().unwrap().iter();
    let paths: Vec<_> = paths
        .map(|of| format!("{}/data", of["path"].as_str().unwrap()))
        .collect();
    assert_eq!(
        paths.iter().map(|path| name(path)).collect::<Vec<_>>(),
        by_size
    );
    on(source.path(), &["ls", "--sort=shape"]).failed_saying(2, &["size", "name"]);
}

#[test]
fn arrays_of_a_container_are_sorted() {
    let written = Written::new("groups");
    let file = written.source().join("groups.h5");
    let of = |sort: &[&str]| said(&file, sort);
    let mut stored: Vec<String> = of(&["ls"]).lines().map(str::to_owned).collect();
    let by_name: Vec<String> = of(&["ls", "--sort=name"])
        .lines()
        .map(str::to_owned)
        .collect();
    stored.sort();
    assert_eq!(by_name, stored);
    let by_size = of(&["ls", "--sort=size"]);
    assert!(
        by_size.lines().next().unwrap().ends_with("/a/b/c/deep"),
        "{by_size}"
    );
}

/// A file with attributes of its own, of a group and of an array.
fn described() -> tempfile::TempDir {
    let source = scratch_directory();
    let path = source.path().join("x.h5");
    script("described.py", [path.as_os_str()]).success();
    source
}

#[test]
fn info_tells_attributes_dimensions_and_groups() {
    let source = described();
    let told = said(&source.path().join("x.h5"), &["info"]);
    let first = told.lines().next().unwrap();
    assert!(first.contains("x.h5: hdf5"), "{told}");
    for line in [
        "  4 arrays, 148 B in 148 B, ratio 1.00",
        "  :title = \"a title\"",
        "  dimension of 3",
        "obs/",
        "  :encoding-type = \"csr_matrix\"",
        "  :shape = [3,4]",
        "obs/temperature",
        "  type    float32 (3, 4), order C",
        "  dims    time = 3, - = 4",
        "  :units = \"K\"",
        "  :scale_factor = 0.5",
        "  codec   none, 1 block",
    ] {
        assert!(told.lines().any(|found| found == line), "{line}: {told}");
    }
    assert!(!told.contains("1 blocks"), "{told}");
    // A group is told before what is in it, and what is long is cut.
    assert!(told.find("obs/\n").unwrap() < told.find("obs/temperature\n").unwrap());
    assert!(told.len() < 10_000, "{}", told.len());
}

#[test]
fn info_tells_of_one_array_or_group() {
    let source = described();
    let mounted = Mounted::new(source.path(), &["ro"]);
    for root in [source.path(), mounted.path()] {
        let array = said(&root.join("x.h5/obs/temperature"), &["info"]);
        assert!(
            array.contains("x.h5/obs/temperature: array, hdf5"),
            "{array}"
        );
        assert!(array.contains("\n  :units = \"K\"\n"), "{array}");
        assert!(!array.contains("a title"), "{array}");
        let group = said(&root.join("x.h5/obs"), &["info"]);
        assert!(group.contains("x.h5/obs: group, hdf5"), "{group}");
        assert!(group.contains("\n  2 arrays, "), "{group}");
        assert!(
            group.contains("csr_matrix") && group.contains("obs/temperature"),
            "{group}"
        );
        assert!(!group.contains("a title"), "{group}");
        let empty = said(&root.join("x.h5/empty"), &["info"]);
        assert!(empty.contains("\n  0 arrays, "), "{empty}");
    }
    let json = |what: &str| -> Value {
        let told = said(&source.path().join(what), &["info", "--json"]);
        serde_json::from_str(&told).unwrap()
    };
    let array = json("x.h5/obs/temperature");
    assert_eq!(array[0]["name"], "obs/temperature");
    assert_eq!(array[0]["attributes"]["units"], "K");
    let group = json("x.h5/obs");
    assert_eq!(group["attributes"]["encoding-type"], "csr_matrix");
    assert_eq!(group["arrays"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_no_array_says_where_to_look() {
    let source = described();
    std::fs::write(source.path().join("notes.txt"), "notes").unwrap();
    let mounted = Mounted::new(source.path(), &["ro"]);
    let array = "that is ";
    for (what, parts) in [
        (
            "x.h5/views/obs/temperature.npy",
            [array, "x.h5/obs/temperature"],
        ),
        ("x.h5/views", ["views of the arrays of", "x.h5"]),
        ("x.h5/arrays.json", ["is no array", "arrayfs info"]),
        ("x.h5/none", ["no array 'none'", "obs/temperature"]),
        ("notes.txt", ["not a container", "arrayfs ls"]),
    ] {
        on(&mounted.join(what), &["info"]).failed_saying(1, &parts);
    }
}

#[test]
fn colours_are_for_those_who_want_them() {
    let source = described();
    let path = source.path().join("x.h5");
    for arguments in [&["info"][..], &["ls", "-l"]] {
        let plain = said(&path, arguments);
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
        let mut command = Command::new(ARRAYFS);
        command
            .args(arguments)
            .arg(&path)
            .env("CLICOLOR_FORCE", "1");
        let coloured = run(command.env_remove("NO_COLOR")).success().text();
        assert!(coloured.contains("\u{1b}[1m"), "{coloured:?}");
    }
}
