//! Owners of new files, and what they and others may do: other users in root's mount.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::harness::is_root;
use crate::harness::place::{Place, scenarios};
use crate::harness::users::{OTHER, THIRD, as_user, as_user_in_groups};

scenarios![
    everywhere
    what_a_user_makes_is_his,
    a_directory_with_setgid_gives_its_group,
    in_a_sticky_directory_only_owners_remove,
    what_the_mode_forbids_is_refused,
    a_group_beside_the_first_one_counts,
    only_root_gives_files_away,
    a_file_made_without_permissions_is_written_by_its_maker,
];

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A directory that everybody may write to.
fn open_to_all(place: &Place, name: &str, mode: u32) -> std::path::PathBuf {
    let directory = place.join(name);
    std::fs::create_dir(&directory).unwrap();
    set_mode(&directory, mode);
    directory
}

fn owner(path: &Path) -> (u32, u32) {
    let metadata = path.symlink_metadata().unwrap();
    (metadata.uid(), metadata.gid())
}

/// Seen in the mount and in the source.
#[track_caller]
fn assert_owner(place: &Place, path: &str, expected: (u32, u32)) {
    assert_eq!(owner(&place.join(path)), expected, "{path}");
    assert_eq!(owner(&place.stored(path)), expected, "{path} in the source");
}

#[track_caller]
fn assert_refused<T>(done: std::io::Result<T>, errno: i32) {
    assert_eq!(done.err().expect("refused").raw_os_error(), Some(errno));
}

fn what_a_user_makes_is_his(place: &Place) {
    if !is_root("files of other users") {
        return;
    }
    let make = |user: u32| {
        let name = |kind: &str| place.join(format!("{kind}-{user}"));
        std::fs::write(name("file"), "content").unwrap();
        std::fs::create_dir(name("directory")).unwrap();
        symlink("nowhere", name("link")).unwrap();
        let mode = Mode::from_raw_mode(0o644);
        mknodat(CWD, name("pipe"), FileType::Fifo, mode, 0).unwrap();
        mknodat(CWD, name("socket"), FileType::Socket, mode, 0).unwrap();
    };
    make(0);
    for user in [OTHER, THIRD] {
        as_user(user, || make(user));
    }
    for user in [0, OTHER, THIRD] {
        for kind in ["file", "directory", "link", "pipe", "socket"] {
            assert_owner(place, &format!("{kind}-{user}"), (user, user));
        }
    }
    let device = |user: u32| {
        let at = place.join(format!("device-{user}"));
        mknodat(
            CWD,
            at,
            FileType::CharacterDevice,
            Mode::from_raw_mode(0o600),
            0x103,
        )
    };
    assert_eq!(
        as_user(OTHER, || device(OTHER)),
        Err(rustix::io::Errno::PERM)
    );
    device(0).unwrap();
    assert_eq!(place.stored("device-0").metadata().unwrap().rdev(), 0x103);
}

fn a_directory_with_setgid_gives_its_group(place: &Place) {
    if !is_root("groups of other users") {
        return;
    }
    let directory = open_to_all(place, "d", 0o777);
    chown(&directory, None, Some(THIRD)).unwrap();
    set_mode(&directory, 0o2777);
    as_user(OTHER, || {
        std::fs::write(directory.join("file"), "").unwrap();
        std::fs::create_dir(directory.join("below")).unwrap();
        std::fs::write(directory.join("below/file"), "").unwrap();
        symlink("x", directory.join("link")).unwrap();
    });
    for path in ["d/file", "d/below", "d/below/file", "d/link"] {
        assert_owner(place, path, (OTHER, THIRD));
    }
    let mode = |path: &str| place.stored(path).metadata().unwrap().mode() & 0o7000;
    assert_eq!((mode("d/below"), mode("d/file")), (0o2000, 0));
    // A user who is not in the group makes nothing that runs with its rights.
    as_user(OTHER, || {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = File::options();
        let options = options.write(true).create(true).mode(0o2775);
        options.open(directory.join("program")).unwrap();
    });
    assert_eq!(mode("d/program"), 0);
}

fn in_a_sticky_directory_only_owners_remove(place: &Place) {
    if !is_root("a sticky directory of several users") {
        return;
    }
    let directory = open_to_all(place, "tmp", 0o1777);
    let (theirs, directory_of_theirs) = (directory.join("file"), directory.join("d"));
    as_user(OTHER, || {
        std::fs::write(&theirs, "theirs").unwrap();
        std::fs::create_dir(&directory_of_theirs).unwrap();
    });
    as_user(THIRD, || {
        let own = directory.join("own");
        std::fs::write(&own, "own").unwrap();
        assert_refused(std::fs::remove_file(&theirs), libc::EPERM);
        assert_refused(std::fs::rename(&theirs, directory.join("x")), libc::EPERM);
        assert_refused(std::fs::rename(&own, &theirs), libc::EPERM);
        assert_refused(std::fs::remove_dir(&directory_of_theirs), libc::EPERM);
        std::fs::rename(&own, directory.join("renamed")).unwrap();
        std::fs::remove_file(directory.join("renamed")).unwrap();
    });
    as_user(OTHER, || std::fs::remove_file(&theirs).unwrap());
    std::fs::remove_dir(&directory_of_theirs).unwrap();
    assert_eq!(std::fs::read_dir(place.stored("tmp")).unwrap().count(), 0);
}

