//! Crashes of every kind, at every moment of a program.
//!
//! A crash is a beginning of what was done to the disk; after one of the power, any part of what
//! was put and not synced is missing. Whatever is left, each byte must be one that the program had
//! written there since the last fsync, or what that left.

use std::collections::HashMap;

use proptest::test_runner::{RngAlgorithm, TestRng};

use super::*;
use crate::disk::recording::Writer;

/// What a program may find after a crash.
struct Allowed {
    /// Contents since the last sync, that one first; how much had been done when each came.
    since: Vec<(usize, Vec<u8>)>,
    was_synced: bool,
}

impl Allowed {
    fn assert_has(&self, found: &[u8], who: &str, steps: &[Step]) {
        let contents = || self.since.iter().map(|(_, content)| content);
        let is_known = |at: usize, byte: u8| {
            byte == 0 && !self.was_synced
                || contents().any(|content| content.get(at).is_none_or(|b| *b == byte))
        };
        let unknown = found
            .iter()
            .enumerate()
            .find(|(at, byte)| !is_known(*at, **byte));
        if let Some((at, byte)) = unknown {
            panic!("{who}: byte {at} is {byte}, which nobody wrote since the last sync: {steps:?}");
        }
        let least = contents().map(Vec::len).min().unwrap_or(0);
        let len = found.len();
        if self.was_synced {
            assert!(len >= least, "{who}: {len} bytes of {least}: {steps:?}");
        }
    }
}

/// Of a write, what lies in some sectors of the disk.
fn some_sectors(
    writer: Writer,
    offset: u64,
    bytes: &[u8],
    how: Putting,
    rng: &mut TestRng,
) -> Vec<Change> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let from = offset + at as u64;
        let n = ((from / 512 + 1) * 512 - from).min((bytes.len() - at) as u64) as usize;
        if rng.random_range(0..3u32) > 0 {
            kept.push(Change::Put(writer, from, bytes[at..at + n].to_vec(), how));
        }
        at += n;
    }
    kept
}

/// Leaves of what was not synced a random part.
fn lose(changes: &[Change], rng: &mut TestRng) -> Vec<Change> {
    let mut synced: HashMap<Writer, usize> = HashMap::new();
    for (at, change) in changes.iter().enumerate() {
        if let Change::Sync(Of::Written(writer), _) | Change::SyncNamed(Of::Written(writer), _) =
            change
        {
            synced.insert(*writer, at);
        }
    }
    let mut kept = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        match change {
            Change::Put(writer, offset, bytes, how)
                if synced.get(writer).is_none_or(|s| at > *s) =>
            {
                match rng.random_range(0..4u32) {
                    0 => {}
                    1 => kept.extend(some_sectors(*writer, *offset, bytes, *how, rng)),
                    _ => kept.push(change.clone()),
                }
            }
            _ => kept.push(change.clone()),
        }
    }
    kept
}

fn check(changes: &[Change], allowed: &Allowed, steps: &[Step]) {
    let directory = tempfile::tempdir().unwrap();
    replay(changes, directory.path()).unwrap();
    if !directory.path().join("x.blp").exists() {
        assert!(!allowed.was_synced, "the file is gone: {steps:?}");
        return;
    }
    let read_only = content_read_only(directory.path());
    let on = mount(directory.path());
    let found = match on.content("x") {
        Ok(found) => found,
        Err(e) => panic!("{e}: {steps:?}"),
    };
    allowed.assert_has(&found, "recovered", steps);
    // What is cut and written anew may have been nothing before.
    let is_written_anew = steps.iter().any(|step| matches!(step, Step::Len(0)));
    for (other, by) in read_only.into_iter().zip(["mount", "command"]) {
        match other {
            Ok(other) => allowed.assert_has(&other, by, steps),
            Err(e) if allowed.was_synced && !is_written_anew => panic!("{by}: {e}: {steps:?}"),
            Err(_) => {}
        }
    }
    assert!(on.mount.settle().failed.is_empty());
    drop(on);
    let again = mount(directory.path());
    assert_eq!(
        again.content("x").unwrap(),
        found,
        "recovery is not final: {steps:?}"
    );
}

/// Runs a program and crashes it everywhere.
fn crash(steps: &[Step], power: bool, rng: &mut TestRng) {
    let directory = tempfile::tempdir().unwrap();
    let on = mount(directory.path());
    let file = on.create("x");
    let mut model = Vec::new();
    let mut states = vec![Allowed {
        since: vec![(0, Vec::new())],
        was_synced: false,
    }];
    for step in steps {
        take(&on, &*file, &mut model, step);
        let done = on.recording.changes().len();
        if matches!(step, Step::Sync) {
            states.push(Allowed {
                since: vec![(done, model.clone())],
                was_synced: true,
            });
        } else if let Some(last) = states.last_mut() {
            last.since.push((done, model.clone()));
        }
    }
    let changes = on.recording.changes();
    let begins: Vec<usize> = states.iter().map(|state| state.since[0].0).collect();
    for at in 3..=changes.len() {
        let state = begins
            .partition_point(|begin| *begin <= at)
            .saturating_sub(1);
        // A sync under way may have put what is after it.
        let mut since = states[state].since.clone();
        if let Some(next) = states.get(state + 1) {
            since.push(next.since[0].clone());
        }
        let allowed = Allowed {
            since,
            was_synced: states[state].was_synced,
        };
        let left = match power {
            true => lose(&changes[..at], rng),
            false => changes[..at].to_vec(),
        };
        check(&left, &allowed, steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_killed_daemon_loses_nothing_that_was_synced(steps in steps()) {
        crash(&steps, false, &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    }

    #[test]
    fn lost_power_loses_nothing_that_was_synced(steps in steps()) {
        crash(&steps, true, &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    }
}

/// The names of a store's root, as they are shown.
fn names(mount: &ScratchMount) -> Vec<String> {
    let mut names = Vec::new();
    let store = mount.store();
    let mut each = |name: &OsStr, _| names.push(name.to_string_lossy().into_owned());
    store.list(Path::new(""), &mut each).unwrap();
    names.sort();
    names
}

#[test]
fn a_rename_between_kinds_has_happened_or_not() {
    for link_is_replaced in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let on = mount(directory.path());
        let id = on.mount.store().stat(Path::new("")).unwrap().identity.id;
        let place = |name| Place {
            directory: Path::new(""),
            id,
            name: OsStr::new(name),
        };
        let (file, link) = match link_is_replaced {
            true => ("x", "y"),
            false => ("y", "x"),
        };
        drop(on.create(file));
        let target = NewEntry::Symlink {
            target: OsStr::new("somewhere"),
        };
        on.disk().make(place(link), target, ROOT).unwrap();
        let before = on.recording.changes().len();
        on.disk()
            .rename(place("x"), place("y"), Renaming::Over)
            .unwrap();
        assert_eq!(names(&on.mount), ["y"]);
        let changes = on.recording.changes();
        assert!(changes.len() >= before + 4);
        for at in before..=changes.len() {
            let left = tempfile::tempdir().unwrap();
            replay(&changes[..at], left.path()).unwrap();
            let again = mount(left.path());
            let found = names(&again.mount);
            let kind = again.mount.store().stat(Path::new("y")).unwrap().kind;
            let is_done = found == ["y"];
            assert!(is_done || found == ["x", "y"], "{found:?} at {at}");
            assert_eq!((kind == FileKind::File) == link_is_replaced, is_done);
            let own = std::fs::read_dir(left.path()).unwrap().count();
            assert_eq!(own, found.len() + 1, "something is left at {at}");
        }
    }
}
