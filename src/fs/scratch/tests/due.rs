//! A file for which the disk is slow holds up no other: neither its being stored, nor who writes.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::*;
use crate::disk::failing::{FailingDisk, Failure};

/// The budget of these mounts, a quarter of which may be held.
const BUDGET: u64 = 4 << 20;

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct SlowDisk {
    mount: ScratchMount,
    failure: Arc<Failure>,
}

/// A sync that has begun goes on when this is dropped.
struct HeldSync(#[expect(dead_code)] Sender<()>);

fn mount(at: &Path) -> SlowDisk {
    let store = Arc::new(LocalStore::open(at, at).unwrap());
    let failure = Failure::new(libc::EIO);
    let disk: Arc<dyn Disk> = Arc::new(FailingDisk {
        disk: Arc::new(LocalDisk::new(Arc::clone(&store))),
        failure: Arc::clone(&failure),
    });
    let (cache, options) = (BlockCache::new(BUDGET), EncodeOptions::default());
    let mount = ScratchMount::new(store, Some(disk), cache, options).unwrap();
    SlowDisk { mount, failure }
}

impl SlowDisk {
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

    /// A file of these bytes that was synced: what is written to it is stored with a sync.
    fn synced(&self, name: &str, len: usize) -> Arc<dyn DiskFile> {
        let file = self.create(name);
        put(&*file, &bytes(3, len));
        self.sync(&*file);
        file
    }

    fn sync(&self, file: &dyn DiskFile) {
        self.disk()
            .sync(Target::Open(file.source()), false)
            .unwrap();
    }

    /// The next sync takes as long as the first lives; the other says when it has begun.
    fn hold_next_sync(&self) -> (HeldSync, Receiver<()>) {
        let (go_on, goes_on) = channel::<()>();
        let (begun, has_begun) = channel();
        self.failure.at_sync(move || {
            begun.send(()).unwrap();
            let _ = goes_on.recv();
        });
        (HeldSync(go_on), has_begun)
    }
}

fn put(file: &dyn DiskFile, bytes: &[u8]) {
    file.put(0, bytes, Putting::default(), ROOT).unwrap();
}

/// Bytes of the stored file.
fn stored(at: &Path, name: &str) -> Vec<u8> {
    std::fs::read(at.join(format!("{name}.blp"))).unwrap()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_was_closed_is_stored_while_files_take_long() {
    let directory = tempfile::tempdir().unwrap();
    let on = mount(directory.path());
    let names = ["one", "two", "three"];
    let files = names.map(|name| on.synced(name, 1000));
    let mut held = Vec::new();
    // Each of them in turn keeps the thread that has come to it.
    for file in files {
        let (go_on, has_begun) = on.hold_next_sync();
        put(&*file, &bytes(5, 1000));
        drop(file);
        has_begun.recv_timeout(PATIENCE).unwrap();
        held.push(go_on);
    }
    let quick = on.create("quick");
    put(&*quick, &bytes(7, 100_000));
    drop(quick);
    wait_until("it is stored", || {
        stored(directory.path(), "quick").len() > 1000
    });
    drop(held);
    wait_until("all of them are stored", || {
        on.mount.store.files.changed_files().is_empty()
    });
    for name in names {
        assert_eq!(content(&on.mount, name).unwrap(), bytes(5, 1000));
    }
}

#[test]
fn what_was_closed_is_stored_while_a_program_syncs() {
    let directory = tempfile::tempdir().unwrap();
    let on = mount(directory.path());
    let slow = on.synced("slow", 1000);
    put(&*slow, &bytes(5, 1000));
    let (go_on, has_begun) = on.hold_next_sync();
    std::thread::scope(|threads| {
        threads.spawn(|| on.sync(&*slow));
        has_begun.recv_timeout(PATIENCE).unwrap();
        // It has been written to, and open, for long.
        put(&*slow, &bytes(9, 1000));
        for file in on.mount.store.files.changed_files() {
            let mut times = file.times();
            times.since = times.since.map(|since| since - Duration::from_secs(60));
        }
        let quick = on.create("quick");
        put(&*quick, &bytes(7, 100_000));
        drop(quick);
        wait_until("it is stored", || {
            stored(directory.path(), "quick").len() > 1000
        });
        drop(go_on);
    });
}

#[test]
fn who_writes_to_another_file_does_not_wait_for_one_that_takes_long() {
    let directory = tempfile::tempdir().unwrap();
    let on = mount(directory.path());
    let slow = on.synced("slow", 600_000);
    put(&*slow, &bytes(5, 600_000));
    let (go_on, has_begun) = on.hold_next_sync();
    std::thread::scope(|threads| {
        threads.spawn(|| on.sync(&*slow));
        has_begun.recv_timeout(PATIENCE).unwrap();
        let (done, is_done) = channel();
        let on = &on;
        threads.spawn(move || {
            let quick = on.create("quick");
            for round in 0..8 {
                let what = bytes(7, 600_000);
                quick
                    .put(round * 600_000, &what, Putting::default(), ROOT)
                    .unwrap();
            }
            done.send(()).unwrap();
        });
        let written = is_done.recv_timeout(PATIENCE);
        drop(go_on);
        written.unwrap();
    });
}
