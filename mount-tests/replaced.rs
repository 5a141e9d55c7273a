//! Entries whose names go to others, or go: what open files, sizes, listings and permissions are
//! then.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, RawDir, SeekFrom, Statx, StatxFlags, statx};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::reads::assert_content;
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{scratch_directory, wait_until};

const LONG: usize = 300_000;

/// A source, mounted as the kernel reads it itself and as it asks the daemon for every byte.
fn both_ways(fill: impl Fn(&Path)) -> [(TempDir, Mounted); 2] {
    [&[][..], &["direct_io"]].map(|options| {
        let source = scratch_directory();
        fill(source.path());
        let mounted = Mounted::new(source.path(), options);
        (source, mounted)
    })
}

/// A source with one small container, mounted.
fn small() -> (TempDir, PathBuf, Mounted) {
    let source = scratch_directory();
    let stored = source.path().join("x.blp");
    Bloscpack::default().write(&stored, b"12345678");
    let mounted = Mounted::new(source.path(), &[]);
    (source, stored, mounted)
}

/// Asks the daemon, whatever the kernel remembers.
fn stat_now(file: &File) -> Statx {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    statx(file, "", flags, StatxFlags::BASIC_STATS).unwrap()
}

/// As careful writers do it.
fn put(directory: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(directory.join(".new"), bytes).unwrap();
    std::fs::rename(directory.join(".new"), directory.join(name)).unwrap();
}

#[track_caller]
fn assert_all(file: &File, byte: u8, len: usize) {
    let mut found = vec![0; len + 1];
    let mut done = 0;
    while let n @ 1.. = file.read_at(&mut found[done..], done as u64).unwrap() {
        done += n;
    }
    assert_eq!(done, len);
    assert!(found[..len].iter().all(|&b| b == byte));
}

#[test]
fn an_opened_file_is_the_one_that_was_looked_up() {
    for (source, mounted) in both_ways(|at| put(at, "x", &[b'A'; LONG])) {
        let old = File::open(mounted.join("x")).unwrap();
        old.read_exact_at(&mut [0; 10], 0).unwrap();
        put(source.path(), "x", &[b'B'; LONG]);
        let new = File::open(mounted.join("x")).unwrap();
        assert_all(&new, b'B', LONG);
        assert_all(&old, b'A', LONG);
        assert_ne!(stat_now(&old).stx_ino, stat_now(&new).stx_ino);
    }
}

