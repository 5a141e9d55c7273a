//! Files that others have open, a daemon that is killed, and changes that belong together.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use super::{assert_array, assert_staged, commit, numbers, state, stored, with_file, write_at};
use crate::harness::mounted::Mounted;
use crate::harness::place::{Place, open_directory};
use crate::harness::process::{arrayfs, has_ended, run, send};
use crate::harness::python::{interpreter, script};
use crate::harness::reads::{assert_content, xattr};
use crate::harness::{golden, wait_until};

/// Another program that has said, with a line, that it has a file open, until its input ends.
pub(super) fn holding(program: &mut Command) -> Child {
    let piped = program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = piped.spawn().unwrap();
    let said = program.stdout.as_mut().unwrap();
    said.read_exact(&mut [0]).unwrap();
    program
}

pub(super) fn killed(place: Place) -> tempfile::TempDir {
    let (mounted, source) = place.into_parts();
    send(mounted.daemon(), Signal::KILL);
    wait_until("it has ended", || has_ended(mounted.daemon()));
    drop(mounted);
    source
}

fn what_was_synced_survives(options: &[&str]) {
    let place = with_file(options);
    let open = |name: &str| {
        let path = place.join("x.h5").join(name);
        OpenOptions::new().write(true).open(path).unwrap()
    };
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    let (fixed, rows) = (open("fixed"), open("rows"));
    fixed.write_all_at(&numbers(&[7]), 0).unwrap();
    rows.write_all_at(&numbers(&[1, 1, 1]), 24).unwrap();
    fixed.sync_all().unwrap();
    rows.sync_all().unwrap();
    // What comes after it need not.
    fixed.write_all_at(&numbers(&[8]), 4).unwrap();
    let source = killed(place);
    drop((fixed, rows));
    assert_eq!(std::fs::read(source.path().join("x.h5")).unwrap(), before);
    let place = Place::over(source, options);
    let shown = std::fs::read(place.join("x.h5/fixed")).unwrap();
    assert_eq!(shown[..4], numbers(&[7]));
    assert_array(&place, "fixed", "[3]", &shown);
    let grown = numbers(&[1, 2, 3, 4, 5, 6, 1, 1, 1]);
    assert_array(&place, "rows", "[3, 3]", &grown);
}

#[test]
fn what_was_synced_survives_a_kill_where_files_are_replaced() {
    what_was_synced_survives(&["commit=replace"]);
}

#[test]
fn what_was_synced_survives_a_kill_where_files_are_written_in_place() {
    what_was_synced_survives(&["commit=inplace"]);
}

#[test]
fn two_datasets_of_a_file_are_written_at_the_same_time() {
    let place = with_file(&[]);
    let open = |name: &str| {
        let path = place.join("x.h5").join(name);
        OpenOptions::new().write(true).open(path).unwrap()
    };
    let (fixed, rows) = (open("fixed"), open("rows"));
    for round in 0..4 {
        fixed.write_all_at(&numbers(&[round]), 4).unwrap();
        rows.write_all_at(&numbers(&[round; 3]), 24).unwrap();
    }
    drop(fixed);
    drop(rows);
    assert_array(&place, "fixed", "[3]", &numbers(&[1, 3, 3]));
    let grown = numbers(&[1, 2, 3, 4, 5, 6, 3, 3, 3]);
    assert_array(&place, "rows", "[3, 3]", &grown);
}

/// Each closes again and again while the others write.
#[test]
fn many_write_to_the_datasets_of_a_file_at_once() {
    for options in [&["commit=replace"], &["commit=inplace"]] {
        let place = with_file(options);
        let datasets = [("fixed", 3), ("most", 4), ("rows", 6), ("never", 4)];
        std::thread::scope(|scope| {
            for (name, count) in datasets {
                let path = place.join("x.h5").join(name);
                scope.spawn(move || {
                    for round in 0..40 {
                        write_at(&path, &numbers(&vec![round; count]), 0).unwrap();
                    }
                });
            }
        });
        for (name, shape) in [("fixed", "[3]"), ("most", "[4]"), ("rows", "[2, 3]")] {
            let len = std::fs::read(place.join("x.h5").join(name)).unwrap().len() / 4;
            assert_array(&place, name, shape, &numbers(&vec![39; len]));
        }
    }
}

