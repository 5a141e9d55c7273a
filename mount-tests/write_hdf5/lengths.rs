//! Datasets that grow and shrink, as far as the format lets them, and those that cannot.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{assert_array, assert_staged, commit, errno, numbers, state, with_file, write_at};
use crate::harness::place::Place;
use crate::harness::python::script;
use crate::harness::reads::assert_content;
use crate::harness::tools::shell;
use crate::harness::{scratch_directory, wait_until};

/// The raw file that `cp` and `cat` take, beside the mount's own files.
fn raw(place: &Place, of: &[i32]) -> std::path::PathBuf {
    let path = place.stored("raw.bin");
    std::fs::write(&path, numbers(of)).unwrap();
    path
}

fn at(place: &Place, name: &str) -> std::path::PathBuf {
    place.join("x.h5").join(name)
}

#[test]
fn dd_changes_some_elements() {
    let place = with_file(&[]);
    let raw = raw(&place, &[7]);
    let script = "dd if=\"$1\" of=x.h5/rows bs=4 seek=4 conv=notrunc";
    shell(place.path(), script, &[&raw]);
    assert_array(&place, "rows", "[2, 3]", &numbers(&[1, 2, 3, 4, 7, 6]));
    assert_array(&place, "fixed", "[3]", &numbers(&[1, 2, 3]));
}

#[test]
fn cp_gives_a_dataset_of_fixed_extent_other_values() {
    let place = with_file(&[]);
    let raw = raw(&place, &[7, 8, 9]);
    shell(place.path(), "cp \"$1\" x.h5/fixed", &[&raw]);
    assert_array(&place, "fixed", "[3]", &numbers(&[7, 8, 9]));
}

/// Of one that can grow, the length of what is copied counts.
#[test]
fn cp_gives_a_dataset_without_limit_another_length() {
    let place = with_file(&[]);
    for of in [&[1, 2, 3, 4, 5, 6, 7, 8, 9][..], &[9, 8, 7]] {
        let raw = raw(&place, of);
        shell(place.path(), "cp \"$1\" x.h5/rows", &[&raw]);
        let shape = format!("[{}, 3]", of.len() / 3);
        assert_array(&place, "rows", &shape, &numbers(of));
    }
}

#[test]
fn cat_appends_slices() {
    let place = with_file(&[]);
    let mut expected = vec![1, 2, 3, 4, 5, 6];
    for round in 0..5 {
        let more = [10 + round, 20 + round, 30 + round];
        let raw = raw(&place, &more);
        shell(place.path(), "cat \"$1\" >> x.h5/rows", &[&raw]);
        expected.extend(more);
    }
    assert_array(&place, "rows", "[7, 3]", &numbers(&expected));
    let described = std::fs::read_to_string(at(&place, "arrays.json")).unwrap();
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    let arrays = described["arrays"].as_array().unwrap();
    let rows = arrays.iter().find(|array| array["name"] == "rows").unwrap();
    assert_eq!(rows["shape"], serde_json::json!([7, 3]));
}

/// Chunks at the edge that no filter takes are as long as chunks are, or libhdf5 reads none of
/// them.
#[test]
fn edges_without_filters_grow_and_shrink() {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("edges"), &path]).success();
    let mut expected: Vec<i32> = (0..25).collect();
    for round in 0..8 {
        let more: Vec<i32> = (0..1 + round % 5).map(|n| 100 * round + n).collect();
        let raw = raw(&place, &more);
        shell(place.path(), "cat \"$1\" >> x.h5/rows", &[&raw]);
        expected.extend(more);
        let shape = format!("[{}]", expected.len());
        assert_array(&place, "rows", &shape, &numbers(&expected));
    }
    let file = OpenOptions::new().write(true).open(at(&place, "rows"));
    file.unwrap().set_len(4 * 33).unwrap();
    expected.truncate(33);
    assert_array(&place, "rows", "[33]", &numbers(&expected));
}

