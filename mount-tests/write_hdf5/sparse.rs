//! Arrays that have to agree with each other: of Binsparse containers, and of AnnData's sparse
//! matrices and dataframes.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{commit, errno, state, write_at};
use crate::harness::place::{Place, open_directory};
use crate::harness::process::{arrayfs, run, send};
use crate::harness::python::script;
use crate::harness::reads::assert_content;
use crate::harness::seeded::run_seed;
use crate::harness::{copy_directory, golden, scratch_directory, wait_until};

/// A CSR matrix of 150 values, as a container by itself.
fn matrix(options: &[&str]) -> Place {
    let source = open_directory();
    let sample = golden("binsparse/sources").join("attr-fixed-exact.h5");
    std::fs::copy(sample, source.path().join("x.h5")).unwrap();
    Place::over(source, options)
}

fn array(place: &Place, name: &str) -> PathBuf {
    place.join("x.h5").join(name)
}

#[test]
fn values_are_scaled() {
    for commit in ["commit=replace", "commit=inplace"] {
        let place = matrix(&[commit]);
        let values = array(&place, "values");
        let mut expected = std::fs::read(&values).unwrap();
        for value in expected.as_chunks_mut::<4>().0 {
            *value = (2.0 * f32::from_le_bytes(*value)).to_le_bytes();
        }
        write_at(&values, &expected, 0).unwrap();
        assert_content(&values, &expected);
        let (mounted, source) = place.into_parts();
        drop(mounted);
        let file = source.path().join("x.h5");
        arrayfs(["verify".as_ref(), file.as_os_str()]).success();
        let place = Place::over(source, &[]);
        assert_content(&array(&place, "values"), &expected);
    }
}

#[test]
fn indices_that_break_a_rule_stay_staged_until_they_do_not() {
    let place = matrix(&[]);
    let stored = std::fs::read(place.stored("x.h5")).unwrap();
    let indices = array(&place, "indices_1");
    let before = std::fs::read(&indices).unwrap();
    // There are 34 columns.
    write_at(&indices, &34u64.to_le_bytes(), 0).unwrap();
    assert!(state(&place).starts_with("staged: "), "{}", state(&place));
    assert!(std::fs::read(place.stored("x.h5")).unwrap() == stored);
    write_at(&indices, &before[..8], 0).unwrap();
    wait_until("it is committed", || state(&place) == "clean");
    assert_content(&indices, &before);
    arrayfs(["verify".as_ref(), place.stored("x.h5").as_os_str()]).success();
}

/// Of datasets that cannot get another length.
#[test]
fn the_number_of_fixed_ones_stays() {
    let place = matrix(&[]);
    let values = array(&place, "values");
    let longer = write_at(&values, &[0; 4], 600);
    assert_eq!(errno(longer), Some(libc::EINVAL));
    let file = std::fs::OpenOptions::new().write(true).open(&values);
    let shorter = file.and_then(|file| file.set_len(596));
    assert_eq!(errno(shorter), Some(libc::EINVAL));
}

/// Files of every format, given other content array by array, and read by the formats' libraries.
fn session(of: &str, options: &[&str]) {
    let (source, beside) = (open_directory(), scratch_directory());
    let [before, model] = ["before", "model"].map(|name| beside.path().join(name));
    let seed = PathBuf::from(run_seed().to_string());
    script(of, [Path::new("make"), source.path(), &seed]).success();
    copy_directory(source.path(), &before);
    let place = Place::over(source, options);
    let session = [Path::new("session"), place.path(), &seed, &model];
    script(of, session).success();
    let (mounted, source) = place.into_parts();
    drop(mounted);
    let verified = arrayfs([Path::new("verify"), source.path()]);
    assert_eq!(verified.code(), Some(0), "{}", verified.stderr);
    let check = [Path::new("check"), source.path(), &before, &model];
    script(of, check).success();
}

#[test]
fn arrays_in_any_order_become_one_matrix_in_files_that_are_replaced() {
    session("write_hdf5/matrices.py", &["commit=replace"]);
}

#[test]
fn arrays_in_any_order_become_one_matrix_in_files_that_are_written_in_place() {
    session("write_hdf5/matrices.py", &["commit=inplace", "cache=16M"]);
}

#[test]
fn packed_matrices_and_fragments_in_files_that_are_replaced() {
    session("write_hdf5/packed.py", &["commit=replace"]);
}

#[test]
fn packed_matrices_and_fragments_in_files_that_are_written_in_place() {
    session("write_hdf5/packed.py", &["commit=inplace", "cache=16M"]);
}

#[test]
fn containers_as_few_programs_write_them_in_files_that_are_replaced() {
    session("write_hdf5/unusual.py", &["commit=replace"]);
}

#[test]
fn containers_as_few_programs_write_them_in_files_that_are_written_in_place() {
    session("write_hdf5/unusual.py", &["commit=inplace"]);
}

/// A CSR matrix of 4 rows, 4 columns and 7 entries, whose arrays can have any length.
fn growing(options: &[&str]) -> Place {
    let source = open_directory();
    let sample = golden("hdf5-written").join("rows-latest.h5");
    std::fs::copy(sample, source.path().join("x.h5")).unwrap();
    Place::over(source, options)
}

fn append(place: &Place, name: &str, bytes: &[u8]) {
    let path = array(place, name);
    let end = std::fs::metadata(&path).unwrap().len();
    write_at(&path, bytes, end).unwrap();
}

fn described(place: &Place) -> Value {
    let read = |name| std::fs::read_to_string(array(place, name)).unwrap();
    let shown: Value = serde_json::from_str(&read("binsparse.json")).unwrap();
    let listed: Value = serde_json::from_str(&read("arrays.json")).unwrap();
    for key in ["shape", "number_of_stored_values", "format"] {
        assert_eq!(shown["binsparse"][key], listed["attributes"][key]);
    }
    shown["binsparse"].clone()
}

