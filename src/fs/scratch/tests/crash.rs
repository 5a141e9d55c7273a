//! Crashes of every kind, at every moment of a program.
//!
//! A crash is a beginning of what was done to the disk; after one of the power, any sectors of what
//! was put and not synced are missing, or as they were in between. Whatever is left, each byte must
//! be one that the program had written there since the last fsync, or what that left.

use std::collections::HashMap;

use proptest::test_runner::{RngAlgorithm, TestRng};

use super::*;
use crate::commit::through_log::open_through;
use crate::container::{Candidate, LogsInFiles, Preferences, recognise};
use crate::disk::recording::Writer;
use crate::memory::budget::Budget;
use crate::source::Listed;

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
        } else if !steps.iter().any(|step| matches!(step, Step::Sync)) {
            let is_beginning = contents().any(|content| content.starts_with(found));
            assert!(is_beginning, "{who}: no beginning of any state: {steps:?}");
        }
    }
}

const SECTOR: u64 = 512;

/// The parts of a write that lie in one sector of the disk each.
fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = offset + at as u64;
        let n = ((from / SECTOR + 1) * SECTOR - from).min((bytes.len() - at) as u64) as usize;
        let part = &bytes[at..at + n];
        at += n;
        (n > 0).then_some((from, part))
    })
}

/// Leaves of what was not synced a random part. The disk has a sector as it was after one of the
/// writes to it, or before all of them.
fn lose(changes: &[Change], rng: &mut TestRng) -> Vec<Change> {
    let mut synced: HashMap<Writer, usize> = HashMap::new();
    for (at, change) in changes.iter().enumerate() {
        if let Change::Sync(Of::Written(writer), _) | Change::SyncNamed(Of::Written(writer), _) =
            change
        {
            synced.insert(*writer, at);
        }
    }
    let is_loose = |writer: &Writer, at: usize| synced.get(writer).is_none_or(|s| at > *s);
    let mut writes: HashMap<(Writer, u64), Vec<usize>> = HashMap::new();
    for (at, change) in changes.iter().enumerate() {
        if let Change::Put(writer, offset, bytes, _) = change
            && is_loose(writer, at)
        {
            for (from, _) in sectors(*offset, bytes) {
                writes.entry((*writer, from / SECTOR)).or_default().push(at);
            }
        }
    }
    let mut sorted: Vec<_> = writes.into_iter().collect();
    sorted.sort_by_key(|(_, writes)| writes[0]);
    let mut latest = HashMap::new();
    for (sector, writes) in sorted {
        let which = match rng.random_range(0..4u32) {
            0 => None,
            1 => Some(writes[rng.random_range(0..writes.len())]),
            _ => writes.last().copied(),
        };
        latest.insert(sector, which);
    }
    let mut kept = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        match change {
            Change::Put(writer, offset, bytes, how) if is_loose(writer, at) => {
                for (from, part) in sectors(*offset, bytes) {
                    if latest[&(*writer, from / SECTOR)].is_some_and(|latest| at <= latest) {
                        kept.push(Change::Put(*writer, from, part.to_vec(), *how));
                    }
                }
            }
            _ => kept.push(change.clone()),
        }
    }
    kept
}

/// What became of the mark of a store before it is mounted again.
fn leave_mark(at: &Path, changes: usize) {
    let mark = at.join(super::super::names::MARK_NAME);
    let far = std::time::SystemTime::now() + std::time::Duration::from_secs(1 << 30);
    match changes % 3 {
        // A part of the store was copied.
        0 => std::fs::remove_file(mark).unwrap(),
        // The clock was set back since.
        1 => std::fs::File::options()
            .write(true)
            .open(mark)
            .and_then(|mark| mark.set_modified(far))
            .unwrap(),
        _ => {}
    }
}

/// What `arrayfs verify` says of a stored file, also of one with a log.
fn faults(at: &Path) -> Vec<String> {
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(at, at).unwrap());
    let path = Path::new("x.blp");
    let preferences = Preferences {
        logs_in_files: LogsInFiles(Some(read_through_log)),
        ..Preferences::default()
    };
    if store.stat(path).unwrap().size == 0 {
        return Vec::new();
    }
    let candidate = Candidate::new(&*store, path, FileKind::File, preferences);
    let recognised = recognise(&candidate).unwrap().expect("a container");
    let budget = Budget::new(64 << 20);
    let (container, _) = open_through(&recognised, &store, path, &budget).unwrap();
    let container = Arc::new(container);
    let mut faults: Vec<String> = container.faults.iter().map(ToString::to_string).collect();
    for located in container.all_arrays() {
        let verified = located
            .array
            .verify(&mut |fault| faults.push(fault.to_string()));
        verified.unwrap();
    }
    for (_, check) in container.all_checks() {
        let checked = check.check(&budget, &mut |fault| faults.push(fault.to_string()));
        checked.unwrap();
    }
    faults
}

