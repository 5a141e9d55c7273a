//! Which users may see what: no other user without `allow_other`, exactly what the mode bits permit
//! with it, and `uid`, `gid`, `umask` as they are given. The other user is number 65534 in a child
//! process.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, Ran, install, run};
use crate::harness::python::Written;
use crate::harness::users::as_user;
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{is_root, scratch_directory};

const OTHER: u32 = 65534;

/// Runs a program as the other user.
fn as_other(program: &str, arguments: &[&Path]) -> Ran {
    run(Command::new(program).args(arguments).uid(OTHER).gid(OTHER))
}

#[track_caller]
fn other_may(program: &str, path: &Path) {
    let ran = as_other(program, &[path]);
    assert_eq!(
        ran.code(),
        Some(0),
        "{program} {}: {}",
        path.display(),
        ran.stderr
    );
}

#[track_caller]
fn other_may_not(program: &str, path: &Path) {
    let ran = as_other(program, &[path]);
    assert_ne!(
        ran.code(),
        Some(0),
        "{program} {}: {}",
        path.display(),
        ran.text()
    );
    assert!(
        ran.stderr.contains("Permission denied"),
        "{program}: {}",
        ran.stderr
    );
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Containers and files of several modes, all of them root's.
fn source() -> TempDir {
    let source = scratch_directory();
    for (name, mode) in [
        ("open", 0o644),
        ("group", 0o640),
        ("closed", 0o600),
        ("odd", 0o604),
    ] {
        let (container, file) = (format!("{name}.blp"), format!("{name}.txt"));
        Bloscpack::default().write(&source.path().join(&container), name.as_bytes());
        std::fs::write(source.path().join(&file), name).unwrap();
        set_mode(&source.path().join(container), mode);
        set_mode(&source.path().join(file), mode);
    }
    let counts = source.path().join("counts");
    Matrix::random(1, 500).write_packed(&counts);
    set_mode(&counts, 0o755);
    for member in std::fs::read_dir(&counts).unwrap() {
        set_mode(&member.unwrap().path(), 0o644);
    }
    source
}

#[test]
fn without_allow_other_another_user_sees_nothing() {
    if !is_root("another user without allow_other") {
        return;
    }
    let source = source();
    let mounted = Mounted::new(source.path(), &[]);
    other_may_not("ls", mounted.path());
    other_may_not("cat", &mounted.join("open.txt"));
    other_may_not("cat", &mounted.join("open.blp/data"));
}

#[test]
fn with_allow_other_the_mode_bits_decide() {
    if !is_root("another user with allow_other") {
        return;
    }
    let source = source();
    let mounted = Mounted::new(source.path(), &["allow_other"]);
    other_may("ls", mounted.path());
    for name in ["open", "odd"] {
        other_may("ls", &mounted.join(format!("{name}.blp")));
        for file in ["data", "arrays.json", "views/data.npy"] {
            other_may("cat", &mounted.join(format!("{name}.blp/{file}")));
        }
        other_may("cat", &mounted.join(format!("{name}.txt")));
    }
    for name in ["group", "closed"] {
        other_may_not("ls", &mounted.join(format!("{name}.blp")));
        other_may_not("cat", &mounted.join(format!("{name}.blp/data")));
        other_may_not("cat", &mounted.join(format!("{name}.txt")));
    }
    let read = as_other("cat", &[&mounted.join("open.blp/data")]);
    assert_eq!(read.stdout, b"open");
    other_may("cat", &mounted.join("counts/val"));
}

#[test]
fn an_owner_other_than_root_reads_what_is_his_own() {
    if !is_root("files of another owner") {
        return;
    }
    let source = source();
    for name in ["closed.blp", "closed.txt", "group.blp"] {
        chown(source.path().join(name), Some(OTHER), Some(0)).unwrap();
    }
    let mounted = Mounted::new(source.path(), &["allow_other"]);
    other_may("cat", &mounted.join("closed.blp/data"));
    other_may("cat", &mounted.join("closed.txt"));
    other_may("cat", &mounted.join("group.blp/data"));
}

#[test]
fn a_matrix_with_a_closed_member_is_closed() {
    if !is_root("another user and a closed member") {
        return;
    }
    let source = source();
    let counts = source.path().join("counts");
    set_mode(&counts.join("index_data"), 0o600);
    let mounted = Mounted::new(source.path(), &["allow_other"]);
    other_may("ls", &mounted.join("counts"));
    for array in ["index", "val", "views/index.npy"] {
        other_may_not("cat", &mounted.join("counts").join(array));
    }
    drop(mounted);
    // A member that is somebody else's: its owner's bits are not the others'.
    set_mode(&counts.join("index_data"), 0o640);
    chown(counts.join("index_data"), Some(OTHER), Some(OTHER)).unwrap();
    chown(&counts, Some(OTHER), Some(OTHER)).unwrap();
    let mounted = Mounted::new(source.path(), &["allow_other"]);
    other_may("cat", &source.path().join("counts/index_data"));
    assert_eq!(
        mounted.join("counts/index").metadata().unwrap().mode() & 0o004,
        0
    );
}

#[test]
fn uid_gid_and_umask_are_shown_as_given() {
    let source = source();
    let mounted = Mounted::new(source.path(), &["uid=1234,gid=5678", "umask=027"]);
    for (path, mode) in [
        ("open.blp", 0o750),
        ("open.blp/data", 0o640),
        ("open.txt", 0o640),
        ("closed.txt", 0o600),
        ("closed.blp", 0o700),
        ("counts", 0o750),
        ("counts/val", 0o640),
        ("counts/views", 0o750),
    ] {
        let shown = mounted.join(path).metadata().unwrap();
        assert_eq!((shown.uid(), shown.gid()), (1234, 5678), "{path}");
        assert_eq!(shown.mode() & 0o777, mode, "{path}: {:o}", shown.mode());
    }
}

#[test]
fn uid_and_umask_decide_who_may_read() {
    if !is_root("another user with uid=") {
        return;
    }
    let source = source();
    let theirs = Mounted::new(source.path(), &["allow_other,uid=65534"]);
    other_may("cat", &theirs.join("closed.blp/data"));
    other_may("cat", &theirs.join("closed.txt"));
    let hidden = Mounted::new(source.path(), &["allow_other,umask=077"]);
    other_may_not("ls", hidden.path());
    other_may_not("cat", &hidden.join("open.blp/data"));
}

/// An entry of a POSIX access control list as the kernel stores it.
fn acl_entry(tag: u16, allowed: u16, number: u32) -> [u8; 8] {
    let [t, a] = [tag, allowed].map(u16::to_le_bytes);
    let n = number.to_le_bytes();
    [t[0], t[1], a[0], a[1], n[0], n[1], n[2], n[3]]
}

/// `user::rw-,user:1234:rw-,group::---,mask::rw-,other::---`, which `stat` shows as mode 0660.
fn let_user_1234_in(path: &Path) {
    const NOBODY: u32 = u32::MAX;
    let entries = [
        acl_entry(0x01, 6, NOBODY),
        acl_entry(0x02, 6, 1234),
        acl_entry(0x04, 0, NOBODY),
        acl_entry(0x10, 6, NOBODY),
        acl_entry(0x20, 0, NOBODY),
    ];
    let list = [&2u32.to_le_bytes()[..], entries.as_flattened()].concat();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, "system.posix_acl_access", &list, flags).unwrap();
}

