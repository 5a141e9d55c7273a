//! BPCells containers in the groups of new HDF5 files: copies of groups and of directories, with
//! their rules.

use std::ffi::OsStr;
use std::fs::{File, create_dir, create_dir_all, write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::harness::depth::some_of;
use crate::harness::mounted::Mounted;
use crate::harness::place::{Place, open_directory};
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::run_seed;
use crate::harness::tools::{shell, tools};
use crate::harness::{golden, scratch_directory};

/// What the formats' own program has written in HDF5: one of so many files.
fn written_by_the_program(one_of: u64) -> TempDir {
    let source = scratch_directory();
    let entries = std::fs::read_dir(golden("bpcells/sources")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.retain(|name| {
        let shown = name.to_str().unwrap();
        shown.ends_with(".h5") && !shown.starts_with("bad-")
    });
    for name in some_of(names, one_of, 0) {
        let path = golden("bpcells/sources").join(&name);
        std::fs::copy(path, source.path().join(name)).unwrap();
    }
    source
}

/// Copies all files of a directory that a mount shows.
fn copied(source: &Path, copy: &str) -> Place {
    let mounted = Mounted::new(source, &["ro"]);
    let place = Place::mounted(&["settle=600000"]);
    for entry in std::fs::read_dir(mounted.path()).unwrap() {
        let container = entry.unwrap().path();
        let name = container.file_name().unwrap().to_str().unwrap();
        shell(place.path(), copy, &[&container]);
        place.wait_packed(name);
        let state = xattr(&place.join(name), "user.arrayfs.state").unwrap();
        assert_eq!(state, "clean", "{name}");
    }
    arrayfs([Path::new("verify"), place.source()]).success();
    place
}

#[test]
fn copies_of_the_programs_own_files_are_what_they_were() {
    // Of a part of the files, none may have filters.
    let mut copies = vec![
        (r#"cp -r "$1" ."#, "filtered", 1),
        (r#"cp -a "$1" . 2>/dev/null || true"#, "same", 3),
    ];
    if tools(&["rsync"]) {
        copies.push((r#"rsync -aXq "$1" . 2>/dev/null || true"#, "same", 3));
    }
    for (copy, what, one_of) in copies {
        let source = written_by_the_program(one_of);
        let place = copied(source.path(), copy);
        let what = OsStr::new(what);
        let arguments = [what, source.path().as_os_str(), place.source().as_os_str()];
        script("write_hdf5/groups.py", arguments).success();
        let told = scratch_directory();
        for entry in std::fs::read_dir(source.path()).unwrap() {
            write(told.path().join(entry.unwrap().file_name()), "clean").unwrap();
        }
        let compared = [source.path(), place.source(), told.path()];
        script("write_hdf5/copied.py", compared).success();
    }
}

/// Of every version, in the corners of the format.
#[test]
fn copies_of_groups_of_every_version_have_the_same_arrays() {
    let source = open_directory();
    let seed = PathBuf::from(run_seed().to_string());
    let make = [Path::new("make"), source.path(), &seed];
    script("write_hdf5/packed.py", make).success();
    let place = copied(source.path(), r#"cp -r "$1" ."#);
    let arguments = [Path::new("same"), source.path(), place.source()];
    script("write_hdf5/groups.py", arguments).success();
}

#[test]
fn directories_of_every_version_become_groups() {
    let (source, seed) = (scratch_directory(), run_seed().to_string());
    let make = [Path::new("make"), Path::new(&seed), source.path()];
    script("oracle_bpcells.py", make).success();
    let mounted = Mounted::new(source.path(), &["ro"]);
    let mut place = Place::mounted(&["settle=600000", "cache=16M"]);
    let at = place.join("x.h5");
    create_dir(&at).unwrap();
    shell(mounted.path(), r#"cp -r * "$1""#, &[&at]);
    place.wait_packed("x.h5");
    let stored = place.stored("x.h5");
    let hold = [Path::new("hold"), &stored, source.path()];
    script("write_hdf5/groups.py", hold).success();
    arrayfs([Path::new("verify"), place.source()]).success();
    // They can be given other values, as any group can be.
    place.mount_again();
    let group = place.join("x.h5/packed-uint-matrix-v2-chunk");
    let values = std::fs::read(group.join("val")).unwrap();
    write(group.join("val"), vec![7; values.len()]).unwrap();
    shell(
        place.path(),
        r#"arrayfs stage commit "$1""#,
        &[&place.join("x.h5")],
    );
    place.mount_again();
    let val = place.join("x.h5/packed-uint-matrix-v2-chunk/val");
    assert_content(&val, &vec![7; values.len()]);
}

fn u32s(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// Two rows and one column, with entries in both rows.
fn put_matrix(group: &Path, but: &str) {
    create_dir_all(group).unwrap();
    let pointers: Vec<u8> = [0u64, 2].into_iter().flat_map(u64::to_le_bytes).collect();
    for (name, content) in [
        ("version", b"packed-uint-matrix-v2\n".to_vec()),
        ("val", u32s(&[5, 6])),
        ("index", u32s(&[0, 1])),
        ("idxptr", pointers),
        ("shape", u32s(&[2, 1])),
    ] {
        if name != but {
            write(group.join(name), content).unwrap();
        }
    }
}

fn synced(place: &Place) -> String {
    let _stays = File::open(place.join("x.h5")).and_then(|directory| directory.sync_all());
    xattr(&place.join("x.h5"), "user.arrayfs.state").unwrap()
}

/// As a directory stays new: with the reason, until the arrays agree.
#[test]
fn it_stays_new_until_arrays_agree() {
    let place = Place::mounted(&["settle=600000"]);
    let group = place.join("x.h5/g");
    create_dir(place.join("x.h5")).unwrap();
    put_matrix(&group, "idxptr");
    let state = synced(&place);
    assert!(state.ends_with("g: idxptr is missing"), "{state}");
    put_matrix(&group, "");
    write(group.join("val"), u32s(&[5])).unwrap();
    let state = synced(&place);
    assert!(state.contains("g: val has 1 values"), "{state}");
    write(group.join("val"), u32s(&[5, 6])).unwrap();
    write(group.join("index"), u32s(&[0, 2])).unwrap();
    let state = synced(&place);
    assert!(state.contains("g: index: value 1 is 2"), "{state}");
    write(group.join("index"), u32s(&[0, 1])).unwrap();
    write(group.join("val_data"), b"UINT32v1").unwrap();
    let state = synced(&place);
    assert!(
        state.contains("g: val_data is a file of BPCells"),
        "{state}"
    );
    std::fs::remove_file(group.join("val_data")).unwrap();
    write(group.join("beside"), b"abc").unwrap();
    create_dir(group.join("below")).unwrap();
    place.wait_packed("x.h5");
    assert_content(&group.join("val"), &u32s(&[5, 6]));
    assert_content(&group.join("storage_order"), b"col\n");
    assert_content(&group.join("beside"), b"abc");
    assert!(group.join("below").is_dir());
    assert_eq!(xattr(&group, "user.arrayfs.format").unwrap(), "bpcells");
    // And when another array is put into the file.
    write(place.join("x.h5/later"), b"abc").unwrap();
    crate::harness::wait_until("it is an array", || {
        synced(&place).starts_with("clean")
            && xattr(&place.join("x.h5/later"), "user.arrayfs.shape").is_ok()
    });
    assert_content(&group.join("val"), &u32s(&[5, 6]));
    assert_content(&group.join("version"), b"packed-uint-matrix-v2\n");
    arrayfs([Path::new("verify"), place.source()]).success();
}

/// What `arrays.json` says of it counts as it does in a directory.
#[test]
fn a_group_is_as_it_is_described() {
    let place = Place::mounted(&["settle=600000"]);
    let group = place.join("x.h5/a/g");
    create_dir(place.join("x.h5")).unwrap();
    put_matrix(&group, "version");
    write(group.join("shape"), u32s(&[1, 2])).unwrap();
    let described = |version: &str, dtype: &str| {
        format!(
            r#"{{"format": "bpcells", "version": "{version}", "attributes": {{"storage_order": "row"}}, "arrays": [
            {{"name": "val", "dtype": "{dtype}", "shape": [2], "chunks": [10], "filters": [{{"id": 1, "values": [3]}}]}}]}}"#
        )
    };
    for (version, dtype, why) in [
        ("packed-uint-matrix-v3", "uint32", "no version of BPCells"),
        ("packed-uint-matrix-v1", "uint32", "idxptr: entry 3 is 0"),
        (
            "unpacked-uint-matrix-v2",
            "float32",
            "val is of uint32, not float32",
        ),
    ] {
        write(group.join("arrays.json"), described(version, dtype)).unwrap();
        let state = synced(&place);
        assert!(state.contains("a/g: ") && state.contains(why), "{state}");
    }
    let described = described("unpacked-uint-matrix-v2", "uint32");
    write(group.join("arrays.json"), described).unwrap();
    place.wait_packed("x.h5");
    assert_content(&group.join("version"), b"unpacked-uint-matrix-v2\n");
    assert_content(&group.join("storage_order"), b"row\n");
    let told = String::from_utf8(std::fs::read(place.join("x.h5/arrays.json")).unwrap()).unwrap();
    let told: String = told.split_whitespace().collect();
    assert!(
        told.contains(r#""name":"a/g/val""#) && told.contains(r#""chunks":[10]"#),
        "{told}"
    );
    assert!(told.contains(r#""id":1"#), "{told}");
    assert!(!told.contains("a/g/arrays.json"), "{told}");
}

/// A text of that name that is described as an array is one.
#[test]
fn a_dataset_may_be_called_version() {
    let place = Place::mounted(&["settle=600000"]);
    let at = place.join("x.h5");
    create_dir(&at).unwrap();
    let text = r#"{"arrays": [{"name": "g/version", "dtype": "str", "shape": [1]},
        {"name": "g/index", "dtype": "uint32", "shape": [2]}]}"#;
    write(at.join("arrays.json"), text).unwrap();
    create_dir(at.join("g")).unwrap();
    write(at.join("g/version"), "packed-uint-matrix-v2\n").unwrap();
    write(at.join("g/index"), u32s(&[1, 2])).unwrap();
    place.wait_packed("x.h5");
    let stored = place.stored("x.h5");
    let arguments = [Path::new("plain"), &stored, Path::new("g")];
    script("write_hdf5/groups.py", arguments).success();
}
