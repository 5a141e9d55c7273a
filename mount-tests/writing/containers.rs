//! Containers as entries of their directory: renamed, moved, removed and given modes as the file or
//! the directory that each is in the source.

use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, RenameFlags, Timespec, Timestamps, renameat_with, utimensat};

use crate::harness::place::Place;
use crate::harness::reads::{assert_content, assert_same};
use crate::harness::seeded::Seeded;
use crate::harness::snapshot::Snapshot;
use crate::harness::tools::shell;
use crate::harness::users::OTHER;
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{is_root, wait_until};

/// Small chunks, so that a reader meets the daemon often.
fn pack(path: &Path, plain: &[u8]) {
    let kind = Bloscpack {
        chunk_size: 40_000,
        ..Bloscpack::default()
    };
    kind.write(path, plain);
}

fn content(seed: u64) -> Vec<u8> {
    Seeded::new(seed).rising(400_000)
}

fn place() -> Place {
    let place = Place::mounted(&["cache=4M"]);
    pack(&place.stored("a.blp"), &content(1));
    Matrix::random(1, 20_000).write_packed(&place.stored("counts"));
    place
}

fn val() -> Vec<u8> {
    Matrix::random(1, 20_000).arrays()[0].3.clone()
}

/// Reads on through a handle from before: every byte, past what the kernel holds.
#[track_caller]
fn assert_reads_on(file: &File, expected: &[u8]) {
    let mut found = vec![0; expected.len()];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_same("an open handle", &found, expected);
}

fn half_read(path: &Path) -> File {
    let mut file = File::open(path).unwrap();
    file.read_exact(&mut [0; 1000]).unwrap();
    file
}

#[test]
fn a_container_is_renamed_as_the_file_that_it_is() {
    let place = place();
    let open = half_read(&place.join("a.blp/data"));
    let number = open.metadata().unwrap().ino();
    std::fs::rename(place.join("a.blp"), place.join("b.blp")).unwrap();
    assert!(!place.join("a.blp").exists() && !place.stored("a.blp").exists());
    assert!(place.stored("b.blp").is_file());
    assert_content(&place.join("b.blp/data"), &content(1));
    assert_reads_on(&open, &content(1));
    assert_eq!(place.join("b.blp/data").metadata().unwrap().ino(), number);
    // A name that says something else: it is known by its content.
    std::fs::create_dir(place.join("d")).unwrap();
    std::fs::rename(place.join("b.blp"), place.join("d/any.name")).unwrap();
    assert_content(&place.join("d/any.name/data"), &content(1));
    assert_reads_on(&open, &content(1));
}

#[test]
fn a_matrix_is_renamed_as_the_directory_that_it_is() {
    let place = place();
    let open = half_read(&place.join("counts/val"));
    std::fs::create_dir(place.join("d")).unwrap();
    for (from, to) in [("counts", "other"), ("other", "d/counts"), ("d", "e")] {
        std::fs::rename(place.join(from), place.join(to)).unwrap();
        assert!(!place.stored(from).exists() && !place.join(from).exists());
    }
    assert!(place.stored("e/counts/version").is_file());
    assert_content(&place.join("e/counts/val"), &val());
    assert_reads_on(&open, &val());
}

#[test]
fn a_directory_of_containers_is_moved_and_they_with_it() {
    let place = place();
    std::fs::create_dir_all(place.join("d/deep")).unwrap();
    std::fs::rename(place.join("a.blp"), place.join("d/deep/a.blp")).unwrap();
    std::fs::rename(place.join("counts"), place.join("d/counts")).unwrap();
    let open = [
        half_read(&place.join("d/deep/a.blp/data")),
        half_read(&place.join("d/counts/val")),
    ];
    let script = "mkdir to && mv d to/moved && mv to there";
    shell(place.path(), script, &[]);
    assert_content(&place.join("there/moved/deep/a.blp/data"), &content(1));
    assert_content(&place.join("there/moved/counts/val"), &val());
    assert_reads_on(&open[0], &content(1));
    assert_reads_on(&open[1], &val());
    assert!(place.stored("there/moved/deep/a.blp").is_file());
}

#[test]
fn containers_and_files_take_each_other_s_names() {
    let place = place();
    pack(&place.stored("b.blp"), &content(2));
    std::fs::write(place.join("file"), "ordinary").unwrap();
    let exchange = |from: &str, to: &str| {
        let flags = RenameFlags::EXCHANGE;
        renameat_with(CWD, place.join(from), CWD, place.join(to), flags).unwrap();
    };
    exchange("a.blp", "b.blp");
    assert_content(&place.join("a.blp/data"), &content(2));
    assert_content(&place.join("b.blp/data"), &content(1));
    exchange("a.blp", "file");
    assert_content(&place.join("a.blp"), b"ordinary");
    assert_content(&place.join("file/data"), &content(2));
    exchange("file", "counts");
    assert_content(&place.join("counts/data"), &content(2));
    assert_content(&place.join("file/val"), &val());
    assert!(place.stored("counts").is_file() && place.stored("file/version").is_file());
    let keep = RenameFlags::NOREPLACE;
    let kept = renameat_with(CWD, place.join("b.blp"), CWD, place.join("a.blp"), keep);
    assert_eq!(kept, Err(rustix::io::Errno::EXIST));
}