/// One that waits for the rest of a slice keeps the other from being committed, and then goes with
/// it.
#[test]
fn what_is_not_whole_holds_the_file_back() {
    let place = with_file(&[]);
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    write_at(&place.join("x.h5/rows"), &numbers(&[7]), 24).unwrap();
    write_at(&place.join("x.h5/fixed"), &numbers(&[7]), 0).unwrap();
    assert_staged(&place, "rows", &before);
    assert_content(&place.join("x.h5/fixed"), &numbers(&[7, 2, 3]));
    write_at(&place.join("x.h5/rows"), &numbers(&[8, 9]), 28).unwrap();
    assert_array(&place, "fixed", "[3]", &numbers(&[7, 2, 3]));
    let grown = numbers(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_array(&place, "rows", "[3, 3]", &grown);
}

/// As h5py holds a file that it reads or writes.
fn held(path: &Path, how: FlockOperation) -> File {
    let file = File::open(path).unwrap();
    flock(&file, how).unwrap();
    file
}

/// Once nobody holds it (a program that another test starts has a copy of the lock for a moment).
fn is_committed_in_the_end(place: &Place) {
    wait_until("it is committed", || {
        commit(place);
        state(place) == "clean"
    });
    assert_array(place, "fixed", "[3]", &numbers(&[7, 2, 3]));
}

#[test]
fn a_reader_outside_keeps_the_file_that_it_has_open() {
    let place = with_file(&["commit=replace"]);
    let path = place.stored("x.h5");
    let before = std::fs::read(&path).unwrap();
    let mut reader = held(&path, FlockOperation::LockShared);
    write_at(&place.join("x.h5/fixed"), &numbers(&[7]), 0).unwrap();
    assert_array(&place, "fixed", "[3]", &numbers(&[7, 2, 3]));
    let mut found = Vec::new();
    reader.read_to_end(&mut found).unwrap();
    assert_eq!(found, before);
}

/// It keeps the index of chunks in memory, which would not be that of the file.
#[test]
fn a_file_that_others_read_is_not_written_in_place() {
    let place = with_file(&["commit=inplace"]);
    let path = place.stored("x.h5");
    let before = std::fs::read(&path).unwrap();
    let reader = held(&path, FlockOperation::LockShared);
    let _ = write_at(&place.join("x.h5/fixed"), &numbers(&[7]), 0);
    assert!(state(&place).starts_with("staged: "), "{}", state(&place));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_content(&place.join("x.h5/fixed"), &numbers(&[7, 2, 3]));
    drop(reader);
    is_committed_in_the_end(&place);
}

/// Who has it is looked up when that is asked, and when nobody has it any more it is committed by
/// itself.
#[test]
fn what_waits_for_another_program_is_committed_when_that_has_closed_the_file() {
    let place = with_file(&[]);
    let path = place.stored("x.h5");
    for how in [FlockOperation::LockExclusive, FlockOperation::LockShared] {
        let alone = how == FlockOperation::LockExclusive;
        let mut holder = holding(
            Command::new("flock")
                .args([if alone { "-x" } else { "-s" }])
                .arg(&path)
                .args(["sh", "-c", "echo; read line"]),
        );
        let value = if alone { 7 } else { 9 };
        write_at(&place.join("x.h5/fixed"), &numbers(&[value]), 0).unwrap();
        if alone {
            let told = format!("staged: process {}", holder.id());
            assert!(state(&place).starts_with(&told), "{}", state(&place));
        }
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert!(!state(&place).contains("process"), "{}", state(&place));
        wait_until("it is committed", || state(&place) == "clean");
        assert_array(&place, "fixed", "[3]", &numbers(&[value, 2, 3]));
    }
}

/// h5py gives a file another time when it closes it, changed or not.
#[test]
fn what_h5py_has_only_held_open_is_committed_over_and_what_it_has_changed_is_not() {
    for changes in [false, true] {
        let place = Place::mounted(&[]);
        let path = place.stored("x.h5");
        let make = "import h5py, numpy, sys
with h5py.File(sys.argv[1], 'w') as f:
    f['fixed'] = numpy.array([1, 2, 3], 'i4')";
        run(Command::new(interpreter()).args(["-c", make]).arg(&path)).success();
        let what = if changes {
            "f['fixed'][2] = 99"
        } else {
            "f['fixed'][()]"
        };
        let held = format!(
            "import h5py, sys
with h5py.File(sys.argv[1], 'r+') as f:
    print(flush=True)
    sys.stdin.read(1)
    {what}"
        );
        let mut program = Command::new(interpreter())
            .args(["-c", &held])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut begun = [0; 1];
        program
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut begun)
            .unwrap();
        write_at(&place.join("x.h5/fixed"), &numbers(&[7]), 0).unwrap();
        assert!(
            state(&place).contains("has the file open"),
            "{}",
            state(&place)
        );
        let before = path.metadata().unwrap().modified().unwrap();
        drop(program.stdin.take());
        program.wait().unwrap();
        if changes {
            wait_until("it is another version", || {
                state(&place).starts_with("staged: ")
            });
            assert_content(&place.join("x.h5/fixed"), &numbers(&[1, 2, 99]));
            continue;
        }
        assert_ne!(path.metadata().unwrap().modified().unwrap(), before);
        assert_content(&place.join("x.h5/fixed"), &numbers(&[7, 2, 3]));
        wait_until("it is committed", || state(&place) == "clean");
        assert_array(&place, "fixed", "[3]", &numbers(&[7, 2, 3]));
    }
}

