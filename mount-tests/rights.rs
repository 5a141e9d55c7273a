//! Containers of whose files a new one could not have all: a group that the daemon's user is not
//! in, an owner whose times he cannot set. They are changed in place.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
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
/// the source, `$2`: the mountpoint, `$3`: the directory of the program.
pub fn in_a_mount(script: &str, source: &Path) -> String {
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

/// A value more in each of `m` and `n`, in three steps: one commit of three files.
const LENGTHENS: &str = r#"
        other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        other "$3/arrayfs" mount -o rw "$1" "$2"
        trap 'other "$3/arrayfs" umount "$2"' EXIT
        for matrix in m n; do
            other sh -c 'cd "$0"
                printf "\7\0\0\0" >> val
                printf "\3\0\0\0" >> index
                printf "\46\2\0\0\0\0\0\0" | dd of=idxptr bs=8 seek=40 conv=notrunc status=none
                od -An -tu4 -j2196 -N4 val' "$2/$matrix"
            ls -A "$1/$matrix" | grep -c arrayfs || :
        done"#;

/// One member is another user's, who lets everybody write it: no file can stand for it, which is
/// found out when those for others have been made. The same change of a matrix that is all the
/// daemon's makes new files.
#[test]
fn a_matrix_of_which_one_file_is_anothers_is_changed_in_place() {
    if !is_root("another user's files") {
        return;
    }
    let source = matrix();
    copy_directory(&source.path().join("m"), &source.path().join("n"));
    let [m, n] = ["m", "n"].map(|name| source.path().join(name));
    give_to_other(source.path());
    give_to_other(&m);
    give_to_other(&n);
    give_to_third(&m.join("idxptr"), 0o666);
    let before = [files(&m), files(&n)];
    let shown = in_a_mount(LENGTHENS, source.path());
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(words, ["7", "0", "7", "0"], "{shown}");
    assert_eq!(files(&m), before[0], "files were replaced");
    let inodes = |files: &[(String, u64, u32, u32)], names: [&str; 3]| {
        let own = files.iter().filter(|file| names.contains(&&*file.0));
        own.map(|file| file.1).collect::<Vec<_>>()
    };
    let changed = ["idxptr", "index", "val"];
    for (before, after) in std::iter::zip(inodes(&before[1], changed), inodes(&files(&n), changed))
    {
        assert_ne!(before, after, "a file of the daemon's own was not replaced");
    }
    for name in changed {
        let stored = std::fs::read(m.join(name)).unwrap();
        assert!(stored == std::fs::read(n.join(name)).unwrap(), "{name}");
        let before = golden("bpcells/sources/m-unpacked-uint").join(name);
        assert!(stored != std::fs::read(before).unwrap(), "{name}");
    }
    let mode = m.join("idxptr").metadata().unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o666);
}

/// One of three files of a commit is given away before the last of them is closed. The message
/// names it, says whose it is, and what is to be done; that done, all is well. Whoever closes first
/// after the write is told: the other end of the pipe must not have the file open.
#[test]
fn a_file_that_cannot_be_written_is_named_with_what_to_do() {
    if !is_root("another user's files") {
        return;
    }
    let source = matrix();
    let m = source.path().join("m");
    give_to_other(source.path());
    give_to_other(&m);
    let said = in_a_mount(
        r#"
        other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        other "$3/arrayfs" mount -o rw "$1" "$2"
        trap 'other "$3/arrayfs" umount "$2" || :' EXIT
        other sh -c 'printf "\7\0\0\0" >> "$0/val"; printf "\3\0\0\0" >> "$0/index"' "$2/m"
        mkfifo -m 666 "$3/opened" "$3/given"
        { other sh -c 'exec 4<> "$0/idxptr"; echo > "$1/opened"; read -r given < "$1/given"
            { exec 4>&-; printf "\46\2\0\0\0\0\0\0"; } | dd bs=8 seek=40 conv=notrunc status=none 2>&1 >&4' \
            "$2/m" "$3" || echo "closed: $?"; } &
        read -r opened < "$3/opened"
        chown 65533:65533 "$1/m/index"
        echo > "$3/given"
        wait
        trap - EXIT
        other "$3/arrayfs" umount "$2" 2>&1 || echo "unmounted: $?"
        other "$3/arrayfs" stage commit "$1" 2>&1 || echo "refused: $?"
        chmod 666 "$1/m/index"
        other "$3/arrayfs" stage commit "$1" 2>&1
        echo "committed: $?"
        ls -A "$1/m" | grep arrayfs || :"#,
        source.path(),
    );
    let named = format!(
        "cannot write {} (owner 65533, group 65533, mode 0644)",
        m.join("index").display()
    );
    let told: Vec<&str> = said.lines().filter(|line| line.contains(&named)).collect();
    assert_eq!(told.len(), 2, "unmounted, and tried again: {said}");
    let todo = "make it writable for user 65534, then `arrayfs stage commit`";
    assert!(told.iter().all(|line| line.contains(todo)), "{said}");
    assert!(told[0].contains("m: stays staged: "), "{said}");
    let others = said.lines().filter(|line| !line.contains(&named));
    let others: Vec<&str> = others.collect();
    assert!(others[0].ends_with("Permission denied"), "{said}");
    let ends = ["closed: 1", "unmounted: 1", "refused: 1", "committed: 0"];
    let ended = others.iter().filter(|line| ends.contains(*line));
    assert!(ended.eq(&ends), "{said}");
    assert_eq!(others.last(), Some(&"committed: 0"), "{said}");
    assert_eq!(m.join("index").metadata().unwrap().uid(), THIRD);
    for (name, end) in [("val", 7), ("index", 3)] {
        let stored = std::fs::read(m.join(name)).unwrap();
        assert_eq!(stored[stored.len() - 4..], [end, 0, 0, 0], "{name}");
    }
}

/// A directory and all files in it.
fn give_to_other(directory: &Path) {
    chown(directory, Some(OTHER), Some(OTHER)).unwrap();
    for (name, ..) in files(directory) {
        chown(directory.join(name), Some(OTHER), Some(OTHER)).unwrap();
    }
}

fn give_to_third(file: &Path, mode: u32) {
    chown(file, Some(THIRD), Some(THIRD)).unwrap();
    std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
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
