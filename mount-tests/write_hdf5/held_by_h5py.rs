//! Files that h5py has open meanwhile, in the ways that it has: with another time afterwards,
//! longer than is copied, marked.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command};

use super::held::{holding, killed};
use super::{assert_array, numbers, state, write_at};
use crate::harness::place::Place;
use crate::harness::process::run;
use crate::harness::python::interpreter;
use crate::harness::reads::assert_content;
use crate::harness::wait_until;

/// Another program that has a file open with h5py, until its input ends.
fn opened_by_h5py(path: &Path, mode: &str) -> Child {
    let hold = "import h5py, sys
with h5py.File(sys.argv[1], sys.argv[2]) as f:
    print(flush=True)
    sys.stdin.read(1)";
    let mut program = Command::new(interpreter());
    holding(program.args(["-c", hold]).arg(path).arg(mode))
}

fn closed(mut program: Child) {
    drop(program.stdin.take());
    program.wait().unwrap();
}

/// What it closes without a change has another time than the log knows.
#[test]
fn what_waits_for_h5py_is_committed_although_the_daemon_was_killed_meanwhile() {
    for changes in [false, true] {
        let place = Place::mounted(&[]);
        let path = place.stored("x.h5");
        let make = "import h5py, numpy, sys
with h5py.File(sys.argv[1], 'w') as f:
    f['fixed'] = numpy.array([1, 2, 3], 'i4')";
        run(Command::new(interpreter()).args(["-c", make]).arg(&path)).success();
        let program = opened_by_h5py(&path, "r+");
        write_at(&place.join("x.h5/fixed"), &numbers(&[7]), 0).unwrap();
        assert!(
            state(&place).contains("has the file open"),
            "{}",
            state(&place)
        );
        let before = path.metadata().unwrap().modified().unwrap();
        let source = killed(place);
        closed(program);
        assert_ne!(path.metadata().unwrap().modified().unwrap(), before);
        if changes {
            let change = "import h5py, sys
with h5py.File(sys.argv[1], 'r+') as f:
    f['fixed'][2] = 99";
            run(Command::new(interpreter()).args(["-c", change]).arg(&path)).success();
        }
        let place = Place::over(source, &[]);
        if changes {
            assert_content(&place.join("x.h5/fixed"), &numbers(&[1, 2, 99]));
            assert!(
                state(&place).contains("another version"),
                "{}",
                state(&place)
            );
            continue;
        }
        assert_content(&place.join("x.h5/fixed"), &numbers(&[7, 2, 3]));
        wait_until("it is committed", || state(&place) == "clean");
        assert_array(&place, "fixed", "[3]", &numbers(&[7, 2, 3]));
    }
}

/// It would have to be copied, which takes too long.
#[test]
fn what_is_staged_of_a_huge_file_is_shown_until_who_has_it_open_has_closed_it() {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    let log = place.stored(".x.h5.arrayfs-stage");
    let logged = || log.metadata().unwrap().mtime_nsec();
    let make = "import h5py, sys
with h5py.File(sys.argv[1], 'w') as f:
    f['fixed'] = [1, 2, 3]
    f.create_dataset('huge', ((1 << 30) + 1,), 'i1')[-1] = 1";
    run(Command::new(interpreter()).args(["-c", make]).arg(&path)).success();
    let fixed = place.join("x.h5/fixed");
    let shown: Vec<u8> = [9i64, 2, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
    let [one, other] = [0, 1].map(|_| opened_by_h5py(&path, "r"));
    write_at(&fixed, &shown[..8], 0).unwrap();
    assert_content(&fixed, &shown);
    let holders = [one.id(), other.id()];
    let told = |holders: &[u32]| {
        let state = state(&place);
        let named = |pid: &u32| state.starts_with(&format!("staged: process {pid} "));
        assert!(holders.iter().any(named), "{state}");
    };
    told(&holders);
    // A look at its state says who has it now.
    closed(one);
    told(&holders[1..]);
    assert_content(&fixed, &shown);
    closed(other);
    wait_until("it is committed", || state(&place) == "clean");
    assert_array(&place, "fixed", "[3]", &shown);
    // One that could write changes the time of the file when it closes it.
    let writer = opened_by_h5py(&path, "r+");
    let shown: Vec<u8> = [9i64, 8, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
    let file = File::options().write(true).open(&fixed).unwrap();
    file.write_all_at(&shown[8..16], 8).unwrap();
    file.sync_all().unwrap();
    let synced = logged();
    drop(file);
    told(&[writer.id()]);
    wait_until("its content is known", || logged() != synced);
    closed(writer);
    wait_until("it is committed", || state(&place) == "clean");
    assert_array(&place, "fixed", "[3]", &shown);
}

/// libhdf5 marks a file of the newest kind as long as it writes to it, but not if it only reads.
#[test]
fn a_file_that_is_marked_by_its_writer_is_damaged_until_that_has_closed_it() {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    let make = "import h5py, numpy, sys
with h5py.File(sys.argv[1], 'w', libver='latest') as f:
    f['fixed'] = numpy.array([1, 2, 3], 'i4')";
    run(Command::new(interpreter()).args(["-c", make]).arg(&path)).success();
    let reader = opened_by_h5py(&path, "r");
    write_at(&place.join("x.h5/fixed"), &numbers(&[7]), 0).unwrap();
    assert_array(&place, "fixed", "[3]", &numbers(&[7, 2, 3]));
    closed(reader);
    let writer = opened_by_h5py(&path, "r+");
    wait_until("the mark is seen", || {
        state(&place).starts_with("damaged: ")
    });
    assert!(
        state(&place).contains("marked as being written"),
        "{}",
        state(&place)
    );
    closed(writer);
    wait_until("it is looked at again", || state(&place) == "clean");
    write_at(&place.join("x.h5/fixed"), &numbers(&[8]), 4).unwrap();
    assert_array(&place, "fixed", "[3]", &numbers(&[7, 8, 3]));
}
