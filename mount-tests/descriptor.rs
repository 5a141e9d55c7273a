//! A connection that somebody else has mounted, handed over as `/dev/fd/N`; and a mount in a user
//! name space, by a user without any right outside of it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;

use crate::harness::mounted::{Mounted, is_mounted};
use crate::harness::places::{CONTENT, Places, places};
use crate::harness::process::{ARRAYFS, Ran, arrayfs, has_ended, install, run, send};
use crate::harness::python::interpreter;
use crate::harness::reads::{assert_content, assert_same};
use crate::harness::users::OTHER;
use crate::harness::{is_root, wait_until};

const OPTIONS: &str = "default_permissions,allow_other";

/// Mounts with this type and these options, and has the program serve it.
fn hand_over(places: &Places, (kind, options): (&str, &str), more: &[&str]) -> Ran {
    let (source, mountpoint) = places.both();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("mount-tests/hand_over.py");
    let mut command = Command::new(interpreter());
    command.arg("-B").arg(script).arg(mountpoint).arg(kind);
    command.arg(source).arg(options).args([ARRAYFS, "mount"]);
    run(command.args(more).arg(source).arg("/dev/fd/{}"))
}

#[test]
fn a_connection_that_is_handed_over_is_served() {
    if !is_root("mounting for somebody else") {
        return;
    }
    let places = places();
    let said = hand_over(&places, ("fuse.arrayfs", OPTIONS), &["-o", "ro"]).success();
    assert_eq!(said.stderr, "");
    let mounted = Mounted::adopt(places.both().1);
    assert_content(&mounted.join("x.blp/data"), CONTENT);
    let told = arrayfs([Path::new("status"), mounted.path()])
        .success()
        .text();
    assert!(told.contains(places.both().0.to_str().unwrap()), "{told}");
    // Who mounted unmounts, and the daemon ends.
    unmount(mounted.path(), UnmountFlags::empty()).unwrap();
    mounted.assert_ends();
}

#[test]
fn arrayfs_umount_ends_one_like_others() {
    if !is_root("mounting for somebody else") {
        return;
    }
    let places = places();
    hand_over(&places, ("fuse.arrayfs", OPTIONS), &["-o", "rw"]).success();
    let mounted = Mounted::adopt(places.both().1);
    let mut expected = CONTENT.to_vec();
    expected[..3].copy_from_slice(b"AS ");
    std::fs::write(mounted.join("x.blp/data"), &expected).unwrap();
    drop(mounted);
    let stored = places.both().0.join("x.blp");
    let stored = arrayfs([Path::new("cat"), &stored, Path::new("data")]).success();
    assert_same("data", &stored.stdout, &expected);
}

/// The mount is not the daemon's to end; what was written is committed all the same.
#[test]
fn a_daemon_that_is_ended_leaves_the_mount_to_who_made_it() {
    if !is_root("mounting for somebody else") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    hand_over(&places, ("fuse.arrayfs", OPTIONS), &["-o", "rw"]).success();
    let mounted = Mounted::adopt(mountpoint);
    let expected = CONTENT.to_ascii_uppercase();
    std::fs::write(mounted.join("x.blp/data"), &expected).unwrap();
    send(mounted.daemon(), Signal::TERM);
    wait_until("the daemon has ended", || has_ended(mounted.daemon()));
    assert!(is_mounted(mountpoint));
    let stored = arrayfs([Path::new("cat"), &source.join("x.blp"), Path::new("data")]).success();
    assert_same("data", &stored.stdout, &expected);
    arrayfs([Path::new("status"), mountpoint]).failed_saying(1, &["has ended"]);
    arrayfs([Path::new("umount"), mountpoint]).success();
    mounted.assert_ends();
}

#[test]
fn what_is_amiss_with_a_mount_of_others_is_said() {
    if !is_root("mounting for somebody else") {
        return;
    }
    let places = places();
    let said = hand_over(&places, ("fuse", "allow_other"), &["-o", "ro"]).success();
    for part in ["without default_permissions", "not mounted as fuse.arrayfs"] {
        assert!(said.stderr.contains(part), "'{part}' is missing: {said:?}");
    }
    assert_content(&places.both().1.join("x.blp/data"), CONTENT);
    unmount(places.both().1, UnmountFlags::empty()).unwrap();
    hand_over(&places, ("none", ""), &[])
        .failed_saying(1, &["cannot serve /dev/fd/", "mounts with it"]);
}

