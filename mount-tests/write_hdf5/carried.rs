//! What a commit carries over: the file's structure and its tables of chunks are not read again,
//! and must be as libhdf5 reads them; arrays that it leaves alone are the same before and after.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use super::{assert_array, commit, numbers, state, write_at};
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, assert_same};
use crate::harness::seeded::{Seeded, run_seed};
use crate::harness::wait_until;

const NAMES: [&str; 2] = ["packed", "plain"];

/// Up to so many random numbers.
fn noise(random: &mut Seeded, most: usize) -> Vec<u8> {
    let count = 1 + random.below(most);
    (0..count)
        .flat_map(|_| (random.next() as u32).to_le_bytes())
        .collect()
}

/// All but what lies in the mount alone.
fn arrays(description: &[u8]) -> Value {
    let mut description: Value = serde_json::from_slice(description).unwrap();
    for array in description["arrays"].as_array_mut().unwrap() {
        // `info` counts them.
        array.as_object_mut().unwrap().remove("unfiltered");
    }
    description["arrays"].take()
}

fn assert_told(place: &Place) {
    let shown = std::fs::read(place.join("x.h5/arrays.json")).unwrap();
    let path = place.stored("x.h5");
    let told = arrayfs([Path::new("info"), Path::new("--json"), &path]);
    assert_eq!(arrays(&shown), arrays(&told.success().stdout));
}

#[test]
fn what_commits_in_place_carry_over_is_what_libhdf5_reads() {
    let place = Place::mounted(&["commit=inplace"]);
    script(
        "write_hdf5/scenario.py",
        [Path::new("many"), &place.stored("x.h5")],
    )
    .success();
    let mut random = Seeded::new(run_seed());
    let mut expected = NAMES.map(|_| numbers(&[0; 8000]));
    for round in 0..8 {
        for (name, expected) in NAMES.iter().zip(&mut expected) {
            let path = place.join("x.h5").join(name);
            // Chunks that keep their places, and some that move.
            for _ in 0..3 {
                let bytes = noise(&mut random, 60);
                let at = random.below((expected.len() - bytes.len()) / 4) * 4;
                write_at(&path, &bytes, at as u64).unwrap();
                expected[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            if round % 3 == 2 {
                let more = noise(&mut random, 20);
                write_at(&path, &more, expected.len() as u64).unwrap();
                expected.extend(more);
            }
        }
        commit(&place);
        assert_eq!(state(&place), "clean");
        assert_told(&place);
    }
    for (name, expected) in NAMES.iter().zip(&expected) {
        assert_array(&place, name, &format!("[{}]", expected.len() / 4), expected);
    }
}

/// Through a handle that is older than the commits, of blocks that were read before and of others;
/// and what another program writes afterwards is another version.
#[test]
fn arrays_that_commits_leave_alone_are_read_on() {
    for commit_as in ["commit=replace", "commit=inplace"] {
        // The kernel has no pages of it.
        let place = Place::mounted(&[commit_as, "direct_io"]);
        let stored = place.stored("x.h5");
        let many = || script("write_hdf5/scenario.py", [Path::new("many"), &stored]).success();
        many();
        let mut random = Seeded::new(run_seed());
        for (stays, changes) in [("packed", "plain"), ("plain", "packed")] {
            let expected = random.noise(32_000);
            write_at(&place.join("x.h5").join(stays), &expected, 0).unwrap();
            commit(&place);
            let mut changing = std::fs::read(place.join("x.h5").join(changes)).unwrap();
            let handles = [stays, changes].map(|name| File::open(place.join("x.h5").join(name)));
            let [staying, changed] = handles.map(Result::unwrap);
            for round in 0..4 {
                // Chunks that keep their length, and some that do not.
                let bytes = noise(&mut random, 60);
                let at = random.below((changing.len() - bytes.len()) / 4) * 4;
                changing[at..at + bytes.len()].copy_from_slice(&bytes);
                write_at(&place.join("x.h5").join(changes), &bytes, at as u64).unwrap();
                commit(&place);
                assert_eq!(state(&place), "clean");
                let mut read = vec![0; 8000 * (round + 1)];
                staying.read_exact_at(&mut read, 0).unwrap();
                assert_same(stays, &read, &expected[..read.len()]);
                let mut read = vec![0; changing.len()];
                changed.read_exact_at(&mut read, 0).unwrap();
                assert_same(changes, &read, &changing);
            }
            assert_array(&place, stays, "[8000]", &expected);
            assert_array(&place, changes, "[8000]", &changing);
        }
        many();
        let zeros = numbers(&[0; 8000]);
        for name in NAMES {
            let path = place.join("x.h5").join(name);
            wait_until("the new version", || {
                std::fs::read(&path).is_ok_and(|found| found == zeros)
            });
            assert_content(&path, &zeros);
        }
        write_at(&place.join("x.h5/plain"), &numbers(&[7]), 0).unwrap();
        let expected = numbers(&[[7].as_slice(), &[0; 7999]].concat());
        assert_array(&place, "plain", "[8000]", &expected);
    }
}
