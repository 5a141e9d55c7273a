//! What a dataset cannot hold, and what nobody may write.

use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{assert_array, assert_staged, commit, errno, numbers, state, with_file, write_at};
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::assert_content;
use crate::write_bloscpack::written_by_dd;

fn shorts(of: &[u16]) -> Vec<u8> {
    of.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// `dd` tells what its close says.
fn refused_at_close(name: &str, value: &[u8], valid: &[u8]) {
    let place = with_file(&[]);
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    let path = place.join("x.h5").join(name);
    let ran = written_by_dd(&path, 2, value);
    assert_ne!(ran.code(), Some(0), "{ran:?}");
    assert!(ran.stderr.contains("Invalid argument"), "{ran:?}");
    assert_staged(&place, name, &before);
    // Until it is one that the type has.
    write_at(&path, valid, 2).unwrap();
    let mut expected = std::fs::read(&path).unwrap();
    expected[2..4].copy_from_slice(valid);
    assert_array(&place, name, "[3]", &expected);
}

#[test]
fn a_number_that_the_precision_does_not_hold_is_refused() {
    refused_at_close("narrow", &shorts(&[0x1000]), &shorts(&[0xfff]));
}

/// As in HDF5's own programs every number is a value of an enumeration, named or not, and every
/// byte a boolean.
#[test]
fn numbers_that_an_enumeration_has_no_name_for_are_held_as_they_are() {
    let place = with_file(&[]);
    let path = place.join("x.h5/strange");
    assert_content(&path, &numbers(&[-5, 0, -5]));
    for (element, value) in [(2, 1 << 20), (0, 77), (1, i32::MIN)] {
        write_at(&path, &numbers(&[value]), 4 * element).unwrap();
    }
    assert_array(&place, "strange", "[3]", &numbers(&[77, i32::MIN, 1 << 20]));
    write_at(&place.join("x.h5/color"), &shorts(&[7]), 2).unwrap();
    assert_array(&place, "color", "[3]", &shorts(&[0, 7, 0]));
    write_at(&place.join("x.h5/bool"), &[7, 255], 0).unwrap();
    assert_array(&place, "bool", "[3]", &[7, 255, 1]);
}

#[test]
fn what_is_refused_can_be_discarded() {
    let place = with_file(&[]);
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    let (container, path) = (place.join("x.h5"), place.join("x.h5/narrow"));
    let narrow = std::fs::read(&path).unwrap();
    assert_ne!(written_by_dd(&path, 0, &shorts(&[0x1000])).code(), Some(0));
    arrayfs(["stage".as_ref(), "discard".as_ref(), container.as_os_str()]).success();
    assert_eq!(state(&place), "clean");
    assert_content(&path, &narrow);
    assert_eq!(std::fs::read(place.stored("x.h5")).unwrap(), before);
}

#[track_caller]
fn opened_for_writing(path: &Path) -> Option<i32> {
    errno(OpenOptions::new().write(true).open(path))
}

fn mode(path: &Path) -> u32 {
    let metadata = std::fs::metadata(path).unwrap();
    metadata.permissions().mode() & 0o222
}

#[test]
fn what_follows_from_the_datasets_is_not_written() {
    let place = with_file(&[]);
    for name in ["arrays.json", "views/fixed.npy", "views/stored"] {
        let path = place.join("x.h5").join(name);
        assert_eq!(opened_for_writing(&path), Some(libc::EPERM), "{name}");
        assert_eq!(mode(&path), 0, "{name}");
    }
}

#[test]
fn what_can_never_be_written_shows_it() {
    let place = with_file(&[]);
    let path = place.stored("virtual.h5");
    script("write_hdf5/scenario.py", [Path::new("virtual"), &path]).success();
    for name in ["x.h5/references", "virtual.h5/virtual"] {
        let path = place.join(name);
        assert_eq!(mode(&path), 0, "{name}");
        let refused = opened_for_writing(&path);
        let never = [libc::EROFS, libc::EACCES, libc::EPERM, libc::EIO];
        assert!(never.map(Some).contains(&refused), "{name}: {refused:?}");
    }
    assert_ne!(mode(&place.join("x.h5/fixed")), 0);
}

/// What refers to something else in the file is no bytes that could be copied, nor is what contains
/// such a thing, however deep.
#[test]
fn compounds_that_refer_to_something_are_only_read() {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("compounds"), &path]).success();
    let before = std::fs::read(&path).unwrap();
    let within = ["reference", "region", "text", "list"];
    let deep = within.map(|name| format!("deep_{name}"));
    for name in within.into_iter().chain(deep.iter().map(|name| &name[..])) {
        let path = place.join("x.h5").join(name);
        assert_eq!(mode(&path), 0, "{name}");
        let refused = opened_for_writing(&path);
        let never = [libc::EROFS, libc::EACCES, libc::EPERM, libc::EIO];
        assert!(never.map(Some).contains(&refused), "{name}: {refused:?}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // Of numbers alone it can be written.
    let plain = place.join("x.h5/plain");
    assert_ne!(mode(&plain), 0);
    write_at(&plain, &[7; 12], 12).unwrap();
    commit(&place);
    assert_eq!(state(&place), "clean");
    assert_content(&plain, &[[0; 12], [7; 12], [0; 12]].concat());
}

#[test]
fn nothing_is_made_in_a_group() {
    let place = with_file(&[]);
    let made = std::fs::create_dir(place.join("x.h5/group/more"));
    assert_eq!(errno(made), Some(libc::EPERM));
}

#[track_caller]
fn assert_only_read(place: &Place) {
    let path = place.join("x.h5/fixed");
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    assert_content(&path, &numbers(&[1, 2, 3]));
    assert_eq!(opened_for_writing(&path), Some(libc::EROFS));
    assert_eq!(mode(&path), 0);
    assert_eq!(std::fs::read(place.stored("x.h5")).unwrap(), before);
}

/// Its writer is at work, or has left a file that nobody may trust: libhdf5 does not open it
/// either.
#[test]
fn a_file_that_is_marked_as_being_written_is_left_alone() {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("marked"), &path]).success();
    let before = std::fs::read(&path).unwrap();
    let told = std::fs::read_to_string(place.join("x.h5/error.txt")).unwrap();
    assert!(told.contains("marked as being written"), "{told}");
    assert!(opened_for_writing(&place.join("x.h5/fixed")).is_some());
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// libhdf5 would cut them off.
#[test]
fn a_file_that_goes_on_behind_its_end_is_only_read() {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("make"), &path]).success();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend([1; 70]);
    std::fs::write(&path, bytes).unwrap();
    assert_only_read(&place);
}

