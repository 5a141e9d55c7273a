//! DAPHNE files that are written through a mount: a second implementation of the format says what
//! each should be, byte by byte.
//!
//! `write_daphne.py` makes the files and holds them against a model; here are the rules that a
//! random session does not meet.

mod made;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use crate::harness::depth::rounds;
use crate::harness::golden;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::run_seed;

/// Of each container, in a sample and in the whole.
const STEPS: (u64, u64) = (6, 12);

fn session(options: &[&str]) {
    session_of("write_daphne.py", options);
}

fn session_of(program: &str, options: &[&str]) {
    let place = Place::mounted(options);
    let [seed, steps] = [run_seed(), rounds(STEPS)].map(|number| number.to_string());
    let arguments = [
        Path::new(&seed),
        Path::new(&steps),
        place.source(),
        place.path(),
    ];
    script(program, arguments).success();
    let verified = arrayfs([Path::new("verify"), place.source()]);
    assert_eq!(verified.code(), Some(0), "seed {seed}: {verified:?}");
}

#[test]
fn replaced_files_are_as_the_program_writes_them() {
    session(&["commit=replace"]);
}

#[test]
fn files_that_are_changed_in_place_are_as_the_program_writes_them() {
    session(&["commit=inplace"]);
}

/// Where only values change.
#[test]
fn dense_blocks_keep_their_places_in_files_that_are_replaced() {
    session_of("write_daphne_blocks.py", &["commit=replace"]);
}

#[test]
fn dense_blocks_keep_their_places_in_files_that_are_changed_in_place() {
    session_of("write_daphne_blocks.py", &["commit=inplace"]);
}

/// A matrix of 64-bit integers as the program writes it.
fn dense(rows: u64, columns: u64, values: &[i64]) -> Vec<u8> {
    const I64: u8 = 2;
    let mut out = vec![1, 1];
    out.extend([rows, columns].map(u64::to_le_bytes).concat());
    out.push(I64);
    out.extend([0; 16]);
    out.extend([rows as u32, columns as u32].map(u32::to_le_bytes).concat());
    out.extend([1, I64]);
    out.extend(numbers(values));
    out
}

fn numbers(of: &[i64]) -> Vec<u8> {
    of.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn state(container: &Path) -> String {
    xattr(container, "user.arrayfs.state").unwrap_or_default()
}

#[test]
fn a_part_of_a_row_waits_for_the_rest() {
    let place = Place::mounted(&[]);
    let stored = place.stored("x.dbdf");
    std::fs::write(&stored, dense(1, 2, &[1, 2])).unwrap();
    let path = place.join("x.dbdf/values");
    assert_content(&path, &numbers(&[1, 2]));
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&numbers(&[3]), 16).unwrap();
    drop(file);
    let container = place.join("x.dbdf");
    assert!(state(&container).contains("values ends within a row of 16 bytes"));
    assert_eq!(std::fs::read(&stored).unwrap(), dense(1, 2, &[1, 2]));
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&numbers(&[4]), 24).unwrap();
    drop(file);
    assert_eq!(state(&container), "clean");
    assert_eq!(std::fs::read(&stored).unwrap(), dense(2, 2, &[1, 2, 3, 4]));
}

/// The program counts the rows of a block in 32 bits.
#[test]
fn more_rows_than_can_be_counted_are_too_large() {
    let place = Place::mounted(&[]);
    let stored = place.stored("x.dbdf");
    std::fs::write(&stored, dense(1, 2, &[1, 2])).unwrap();
    let path = place.join("x.dbdf/values");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let many = 16 << 32;
    for refused in [
        file.set_len(many),
        file.write_all_at(&numbers(&[1, 2]), many - 16),
    ] {
        let errno = refused.unwrap_err().raw_os_error();
        assert_eq!(errno, Some(libc::EFBIG));
    }
    drop(file);
    assert_eq!(std::fs::read(&stored).unwrap(), dense(1, 2, &[1, 2]));
}