/// The mask of an access control list stands where a mode has the bits of the group.
#[test]
fn a_group_that_a_list_denies_is_not_let_in_by_the_mask() {
    if !is_root("another user and access control lists") {
        return;
    }
    let source = source();
    for name in ["closed.txt", "closed.blp", "counts/val_data"] {
        let path = source.path().join(name);
        chown(&path, Some(0), Some(OTHER)).unwrap();
        let_user_1234_in(&path);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o660, "{name}");
        other_may_not("cat", &path);
    }
    let mounted = Mounted::new(source.path(), &["allow_other"]);
    for name in ["closed.txt", "closed.blp/data", "counts/val"] {
        other_may_not("cat", &mounted.join(name));
        std::fs::read(mounted.join(name)).unwrap();
    }
    other_may("cat", &mounted.join("open.txt"));
}

/// A working directory in the mount, whose directory becomes a link that leads out of the source.
#[test]
fn a_link_put_in_for_a_directory_shows_nothing_outside() {
    use rustix::fs::{AtFlags, Mode, OFlags, openat, readlinkat, statat};
    let (source, outside) = (scratch_directory(), scratch_directory());
    std::fs::create_dir(source.path().join("d")).unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("target", outside.path().join("link")).unwrap();
    let mounted = Mounted::new(source.path(), &[]);
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let inside = rustix::fs::open(mounted.join("d"), flags, Mode::empty()).unwrap();
    std::fs::remove_dir(source.path().join("d")).unwrap();
    std::os::unix::fs::symlink(outside.path(), source.path().join("d")).unwrap();
    assert!(statat(&inside, "secret", AtFlags::SYMLINK_NOFOLLOW).is_err());
    assert!(openat(&inside, "secret", OFlags::RDONLY, Mode::empty()).is_err());
    assert!(readlinkat(&inside, "link", Vec::new()).is_err());
    mounted.assert_alive();
}

