//! What is refused: what the format can never hold, at the close, and damaged containers at once.

use std::fs::OpenOptions;
use std::path::Path;

use super::super::raw::lines;
use super::super::{assert_stored, contents, cp, errno, place_with, wait_staged};
use super::{fragments, matrix};
use crate::harness::place::{Place, open_directory};
use crate::harness::{copy_directory, golden};

#[test]
fn what_no_container_can_hold_is_refused_when_it_is_closed() {
    let raws = [
        matrix("packed-uint-matrix-v2"),
        fragments("packed-fragments-v2"),
    ];
    let place = place_with(&[("m", &raws[0]), ("f", &raws[1])]);
    // As many lines as there must be.
    let with_zero = |name, count: usize| {
        lines(name, count - 1)
            .into_iter()
            .chain(*b"a\0b\n")
            .collect()
    };
    let without_end = |name, count: usize| {
        let mut text = lines(name, count);
        text.pop();
        text
    };
    for (array, bad) in [
        ("m/col_names", with_zero("col", 40)),
        ("m/row_names", without_end("row", 500)),
        ("m/storage_order", b"diagonal\n".to_vec()),
        ("m/storage_order", b"col".to_vec()),
        ("f/cell_names", with_zero("cell", 300)),
        ("f/chr_names", without_end("chr", 4)),
    ] {
        let bad: &Vec<u8> = &bad;
        let (container, name) = array.split_once('/').unwrap();
        let raw = &raws[usize::from(container == "f")];
        let (shown, stored) = (place.join(container), place.stored(container));
        let before = contents(&stored);
        cp(bad, &place.join(array)).failed_saying(1, &["Invalid argument"]);
        assert!(contents(&stored) == before, "{array}");
        // It is still there, until it is written over.
        let said = wait_staged(&shown);
        assert!(said.contains(name), "{name} is not in: {said}");
        crate::harness::reads::assert_content(&place.join(array), bad);
        cp(raw.get(name), &place.join(array)).success();
        assert_stored(&stored, raw);
        raw.assert_shown(&shown);
    }
}

/// Told or staged, it is not committed.
#[test]
fn a_part_of_a_number_or_an_unknown_version_is_never_committed() {
    let raw = matrix("packed-uint-matrix-v2");
    let place = place_with(&[("m", &raw)]);
    let before = contents(&place.stored("m"));
    for (name, bad) in [
        ("val", &raw.get("val")[..raw.get("val").len() - 3]),
        ("idxptr", &[raw.get("idxptr"), b"more"].concat()),
        ("shape", &raw.get("shape")[..4]),
        ("version", b"packed-uint-matrix-v3\n"),
        ("version", b"packed-uint-matrix-v2\npacked-uint-matrix-v2\n"),
        ("version", b""),
    ] {
        let ran = cp(bad, &place.join("m").join(name));
        assert!(matches!(ran.code(), Some(0 | 1)), "{ran:?}");
        let said = wait_staged(&place.join("m"));
        assert!(said.contains(name), "{name} is not in: {said}");
        assert!(contents(&place.stored("m")) == before, "{name}");
        cp(raw.get(name), &place.join("m").join(name)).success();
        assert_stored(&place.stored("m"), &raw);
    }
}

fn all_names(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_file());
    paths
}

/// Of the corpus those whose structure cannot be trusted.
#[test]
fn a_damaged_container_cannot_be_written() {
    let source = open_directory();
    let mut damaged: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(golden("bpcells/sources")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("bad-") && entry.path().is_dir() {
            copy_directory(&entry.path(), &source.path().join(&name));
            damaged.push(name);
        }
    }
    let place = Place::over(source, &[]);
    let derived = ["arrays.json", "error.txt"].map(std::ffi::OsStr::new);
    damaged.retain(|name| place.join(name).join("error.txt").exists());
    assert!(damaged.len() >= 4, "{damaged:?}");
    for name in &damaged {
        let before = contents(&place.stored(name));
        for path in all_names(&place.join(name)) {
            if derived.contains(&path.file_name().unwrap()) {
                continue;
            }
            for truncate in [false, true] {
                let mut options = OpenOptions::new();
                let opened = options.write(true).truncate(truncate).open(&path);
                assert_eq!(errno(opened), Some(libc::EROFS), "{}", path.display());
            }
        }
        assert!(contents(&place.stored(name)) == before, "{name}");
    }
}

#[test]
fn what_follows_from_the_arrays_cannot_be_written() {
    let raws = [
        matrix("packed-uint-matrix-v2"),
        fragments("packed-fragments-v2"),
    ];
    let place = place_with(&[("m", &raws[0]), ("f", &raws[1])]);
    let before = [contents(&place.stored("m")), contents(&place.stored("f"))];
    for path in [
        "m/arrays.json",
        "m/views/val.npy",
        "f/end_max",
        "f/arrays.json",
    ] {
        for truncate in [false, true] {
            let mut options = OpenOptions::new();
            let opened = options
                .write(true)
                .truncate(truncate)
                .open(place.join(path));
            let refused = errno(opened);
            let is_it = matches!(refused, Some(libc::EPERM | libc::EROFS));
            assert!(
                is_it && (path != "f/end_max" || refused == Some(libc::EPERM)),
                "{path}"
            );
        }
    }
    let after = [contents(&place.stored("m")), contents(&place.stored("f"))];
    assert!(before == after);
}