fn says(place: &Place, shape: [u64; 2], count: u64) {
    let described = described(place);
    assert_eq!(described["shape"], json!(shape));
    assert_eq!(described["number_of_stored_values"], json!(count));
}

#[test]
fn the_descriptor_shows_what_is_staged_and_follows() {
    let place = growing(&[]);
    let stored = std::fs::read(place.stored("x.h5")).unwrap();
    append(&place, "pointers_to_1", &8u32.to_le_bytes());
    says(&place, [5, 4], 7);
    append(&place, "values", &8f32.to_le_bytes());
    says(&place, [5, 4], 8);
    let why = state(&place);
    assert!(
        why.starts_with("staged: ") && why.contains("indices_1"),
        "{why}"
    );
    assert!(std::fs::read(place.stored("x.h5")).unwrap() == stored);
    append(&place, "indices_1", &2u64.to_le_bytes());
    commit(&place);
    assert_eq!(state(&place), "clean");
    says(&place, [5, 4], 8);
    let (mounted, source) = place.into_parts();
    drop(mounted);
    let place = Place::over(source, &["ro"]);
    says(&place, [5, 4], 8);
    arrayfs(["verify".as_ref(), place.stored("x.h5").as_os_str()]).success();
}

/// What was synced is there after a kill, and the rest makes it one commit.
#[test]
fn the_next_mount_goes_on_with_what_is_staged() {
    for option in ["commit=replace", "commit=inplace"] {
        let place = growing(&[option]);
        let path = array(&place, "pointers_to_1");
        append(&place, "pointers_to_1", &8u32.to_le_bytes());
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        let (mounted, source) = place.into_parts();
        send(mounted.daemon(), Signal::KILL);
        arrayfs([Path::new("umount"), mounted.path()]);
        mounted.assert_ends();
        let place = Place::over(source, &[option]);
        says(&place, [5, 4], 7);
        append(&place, "values", &8f32.to_le_bytes());
        append(&place, "indices_1", &2u64.to_le_bytes());
        commit(&place);
        assert_eq!(state(&place), "clean");
        says(&place, [5, 4], 8);
        arrayfs(["verify".as_ref(), place.stored("x.h5").as_os_str()]).success();
    }
}

#[test]
fn what_is_discarded_is_as_it_was() {
    let place = growing(&[]);
    append(&place, "values", &8f32.to_le_bytes());
    says(&place, [4, 4], 8);
    let container = place.join("x.h5");
    arrayfs(["stage", "discard", container.to_str().unwrap()]).success();
    says(&place, [4, 4], 7);
    assert_eq!(state(&place), "clean");
}

fn rewrite(place: &Place, from: &str, to: &str) -> std::io::Result<()> {
    let path = array(place, "binsparse.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    let temporary = path.with_file_name(".new.json");
    std::fs::write(&temporary, text.replace(from, to)).unwrap();
    std::fs::rename(&temporary, &path)
}

#[test]
fn a_descriptor_is_rewritten_as_far_as_the_arrays_allow() {
    let place = growing(&[]);
    let path = array(&place, "binsparse.json");
    let text = std::fs::read_to_string(&path).unwrap();
    // Another key, and a dimension that nothing follows from.
    let wider = text
        .replace("[1, {2]}", "wide")
        .replace("\t\t\t4\n\t\t],", "\t\t\t9\n\t\t],");
    assert_ne!(wider.len(), text.len());
    std::fs::write(&path, &wider).unwrap();
    commit(&place);
    assert_eq!(state(&place), "clean");
    assert_content(&path, wider.as_bytes());
    says(&place, [4, 9], 7);
    // More than there are: until they come.
    std::fs::write(&path, wider.replace(": 7", ": 8")).unwrap();
    assert!(state(&place).starts_with("staged: "), "{}", state(&place));
    append(&place, "values", &8f32.to_le_bytes());
    append(&place, "indices_1", &8u64.to_le_bytes());
    assert!(state(&place).contains("pointers_to_1"), "{}", state(&place));
    write_at(&array(&place, "pointers_to_1"), &8u32.to_le_bytes(), 16).unwrap();
    commit(&place);
    assert_eq!(state(&place), "clean");
    says(&place, [4, 9], 8);
    rewrite(&place, "wide", "renamed").unwrap();
    commit(&place);
    assert_eq!(state(&place), "clean");
    arrayfs(["verify".as_ref(), place.stored("x.h5").as_os_str()]).success();
}

#[test]
fn a_descriptor_that_the_arrays_cannot_have_is_refused() {
    let place = growing(&[]);
    let path = array(&place, "binsparse.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let stored = std::fs::read(place.stored("x.h5")).unwrap();
    for (from, to) in [
        ("float32", "float64"),
        ("CSR", "COOR"),
        ("CSR", "XYZ"),
        ("{", "["),
    ] {
        let raw = place.stored("raw.json");
        std::fs::write(&raw, text.replace(from, to)).unwrap();
        let cp = run(Command::new("cp").args([&raw, &path]));
        cp.failed_saying(1, &["Invalid argument"]);
        assert!(state(&place).starts_with("staged: "), "{}", state(&place));
    }
    assert!(std::fs::read(place.stored("x.h5")).unwrap() == stored);
    std::fs::write(&path, &text).unwrap();
    commit(&place);
    assert_eq!(state(&place), "clean");
    let endless = std::fs::OpenOptions::new().write(true).open(&path);
    let endless = endless.and_then(|file| file.set_len(1 << 30));
    assert_eq!(errno(endless), Some(libc::EINVAL));
}
