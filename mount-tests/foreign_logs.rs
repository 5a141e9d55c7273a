//! What another user has put where the log of a container is to be: it is not believed, not
//! touched, and keeps nobody from writing.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::process::arrayfs;
use crate::harness::users::{OTHER, THIRD};
use crate::harness::{golden, is_root, scratch_directory};
use crate::rights::in_a_mount;

const LOG: &str = ".x.blp.arrayfs-stage";
const THEIRS: &str = "theirs";

/// What may lie there, with its mode.
#[derive(Debug, Clone, Copy)]
enum Left {
    File(u32),
    /// To a file of theirs.
    HardLink(u32),
    SymbolicLink,
}

/// 0600 is the mode of a log.
const EACH: [Left; 5] = [
    Left::File(0o600),
    Left::File(0o644),
    Left::HardLink(0o600),
    Left::HardLink(0o666),
    Left::SymbolicLink,
];

/// A source of the first user's, in which the second one could make files.
fn source(left: Left) -> TempDir {
    let source = scratch_directory();
    let at = |name: &str| source.path().join(name);
    std::fs::copy(golden("bloscpack/sources/chunk-4k.blp"), at("x.blp")).unwrap();
    for path in [source.path(), &at("x.blp")] {
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
    }
    std::fs::set_permissions(source.path(), Permissions::from_mode(0o1777)).unwrap();
    let theirs = match left {
        Left::File(_) => LOG,
        Left::HardLink(_) | Left::SymbolicLink => THEIRS,
    };
    std::fs::write(at(theirs), "not a log").unwrap();
    chown(at(theirs), Some(THIRD), Some(THIRD)).unwrap();
    if let Left::File(mode) | Left::HardLink(mode) = left {
        std::fs::set_permissions(at(theirs), Permissions::from_mode(mode)).unwrap();
    }
    match left {
        Left::File(_) => {}
        Left::HardLink(_) => std::fs::hard_link(at(THEIRS), at(LOG)).unwrap(),
        Left::SymbolicLink => {
            symlink(THEIRS, at(LOG)).unwrap();
            lchown(at(LOG), Some(THIRD), Some(THIRD)).unwrap();
        }
    }
    source
}

/// Name, inode, owner, mode and bytes.
type Theirs = (String, u64, u32, u32, Vec<u8>);

/// All but the container.
fn others(source: &Path) -> Vec<Theirs> {
    let entries = std::fs::read_dir(source).unwrap().map(Result::unwrap);
    let mut others: Vec<_> = entries
        .filter(|entry| entry.file_name() != "x.blp")
        .map(|entry| {
            let stat = entry.path().symlink_metadata().unwrap();
            let name = entry.file_name().into_string().unwrap();
            let bytes = std::fs::read(entry.path()).unwrap();
            (name, stat.ino(), stat.uid(), stat.mode(), bytes)
        })
        .collect();
    others.sort();
    others
}

/// What is stored begins with this, and nothing of theirs has changed.
fn assert_written(source: &Path, begins: &[u8], before: &[Theirs]) {
    assert_eq!(others(source), before);
    let container = source.join("x.blp");
    let stored = arrayfs(["cat".as_ref(), container.as_os_str(), "data".as_ref()]).success();
    assert_eq!(stored.stdout[..begins.len()], *begins);
    let stat = container.metadata().unwrap();
    assert_eq!(stat.uid(), OTHER);
}

/// Two words in the same place, of which the first is synced before it is closed; shows both.
const WRITES: &str = r#"
        other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        other "$3/arrayfs" mount -o rw "$1" "$2"
        trap 'other "$3/arrayfs" umount "$2"' EXIT
        data="$2/x.blp/data"
        printf synced | other dd of="$data" bs=6 conv=notrunc,fsync status=none
        other dd if="$data" bs=6 count=1 status=none; echo
        printf closed | other dd of="$data" bs=6 conv=notrunc status=none
        other dd if="$data" bs=6 count=1 status=none; echo"#;

#[test]
fn what_another_user_has_put_there_keeps_no_user_from_writing() {
    if !is_root("another user's files") {
        return;
    }
    for left in EACH {
        let source = source(left);
        let before = others(source.path());
        let shown = in_a_mount(WRITES, source.path());
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert_eq!(words, ["synced", "closed"], "{left:?}: {shown}");
        assert_written(source.path(), b"closed", &before);
    }
}

#[test]
fn what_another_user_has_put_there_keeps_root_from_nothing() {
    if !is_root("another user's files") {
        return;
    }
    for left in EACH {
        let source = source(left);
        let before = others(source.path());
        let mounted = Mounted::new(source.path(), &["rw"]);
        for (word, synced) in [(b"synced", true), (b"closed", false)] {
            let mut options = OpenOptions::new();
            let file = options.write(true).open(mounted.join("x.blp/data"));
            let file = file.unwrap_or_else(|e| panic!("{left:?}: {e}"));
            file.write_all_at(word, 0).unwrap();
            if synced {
                file.sync_all().unwrap();
            }
        }
        drop(mounted);
        assert_written(source.path(), b"closed", &before);
    }
}
