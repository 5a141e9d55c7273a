//! New classic NetCDF files: copies of containers' directories, and arrays without any description
//! of a kind.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::scratch_directory;
use crate::harness::tools::{shell, tools};

fn copies_say_the_same(copy: &str) {
    let directory = scratch_directory();
    let from = directory.path();
    script("made_netcdf.py", [OsStr::new("make"), from.as_os_str()]).success();
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
    copies_say_the_same(r#"cp -r "$1" ."#);
}

#[test]
fn the_library_reads_the_same_of_what_rsync_copies() {
    if tools(&["rsync"]) {
        copies_say_the_same(r#"rsync -a "$1" ."#);
    }
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