fn what_the_mode_forbids_is_refused(place: &Place) {
    if !is_root("what another user may not do") {
        return;
    }
    std::fs::create_dir(place.join("closed")).unwrap();
    for (name, mode) in [("secret", 0o600), ("read", 0o644), ("closed/open", 0o666)] {
        std::fs::write(place.join(name), "content").unwrap();
        set_mode(&place.join(name), mode);
    }
    set_mode(&place.join("closed"), 0o700);
    as_user(OTHER, || {
        assert_refused(File::open(place.join("secret")), libc::EACCES);
        assert_refused(
            File::options().write(true).open(place.join("read")),
            libc::EACCES,
        );
        assert_refused(File::open(place.join("closed/open")), libc::EACCES);
        assert_refused(std::fs::write(place.join("closed/new"), ""), libc::EACCES);
        assert_refused(std::fs::read_dir(place.join("closed")), libc::EACCES);
        let permissions = Permissions::from_mode(0o777);
        assert_refused(
            std::fs::set_permissions(place.join("read"), permissions),
            libc::EPERM,
        );
        let flags = rustix::fs::XattrFlags::empty();
        let set = rustix::fs::setxattr(place.join("read"), "user.x", b"", flags);
        assert_refused(set.map_err(std::io::Error::from), libc::EACCES);
        assert_eq!(std::fs::read(place.join("read")).unwrap(), b"content");
    });
    assert_eq!(std::fs::read(place.stored("read")).unwrap(), b"content");
}

/// A daemon that took only the caller's user and first group would be refused by the disk.
fn a_group_beside_the_first_one_counts(place: &Place) {
    if !is_root("groups of other users") {
        return;
    }
    std::fs::write(place.join("file"), "").unwrap();
    std::fs::create_dir(place.join("shared")).unwrap();
    for (name, mode) in [("file", 0o660), ("shared", 0o770)] {
        chown(place.join(name), Some(0), Some(THIRD)).unwrap();
        set_mode(&place.join(name), mode);
    }
    as_user_in_groups(OTHER, &[OTHER, THIRD], || {
        std::fs::write(place.join("file"), "written").unwrap();
        std::fs::write(place.join("shared/file"), "made").unwrap();
        std::fs::create_dir(place.join("shared/d")).unwrap();
        std::fs::hard_link(place.join("shared/file"), place.join("shared/link")).unwrap();
        std::fs::rename(place.join("shared/link"), place.join("shared/d/moved")).unwrap();
        std::fs::remove_file(place.join("shared/d/moved")).unwrap();
        // A file may be given to any of one's groups.
        chown(place.join("shared/file"), None, Some(THIRD)).unwrap();
    });
    assert_owner(place, "shared/file", (OTHER, THIRD));
    assert_owner(place, "shared/d", (OTHER, OTHER));
    as_user(OTHER, || {
        assert_refused(std::fs::write(place.join("file"), ""), libc::EACCES);
    });
}

fn only_root_gives_files_away(place: &Place) {
    if !is_root("files of other users") {
        return;
    }
    let file = place.join("file");
    as_user(OTHER, || {
        std::fs::write(&file, "").unwrap();
        assert_refused(chown(&file, Some(THIRD), None), libc::EPERM);
        assert_refused(chown(&file, None, Some(THIRD)), libc::EPERM);
        chown(&file, Some(OTHER), Some(OTHER)).unwrap();
    });
    chown(&file, Some(THIRD), None).unwrap();
    assert_owner(place, "file", (THIRD, OTHER));
    symlink("file", place.join("link")).unwrap();
    lchown(place.join("link"), Some(OTHER), Some(THIRD)).unwrap();
    assert_owner(place, "link", (OTHER, THIRD));
    assert_owner(place, "file", (THIRD, OTHER));
}

/// As git makes its objects.
fn a_file_made_without_permissions_is_written_by_its_maker(place: &Place) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let make = || {
        for mode in [0o000, 0o444] {
            let path = place.join(format!("file-{mode:o}"));
            let mut options = File::options();
            let options = options.read(true).write(true).create_new(true).mode(mode);
            let mut file = options.open(&path).unwrap();
            file.write_all(b"content").unwrap();
            file.set_len(4).unwrap();
            file.sync_all().unwrap();
            drop(file);
            std::fs::rename(&path, path.with_extension("renamed")).unwrap();
        }
    };
    match rustix::process::geteuid().is_root() {
        true => as_user(OTHER, make),
        false => make(),
    }
    let stored = place.stored("file-444.renamed");
    assert_eq!(std::fs::read(stored).unwrap(), b"cont");
    let mode = place.join("file-0.renamed").metadata().unwrap().mode();
    assert_eq!(mode & 0o7777, 0);
}
