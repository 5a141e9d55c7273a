//! NetCDF classic files that are written through a mount, read by the NetCDF library.
//!
//! `write_netcdf.py` makes the files and holds them against a model; here are the rules that a
//! random session does not meet.

mod made;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use rustix::process::Signal;

use crate::harness::place::Place;
use crate::harness::process::{arrayfs, has_ended, send};
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::run_seed;
use crate::harness::wait_until;

fn session(options: &[&str]) {
    let place = Place::mounted(options);
    let seed = run_seed().to_string();
    let arguments = [Path::new(&seed), place.source(), place.path()];
    script("write_netcdf.py", arguments).success();
    let verified = arrayfs([Path::new("verify"), place.source()]);
    assert_eq!(verified.code(), Some(0), "seed {seed}: {verified:?}");
}

#[test]
fn the_library_reads_what_was_written_to_replaced_files() {
    session(&["commit=replace"]);
}

#[test]
fn the_library_reads_what_was_written_in_place() {
    session(&["commit=inplace"]);
}

fn sparse(options: &[&str]) {
    let place = Place::mounted(options);
    script("sparse_netcdf.py", [place.source(), place.path()]).success();
    let verified = arrayfs([Path::new("verify"), place.source()]);
    assert_eq!(verified.code(), Some(0), "{verified:?}");
}

#[test]
fn sparse_matrices_and_their_descriptors_are_written_to_replaced_files() {
    sparse(&["commit=replace"]);
}

#[test]
fn sparse_matrices_and_their_descriptors_are_written_in_place() {
    sparse(&["commit=inplace"]);
}

/// CDF-1 with the unlimited dimension `t`, `x` of 3, and the variables `fixed(x)`, `one(t, x)` and
/// `other(t)`, all int; two records.
fn small_file() -> Vec<u8> {
    let mut out = b"CDF\x01".to_vec();
    let words = |out: &mut Vec<u8>, words: &[u32]| {
        out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    };
    let name = |out: &mut Vec<u8>, name: &str| {
        out.extend((name.len() as u32).to_be_bytes());
        out.extend(name.as_bytes());
        out.resize(out.len().next_multiple_of(4), 0);
    };
    words(&mut out, &[2]);
    words(&mut out, &[10, 2]);
    name(&mut out, "t");
    words(&mut out, &[0]);
    name(&mut out, "x");
    words(&mut out, &[3]);
    words(&mut out, &[0, 0, 11, 3]);
    let variables: [(&str, &[u32], u32, u32); 3] = [
        ("fixed", &[1], 12, HEADER),
        ("one", &[0, 1], 12, HEADER + 12),
        ("other", &[0], 4, HEADER + 24),
    ];
    for (own, dimensions, size, begin) in variables {
        name(&mut out, own);
        words(&mut out, &[dimensions.len() as u32]);
        words(&mut out, dimensions);
        words(&mut out, &[0, 0, 4, size, begin]);
    }
    assert_eq!(out.len(), HEADER as usize);
    words(&mut out, &[1, 2, 3]);
    for record in 0..2 {
        words(&mut out, &[10, 11, 12, 20].map(|n| n + 100 * record));
    }
    out
}

const HEADER: u32 = 176;

