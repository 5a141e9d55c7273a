//! Files in the directories of containers that are no part of them: whatever step a daemon comes to
//! its end at, none is lost.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::made::hidden;
use super::*;
use crate::tree::InUse;

const NOTES: &[u8] = b"notes of somebody";

/// A tree in which the kernel has looked around.
fn looking(source: &Path) -> Tree {
    let tree = tree_of(source, |disk| disk);
    tree.shown(ROOT, "");
    tree
}

/// A tree whose disk stops at the n-th call from a moment on.
fn stoppable(source: &Path) -> (Tree, Arc<Failure>) {
    let failure = Failure::new(libc::EIO);
    let tree = tree_of(source, |disk| {
        let failure = Arc::clone(&failure);
        Arc::new(FailingDisk { disk, failure })
    });
    (tree, failure)
}

fn errno(done: Result<()>) -> Option<i32> {
    match done {
        Err(Error::Io { cause, .. }) => cause.raw_os_error(),
        Err(e) => panic!("{e}"),
        Ok(()) => None,
    }
}

impl Tree {
    pub(super) fn text(&self, path: &str) -> Option<Vec<u8>> {
        let open = self.reading.open(self.inode(path).ok()?).unwrap();
        let text = self
            .reading
            .read(open.handle, 0, 1 << 16, PageCache::Used, |bytes| {
                bytes.unwrap().to_vec()
            });
        self.closing.release(open.handle);
        Some(text)
    }
}

#[test]
fn a_file_that_is_put_into_a_container_is_a_file_like_any_other() {
    let directory = ground();
    let tree = looking(directory.path());
    let one = tree.inode("one.blp").unwrap();
    let own = tree.names(one);
    tree.puts("one.blp/notes", NOTES).unwrap();
    tree.puts("one.blp/.hidden", b"as well").unwrap();
    tree.renames("file", "one.blp/file", Renaming::Over)
        .unwrap();
    // Looks like a container, and is none here.
    tree.renames("two.blp/data", "one.blp/data.old", Renaming::Over)
        .unwrap_err();
    let container = std::fs::read(directory.path().join("two.blp")).unwrap();
    tree.puts("one.blp/inner.blp", &container[1..]).unwrap();
    let inner = directory.path().join(".one.blp.arrayfs-files/inner.blp");
    std::fs::write(inner, &container).unwrap();
    let mut all = own.clone();
    all.extend([".hidden", "file", "inner.blp", "notes"].map(String::from));
    all.sort();
    for next in [true, false] {
        assert_eq!(tree.names(one), all);
        let again = tree_on(directory.path(), |disk| next.then_some(disk));
        assert_eq!(again.names(again.inode("one.blp").unwrap()), all);
        assert_eq!(again.text("one.blp/notes").as_deref(), Some(NOTES));
        assert_eq!(again.text("one.blp/inner.blp"), Some(container.clone()));
    }
    // It can be moved out again, and has its container's kind then.
    tree.renames("one.blp/inner.blp", "inner.blp", Renaming::Over)
        .unwrap();
    tree.renames("one.blp/notes", "one.blp/renamed", Renaming::NoReplace)
        .unwrap();
    assert_eq!(tree.text("one.blp/renamed").as_deref(), Some(NOTES));
    for name in ["renamed", ".hidden", "file"] {
        assert_eq!(hidden(directory.path()), [".one.blp.arrayfs-files"]);
        tree.removing.unlink(one, OsStr::new(name)).unwrap();
    }
    assert_eq!(tree.names(one), own);
    assert!(hidden(directory.path()).is_empty());
}