fn check(changes: &[Change], allowed: &Allowed, steps: &[Step], how: &str) {
    let directory = tempfile::tempdir().unwrap();
    replay(changes, directory.path()).unwrap();
    if how == "killed" {
        leave_mark(directory.path(), changes.len());
    }
    if !directory.path().join("x.blp").exists() {
        assert!(!allowed.was_synced, "the file is gone: {steps:?}");
        return;
    }
    let read_only = content_read_only(directory.path());
    // Of what lost its power more may be missing until it is recovered.
    if how == "killed" && read_only[1].is_ok() {
        let found = faults(directory.path());
        assert_eq!(found, Vec::<String>::new(), "killed: {steps:?}");
    }
    let on = mount(directory.path());
    let found = match on.content("x") {
        Ok(found) => found,
        Err(e) => panic!("{how}: {e}: {steps:?}"),
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
    assert_eq!(faults(directory.path()), Vec::<String>::new(), "{steps:?}");
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
        let how = if power { "power" } else { "killed" };
        check(&left, &allowed, steps, how);
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

/// A file whose chunks move far, for its table gets room for very many.
#[test]
fn what_lay_where_a_large_table_has_room_is_no_entry_of_it() {
    let few = CHUNK as usize * 60;
    let steps = [
        Step::Append(2, few),
        Step::Sync,
        Step::Append(4, CHUNK as usize * 8),
        Step::Sync,
        Step::Append(6, 100),
    ];
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for first in [0, 1] {
        // Also of one that is stored and was never synced.
        let mut steps = steps.to_vec();
        if first == 1 {
            steps[1] = Step::Flush;
        }
        crash(&steps, false, &mut rng);
        crash(&steps, true, &mut rng);
    }
}

/// A file is made empty and stored so, as `mktemp` does, then written, and renamed over another.
#[test]
fn a_rename_over_content_keeps_old_or_new_also_of_what_was_empty_for_a_while() {
    let place = |on: &Mounted, name| {
        let id = on.mount.store().stat(Path::new("")).unwrap().id;
        (id, OsStr::new(name))
    };
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for (is_dropped, power) in [(false, false), (true, false), (false, true), (true, true)] {
        let directory = tempfile::tempdir().unwrap();
        let on = mount(directory.path());
        let (old, new) = (bytes(3, 2000), bytes(5, 9000));
        let file = on.create("x");
        file.put(0, &old, Putting::default(), ROOT).unwrap();
        on.disk().sync(Target::Open(file.source()), true).unwrap();
        let begin = on.recording.changes().len();
        let temporary = on.create("t");
        on.flush(FlushExtent::All);
        let temporary = match is_dropped {
            false => temporary,
            true => {
                drop(temporary);
                assert!(on.mount.settle().failed.is_empty());
                let id = on.mount.store().stat(Path::new("t")).unwrap().id;
                on.disk().open(Path::new("t"), id).unwrap()
            }
        };
        temporary.set_len(0, ROOT).unwrap();
        temporary.put(0, &new, Putting::default(), ROOT).unwrap();
        let ((id, from), (_, to)) = (place(&on, "t"), place(&on, "x"));
        let in_root = |name| Place {
            directory: Path::new(""),
            id,
            name,
        };
        on.disk()
            .rename(in_root(from), in_root(to), Renaming::Over)
            .unwrap();
        let changes = on.recording.changes();
        let renamed = changes
            .iter()
            .rposition(|change| matches!(change, Change::Rename(..)))
            .unwrap();
        for at in begin..=changes.len() {
            let left = match power {
                true => lose(&changes[..at], &mut rng),
                false => changes[..at].to_vec(),
            };
            let again = tempfile::tempdir().unwrap();
            replay(&left, again.path()).unwrap();
            let found = mount(again.path()).content("x").unwrap();
            let expected = if at > renamed { &new } else { &old };
            assert!(
                found == *expected,
                "{is_dropped} {power} at {at}: {} bytes",
                found.len()
            );
        }
    }
}

/// The names of a store's root, as they are shown.
fn names(mount: &ScratchMount) -> Vec<String> {
    let mut names = Vec::new();
    let store = mount.store();
    let mut each = |listed: Listed<'_>| names.push(listed.name.to_string_lossy().into_owned());
    store.list(Path::new(""), &mut each).unwrap();
    names.sort();
    names
}

#[test]
fn a_rename_between_kinds_has_happened_or_not() {
    for link_is_replaced in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let on = mount(directory.path());
        let id = on.mount.store().stat(Path::new("")).unwrap().id;
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