/// Through the mount, too: `h5py.File("mnt/x.h5/views/stored")`.
#[test]
fn a_file_that_is_open_as_it_is_stored_is_not_written_in_place() {
    let place = with_file(&["commit=inplace"]);
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    let reader = File::open(place.join("x.h5/views/stored")).unwrap();
    let _ = write_at(&place.join("x.h5/fixed"), &numbers(&[7]), 0);
    assert_staged(&place, "views/stored", &before);
    let mut found = vec![0; before.len()];
    reader.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, before);
    drop(reader);
    is_committed_in_the_end(&place);
}

/// Which would be written in place: it is copied instead, so that its reader keeps what it has.
#[test]
fn a_large_file_that_others_read_is_replaced() {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("large"), &path]).success();
    let fixed = place.join("x.h5/fixed");
    let inode = || path.metadata().unwrap().ino();
    let before = inode();
    write_at(&fixed, &numbers(&[5]), 0).unwrap();
    assert_array(&place, "fixed", "[3]", &numbers(&[5, 2, 3]));
    assert_eq!(
        inode(),
        before,
        "it is written in place, if nobody reads it"
    );
    let reader = held(&path, FlockOperation::LockShared);
    write_at(&fixed, &numbers(&[7]), 0).unwrap();
    assert_array(&place, "fixed", "[3]", &numbers(&[7, 2, 3]));
    assert_ne!(inode(), before);
    assert_eq!(reader.metadata().unwrap().ino(), before);
}

fn a_writer_outside_is_waited_for(options: &[&str]) {
    let place = with_file(options);
    let path = place.stored("x.h5");
    let before = std::fs::read(&path).unwrap();
    let writer = held(&path, FlockOperation::LockExclusive);
    let _ = write_at(&place.join("x.h5/fixed"), &numbers(&[7]), 0);
    assert!(state(&place).starts_with("staged: "), "{}", state(&place));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    drop(writer);
    is_committed_in_the_end(&place);
}

#[test]
fn a_writer_outside_is_waited_for_before_its_file_is_replaced() {
    a_writer_outside_is_waited_for(&["commit=replace"]);
}

#[test]
fn a_writer_outside_is_waited_for_before_its_file_is_written_in_place() {
    a_writer_outside_is_waited_for(&["commit=inplace"]);
}

/// What another program did to the file in the meantime is not overwritten. Who writes is a process
/// of its own: programs that other tests start have a copy of what this one has open for a moment,
/// and close it, which commits.
#[test]
fn a_file_that_others_changed_keeps_their_change() {
    let place = with_file(&[]);
    let path = place.stored("x.h5");
    let write = "import os, sys
file = os.open(sys.argv[1], os.O_WRONLY)
os.pwrite(file, bytes([7, 0, 0, 0]), 0)
print(flush=True)
sys.stdin.read(1)
try:
    os.fsync(file)
except OSError as e:
    print(e.errno)";
    let written = place.join("x.h5/fixed");
    let mut writer = holding(Command::new(interpreter()).args(["-c", write]).arg(written));
    script("write_hdf5/scenario.py", [Path::new("make"), &path]).success();
    let changed = std::fs::read(&path).unwrap();
    drop(writer.stdin.take());
    let mut errno = String::new();
    let said = writer.stdout.as_mut().unwrap();
    said.read_to_string(&mut errno).unwrap();
    assert_eq!(errno.trim(), libc::ESTALE.to_string());
    writer.wait().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), changed);
    assert_eq!(stored(&place, "fixed").1, numbers(&[1, 2, 3]));
}

/// The daemon itself has locked it.
#[test]
fn a_file_that_is_mounted_by_itself_is_committed() {
    for commit in ["commit=replace", "commit=inplace"] {
        let source = open_directory();
        let file = source.path().join("x.h5");
        std::fs::copy(golden("hdf5-written").join("latest.h5"), &file).unwrap();
        let mounted = Mounted::new(&file, &["rw", commit]);
        write_at(&mounted.join("plain"), &[7; 8], 8).unwrap();
        let state = || xattr(mounted.path(), "user.arrayfs.state");
        wait_until("it is committed", || {
            state().is_ok_and(|state| state == "clean")
        });
        drop(mounted);
        let shown = arrayfs(["cat".as_ref(), file.as_os_str(), "plain".as_ref()]);
        assert_eq!(shown.success().stdout[8..16], [7; 8]);
    }
}
