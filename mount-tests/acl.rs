//! POSIX access control lists: set, shown, inherited and enforced as on the source's file system.
//!
//! Most scenarios are scripts that run in the place and in a plain directory, and must say the
//! same. `setfacl` and `getfacl` come with the package `acl`.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, getxattr, lsetxattr, setxattr};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::place::{Place, open_directory, scenarios};
use crate::harness::process::{ARRAYFS, install, run};
use crate::harness::tools::{shell, tools};
use crate::harness::users::{OTHER, THIRD, as_user, as_user_in_groups};
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{is_root, scratch_directory, wait_until};

scenarios![
    everywhere
    lists_are_shown_as_they_were_set,
    lists_are_removed,
    default_lists_are_inherited,
    the_umask_counts_where_nothing_is_inherited,
    a_list_that_says_what_a_mode_says_is_a_mode,
    the_mode_is_the_mask,
    copies_keep_their_lists,
    what_has_no_lists_refuses_them,
    many_entries_are_kept,
    lists_outlive_the_mount,
    named_users_and_groups_are_let_in,
    users_inherit_what_they_make,
    the_set_group_id_bit_is_for_members,
];

const ACCESS: &str = "system.posix_acl_access";

/// Lists of all that is there, with numbers, and modes as `ls` shows them; not what it takes.
const SHOW: &str = "ls -lR | grep -v ^total | cut -c 1-11; find . ! -type l -print0 | sort -z | xargs -0 getfacl -n";

/// Runs a script in the place and in a directory, which must show the same afterwards.
#[track_caller]
fn as_outside(place: &Place, script: &str) {
    if !tools(&["setfacl", "getfacl"]) {
        return;
    }
    let directory = open_directory();
    let outcome = |at: &Path| {
        let ran = shell(at, &format!("umask 022\n{script}\n{SHOW}"), &[]);
        ran.text() + &ran.stderr
    };
    let (found, expected) = (outcome(place.path()), outcome(directory.path()));
    assert_eq!(found, expected, "{script}");
}

fn lists_are_shown_as_they_were_set(place: &Place) {
    as_outside(
        place,
        "touch file; mkdir directory; mkfifo pipe
         setfacl -m u:1234:rw,g:4321:r,o::- file
         setfacl -m u:1234:rwx,m::rx directory
         setfacl -d -m g:7:rw directory
         setfacl -m u:5:r pipe
         setfacl -x g:4321 file
         getfattr -d -m - -e hex file directory pipe",
    );
}

fn lists_are_removed(place: &Place) {
    as_outside(
        place,
        "for each in 1 2 3; do mkdir $each; setfacl -m u:7:rwx $each; setfacl -d -m u:7:rx $each; done
         setfacl -b 1; setfacl -k 2; setfacl -x u:7 3; setfacl -k 2
         setfattr -x system.posix_acl_default 3; setfattr -x system.posix_acl_access 3
         getfattr -n system.posix_acl_access 3 || echo $?",
    );
}

fn default_lists_are_inherited(place: &Place) {
    as_outside(
        place,
        "mkdir d; setfacl -d -m u:1234:rwx,g::rx,g:7:-,o::r d
         umask 077
         touch d/file; mkdir d/below; mkfifo d/pipe; echo text > d/text; ln -s x d/link
         mkdir -m 750 d/below/less; mknod d/below/socket p
         setfacl -k d/below; mkdir d/below/not; touch d/below/not/file",
    );
}

fn the_umask_counts_where_nothing_is_inherited(place: &Place) {
    as_outside(
        place,
        "mkdir d; setfacl -m u:7:rwx d
         for mask in 0 022 027 077 0777; do
            umask $mask; touch d/file$mask; mkdir d/in$mask; mkfifo d/pipe$mask
            chmod u+rwx d/in$mask; chmod u+rw d/file$mask
         done",
    );
}

