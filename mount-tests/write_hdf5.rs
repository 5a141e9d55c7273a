//! HDF5 and NetCDF-4 files that are written through a mount, read by libhdf5.
//!
//! The programs in `write_hdf5/` make files with every type, layout, index and filter, write to
//! all of their arrays against a model, and hold the files against what they were before; the
//! modules here have the rules that a random session does not meet. Text of variable length has a
//! session of its own, in `text`.

mod carried;
mod dying;
mod fortran;
mod full;
mod group_copies;
mod groups;
mod grown;
mod held;
mod held_by_h5py;
mod in_groups;
mod interrupted;
mod killed;
mod lengths;
mod logged;
mod made;
mod marked;
mod names;
mod odd_names;
mod refused;
mod room;
mod skipped;
mod sparse;
mod text;
mod told;
mod unwritten;
mod visible;

use std::fs::OpenOptions;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::harness::copy_directory;
use crate::harness::depth::rounds;
use crate::harness::place::{Place, open_directory};
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, assert_same, xattr};
use crate::harness::scratch_directory;
use crate::harness::seeded::run_seed;

/// How often each array is written to, in a sample and in the whole.
const ROUNDS: (u64, u64) = (1, 12);

fn session(options: &[&str]) {
    let (source, beside) = (open_directory(), scratch_directory());
    let [before, model] = ["before", "model"].map(|name| beside.path().join(name));
    let [seed, times] =
        [run_seed(), rounds(ROUNDS)].map(|number| PathBuf::from(number.to_string()));
    script("write_hdf5/corpus.py", [source.path(), &seed]).success();
    copy_directory(source.path(), &before);
    let place = Place::over(source, options);
    let arguments = [place.path(), place.source(), &seed, &model, &times];
    script("write_hdf5/session.py", arguments).success();
    let (mounted, source) = place.into_parts();
    drop(mounted);
    let verified = arrayfs([Path::new("verify"), source.path()]);
    assert_eq!(verified.code(), Some(0), "{}", verified.stderr);
    script("write_hdf5/compare.py", [source.path(), &before, &model]).success();
}

#[test]
fn everything_else_is_as_it_was_in_files_that_were_replaced() {
    session(&["commit=replace"]);
}

#[test]
fn everything_else_is_as_it_was_in_files_that_were_written_in_place() {
    session(&["commit=inplace"]);
}

#[test]
fn everything_else_is_as_it_was_however_it_is_committed_with_little_memory() {
    session(&["cache=16M"]);
}

/// The file of `scenario.py`, `x.h5`, in a mount.
fn with_file(options: &[&str]) -> Place {
    let place = Place::mounted(options);
    let path = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("make"), &path]).success();
    assert_content(&place.join("x.h5/fixed"), &numbers(&[1, 2, 3]));
    place
}

fn numbers(of: &[i32]) -> Vec<u8> {
    of.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Shape and bytes of a dataset as libhdf5 reads them.
fn stored(place: &Place, name: &str) -> (String, Vec<u8>) {
    let path = place.stored("x.h5");
    let arguments = [Path::new("shown"), &path, Path::new(name)];
    let told = script("write_hdf5/scenario.py", arguments).success().stdout;
    let line = told.iter().position(|&byte| byte == b'\n').unwrap();
    let shape = String::from_utf8(told[..line].to_vec()).unwrap();
    (shape, told[line + 1..].to_vec())
}

/// The mount and the file have this dataset.
#[track_caller]
fn assert_array(place: &Place, name: &str, shape: &str, expected: &[u8]) {
    let path = place.join("x.h5").join(name);
    assert_content(&path, expected);
    assert_eq!(xattr(&path, "user.arrayfs.shape").unwrap(), shape);
    commit(place);
    assert!(state(place).starts_with("clean"), "{}", state(place));
    let (found_shape, found) = stored(place, name);
    assert_eq!(found_shape, shape, "{name}, as it is stored");
    assert_same(name, &found, expected);
}

fn state(place: &Place) -> String {
    xattr(&place.join("x.h5"), "user.arrayfs.state").unwrap()
}

/// It stays staged for a reason that names the dataset, and the file is as it was.
#[track_caller]
fn assert_staged(place: &Place, name: &str, before: &[u8]) {
    let state = state(place);
    assert!(state.starts_with("staged: "), "{state}");
    assert!(state.contains(name), "{state}");
    let now = std::fs::read(place.stored("x.h5")).unwrap();
    assert_same(name, &now, before);
}

/// What another program's copy of a handle has kept from being committed; errors are in the state.
fn commit(place: &Place) {
    let (container, none) = (place.join("x.h5"), rustix::fs::XattrFlags::empty());
    let _ = rustix::fs::setxattr(&container, "user.arrayfs.commit", b"1", none);
}

fn write_at(path: &Path, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(bytes, offset)
}

/// Says what close says.
fn write_and_close(path: &Path, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(bytes, offset)?;
    // SAFETY: the descriptor is nobody else's any more.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn errno<T>(done: std::io::Result<T>) -> Option<i32> {
    done.err().expect("it is refused").raw_os_error()
}
