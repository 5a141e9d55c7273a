//! The labels of a frame that are written through a mount: what the kernel has looked up by a name
//! that a column has lost, and what the format cannot hold.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapMut;

use super::state;
use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::reads::{assert_content, walk};
use crate::harness::{golden, scratch_directory};

/// A frame of one row in the specification's form, with a column of a byte for each label.
fn frame(labels: &[&[u8]], values: &[u8]) -> Vec<u8> {
    let columns = labels.len();
    let mut out = vec![1, 3];
    out.extend([1, columns as u64].map(u64::to_le_bytes).concat());
    out.extend(vec![1; columns]);
    for label in labels {
        out.extend((label.len() as u16).to_le_bytes());
        out.extend(*label);
    }
    out.extend([0; 16]);
    out.extend([1, columns as u32].map(u32::to_le_bytes).concat());
    out.extend([1, 1]);
    out.extend(values);
    out
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Threads end by it, also if the test fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whoever opens a column by its name after its label was written gets the column that has it,
/// whatever others have looked up meanwhile; an open one stays what it is.
#[test]
fn a_name_leads_to_the_column_that_has_it() {
    let place = Place::mounted(&[]);
    let stored = place.stored("x.dbdf");
    std::fs::write(&stored, frame(&[b"a", b"b"], &[1, 2])).unwrap();
    let at = place.join("x.dbdf");
    let first = OpenOptions::new()
        .read(true)
        .write(true)
        .open(at.join("columns/a"))
        .unwrap();
    // SAFETY: nobody truncates the column.
    let mut mapped = unsafe { MmapMut::map_mut(&first) }.unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    for name in ["columns/a", "columns/b", "views/columns/a.npy"] {
                        let _ = std::fs::read(at.join(name));
                    }
                    walk(&at.join("columns"));
                }
            });
        }
        let _ending = Ending(&ends);
        for round in 0..100u8 {
            let names = if round % 2 == 0 {
                ["b", "a"]
            } else {
                ["a", "b"]
            };
            let mut labels = OpenOptions::new()
                .write(true)
                .open(at.join("labels"))
                .unwrap();
            writeln!(labels, "{}\n{}", names[0], names[1]).unwrap();
            // SAFETY: the descriptor is this handle's own, and nothing else closes it.
            let closed = unsafe { libc::close(labels.into_raw_fd()) };
            assert_eq!(closed, 0, "{}", std::io::Error::last_os_error());
            let after = state(&at);
            for (name, value) in [(names[0], round), (names[1], 200 - round)] {
                let path = at.join("columns").join(name);
                let column = OpenOptions::new().write(true).open(path).unwrap();
                column.write_all_at(&[value], 0).unwrap();
                // Once in a while through what was opened before.
                if round % 7 == 0 && name == names[0] {
                    mapped[0] = value ^ 0x80;
                    mapped.flush().unwrap();
                }
            }
            let value = if round % 7 == 0 { round ^ 0x80 } else { round };
            let expected = [value, 200 - round];
            let labels = names.map(str::as_bytes);
            std::fs::File::open(&at).unwrap().sync_all().unwrap();
            let (content, wanted) = (std::fs::read(&stored).unwrap(), frame(&labels, &expected));
            let by_name = names.map(|name| std::fs::read(at.join("columns").join(name)));
            let by_name = by_name.map(Result::unwrap);
            assert_eq!(
                content, wanted,
                "round {round}, {names:?}, now {by_name:?}, mapped {}, {after}",
                mapped[0]
            );
            let mut byte = [0];
            first.read_exact_at(&mut byte, 0).unwrap();
            assert_eq!(byte, [value], "round {round}");
        }
    });
}

