//! The daemon is killed while all arrays of a container are written, every time with other lengths:
//! the next mount finds one round of them as a whole, or one that is staged over such a one, and
//! clears away what was left.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Signal;
use tempfile::TempDir;

use super::raw::{Raw, lines};
use super::{encode, is_staged, judge, ours};
use crate::harness::depth::rounds;
use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, nobody_starts, send};
use crate::harness::seeded::{Seeded, run_seed};
use crate::harness::{scratch_directory, wait_until};

/// In a sample, and in the whole.
const KILLS: (u64, u64) = (12, 50);

/// Every value and every row number is the round's; entries and columns are others than in the
/// rounds beside it.
fn plain(version: &str, round: u64) -> Raw {
    let columns = 10 + round % 7;
    let entries = 3000 + 700 * (round % 5);
    let mut raw = Raw::matrix(version, &mut Seeded::new(0), [1, 1], 0);
    raw.set_numbers("val", &vec![round; entries as usize]);
    raw.set_numbers("index", &vec![round; entries as usize]);
    let pointers: Vec<u64> = (0..=columns).map(|at| at * entries / columns).collect();
    raw.set_numbers("idxptr", &pointers);
    raw.set_numbers("shape", &[u64::from(u32::MAX), columns]);
    raw.set("row_names", Vec::new());
    raw.set("col_names", lines(&round.to_string(), columns as usize));
    raw
}

const WRITTEN: [&str; 5] = ["val", "index", "idxptr", "shape", "col_names"];

/// How the arrays are written in a round.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Each is synced and closed before the next one is opened; the last close commits.
    OneByOne,
    /// All are open; the first close commits.
    Together,
}

/// How far the writer has come: the round, and how many arrays of it are synced.
#[derive(Default)]
struct Progress(AtomicU64);

impl Progress {
    const STEP: u64 = 16;

    fn tell(&self, round: u64, arrays: usize) {
        let told = round * Progress::STEP + arrays as u64;
        self.0.store(told, Ordering::Release);
    }

    fn get(&self) -> (u64, usize) {
        let told = self.0.load(Ordering::Acquire);
        (told / Progress::STEP, (told % Progress::STEP) as usize)
    }
}

fn write_round(
    directory: &Path,
    version: &str,
    round: u64,
    way: Way,
    progress: &Progress,
) -> io::Result<()> {
    let raw = plain(version, round);
    let mut open: Vec<File> = Vec::new();
    progress.tell(round, 0);
    for (number, name) in WRITTEN.into_iter().enumerate() {
        // A copy of this handle that another test's program closes now would commit: before it
        // is cut, the array has the length that fits to the others.
        let _nobody_starts = nobody_starts();
        let mut options = OpenOptions::new();
        let file = options.write(true).open(directory.join(name))?;
        // Never empty: without any names the other arrays would agree.
        file.write_all_at(raw.get(name), 0)?;
        file.set_len(raw.get(name).len() as u64)?;
        file.sync_all()?;
        progress.tell(round, number + 1);
        if way == Way::Together {
            open.push(file);
        }
    }
    Ok(())
}

/// The round that a container shows, if it is one as a whole.
fn round_of(shown: &Raw) -> Option<u64> {
    let round = shown.numbers("val").first().copied()?;
    let is_it = plain(shown.version(), round) == *shown;
    is_it.then_some(round)
}

fn kill_again_and_again(version: &'static str, way: Way, kills: u64) {
    let source = scratch_directory();
    let container = source.path().join("m");
    encode(&[(container.clone(), &plain(version, 1))]);
    let mut random = Seeded::new(kills);
    let mut round = 1;
    for kill in 0..kills {
        let mounted = Mounted::new(source.path(), &["rw"]);
        let directory = &mounted.join("m");
        let (last, spins) = (round + 1 + random.below(3) as u64, random.below(4_000_000));
        let progress = Progress::default();
        std::thread::scope(|scope| {
            // One round after another, until the daemon is gone.
            let write = |round| write_round(directory, version, round, way, &progress);
            let writer = scope.spawn(move || (round + 1..).find(|&round| write(round).is_err()));
            wait_until("some rounds are written", || progress.get().0 >= last);
            (0..spins).for_each(|_| std::hint::spin_loop());
            send(mounted.daemon(), Signal::KILL);
            writer.join().unwrap();
        });
        arrayfs([Path::new("umount"), mounted.path()]);
        mounted.assert_ends();
        let what = format!("{:?}, kill {kill}, seed {}", progress.get(), run_seed());
        round = looked_at(&source, progress.get(), &what);
        assert_eq!(ours(&container), 0, "something is left: {what}");
        arrayfs([Path::new("verify"), &container]).success();
        if kill % 10 == 0 {
            judge(&[(container.clone(), &plain(version, round))]);
        }
    }
}

/// What the next mount shows is a round as a whole: the one that was being written, or the one
/// before. Where it is a part of the former, as far as that was synced at least, what is stored
/// below is the latter as a whole.
fn looked_at(source: &TempDir, (begun, synced): (u64, usize), what: &str) -> u64 {
    let container = source.path().join("m");
    let mounted = Mounted::new(source.path(), &["rw"]);
    let shown = Raw::shown(&mounted.join("m"));
    let staged = is_staged(&mounted.join("m"));
    drop(mounted);
    let new = plain(shown.version(), begun);
    for name in &WRITTEN[..synced] {
        let same = shown.get(name) == new.get(name);
        assert!(same, "{name} was synced, and is lost: {what}");
    }
    if let Some(round) = round_of(&shown) {
        assert!((begun - 1..=begun).contains(&round), "{round}: {what}");
        return round;
    }
    assert!(staged, "it is a mixture, and not staged: {what}");
    let discard = ["stage", "discard"].map(OsStr::new).into_iter();
    arrayfs(discard.chain([container.as_os_str()])).success();
    let mounted = Mounted::new(source.path(), &["ro"]);
    let below = round_of(&Raw::shown(&mounted.join("m")));
    // Programs that other tests start close a handle, too: then its own end commits, which nobody
    // waits for, and several rounds may be staged.
    let below = below.unwrap_or_else(|| panic!("a mixture is stored: {what}"));
    assert!(below < begun, "{below}: {what}");
    below
}

#[test]
fn a_container_is_one_round_as_a_whole_after_every_kill() {
    kill_again_and_again("packed-uint-matrix-v2", Way::OneByOne, rounds(KILLS) / 2);
}

#[test]
fn a_container_that_is_written_by_several_handles_is_one_round_after_every_kill() {
    kill_again_and_again("packed-uint-matrix-v2", Way::Together, rounds(KILLS) / 2);
}

#[test]
fn a_container_that_is_not_packed_is_one_round_after_every_kill() {
    kill_again_and_again(
        "unpacked-double-matrix-v2",
        Way::OneByOne,
        rounds(KILLS) / 4,
    );
}
