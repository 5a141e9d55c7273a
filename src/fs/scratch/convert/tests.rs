//! Tests of whole conversions over a directory of the local file system: whatever fails first, the
//! next one goes on, and nothing is removed before what replaces it is on the disk.

use std::collections::BTreeMap;
use std::fs::FileTimes;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::*;
use crate::disk::failing::{FailingDisk, Failure};
use crate::disk::local::LocalDisk;
use crate::disk::recording::{Change, Of, RecordingDisk};
use crate::source::local::LocalStore;
use crate::sync::Mutex;

#[derive(Default)]
struct Watch(Mutex<Vec<PathBuf>>);

impl ConvertWatch for Watch {
    fn begins(&self, _: u64, _: u64) {}

    fn advanced(&self, _: u64) {}

    fn left_alone(&self, path: &Path, _: &str) {
        self.0.lock().push(path.to_owned());
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

struct ConvertGround(tempfile::TempDir);

/// Names and contents of the files that are put there.
const FILES: [(&str, &[u8]); 4] = [
    ("x", b"some bytes"),
    ("d.blp/y", b""),
    ("d.blp~/z", b"others"),
    ("l", b"two names"),
];

impl ConvertGround {
    fn new() -> ConvertGround {
        let ground = ConvertGround(tempfile::tempdir().unwrap());
        for directory in ["d.blp", "d.blp~"] {
            std::fs::create_dir(ground.at(directory)).unwrap();
        }
        for (name, content) in FILES {
            std::fs::write(ground.at(name), content).unwrap();
        }
        std::fs::hard_link(ground.at("l"), ground.at("d.blp/l")).unwrap();
        for (number, directory) in ["d.blp", "d.blp~", ""].into_iter().enumerate() {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(700_000_000 + number as u64);
            let times = FileTimes::new().set_accessed(time).set_modified(time);
            let directory = std::fs::File::open(ground.at(directory)).unwrap();
            directory.set_times(times).unwrap();
        }
        ground
    }

    /// Times of directories, by what they are.
    fn times(&self) -> BTreeMap<u64, (i64, i64)> {
        let found = |path: &Path| {
            let found = path.symlink_metadata().unwrap();
            let times = (found.mtime(), found.mtime_nsec());
            found.is_dir().then_some((found.ino(), times))
        };
        let names = self.names().into_iter().map(|name| self.at(&name));
        let all = names.chain([self.at("")]);
        all.filter_map(|path| found(&path)).collect()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Converts by way of another disk.
    fn convert(
        &self,
        direction: ConvertDirection,
        through: impl FnOnce(Arc<dyn Disk>) -> Arc<dyn Disk>,
    ) -> Result<Converted> {
        let path = self.0.path();
        let store = Arc::new(LocalStore::open(path, path).unwrap());
        let disk = through(Arc::new(LocalDisk::new(Arc::clone(&store))));
        let options = EncodeOptions::default();
        convert(store, disk, direction, &options, &Watch::default())
    }

    fn names(&self) -> Vec<String> {
        let (mut names, mut ahead) = (Vec::new(), vec![PathBuf::new()]);
        while let Some(path) = ahead.pop() {
            for entry in std::fs::read_dir(self.0.path().join(&path)).unwrap() {
                let entry = entry.unwrap();
                let name = path.join(entry.file_name());
                if entry.file_type().unwrap().is_dir() {
                    ahead.push(name.clone());
                }
                names.push(name.display().to_string());
            }
        }
        names.sort();
        names
    }

    fn assert_plain(&self, when: usize) {
        let expected = [
            "d.blp", "d.blp/l", "d.blp/y", "d.blp~", "d.blp~/z", "l", "x",
        ];
        assert_eq!(self.names(), expected, "{when}");
        for (name, content) in FILES {
            assert_eq!(std::fs::read(self.at(name)).unwrap(), content, "{when}");
        }
        let inode = |name| self.at(name).metadata().unwrap().ino();
        assert_eq!(inode("l"), inode("d.blp/l"), "{when}");
    }

    fn assert_packed(&self, when: usize) {
        let expected = [
            ".arrayfs-scratch",
            "d.blp~",
            "d.blp~/l.blp",
            "d.blp~/y.blp",
            "d.blp~~",
            "d.blp~~/z.blp",
            "l.blp",
            "x.blp",
        ];
        assert_eq!(self.names(), expected, "{when}");
    }

    fn converted(&self, direction: ConvertDirection, when: usize) {
        let done = self.convert(direction, |disk| disk).unwrap();
        assert_eq!(done.left, 0, "{when}");
        match direction {
            ConvertDirection::Pack => self.assert_packed(when),
            ConvertDirection::Unpack => self.assert_plain(when),
        }
    }
}

/// The tree is packed and unpacked with a disk whose n-th call fails; and all after it, if it
/// `dies`. Then the same goes on with one that works.
fn whatever_fails(dies: bool) {
    // Some calls may fail without any harm.
    let mut harmless = 0;
    for call in 1.. {
        let ground = ConvertGround::new();
        let times = ground.times();
        let mut has_failed = false;
        for direction in [ConvertDirection::Pack, ConvertDirection::Unpack] {
            let failure = Failure::new(libc::EIO);
            match dies {
                true => failure.die_at(call),
                false => failure.arm(call),
            }
            let through = |disk| Arc::new(FailingDisk { disk, failure }) as _;
            let outcome = ground.convert(direction, through);
            // What failed was no setting of times.
            if !dies && outcome.as_ref().is_ok_and(|done| done.left > 0) {
                assert_eq!(ground.times(), times, "{call}");
            }
            has_failed |= outcome.is_err() || outcome.is_ok_and(|done| done.left > 0);
            ground.converted(direction, call);
            // Those of the root may be lost when the last name has gone, and of one that failed
            // for which nothing else did.
            let root = ground.at("").metadata().unwrap().ino();
            let differ = |(id, time): (&u64, &(i64, i64))| *id != root && times[id] != *time;
            let differ = ground.times().iter().filter(|at| differ(*at)).count();
            assert!(differ == 0 || !dies && differ == 1, "{call}");
        }
        harmless = if has_failed { 0 } else { harmless + 1 };
        if harmless > 15 {
            assert!(call > 50, "it has not failed since call {call}");
            return;
        }
    }
}

#[test]
fn whatever_the_disk_refuses_the_next_one_goes_on() {
    whatever_fails(false);
}

#[test]
fn whenever_the_disk_dies_the_next_one_goes_on() {
    whatever_fails(true);
}

/// Files that are called like those of a conversion.
#[test]
fn what_is_only_called_like_ours_is_left_alone() {
    const ALIKE: [&str; 2] = [".arrayfs-pack-1a", "d.blp/.arrayfs-unpack-2b"];
    for call in 1..60 {
        let ground = ConvertGround::new();
        let all = ["d.blp", "d.blp~"];
        let content = |name: &str| {
            let found = all.iter().map(|above| name.replace("d.blp", above));
            let mut found = found.map(|name| std::fs::read(ground.at(&name)).ok());
            found.find_map(|found| found)
        };
        for name in ALIKE {
            std::fs::write(ground.at(name), name).unwrap();
        }
        let failure = Failure::new(libc::EIO);
        failure.die_at(call);
        let through = |disk| Arc::new(FailingDisk { disk, failure }) as _;
        let _interrupted = ground.convert(ConvertDirection::Pack, through);
        let done = ground.convert(ConvertDirection::Pack, |disk| disk);
        assert_eq!(done.unwrap().left, ALIKE.len() as u64, "{call}");
        for name in ALIKE {
            assert_eq!(content(name).as_deref(), Some(name.as_bytes()), "{call}");
        }
    }
}

#[test]
fn nothing_goes_before_what_replaces_it_is_on_the_disk() {
    let ground = ConvertGround::new();
    let recording = Mutex::new(None);
    ground
        .convert(ConvertDirection::Pack, |disk| {
            let disk = Arc::new(RecordingDisk::new(disk));
            *recording.lock() = Some(Arc::clone(&disk));
            disk
        })
        .unwrap();
    let recording = recording.lock().take().unwrap();
    let changes = recording.changes();
    let mut checked = 0;
    for (at, change) in changes.iter().enumerate() {
        let Change::Unlink(gone) = change else {
            continue;
        };
        let name = gone.file_name().unwrap();
        if walk::temporary_of(name).is_some() || name == LOG_NAME {
            continue;
        }
        let new = gone.with_file_name(super::super::names::packed(name));
        let before = |of: &dyn Fn(&Change) -> bool, until: usize| {
            changes[..until].iter().rposition(of).expect("it was done")
        };
        let linked = before(
            &|change| matches!(change, Change::Link(_, to) if *to == new),
            at,
        );
        let Change::Link(Of::Named(temporary), _) = &changes[linked] else {
            panic!("{:?}", changes[linked]);
        };
        let is_sync = |path: &Path| {
            let path = path.to_owned();
            move |change: &Change| matches!(change, Change::Sync(Of::Named(synced), _) if *synced == path)
        };
        let synced = before(&is_sync(temporary), linked);
        let directory = gone.parent().unwrap();
        assert!(before(&is_sync(directory), at) > linked, "{gone:?}");
        let made =
            |change: &Change| matches!(change, Change::Create(path, ..) if path == temporary);
        assert!(before(&made, linked) < synced, "{gone:?}");
        checked += 1;
    }
    assert_eq!(checked, 5);
}
