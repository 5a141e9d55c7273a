//! What a commit in place carries over to the next opening: the file's structure and its tables of
//! chunks are not read again, and must be as libhdf5 reads them.

use std::path::Path;

use serde_json::Value;

use super::{assert_array, commit, numbers, state, write_at};
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::seeded::{Seeded, run_seed};

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
