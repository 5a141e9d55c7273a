//! Tests of the whole room over a directory of the local file system: random programs, their files
//! after flushes, new mounts, and crashes of every kind.
//!
//! A crash is a beginning of what was done to the disk; after one of the power, any part of what
//! was put and not synced is missing. Whatever is left, each byte must be one that the program had
//! written there since the last fsync, or what that left.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::flush::FlushExtent;
use super::{EncodeOptions, ScratchMount};
use crate::cache::BlockCache;
use crate::disk::local::LocalDisk;
use crate::disk::recording::{Change, Of, RecordingDisk, Writer, replay};
use crate::disk::{Allocation, Caller, Disk, DiskFile, Durability, Place, Putting, Target};
use crate::source::local::LocalStore;

const ROOT: Caller = Caller::of(0, 0);
const CHUNK: u32 = 1 << 10;

struct Mounted {
    mount: ScratchMount,
    recording: Arc<RecordingDisk>,
}

fn mount(at: &Path) -> Mounted {
    let store = Arc::new(LocalStore::open(at, at).unwrap());
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(Arc::clone(&store)));
    let recording = Arc::new(RecordingDisk::new(disk));
    let options = EncodeOptions {
        chunk_size: CHUNK,
        ..EncodeOptions::default()
    };
    let cache = BlockCache::new(4 << 20);
    let mount = ScratchMount::new(store, Some(Arc::clone(&recording) as _), cache, options);
    Mounted {
        mount: mount.unwrap(),
        recording,
    }
}

impl Mounted {
    fn disk(&self) -> Arc<dyn Disk> {
        self.mount.disk().unwrap()
    }

    fn create(&self, name: &str) -> Arc<dyn DiskFile> {
        let id = self.mount.store().stat(Path::new("")).unwrap().identity.id;
        let place = Place {
            directory: Path::new(""),
            id,
            name: OsStr::new(name),
        };
        self.disk().create(place, 0o644, ROOT).unwrap()
    }

    fn content(&self, name: &str) -> crate::error::Result<Vec<u8>> {
        let path = Path::new(name);
        let source = self.mount.store().open(path)?;
        let len = self.mount.store().stat(path)?.identity.size;
        assert_eq!(len, source.len());
        let mut bytes = vec![0; len as usize + 10];
        let n = source.read(0, &mut bytes)?;
        bytes.truncate(n);
        assert_eq!(n as u64, len);
        Ok(bytes)
    }

    fn flush(&self, extent: FlushExtent) {
        for file in self.mount.store.room.changed_files() {
            file.flush(extent).unwrap();
        }
    }
}

/// What a program does to its file, and what happens meanwhile.
#[derive(Debug, Clone)]
enum Step {
    Write(u64, u8, usize),
    Append(u8, usize),
    Len(u64),
    Punch(u64, u64),
    Sync,
    Flush,
    FlushFull,
    Settle,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    const MOST: u64 = 9 * CHUNK as u64;
    let step = prop_oneof![
        4 => (0..MOST, any::<u8>(), 1usize..3000).prop_map(|(at, b, n)| Step::Write(at, b, n)),
        2 => (any::<u8>(), 1usize..3000).prop_map(|(b, n)| Step::Append(b, n)),
        2 => prop_oneof![Just(0), 0..MOST].prop_map(Step::Len),
        1 => (0..MOST, 1..MOST).prop_map(|(at, len)| Step::Punch(at, len)),
        3 => Just(Step::Sync),
        2 => Just(Step::Flush),
        1 => Just(Step::FlushFull),
        1 => Just(Step::Settle),
    ];
    proptest::collection::vec(step, 1..14)
}

/// Even bytes shrink, odd ones hardly.
fn bytes(seed: u8, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed) * 31 + 7;
    let byte = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if seed.is_multiple_of(2) {
            seed
        } else {
            (state >> 40) as u8
        }
    };
    (0..len).map(byte).collect()
}

