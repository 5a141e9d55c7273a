//! Ten thousand containers in one directory: mounting reads none, listing recognises them by their
//! first bytes, walking through all of them works, and descriptors stay bounded.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, memory_figure, open_descriptors, run};
use crate::harness::python::Written;
use crate::harness::reads::{assert_content, walk};
use crate::harness::scratch_directory;
use crate::harness::writers::{Bloscpack, Packing};

const MANY: usize = 10_000;

fn content(number: usize) -> String {
    format!("the content of file {number}")
}

fn name(number: usize) -> String {
    format!("{number:05}.blp")
}

fn source() -> TempDir {
    let source = scratch_directory();
    let kind = Bloscpack {
        packing: Packing::Stored,
        ..Bloscpack::default()
    };
    for number in 0..MANY {
        kind.write(
            &source.path().join(name(number)),
            content(number).as_bytes(),
        );
    }
    source
}

fn accessed(path: &Path) -> SystemTime {
    path.metadata().unwrap().accessed().unwrap()
}

/// Sets the time of the last access back, so that a read moves it (`relatime`).
fn forget_access(path: &Path) {
    let times = std::fs::FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
    std::fs::File::open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn ten_thousand_containers_are_listed_and_walked_in_bounds() {
    let source = source();
    for number in 0..MANY {
        forget_access(&source.path().join(name(number)));
    }
    let mounted = Mounted::new(source.path(), &[]);
    assert_none_was_read(source.path());
    assert_eq!(
        mounted.status()["open_containers"],
        0,
        "mounting opens none"
    );

    assert_all_are_directories(mounted.path());
    assert_eq!(
        mounted.status()["open_containers"],
        0,
        "recognising opens none"
    );
    assert_eq!(mounted.status()["cache"]["decoded_bytes"], 0);

    for number in 0..MANY {
        let directory = mounted.join(name(number));
        let found = std::fs::read_to_string(directory.join("data")).unwrap();
        assert_eq!(found, content(number));
    }
    assert_bounded(&mounted);

    let entries = std::fs::read_dir(mounted.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let inside = entries
        .map(|path| std::fs::read_dir(path).unwrap().count())
        .sum::<usize>();
    assert_eq!(inside, 2 * MANY, "data and arrays.json in each");
    assert_bounded(&mounted);
}

/// By the time of access, where the file system keeps it.
fn assert_none_was_read(source: &Path) {
    let read = (0..MANY).filter(|&n| accessed(&source.join(name(n))) != SystemTime::UNIX_EPOCH);
    assert_eq!(read.count(), 0);
    let control = source.join(name(0));
    std::fs::read(&control).unwrap();
    if accessed(&control) == SystemTime::UNIX_EPOCH {
        eprintln!(
            "not tested: access times are not kept in {}",
            source.display()
        );
    }
}

/// What `ls -l` does: the names, and the attributes of each.
fn assert_all_are_directories(mountpoint: &Path) {
    let mut names = Vec::with_capacity(MANY);
    for entry in std::fs::read_dir(mountpoint).unwrap() {
        let entry = entry.unwrap();
        assert!(
            entry.file_type().unwrap().is_dir(),
            "{:?}",
            entry.file_name()
        );
        assert!(
            entry.metadata().unwrap().is_dir(),
            "{:?}",
            entry.file_name()
        );
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert!(
        names
            .iter()
            .eq((0..MANY).map(name).collect::<Vec<_>>().iter())
    );
}

/// 128 containers stay open; the rest of the daemon takes a few dozen descriptors.
fn assert_bounded(mounted: &Mounted) {
    mounted.assert_alive();
    let status = mounted.status();
    assert!(status["open_containers"].as_u64() <= Some(128), "{status}");
    assert_eq!(status["open_files"], 0, "{status}");
    let descriptors = open_descriptors(mounted.daemon());
    assert!(descriptors <= 128 + 64, "{descriptors} open descriptors");
    let resident = memory_figure(mounted.daemon(), "VmRSS");
    assert!(resident <= 256 << 20, "{} MiB resident", resident >> 20);
}

/// The same number of datasets in one file.
#[test]
fn a_file_of_ten_thousand_datasets_is_walked_and_read() {
    let written = Written::new("many");
    let mounted = Mounted::new(written.source(), &["views"]);
    let file = mounted.join("many.h5");
    let (files, failures) = walk(&file);
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(
        files.len(),
        2 * MANY + 102,
        "arrays, views, arrays.json, also of 100 groups, and stored"
    );
    for number in (0..MANY).step_by(7) {
        let expected = (number as u32).to_le_bytes();
        let path = file.join(format!("{:03}/{number:05}", number % 100));
        assert_content(&path, &expected);
    }
    let listed = run(Command::new(ARRAYFS).arg("ls").arg(written.source())).success();
    assert_eq!(listed.text().lines().count(), MANY);
    assert_bounded(&mounted);
}
