//! Arrays that lie in one piece of their file and are written in sequence: their bytes go to the
//! file that the next commit makes, at once and once, and nobody sees a difference.

mod again;

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, send};
use crate::harness::reads::{assert_content, assert_same, names};
use crate::harness::seeded::Seeded;
use crate::harness::small_disk::SmallDisk;
use crate::harness::{is_root, scratch_directory, wait_until};

/// Variables of a file: how many values each has, and of how many bytes: doubles, and integers.
#[derive(Clone, Copy)]
struct Variables {
    values: usize,
    widths: &'static [usize],
}

const TWO: Variables = Variables {
    values: 400_000,
    widths: &[8, 4],
};

/// A file that is changed in place where few bytes of it change.
const LARGE: Variables = Variables {
    values: 2_200_000,
    widths: &[8, 8, 8, 8],
};

/// So much is written at once: no whole number of elements divides the array by it.
const STEP: usize = 96 << 10;

const NEXT: &str = ".x.nc.arrayfs-next";
const LOG: &str = ".x.nc.arrayfs-stage";
const OTHER_LOG: &str = ".x.nc.arrayfs-stage-2";

/// Bytes of the file before the values, with padding.
const HEAD: usize = 256;

impl Variables {
    /// A NetCDF file (CDF-2) of these variables, which are called `a`, `b` and so on.
    fn file(&self, content: &[Vec<u8>]) -> Vec<u8> {
        let mut out = b"CDF\x02".to_vec();
        let mut words =
            |words: &[u32]| out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        let text = |letter: u8| u32::from_be_bytes([letter, 0, 0, 0]);
        words(&[0, 10, 1, 1, text(b'x'), self.values as u32, 0, 0, 11]);
        words(&[self.widths.len() as u32]);
        let mut begin = HEAD;
        for (name, &width) in (b'a'..).zip(self.widths) {
            let (kind, size) = (if width == 8 { 6 } else { 4 }, self.values * width);
            let variable = [
                1,
                text(name),
                1,
                0,
                0,
                0,
                kind,
                size as u32,
                0,
                begin as u32,
            ];
            words(&variable);
            begin += size;
        }
        out.resize(HEAD, 0);
        for (content, &width) in content.iter().zip(self.widths) {
            let elements = content.chunks(width);
            out.extend(elements.flat_map(|element| element.iter().rev()));
        }
        out
    }

    fn contents(&self, seed: u64) -> Vec<Vec<u8>> {
        let mut random = Seeded::new(seed);
        let widths = self.widths.iter();
        widths
            .map(|width| random.noise(self.values * width))
            .collect()
    }
}

fn name(number: usize) -> &'static str {
    ["a", "b", "c", "d"][number]
}

fn unmount(mounted: Mounted) {
    arrayfs(["umount".as_ref(), mounted.path().as_os_str()]).success();
    mounted.assert_ends();
}

struct Model {
    source: TempDir,
    variables: Variables,
    content: Vec<Vec<u8>>,
}

impl Model {
    fn new() -> Self {
        Model::of(TWO)
    }

    fn of(variables: Variables) -> Self {
        let (source, content) = (scratch_directory(), variables.contents(1));
        std::fs::write(source.path().join("x.nc"), variables.file(&content)).unwrap();
        Model {
            source,
            variables,
            content,
        }
    }

    fn file(&self) -> Vec<u8> {
        self.variables.file(&self.content)
    }

    fn stored(&self, name: &str) -> PathBuf {
        self.source.path().join(name)
    }

    /// Writes all of a variable, without closing it.
    fn write(&mut self, mountpoint: &Path, number: usize, seed: u64) -> File {
        let content = self.variables.contents(seed).swap_remove(number);
        self.write_content(mountpoint, number, content)
    }

    /// A variable is written and synced, and then the daemon killed.
    fn write_and_kill(&mut self) {
        let mounted = Mounted::paced(self.source.path(), &["rw"]);
        let file = self.write(mounted.path(), 0, 2);
        file.sync_all().unwrap();
        send(mounted.daemon(), Signal::KILL);
        drop((file, mounted));
    }

    fn write_content(&mut self, mountpoint: &Path, number: usize, content: Vec<u8>) -> File {
        let path = mountpoint.join("x.nc").join(name(number));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        content
            .chunks(STEP)
            .for_each(|part| file.write_all(part).unwrap());
        self.content[number] = content;
        file
    }

    fn assert_shown(&self, mountpoint: &Path) {
        for (number, content) in self.content.iter().enumerate() {
            assert_content(&mountpoint.join("x.nc").join(name(number)), content);
        }
    }

    /// The file holds it, and nothing lies beside.
    fn assert_stored(&self) {
        assert_same(
            "x.nc",
            &std::fs::read(self.stored("x.nc")).unwrap(),
            &self.file(),
        );
        assert_eq!(names(self.source.path()), ["x.nc"]);
    }
}