/// A file without rows does not say which of the two forms it has.
#[test]
fn a_matrix_without_rows_stays_staged() {
    let place = Place::mounted(&[]);
    let stored = place.stored("x.dbdf");
    std::fs::write(&stored, dense(1, 2, &[1, 2])).unwrap();
    let path = place.join("x.dbdf/values");
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(0)
        .unwrap();
    assert!(state(&place.join("x.dbdf")).contains("which form"));
    assert_eq!(std::fs::read(&stored).unwrap(), dense(1, 2, &[1, 2]));
    std::fs::write(&path, numbers(&[7, 8, 9, 10])).unwrap();
    assert_eq!(std::fs::read(&stored).unwrap(), dense(2, 2, &[7, 8, 9, 10]));
}

/// What the program believes of the file is beside it, and would be wrong.
#[test]
fn rows_that_are_named_beside_the_file_stay_as_many() {
    let place = Place::mounted(&[]);
    std::fs::write(place.stored("x.dbdf"), dense(1, 2, &[1, 2])).unwrap();
    let meta = r#"{"numCols":2,"numRows":1,"valueType":"si64"}"#;
    std::fs::write(place.stored("x.dbdf.meta"), meta).unwrap();
    let path = place.join("x.dbdf/values");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let refused = file.write_all_at(&numbers(&[3, 4]), 16).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    file.write_all_at(&numbers(&[5]), 8).unwrap();
    drop(file);
    assert_eq!(
        std::fs::read(place.stored("x.dbdf")).unwrap(),
        dense(1, 2, &[1, 5])
    );
}

/// They are what the file says, in either form.
#[test]
fn labels_are_only_read() {
    for (sample, text) in [
        ("daphne-frame-two", "col_0\ncol_1\n"),
        ("frame-row-blocks", "a\nb\nc\n"),
    ] {
        let place = Place::mounted(&[]);
        let sample = golden("daphne/sources").join(sample).with_extension("dbdf");
        std::fs::copy(&sample, place.stored("x.dbdf")).unwrap();
        let path = place.join("x.dbdf/labels");
        assert_content(&path, text.as_bytes());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o222, 0);
        let told = state(&path);
        assert!(told.starts_with("read-only: the labels"), "{told}");
        let opened = OpenOptions::new().write(true).open(&path).map(drop);
        std::fs::write(place.join("new"), "x\ny\nz\n").unwrap();
        let renamed = std::fs::rename(place.join("new"), &path);
        for refused in [opened, renamed] {
            let errno = refused.unwrap_err().raw_os_error();
            assert!([Some(libc::EPERM), Some(libc::EACCES)].contains(&errno));
        }
        assert_content(&place.stored("x.dbdf"), &std::fs::read(&sample).unwrap());
    }
}

/// A block that stores nothing may have more cells than could ever be told.
#[test]
fn an_immense_empty_block_is_not_told_anew() {
    let place = Place::mounted(&[]);
    let mut file = vec![1, 1];
    file.extend([1u64 << 20; 2].map(u64::to_le_bytes).concat());
    file.push(1);
    file.extend([0; 16]);
    file.extend([1u32 << 20; 2].map(u32::to_le_bytes).concat());
    file.push(0);
    std::fs::write(place.stored("x.dbdf"), &file).unwrap();
    let path = place.join("x.dbdf/values");
    let written = OpenOptions::new().write(true).open(&path).unwrap();
    written.write_all_at(&[7], 5).unwrap();
    drop(written);
    assert!(state(&place.join("x.dbdf")).contains("encoded anew"));
    assert_eq!(std::fs::read(place.stored("x.dbdf")).unwrap(), file);
    crate::harness::process::arrayfs([
        std::ffi::OsStr::new("stage"),
        "discard".as_ref(),
        place.join("x.dbdf").as_os_str(),
    ])
    .success();
    // What is left of it when it is cut is little.
    let cut = OpenOptions::new().write(true).open(&path).unwrap();
    let len = cut.metadata().unwrap().len() / (1 << 20) * 2;
    cut.set_len(len).unwrap();
    drop(cut);
    assert_eq!(state(&place.join("x.dbdf")), "clean");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), len);
}