fn a_list_that_says_what_a_mode_says_is_a_mode(place: &Place) {
    as_outside(
        place,
        "touch file; setfacl -m u:7:rw file; setfacl --set u::rwx,g::x,o::r file
         getfattr -n system.posix_acl_access file || echo $?
         stat -c %a file",
    );
}

fn the_mode_is_the_mask(place: &Place) {
    as_outside(
        place,
        "touch file other; setfacl -m u:7:rw,g:8:rwx file; stat -c %a file
         chmod 640 file; stat -c %a file; getfacl -n file
         chmod g-r,o+w file; stat -c %a file
         setfacl -m u:7:rw other; chmod 0 other; stat -c %a other; getfacl -n other
         chmod u+s,g+rwx other; stat -c %a other",
    );
}

fn copies_keep_their_lists(place: &Place) {
    if !tools(&["rsync"]) {
        return;
    }
    as_outside(
        place,
        "mkdir tree; touch tree/file tree/plain; setfacl -m u:1234:rw,g:7:r tree/file
         setfacl -m u:7:rx tree; setfacl -d -m u:8:rwx tree; chmod 600 tree/plain
         cp -a tree copied; cp -rp tree/file copy; cp tree/file without
         rsync -aA tree/ synced; rsync -a tree/ modes
         tar --acls -cf archive.tar tree; mkdir unpacked; tar --acls -xf archive.tar -C unpacked
         mv tree/file moved; ln moved tree/linked; rm archive.tar",
    );
}

fn what_has_no_lists_refuses_them(place: &Place) {
    as_outside(
        place,
        "touch file; ln -s file link; setfacl -d -m u:7:r file 2>&1 || echo $?",
    );
    let list = [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255];
    let wrong = setxattr(place.join("file"), ACCESS, &list, XattrFlags::empty());
    assert_eq!(wrong, Err(Errno::INVAL));
    let on_link = lsetxattr(place.join("link"), ACCESS, &list, XattrFlags::empty());
    let outside = open_directory();
    std::os::unix::fs::symlink("file", outside.path().join("link")).unwrap();
    let expected = lsetxattr(
        outside.path().join("link"),
        ACCESS,
        &list,
        XattrFlags::empty(),
    );
    assert_eq!(on_link, expected);
}

fn many_entries_are_kept(place: &Place) {
    as_outside(
        place,
        "touch file; setfacl -m $(seq -s, -f u:%g:r 1000 1399) file; getfacl -n file | wc -l",
    );
}

fn lists_outlive_the_mount(place: &Place) {
    as_outside(
        place,
        "mkdir d; setfacl -d -m u:1234:rw d; head -c 300000 /dev/urandom > d/file
         setfacl -m u:1:r d/file; for each in 1 2 3; do echo more >> d/file; done; truncate -s 5 d/file",
    );
    if !place.is_scratch() && place.is_mounted() && tools(&["getfacl"]) {
        let lists = |at: &Path| shell(at, "getfacl -n d d/file", &[]).text();
        assert_eq!(lists(place.path()), lists(place.source()));
    }
}

fn named_users_and_groups_are_let_in(place: &Place) {
    if !is_root("other users") || !tools(&["setfacl"]) {
        return;
    }
    shell(
        place.path(),
        "umask 0; echo secret > file; chmod 600 file; mkdir -m 700 d; echo text > d/text
         setfacl -m u:65534:rw,g:4711:r file; setfacl -m u:65534:rwx d",
        &[],
    );
    let file = place.join("file");
    let reads = |user, groups: &[u32]| {
        let read = as_user_in_groups(user, groups, || std::fs::read(&file));
        read.map_err(|e| e.kind())
    };
    let writes = |user| as_user(user, || std::fs::write(&file, "secret\n").is_ok());
    let denied = Err(std::io::ErrorKind::PermissionDenied);
    let secret = || Ok(b"secret\n".to_vec());
    assert_eq!(reads(OTHER, &[OTHER]), secret());
    assert_eq!(reads(THIRD, &[THIRD]), denied);
    assert_eq!(reads(THIRD, &[THIRD, 4711]), secret());
    assert!(writes(OTHER) && !writes(THIRD));
    as_user(OTHER, || {
        std::fs::write(place.join("d/new"), "x").unwrap();
        std::fs::remove_file(place.join("d/text")).unwrap();
    });
    assert_eq!(place.join("d/new").metadata().unwrap().uid(), OTHER);
    as_user(THIRD, || std::fs::read_dir(place.join("d")).map(drop)).unwrap_err();
    // The mask bounds them, at once.
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(reads(OTHER, &[OTHER]), denied);
    shell(
        place.path(),
        "chmod g+rw file; setfacl -m u:65534:- file",
        &[],
    );
    assert_eq!(reads(OTHER, &[OTHER, 4711]), denied);
    assert_eq!(reads(THIRD, &[THIRD, 4711]), secret());
    shell(place.path(), "setfacl -b file", &[]);
    assert_eq!(reads(THIRD, &[THIRD, 4711]), denied);
}