#[test]
fn a_container_replaces_another_one() {
    let place = place();
    pack(&place.stored("b.blp"), &content(2));
    let open = half_read(&place.join("b.blp/data"));
    std::fs::rename(place.join("a.blp"), place.join("b.blp")).unwrap();
    assert_content(&place.join("b.blp/data"), &content(1));
    assert_reads_on(&open, &content(2));
    assert!(!place.stored("a.blp").exists());
}

#[test]
fn rm_removes_containers_as_the_directories_that_they_seem() {
    let place = place();
    pack(&place.stored("b.blp"), &content(2));
    let open = half_read(&place.join("a.blp/data"));
    std::fs::create_dir(place.join("d")).unwrap();
    std::fs::write(place.join("d/file"), "").unwrap();
    std::fs::rename(place.join("counts"), place.join("d/counts")).unwrap();
    std::fs::rename(place.join("b.blp"), place.join("d/b.blp")).unwrap();
    shell(
        place.path(),
        "rm -r a.blp && test ! -e a.blp && rm -r d",
        &[],
    );
    assert_eq!(std::fs::read_dir(place.source()).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    assert_reads_on(&open, &content(1));
    // The name is free.
    pack(&place.stored("a.blp"), &content(3));
    wait_until("the new one is shown", || place.join("a.blp").exists());
    assert_content(&place.join("a.blp/data"), &content(3));
}

/// Nobody loses a container by `rmdir *`: it goes when it has been emptied, and only then.
#[test]
fn rmdir_does_not_remove_what_is_in_a_container() {
    let place = place();
    for container in ["a.blp", "counts"] {
        let removed = std::fs::remove_dir(place.join(container));
        assert_eq!(removed.unwrap_err().raw_os_error(), Some(libc::ENOTEMPTY));
        let removed = std::fs::remove_file(place.join(container));
        assert_eq!(removed.unwrap_err().raw_os_error(), Some(libc::EISDIR));
    }
    assert_content(&place.join("a.blp/data"), &content(1));
    assert_content(&place.join("counts/val"), &val());
}

/// What is removed from a container is gone with the container, and not before.
#[test]
fn what_was_only_half_removed_is_there_in_the_next_mount() {
    let mut place = place();
    let stored = Snapshot::of(place.source()).unwrap();
    let remove = "rm a.blp/data a.blp/arrays.json counts/val";
    shell(place.path(), remove, &[]);
    for gone in ["a.blp/data", "counts/val"] {
        assert!(!place.join(gone).exists(), "{gone}");
    }
    assert_eq!(
        Snapshot::of(place.source()).unwrap().difference(&stored),
        None
    );
    place.mount_again();
    assert_content(&place.join("a.blp/data"), &content(1));
    assert_content(&place.join("counts/val"), &val());
}

/// Access is not content: readers go on, and the kernel keeps its pages.
#[test]
fn a_changed_mode_is_no_new_version() {
    let place = place();
    for (container, array, expected) in [("a.blp", "data", content(1)), ("counts", "val", val())] {
        let (directory, path) = (place.join(container), place.join(container).join(array));
        let open = half_read(&path);
        let number = path.metadata().unwrap().ino();
        for mode in [0o700, 0o755, 0o750] {
            std::fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
            let shown = directory.metadata().unwrap().mode() & 0o777;
            assert_eq!(shown, mode, "{container}: {shown:o}");
            assert_eq!(path.metadata().unwrap().ino(), number, "{container}");
            assert_reads_on(&open, &expected);
            assert_content(&path, &expected);
        }
        let mode = place.stored(container).metadata().unwrap().mode() & 0o777;
        // Of a file, users who may read it may enter.
        let expected = if container == "a.blp" {
            [0o640, 0o750]
        } else {
            [0o750; 2]
        };
        assert!(expected.contains(&mode), "{container}: {mode:o}");
    }
    assert_eq!(
        place.join("a.blp/data").metadata().unwrap().mode() & 0o777,
        0o640
    );
}

#[test]
fn the_owner_of_a_container_is_that_of_its_file() {
    if !is_root("another owner") {
        return;
    }
    let place = place();
    let (path, open) = (place.join("a.blp"), half_read(&place.join("a.blp/data")));
    chown(&path, Some(OTHER), Some(OTHER)).unwrap();
    for path in [&path, &place.join("a.blp/data"), &place.stored("a.blp")] {
        let metadata = path.metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (OTHER, OTHER));
    }
    assert_reads_on(&open, &content(1));
}

#[test]
fn the_times_of_a_container_are_those_of_its_file() {
    let place = place();
    let path = place.join("a.blp");
    let time = |tv_sec| Timespec { tv_sec, tv_nsec: 7 };
    let times = Timestamps {
        last_access: time(1000),
        last_modification: time(2000),
    };
    utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
    for path in [&path, &place.join("a.blp/data"), &place.stored("a.blp")] {
        let metadata = path.metadata().unwrap();
        assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (2000, 7));
    }
    assert_content(&place.join("a.blp/data"), &content(1));
}

/// Ordinary files lie in a matrix's directory, too.
#[test]
fn a_matrix_keeps_what_lies_beside_its_arrays() {
    let place = place();
    std::fs::write(place.stored("counts/notes"), "beside").unwrap();
    assert_content(&place.join("counts/notes"), b"beside");
    std::fs::rename(place.join("counts"), place.join("moved")).unwrap();
    assert_content(&place.join("moved/notes"), b"beside");
    shell(place.path(), "rm -r moved", &[]);
    assert!(!place.stored("moved").exists());
}
