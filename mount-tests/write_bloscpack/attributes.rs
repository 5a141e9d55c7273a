//! What else a container file has (owner, mode, other names, attributes, rights) is what it was
//! after a commit.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rustix::fs::XattrFlags;

use super::{assert_stored, both_ways, container, either_way};
use crate::harness::is_root;
use crate::harness::place::Place;
use crate::harness::reads::assert_content;
use crate::harness::users::{OTHER, THIRD, as_user};

both_ways![
    mode_owner_and_attributes_are_kept,
    every_name_of_a_container_holds_what_was_written,
    rights_of_others_are_kept,
    a_directory_grants_no_rights_that_the_file_did_not,
    a_file_that_may_not_be_written_is_not,
];
either_way![
    a_container_behind_a_symbolic_link_is_written,
    what_is_opened_for_writing_recommends_large_writes,
];

static PLAIN: [u8; 50_000] = [1; 50_000];

fn edit(place: &Place, at: u64) -> Vec<u8> {
    let path = place.join("x.blp/data");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"edited", at).unwrap();
    drop(file);
    let expected = std::fs::read(path).unwrap();
    assert_eq!(&expected[at as usize..][..6], b"edited");
    expected
}

fn mode_owner_and_attributes_are_kept(place: &Place) {
    container(place, "x.blp", &PLAIN);
    let stored = &place.stored("x.blp");
    for (number, mode) in [0o640, 0o600, 0o444, 0o755].into_iter().enumerate() {
        if is_root("giving files away") {
            chown(stored, Some(OTHER), Some(THIRD)).unwrap();
        }
        std::fs::set_permissions(stored, Permissions::from_mode(mode)).unwrap();
        let value = [number as u8; 100];
        let set = rustix::fs::setxattr(stored, "user.note", &value, XattrFlags::empty());
        set.unwrap();
        let before = stored.metadata().unwrap();
        // The change from outside makes a new version; the next open has it.
        let expected = edit(place, 10 * number as u64);
        assert_stored(stored, &expected);
        let after = stored.metadata().unwrap();
        assert_eq!(after.mode(), before.mode(), "{mode:o}");
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        let mut found = [0; 200];
        let n = rustix::fs::getxattr(stored, "user.note", &mut found[..]).unwrap();
        assert_eq!(found[..n], value);
    }
}

fn every_name_of_a_container_holds_what_was_written(place: &Place) {
    container(place, "x.blp", &PLAIN);
    let (stored, other) = (place.stored("x.blp"), place.stored("other.blp"));
    std::fs::hard_link(&stored, &other).unwrap();
    let inode = stored.metadata().unwrap().ino();
    let expected = edit(place, 100);
    assert_stored(&stored, &expected);
    assert_stored(&other, &expected);
    for path in [&stored, &other] {
        assert_eq!(path.metadata().unwrap().ino(), inode);
        assert_eq!(path.metadata().unwrap().nlink(), 2);
    }
    assert_content(&place.join("other.blp/data"), &expected);
}

/// As `setfacl -m u:65534:rw` stores it.
fn acl() -> Vec<u8> {
    let mut acl = 2u32.to_le_bytes().to_vec();
    let nobody = u32::MAX;
    for (tag, rights, id) in [
        (1, 6, nobody),
        (2, 6, OTHER),
        (4, 4, nobody),
        (16, 6, nobody),
        (32, 0, nobody),
    ] {
        acl.extend(u16::to_le_bytes(tag));
        acl.extend(u16::to_le_bytes(rights));
        acl.extend(u32::to_le_bytes(id));
    }
    acl
}

fn rights_of_others_are_kept(place: &Place) {
    container(place, "x.blp", &PLAIN);
    let stored = &place.stored("x.blp");
    let name = "system.posix_acl_access";
    if rustix::fs::setxattr(stored, name, &acl(), XattrFlags::empty()).is_err() {
        eprintln!("not tested: the file system has no access control lists");
        return;
    }
    let expected = edit(place, 200);
    assert_stored(stored, &expected);
    let mut found = [0; 200];
    let n = rustix::fs::getxattr(stored, name, &mut found[..]).unwrap();
    assert_eq!(found[..n], acl());
}

/// Those that it grants on new files: the container is none.
fn a_directory_grants_no_rights_that_the_file_did_not(place: &Place) {
    container(place, "x.blp", &PLAIN);
    let (stored, directory) = (&place.stored("x.blp"), place.source());
    let name = "system.posix_acl_default";
    if rustix::fs::setxattr(directory, name, &acl(), XattrFlags::empty()).is_err() {
        eprintln!("not tested: the file system has no access control lists");
        return;
    }
    std::fs::set_permissions(stored, Permissions::from_mode(0o660)).unwrap();
    let expected = edit(place, 200);
    assert_stored(stored, &expected);
    let granted = rustix::fs::getxattr(stored, "system.posix_acl_access", &mut [0; 200][..]);
    assert_eq!(granted, Err(rustix::io::Errno::NODATA));
    assert_eq!(stored.metadata().unwrap().mode() & 0o777, 0o660);
}

fn a_file_that_may_not_be_written_is_not(place: &Place) {
    if !is_root("another user") {
        return;
    }
    container(place, "x.blp", &PLAIN);
    let stored = place.stored("x.blp");
    let path = &place.join("x.blp/data");
    let tried = |errno: Option<i32>| {
        as_user(OTHER, || {
            let opened = OpenOptions::new().write(true).open(path);
            assert_eq!(opened.map(drop).err().and_then(|e| e.raw_os_error()), errno);
        });
    };
    tried(Some(libc::EACCES));
    // Others may do with his container what he lets them.
    std::fs::set_permissions(&stored, Permissions::from_mode(0o666)).unwrap();
    crate::harness::wait_until("the mode is shown", || {
        path.metadata().unwrap().mode() & 0o777 == 0o666
    });
    tried(None);
    as_user(OTHER, || {
        std::fs::write(path, b"by another user").unwrap();
    });
    assert_stored(&stored, b"by another user");
    let after = stored.metadata().unwrap();
    assert_eq!((after.uid(), after.mode() & 0o777), (0, 0o666));
}

fn a_container_behind_a_symbolic_link_is_written(place: &Place) {
    std::fs::create_dir(place.stored("d")).unwrap();
    container(place, "d/real.blp", &PLAIN);
    std::os::unix::fs::symlink("d/real.blp", place.stored("x.blp")).unwrap();
    let expected = edit(place, 300);
    assert_stored(&place.stored("d/real.blp"), &expected);
    let link = std::fs::read_link(place.stored("x.blp")).unwrap();
    assert_eq!(link, Path::new("d/real.blp"));
}

/// As `cp` asks: it opens, empties, and then looks.
fn what_is_opened_for_writing_recommends_large_writes(place: &Place) {
    container(place, "x.blp", &PLAIN);
    let path = place.join("x.blp/data");
    assert_eq!(path.metadata().unwrap().blksize(), 128 << 10);
    let mut options = OpenOptions::new();
    let file = options.write(true).truncate(true).open(&path).unwrap();
    assert_eq!(file.metadata().unwrap().blksize(), 1 << 20);
    file.write_all_at(&PLAIN, 0).unwrap();
    drop(file);
    assert_content(&path, &PLAIN);
    assert_stored(&place.stored("x.blp"), &PLAIN);
}
