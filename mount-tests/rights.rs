//! Containers of whose files a new one could not have all: a group that the daemon's user is not
//! in, an owner whose times he cannot set. They are changed in place.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::harness::process::{ARRAYFS, install, run};
use crate::harness::users::{OTHER, THIRD};
use crate::harness::{copy_directory, golden, is_root, scratch_directory};

/// What the files of a directory are: names, inodes, owners, groups.
fn files(directory: &Path) -> Vec<(String, u64, u32, u32)> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            let (name, stat) = (entry.file_name(), entry.metadata().unwrap());
            let name = name.into_string().unwrap();
            (name, stat.ino(), stat.uid(), stat.gid())
        })
        .collect();
    files.sort();
    files
}

/// In a mount name space of its own, where `/dev/fuse` is open to everybody as on a desktop. `$1`:
/// the source, `$2`: the mountpoint.
fn in_a_mount(script: &str, source: &Path) -> String {
    let mountpoint = scratch_directory();
    chown(mountpoint.path(), Some(OTHER), Some(OTHER)).unwrap();
    let programs = scratch_directory();
    install(Path::new(ARRAYFS), &programs.path().join("arrayfs"));
    let before = r#"set -e
        mknod -m 666 "$3/fuse" c 10 229
        mount --bind "$3/fuse" /dev/fuse
        "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{before}{script}"), "sh"]);
    let ran = run(command.args([source, mountpoint.path(), programs.path()])).success();
    ran.text().to_owned()
}

fn matrix() -> TempDir {
    let source = scratch_directory();
    copy_directory(
        &golden("bpcells/sources/m-unpacked-uint"),
        &source.path().join("m"),
    );
    source
}

#[test]
fn a_matrix_whose_group_is_not_the_users_is_changed_in_place() {
    if !is_root("another user's files") {
        return;
    }
    let source = matrix();
    let m = source.path().join("m");
    chown(source.path(), Some(OTHER), Some(OTHER)).unwrap();
    chown(&m, Some(OTHER), Some(THIRD)).unwrap();
    for (name, ..) in files(&m) {
        chown(m.join(name), Some(OTHER), Some(THIRD)).unwrap();
    }
    let before = files(&m);
    let shown = in_a_mount(
        r#"
        other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        other "$3/arrayfs" mount -o rw "$1" "$2"
        trap 'other "$3/arrayfs" umount "$2"' EXIT
        other sh -c 'printf "\7\0\0\0" | dd of="$0/m/val" bs=4 seek=1 conv=notrunc status=none' "$2"
        ls -A "$1/m" | grep -c arrayfs || :
        other sh -c 'od -An -tu4 -j4 -N4 "$0/m/val"' "$2""#,
        source.path(),
    );
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(words, ["0", "7"], "{shown}");
    assert_eq!(files(&m), before, "files were replaced");
    let stored = std::fs::read(m.join("val")).unwrap();
    assert_eq!(stored[12..16], [7, 0, 0, 0]);
}

/// As a daemon of root's without the right to everything.
#[test]
fn who_cannot_set_the_time_of_a_file_commits_to_it_all_the_same() {
    if !is_root("capabilities") {
        return;
    }
    let source = scratch_directory();
    let file = source.path().join("x.blp");
    std::fs::copy(golden("bloscpack/sources/chunk-127.blp"), &file).unwrap();
    chown(&file, Some(OTHER), Some(OTHER)).unwrap();
    let shown = in_a_mount(
        r#"
        setpriv --bounding-set=-fowner --inh-caps=-fowner "$3/arrayfs" mount -o rw,commit=inplace "$1" "$2"
        trap '"$3/arrayfs" umount "$2"' EXIT
        for word in hello again; do
            printf $word | dd of="$2/x.blp/data" bs=1 seek=300 conv=notrunc status=none
            ls -A "$1" | grep -c arrayfs || :
            dd if="$2/x.blp/data" bs=1 skip=300 count=5 status=none; echo
        done"#,
        source.path(),
    );
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(words, ["0", "hello", "0", "again"], "{shown}");
    assert_eq!(std::fs::read_dir(source.path()).unwrap().count(), 1);
}