#[test]
fn attributes_are_those_of_the_file_that_was_looked_up() {
    let [(source, mounted), _] = both_ways(|at| put(at, "x", b"old"));
    let attribute = |of: &File| {
        let mut value = [0; 9];
        let n = rustix::fs::fgetxattr(of, "user.name", &mut value[..])?;
        Ok::<_, rustix::io::Errno>(value[..n].to_vec())
    };
    let set = |path: &Path, value: &[u8]| {
        rustix::fs::setxattr(path, "user.name", value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    set(&source.path().join("x"), b"old");
    let old = File::open(mounted.join("x")).unwrap();
    assert_eq!(attribute(&old).unwrap(), b"old");
    std::fs::write(source.path().join("secret"), b"new").unwrap();
    set(&source.path().join("secret"), b"new");
    std::fs::rename(source.path().join("secret"), source.path().join("x")).unwrap();
    assert_eq!(
        attribute(&old).unwrap(),
        b"old",
        "what is open stays what it is"
    );
    let new = File::open(mounted.join("x")).unwrap();
    assert_eq!(attribute(&new).unwrap(), b"new");
}

#[test]
fn an_open_file_stays_what_it_was_when_its_name_goes() {
    for (source, mounted) in both_ways(|at| {
        put(at, "deleted", &[b'A'; LONG]);
        put(at, "replaced", &[b'A'; LONG]);
    }) {
        let deleted = File::open(mounted.join("deleted")).unwrap();
        let replaced = File::open(mounted.join("replaced")).unwrap();
        std::fs::remove_file(source.path().join("deleted")).unwrap();
        put(source.path(), "replaced", b"short");
        for file in [&deleted, &replaced] {
            let stat = stat_now(file);
            assert_eq!((stat.stx_size, stat.stx_nlink), (LONG as u64, 0));
            assert_all(file, b'A', LONG);
        }
        wait_until("the other names are seen", || {
            !mounted.join("deleted").exists()
                && std::fs::read(mounted.join("replaced")).is_ok_and(|found| found == b"short")
        });
    }
}

#[test]
fn an_open_array_is_read_on_after_others_have_seen_the_new_one() {
    let write = |at: &Path, byte: u8| {
        let kind = Bloscpack {
            chunk_size: 20_000,
            ..Bloscpack::default()
        };
        put(at, "x.blp", &kind.pack(&[byte; LONG]));
    };
    for (source, mounted) in both_ways(|at| write(at, b'A')) {
        let old = File::open(mounted.join("x.blp/data")).unwrap();
        old.read_exact_at(&mut [0; 10], 0).unwrap();
        write(source.path(), b'B');
        assert_content(&mounted.join("x.blp/data"), &[b'B'; LONG]);
        assert_eq!(stat_now(&old).stx_size, LONG as u64);
        assert_all(&old, b'A', LONG);
    }
}

/// Names in a directory, read from an offset on.
fn names_from(directory: &File, offset: u64) -> Vec<(OsString, u64)> {
    rustix::fs::seek(directory, SeekFrom::Start(offset)).unwrap();
    let mut space = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(directory, &mut space);
    let mut found = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.unwrap();
        let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
        found.push((name.to_owned(), entry.next_entry_cookie()));
    }
    found
}

#[test]
fn an_offset_in_one_directory_says_nothing_in_another() {
    let source = scratch_directory();
    for directory in ["mine", "secret"] {
        std::fs::create_dir(source.path().join(directory)).unwrap();
    }
    for number in 0..2000 {
        let name = format!("secret/secret-number-{number}");
        std::fs::write(source.path().join(name), b"").unwrap();
    }
    let mounted = Mounted::new(source.path(), &[]);
    let secret = File::open(mounted.join("secret")).unwrap();
    let mut space = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(&secret, &mut space);
    let cookie = entries.next().unwrap().unwrap().next_entry_cookie();
    let mine = File::open(mounted.join("mine")).unwrap();
    // The first listing has a small number; any of them may be half read.
    for listing in 0..64u64 {
        for offset in [cookie & 0xffff_ffff | listing << 32, listing << 32 | 2] {
            for (name, _) in names_from(&mine, offset) {
                assert!(name == "." || name == "..", "{}", name.display());
            }
        }
    }
}

#[test]
fn a_container_that_cannot_be_looked_into_for_a_moment_is_none_for_that_moment_only() {
    let source = scratch_directory();
    Bloscpack::default().write(&source.path().join("x.blp"), b"12345678");
    let mounted = Mounted::new(source.path(), &[]);
    let daemon = Pid::from_raw(mounted.daemon() as i32);
    let none = Rlimit {
        current: Some(3),
        ..getrlimit(Resource::Nofile)
    };
    let before = prlimit(daemon, Resource::Nofile, none).unwrap();
    let refused = mounted.join("x.blp").symlink_metadata();
    prlimit(daemon, Resource::Nofile, before).unwrap();
    assert!(refused.is_err(), "{refused:?}");
    assert!(mounted.join("x.blp").is_dir());
}

#[test]
fn who_may_no_longer_read_a_member_may_no_longer_read_the_array() {
    let source = scratch_directory();
    let counts = source.path().join("counts");
    Matrix::random(3, 1000).write_packed(&counts);
    let mounted = Mounted::new(source.path(), &[]);
    let mode = |of: Metadata| of.permissions().mode() & 0o777;
    let shown = mounted.join("counts/val");
    assert_eq!(mode(shown.metadata().unwrap()) & 0o044, 0o044);
    let member = counts.join("val_data");
    std::fs::set_permissions(member, PermissionsExt::from_mode(0o600)).unwrap();
    File::open(&shown).unwrap();
    wait_until("the mode is seen", || {
        shown.metadata().is_ok_and(|of| mode(of) & 0o044 == 0)
    });
    std::os::unix::fs::chown(&counts, Some(1234), None).unwrap();
    wait_until("the owner is seen", || {
        shown.metadata().is_ok_and(|of| of.uid() == 1234)
    });
}

#[test]
fn nothing_holds_a_container_that_is_deleted() {
    let (_source, stored, mounted) = small();
    assert_content(&mounted.join("x.blp/data"), b"12345678");
    std::fs::remove_file(&stored).unwrap();
    let descriptors = format!("/proc/{}/fd", mounted.daemon());
    wait_until("no descriptor is left", || {
        let _ = mounted.join("x.blp").symlink_metadata();
        let links = std::fs::read_dir(&descriptors).unwrap();
        let mut targets = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
        !targets.any(|target| target.to_string_lossy().contains("x.blp"))
    });
}

#[test]
fn a_file_container_may_become_a_directory_container() {
    let (_source, stored, mounted) = small();
    assert_content(&mounted.join("x.blp/data"), b"12345678");
    std::fs::remove_file(&stored).unwrap();
    let matrix = Matrix::random(5, 1000);
    matrix.write_packed(&stored);
    std::fs::write(stored.join("notes"), b"beside").unwrap();
    wait_until("the matrix is seen", || mounted.join("x.blp/val").exists());
    assert_content(&mounted.join("x.blp/notes"), b"beside");
    let directory = File::open(mounted.join("x.blp")).unwrap();
    assert_eq!(stat_now(&directory).stx_mode & 0o170_000, 0o040_000);
    let names = std::fs::read_dir(mounted.join("x.blp")).unwrap();
    assert!(names.flatten().any(|entry| entry.file_name() == "notes"));
}

#[test]
fn a_listing_is_new_although_the_time_is_the_old_one() {
    let (source, stored, mounted) = small();
    let listed = || -> Vec<OsString> {
        let entries = std::fs::read_dir(mounted.join("x.blp")).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    assert!(!listed().contains(&"error.txt".into()));
    let time = stored.metadata().unwrap().modified().unwrap();
    let new = source.path().join(".new");
    let mut broken = Bloscpack::default().pack(b"12345678");
    broken.truncate(40);
    std::fs::write(&new, broken).unwrap();
    let file = OpenOptions::new().write(true).open(&new).unwrap();
    file.set_modified(time).unwrap();
    std::fs::rename(&new, &stored).unwrap();
    wait_until("the listing is new", || {
        listed().contains(&"error.txt".into())
    });
}
