//! New classic NetCDF files: copies of containers' directories, and arrays without any description
//! of a kind.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::tools::{shell, tools};
use crate::harness::{golden, scratch_directory};

fn made() -> TempDir {
    let directory = scratch_directory();
    let arguments = [OsStr::new("make"), directory.path().as_os_str()];
    script("made_netcdf.py", arguments).success();
    directory
}

/// Binsparse containers of every classic kind.
fn sparse() -> TempDir {
    let directory = scratch_directory();
    for entry in std::fs::read_dir(golden("binsparse/sources")).unwrap() {
        let (path, name) = entry
            .map(|entry| (entry.path(), entry.file_name()))
            .unwrap();
        if name.to_str().is_some_and(|name| name.starts_with("cdf")) {
            std::fs::copy(path, directory.path().join(name)).unwrap();
        }
    }
    directory
}

fn copies_say_the_same(from: &Path, copy: &str) {
    let mounted = Mounted::new(from, &["ro"]);
    let place = Place::mounted(&["settle=600000"]);
    for entry in std::fs::read_dir(mounted.path()).unwrap() {
        let container = entry.unwrap().path();
        shell(place.path(), copy, &[&container]);
        let name = container.file_name().unwrap().to_str().unwrap();
        place.wait_packed(name);
        let state = xattr(&place.join(name), "user.arrayfs.state").unwrap();
        assert_eq!(state, "clean", "{name}");
    }
    let arguments = [
        OsStr::new("compare"),
        from.as_os_str(),
        place.source().as_os_str(),
    ];
    script("made_netcdf.py", arguments).success();
    arrayfs([Path::new("verify"), place.source()]).success();
}

#[test]
fn the_library_reads_the_same_of_copies() {
    copies_say_the_same(made().path(), r#"cp -r "$1" ."#);
}

#[test]
fn the_library_reads_the_same_of_what_rsync_copies() {
    if tools(&["rsync"]) {
        copies_say_the_same(made().path(), r#"rsync -a "$1" ."#);
    }
}

/// With their own attributes beside the descriptor, and what follows from it nowhere.
#[test]
fn the_library_reads_the_same_of_copies_of_binsparse_containers() {
    copies_say_the_same(sparse().path(), r#"cp -r "$1" ."#);
    copies_say_the_same(sparse().path(), r#"cp -a "$1" . 2>/dev/null || true"#);
}

/// Rules that `verify` would find broken keep it new.
#[test]
fn a_binsparse_container_stays_new_until_its_rules_hold() {
    let source = sparse();
    let mounted = Mounted::new(source.path(), &["ro"]);
    let place = Place::mounted(&["settle=600000"]);
    let (from, at) = (mounted.path().join("cdf5-csr.nc"), place.join("x.nc"));
    shell(
        place.path(),
        r#"cp -r "$1" x.nc; printf '\377' | dd of=x.nc/indices_1 conv=notrunc status=none"#,
        &[&from],
    );
    let _stays = File::open(&at).and_then(|directory| directory.sync_all());
    let state = xattr(&at, "user.arrayfs.state").unwrap();
    assert!(
        state.contains("binsparse.json: ") && state.contains("indices_1"),
        "{state}"
    );
    shell(
        place.path(),
        r#"cp "$1/indices_1" x.nc/; echo '{}' > x.nc/binsparse.json"#,
        &[&from],
    );
    let _stays = File::open(&at).and_then(|directory| directory.sync_all());
    let state = xattr(&at, "user.arrayfs.state").unwrap();
    assert!(state.contains("binsparse.json: "), "{state}");
    shell(place.path(), r#"cp "$1/binsparse.json" x.nc/"#, &[&from]);
    place.wait_packed("x.nc");
    assert_eq!(xattr(&at, "user.arrayfs.format").unwrap(), "binsparse");
    arrayfs([Path::new("verify"), place.source()]).success();
}

#[test]
fn a_description_by_hand_is_enough() {
    let place = Place::mounted(&["settle=600000"]);
    let at = place.join("x.nc");
    std::fs::create_dir(&at).unwrap();
    let array = r#"{"name": "t", "dtype": "int16", "shape": [2, 3], "dims": ["time", "x"]}"#;
    let dimensions = r#"{"time": {"length": 0, "unlimited": true}}"#;
    let text =
        format!(r#"{{"format": "netcdf", "dimensions": {dimensions}, "arrays": [{array}]}}"#);
    std::fs::write(at.join("arrays.json"), text).unwrap();
    std::fs::write(at.join("t"), [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]).unwrap();
    std::fs::create_dir(at.join("group")).unwrap();
    let synced = File::open(&at).unwrap().sync_all();
    assert_eq!(synced.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    std::fs::remove_dir(at.join("group")).unwrap();
    place.wait_packed("x.nc");
    assert_content(&at.join("t"), &[1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]);
    // A third record.
    shell(&at, r"printf '\007\000\010\000\011\000' >> t", &[]);
    assert_eq!(
        xattr(&at.join("t"), "user.arrayfs.shape").unwrap(),
        "[3, 3]"
    );
}