/// What root's daemon makes for another user gets the user's umask, or the list.
fn users_inherit_what_they_make(place: &Place) {
    if !is_root("other users") {
        return;
    }
    as_outside(
        place,
        "mkdir -m 777 with without; setfacl -d -m u:7:rw,g::r with
         setpriv --reuid 65534 --regid 65534 --clear-groups sh -euc '
            umask 027; for in in with without; do
                touch $in/file; mkdir $in/below; mkfifo $in/pipe; ln -s x $in/link
            done
            chmod 600 with/file; setfacl -m u:8:r without/file; touch with/below/file'
         setpriv --reuid 65533 --regid 65533 --clear-groups setfacl -m u:8:r with/file 2>&1 || echo $?",
    );
}

/// Who is not in the group of a file costs it the bit by giving it another list.
fn the_set_group_id_bit_is_for_members(place: &Place) {
    if !is_root("other users") {
        return;
    }
    as_outside(
        place,
        "other() { setpriv --reuid 65534 --regid 65534 \"$@\"; }
         for each in own member foreign; do touch $each; mkdir in-$each; done
         chown 65534:65534 own in-own; chown 65534:4711 member in-member foreign in-foreign
         chmod 2755 *; ls -l
         other --clear-groups setfacl -m u:7:r own in-own foreign in-foreign
         other --groups 4711 setfacl -m u:7:r member in-member
         chmod 2755 *; setfacl -m u:8:r *; other --clear-groups setfacl -b foreign
         other --clear-groups setfacl -d -m u:9:r in-foreign",
    );
}