#[test]
fn what_is_written_in_sequence_lies_in_the_next_file_at_once() {
    let mut model = Model::new();
    let mounted = Mounted::paced(model.source.path(), &["rw"]);
    let mut file = model.write(mounted.path(), 0, 2);
    let begun = std::fs::metadata(model.stored(NEXT)).unwrap();
    assert_eq!(begun.len() as usize, HEAD + TWO.values * 8);
    assert_eq!(names(mounted.path()), ["x.nc"]);
    model.assert_shown(mounted.path());
    // A part of an element, over what lies there, before and after the log refers to it.
    for (at, is_synced) in [(5, false), (777_777, true), (STEP + 3, true)] {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[7; 13]).unwrap();
        model.content[0][at..at + 13].fill(7);
        if is_synced {
            file.sync_data().unwrap();
        }
        model.assert_shown(mounted.path());
    }
    drop(file);
    drop(model.write(mounted.path(), 1, 3));
    model.assert_shown(mounted.path());
    unmount(mounted);
    model.assert_stored();
}

#[test]
fn a_file_whose_arrays_are_rewritten_is_written_once() {
    for variables in [TWO, LARGE] {
        let mut model = Model::of(variables);
        let mounted = Mounted::paced(model.source.path(), &["rw"]);
        let (new, before) = (variables.contents(2), written_by(mounted.daemon()));
        for (number, content) in new.into_iter().enumerate() {
            drop(model.write_content(mounted.path(), number, content));
        }
        wait_until("the file is committed", || {
            names(model.source.path()) == ["x.nc"]
        });
        let written = written_by(mounted.daemon()) - before;
        let size = model.file().len() as u64;
        // On a slow machine some of it is quiet for so long that it is committed alone.
        let commits = mounted.status()["counted"]["commits"].as_u64().unwrap();
        // Beside what a sequence begins with the log takes some blocks, and so do directories.
        let most = commits * (size + size / 10 + (1 << 20));
        assert!(
            written <= most,
            "{written} bytes were written for {size} in {commits} commits"
        );
        unmount(mounted);
        model.assert_stored();
    }
}

/// Bytes that a process has had the disk write.
fn written_by(pid: u32) -> u64 {
    let figures = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let mut lines = figures.lines();
    let found = lines.find_map(|line| line.strip_prefix("write_bytes: "));
    found.unwrap().parse().unwrap()
}

#[test]
fn a_killed_daemon_loses_nothing_that_was_closed_or_synced() {
    let mut model = Model::new();
    let mounted = Mounted::paced(model.source.path(), &["rw"]);
    drop(model.write(mounted.path(), 0, 2));
    let file = model.write(mounted.path(), 1, 3);
    file.sync_all().unwrap();
    send(mounted.daemon(), Signal::KILL);
    drop((file, mounted));
    let left = names(model.source.path());
    assert_eq!(left, [NEXT, LOG, "x.nc"]);
    // Who only reads is shown it, and so are commands, a copy with both files too.
    let copy = scratch_directory();
    for name in &left {
        let copied = std::process::Command::new("cp")
            .arg("-a")
            .args([model.stored(name), copy.path().join(name)])
            .status();
        assert!(copied.unwrap().success());
    }
    for source in [model.source.path(), copy.path()] {
        let reader = Mounted::new(source, &["ro"]);
        model.assert_shown(reader.path());
        unmount(reader);
        let listed = arrayfs(["stage".as_ref(), "ls".as_ref(), source.as_os_str()]).success();
        assert!(listed.text().contains("x.nc"), "{}", listed.text());
        assert_eq!(names(source), left);
    }
    let committed = ["stage".as_ref(), "commit".as_ref(), copy.path().as_os_str()];
    arrayfs(committed).success();
    let of_copy = std::fs::read(copy.path().join("x.nc")).unwrap();
    assert_same("the copy", &of_copy, &model.file());
    assert_eq!(names(copy.path()), ["x.nc"]);
    // And the next mount goes on with it.
    let mounted = Mounted::new(model.source.path(), &["rw"]);
    model.assert_shown(mounted.path());
    unmount(mounted);
    model.assert_stored();
}

#[test]
fn a_stage_that_is_discarded_takes_the_next_file_with_it() {
    let mut model = Model::new();
    let before = model.content.clone();
    model.write_and_kill();
    let discarded = [
        "stage".as_ref(),
        "discard".as_ref(),
        model.source.path().as_os_str(),
    ];
    arrayfs(discarded).success();
    model.content = before;
    model.assert_stored();
}

/// What is staged of an older version can still be applied.
#[test]
fn a_log_of_an_older_version_keeps_the_next_file() {
    let mut model = Model::new();
    let before = model.content.clone();
    model.write_and_kill();
    // Another program writes the same again.
    std::fs::write(model.stored("x.nc"), TWO.file(&before)).unwrap();
    let mounted = Mounted::paced(model.source.path(), &["rw"]);
    let b = mounted.path().join("x.nc/b");
    let mut file = OpenOptions::new().write(true).open(b).unwrap();
    file.write_all(&[5; 9]).unwrap();
    model.content[1][..9].fill(5);
    file.sync_all().unwrap();
    send(mounted.daemon(), Signal::KILL);
    drop((file, mounted));
    assert_eq!(names(model.source.path()), [NEXT, LOG, OTHER_LOG, "x.nc"]);
    let mounted = Mounted::new(model.source.path(), &["rw"]);
    assert_eq!(
        std::fs::read(mounted.path().join("x.nc/b")).unwrap()[..9],
        [5; 9]
    );
    unmount(mounted);
    assert_eq!(names(model.source.path()), [NEXT, LOG, "x.nc"]);
    let committed = ["stage".as_ref(), "commit".as_ref()];
    let source = model.source.path().as_os_str();
    arrayfs(committed.into_iter().chain([source])).success();
    model.assert_stored();
}

