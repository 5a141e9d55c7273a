//! A disk that is full, of bytes or of files: errors come from the call that fails, nothing that
//! was there is harmed, nothing hangs, and what becomes free can be used.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::process::Signal;

use crate::harness::process::{Ran, arrayfs, run, send};
use crate::harness::reads::assert_content;
use crate::harness::seeded::Seeded;
use crate::harness::small_disk::SmallDisk;
use crate::harness::writers::Bloscpack;
use crate::harness::{is_root, scratch_directory, within_patience};

const SIZE: &str = "size=8m,mode=777";
const BLOCK: usize = 64 << 10;

/// Tries the scenario on a plain disk and on a mounted one.
fn on_small_disks(options: &str, scenario: fn(&SmallDisk)) {
    if !is_root("a small file system") {
        return;
    }
    for is_mounted in [false, true] {
        let options = options.to_owned();
        let what = format!("the full disk is dealt with, mounted: {is_mounted}");
        within_patience(&what, move || {
            scenario(&SmallDisk::new(&options, is_mounted.then_some(&["rw"][..])))
        });
    }
}

#[track_caller]
fn assert_full<T>(done: io::Result<T>) {
    let errno = done.err().expect("the disk is full").raw_os_error();
    assert_eq!(errno, Some(libc::ENOSPC));
}

/// Writes blocks until it fails; gives all that was taken.
fn fill(file: &mut File, seed: u64) -> Vec<u8> {
    let (mut taken, mut random) = (Vec::new(), Seeded::new(seed));
    loop {
        let block = random.noise(BLOCK);
        match file.write(&block) {
            Ok(n) => taken.extend(&block[..n]),
            Err(e) => {
                assert_eq!(e.raw_os_error(), Some(libc::ENOSPC), "{e}");
                return taken;
            }
        }
        assert!(taken.len() < 16 << 20, "the disk is never full");
    }
}

fn write_until_full(disk: &SmallDisk) {
    let before = Seeded::new(1).noise(1 << 20);
    std::fs::write(disk.join("before"), &before).unwrap();
    let mut file = File::create(disk.join("large")).unwrap();
    let taken = fill(&mut file, 2);
    assert!(taken.len() > 5 << 20, "{} bytes were taken", taken.len());
    assert_full(std::fs::write(disk.join("small"), b"no place"));
    assert_full(file.write(&[1; BLOCK]));
    for (name, content) in [("before", &before), ("large", &taken), ("small", &vec![])] {
        assert_content(&disk.join(name), content);
        assert_content(&disk.stored(name), content);
    }
    assert_eq!(statvfs(disk.path()).unwrap().f_bavail, 0);
    // Names, modes and lengths need no place.
    std::fs::rename(disk.join("small"), disk.join("moved")).unwrap();
    file.set_len(BLOCK as u64).unwrap();
    std::fs::remove_file(disk.join("before")).unwrap();
    let free = statvfs(disk.path()).unwrap().f_bavail * 4096;
    assert!(
        free as usize >= taken.len() - BLOCK,
        "{free} bytes are free"
    );
    std::fs::write(disk.join("moved"), &before).unwrap();
    assert_content(&disk.stored("moved"), &before);
    assert_content(&disk.join("large"), &taken[..BLOCK]);
}

#[test]
fn a_disk_without_space_says_so_at_write_and_harms_nothing() {
    on_small_disks(SIZE, write_until_full);
}

/// What a program has given up, or overwrites, takes no second place.
#[test]
fn a_scratch_mount_takes_a_file_again_and_again_that_fills_two_thirds_of_the_disk() {
    if !is_root("a small file system") {
        return;
    }
    let disk = SmallDisk::new("size=300m,mode=777", Some(&["scratch"]));
    let path = disk.join("large");
    let mut random = Seeded::new(5);
    let mut write = |mut file: File| {
        let noise = random.noise(1 << 20);
        for piece in std::iter::repeat_n(&noise, 190).flat_map(|noise| noise.chunks(8 << 10)) {
            file.write_all(piece).unwrap();
        }
        noise
    };
    for _ in 0..4 {
        write(File::create(&path).unwrap());
    }
    std::fs::remove_file(&path).unwrap();
    write(File::create(&path).unwrap()).clear();
    File::open(&path).unwrap().sync_all().unwrap();
    let noise = write(OpenOptions::new().write(true).open(&path).unwrap());
    assert_content(&path, &noise.repeat(190));
}

