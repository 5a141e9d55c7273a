//! The worker dies at every message of an edit, and behind its last one: what was staged stays
//! staged, the file is as it was, and the next attempt commits.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::numbers;
use crate::harness::depth::rounds;
use crate::harness::mounted::Mounted;
use crate::harness::place::open_directory;
use crate::harness::process::{ARRAYFS, arrayfs, install_script};
use crate::harness::python::{interpreter, script};
use crate::harness::reads::{assert_content, assert_same, xattr};
use crate::harness::scratch_directory;
use crate::harness::seeded::{Seeded, run_seed};

/// In a sample one of so many moments: of those behind the last step there are five.
const EVERY: (u64, u64) = (4, 1);
/// More than an edit has: of seven messages or more, four each, and of the looks behind it.
const MOMENTS_MOST: u64 = 200;

/// A mount of one file, `x.h5`, whose workers die as `dying_worker.py` says.
struct DyingGround {
    source: TempDir,
    /// Where the worker is told when to die.
    notes: TempDir,
    mounted: Mounted,
}

impl DyingGround {
    fn new(commit: &str) -> Self {
        let (source, notes) = (open_directory(), scratch_directory());
        let stored = source.path().join("x.h5");
        script("write_hdf5/scenario.py", [Path::new("make"), &stored]).success();
        let program = notes.path().join("worker");
        let between = Path::new(env!("CARGO_MANIFEST_DIR")).join("mount-tests/write_hdf5");
        let between = between.join("dying_worker.py");
        let [python, between, to] = [interpreter(), &between, notes.path()].map(Path::display);
        let text = format!("#!/bin/sh\nexec '{python}' -B '{between}' '{ARRAYFS}' '{to}'\n");
        install_script(&text, &program);
        let environment = [("ARRAYFS_HDF5_WORKER", program.to_str().unwrap())];
        let mounted = Mounted::with_environment(source.path(), &["rw", commit], &environment);
        DyingGround {
            source,
            notes,
            mounted,
        }
    }

    fn stored(&self) -> PathBuf {
        self.source.path().join("x.h5")
    }

    fn array(&self, name: &str) -> PathBuf {
        self.mounted.join("x.h5").join(name)
    }

    fn state(&self) -> String {
        xattr(&self.mounted.join("x.h5"), "user.arrayfs.state").unwrap()
    }

    /// From now on, if at all.
    fn die_at(&self, moment: Option<&str>) {
        let told = self.notes.path().join("die");
        match moment {
            Some(moment) => std::fs::write(told, moment).unwrap(),
            None => std::fs::remove_file(told).unwrap(),
        }
    }

    /// At what a worker has died at this moment, if one has.
    fn died(&self, moment: &str) -> Option<&'static str> {
        let kinds = ["step", "last", "look"].into_iter();
        let mut died = kinds.filter(|kind| {
            let note = self.notes.path().join(format!("died.{moment}.{kind}"));
            note.is_dir()
        });
        let found = died.next();
        assert_eq!(died.next(), None, "it is one message");
        found
    }

    fn commit(&self) {
        let (container, none) = (self.mounted.join("x.h5"), rustix::fs::XattrFlags::empty());
        let _ = rustix::fs::setxattr(&container, "user.arrayfs.commit", b"1", none);
    }

    /// Stages extents, chunks, texts and a compact place, acknowledged by a sync; the close commits
    /// all of it.
    fn write(&self, expected: &Expected) {
        let files = expected.arrays.iter().map(|(name, bytes)| {
            let opened = OpenOptions::new().write(true).open(self.array(name));
            let file = opened.unwrap();
            file.set_len(bytes.len() as u64).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file.sync_all().unwrap();
            file
        });
        let files: Vec<File> = files.collect();
        drop(files);
    }

    #[track_caller]
    fn assert_shown(&self, expected: &Expected) {
        for (name, bytes) in &expected.arrays {
            assert_content(&self.array(name), bytes);
        }
    }

    /// The numbers as libhdf5 reads them.
    #[track_caller]
    fn assert_stored(&self, expected: &Expected) {
        let of_numbers = expected.arrays.iter().filter(|(name, _)| *name != "words");
        for (name, bytes) in of_numbers {
            let arguments = [Path::new("shown"), &self.stored(), Path::new(name)];
            let told = script("write_hdf5/scenario.py", arguments).success().stdout;
            let line = told.iter().position(|&byte| byte == b'\n').unwrap();
            assert_same(name, &told[line + 1..], bytes);
        }
    }
}