#[test]
fn only_files_can_be_put_into_the_directory_of_a_container_that_is_a_file() {
    let directory = ground();
    let tree = looking(directory.path());
    let (kind, mode, device) = (SpecialKind::Fifo, 0o644, 0);
    let target = OsStr::new("file");
    for what in [
        NewEntry::Directory { mode: 0o755 },
        NewEntry::Symlink { target },
        NewEntry::Special { kind, mode, device },
    ] {
        assert_eq!(errno(tree.makes("one.blp/other", what)), Some(libc::EPERM));
    }
    let (parent, name) = tree.parent("one.blp/link").unwrap();
    let linked = tree.making.link(tree.inode("file").unwrap(), parent, name);
    assert_eq!(errno(linked.map(drop)), Some(libc::EPERM));
    for from in ["d", "empty", "two.blp", "matrix"] {
        let moved = tree.renames(from, "one.blp/moved", Renaming::NoReplace);
        assert_eq!(errno(moved), Some(libc::EPERM), "{from}");
    }
    for name in ["views", "arrays.json", "metadata.json", "error.txt"] {
        let path = format!("one.blp/{name}");
        tree.renames("file", &path, Renaming::Over).unwrap_err();
        tree.puts(&path, NOTES).unwrap_err();
    }
    tree.makes("one.blp/file", NewEntry::File { mode: 0o600 })
        .unwrap();
    assert_eq!(hidden(directory.path()), [".one.blp.arrayfs-files"]);
}

#[test]
fn a_container_is_removed_when_no_other_file_is_left() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.puts("one.blp/notes", NOTES).unwrap();
    let one = tree.inode("one.blp").unwrap();
    for name in tree.names(one) {
        if name != "notes" && name != "views" {
            tree.removing.unlink(one, OsStr::new(&name)).unwrap();
        }
    }
    let name = OsStr::new("one.blp");
    let removed = tree.removing.remove_directory(ROOT, name);
    assert_eq!(errno(removed), Some(libc::ENOTEMPTY));
    assert_eq!(tree.names(one), ["notes"]);
    tree.removing.unlink(one, OsStr::new("notes")).unwrap();
    tree.removing.remove_directory(ROOT, name).unwrap();
    assert!(hidden(directory.path()).is_empty());
    assert!(!directory.path().join("one.blp").exists());
}

