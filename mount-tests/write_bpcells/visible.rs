//! Written bytes are seen at once, by every reader; a commit changes nothing that is seen, and of
//! the files that it replaces only the content.

use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};

use serde_json::Value;

use super::raw::Raw;
use super::{assert_stored, cp, is_staged, open, place_with, rewrite, wait_staged};
use crate::harness::is_root;
use crate::harness::place::Place;
use crate::harness::reads::{assert_content, assert_same, xattr};
use crate::harness::seeded::Seeded;
use crate::harness::users::{OTHER, THIRD};

const VERSIONS: [&str; 2] = ["packed-uint-matrix-v2", "unpacked-double-matrix-v2"];

fn matrix(version: &str, seed: u64) -> Raw {
    Raw::matrix(version, &mut Seeded::new(seed), [600, 80], 30_000)
}

fn whole(file: &File) -> Vec<u8> {
    let mut found = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut found, 0).unwrap();
    found
}

#[test]
fn inodes_handles_and_mappings_go_on_across_commits() {
    for version in VERSIONS {
        let mut expected = matrix(version, 1);
        let place = place_with(&[("m", &expected)]);
        let inodes = || {
            let names = ["m", "m/val", "m/index", "m/row_names", "m/arrays.json"];
            names.map(|name| place.join(name).metadata().unwrap().ino())
        };
        let (before, path) = (inodes(), place.join("m/val"));
        let (reader, writer) = (File::open(&path).unwrap(), open(&path));
        // SAFETY: nobody makes the file shorter.
        let map = unsafe { memmap2::Mmap::map(&reader) }.unwrap();
        for round in 0..4u64 {
            let val = expected.changed("val", |val| val[round as usize * 7000] = 1000 + round);
            let at = round * 7000 * expected.width("val") as u64;
            let changed = val[at as usize..][..expected.width("val")].to_vec();
            let short_lived = open(&path);
            short_lived.write_all_at(&changed, at).unwrap();
            expected.set("val", val);
            for found in [&whole(&reader)[..], &map, &whole(&writer)] {
                assert_same(&path, found, expected.get("val"));
            }
            drop(short_lived);
            assert_stored(&place.stored("m"), &expected);
            assert_eq!(inodes(), before);
            for found in [&whole(&reader)[..], &map, &whole(&writer)] {
                assert_same(&path, found, expected.get("val"));
            }
            expected.assert_shown(&place.join("m"));
        }
    }
}

fn told(place: &Place, array: &str) -> (u64, u64) {
    let text = std::fs::read(place.join("m/arrays.json")).unwrap();
    let told: Value = serde_json::from_slice(&text).unwrap();
    let arrays = told["arrays"].as_array().unwrap();
    let one = arrays.iter().find(|one| one["name"] == array).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    (number(&one["shape"][0]), number(&one["bytes"]))
}

#[test]
fn derived_files_follow_when_arrays_have_other_lengths() {
    for version in VERSIONS {
        let (raw, mut random) = (matrix(version, 2), Seeded::new(3));
        let to = Raw::matrix(version, &mut random, [600, 33], 5000);
        let place = place_with(&[("m", &raw)]);
        assert_eq!(told(&place, "val").0, 30_000);
        for name in ["val", "index", "shape", "idxptr"] {
            cp(to.get(name), &place.join("m").join(name)).success();
            if name != "idxptr" {
                wait_staged(&place.join("m"));
            }
        }
        assert_stored(&place.stored("m"), &to);
        for (name, count) in [("val", 5000), ("index", 5000), ("idxptr", 34), ("shape", 2)] {
            let bytes = to.get(name).len() as u64;
            assert_eq!(told(&place, name), (count, bytes), "{name}");
            let path = place.join("m").join(name);
            assert_eq!(path.metadata().unwrap().len(), bytes);
            let shape = xattr(&path, "user.arrayfs.shape").unwrap();
            assert_eq!(shape, format!("[{count}]"));
            let view = std::fs::read(place.join(format!("m/views/{name}.npy"))).unwrap();
            assert!(view.ends_with(to.get(name)), "{name}.npy");
            assert!(view.len() as u64 <= bytes + 256, "{name}.npy");
        }
    }
}

#[test]
fn an_array_that_is_cut_is_short_at_once() {
    let raw = matrix("packed-uint-matrix-v2", 4);
    let place = place_with(&[("m", &raw)]);
    let (path, reader) = (place.join("m/index"), File::open(place.join("m/index")));
    let (reader, writer) = (reader.unwrap(), open(&path));
    assert_same(&path, &whole(&reader), raw.get("index"));
    writer.set_len(40_000).unwrap();
    assert_same(&path, &whole(&reader), &raw.get("index")[..40_000]);
    writer.set_len(50_000).unwrap();
    let cut = [&raw.get("index")[..40_000], &[0; 10_000]].concat();
    assert_same(&path, &whole(&reader), &cut);
    rewrite(&writer, raw.get("index"));
    drop(writer);
    assert_content(&path, raw.get("index"));
    assert_stored(&place.stored("m"), &raw);
    assert!(!is_staged(&place.join("m")));
}

#[test]
fn files_that_are_replaced_keep_their_modes_and_owners() {
    for version in VERSIONS {
        let raw = matrix(version, 5);
        let place = place_with(&[("m", &raw)]);
        let stored = place.stored("m");
        let attributes = || {
            let names = super::contents(&stored).into_keys();
            let all = names.map(|name| {
                let of = stored.join(&name).metadata().unwrap();
                (name, of.mode(), of.uid(), of.gid())
            });
            all.collect::<Vec<_>>()
        };
        for (number, name) in super::contents(&stored).into_keys().enumerate() {
            let path = stored.join(&name);
            if is_root("giving files away") {
                chown(&path, Some(OTHER), Some(THIRD)).unwrap();
            }
            let mode = [0o640, 0o644, 0o600][number % 3];
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        let before = attributes();
        let to = matrix(version, 6);
        for name in ["val", "index", "idxptr"] {
            cp(to.get(name), &place.join("m").join(name)).success();
        }
        assert_stored(&stored, &to);
        assert_eq!(attributes(), before);
    }
}
