//! The daemon is killed while a dataset is written: the next mount finds what was there before or
//! what was written, what was synced in any case, and the file is sound.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Signal;

use crate::harness::depth::rounds;
use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, send};
use crate::harness::python::script;
use crate::harness::seeded::{Seeded, run_seed};
use crate::harness::{scratch_directory, wait_until};

/// In a sample, and in the whole.
const KILLS: (u64, u64) = (8, 50);
/// As many as `scenario.py long` makes.
const NUMBERS: usize = 20_000;

fn plain(round: u64) -> Vec<u8> {
    [round.to_le_bytes(); NUMBERS].concat()
}

/// Writes one number after another over the whole dataset, until the daemon is gone. Says how far
/// that was synced.
fn write_on(path: &Path, from: u64, begun: &AtomicU64) -> u64 {
    let mut synced = from;
    loop {
        let round = synced + 1;
        begun.store(round, Ordering::Release);
        let opened = OpenOptions::new().write(true).open(path);
        let written = opened.and_then(|file| {
            file.write_all_at(&plain(round), 0)?;
            file.sync_all()
        });
        match written {
            Ok(()) => synced = round,
            Err(_) => return synced,
        }
    }
}

fn kill_again_and_again(options: &'static [&'static str]) {
    let source = scratch_directory();
    let container = source.path().join("x.h5");
    script("write_hdf5/scenario.py", [Path::new("long"), &container]).success();
    let mut random = Seeded::new(21);
    let mut round = 0;
    for kill in 0..rounds(KILLS) {
        let mounted = Mounted::new(source.path(), options);
        let path = &mounted.join("x.h5/numbers");
        let begun = AtomicU64::new(round);
        let (last, spins) = (round + 2 + random.below(5) as u64, random.below(3_000_000));
        let synced = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_on(path, round, &begun));
            wait_until("some rounds are written", || {
                begun.load(Ordering::Acquire) >= last
            });
            (0..spins).for_each(|_| std::hint::spin_loop());
            send(mounted.daemon(), Signal::KILL);
            writer.join().unwrap()
        });
        arrayfs([Path::new("umount"), mounted.path()]);
        mounted.assert_ends();
        round = looked_at(source.path(), options, synced, kill);
        let left = std::fs::read_dir(source.path()).unwrap().count();
        assert_eq!(left, 1, "something lies beside the file");
        arrayfs([Path::new("verify"), source.path()]).success();
        script("write_hdf5/scenario.py", [Path::new("whole"), &container]).success();
    }
}

/// What the next mount shows is one round, the last that was synced or the one after it. It is
/// stored when that mount has ended.
fn looked_at(source: &Path, options: &[&str], synced: u64, kill: u64) -> u64 {
    let seed = run_seed();
    let mounted = Mounted::new(source, options);
    let shown = std::fs::read(mounted.join("x.h5/numbers")).unwrap();
    let numbers = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let all: Vec<u64> = shown.chunks(8).map(numbers).collect();
    assert_eq!(all.len(), NUMBERS);
    let (least, most) = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
    let what = format!("{least} to {most}, synced {synced}, kill {kill}, seed {seed}");
    assert!(least >= synced && most <= synced + 1, "{what}");
    // The next round begins from one number.
    std::fs::write(mounted.join("x.h5/numbers"), plain(most)).unwrap();
    most
}

#[test]
fn what_was_synced_survives_kills_while_files_are_replaced() {
    kill_again_and_again(&["rw", "commit=replace"]);
}

#[test]
fn what_was_synced_survives_kills_while_files_are_written_in_place() {
    kill_again_and_again(&["rw", "commit=inplace"]);
}