/// What cannot be allocated is not; overwriting needs no space.
fn allocate_until_full(disk: &SmallDisk) {
    let mut file = File::create(disk.join("large")).unwrap();
    let taken = fill(&mut file, 3);
    let keep = FallocateFlags::KEEP_SIZE;
    let more = fallocate(&file, keep, taken.len() as u64, 1 << 20);
    assert_full(more.map_err(io::Error::from));
    let mut over = OpenOptions::new()
        .write(true)
        .open(disk.join("large"))
        .unwrap();
    over.write_all(b"over").unwrap();
    over.sync_all().unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | keep;
    fallocate(&file, punch, BLOCK as u64, 4 * BLOCK as u64).unwrap();
    let small = taken[..2 * BLOCK].to_vec();
    std::fs::write(disk.join("small"), &small).unwrap();
    let mut expected = taken;
    expected[..4].copy_from_slice(b"over");
    expected[BLOCK..5 * BLOCK].fill(0);
    for (name, content) in [("large", &expected), ("small", &small)] {
        assert_content(&disk.join(name), content);
        assert_content(&disk.stored(name), content);
    }
}

#[test]
fn a_full_disk_takes_what_needs_no_space() {
    on_small_disks(SIZE, allocate_until_full);
}

fn create_until_full(disk: &SmallDisk) {
    let create = |n: usize| File::create_new(disk.join(&format!("file-{n}")));
    let made = (0..1000).take_while(|&n| create(n).is_ok()).count();
    assert!((10..40).contains(&made), "{made} files were made");
    assert_full(create(1000));
    assert_full(std::fs::create_dir(disk.join("directory")));
    assert_full(std::os::unix::fs::symlink("file-0", disk.join("link")));
    let names = || std::fs::read_dir(disk.path()).unwrap().count();
    assert_eq!(names(), made);
    std::fs::rename(disk.join("file-0"), disk.join("moved")).unwrap();
    std::fs::remove_file(disk.join("moved")).unwrap();
    std::fs::create_dir(disk.join("directory")).unwrap();
    assert_full(create(1001));
    std::fs::remove_dir(disk.join("directory")).unwrap();
    std::fs::write(disk.join("last"), "content").unwrap();
    assert_content(&disk.stored("last"), b"content");
    assert_eq!(names(), made);
}

#[test]
fn a_disk_that_can_hold_no_more_files_says_so() {
    on_small_disks("size=8m,nr_inodes=40,mode=777", create_until_full);
}

/// An unlinked file takes space until it is closed, in the mount as on the disk.
fn space_of_unlinked_files(disk: &SmallDisk) {
    for seed in 0..4 {
        let mut file = File::create(disk.join("large")).unwrap();
        assert!(fill(&mut file, seed).len() > 7 << 20);
        std::fs::remove_file(disk.join("large")).unwrap();
        assert_full(std::fs::write(disk.join("small"), b"no place"));
        drop(file);
        crate::harness::wait_until("the space is free", || {
            std::fs::write(disk.join("small"), b"place").is_ok()
        });
        std::fs::remove_file(disk.join("small")).unwrap();
    }
}

#[test]
fn closing_an_unlinked_file_frees_its_space() {
    on_small_disks(SIZE, space_of_unlinked_files);
}

