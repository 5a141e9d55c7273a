//! The daemon is killed while arrays are written: the next mount finds what was there before or
//! what was written, what was synced in any case, and clears away what was left.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Signal;

use super::hidden;
use crate::harness::depth::rounds;
use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, send};
use crate::harness::reads::assert_content;
use crate::harness::seeded::{Seeded, run_seed};
use crate::harness::writers::Bloscpack;
use crate::harness::{scratch_directory, wait_until};

/// In a sample, and in the whole.
const KILLS: (u64, u64) = (12, 50);
const NUMBERS: usize = 20_000;

fn plain(round: u64) -> Vec<u8> {
    [round.to_le_bytes(); NUMBERS].concat()
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    bytes.chunks(8).map(number).collect()
}

/// Writes one number after another over the whole array, until the daemon is gone. Says how far
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
    let container = source.path().join("x.blp");
    Bloscpack::default().write(&container, &plain(0));
    let mut random = Seeded::new(options.len() as u64);
    let mut round = 0;
    for kill in 0..rounds(KILLS) {
        let mounted = Mounted::new(source.path(), options);
        let path = &mounted.join("x.blp/data");
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
        assert_eq!(hidden(&container), 0, "something is left");
        arrayfs([Path::new("verify"), source.path()]).success();
    }
}

/// What the next mount shows is one round, the last that was synced or the one after it.
fn looked_at(source: &Path, options: &[&str], synced: u64, kill: u64) -> u64 {
    let seed = run_seed();
    // Through the log, where there is one.
    let container = source.join("x.blp");
    let told = arrayfs(["cat".as_ref(), container.as_os_str(), "data".as_ref()]).success();
    let mounted = Mounted::new(source, options);
    let shown = std::fs::read(mounted.join("x.blp/data")).unwrap();
    let all = numbers(&shown);
    assert_eq!(all.len(), NUMBERS);
    let (least, most) = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
    let what = format!("{least} to {most}, synced {synced}, kill {kill}, seed {seed}");
    assert!(least >= synced && most <= synced + 1, "{what}");
    assert!(
        told.stdout == shown,
        "without a mount something else is told: {what}"
    );
    // The next round begins from one number.
    std::fs::write(mounted.join("x.blp/data"), plain(most)).unwrap();
    most
}

#[test]
fn what_was_synced_survives_kills_while_files_are_replaced() {
    kill_again_and_again(&["rw", "commit=replace"]);
}

#[test]
fn what_was_synced_survives_kills_while_files_are_changed_in_place() {
    kill_again_and_again(&["rw", "commit=inplace"]);
}

/// A log goes by the name of its container: it is applied before that gets another one.
#[test]
fn what_was_synced_goes_with_a_container_that_is_renamed_first() {
    let source = scratch_directory();
    let container = source.path().join("x.blp");
    Bloscpack::default().write(&container, &plain(0));
    let mounted = Mounted::new(source.path(), &["rw"]);
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .open(mounted.join("x.blp/data"))
        .unwrap();
    file.write_all_at(&plain(7), 0).unwrap();
    file.sync_all().unwrap();
    send(mounted.daemon(), Signal::KILL);
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    drop(file);
    assert_eq!(hidden(&container), 1, "the log");
    let mounted = Mounted::new(source.path(), &["rw"]);
    std::fs::rename(mounted.join("x.blp"), mounted.join("y.blp")).unwrap();
    assert_content(&mounted.join("y.blp/data"), &plain(7));
    assert_eq!(hidden(&container), 0, "something is left");
}