#[test]
fn what_is_no_connection_is_refused() {
    let places = places();
    let source = places.both().0;
    let closed = arrayfs([Path::new("mount"), source, Path::new("/dev/fd/77")]);
    closed.failed_saying(1, &["/dev/fd/77", "not open"]);
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        r#"exec "$0" mount "$1" /dev/fd/9 9</dev/null"#,
        ARRAYFS,
    ]);
    run(shell.arg(source)).failed_saying(1, &["no descriptor of /dev/fuse"]);
    // A directory that is open is a mountpoint like others.
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"exec "$0" mount "$1" /dev/fd/9 9<"$2""#, ARRAYFS]);
    run(shell.args([source, places.both().1])).success();
    assert_content(&Mounted::adopt(places.both().1).join("x.blp/data"), CONTENT);
}

/// Has a program run by a plain user, who may open `/dev/fuse`: `$0` is an empty directory.
const AS_PLAIN_USER: &str = r#"
    mount -t tmpfs tmpfs "$0"
    mknod -m 666 "$0/fuse" c 10 229
    mount --bind "$0/fuse" /dev/fuse
    exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@""#;

/// What a user does who has rights in a name space of his own alone.
const IN_NAME_SPACE: &str = r#"
    "$0" mount -o "$3" "$1" "$2"
    trap '"$0" umount "$2"' EXIT
    "$0" status "$2" >&2
    if [ "$3" = rw ]; then
        printf 'new' >"$2/new"
        printf 'AS' | dd of="$2/x.blp/data" conv=notrunc status=none
    fi
    cat "$2/x.blp/data""#;

/// In a name space of his own, in which he is root.
fn as_plain_user(empty: &Path, arguments: &[&OsStr]) -> Command {
    let unshare = ["unshare", "-Urm"].map(OsStr::new);
    if !rustix::process::geteuid().is_root() {
        let mut command = Command::new(unshare[0]);
        command.arg(unshare[1]).args(arguments);
        return command;
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-euc", AS_PLAIN_USER]).arg(empty);
    command.args(unshare).args(arguments);
    command
}

#[test]
fn a_plain_user_mounts_in_a_name_space_of_his_own() {
    let places = places();
    let (source, mountpoint) = places.both();
    let below = |name| source.parent().unwrap().join(name);
    let (program, empty) = (below("arrayfs"), below("empty"));
    install(Path::new(ARRAYFS), &program);
    std::fs::create_dir(&empty).unwrap();
    if rustix::process::geteuid().is_root() {
        for path in [source.to_owned(), source.join("x.blp")] {
            std::os::unix::fs::chown(path, Some(OTHER), Some(OTHER)).unwrap();
        }
    }
    let try_device = ["sh", "-c", ": <>/dev/fuse"].map(OsStr::new);
    let tried = run(&mut as_plain_user(&empty, &try_device));
    if tried.code() != Some(0) {
        let why = tried.stderr;
        eprintln!("not tested, this system has no user name spaces with FUSE: {why}");
        return;
    }
    let in_name_space = ["sh", "-euc", IN_NAME_SPACE].map(OsStr::new);
    let mut expected = CONTENT.to_vec();
    for (mode, access) in [("ro", "read-only"), ("rw", "writable")] {
        let mut command = as_plain_user(&empty, &in_name_space);
        let ran = run(command.args([&program, source, mountpoint]).arg(mode)).success();
        if mode == "rw" {
            expected[..2].copy_from_slice(b"AS");
        }
        assert_same(mode, &ran.stdout, &expected);
        assert!(ran.stderr.contains(access), "{ran:?}");
        assert!(!is_mounted(mountpoint), "others do not see it");
    }
    assert_content(&source.join("new"), b"new");
    let stored = arrayfs([Path::new("cat"), &source.join("x.blp"), Path::new("data")]).success();
    assert_same("data", &stored.stdout, &expected);
}