/// The kernel takes bytes that are written to a mapping before the daemon can know whether there is
/// space; a sync returns the error.
#[test]
fn a_mapping_that_finds_no_space_is_told_when_it_is_synced() {
    if !is_root("a small file system") {
        return;
    }
    within_patience("the mapping is dealt with", || {
        let disk = SmallDisk::new(SIZE, Some(&["rw"]));
        std::fs::write(disk.join("before"), b"before").unwrap();
        let options = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            options
        };
        let sparse = options().open(disk.join("sparse")).unwrap();
        sparse.set_len(4 << 20).unwrap();
        let taken = fill(&mut File::create(disk.join("large")).unwrap(), 4);
        // SAFETY: nobody makes the file shorter.
        let mut map = unsafe { memmap2::MmapMut::map_mut(&sparse) }.unwrap();
        map.fill(7);
        assert_full(map.flush());
        drop(map);
        drop(sparse);
        // An unmount reports it as well, once.
        let refused = arrayfs([Path::new("umount"), disk.path()]);
        refused.failed_saying(1, &["may be lost", "No space left"]);
        assert_content(&disk.join("before"), b"before");
        assert_content(&disk.stored("large"), &taken);
        std::fs::remove_file(disk.join("large")).unwrap();
        let again = options().open(disk.join("sparse")).unwrap();
        // SAFETY: as above.
        let mut map = unsafe { memmap2::MmapMut::map_mut(&again) }.unwrap();
        map.fill(8);
        map.flush().unwrap();
        drop(map);
        assert_content(&disk.stored("sparse"), &vec![8; 4 << 20]);
    });
}

/// A container on a disk of which little is left, and its array, overwritten with so many MiB of
/// noise, as far as there is room. Says what was written.
fn overwritten(disk: &mut SmallDisk, mib: usize, options: &[&str]) -> Vec<u8> {
    let before = Seeded::new(7).noise(1 << 20);
    Bloscpack::default().write(&disk.stored("x.blp"), &before);
    let mut ballast = File::create(disk.stored("ballast")).unwrap();
    ballast.write_all(&Seeded::new(9).noise(2 << 20)).unwrap();
    disk.mount(options);
    let array = OpenOptions::new().write(true).open(disk.join("x.blp/data"));
    let (array, mut written) = (array.unwrap(), Vec::new());
    let mut noise = Seeded::new(8);
    for mib in 0..mib {
        let block = noise.noise(1 << 20);
        match array.write_at(&block, (mib << 20) as u64) {
            Ok(n) => written.extend(&block[..n]),
            Err(_) => break,
        }
    }
    // So that the log is there before the new file. Whether all of it is, umount says.
    let _ = array.sync_all();
    written
}

fn umount(disk: &SmallDisk) -> Ran {
    arrayfs([Path::new("umount"), disk.path()])
}

/// There is room for the log, and none for the new file.
#[test]
fn what_a_full_disk_has_room_for_in_a_log_alone_is_there_for_the_next_mount() {
    if !is_root("a small file system") {
        return;
    }
    within_patience("the array is dealt with", || {
        let mut disk = SmallDisk::new(SIZE, None);
        let written = overwritten(&mut disk, 4, &["rw"]);
        assert_eq!(written.len(), 4 << 20);
        umount(&disk).failed_saying(1, &["x.blp: stays staged: ", "No space left"]);
        disk.was_unmounted();
        disk.mount(&["rw"]);
        assert_content(&disk.join("x.blp/data"), &written);
        assert_committed_when_there_is_room(&mut disk, &written);
    });
}

/// What is staged is committed by `umount` as soon as the disk is larger.
#[track_caller]
fn assert_committed_when_there_is_room(disk: &mut SmallDisk, written: &[u8]) {
    disk.grow("size=64m");
    umount(disk).success();
    disk.was_unmounted();
    let stored = disk.stored("x.blp");
    let cat = arrayfs([Path::new("cat"), &stored, Path::new("data")]).success();
    assert!(cat.stdout == written);
}

/// There is no room for all of it in the log either: unmounting it would lose the rest.
#[test]
fn what_is_in_no_log_keeps_the_mount() {
    if !is_root("a small file system") {
        return;
    }
    within_patience("the array is dealt with", || {
        let mut disk = SmallDisk::new(SIZE, None);
        let written = overwritten(&mut disk, 20, &["rw", "cache=8M"]);
        assert!(written.len() < 20 << 20);
        let refused = umount(&disk);
        refused.failed_saying(
            1,
            &[
                "x.blp: data: ",
                "in no log",
                "No space left",
                "is not unmounted",
            ],
        );
        let status = arrayfs([Path::new("status"), disk.path()]).success().text();
        assert!(status.contains("in no log"), "{status}");
        assert_content(&disk.join("x.blp/data"), &written);
        assert_committed_when_there_is_room(&mut disk, &written);
    });
}

