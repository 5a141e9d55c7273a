//! `arrayfs pack DIR` and `unpack DIR` that are interrupted, at many moments and again and again:
//! nothing is lost, and the same command goes on.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, has_ended, send, start, wait_for_end};
use crate::harness::seeded::Seeded;
use crate::harness::snapshot::{Snapshot, assert_same_tree_and_times};
use crate::harness::wait_until;
use crate::pack_tree::{Ground, RW, put, set_times};

/// Many small files, and some of each other kind.
fn fill_with_many(at: &Path) {
    let mut seeded = Seeded::new(11);
    for directory in ["a.blp", "a.blp/b.blp~", "c"] {
        std::fs::create_dir(at.join(directory)).unwrap();
        for number in 0..60 {
            let len = seeded.below(20_000);
            put(
                at.join(directory).join(format!("{number}")),
                &seeded.rising(len),
            );
        }
        symlink("0", at.join(directory).join("link.blp")).unwrap();
        let linked = at.join(directory).join("linked");
        put(linked.clone(), &seeded.rising(100_000));
        std::fs::hard_link(&linked, at.join(directory).join("same")).unwrap();
        std::fs::hard_link(&linked, at.join(format!("of {}", directory.len()))).unwrap();
    }
    put(at.join("large"), &seeded.rising(12_000_000));
    for directory in ["a.blp/b.blp~", "a.blp", "c", ""] {
        set_times(&at.join(directory), 700_000_000);
    }
}

/// The time of the root itself is lost if the very last moment is hit.
#[track_caller]
fn assert_same_but_for_the_root(ground: &Ground, command: &str) {
    match command {
        "pack" => {
            let mounted = Mounted::new(ground.path(), RW);
            assert_same_tree_and_times(ground.copy.path(), mounted.path());
        }
        _ => assert_same_tree_and_times(ground.copy.path(), ground.path()),
    }
}

/// Runs a command on the tree, with this signal after a while, until it ends well; each while is a
/// little longer. Says how often it was interrupted.
fn run_interrupted(ground: &Ground, command: &str, signal: Signal, step: Duration) -> u32 {
    for count in 0.. {
        let mut program = Command::new(ARRAYFS);
        program.arg(command).arg(ground.path());
        let outputs = program.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = start(outputs).unwrap();
        std::thread::sleep(step * count);
        if !has_ended(child.id()) {
            send(child.id(), signal);
        }
        match wait_for_end(&mut child).code() {
            Some(0) => return count,
            _ => assert_nothing_is_lost(ground),
        }
    }
    unreachable!("it ends well some time")
}

/// Each plain file is there, plain or stored, and never as two.
#[track_caller]
fn assert_nothing_is_lost(ground: &Ground) {
    let copy = Snapshot::of(ground.copy.path()).unwrap();
    let files = copy.paths().filter(|path| copy.is_file(path));
    for path in files {
        let found = possible_places(ground.path(), path);
        let there = found.iter().filter(|path| path.is_file());
        assert!(there.count() > 0, "{} is lost", path.display());
    }
}

/// Where a file of the tree may be: each directory on the way may be escaped or not.
fn possible_places(root: &Path, path: &Path) -> Vec<PathBuf> {
    let with = |name: &OsStr, more: &str| {
        let mut longer = OsString::from(name);
        longer.push(more);
        longer
    };
    let mut places = vec![root.to_owned()];
    for directory in path.parent().unwrap() {
        let both = |place: PathBuf| [place.join(directory), place.join(with(directory, "~"))];
        places = places.into_iter().flat_map(both).collect();
    }
    let name = path.file_name().unwrap();
    let both = |place: PathBuf| [place.join(name), place.join(with(name, ".blp"))];
    places.into_iter().flat_map(both).collect()
}

fn interrupted_again_and_again(signal: Signal) {
    let ground = Ground::of(fill_with_many);
    let step = Duration::from_millis(7);
    let mut interrupted = 0;
    for command in ["pack", "unpack", "pack", "unpack"] {
        interrupted += run_interrupted(&ground, command, signal, step);
        assert_same_but_for_the_root(&ground, command);
    }
    assert!(interrupted > 6, "{interrupted}");
}

#[test]
fn ended_by_the_user_it_goes_on_when_asked_again() {
    interrupted_again_and_again(Signal::INT);
}

#[test]
fn killed_at_any_moment_it_goes_on_when_asked_again() {
    interrupted_again_and_again(Signal::KILL);
}

#[test]
fn who_packed_half_of_it_may_unpack_it_again() {
    let ground = Ground::of(fill_with_many);
    for millis in [5, 10, 20, 30, 40, 60] {
        for command in ["pack", "unpack"] {
            let mut program = Command::new(ARRAYFS);
            let program = program
                .arg(command)
                .arg(ground.path())
                .stderr(Stdio::null());
            let mut child = start(program.stdout(Stdio::null())).unwrap();
            std::thread::sleep(Duration::from_millis(millis));
            if !has_ended(child.id()) {
                send(child.id(), Signal::KILL);
            }
            wait_for_end(&mut child);
            assert_nothing_is_lost(&ground);
        }
    }
    ground.run("unpack").success();
    assert_same_but_for_the_root(&ground, "unpack");
}

#[test]
fn an_interruption_says_how_far_it_came() {
    let ground = Ground::of(fill_with_many);
    let mut said = String::new();
    wait_until("one is interrupted in the midst", || {
        let mut program = Command::new(ARRAYFS);
        program.arg("pack").arg(ground.path()).stdout(Stdio::null());
        let mut child = start(program.stderr(Stdio::piped())).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        send(child.id(), Signal::INT);
        said.clear();
        let mut stderr = child.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
        wait_for_end(&mut child);
        ground.run("unpack").success();
        said.contains("of 190 files")
    });
    assert!(said.contains("the same command goes on"), "{said}");
    ground.assert_plain();
}
