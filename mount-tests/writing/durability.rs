//! When what was written is in the source: at once for write(2), after an orderly end for mappings,
//! too, and what asks for the disk gets there.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use memmap2::MmapMut;
use rustix::fs::{Mode, OFlags, statvfs};
use rustix::process::Signal;

use crate::harness::place::{Place, scenarios};
use crate::harness::process::{arrayfs, send};
use crate::harness::reads::assert_content;
use crate::harness::seeded::Seeded;

scenarios![
    everywhere
    everything_can_be_synced,
    what_is_written_is_in_the_source_at_once,
    a_mapping_that_ends_is_in_the_source,
];

fn read_write(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    options.open(path).unwrap()
}

fn everything_can_be_synced(place: &Place) {
    let mut file = read_write(&place.join("file"));
    file.write_all(b"content").unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    File::open(place.join("file")).unwrap().sync_all().unwrap();
    std::fs::create_dir(place.join("d")).unwrap();
    for directory in [place.path().to_owned(), place.join("d")] {
        let directory = File::open(directory).unwrap();
        directory.sync_all().unwrap();
        directory.sync_data().unwrap();
        rustix::fs::syncfs(&directory).unwrap();
    }
    let mut options = OpenOptions::new();
    let options = options
        .create_new(true)
        .write(true)
        .custom_flags(libc::O_SYNC);
    let mut synced = options.open(place.join("synced")).unwrap();
    synced.write_all(b"content").unwrap();
    assert_content(&place.stored("synced"), b"content");
    std::fs::remove_file(place.join("file")).unwrap();
    file.sync_all().unwrap();
}

fn what_is_written_is_in_the_source_at_once(place: &Place) {
    let file = read_write(&place.join("file"));
    let mut random = Seeded::new(1);
    let mut expected = vec![0; 100_000];
    for _ in 0..100 {
        let (at, bytes) = (random.below(90_000), random.noise(777));
        file.write_all_at(&bytes, at as u64).unwrap();
        file.set_len(100_000).unwrap();
        expected[at..at + 777].copy_from_slice(&bytes);
        assert_content(&place.stored("file"), &expected);
    }
}

/// A file of a megabyte and a half, mapped and written to, with the content that it must have.
fn dirty_mapping(place: &Place, name: &str) -> (MmapMut, Vec<u8>) {
    let file = read_write(&place.join(name));
    let mut content = Seeded::new(2).noise(1_500_000);
    file.write_all_at(&content, 0).unwrap();
    // SAFETY: nobody makes the file shorter while it is mapped.
    let mut map = unsafe { MmapMut::map_mut(&file) }.unwrap();
    for at in (0..content.len()).step_by(100_003) {
        content[at] ^= 0xff;
        map[at] = content[at];
    }
    (map, content)
}

fn a_mapping_that_ends_is_in_the_source(place: &Place) {
    let (map, content) = dirty_mapping(place, "file");
    drop(map);
    assert_content(&place.join("file"), &content);
    assert_content(&place.stored("file"), &content);
}

/// With the mapping still there.
#[test]
fn sigterm_writes_out_what_mappings_hold() {
    let place = Place::mounted(&[]);
    let (map, content) = dirty_mapping(&place, "file");
    let (mounted, source) = place.into_parts();
    send(mounted.daemon(), Signal::TERM);
    mounted.assert_ends();
    assert_content(&source.path().join("file"), &content);
    drop(map);
}

/// Written through a mapping of a file that nobody has open any more, then unmounted at once.
#[test]
fn umount_writes_out_what_mappings_held() {
    let place = Place::mounted(&[]);
    let (map, content) = dirty_mapping(&place, "file");
    let (other, more) = dirty_mapping(&place, "unlinked");
    std::fs::remove_file(place.join("unlinked")).unwrap();
    drop((map, other, more));
    let (mounted, source) = place.into_parts();
    arrayfs([Path::new("umount"), mounted.path()]).success();
    mounted.assert_ends();
    assert_content(&source.path().join("file"), &content);
}