/// `umount` and SIGTERM unmount all the same, and the log of the mount says what that has lost.
#[test]
fn what_is_lost_with_the_mount_is_named_and_the_rest_is_there() {
    if !is_root("a small file system") {
        return;
    }
    for by_signal in [false, true] {
        within_patience("the array is dealt with", move || {
            let mut disk = SmallDisk::new(SIZE, None);
            let logs = scratch_directory();
            let log = logs.path().join("log");
            let option = format!("log={}", log.display());
            let written = overwritten(&mut disk, 20, &["rw", "cache=8M", &option]);
            match by_signal {
                true => send(disk.daemon(), Signal::TERM),
                false => drop(run(Command::new("umount").arg(disk.path())).success()),
            }
            disk.was_unmounted();
            let said = std::fs::read_to_string(&log).unwrap();
            let lost = said
                .lines()
                .find(|line| line.contains("are lost"))
                .expect(&said);
            assert!(
                lost.contains(" ERROR ") && lost.contains("x.blp: data: "),
                "{lost}"
            );
            disk.grow("size=64m");
            disk.mount(&["rw"]);
            let shown = std::fs::read(disk.join("x.blp/data")).unwrap();
            let same = shown.chunks(4096).zip(written.chunks(4096));
            let same = same.filter(|(shown, written)| shown == written).count();
            // The disk had room for so much beside the container and the ballast.
            assert!(same * 4096 > 3 << 20, "{same}");
        });
    }
}

/// In a scratch mount: a write that is refused is told by the write, harms nothing, and the file
/// can be written when there is room.
#[test]
fn a_scratch_file_that_found_no_room_is_written_later() {
    if !is_root("a small file system") {
        return;
    }
    let mut disk = SmallDisk::new(SIZE, Some(&["rw", "scratch"]));
    let noise = Seeded::new(3).noise(1 << 20);
    let mut synced = File::create(disk.join("synced")).unwrap();
    synced.write_all(&noise).unwrap();
    synced.sync_all().unwrap();
    let mut ballast = File::create(disk.stored("ballast")).unwrap();
    fill(&mut ballast, 4);
    drop(ballast);
    let mut file = File::create(disk.join("x")).unwrap();
    assert_full(file.write(&noise));
    assert_full(synced.write(&noise));
    assert_content(&disk.join("synced"), &noise);
    std::fs::remove_file(disk.stored("ballast")).unwrap();
    file.write_all(&noise).unwrap();
    file.sync_all().unwrap();
    drop((file, synced));
    assert_content(&disk.join("x"), &noise);
    assert_content(&disk.join("synced"), &noise);
    let umount = arrayfs(["umount".as_ref(), disk.path().as_os_str()]);
    umount.success();
    disk.was_unmounted();
}

/// What is in its file's log is safe, but not where other programs look for it: the mount ends, and
/// says so.
#[test]
fn what_a_full_disk_keeps_from_its_place_is_named() {
    if !is_root("a small file system") {
        return;
    }
    let mut disk = SmallDisk::new(SIZE, Some(&["rw", "scratch"]));
    // What becomes larger in front moves all of the noise behind it.
    let mut seeded = Seeded::new(3);
    let mut content = vec![7; 1 << 20];
    content.extend(seeded.noise(3 << 20));
    std::fs::write(disk.join("x"), &content).unwrap();
    let file = File::options().write(true).open(disk.join("x")).unwrap();
    file.sync_all().unwrap();
    let noise = seeded.noise(BLOCK);
    file.write_all_at(&noise, 0).unwrap();
    file.sync_all().unwrap();
    content[..BLOCK].copy_from_slice(&noise);
    let mut ballast = File::create(disk.stored("ballast")).unwrap();
    fill(&mut ballast, 4);
    drop((file, ballast));
    assert_content(&disk.join("x"), &content);
    let umount = arrayfs(["umount".as_ref(), disk.path().as_os_str()]);
    umount.failed_saying(
        1,
        &["x.blp: its latest changes are safe, and stay in its log"],
    );
    disk.was_unmounted();
    let stored = disk.stored("x.blp");
    let cat = arrayfs(["cat".as_ref(), stored.as_os_str(), "data".as_ref()]);
    assert!(cat.success().stdout == content);
}
