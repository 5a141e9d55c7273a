//! What a mount leaves behind, and the next one finds: times, and damage that is no crash's.

use super::*;
use crate::disk::NewAttributes;
use crate::records::put_next_version;
use crate::scratch::mark::{MARK_LEN, TailMark};
use crate::scratch::names::MARK_NAME;
use crate::scratch::store_mark::LeftStore;
use crate::source::{BytesSource, Stat, Timestamp};

fn stat(on: &Mounted, name: &str) -> Stat {
    on.mount.store().stat(Path::new(name)).unwrap()
}

fn end(on: Mounted) {
    assert!(on.mount.settle().failed.is_empty());
    on.mount.end().unwrap();
}

fn chmod(on: &Mounted, name: &str, mode: u32) {
    let id = stat(on, name).id;
    let path = Path::new(name);
    let to = NewAttributes {
        mode: Some(mode),
        ..NewAttributes::default()
    };
    on.disk()
        .set_attributes(Target::Named { path, id }, &to)
        .unwrap();
}

/// Until the coarse clock has moved on.
fn next_tick(after: Timestamp) {
    while Timestamp::tick() <= after {
        std::thread::yield_now();
    }
}

#[test]
fn times_are_those_of_what_programs_did_across_mounts() {
    let directory = tempfile::tempdir().unwrap();
    let on = mount(directory.path());
    for (name, len) in [
        ("empty", 0),
        ("small", 10),
        ("many", 9 * CHUNK as usize),
        ("synced", 99),
    ] {
        let file = on.create(name);
        file.put(0, &bytes(3, len), Putting::default(), ROOT)
            .unwrap();
        if name == "synced" {
            on.disk().sync(Target::Open(file.source()), false).unwrap();
        }
    }
    let names = ["empty", "small", "many", "synced"];
    let times = |on: &Mounted| names.map(|name| (stat(on, name).mtime, stat(on, name).ctime));
    let seen = times(&on);
    next_tick(seen[3].1);
    end(on);
    let on = mount(directory.path());
    assert_eq!(times(&on), seen);
    // Opened and not changed.
    assert_eq!(on.content("many").unwrap(), bytes(3, 9 * CHUNK as usize));
    assert_eq!(times(&on), seen);
    // Changed in its rights, then in its bytes.
    chmod(&on, "small", 0o600);
    let touched = stat(&on, "small").ctime;
    assert!(touched > seen[1].1);
    end(on);
    let on = mount(directory.path());
    assert_eq!(stat(&on, "small").ctime, touched);
    assert_eq!(stat(&on, "small").mtime, seen[1].0);
    let id = stat(&on, "many").id;
    let file = on.disk().open(Path::new("many"), id).unwrap();
    file.put(5, b"other", Putting::default(), ROOT).unwrap();
    drop(file);
    let written = times(&on);
    assert!(written[2].0 > seen[2].0 && written[2].0 == written[2].1);
    end(on);
    assert_eq!(times(&mount(directory.path())), written);
}

#[test]
fn what_is_touched_right_after_it_was_stored_is_seen_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let on = mount(directory.path());
    drop(on.create("x"));
    let before = stat(&on, "x").ctime;
    for round in 0..20 {
        next_tick(before);
        on.disk().settle(None, Settling::Everything);
        chmod(&on, "x", 0o600 + round);
    }
    let touched = stat(&on, "x").ctime;
    assert!(touched > before);
    end(on);
    assert_eq!(stat(&mount(directory.path()), "x").ctime, touched);
}

#[test]
fn a_log_that_stays_has_the_times_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let on = mount(directory.path());
    let file = on.create("x");
    let content = bytes(3, 9 * CHUNK as usize);
    file.put(0, &content, Putting::default(), ROOT).unwrap();
    on.disk().sync(Target::Open(file.source()), true).unwrap();
    // Of other chunks much would have to move.
    file.put(5, &bytes(5, 3000), Putting::default(), ROOT)
        .unwrap();
    file.put(0, &bytes(4, 2000), Putting::default(), ROOT)
        .unwrap();
    on.disk().sync(Target::Open(file.source()), true).unwrap();
    drop(file);
    let seen = (stat(&on, "x").identity(), stat(&on, "x").ctime);
    next_tick(seen.1);
    end(on);
    let on = mount(directory.path());
    assert_eq!((stat(&on, "x").identity(), stat(&on, "x").ctime), seen);
}

/// Beside the mount that writes, others may read.
#[test]
fn who_only_reads_is_shown_what_is_stored_now() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let on = mount(at);
    let file = on.create("x");
    let first = bytes(3, 3 * CHUNK as usize);
    file.put(0, &first, Putting::default(), ROOT).unwrap();
    on.disk().sync(Target::Open(file.source()), true).unwrap();
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(at, at).unwrap());
    let cache = BlockCache::new(4 << 20);
    let other = ScratchMount::new(store, None, cache, EncodeOptions::default()).unwrap();
    let held = other.store().open(Path::new("x")).unwrap();
    let mut found = vec![0; 100];
    held.read(0, &mut found).unwrap();
    assert_eq!(found, first[..100]);
    for round in 0..8 {
        let content = bytes(round, 5000 + 900 * usize::from(round));
        file.set_len(0, ROOT).unwrap();
        file.put(0, &content, Putting::default(), ROOT).unwrap();
        match round % 2 {
            0 => on.flush(FlushExtent::All),
            _ => on.disk().sync(Target::Open(file.source()), true).unwrap(),
        }
        let stat = other.store().stat(Path::new("x")).unwrap();
        assert_eq!(stat.size, content.len() as u64);
        assert_eq!(super::content(&other, "x").unwrap(), content);
    }
    // What is read of the old version is of it, or an error that says so.
    let read = held.read(2 * u64::from(CHUNK), &mut found);
    assert!(
        matches!(read, Err(crate::error::Error::Changed { .. })),
        "{read:?}"
    );
}

