//! Set-user-ID and set-group-ID bits: a user who changes a program takes its rights from it, but
//! for root.

use std::ffi::CString;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FallocateFlags, StatxFlags, copy_file_range, fallocate, statx};

use crate::harness::is_root;
use crate::harness::place::{Place, scenarios};
use crate::harness::users::{OTHER, as_user, as_user_in_groups};

scenarios![
    everywhere
    changes_by_users_clear_the_bits,
    changes_by_root_keep_the_bits,
    a_changed_owner_clears_the_bits,
    a_mode_is_what_chmod_says,
    a_file_that_is_open_can_be_given_any_mode;
    but
    capabilities_of_a_file_end_with_its_content,
];

type Change = (&'static str, fn(&Path));

/// Ways to change what a file holds.
const CHANGES: [Change; 9] = [
    ("write", |path| writer(path).write_all_at(b"x", 0).unwrap()),
    ("append", |path| {
        use std::io::Write;
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"x").unwrap();
    }),
    ("truncate on opening", |path| {
        drop(File::create(path).unwrap())
    }),
    ("ftruncate", |path| writer(path).set_len(3).unwrap()),
    ("truncate", |path| {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with a zero byte.
        assert_eq!(unsafe { libc::truncate(path.as_ptr(), 3) }, 0);
    }),
    ("fallocate", |path| {
        fallocate(writer(path), FallocateFlags::empty(), 0, 10_000).unwrap();
    }),
    ("punch", |path| {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(writer(path), flags, 0, 4).unwrap();
    }),
    ("zero", |path| {
        fallocate(writer(path), FallocateFlags::ZERO_RANGE, 0, 4).unwrap();
    }),
    ("copy_file_range", |path| {
        let from = File::open(path.with_file_name("from")).unwrap();
        let n = copy_file_range(from, None, writer(path), None, 4).unwrap();
        assert_eq!(n, 4);
    }),
];

fn writer(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

fn program(place: &Place, mode: u32) -> std::path::PathBuf {
    std::fs::write(place.join("from"), "from").unwrap();
    let path = place.join("program");
    std::fs::write(&path, "content").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

/// Asked for alone: what else is asked for would have the kernel ask again.
fn mode(path: &Path) -> u32 {
    let (flags, mask) = (AtFlags::empty(), StatxFlags::MODE);
    let found = statx(CWD, path, flags, mask).unwrap();
    u32::from(found.stx_mode) & 0o7777
}

#[track_caller]
fn assert_mode(place: &Place, expected: u32, what: &str) {
    let (shown, stored) = (mode(&place.join("program")), mode(&place.stored("program")));
    assert_eq!(
        (shown, stored),
        (expected, expected),
        "{what}: {shown:o} {stored:o}"
    );
}

fn changes_by_users_clear_the_bits(place: &Place) {
    if !is_root("bits of a program of another user") {
        return;
    }
    for (what, change) in CHANGES {
        for (before, after) in [(0o6777, 0o777), (0o4766, 0o766), (0o2777, 0o777)]
            .into_iter()
            .chain([(0o2666, 0o666), (0o2766, 0o766), (0o6766, 0o766)])
        {
            let path = program(place, before);
            as_user(OTHER, || change(&path));
            assert_mode(place, after, what);
        }
    }
}

/// What is done for a user is done in none of the groups of the user who mounts.
#[test]
fn groups_of_the_daemon_keep_no_bits() {
    if !is_root("a daemon in a group") {
        return;
    }
    let place = as_user_in_groups(0, &[0], || Place::mounted(&[]));
    changes_by_users_clear_the_bits(&place);
}

fn changes_by_root_keep_the_bits(place: &Place) {
    if !is_root("root") {
        return;
    }
    for (what, change) in CHANGES {
        let path = program(place, 0o6755);
        change(&path);
        assert_mode(place, 0o6755, what);
    }
}

fn a_changed_owner_clears_the_bits(place: &Place) {
    if !is_root("another owner") {
        return;
    }
    let path = program(place, 0o6755);
    chown(&path, Some(OTHER), Some(OTHER)).unwrap();
    assert_mode(place, 0o755, "chown by root");
    as_user(OTHER, || {
        std::fs::set_permissions(&path, Permissions::from_mode(0o6755)).unwrap();
        assert_mode(place, 0o6755, "chmod by the owner");
        chown(&path, None, Some(OTHER)).unwrap();
    });
    assert_mode(place, 0o755, "chgrp by the owner");
    // A directory's bits say something else.
    let directory = place.join("d");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, Permissions::from_mode(0o6755)).unwrap();
    chown(&directory, Some(OTHER), Some(OTHER)).unwrap();
    assert_eq!(
        (mode(&directory), mode(&place.stored("d"))),
        (0o6755, 0o6755)
    );
}

fn a_mode_is_what_chmod_says(place: &Place) {
    let path = program(place, 0o644);
    let file = File::open(&path).unwrap();
    for bits in [0o600, 0o1644, 0o4755, 0o2711, 0o7777, 0o640] {
        std::fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
        assert_mode(place, bits, "chmod");
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, bits, "fstat");
        file.set_permissions(Permissions::from_mode(bits ^ 0o011))
            .unwrap();
        assert_mode(place, bits ^ 0o011, "fchmod");
    }
}

/// However it was opened, and is opened next.
fn a_file_that_is_open_can_be_given_any_mode(place: &Place) {
    let opened = |path: &Path, kind: usize| {
        let mut options = OpenOptions::new();
        let options = options.read(kind != 1).write(kind != 0);
        options.open(path).unwrap()
    };
    for bits in [0o4600, 0o2600, 0o1600, 0o6755, 0o644] {
        for (first, second) in [(0, 0), (0, 2), (1, 0), (2, 0), (2, 2)] {
            let path = program(place, 0o640);
            let before = opened(&path, first);
            std::fs::set_permissions(&path, Permissions::from_mode(bits)).unwrap();
            let after = opened(&path, second);
            let mut found = [0; 7];
            after.read_exact_at(&mut found, 0).unwrap();
            assert_eq!(&found, b"content", "{bits:o}");
            // And back, with both of them open.
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            drop((opened(&path, second), before, after));
        }
    }
}

/// The attribute as `setcap cap_net_raw+ep` sets it.
fn capabilities_of_a_file_end_with_its_content(place: &Place) {
    if !is_root("capabilities of a file") {
        return;
    }
    let path = program(place, 0o777);
    let value: [u8; 20] = std::array::from_fn(|at| match at {
        0 => 1,
        3 => 2,
        5 => 0x20,
        _ => 0,
    });
    let (stored, name) = (place.stored("program"), "security.capability");
    let flags = rustix::fs::XattrFlags::empty();
    for (what, change) in CHANGES {
        rustix::fs::setxattr(&stored, name, &value, flags).unwrap();
        as_user(OTHER, || change(&path));
        let left = rustix::fs::getxattr(&stored, name, &mut [0; 20][..]);
        assert_eq!(left, Err(rustix::io::Errno::NODATA), "{what}");
    }
}
