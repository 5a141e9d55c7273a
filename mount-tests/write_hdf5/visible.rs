//! What is shown of datasets that are written, before a commit, across it and after it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};

use memmap2::MmapMut;

use super::{assert_array, commit, numbers, state, with_file, write_at};
use crate::harness::reads::{assert_content, xattr};
use crate::harness::writers::npy;

/// Names, views and attributes tell what is staged, `views/stored` what is stored.
#[test]
fn what_is_staged_is_shown_everywhere_but_in_what_is_stored() {
    let place = with_file(&[]);
    let container = place.join("x.h5");
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    // A part of a slice keeps all of it staged.
    write_at(&container.join("rows"), &numbers(&[7]), 24).unwrap();
    write_at(&container.join("fixed"), &numbers(&[7]), 4).unwrap();
    let fixed = numbers(&[1, 7, 3]);
    assert_content(&container.join("fixed"), &fixed);
    assert_content(&container.join("views/fixed.npy"), &npy("<i4", 3, &fixed));
    assert_content(&container.join("views/stored"), &before);
    assert_eq!(container.join("rows").metadata().unwrap().len(), 28);
    write_at(&container.join("rows"), &numbers(&[8, 9]), 28).unwrap();
    commit(&place);
    assert_eq!(state(&place), "clean");
    let after = std::fs::read(place.stored("x.h5")).unwrap();
    assert_content(&container.join("views/stored"), &after);
    assert_content(&container.join("views/fixed.npy"), &npy("<i4", 3, &fixed));
    let shape = xattr(&container.join("views/rows.npy"), "user.arrayfs.shape").unwrap();
    assert_eq!(shape, "[3, 3]");
}

/// Of the dataset that is written and of its neighbours.
fn goes_on_across_commits(options: &[&str]) {
    let place = with_file(options);
    let at = |name: &str| place.join("x.h5").join(name);
    let names = ["fixed", "rows", "most", "group/inner"];
    let inodes = || names.map(|name| at(name).metadata().unwrap().ino());
    let before = inodes();
    let open = |name: &str| File::open(at(name)).unwrap();
    let (fixed, inner, view) = (open("fixed"), open("group/inner"), open("views/fixed.npy"));
    let read = OpenOptions::new()
        .read(true)
        .write(true)
        .open(at("rows"))
        .unwrap();
    // SAFETY: nobody cuts the file while it is mapped.
    let mut rows = unsafe { MmapMut::map_mut(&read).unwrap() };
    for round in 0..5u8 {
        rows[0] = round;
        // Else the kernel does it when it likes, perhaps after the commit.
        rows.flush().unwrap();
        write_at(&at("fixed"), &[round], 8).unwrap();
        commit(&place);
        assert_eq!(state(&place), "clean");
        let mut found = [0; 12];
        fixed.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found[..], numbers(&[1, 2, i32::from(round)]));
        assert_eq!(rows[0], round);
    }
    assert_eq!(inodes(), before);
    let mut found = [0; 24];
    inner.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found[..], [1f64, 2.0, 3.0].map(f64::to_le_bytes).concat());
    view.read_exact_at(&mut found, 0).unwrap();
    rows.flush().unwrap();
    drop((rows, read));
    assert_array(&place, "rows", "[2, 3]", &numbers(&[4, 2, 3, 4, 5, 6]));
}

#[test]
fn handles_and_mappings_go_on_when_the_file_is_replaced() {
    goes_on_across_commits(&["commit=replace"]);
}

#[test]
fn handles_and_mappings_go_on_when_the_file_is_written_in_place() {
    goes_on_across_commits(&["commit=inplace"]);
}