/// A container of each kind whose file lets user 65534 in by name, and one that nobody may read.
fn source() -> TempDir {
    let source = open_directory();
    let at = source.path();
    Bloscpack::default().write(&at.join("named.blp"), b"elements");
    Bloscpack::default().write(&at.join("closed.blp"), b"elements");
    Matrix::random(1, 500).write_packed(&at.join("named"));
    Matrix::random(1, 500).write_packed(&at.join("mixed"));
    shell(
        at,
        "umask 0; echo text > file; chmod 600 file *.blp named/* mixed/*; chmod 700 named mixed
         setfacl -m u:65534:rw file named.blp named/* mixed/*
         setfacl -m u:65534:rwx named mixed
         setfacl -m u:1:rw mixed/val_data",
        &[],
    );
    source
}

#[test]
fn arrays_are_read_by_whom_their_container_names() {
    if !is_root("other users") || !tools(&["setfacl", "getfacl"]) {
        return;
    }
    let source = source();
    for options in ["ro,allow_other", "rw,allow_other"] {
        let mounted = Mounted::new(source.path(), &[options]);
        let reads = |user, path: &str| as_user(user, || std::fs::read(mounted.join(path)).is_ok());
        let files = [
            "file",
            "named.blp/data",
            "named.blp/views/data.npy",
            "named/val",
        ];
        for file in files {
            assert!(
                reads(OTHER, file) && !reads(THIRD, file),
                "{options}: {file}"
            );
        }
        for directory in ["named.blp", "named.blp/views", "named", "named/views"] {
            let list = || std::fs::read_dir(mounted.join(directory)).map(drop);
            assert!(as_user(OTHER, list).is_ok(), "{options}: {directory}");
            assert!(as_user(THIRD, list).is_err(), "{options}: {directory}");
        }
        // The array is made of files whose lists do not agree.
        for closed in ["closed.blp/data", "mixed/val"] {
            assert!(!reads(OTHER, closed), "{options}: {closed}");
        }
        let shown = |path: &str| {
            let list = shell(mounted.path(), &format!("getfacl -cn {path}"), &[]);
            list.text().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let written = "user::rw- user:65534:rw- group::--- mask::rw- other::---";
        let read = "user::r-- user:65534:r-- group::--- mask::r-- other::---";
        let entered = "user::rwx user:65534:rwx group::--- mask::rwx other::---";
        assert_eq!(shown("named.blp/data"), written, "{options}");
        let view = if options.starts_with("ro") {
            written
        } else {
            read
        };
        assert_eq!(shown("named.blp/views/data.npy"), view, "{options}");
        assert_eq!(shown("named.blp"), entered, "{options}");
        assert_eq!(
            shown("mixed/val"),
            "user::rw- group::--- other::---",
            "{options}"
        );
    }
}

#[test]
fn containers_take_no_lists() {
    if !tools(&["setfacl"]) {
        return;
    }
    let source = source();
    let mounted = Mounted::new(source.path(), &["rw"]);
    for path in ["named.blp", "named.blp/data", "named", "named/val"] {
        let list = rustix::fs::getxattr(mounted.join(path), ACCESS, &mut [0; 200][..]).unwrap();
        let mut value = vec![0; list];
        getxattr(mounted.join(path), ACCESS, &mut value[..]).unwrap();
        let set = setxattr(mounted.join(path), ACCESS, &value, XattrFlags::empty());
        assert_eq!(set, Err(Errno::OPNOTSUPP), "{path}");
    }
    // But a mode: then the mask is the container's.
    std::fs::set_permissions(
        mounted.join("named.blp/data"),
        Permissions::from_mode(0o640),
    )
    .unwrap();
    let stored = shell(source.path(), "getfacl -cn named.blp | grep mask", &[]);
    assert_eq!(stored.text(), "mask::r--\n");
}

/// The directory that becomes a container keeps its lists, and its files the rights of theirs.
#[test]
fn a_new_container_lets_in_whom_its_directory_names() {
    if !is_root("other users") || !tools(&["setfacl", "getfacl"]) {
        return;
    }
    let (source, from) = (open_directory(), scratch_directory());
    Matrix::random(1, 500).write_packed(&from.path().join("matrix"));
    let script = "mkdir d; setfacl -m u:65534:rx d; setfacl -d -m u:65534:rx,g::-,o::- d
        mkdir -m 700 d/file.blp; head -c 8000 /dev/zero > d/file.blp/data
        cp -r \"$1\"/matrix d/";
    let mounted = Mounted::new(source.path(), &["rw,allow_other"]);
    shell(mounted.path(), script, &[from.path()]);
    drop(mounted);
    let again = Mounted::new(source.path(), &["allow_other"]);
    let reads = |user| as_user(user, || std::fs::read(again.join("d/matrix/val")).is_ok());
    assert!(reads(OTHER) && !reads(THIRD));
    let list = |user| as_user(user, || std::fs::read_dir(again.join("d/matrix")).is_ok());
    assert!(list(OTHER) && !list(THIRD));
    let file = again.join("d/file.blp/data");
    as_user(THIRD, || std::fs::read(&file)).unwrap_err();
    let mode = Permissions::from_mode(0o640);
    std::fs::set_permissions(source.path().join("d/file.blp"), mode).unwrap();
    wait_until("its mask is raised", || {
        as_user(OTHER, || std::fs::read(&file)).is_ok()
    });
    as_user(THIRD, || std::fs::read(&file)).unwrap_err();
}

#[test]
fn lists_are_stored_with_what_is_packed() {
    if !tools(&["setfacl", "getfacl"]) {
        return;
    }
    let mut place = Place::scratch();
    let made = "mkdir d; setfacl -d -m u:1234:rw d; head -c 300000 /dev/urandom > d/file
        setfacl -m u:1:r d/file";
    shell(place.path(), made, &[]);
    let lists = |place: &Place| shell(place.path(), "getfacl -n d d/file; stat -c %a d/file", &[]);
    let before = lists(&place).text();
    place.mount_again();
    assert_eq!(lists(&place).text(), before);
}

/// The kernel believes lists as long as attributes.
#[test]
fn what_others_change_in_the_source_counts_after_a_second() {
    if !is_root("other users") || !tools(&["setfacl"]) {
        return;
    }
    let source = source();
    let mounted = Mounted::new(source.path(), &["allow_other"]);
    let files = ["file", "named.blp/data", "named/val"];
    let read = |user, file: &str| as_user(user, || std::fs::read(mounted.join(file)).is_ok());
    assert!(
        files
            .iter()
            .all(|file| read(OTHER, file) && !read(THIRD, file))
    );
    let script = "setfacl -x u:65534 -m u:65533:rwX file named.blp named named/*";
    shell(source.path(), script, &[]);
    for file in files {
        wait_until(file, || read(THIRD, file) && !read(OTHER, file));
    }
}

/// Modes and users that the source has not do not go with its lists; `noacl` is for speed.
#[test]
fn without_lists_a_mode_allows_nobody_more() {
    if !is_root("other users") || !tools(&["setfacl", "getfacl"]) {
        return;
    }
    let source = source();
    chown(source.path().join("file"), None, Some(THIRD)).unwrap();
    for option in ["noacl", "umask=0", "uid=0", "gid=65533"] {
        let mounted = Mounted::new(source.path(), &["rw,allow_other", option]);
        let file = mounted.join("file");
        let found = getxattr(&file, ACCESS, &mut [0; 200][..]);
        assert_eq!(found, Err(Errno::OPNOTSUPP), "{option}");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{option}");
        for user in [OTHER, THIRD] {
            as_user(user, || std::fs::read(&file)).unwrap_err();
        }
    }
}

/// In a mount name space of its own, where `/dev/fuse` is open to everybody as on a desktop.
#[test]
fn a_user_s_own_daemon_sets_lists() {
    if !is_root("mounting as another user") || !tools(&["setfacl", "getfacl", "setpriv"]) {
        return;
    }
    let (source, mountpoint) = (scratch_directory(), scratch_directory());
    for directory in [source.path(), mountpoint.path()] {
        chown(directory, Some(OTHER), Some(OTHER)).unwrap();
    }
    install(Path::new(ARRAYFS), &source.path().join("arrayfs"));
    let script = r#"set -e
        mknod -m 666 "$1/fuse" c 10 229
        mount --bind "$1/fuse" /dev/fuse
        other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        other "$1/arrayfs" mount -o rw "$1" "$2"
        trap 'other "$1/arrayfs" umount "$2"' EXIT
        other sh -euc 'cd "$1"; umask 077; mkdir d; setfacl -d -m u:7:rw,g::r d; touch d/file plain
            setfacl -m u:8:r plain; chmod 640 plain; stat -c %a plain d/file' sh "$2"
        trap - EXIT
        other "$1/arrayfs" umount "$2"
        getfacl -cn "$1/d/file" "$1/plain" | tr '\n' ' '"#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    let ran = run(command.args([source.path(), mountpoint.path()])).success();
    let expected = "640\n664\nuser::rw- user:7:rw- group::r-- mask::rw- other::---  \
                    user::rw- user:8:r-- group::--- mask::r-- other::---  ";
    assert_eq!(ran.text().replace("660", "664"), expected, "{}", ran.stderr);
}