/// Wherever a move stops, each container has its files in the next mount.
#[test]
fn whichever_step_a_move_stops_at_files_stay_with_their_containers() {
    type Move = (&'static str, Renaming, &'static [&'static str]);
    let moves: [Move; 5] = [
        ("three.blp", Renaming::NoReplace, &["one"]),
        ("d/three.blp", Renaming::Over, &["one"]),
        ("two.blp", Renaming::Over, &["one"]),
        ("two.blp", Renaming::Exchange, &["one", "two"]),
        ("d", Renaming::Exchange, &["one"]),
    ];
    let mut steps = 0;
    for (to, how, with_files) in moves {
        for call in 1.. {
            let directory = ground();
            let (tree, failure) = stoppable(directory.path());
            let mut containers = Vec::new();
            for name in with_files {
                let path = format!("{name}.blp");
                tree.puts(&format!("{path}/notes"), name.as_bytes())
                    .unwrap();
                let inode = directory.path().join(path).metadata().unwrap().ino();
                containers.push((inode, name));
            }
            tree.shown(ROOT, "");
            failure.die_at(call);
            let moved = tree.renames("one.blp", to, how);
            let done = !failure.has_died();
            assert!(!done || moved.is_ok(), "{to}, call {call}: {moved:?}");
            drop(tree);
            let next = tree_of(directory.path(), |disk| disk);
            let at = ["one.blp", "two.blp", "three.blp", "d", "d/three.blp"];
            for path in at {
                // A look into any of them finishes the move.
                let _ = next.text(&format!("{path}/data"));
            }
            for (inode, name) in containers {
                let is_it = |path: &&str| {
                    let found = directory.path().join(path).metadata();
                    found.is_ok_and(|found| found.ino() == inode)
                };
                let path = at.into_iter().find(is_it).expect("the container");
                let notes = next.text(&format!("{path}/notes"));
                let what = format!("{path}: {how:?} to {to}, call {call}");
                assert_eq!(notes.as_deref(), Some(name.as_bytes()), "{what}");
            }
            // The announcement of a move that came to nothing belongs to no container.
            let mut left = hidden(directory.path());
            let is_nobodys = |name: &str| !done && name.ends_with("-move");
            left.retain(|name| !name.ends_with("-files") && !is_nobodys(name));
            assert!(left.is_empty(), "{left:?}");
            steps += 1;
            if done {
                break;
            }
        }
    }
    assert!(steps > 30, "{steps}");
}

#[test]
fn a_container_with_files_is_not_replaced() {
    let directory = ground();
    let tree = looking(directory.path());
    tree.puts("two.blp/notes", NOTES).unwrap();
    tree.inode("matrix/val").unwrap();
    for from in ["one.blp", "matrix"] {
        let replaced = tree.renames(from, "two.blp", Renaming::Over);
        assert_eq!(errno(replaced), Some(libc::ENOTEMPTY), "{from}");
    }
    assert_eq!(tree.text("two.blp/notes").as_deref(), Some(NOTES));
    // The other way round they go where it goes.
    tree.renames("two.blp", "one.blp", Renaming::Over).unwrap();
    assert_eq!(tree.text("one.blp/notes").as_deref(), Some(NOTES));
    assert_eq!(hidden(directory.path()), [".one.blp.arrayfs-files"]);
}

/// What is no array is moved out of the drafts before these go.
#[test]
fn whichever_step_packing_stops_at_what_is_no_array_is_kept() {
    let mut steps = 0;
    for call in 1.. {
        let directory = ground();
        let (tree, failure) = stoppable(directory.path());
        let new = tree.puts_container().unwrap();
        tree.puts("new.blp/notes", NOTES).unwrap();
        tree.puts("new.blp/.config", b"dot").unwrap();
        failure.die_at(call);
        let _ = tree.closing.sync_directory(new, false);
        let done = !failure.has_died();
        drop(tree);
        let next = tree_of(directory.path(), |disk| disk);
        let what = format!("call {call}");
        assert_eq!(next.text("new.blp/notes").as_deref(), Some(NOTES), "{what}");
        next.containers().packing.pack_quiet(Duration::ZERO);
        assert!(
            next.containers().commit_all(InUse::Ignored).is_empty(),
            "{what}"
        );
        assert_eq!(next.text("new.blp/notes").as_deref(), Some(NOTES), "{what}");
        let dot = next.text("new.blp/.config");
        assert_eq!(dot.as_deref(), Some(&b"dot"[..]), "{what}");
        assert!(
            next.text("new.blp/data")
                .unwrap()
                .starts_with(b"what is put")
        );
        assert_eq!(
            hidden(directory.path()),
            [".new.blp.arrayfs-files"],
            "{what}"
        );
        steps += 1;
        if done {
            break;
        }
    }
    assert!(steps > 10, "{steps}");
}

#[test]
fn what_somebody_else_owns_or_others_may_enter_is_not_believed() {
    use std::os::unix::fs::PermissionsExt;
    let directory = ground();
    let planted = directory.path().join(".one.blp.arrayfs-files");
    std::fs::create_dir(&planted).unwrap();
    std::fs::write(planted.join("data.old"), "planted").unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&planted, open).unwrap();
    let tree = tree_of(directory.path(), |disk| disk);
    assert!(tree.text("one.blp/data.old").is_none());
    let put = tree.puts("one.blp/notes", NOTES);
    assert!(put.is_err_and(|e| e.is_already_there()));
    assert_eq!(std::fs::read(planted.join("data.old")).unwrap(), b"planted");
}

#[test]
fn a_file_gives_way_to_an_array_of_its_name() {
    let directory = ground();
    let tree = looking(directory.path());
    tree.puts("one.blp/other", NOTES).unwrap();
    tree.puts("one.blp/data~0", b"taken").unwrap();
    drop(tree);
    let added = directory.path().join(".one.blp.arrayfs-files");
    std::fs::rename(added.join("other"), added.join("data")).unwrap();
    let next = tree_of(directory.path(), |disk| disk);
    assert_eq!(next.text("one.blp/data~1").as_deref(), Some(NOTES));
    assert_eq!(next.text("one.blp/data~0").as_deref(), Some(&b"taken"[..]));
    assert_ne!(next.text("one.blp/data").as_deref(), Some(NOTES));
}