#[test]
fn a_part_of_a_slice_waits_for_the_rest() {
    let place = with_file(&[]);
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    write_at(&at(&place, "rows"), &numbers(&[7]), 24).unwrap();
    assert_staged(&place, "rows", &before);
    let part = numbers(&[1, 2, 3, 4, 5, 6, 7]);
    assert_content(&at(&place, "rows"), &part);
    write_at(&at(&place, "rows"), &numbers(&[8, 9]), 28).unwrap();
    let whole = numbers(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_array(&place, "rows", "[3, 3]", &whole);
}

/// It is staged over a change of mounts, too.
#[test]
fn a_part_of_a_slice_waits_in_the_next_mount() {
    let mut place = with_file(&[]);
    write_at(&at(&place, "rows"), &numbers(&[7]), 24).unwrap();
    place.mount_again();
    assert!(state(&place).starts_with("staged: "), "{}", state(&place));
    write_at(&at(&place, "rows"), &numbers(&[8, 9]), 28).unwrap();
    let whole = numbers(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_array(&place, "rows", "[3, 3]", &whole);
}

/// The bytes of the chunk at the edge are those of before, unless they are filled.
#[test]
fn what_was_cut_off_and_comes_back_is_the_fill_value() {
    let place = with_file(&[]);
    shell(place.path(), "truncate -s 12 x.h5/rows", &[]);
    assert_array(&place, "rows", "[1, 3]", &numbers(&[1, 2, 3]));
    shell(place.path(), "truncate -s 36 x.h5/rows", &[]);
    let grown = numbers(&[1, 2, 3, 7, 7, 7, 7, 7, 7]);
    assert_array(&place, "rows", "[3, 3]", &grown);
}

/// The same before anything has been committed.
#[test]
fn what_is_cut_off_and_comes_back_in_one_commit_is_the_fill_value() {
    let mut place = with_file(&[]);
    let path = at(&place, "rows");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(12).unwrap();
    file.set_len(36).unwrap();
    let grown = numbers(&[1, 2, 3, 7, 7, 7, 7, 7, 7]);
    assert_content(&path, &grown);
    drop(file);
    assert_array(&place, "rows", "[3, 3]", &grown);
    place.mount_again();
    assert_array(&place, "rows", "[3, 3]", &grown);
}

/// Slices that were leapt over have the fill value.
#[test]
fn a_write_behind_the_end_leaves_fill_values_before_it() {
    let place = with_file(&[]);
    write_at(&at(&place, "rows"), &numbers(&[1, 1, 1]), 48).unwrap();
    let expected = [1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 1, 1, 1];
    assert_array(&place, "rows", "[5, 3]", &numbers(&expected));
}

#[test]
fn a_dataset_without_slices_can_be_filled_again() {
    let place = with_file(&[]);
    shell(place.path(), "truncate -s 0 x.h5/rows", &[]);
    assert_array(&place, "rows", "[0, 3]", &[]);
    write_at(&at(&place, "rows"), &numbers(&[4, 5, 6]), 0).unwrap();
    assert_array(&place, "rows", "[1, 3]", &numbers(&[4, 5, 6]));
}

#[test]
fn nothing_grows_beyond_its_largest_extent() {
    let place = with_file(&[]);
    let path = at(&place, "most");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&numbers(&[5, 6]), 16).unwrap();
    let too_far = file.write_all_at(&numbers(&[7]), 24);
    assert_eq!(errno(too_far), Some(libc::EINVAL));
    assert_eq!(errno(file.set_len(28)), Some(libc::EINVAL));
    drop(file);
    assert_array(&place, "most", "[6]", &numbers(&[1, 2, 3, 4, 5, 6]));
}

#[test]
fn a_fixed_extent_stays() {
    let place = with_file(&[]);
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    let path = at(&place, "fixed");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for len in [4, 8, 11, 13, 16] {
        assert_eq!(errno(file.set_len(len)), Some(libc::EINVAL), "{len} bytes");
    }
    let behind = file.write_all_at(&numbers(&[4]), 12);
    assert_eq!(errno(behind), Some(libc::EINVAL));
    // On the way to the same length, as cp goes it.
    file.set_len(0).unwrap();
    file.write_all_at(&numbers(&[4, 5]), 0).unwrap();
    drop(file);
    assert_staged(&place, "fixed", &before);
    write_at(&path, &numbers(&[6]), 8).unwrap();
    assert_array(&place, "fixed", "[3]", &numbers(&[4, 5, 6]));
}

/// One value has no slices.
#[test]
fn a_single_value_can_be_written() {
    let place = with_file(&[]);
    let path = at(&place, "scalar");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    assert_eq!(errno(file.set_len(16)), Some(libc::EINVAL));
    drop(file);
    std::fs::write(&path, 7.5f64.to_le_bytes()).unwrap();
    assert_array(&place, "scalar", "[]", &7.5f64.to_le_bytes());
}

/// Neither its chunks nor their index are there before.
#[test]
fn chunks_that_were_never_written_come_to_be() {
    let place = with_file(&[]);
    assert_content(&at(&place, "never"), &numbers(&[5, 5, 5, 5]));
    write_at(&at(&place, "never"), &numbers(&[1]), 4).unwrap();
    assert_array(&place, "never", "[4]", &numbers(&[5, 1, 5, 5]));
}

/// libhdf5 looks at each, which would take minutes of a larger one. Rows count with all that lies
/// in them.
#[test]
fn many_cells_of_a_grid_cannot_be_removed_at_once() {
    for (name, whole, little, left) in [
        ("wide", 20_000_000, 20, 19_000_000),
        ("plane", 16_000_000, 4 * 1_400_000, 4 * 3_900_000),
    ] {
        let logged = scratch_directory();
        let log = logged.path().join("log");
        let place = Place::mounted(&[&format!("log={}", log.display())]);
        let stored = place.stored("x.h5");
        script("write_hdf5/scenario.py", [Path::new("wide"), &stored]).success();
        let before = std::fs::read(&stored).unwrap();
        let path = place.join("x.h5").join(name);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let at_call = file.set_len(little).err();
        drop(file);
        let (container, none) = (place.join("x.h5"), rustix::fs::XattrFlags::empty());
        let at_commit = rustix::fs::setxattr(&container, "user.arrayfs.commit", b"1", none);
        let refused = at_call.and_then(|error| error.raw_os_error());
        let refused = refused.or(at_commit.err().map(|error| error.raw_os_error()));
        assert_eq!(refused, Some(libc::EINVAL), "{name}");
        assert_eq!(std::fs::read(&stored).unwrap(), before);
        let said = || std::fs::read_to_string(&log).unwrap();
        wait_until("the log says why", || {
            let said = said();
            let mut lines = said.lines();
            lines.any(|line| line.contains(name) && line.contains("chunks"))
        });
        // Some of them can.
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(whole).unwrap();
        file.set_len(left).unwrap();
        drop(file);
        commit(&place);
        assert_eq!(state(&place), "clean", "{name}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), left);
    }
}

/// A variable's own extent changes alone, its dimension is as long as its longest variable.
#[test]
fn a_record_is_appended_to_one_variable() {
    let place = Place::mounted(&[]);
    let stored = place.stored("x.nc");
    let netcdf = |what: &str| script("write_hdf5/scenario.py", [Path::new(what), &stored]);
    netcdf("netcdf").success();
    let records = || -> serde_json::Value {
        let none = rustix::fs::XattrFlags::empty();
        let container = place.join("x.nc");
        rustix::fs::setxattr(&container, "user.arrayfs.commit", b"1", none).unwrap();
        serde_json::from_slice(&netcdf("records").success().stdout).unwrap()
    };
    let (one, other) = (place.join("x.nc/one"), place.join("x.nc/other"));
    write_at(&one, &numbers(&[7, 8, 9]), 24).unwrap();
    assert_eq!(
        other.metadata().unwrap().len(),
        4,
        "it is as long as it was"
    );
    let (rows, fill) = ([[1, 2, 3], [4, 5, 6], [7, 8, 9]], -32767);
    let expected = serde_json::json!({"one": rows, "other": [10, 20, fill], "t": 3, "own": true});
    assert_eq!(records(), expected);
    let two = [30i16, 40].map(i16::to_le_bytes).concat();
    write_at(&other, &two, 4).unwrap();
    assert_eq!(one.metadata().unwrap().len(), 36);
    let rows = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [-1, -1, -1]];
    let other = [10, 20, 30, 40];
    let expected = serde_json::json!({"one": rows, "other": other, "t": 4, "own": true});
    assert_eq!(records(), expected);
}

#[test]
fn a_file_that_is_renamed_over_a_dataset_is_its_content() {
    let place = with_file(&[]);
    let raw = raw(&place, &[3, 2, 1]);
    let script = "cp \"$1\" x.h5/.fixed.new && mv x.h5/.fixed.new x.h5/fixed";
    shell(place.path(), script, &[&raw]);
    assert_array(&place, "fixed", "[3]", &numbers(&[3, 2, 1]));
}