#[test]
fn what_makes_no_labels_stays_staged() {
    let place = Place::mounted(&[]);
    let (stored, old) = (place.stored("x.dbdf"), frame(&[b"a", b"b"], &[1, 2]));
    std::fs::write(&stored, &old).unwrap();
    let at = place.join("x.dbdf");
    std::fs::write(at.join("labels"), "one\ntwo\nthree\n").unwrap();
    assert_eq!(state(&at), "staged: labels has 3 lines for the 2 columns");
    // A column is committed with them, when they fit.
    std::fs::write(at.join("columns/b"), [7]).unwrap();
    assert_content(&stored, &old);
    assert_eq!(names(&at.join("columns")), ["a", "b"]);
    let mut labels = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(at.join("labels"))
        .unwrap();
    labels.write_all(b"one\ntwo").unwrap();
    let closed = close(labels);
    assert_eq!(closed, Some(libc::EINVAL));
    assert!(
        state(&at).contains("the last line has no end"),
        "{}",
        state(&at)
    );
    assert_content(&at.join("labels"), b"one\ntwo");
    let mut labels = OpenOptions::new()
        .append(true)
        .open(at.join("labels"))
        .unwrap();
    labels.write_all(b"/\n").unwrap();
    drop(labels);
    assert_eq!(state(&at), "clean");
    assert_eq!(names(&at.join("columns")), ["one", "two%2F"]);
    assert_content(&stored, &frame(&[b"one", b"two/"], &[1, 7]));
    let long = [&[b'x'; 65536][..], b"\ny\n"].concat();
    std::fs::write(at.join("labels"), long).unwrap();
    assert!(state(&at).contains("65535"), "{}", state(&at));
    arrayfs([Path::new("stage"), Path::new("discard"), &at]).success();
    assert_content(&at.join("labels"), b"one\ntwo/\n");
}

/// What close(2) says.
fn close(file: std::fs::File) -> Option<i32> {
    use std::os::fd::IntoRawFd;
    // SAFETY: the descriptor is this one's alone.
    let closed = unsafe { libc::close(file.into_raw_fd()) };
    (closed != 0).then(|| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// Of every sound frame of the corpus all but the labels stays; and with its old ones it is again
/// what it was.
#[test]
fn golden_frames_come_back_with_their_labels() {
    let source = scratch_directory();
    let golden = golden("daphne/sources");
    let frames = walk(&golden).0.into_iter().filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("frame-") && name.ends_with(".dbdf")
    });
    let frames: Vec<_> = frames.collect();
    assert!(frames.len() > 20, "{} frames", frames.len());
    for path in &frames {
        std::fs::copy(path, source.path().join(path.file_name().unwrap())).unwrap();
    }
    let mounted = Mounted::new(source.path(), &["rw"]);
    let mut changed = 0;
    for path in &frames {
        let name = path.file_name().unwrap();
        let (at, stored) = (mounted.join(name), source.path().join(name));
        let before = std::fs::read(&stored).unwrap();
        let labels = std::fs::read(at.join("labels")).unwrap();
        let columns = names(&at.join("columns").canonicalize().unwrap_or(at.clone()));
        let lines = labels.split(|byte| *byte == b'\n').count() - 1;
        if !at.join("columns").is_dir() || lines != columns.len() {
            continue;
        }
        let others: String = (0..lines)
            .map(|n| format!("{n}: {}\n", lines - n))
            .collect();
        std::fs::write(at.join("labels"), &others).unwrap();
        assert_eq!(state(&at), "clean", "{}", path.display());
        let mut expected: Vec<_> = others.lines().map(str::to_owned).collect();
        expected.sort();
        assert_eq!(names(&at.join("columns")), expected, "{}", path.display());
        std::fs::write(at.join("labels"), &labels).unwrap();
        assert_eq!(names(&at.join("columns")), columns, "{}", path.display());
        assert_content(&stored, &before);
        changed += 1;
    }
    assert!(changed > 15, "{changed} frames");
    drop(mounted);
    arrayfs([Path::new("verify"), source.path()]).success();
}

/// No file of the program's form says its labels.
#[test]
fn labels_of_the_programs_form_are_only_read() {
    let place = Place::mounted(&[]);
    let sample = golden("daphne/sources").join("daphne-frame-two.dbdf");
    std::fs::copy(sample, place.stored("x.dbdf")).unwrap();
    let path = place.join("x.dbdf/labels");
    assert_content(&path, b"col_0\ncol_1\n");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o222, 0);
    let opened = OpenOptions::new().write(true).open(&path).unwrap_err();
    let refused = [libc::EPERM, libc::EACCES];
    assert!(
        refused.contains(&opened.raw_os_error().unwrap()),
        "{opened}"
    );
}