fn numbers(of: &[i32]) -> Vec<u8> {
    of.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A mount of `x.nc` alone.
fn with_file(options: &[&str]) -> Place {
    let place = Place::mounted(options);
    std::fs::write(place.stored("x.nc"), small_file()).unwrap();
    assert_content(&place.join("x.nc/fixed"), &numbers(&[1, 2, 3]));
    place
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

/// `cat >>` of one variable and then of the other is what a program does that writes a record.
#[test]
fn a_record_is_appended_variable_by_variable() {
    let mut place = with_file(&[]);
    let (one, other) = (place.join("x.nc/one"), place.join("x.nc/other"));
    append(&one, &numbers(&[1, 2, 3]));
    // The file has three records, `other` was written twice.
    let written = std::fs::metadata(&other).unwrap().len();
    assert_eq!(written, 8, "it is as long as it was");
    append(&other, &numbers(&[7]));
    append(&other, &numbers(&[8]));
    assert_content(&other, &numbers(&[20, 120, 7, 8]));
    assert_content(&one, &numbers(&[10, 11, 12, 110, 111, 112, 1, 2, 3]));
    assert_eq!(xattr(&other, "user.arrayfs.shape").unwrap(), "[4]");
    place.mount_again();
    let fill = -2_147_483_647;
    assert_content(
        &place.join("x.nc/one"),
        &numbers(&[10, 11, 12, 110, 111, 112, 1, 2, 3, fill, fill, fill]),
    );
    assert_content(&place.join("x.nc/other"), &numbers(&[20, 120, 7, 8]));
}

/// A writer that streams leaves the number of records open: the first commit tells it.
#[test]
fn the_records_of_a_stream_are_counted_by_the_first_commit() {
    const STREAMING: [u8; 4] = [0xff; 4];
    for commit in ["commit=replace", "commit=inplace"] {
        let mut place = Place::mounted(&[commit]);
        let mut stream = small_file();
        stream[4..8].copy_from_slice(&STREAMING);
        std::fs::write(place.stored("x.nc"), &stream).unwrap();
        let other = place.join("x.nc/other");
        assert_content(&other, &numbers(&[20, 120]));
        let file = OpenOptions::new().write(true).open(&other).unwrap();
        file.write_all_at(&numbers(&[21]), 0).unwrap();
        drop(file);
        place.mount_again();
        let stored = std::fs::read(place.stored("x.nc")).unwrap();
        assert_eq!(stored[4..8], 2u32.to_be_bytes(), "{commit}");
        append(&place.join("x.nc/other"), &numbers(&[220]));
        place.mount_again();
        assert_content(&place.join("x.nc/other"), &numbers(&[21, 120, 220]));
        let stored = std::fs::read(place.stored("x.nc")).unwrap();
        assert_eq!(stored[4..8], 3u32.to_be_bytes(), "{commit}");
        assert_eq!(stored.len(), stream.len() + 16, "{commit}");
    }
}

/// What another program appended meanwhile is not overwritten.
#[test]
fn a_file_that_others_changed_keeps_their_change() {
    for commit in ["commit=replace", "commit=inplace"] {
        let place = with_file(&[commit]);
        let path = place.join("x.nc/one");
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&numbers(&[-1]), 0).unwrap();
        let mut theirs = small_file();
        theirs[4..8].copy_from_slice(&3u32.to_be_bytes());
        theirs.extend([7; 16]);
        std::fs::write(place.stored("x.nc"), &theirs).unwrap();
        let synced = file.sync_all().unwrap_err();
        assert_eq!(synced.raw_os_error(), Some(libc::ESTALE), "{commit}");
        drop(file);
        assert_eq!(std::fs::read(place.stored("x.nc")).unwrap(), theirs);
        assert_content(&place.join("x.nc/other"), &numbers(&[20, 120, 0x0707_0707]));
    }
}

/// What is staged goes on behind the end that each variable had, whatever the file says.
#[test]
fn lengths_survive_a_killed_daemon_with_what_is_staged() {
    let place = with_file(&[]);
    let (one, other) = (place.join("x.nc/one"), place.join("x.nc/other"));
    append(&one, &numbers(&[1, 2, 3]));
    let files = [&one, &other].map(|path| OpenOptions::new().append(true).open(path).unwrap());
    let [mut part, untouched] = files;
    part.write_all(&numbers(&[4])).unwrap();
    part.sync_all().unwrap();
    untouched.sync_all().unwrap();
    drop((part, untouched));
    let (mounted, source) = place.into_parts();
    send(mounted.daemon(), Signal::KILL);
    wait_until("it has ended", || has_ended(mounted.daemon()));
    drop(mounted);
    let place = Place::over(source, &[]);
    let (one, other) = (place.join("x.nc/one"), place.join("x.nc/other"));
    assert_content(&other, &numbers(&[20, 120]));
    append(&other, &numbers(&[220]));
    append(&one, &numbers(&[5, 6]));
    assert_content(&other, &numbers(&[20, 120, 220]));
    let stored = std::fs::read(place.stored("x.nc")).unwrap();
    let last = &stored[stored.len() - 16..];
    let fill = (-2_147_483_647i32).to_be_bytes();
    assert_eq!(
        last,
        [[0, 0, 0, 4], [0, 0, 0, 5], [0, 0, 0, 6], fill].concat()
    );
}

/// A header may say anything of records that are not there yet.
#[test]
fn records_are_not_written_over_the_header() {
    let place = Place::mounted(&[]);
    let mut bytes = small_file();
    bytes.truncate(HEADER as usize + 12);
    bytes[4..8].fill(0);
    let begin_of_one = HEADER as usize - 40 - 4;
    bytes[begin_of_one..begin_of_one + 4].fill(0);
    std::fs::write(place.stored("x.nc"), &bytes).unwrap();
    let one = place.join("x.nc/one");
    let refused = OpenOptions::new().append(true).open(&one);
    let refused = refused.and_then(|mut file| file.write_all(&numbers(&[1, 2, 3])));
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert_eq!(std::fs::read(place.stored("x.nc")).unwrap(), bytes);
}

#[test]
fn the_number_of_records_falls_when_all_variables_have_been_cut() {
    let place = with_file(&[]);
    let cut = |name: &str, len: u64| {
        let path = place.join("x.nc").join(name);
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(len).unwrap();
    };
    let records = || std::fs::read(place.stored("x.nc")).unwrap()[7];
    cut("one", 12);
    assert_eq!(records(), 2);
    assert_content(&place.join("x.nc/one"), &numbers(&[10, 11, 12]));
    cut("other", 4);
    assert_eq!(records(), 1);
    let len = std::fs::metadata(place.stored("x.nc")).unwrap().len();
    assert_eq!(len, u64::from(HEADER) + 12 + 16);
}

/// A part of a record stays staged, and the rest of it commits.
#[test]
fn a_part_of_a_record_waits_for_the_rest() {
    let place = with_file(&[]);
    let (container, one) = (place.join("x.nc"), place.join("x.nc/one"));
    let stored = small_file();
    append(&one, &numbers(&[1]));
    let state = xattr(&container, "user.arrayfs.state").unwrap();
    assert!(
        state.contains("one ends within a record of 12 bytes"),
        "{state}"
    );
    assert_eq!(std::fs::read(place.stored("x.nc")).unwrap(), stored);
    append(&one, &numbers(&[2, 3]));
    assert_eq!(xattr(&container, "user.arrayfs.state").unwrap(), "clean");
    assert_eq!(std::fs::read(place.stored("x.nc")).unwrap()[7], 3);
}

#[test]
fn what_has_its_length_for_good_keeps_it() {
    let place = with_file(&[]);
    let path = place.join("x.nc/fixed");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let errno = |done: std::io::Result<()>| done.unwrap_err().raw_os_error();
    assert_eq!(errno(file.set_len(8)), Some(libc::EINVAL));
    assert_eq!(errno(file.set_len(16)), Some(libc::EINVAL));
    assert_eq!(errno(file.write_all_at(&[1; 4], 12)), Some(libc::EINVAL));
    // On the way to the same length, as cp goes it.
    file.set_len(0).unwrap();
    file.write_all_at(&numbers(&[4, 5]), 0).unwrap();
    drop(file);
    let state = xattr(&place.join("x.nc"), "user.arrayfs.state").unwrap();
    assert!(state.contains("fixed has 8 of its 12 bytes"), "{state}");
    append(&path, &numbers(&[6]));
    assert_content(&path, &numbers(&[4, 5, 6]));
    let stored = std::fs::read(place.stored("x.nc")).unwrap();
    let begin = HEADER as usize;
    assert_eq!(
        stored[begin..begin + 12],
        [0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6]
    );
}

/// CDF-1 counts its places in 31 bits.
#[test]
fn what_the_version_cannot_hold_is_refused_at_the_call() {
    let place = with_file(&[]);
    let file = OpenOptions::new()
        .write(true)
        .open(place.join("x.nc/one"))
        .unwrap();
    let refused = file.set_len(12 << 28).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EFBIG));
}

