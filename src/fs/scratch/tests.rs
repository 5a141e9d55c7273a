//! Tests of a whole mount over a directory of the local file system: random programs, their files
//! after flushes, and new mounts. [`crash`]: what is left of them by crashes; [`due`]: what is
//! stored while the disk is slow; [`foreign`]: files that other programs have made; [`forged`]:
//! logs that claim much; [`left`]: what the next mount finds of times and damage.

mod crash;
mod due;
mod foreign;
mod forged;
mod left;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::base::StoredChunks;
use super::snapshot::FlushExtent;
use super::{EncodeOptions, ScratchMount, read_through_log};
use crate::cache::BlockCache;
use crate::disk::local::LocalDisk;
use crate::disk::recording::{Change, Of, RecordingDisk, replay};
use crate::disk::{
    Allocation, Caller, Disk, DiskFile, Durability, NewEntry, Place, Putting, Renaming, Settling,
    Target,
};
use crate::source::local::LocalStore;
use crate::source::{FileKind, Store};

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
        // Of several chunks.
        most_moved: 3 << 10,
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
        let id = self.mount.store().stat(Path::new("")).unwrap().id;
        let place = Place {
            directory: Path::new(""),
            id,
            name: OsStr::new(name),
        };
        self.disk().create(place, 0o644, ROOT).unwrap()
    }

    fn content(&self, name: &str) -> crate::error::Result<Vec<u8>> {
        content(&self.mount, name)
    }

    fn flush(&self, extent: FlushExtent) {
        for file in self.mount.store.files.changed_files() {
            file.flush(extent).unwrap();
        }
    }
}

fn content(mount: &ScratchMount, name: &str) -> crate::error::Result<Vec<u8>> {
    let path = Path::new(name);
    let source = mount.store().open(path)?;
    let len = mount.store().stat(path)?.size;
    assert_eq!(len, source.len());
    let mut bytes = vec![0; len as usize + 10];
    let n = source.read(0, &mut bytes)?;
    bytes.truncate(n);
    assert_eq!(n as u64, len);
    Ok(bytes)
}

/// What is read of a store that nobody may change: in a mount, and by commands.
fn content_read_only(at: &Path) -> [crate::error::Result<Vec<u8>>; 2] {
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(at, at).unwrap());
    let cache = || BlockCache::new(4 << 20);
    let options = EncodeOptions::default();
    let mount = ScratchMount::new(Arc::clone(&store), None, cache(), options).unwrap();
    let stored = || {
        let path = Path::new("x.blp");
        let source = store.open(path)?;
        let source =
            read_through_log(&source, BlockCache::new(4 << 20).budget())?.unwrap_or(source);
        let chunks = match source.len() {
            0 => return Ok(Vec::new()),
            len => StoredChunks::read(&*source, len, CHUNK)?,
        };
        let mut bytes = Vec::new();
        for number in 0..chunks.chunks() {
            let start = bytes.len();
            bytes.resize(start + chunks.plain(number), 0);
            chunks.decode(&*source, number, &mut bytes[start..])?;
        }
        Ok(bytes)
    };
    [content(&mount, "x"), stored()]
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
    SettleAll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    const MOST: u64 = 9 * CHUNK as u64;
    let step = prop_oneof![
        4 => (0..MOST, any::<u8>(), 1usize..3000).prop_map(|(at, b, n)| Step::Write(at, b, n)),
        2 => (any::<u8>(), 1usize..3000).prop_map(|(b, n)| Step::Append(b, n)),
        2 => prop_oneof![Just(0), 0..MOST, (0..9u64).prop_map(|n| n * u64::from(CHUNK))]
            .prop_map(Step::Len),
        1 => (0..MOST, 1..MOST).prop_map(|(at, len)| Step::Punch(at, len)),
        3 => Just(Step::Sync),
        2 => Just(Step::Flush),
        1 => Just(Step::FlushFull),
        1 => Just(Step::Settle),
        1 => Just(Step::SettleAll),
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
        Step::Settle => assert!(on.mount.settle().failed.is_empty()),
        Step::SettleAll => {
            on.disk().settle(None, Settling::Everything);
            let held = on.disk().held_back().unwrap();
            assert_eq!(held.files, 0, "{held:?}");
        }
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
                    let id = on.mount.store().stat(Path::new("x")).unwrap().id;
                    on.disk().open(Path::new("x"), id).unwrap()
                }
            };
            for step in steps {
                take(&on, &*file, &mut model, step);
                prop_assert_eq!(&on.content("x").unwrap(), &model);
            }
            drop(file);
            prop_assert!(on.mount.settle().failed.is_empty());
            on.mount.end().unwrap();
            drop(on);
            let again = mount(directory.path());
            prop_assert_eq!(&again.content("x").unwrap(), &model);
            again.mount.end().unwrap();
        }
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

