//! Written bytes are seen at once, by every reader and in every way; a commit changes nothing that
//! is seen.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde_json::Value;

use super::{assert_stored, both_ways, container, either_way};
use crate::harness::place::Place;
use crate::harness::process::nobody_starts;
use crate::harness::reads::{assert_content, assert_same, read_direct, xattr};
use crate::harness::seeded::Seeded;
use crate::harness::wait_until;

both_ways![
    other_handles_see_what_is_written,
    inodes_and_handles_go_on_across_commits,
    derived_files_follow_at_their_next_open,
    the_size_of_a_derived_file_follows_at_once,
    the_time_of_modification_is_that_of_the_last_write,
    a_reader_never_sees_older_bytes_while_somebody_commits,
    the_second_close_of_a_handle_that_was_written_meanwhile_commits,
    an_array_that_is_cut_is_short_at_once,
    a_handle_that_is_open_keeps_nobody_from_committing,
];
either_way![fsync_of_what_is_not_committed_changes_nothing_stored];

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

/// By its name, without a handle.
fn cut(path: &Path, len: i64) {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the path ends with a NUL.
    assert_eq!(unsafe { libc::truncate(path.as_ptr(), len) }, 0);
}

fn whole(file: &File) -> Vec<u8> {
    let mut found = Vec::new();
    let mut reader = file;
    reader.seek(SeekFrom::Start(0)).unwrap();
    reader.read_to_end(&mut found).unwrap();
    found
}

/// Before the first write the kernel believes what it has been told of it.
fn the_size_of_a_derived_file_follows_at_once(place: &Place) {
    for round in 0..20 {
        let name = format!("x{round}.blp");
        container(place, &name, &[7; 4000]);
        let (data, view) = (
            place.join(&name).join("data"),
            place.join(&name).join("views/data.npy"),
        );
        let size = || view.metadata().unwrap().len();
        assert_eq!(size(), 4000 + 128);
        // Half of them by name alone.
        match round % 2 == 0 {
            true => open(&data).write_all_at(&[8; 100], 4000).unwrap(),
            false => cut(&data, 4100),
        }
        assert_eq!(size(), 4100 + 128, "{round}");
    }
}

fn other_handles_see_what_is_written(place: &Place) {
    let mut random = Seeded::new(1);
    let mut expected = random.rising(300_001);
    container(place, "x.blp", &expected);
    let path = &place.join("x.blp/data");
    let (before, mapped) = (File::open(path).unwrap(), File::open(path).unwrap());
    assert_same(path, &whole(&before), &expected);
    // SAFETY: nobody makes the file shorter.
    let map = unsafe { memmap2::Mmap::map(&mapped) }.unwrap();
    assert_same(path, &map, &expected);
    for round in 0..6 {
        let writer = open(path);
        for _ in 0..4 {
            let bytes = random.noise(1 + 9000 * round);
            let at = random.below(expected.len() - bytes.len());
            writer.write_all_at(&bytes, at as u64).unwrap();
            expected[at..at + bytes.len()].copy_from_slice(&bytes);
            for found in [&whole(&before)[..], &map, &whole(&writer)] {
                assert_same(path, found, &expected);
            }
            assert_content(path, &expected);
            let direct = read_direct(path, at as u64, bytes.len()).unwrap();
            assert_same(path, &direct, &bytes);
        }
        drop(writer);
        for found in [&whole(&before)[..], &map] {
            assert_same(path, found, &expected);
        }
        assert_content(path, &expected);
        assert_stored(&place.stored("x.blp"), &expected);
    }
}