/// Of which the file knows nothing: all that it says counts from where it begins.
#[test]
fn what_another_program_has_put_before_a_file_stays() {
    for commit_as in ["commit=replace", "commit=inplace"] {
        let place = Place::mounted(&[commit_as]);
        let path = place.stored("x.h5");
        script("write_hdf5/scenario.py", [Path::new("behind"), &path]).success();
        let seven = numbers(&[7, 2, 3]);
        write_at(&place.join("x.h5/fixed"), &seven, 0).unwrap();
        assert_array(&place, "fixed", "[3]", &seven);
        for round in 1..6 {
            let rows: Vec<i32> = (0..6 + 3 * round).map(|n| n * round * 77_777).collect();
            write_at(&place.join("x.h5/rows"), &numbers(&rows), 0).unwrap();
            let shape = format!("[{}, 3]", 2 + round);
            assert_array(&place, "rows", &shape, &numbers(&rows));
        }
        arrayfs(["verify".as_ref(), path.as_os_str()]).success();
        script("write_hdf5/scenario.py", [Path::new("block"), &path]).success();
    }
}

/// A file may say that a chunk lies in something else: at worst it loses itself, and no header.
#[test]
fn a_chunk_that_lies_in_something_else_costs_no_other_dataset_its_header() {
    for options in [&["commit=replace"], &["commit=inplace"]] {
        let made = |place: &Place, lies_in: &str| {
            let path = place.stored("x.h5");
            let made: [&Path; 3] = ["inside".as_ref(), &path, lies_in.as_ref()];
            script("write_hdf5/scenario.py", made).success();
            path
        };
        let place = Place::mounted(options);
        let path = made(&place, "header");
        let before = std::fs::read(&path).unwrap();
        let _ = write_at(&place.join("x.h5/rows"), &numbers(&[-1, -2]), 64);
        commit(&place);
        assert_staged(&place, "the header of an object", &before);
        let whole = [Path::new("beside_is_whole"), &path];
        script("write_hdf5/scenario.py", whole).success();
        for lies_in in ["chunk", "first"] {
            let place = Place::mounted(options);
            let path = made(&place, lies_in);
            // Both chunks of one place cannot be had.
            let both: Vec<i32> = (0..64).rev().collect();
            let _ = write_at(&place.join("x.h5/rows"), &numbers(&both), 0);
            commit(&place);
            if lies_in == "first" {
                assert!(state(&place).contains("two parts of the file have one place"));
                let whole = [Path::new("beside_is_whole"), &path];
                script("write_hdf5/scenario.py", whole).success();
            }
            let shown = std::fs::read(place.join("x.h5/rows")).unwrap();
            assert_eq!(shown, numbers(&both), "{lies_in}");
        }
    }
}
