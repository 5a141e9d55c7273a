//! Stores that claim much, and zip files as `zip -r` makes them.

use std::path::Path;
use std::process::Command;

use super::{write_chunk, write_document, write_group};
use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, run};
use crate::harness::reads::names;
use crate::harness::{python, scratch_directory};

#[test]
fn a_zip_file_with_entries_of_directories_hides_no_sibling() {
    let source = scratch_directory();
    let store = source.path().join("s.zarr");
    write_group(&store);
    let all = ["a", "a b", "a-b", "a.b", "obs", "obs-old"];
    for name in all {
        write_document(&store.join(name), 4, 0);
        write_chunk(&store.join(name), 0, 7);
    }
    let zip = "import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1] + '.zip', 'w') as packed:
    for directory, _, files in os.walk(sys.argv[1]):
        below = os.path.relpath(directory, sys.argv[1])
        if below != '.':
            packed.write(directory, below + '/')
        for name in files:
            packed.write(os.path.join(directory, name), os.path.join(below, name))
";
    let mut python = Command::new(python::interpreter());
    run(python.args(["-c", zip]).arg(&store)).success();
    let mounted = Mounted::new(source.path(), &["ro"]);
    let shown = |name: &str| {
        let mut all = names(&mounted.join(name));
        all.retain(|name| name != "arrays.json");
        all.sort();
        all
    };
    assert_eq!(shown("s.zarr.zip"), all);
    assert_eq!(shown("s.zarr"), all);
    let array = mounted.join("s.zarr.zip/a b");
    assert_eq!(std::fs::read(array).unwrap(), super::bytes(&[7; 4]));
}

fn write_version_2(at: &Path, dtype: &str, filters: &str) {
    std::fs::create_dir_all(at).unwrap();
    let document = format!(
        r#"{{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": {dtype}, "fill_value": null,
        "order": "C", "compressor": null, "filters": {filters}}}"#
    );
    std::fs::write(at.join(".zarray"), document).unwrap();
}

#[test]
fn what_an_element_or_a_codec_claims_takes_no_memory() {
    let source = scratch_directory();
    let label = r#""x""#;
    let labels = [label; 300].join(",");
    let categorize = format!(
        r#"[{{"id": "categorize", "dtype": "<U10000000", "astype": "|u1", "labels": [{labels}]}}]"#
    );
    let stores = [
        ("categorized.zarr", r#""<U10000000""#, &*categorize),
        ("wide.zarr", r#"">U268435456""#, "null"),
        (
            "nested.zarr",
            r#"[["a", [["b", ">u2", [200]], ["c", ">u4"]], [1000000]]]"#,
            "null",
        ),
        (
            "even.zarr",
            r#"[["a", [["b", "|u1", [1000]]], [1000000]]]"#,
            "null",
        ),
    ];
    for (name, dtype, filters) in stores {
        write_version_2(&source.path().join(name), dtype, filters);
    }
    let mounted = Mounted::new(source.path(), &["ro", "cache=64M"]);
    for (name, ..) in stores {
        for entry in std::fs::read_dir(mounted.join(name)).unwrap() {
            let _ = entry.unwrap().metadata();
        }
    }
    mounted.assert_alive();
    let status = std::fs::read_to_string(format!("/proc/{}/status", mounted.daemon())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 160 << 10, "{line}");
}

#[test]
fn a_store_is_not_taken_apart() {
    let source = scratch_directory();
    let store = source.path().join("s.zarr");
    write_group(&store);
    write_group(&store.join("g"));
    write_document(&store.join("g/x"), 4, 0);
    let mounted = Mounted::new(source.path(), &["rw"]);
    let refused = std::fs::remove_dir_all(mounted.join("s.zarr")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    assert_eq!(std::fs::read(mounted.join("s.zarr/g/x")).unwrap().len(), 16);
}

#[test]
fn consolidated_metadata_that_name_what_lies_elsewhere_lead_nowhere() {
    let source = scratch_directory();
    let store = source.path().join("s.zarr");
    write_group(&store);
    let consolidated = r#"{"zarr_consolidated_format": 1, "metadata":
        {"/etc/passwd": {}, "../x/.zarray": {}, ".zgroup": {"zarr_format": 2}}}"#;
    std::fs::write(store.join(".zmetadata"), consolidated).unwrap();
    std::fs::write(store.join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
    let verified = arrayfs([Path::new("verify"), &store]).success();
    let said = format!("{}{}", verified.text(), verified.stderr);
    assert!(said.contains("name what lies elsewhere"), "{said}");
    assert!(!said.contains("cannot open"), "{said}");
}

#[test]
fn a_directory_that_is_only_named_so_is_told_when_it_is_named_itself() {
    let source = scratch_directory();
    let empty = source.path().join("x.zarr");
    std::fs::create_dir(&empty).unwrap();
    for command in ["verify", "ls", "info"] {
        for path in [&*empty, source.path()] {
            if command == "info" && path == source.path() {
                continue;
            }
            let said = arrayfs([Path::new(command), path]);
            said.failed_saying(1, &["x.zarr", "no zarr store"]);
        }
    }
}