fn inodes_and_handles_go_on_across_commits(place: &Place) {
    let mut expected = Seeded::new(2).rising(200_000);
    container(place, "x.blp", &expected);
    let inodes = || {
        ["x.blp", "x.blp/data", "x.blp/arrays.json"]
            .map(|name| place.join(name).metadata().unwrap().ino())
    };
    let (before, stored) = (inodes(), place.stored("x.blp").metadata().unwrap().ino());
    let path = &place.join("x.blp/data");
    let (reader, writer) = (File::open(path).unwrap(), open(path));
    for round in 0..5u8 {
        expected[usize::from(round) * 30_000] = round + 1;
        let short_lived = open(path);
        let at = u64::from(round) * 30_000;
        short_lived.write_all_at(&[round + 1], at).unwrap();
        drop(short_lived);
        assert_eq!(inodes(), before);
        assert_same(path, &whole(&reader), &expected);
        writer.write_all_at(b"kept open", 190_000).unwrap();
        expected[190_000..190_009].copy_from_slice(b"kept open");
        assert_eq!(writer.metadata().unwrap().ino(), before[1]);
        assert_same(path, &whole(&reader), &expected);
    }
    drop(writer);
    assert_stored(&place.stored("x.blp"), &expected);
    let now = place.stored("x.blp").metadata().unwrap().ino();
    let names = || std::fs::read_dir(place.source()).unwrap().count();
    wait_until("nothing is left beside the container", || names() == 1);
    assert!(now == stored || now != before[0]);
}

fn derived_files_follow_at_their_next_open(place: &Place) {
    let plain = Seeded::new(3).rising(100_000);
    container(place, "x.blp", &plain);
    let path = &place.join("x.blp/data");
    let told = || {
        let text = std::fs::read(place.join("x.blp/arrays.json")).unwrap();
        let told: Value = serde_json::from_slice(&text).unwrap();
        told["arrays"][0]["bytes"].as_u64().unwrap()
    };
    let view = || std::fs::read(place.join("x.blp/views/data.npy")).unwrap();
    assert_eq!(told(), 100_000);
    assert!(view().ends_with(&plain));
    let mut writer = OpenOptions::new().append(true).open(path).unwrap();
    writer.write_all(b"more").unwrap();
    let expected = [&plain[..], b"more"].concat();
    assert_eq!(path.metadata().unwrap().len(), 100_004);
    drop(writer);
    assert_stored(&place.stored("x.blp"), &expected);
    assert_eq!(path.metadata().unwrap().len(), 100_004);
    assert_eq!(xattr(path, "user.arrayfs.shape").unwrap(), "[100004]");
    assert_eq!(told(), 100_004);
    assert!(
        view().ends_with(&expected),
        "the view is {} bytes",
        view().len()
    );
    let size = place.join("x.blp/views/data.npy").metadata().unwrap().len();
    assert_eq!(size as usize, view().len());
    let stored = place.stored("x.blp").metadata().unwrap();
    assert!(path.metadata().unwrap().blocks() <= stored.blocks().max(8));
}

fn the_time_of_modification_is_that_of_the_last_write(place: &Place) {
    container(place, "x.blp", &[1; 1000]);
    let path = &place.join("x.blp/data");
    let modified = |path: &Path| path.metadata().unwrap().modified().unwrap();
    let first = modified(path);
    assert_eq!(first, modified(&place.stored("x.blp")));
    let before = SystemTime::now();
    let writer = open(path);
    assert_eq!(modified(path), first, "opening is not writing");
    writer.write_all_at(b"x", 1).unwrap();
    wait_until("the time is that of the write", || modified(path) >= before);
    let written = modified(path);
    assert!(written <= SystemTime::now());
    drop(writer);
    assert_eq!(modified(path), written);
    wait_until("it is committed", || {
        modified(&place.stored("x.blp")) == written
    });
    wait_until("the directory follows", || {
        modified(&place.join("x.blp")) == written
    });
}

/// Every number is written over by the next one, front to back; a reader that has seen one never
/// sees a smaller one.
fn a_reader_never_sees_older_bytes_while_somebody_commits(place: &Place) {
    const NUMBERS: usize = 40_000;
    const ROUNDS: u64 = 25;
    let plain = |round: u64| [round.to_le_bytes(); NUMBERS].concat();
    container(place, "x.blp", &plain(0));
    let path = &place.join("x.blp/data");
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                let writer = open(path);
                writer.write_all_at(&plain(round), 0).unwrap();
                done.store(round, Ordering::Release);
                drop(writer);
            }
        });
        let look = |read: &dyn Fn() -> Vec<u8>| {
            while done.load(Ordering::Acquire) < ROUNDS {
                let sure = done.load(Ordering::Acquire);
                let found = read();
                assert_eq!(found.len(), 8 * NUMBERS);
                let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
                let least = found.chunks(8).map(number).min().unwrap();
                assert!(least >= sure, "{least} after {sure}");
            }
        };
        scope.spawn(move || look(&|| std::fs::read(path).unwrap()));
        scope.spawn(move || look(&|| read_direct(path, 0, 8 * NUMBERS).unwrap()));
    });
    assert_stored(&place.stored("x.blp"), &plain(ROUNDS));
}

