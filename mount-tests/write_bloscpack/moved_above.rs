//! Directories that are moved while arrays below them are written and synced: logs are made, synced
//! and removed wherever their containers lie by then.

use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};

use super::{assert_stored, both_ways, container};
use crate::harness::place::Place;
use crate::harness::process::nobody_starts;
use crate::harness::reads::assert_content;

both_ways![what_is_synced_while_a_directory_is_moved_is_where_it_lies_then];

const LEN: usize = 300_000;
const ROUNDS: usize = 60;

/// Moves a directory to and fro, and a file beside it, until `done`. Says how often.
fn move_about(place: &Place, done: &AtomicBool) -> usize {
    std::fs::write(place.join("file"), "beside").unwrap();
    let mut moves = 0;
    for (from, to) in [("above", "elsewhere"), ("elsewhere", "above")]
        .iter()
        .cycle()
    {
        // Only where it was in the beginning.
        if done.load(Ordering::Acquire) && *from == "above" {
            break;
        }
        std::fs::rename(place.join(from), place.join(to)).unwrap();
        let names = [place.join("file"), place.join("moved")];
        std::fs::rename(&names[0], &names[1]).unwrap();
        std::fs::rename(&names[1], &names[0]).unwrap();
        moves += 1;
    }
    moves
}

/// Each round makes a log, which the close removes.
fn write_and_sync(file: impl Fn() -> std::fs::File, expected: &mut [u8]) {
    for round in 0..ROUNDS {
        let (at, bytes) = (round * 4_000, [round as u8; 5_000]);
        let file = file();
        file.write_all_at(&bytes, at as u64).unwrap();
        file.sync_all().unwrap();
        expected[at..at + bytes.len()].copy_from_slice(&bytes);
    }
}

fn what_is_synced_while_a_directory_is_moved_is_where_it_lies_then(place: &Place) {
    let mut expected = vec![1; LEN];
    std::fs::create_dir(place.join("above")).unwrap();
    container(place, "above/x.blp", &expected);
    let nobody_starts = nobody_starts();
    let inside = rustix::fs::open(place.join("above/x.blp"), OFlags::PATH, Mode::empty());
    let inside = inside.unwrap();
    // A program that stands there finds it wherever the directory is.
    let open = || {
        let file = rustix::fs::openat(&inside, "data", OFlags::RDWR, Mode::empty());
        std::fs::File::from(file.unwrap())
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let moving = threads.spawn(|| move_about(place, &done));
        // Whatever becomes of the writer, the mover is stopped.
        let write = AssertUnwindSafe(|| write_and_sync(open, &mut expected));
        let written = catch_unwind(write);
        done.store(true, Ordering::Release);
        assert!(moving.join().unwrap() > 1, "nothing is moved");
        written.unwrap();
    });
    drop((inside, nobody_starts));
    assert_content(&place.join("above/x.blp/data"), &expected);
    assert_stored(&place.stored("above/x.blp"), &expected);
    let names = std::fs::read_dir(place.stored("above")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["x.blp"], "something is left behind");
}