#[test]
fn only_who_mounted_it_may_unmount_it() {
    if !is_root("unmounting as another user") {
        return;
    }
    let source = source();
    let mounted = Mounted::new(source.path(), &[]);
    let program = source.path().join("arrayfs");
    install(Path::new(ARRAYFS), &program);
    let ran = as_other(
        program.to_str().unwrap(),
        &[Path::new("umount"), mounted.path()],
    );
    ran.failed_saying(1, &["only root or who mounted it"]);
    mounted.assert_alive();
}

/// In a mount name space of its own, where `/dev/fuse` is open to everybody as on a desktop.
#[test]
fn a_user_mounts_what_he_may_read() {
    if !is_root("mounting as another user") {
        return;
    }
    let source = source();
    let mountpoint = scratch_directory();
    chown(mountpoint.path(), Some(OTHER), Some(OTHER)).unwrap();
    install(Path::new(ARRAYFS), &source.path().join("arrayfs"));
    let script = r#"set -e
        mknod -m 666 "$1/fuse" c 10 229
        mount --bind "$1/fuse" /dev/fuse
        other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        other "$1/arrayfs" mount "$1" "$2"
        trap 'other "$1/arrayfs" umount "$2"' EXIT
        other cat "$2/open.blp/data"
        other cat "$2/closed.txt" || echo " closed"
        trap - EXIT
        other "$1/arrayfs" umount "$2""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    let ran = run(command.args([source.path(), mountpoint.path()])).success();
    assert_eq!(ran.text(), "open closed\n");
    assert!(ran.stderr.contains("Permission denied"), "{}", ran.stderr);
}

/// Root may write all of it as far as modes go; what it opens is refused when it is opened.
#[test]
fn what_cannot_be_written_shows_no_w() {
    let written = Written::new("committed");
    let source = written.source();
    Bloscpack::default().write(&source.join("x.blp"), b"elements");
    Matrix::random(1, 500).write_packed(&source.join("counts"));
    std::fs::write(source.join("damaged.blp"), "what?").unwrap();
    for name in ["committed.h5", "x.blp", "damaged.blp"] {
        set_mode(&source.join(name), 0o666);
    }
    let root = is_root("another user");
    let options: &[&str] = if root {
        &["rw", "allow_other"]
    } else {
        &["rw"]
    };
    let mounted = Mounted::new(&source, options);
    let may_write = |path: &Path| {
        let asks = || rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
        if root { as_user(OTHER, asks) } else { asks() }
    };
    for (name, mode) in [
        ("x.blp/data", 0o666),
        ("x.blp/arrays.json", 0o444),
        ("x.blp/views/data.npy", 0o444),
        ("committed.h5/of", 0o666),
        ("committed.h5/arrays.json", 0o444),
        ("damaged.blp/error.txt", 0o444),
    ] {
        let path = mounted.join(name);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, mode, "{name}");
        assert_eq!(may_write(&path), mode == 0o666, "{name}");
    }
    let of_matrix = |name: &str| mounted.join("counts").join(name).metadata().unwrap().mode();
    assert_eq!(of_matrix("val") & 0o200, 0o200);
    assert_eq!(of_matrix("arrays.json") & 0o222, 0);
    // So it does not say which users may write the container.
    set_mode(&mounted.join("x.blp/views/data.npy"), 0o444);
    let stored = source.join("x.blp").metadata().unwrap();
    assert_eq!(stored.mode() & 0o777, 0o666);
    set_mode(&mounted.join("x.blp/data"), 0o444);
    let stored = source.join("x.blp").metadata().unwrap();
    assert_eq!(stored.mode() & 0o777, 0o444);
}