#[test]
fn whole_chunks_are_copied_as_they_are_stored() {
    let directory = tempfile::tempdir().unwrap();
    let on = mount(directory.path());
    let (from, to) = (on.create("from"), on.create("x"));
    // Of the first chunk, so that another sample would be encoded otherwise.
    let mut content: Vec<u8> = (0..CHUNK).map(|i| (i / 3) as u8).collect();
    content.extend(bytes(4, 4 * CHUNK as usize));
    content.extend(bytes(5, 700));
    from.put(0, &content, Putting::default(), ROOT).unwrap();
    on.flush(FlushExtent::All);
    let all = 0..content.len() as u64;
    let copied = to.copy(from.source(), all, 0, ROOT).unwrap();
    assert_eq!(copied, content.len());
    // One of them is changed before it is stored.
    to.put(2 * u64::from(CHUNK) + 5, b"other", Putting::default(), ROOT)
        .unwrap();
    let more = 7..3000;
    assert_eq!(to.copy(from.source(), more, 9000, ROOT).unwrap(), 2993);
    let mut expected = content.clone();
    expected[2 * CHUNK as usize + 5..][..5].copy_from_slice(b"other");
    expected.resize(9000, 0);
    expected.extend(&content[7..3000]);
    assert_eq!(on.content("x").unwrap(), expected);
    on.flush(FlushExtent::All);
    assert_eq!(on.content("x").unwrap(), expected);
    let stored = |name: &str| {
        let bytes = std::fs::read(directory.path().join(name)).unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        let source = store.open(Path::new(name)).unwrap();
        let chunks = StoredChunks::read(&*source, bytes.len() as u64, CHUNK).unwrap();
        let of = |number: u64| {
            let (at, len) = chunks.slot(number).unwrap();
            bytes[at as usize..][..len as usize].to_vec()
        };
        (0..5).map(of).collect::<Vec<_>>()
    };
    let (from, to) = (stored("from.blp"), stored("x.blp"));
    for (number, is_same) in [true, true, false, true, true].into_iter().enumerate() {
        assert_eq!(from[number] == to[number], is_same, "chunk {number}");
    }
}

#[test]
fn what_is_cut_off_does_not_come_back_from_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let on = mount(directory.path());
    let file = on.create("x");
    let put = |at: u64, seed| {
        let bytes = bytes(seed, CHUNK as usize);
        file.put(at, &bytes, Putting::default(), ROOT).unwrap();
    };
    put(0, 3);
    put(u64::from(CHUNK), 5);
    on.disk().sync(Target::Open(file.source()), false).unwrap();
    put(2 * u64::from(CHUNK), 7);
    on.disk().sync(Target::Open(file.source()), false).unwrap();
    file.set_len(2 * u64::from(CHUNK), ROOT).unwrap();
    drop(file);
    assert!(on.mount.settle().failed.is_empty());
    on.mount.end().unwrap();
    drop(on);
    let expected = [bytes(3, CHUNK as usize), bytes(5, CHUNK as usize)].concat();
    for found in content_read_only(directory.path()) {
        assert_eq!(found.unwrap(), expected);
    }
    assert_eq!(mount(directory.path()).content("x").unwrap(), expected);
}