/// Does a step, to the file and to its model.
fn take(on: &Mounted, file: &dyn DiskFile, model: &mut Vec<u8>, step: &Step) {
    match *step {
        Step::Write(at, seed, len) => {
            let bytes = bytes(seed, len);
            file.put(at, &bytes, Putting::default(), ROOT).unwrap();
            let end = at as usize + len;
            model.resize(model.len().max(end), 0);
            model[at as usize..end].copy_from_slice(&bytes);
        }
        Step::Append(seed, len) => {
            let how = Putting {
                append: true,
                ..Putting::default()
            };
            file.put(7, &bytes(seed, len), how, ROOT).unwrap();
            model.extend(bytes(seed, len));
        }
        Step::Len(len) => {
            file.set_len(len, ROOT).unwrap();
            model.resize(len as usize, 0);
        }
        Step::Punch(offset, len) => {
            let what = Allocation {
                mode: 3,
                offset,
                len,
            };
            file.allocate(what, ROOT).unwrap();
            let end = model.len().min((offset + len) as usize);
            model[(offset as usize).min(end)..end].fill(0);
        }
        Step::Sync => on.disk().sync(Target::Open(file.source()), true).unwrap(),
        Step::Flush => on.flush(FlushExtent::All),
        Step::FlushFull => on.flush(FlushExtent::FullChunks),
        Step::Settle => assert!(on.mount.settle().is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_file_holds_what_was_written(rounds in proptest::collection::vec(steps(), 1..4)) {
        let directory = tempfile::tempdir().unwrap();
        let mut model = Vec::new();
        for (round, steps) in rounds.iter().enumerate() {
            let on = mount(directory.path());
            let file = match round {
                0 => on.create("x"),
                _ => {
                    let id = on.mount.store().stat(Path::new("x")).unwrap().identity.id;
                    on.disk().open(Path::new("x"), id).unwrap()
                }
            };
            for step in steps {
                take(&on, &*file, &mut model, step);
                prop_assert_eq!(&on.content("x").unwrap(), &model);
            }
            drop(file);
            prop_assert!(on.mount.settle().is_empty());
            on.mount.end().unwrap();
            drop(on);
            let again = mount(directory.path());
            prop_assert_eq!(&again.content("x").unwrap(), &model);
            again.mount.end().unwrap();
        }
    }
}

/// What a program may find after a crash.
struct Allowed {
    /// Contents since the last sync, that one first; how much had been done when each came.
    since: Vec<(usize, Vec<u8>)>,
    was_synced: bool,
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
    let on = mount(directory.path());
    let found = match on.content("x") {
        Ok(found) => found,
        Err(e) => panic!("{e}: {steps:?}"),
    };
    let contents = || allowed.since.iter().map(|(_, content)| content);
    let byte_is_known = |at: usize, byte: u8| {
        byte == 0 && !allowed.was_synced
            || contents().any(|content| content.get(at).is_none_or(|b| *b == byte))
    };
    if let Some((at, byte)) = found
        .iter()
        .enumerate()
        .find(|(at, byte)| !byte_is_known(*at, **byte))
    {
        panic!("byte {at} is {byte}, which nobody wrote since the last sync: {steps:?}");
    }
    let least = contents().map(Vec::len).min().unwrap_or(0);
    if allowed.was_synced {
        assert!(
            found.len() >= least,
            "{} bytes of {least}: {steps:?}",
            found.len()
        );
    }
    assert!(on.mount.settle().is_empty());
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

#[test]
fn a_write_that_is_to_be_durable_is() {
    let directory = tempfile::tempdir().unwrap();
    let on = mount(directory.path());
    let file = on.create("x");
    let how = Putting {
        durable: Durability::Data,
        ..Putting::default()
    };
    file.put(0, &bytes(2, 5000), how, ROOT).unwrap();
    let changes = on.recording.changes();
    assert!(matches!(
        changes.last(),
        Some(Change::Sync(Of::Written(_), true))
            | Some(Change::SetAttributes(..))
            | Some(Change::Put(..))
    ));
    let other = tempfile::tempdir().unwrap();
    replay(&changes, other.path()).unwrap();
    assert_eq!(mount(other.path()).content("x").unwrap(), bytes(2, 5000));
}