/// Changes a byte of a stored chunk.
fn damage(at: &Path, number: u64) {
    let path = at.join("x.blp");
    let mut stored = std::fs::read(&path).unwrap();
    let store = LocalStore::open(at, at).unwrap();
    let source = store.open(Path::new("x.blp")).unwrap();
    let chunks = StoredChunks::read(&*source, stored.len() as u64, CHUNK).unwrap();
    let (place, len) = chunks.slot(number).unwrap();
    stored[(place + len - 10) as usize] ^= 1;
    std::fs::write(path, stored).unwrap();
}

#[test]
fn damage_of_what_no_crash_can_have_touched_stays_where_it_is() {
    // Noise with zeros in it, which are stored as they are.
    let mut content = bytes(5, 9 * CHUNK as usize);
    content[4 * CHUNK as usize..][..700].fill(0);
    for is_synced in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let on = mount(directory.path());
        let file = on.create("x");
        file.put(0, &content, Putting::default(), ROOT).unwrap();
        if is_synced {
            on.disk().sync(Target::Open(file.source()), true).unwrap();
        } else {
            drop(file);
            end(on);
            // Changes nothing, and is killed.
            drop(mount(directory.path()));
        }
        damage(directory.path(), 4);
        for _ in 0..2 {
            let on = mount(directory.path());
            assert_eq!(stat(&on, "x").size, content.len() as u64);
            let source = on.mount.store().open(Path::new("x")).unwrap();
            let chunk = |number: usize| {
                let at = number * CHUNK as usize;
                let mut found = vec![0; CHUNK as usize];
                let read = source.read(at as u64, &mut found);
                read.map(|_| found == content[at..][..CHUNK as usize])
            };
            assert!(chunk(4).is_err());
            assert!(
                (0..9)
                    .filter(|number| *number != 4)
                    .all(|number| chunk(number).unwrap())
            );
        }
    }
}

/// Nothing of it is cut, and nothing is taken for what a crash has torn.
#[test]
fn what_another_version_has_left_is_refused_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (path, mark) = (at.join("x.blp"), at.join(MARK_NAME));
    let on = mount(at);
    let file = on.create("x");
    for from in [0, 100] {
        file.put(from, &bytes(3, 3000), Putting::default(), ROOT)
            .unwrap();
        on.disk().sync(Target::Open(file.source()), false).unwrap();
    }
    drop((file, on));
    let left = std::fs::read(&path).unwrap();
    let found = BytesSource::new(left.clone());
    let Some(TailMark::Log { start, .. }) = TailMark::read(&found, left.len() as u64).unwrap()
    else {
        panic!("a log");
    };
    let assert_kept = |stored: &[u8]| {
        std::fs::write(&path, stored).unwrap();
        let on = mount(at);
        for read in content_read_only(at).into_iter().chain([on.content("x")]) {
            let refused = read.unwrap_err().to_string();
            assert!(refused.contains("version 2"), "{refused}");
        }
        assert!(std::fs::read(&path).unwrap() == stored);
    };
    let mut other = left.clone();
    put_next_version(&mut other[start as usize..]);
    assert_kept(&other);
    let mut other = left;
    let end = other.len() - MARK_LEN as usize;
    other[end + 7] = 2;
    let sum = crc32fast::hash(&other[end..end + 36]);
    other[end + 36..].copy_from_slice(&sum.to_le_bytes());
    other[start as usize..end].fill(0);
    assert_kept(&other);
    let said = std::fs::read_to_string(&mark).unwrap();
    let said = said.replace("store 1:", "store 2:");
    std::fs::write(&mark, &said).unwrap();
    let store = Arc::new(LocalStore::open(at, at).unwrap());
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(Arc::clone(&store)));
    let cache = BlockCache::new(4 << 20);
    let refused = ScratchMount::new(store, Some(disk), cache, EncodeOptions::default());
    assert!(refused.err().unwrap().to_string().contains("version 2"));
    let read_only = ScratchMount::new(
        store_of(at),
        None,
        BlockCache::new(4 << 20),
        EncodeOptions::default(),
    );
    assert!(read_only.err().unwrap().to_string().contains("version 2"));
    assert!(std::fs::read_to_string(&mark).unwrap() == said);
    assert!(std::fs::read(&path).unwrap() == other);
}

#[test]
fn a_mark_of_this_version_that_does_not_check_says_that_the_store_was_being_changed() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    drop(mount(at));
    for torn in [
        "arrayfs scratch store 1: le",
        "arrayfs scratch store 1: left in oXder\n",
        "arrayfs scr",
        "",
    ] {
        std::fs::write(at.join(MARK_NAME), torn).unwrap();
        drop(mount(at));
    }
    std::fs::write(at.join(MARK_NAME), "arrayfs scratch store: left in order\n").unwrap();
    let store = store_of(at);
    let refused = LeftStore::read(&*store).unwrap_err().to_string();
    assert!(refused.contains("version 0, and only 1"), "{refused}");
}

fn store_of(at: &Path) -> Arc<dyn Store> {
    Arc::new(LocalStore::open(at, at).unwrap())
}