/// What a round writes: other values, in chunks of other sizes, more and fewer of them.
struct Expected {
    arrays: [(&'static str, Vec<u8>); 4],
}

impl Expected {
    fn of(round: u64) -> Expected {
        let noise = Seeded::new(round).noise(100);
        let round = round as i32;
        // A slice of three numbers after the other; every second time they compress.
        let rows: Vec<u8> = match round % 2 {
            0 => vec![round as u8; 12 * (2 + round as usize % 5)],
            _ => noise[..12 * (2 + round as usize % 5)].to_vec(),
        };
        let most: Vec<i32> = (0..4 + round % 3).map(|n| n * round).collect();
        let words = format!("{}\n{round}\n", "word".repeat(1 + round as usize % 50));
        Expected {
            arrays: [
                ("rows", rows),
                ("most", numbers(&most)),
                ("fixed", numbers(&[round, round + 1, 3])),
                ("words", words.into_bytes()),
            ],
        }
    }
}

/// Something is written while a worker is to die at a moment, and is committed afterwards. Gives at
/// what it died.
fn die_once(ground: &DyingGround, round: u64, moment: u64) -> Option<&'static str> {
    let (told, expected) = (moment.to_string(), Expected::of(round));
    let before = std::fs::read(ground.stored()).unwrap();
    ground.die_at(Some(&told));
    ground.write(&expected);
    ground.commit();
    let (state, died) = (ground.state(), ground.died(&told));
    ground.assert_shown(&expected);
    if died == Some("step") {
        let is_staged = state.starts_with("staged: ") && state.contains("HDF5");
        assert!(is_staged, "{moment}: {state}");
        assert_same("x.h5", &std::fs::read(ground.stored()).unwrap(), &before);
    } else {
        // Another worker was asked.
        assert_eq!(state, "clean", "{moment}: {died:?}");
    }
    ground.die_at(None);
    ground.commit();
    assert_eq!(ground.state(), "clean", "{moment}");
    ground.assert_shown(&expected);
    if died.is_none() || round.is_multiple_of(5) {
        ground.assert_stored(&expected);
    }
    died
}

fn a_worker_may_die_whenever_it_likes(commit: &str) {
    let ground = DyingGround::new(commit);
    let (every, mut steps, mut behind, mut spared) = (rounds(EVERY), 0, 0, 0);
    let moments = (run_seed() % every..MOMENTS_MOST).step_by(every as usize);
    for (round, moment) in (1..).zip(moments) {
        match die_once(&ground, round, moment) {
            Some("step") => steps += 1,
            Some(_) => behind += 1,
            None => spared += 1,
        }
        // Some edits have fewer messages than others.
        if spared == 3 {
            break;
        }
    }
    println!("{steps} at steps, {behind} behind them");
    assert_eq!(spared, 3, "an edit without end");
    let all = steps * every;
    assert!(
        all >= 24 && behind > 0,
        "{steps} at steps, {behind} behind them"
    );
    ground.mounted.assert_alive();
    arrayfs([Path::new("verify"), &ground.stored()]).success();
}

#[test]
fn a_worker_that_dies_at_any_message_loses_nothing_of_a_file_that_is_replaced() {
    a_worker_may_die_whenever_it_likes("commit=replace");
}

#[test]
fn a_worker_that_dies_at_any_message_loses_nothing_of_a_file_that_is_written_in_place() {
    a_worker_may_die_whenever_it_likes("commit=inplace");
}

/// Between the patches and the seal: every worker that is to look at the file as it would be.
#[test]
fn no_worker_that_looks_at_the_result_means_no_commit() {
    for commit in ["commit=replace", "commit=inplace"] {
        let ground = DyingGround::new(commit);
        let before = std::fs::read(ground.stored()).unwrap();
        let expected = Expected::of(1);
        ground.die_at(Some("check"));
        ground.write(&expected);
        ground.commit();
        assert_eq!(ground.died("check"), Some("look"));
        let state = ground.state();
        assert!(
            state.starts_with("staged: ") && state.contains("HDF5"),
            "{state}"
        );
        assert_same("x.h5", &std::fs::read(ground.stored()).unwrap(), &before);
        ground.assert_shown(&expected);
        ground.die_at(None);
        ground.commit();
        assert_eq!(ground.state(), "clean");
        ground.assert_stored(&expected);
        arrayfs([Path::new("verify"), &ground.stored()]).success();
    }
}

/// libhdf5 lacks lzf, and other files must not meet what stands in for it: the worker ends with the
/// edit that needed it. One that takes its time is not asked any more.
#[test]
fn no_commit_gets_the_worker_that_ends_with_another() {
    let (source, programs) = (open_directory(), scratch_directory());
    for (what, name) in [("make", "x.h5"), ("lzf", "lzf.h5")] {
        let path = source.path().join(name);
        script("write_hdf5/scenario.py", [Path::new(what), &path]).success();
    }
    let program = programs.path().join("worker");
    let text = format!("#!/bin/sh\n'{ARRAYFS}' \"$@\"\nexec sleep 1000\n");
    install_script(&text, &program);
    let environment = [
        ("ARRAYFS_HDF5_WORKER", program.to_str().unwrap()),
        ("ARRAYFS_HDF5_LIMITS", "1,1024"),
    ];
    let mounted = Mounted::with_environment(source.path(), &["rw"], &environment);
    for array in ["lzf.h5/a", "x.h5/rows", "lzf.h5/b", "x.h5/rows"] {
        let file = OpenOptions::new().append(true).open(mounted.join(array));
        file.unwrap().write_all(&numbers(&[7, 8, 9])).unwrap();
        let (container, _) = array.split_once('/').unwrap();
        let state = xattr(&mounted.join(container), "user.arrayfs.state").unwrap();
        assert!(!state.contains("worker"), "{array}: {state}");
    }
    drop(mounted);
    let path = source.path().join("x.h5");
    let told = script(
        "write_hdf5/scenario.py",
        [Path::new("shown"), &path, Path::new("rows")],
    );
    assert!(
        told.success()
            .stdout
            .ends_with(&numbers(&[7, 8, 9, 7, 8, 9]))
    );
}