#[test]
fn a_log_whose_container_is_gone_is_discarded_with_it() {
    let mut model = Model::new();
    model.write_and_kill();
    std::fs::remove_file(model.stored("x.nc")).unwrap();
    let (log, discard) = (model.stored(LOG), ["stage".as_ref(), "discard".as_ref()]);
    arrayfs(discard.into_iter().chain([log.as_os_str()])).success();
    assert!(names(model.source.path()).is_empty());
}

#[test]
fn a_container_is_removed_with_it() {
    let mut model = Model::new();
    let mounted = Mounted::paced(model.source.path(), &["rw"]);
    let file = model.write(mounted.path(), 0, 2);
    std::fs::remove_dir_all(mounted.path().join("x.nc")).unwrap();
    drop(file);
    assert!(
        names(model.source.path()).is_empty(),
        "{:?}",
        names(model.source.path())
    );
    unmount(mounted);
    assert!(names(model.source.path()).is_empty());
}

#[test]
fn what_is_changed_in_place_goes_to_no_next_file() {
    let mut model = Model::new();
    let mounted = Mounted::paced(model.source.path(), &["rw,commit=inplace"]);
    let file = model.write(mounted.path(), 0, 2);
    assert!(!model.stored(NEXT).exists());
    drop(file);
    unmount(mounted);
    model.assert_stored();
}

/// A file of that name that is somebody else's stays, and is in nobody's way.
#[test]
fn a_file_that_lies_under_its_name_is_kept() {
    let mut model = Model::new();
    let mounted = Mounted::new(model.source.path(), &["rw"]);
    drop(model.write(mounted.path(), 1, 3));
    wait_until("the file is committed", || {
        names(model.source.path()) == ["x.nc"]
    });
    std::fs::write(model.stored(NEXT), b"mine").unwrap();
    let file = model.write(mounted.path(), 0, 2);
    assert_content(&model.stored(NEXT), b"mine");
    drop(file);
    unmount(mounted);
    assert_same(
        "x.nc",
        &std::fs::read(model.stored("x.nc")).unwrap(),
        &model.file(),
    );
}

/// Bytes that the log refers to are others by now, as on a disk that has lost them.
#[test]
fn a_log_whose_bytes_are_not_there_is_kept_and_told() {
    let mut model = Model::new();
    let mounted = Mounted::paced(model.source.path(), &["rw"]);
    let file = model.write(mounted.path(), 0, 2);
    file.sync_all().unwrap();
    // Said once more, so that the log says that so much had reached the disk.
    file.write_all_at(&[1; 8], 0).unwrap();
    file.sync_all().unwrap();
    send(mounted.daemon(), Signal::KILL);
    drop((file, mounted));
    let next = OpenOptions::new()
        .write(true)
        .open(model.stored(NEXT))
        .unwrap();
    next.write_all_at(&[0; 64], 1 << 20).unwrap();
    let left = names(model.source.path());
    let committed = [
        "stage".as_ref(),
        "commit".as_ref(),
        model.source.path().as_os_str(),
    ];
    arrayfs(committed).failed_saying(1, &["damaged", NEXT]);
    assert_eq!(names(model.source.path()), left);
    let old = TWO.file(&TWO.contents(1));
    assert_same("x.nc", &std::fs::read(model.stored("x.nc")).unwrap(), &old);
}

#[test]
fn where_there_is_no_room_for_it_the_old_content_stays_whole() {
    if !is_root("a small file system") {
        return;
    }
    let mut disk = SmallDisk::new("size=8m,mode=777", None);
    let old = TWO.contents(1);
    std::fs::write(disk.stored("x.nc"), TWO.file(&old)).unwrap();
    disk.mount(&["rw"]);
    let new = TWO.contents(2)[0].clone();
    let mut file = OpenOptions::new()
        .write(true)
        .open(disk.join("x.nc/a"))
        .unwrap();
    let written = new.chunks(STEP).try_for_each(|part| file.write_all(part));
    let synced = written.and_then(|()| file.sync_all());
    drop(file);
    let is_full = |e: std::io::Error| e.raw_os_error() == Some(libc::ENOSPC);
    let is_stored = std::fs::read(disk.stored("x.nc")).unwrap();
    match synced {
        Ok(()) => assert_content(&disk.join("x.nc/a"), &new),
        Err(e) => assert!(is_full(e)),
    }
    let (before, after) = (TWO.file(&old), TWO.file(&[new, old[1].clone()]));
    assert!(is_stored == before || is_stored == after);
}