/// Bytes behind the end are another program's, and would be overwritten.
#[test]
fn a_file_that_goes_on_behind_its_end_is_only_read() {
    let place = Place::mounted(&[]);
    let mut bytes = small_file();
    bytes.extend([1; 70]);
    std::fs::write(place.stored("x.nc"), bytes).unwrap();
    let path = place.join("x.nc/fixed");
    assert_content(&path, &numbers(&[1, 2, 3]));
    let refused = OpenOptions::new().write(true).open(&path).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    let mode = File::open(&path).unwrap().metadata().unwrap().permissions();
    assert_eq!(mode.mode() & 0o222, 0);
}

/// CDF-1 with one variable, of bytes along the unlimited dimension, filled up to four bytes as some
/// writers do.
fn filled_up(values: &[u8]) -> Vec<u8> {
    let mut out = b"CDF\x01".to_vec();
    let name = |of: u8| [1, u32::from_be_bytes([of, 0, 0, 0])];
    let words = [vec![values.len() as u32, 10, 1], name(b't').to_vec()];
    let variable = [vec![0, 0, 0, 11, 1], name(b'v').to_vec()];
    let rest = vec![1, 0, 0, 0, 1, 4, 80];
    for word in [words.concat(), variable.concat(), rest].concat() {
        out.extend(word.to_be_bytes());
    }
    assert_eq!(out.len(), 80);
    out.extend(values);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

#[test]
fn what_fills_up_a_single_record_variable_is_no_bytes_of_others() {
    for options in [&["commit=replace"], &["commit=inplace"]] {
        let place = Place::mounted(options);
        let stored = place.stored("x.nc");
        std::fs::write(&stored, filled_up(&[1, 2, 3, 4, 5])).unwrap();
        let variable = place.join("x.nc/v");
        let file = OpenOptions::new().write(true).open(&variable).unwrap();
        file.write_all_at(&[9], 1).unwrap();
        drop(file);
        let whole = std::fs::read(&stored).unwrap();
        assert_eq!(whole, filled_up(&[1, 9, 3, 4, 5]), "{options:?}");
        append(&variable, &[6, 7]);
        assert_content(&variable, &[1, 9, 3, 4, 5, 6, 7]);
        let whole = std::fs::read(&stored).unwrap();
        assert_eq!(whole[80..], [1, 9, 3, 4, 5, 6, 7], "{options:?}");
    }
}