/// A child has a copy of the handle, and closes it first.
fn the_second_close_of_a_handle_that_was_written_meanwhile_commits(place: &Place) {
    container(place, "x.blp", &[0; 100_000]);
    let mut expected = vec![0; 100_000];
    let path = &place.join("x.blp/data");
    let writer = open(path);
    for round in 0..3u8 {
        writer.write_all_at(&[round + 1; 100], 1000).unwrap();
        expected[1000..1100].fill(round + 1);
        drop(writer.try_clone().unwrap());
        assert_content(path, &expected);
    }
    drop(writer);
    assert_stored(&place.stored("x.blp"), &expected);
}

fn an_array_that_is_cut_is_short_at_once(place: &Place) {
    let mut expected = Seeded::new(4).rising(300_000);
    container(place, "x.blp", &expected);
    let path = &place.join("x.blp/data");
    let reader = File::open(path).unwrap();
    assert_same(path, &whole(&reader), &expected);
    for len in [250_001, 70_000, 400_000, 0, 5] {
        let writer = open(path);
        writer.set_len(len).unwrap();
        expected.resize(len as usize, 0);
        assert_same(path, &whole(&reader), &expected);
        assert_eq!(reader.metadata().unwrap().len(), len);
        assert_content(path, &expected);
        drop(writer);
        assert_same(path, &whole(&reader), &expected);
        assert_stored(&place.stored("x.blp"), &expected);
    }
    // By its name alone.
    rustix::fs::ftruncate(open(path), 3).unwrap();
    std::fs::write(path, b"new").unwrap();
    assert_same(path, &whole(&reader), b"new");
    assert_stored(&place.stored("x.blp"), b"new");
}

fn fsync_of_what_is_not_committed_changes_nothing_stored(place: &Place) {
    let plain = Seeded::new(5).rising(100_000);
    container(place, "x.blp", &plain);
    let stored = std::fs::read(place.stored("x.blp")).unwrap();
    let path = &place.join("x.blp/data");
    let nobody_starts = nobody_starts();
    let writer = open(path);
    writer.write_all_at(b"synced", 77).unwrap();
    writer.sync_all().unwrap();
    writer.sync_data().unwrap();
    assert_content(&place.stored("x.blp"), &stored);
    let beside = |at: &Path| std::fs::read_dir(at).unwrap().count();
    assert!(beside(place.source()) > 1, "no log is beside the container");
    assert_eq!(beside(place.path()), 1, "it is hidden");
    drop((writer, nobody_starts));
    wait_until("it is gone", || beside(place.source()) == 1);
    let mut expected = plain;
    expected[77..83].copy_from_slice(b"synced");
    assert_stored(&place.stored("x.blp"), &expected);
}

fn a_handle_that_is_open_keeps_nobody_from_committing(place: &Place) {
    let mut expected = vec![1; 200_000];
    container(place, "x.blp", &expected);
    let path = &place.join("x.blp/data");
    let (one, two) = (open(path), open(path));
    one.write_all_at(b"one", 10).unwrap();
    two.write_all_at(b"two", 150_000).unwrap();
    expected[10..13].copy_from_slice(b"one");
    expected[150_000..150_003].copy_from_slice(b"two");
    drop(one);
    assert_stored(&place.stored("x.blp"), &expected);
    two.write_all_at(b"three", 100_000).unwrap();
    expected[100_000..100_005].copy_from_slice(b"three");
    drop(two);
    assert_stored(&place.stored("x.blp"), &expected);
}