#[test]
fn a_busy_mount_keeps_its_mappings_when_umount_is_refused() {
    let place = Place::mounted(&[]);
    let (mut map, mut content) = dirty_mapping(&place, "file");
    let mountpoint = place.path().to_owned();
    arrayfs([Path::new("umount"), &mountpoint]).failed_saying(1, &["in use"]);
    content[7] ^= 0xff;
    map[7] = content[7];
    map.flush().unwrap();
    assert_content(&place.stored("file"), &content);
}

/// Nothing is kept back in the daemon: what write(2) returned for is the source's file.
#[test]
fn a_killed_daemon_loses_nothing_that_was_written() {
    let place = Place::mounted(&[]);
    let file = read_write(&place.join("file"));
    let mut taken = 0u64;
    for number in 0..3000u64 {
        file.write_all_at(&number.to_le_bytes(), 8 * number)
            .unwrap();
        taken = number + 1;
        if number % 500 == 0 {
            std::fs::create_dir(place.join(format!("d{number}"))).unwrap();
            std::fs::rename(place.join("file"), place.join("file.new")).unwrap();
            std::fs::rename(place.join("file.new"), place.join("file")).unwrap();
        }
    }
    let (mounted, source) = place.into_parts();
    send(mounted.daemon(), Signal::KILL);
    let expected: Vec<u8> = (0..taken).flat_map(u64::to_le_bytes).collect();
    assert_content(&source.path().join("file"), &expected);
    assert_eq!(std::fs::read_dir(source.path()).unwrap().count(), 7);
    // Fails, and does not hang.
    crate::harness::wait_until("the daemon is gone", || file.write_at(b"more", 0).is_err());
    drop(file);
    arrayfs([Path::new("umount"), mounted.path()]).success();
    mounted.assert_ends();
}

/// While somebody writes all the time: what was taken is there, in order.
#[test]
fn sigterm_in_the_middle_of_writing_keeps_what_was_taken() {
    let place = Place::mounted(&[]);
    let mut file = File::create(place.join("log")).unwrap();
    let (mounted, source) = place.into_parts();
    let daemon = mounted.daemon();
    let writer = std::thread::spawn(move || {
        let mut taken = 0u64;
        while file.write_all(&taken.to_le_bytes()).is_ok() {
            taken += 1;
            if taken == 500 {
                send(daemon, Signal::TERM);
            }
            if taken == 200_000 {
                break;
            }
        }
        taken
    });
    let taken = writer.join().unwrap();
    mounted.assert_ends();
    assert!(taken >= 500);
    let stored = std::fs::read(source.path().join("log")).unwrap();
    let expected: Vec<u8> = (0..taken).flat_map(u64::to_le_bytes).collect();
    assert!(
        stored.starts_with(&expected),
        "{} of {}",
        stored.len(),
        expected.len()
    );
}

#[test]
fn files_without_a_name_are_not_offered() {
    let place = Place::mounted(&[]);
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let made = rustix::fs::open(place.path(), flags, Mode::from_raw_mode(0o600));
    assert_eq!(made.err(), Some(rustix::io::Errno::OPNOTSUPP));
}

#[test]
fn free_space_is_the_source_s() {
    let place = Place::mounted(&[]);
    let file = File::create(place.join("file")).unwrap();
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&file, flags, 0, 1 << 20).unwrap();
    let (shown, stored) = (
        statvfs(place.path()).unwrap(),
        statvfs(place.source()).unwrap(),
    );
    assert_eq!(
        (shown.f_blocks, shown.f_files),
        (stored.f_blocks, stored.f_files)
    );
    assert_eq!(
        (shown.f_bsize, shown.f_namemax),
        (stored.f_bsize, stored.f_namemax)
    );
    assert!(!shown.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
}
