//! New containers on a disk that fails at its n-th call, and on one whose calls are done again up
//! to each of them.

mod groups;
mod moved;
mod packed;

use std::time::Duration;

use super::*;
use crate::tree::{InUse, PageCache};

const PLAIN: &[u8] = b"what is put into it, and then packed";
const DESCRIPTION: &[u8] = br#"{"arrays": [{"name": "data", "dtype": "int16", "shape": [3, 6]}]}"#;

const DRAFTS: &str = ".new.blp.arrayfs-drafts";

impl Tree {
    /// Makes a file with this content.
    pub(super) fn puts(&self, path: &str, content: &[u8]) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        let (attr, open) = self.making.create(parent, name, 0o644, true, NOBODY)?;
        let how = Putting::default();
        let written = self
            .contents
            .write(attr.inode, open.handle, 0, content, how, NOBODY);
        let closed = written.and_then(|_| self.closing.close(open.handle));
        self.closing.release(open.handle);
        closed
    }

    /// Makes a container and puts something into it.
    pub(super) fn puts_container(&self) -> Result<InodeId> {
        self.makes("new.blp", NewEntry::Directory { mode: 0o755 })?;
        self.puts("new.blp/data", PLAIN)?;
        self.puts("new.blp/arrays.json", DESCRIPTION)?;
        self.makes("new.blp/views", NewEntry::Directory { mode: 0o555 })?;
        self.puts("new.blp/views/data.npy", b"derived")?;
        self.inode("new.blp")
    }

    /// Sets attributes by path alone.
    fn sets(&self, path: &str, len: Option<u64>, to: NewAttributes) -> Result<()> {
        let inode = self.inode(path)?;
        self.changes
            .set_attributes(inode, None, len, &to, NOBODY)
            .map(drop)
    }

    pub(super) fn state(&self, path: &str) -> String {
        let state = self
            .xattrs
            .xattr(self.inode(path).unwrap(), OsStr::new("user.arrayfs.state"));
        String::from_utf8(state.unwrap()).unwrap()
    }

    fn is_packed(&self) -> bool {
        let names = self.names(self.inode("new.blp").unwrap());
        assert_eq!(names, ["arrays.json", "data", "metadata.json"]);
        let shape = self.xattrs.xattr(
            self.inode("new.blp/data").unwrap(),
            OsStr::new("user.arrayfs.shape"),
        );
        let content = self.content(self.inode("new.blp/data").unwrap());
        content.starts_with("36 \"what is put") && shape.is_ok_and(|shape| shape == b"[3, 6]")
    }
}

pub(super) fn hidden(source: &Path) -> Vec<String> {
    let names = std::fs::read_dir(source).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn a_new_container_shows_what_was_put_into_it_and_then_what_it_is() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let new = tree.puts_container().unwrap();
    assert_eq!(tree.names(new), ["arrays.json", "data", "views"]);
    let state = || {
        tree.xattrs
            .xattr(new, OsStr::new("user.arrayfs.state"))
            .unwrap()
    };
    assert_eq!(state(), b"staged: it is new");
    assert!(
        tree.containers()
            .packing
            .pack_quiet(Duration::from_secs(3600))
            .is_some()
    );
    assert_eq!(hidden(directory.path()), [".new.blp.arrayfs-drafts"]);
    assert_eq!(tree.containers().packing.pack_quiet(Duration::ZERO), None);
    assert!(tree.is_packed());
    assert_eq!(state(), b"clean");
    assert_eq!(
        tree.inode("new.blp").unwrap(),
        new,
        "who stands there stays there"
    );
    assert!(hidden(directory.path()).is_empty());
}

#[test]
fn as_long_as_something_in_it_is_open_it_stays_new() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let new = tree.puts_container().unwrap();
    let open = tree
        .reading
        .open(tree.inode("new.blp/views/data.npy").unwrap())
        .unwrap();
    assert_eq!(tree.containers().packing.pack_quiet(Duration::ZERO), None);
    tree.closing.sync_directory(new, false).unwrap();
    assert_eq!(tree.containers().commit_all(InUse::Spared).len(), 1);
    assert!(!hidden(directory.path()).is_empty());
    tree.closing.release(open.handle);
    tree.containers().packing.pack_quiet(Duration::ZERO);
    assert!(tree.is_packed());
}

/// However long it takes: a program that makes a directory may come back later.
#[test]
fn it_waits_for_an_array() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.makes("new.blp", DIRECTORY).unwrap();
    let new = tree.inode("new.blp").unwrap();
    for put in ["", "arrays.json", ".data.x"] {
        if !put.is_empty() {
            tree.puts(&format!("new.blp/{put}"), DESCRIPTION).unwrap();
        }
        assert_eq!(
            tree.containers().packing.pack_quiet(Duration::ZERO),
            None,
            "{put}"
        );
        tree.closing.sync_directory(new, false).unwrap();
        assert_eq!(hidden(directory.path()), [DRAFTS], "{put}");
        let named: Vec<String> = tree
            .containers()
            .commit_all(InUse::Spared)
            .into_iter()
            .map(|left| left.1)
            .collect();
        match put {
            // There is nothing to lose.
            "" => assert_eq!((tree.state("new.blp"), named.len()), ("clean".into(), 0)),
            _ => {
                assert_eq!(named, ["no array has been put into it yet"]);
                assert_eq!(tree.state("new.blp"), format!("staged: {}", named[0]));
            }
        }
    }
    assert_eq!(tree.names(new), [".data.x", "arrays.json"]);
    tree.puts("new.blp/.data.x", PLAIN).unwrap_err();
    let again = tree.written("new.blp/.data.x", true).unwrap();
    let how = Putting::default();
    tree.contents
        .write(again.0, again.1, 0, PLAIN, how, NOBODY)
        .unwrap();
    tree.closing.release(again.1);
    tree.renames("new.blp/.data.x", "new.blp/data", Renaming::Over)
        .unwrap();
    assert_eq!(tree.containers().packing.pack_quiet(Duration::ZERO), None);
    assert!(tree.is_packed());
}

/// Whichever call fails, it can be packed later, by this tree or the next one.
#[test]
fn a_disk_that_fails_once_costs_nothing() {
    let mut failures = 0;
    for call in 1.. {
        let directory = ground();
        let failure = Failure::new(libc::EIO);
        let tree = tree_of(directory.path(), |disk| {
            let failure = Arc::clone(&failure);
            Arc::new(FailingDisk { disk, failure })
        });
        let new = tree.puts_container().unwrap();
        failure.arm(call);
        let packed = tree.closing.sync_directory(new, false);
        let done = failure.is_armed();
        if !done && packed.is_err() {
            assert_eq!(
                tree.names(new),
                ["arrays.json", "data", "views"],
                "call {call}"
            );
            tree.closing.sync_directory(new, false).unwrap();
        }
        assert!(tree.is_packed(), "call {call}");
        drop(tree);
        let next = tree_of(directory.path(), |disk| disk);
        assert!(next.is_packed(), "call {call}");
        assert!(hidden(directory.path()).is_empty(), "call {call}");
        if done {
            break;
        }
        failures += 1;
    }
    assert!(failures > 10, "{failures}");
}

/// Its owner may want it back.
#[test]
fn what_another_container_has_left_is_neither_shown_nor_removed() {
    let directory = ground();
    let left = directory.path().join(DRAFTS);
    let tree = tree_of(directory.path(), |disk| disk);
    let make = || tree.makes("new.blp", NewEntry::Directory { mode: 0o755 });
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("data"), "of a container that has gone").unwrap();
    assert!(make().is_err_and(|e| e.is_already_there()));
    assert!(left.join("data").exists() && !directory.path().join("new.blp").exists());
    std::fs::remove_file(left.join("data")).unwrap();
    std::fs::remove_dir(&left).unwrap();
    std::fs::write(&left, "no directory").unwrap();
    assert!(make().is_err_and(|e| e.is_already_there()));
    std::fs::remove_file(&left).unwrap();
    // An empty directory is no loss.
    std::fs::create_dir(&left).unwrap();
    make().unwrap();
    tree.puts("new.blp/data", PLAIN).unwrap();
    tree.puts("new.blp/arrays.json", DESCRIPTION).unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    assert!(tree.is_packed());
    // Nor is what others put beside one that has something in it.
    std::fs::create_dir(&left).unwrap();
    let next = tree_of(directory.path(), |disk| disk);
    assert!(next.is_packed() && left.exists());
}

#[test]
fn a_mkdir_that_fails_leaves_nothing() {
    for call in 1.. {
        let directory = ground();
        let failure = Failure::new(libc::ENOSPC);
        let tree = tree_of(directory.path(), |disk| {
            let failure = Arc::clone(&failure);
            Arc::new(FailingDisk { disk, failure })
        });
        failure.arm(call);
        let made = tree.makes("new.blp", NewEntry::Directory { mode: 0o755 });
        if failure.is_armed() {
            assert!(call > 3, "{call}");
            return made.unwrap();
        }
        assert!(made.is_err(), "call {call}");
        assert!(tree.inode("new.blp").is_err_and(|e| e.is_not_found()));
        assert!(hidden(directory.path()).is_empty(), "call {call}");
    }
}

#[test]
fn after_a_crash_it_is_what_it_was_or_empty() {
    let directory = ground();
    let recording = Arc::new(std::sync::OnceLock::new());
    let tree = tree_of(directory.path(), |disk| {
        let disk = Arc::new(RecordingDisk::new(disk));
        let _ = recording.set(Arc::clone(&disk));
        disk
    });
    let new = tree.puts_container().unwrap();
    tree.closing.sync_directory(new, false).unwrap();
    let changes = recording.get().unwrap().changes();
    let mut packed = 0;
    for some in 0..=changes.len() {
        let again = ground();
        replay(&changes[..some], again.path()).unwrap();
        let next = tree_of(again.path(), |disk| disk);
        let Ok(new) = next.inode("new.blp") else {
            continue;
        };
        next.names(new);
        let left = next.containers().commit_all(InUse::Ignored);
        let full = next.names(new).contains(&"metadata.json".to_owned());
        match full {
            true => assert!(next.is_packed(), "{some}"),
            // The description came first, or is not whole.
            false if !left.is_empty() => continue,
            // It is new, and nothing is in it yet.
            false if next.names(new).is_empty() => {
                assert_eq!(hidden(again.path()), [DRAFTS], "{some}");
                continue;
            }
            // Without a description.
            false => {}
        }
        assert!(hidden(again.path()).is_empty(), "{some}");
        packed += u32::from(full);
    }
    assert!(packed > 5, "{packed}");
}

/// Tries again where the kernel would look the path up again.
fn again<T>(work: impl Fn() -> Result<T>) -> T {
    loop {
        match work() {
            Ok(done) => return done,
            Err(e) if e.is_not_found() || matches!(e, Error::Changed { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// A thread packs all the time: whatever is written through a handle is there afterwards.
#[test]
fn nothing_that_is_written_while_it_is_packed_is_lost() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let write = |path: &str, text: &str| {
        if tree.puts(path, text.as_bytes()).is_ok() {
            return Ok(());
        }
        let (inode, handle) = tree.written(path, true)?;
        let how = Putting::default();
        let written = tree
            .contents
            .write(inode, handle, 0, text.as_bytes(), how, NOBODY);
        let closed = written.and_then(|_| tree.closing.close(handle));
        tree.closing.release(handle);
        closed
    };
    let read = |path: &str| {
        let open = tree.reading.open(tree.inode(path)?)?;
        let text = tree
            .reading
            .read(open.handle, 0, 100, PageCache::Used, |bytes| {
                bytes.map(<[u8]>::to_vec)
            });
        tree.closing.release(open.handle);
        text
    };
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            for container in (0..30).map(|number| format!("new-{number}.blp")) {
                tree.makes(&container, NewEntry::Directory { mode: 0o755 })
                    .unwrap();
                for round in 0..6 {
                    let (path, text) = (format!("{container}/data"), format!("round {round}"));
                    again(|| write(&path, &text));
                    assert_eq!(again(|| read(&path)), text.as_bytes(), "{path}");
                }
            }
        });
        while !writer.is_finished() {
            tree.containers().packing.pack_quiet(Duration::ZERO);
        }
    });
    assert!(tree.containers().commit_all(InUse::Spared).is_empty());
    for number in 0..30 {
        let path = format!("new-{number}.blp/data");
        assert_eq!(again(|| read(&path)), b"round 5", "{path}");
    }
    assert!(hidden(directory.path()).is_empty());
}

/// A tree, and what makes its disk fail or do something else at a call.
pub(super) fn hooked(source: &Path) -> (Arc<Tree>, Arc<Failure>) {
    let failure = Failure::new(libc::EIO);
    let tree = tree_of(source, |disk| {
        let failure = Arc::clone(&failure);
        Arc::new(FailingDisk { disk, failure })
    });
    (Arc::new(tree), failure)
}

const DIRECTORY: NewEntry<'static> = NewEntry::Directory { mode: 0o755 };

#[test]
fn what_somebody_else_has_put_in_its_place_is_not_removed() {
    for draft in [false, true] {
        let directory = ground();
        let tree = tree_of(directory.path(), |disk| disk);
        tree.makes("new.blp", NewEntry::Directory { mode: 0o755 })
            .unwrap();
        if draft {
            tree.puts("new.blp/data", PLAIN).unwrap();
            let (parent, name) = tree.parent("new.blp/data").unwrap();
            tree.removing.unlink(parent, name).unwrap();
        }
        let (theirs, place) = (directory.path().join("t"), directory.path().join("new.blp"));
        std::fs::write(&theirs, b"theirs").unwrap();
        std::fs::rename(&theirs, &place).unwrap();
        let (parent, name) = tree.parent("new.blp").unwrap();
        assert!(
            tree.removing.remove_directory(parent, name).is_err(),
            "{draft}"
        );
        assert_eq!(std::fs::read(&place).unwrap(), b"theirs");
    }
}

#[test]
fn an_empty_one_is_new_in_the_next_mount() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.makes("new.blp", DIRECTORY).unwrap();
    drop(tree);
    let tree = tree_of(directory.path(), |disk| disk);
    assert!(tree.names(tree.inode("new.blp").unwrap()).is_empty());
    tree.puts("new.blp/arrays.json", DESCRIPTION).unwrap();
    drop(tree);
    let tree = tree_of(directory.path(), |disk| disk);
    let new = tree.inode("new.blp").unwrap();
    assert_eq!(tree.names(new), ["arrays.json"]);
    tree.puts("new.blp/data", PLAIN).unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    assert!(tree.is_packed());
}

/// One of no bytes is no container into which nothing has been put.
#[test]
fn an_array_of_nothing_is_there_in_the_next_mount() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.makes("new.blp", DIRECTORY).unwrap();
    tree.puts("new.blp/data", b"").unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    assert!(hidden(directory.path()).is_empty());
    drop(tree);
    let tree = tree_of(directory.path(), |disk| disk);
    let content = tree.content(tree.inode("new.blp/data").unwrap());
    assert!(content.starts_with("0 "), "{content}");
}

#[test]
fn what_follows_from_its_arrays_is_not_made_anew() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.puts_container().unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    let (parent, name) = tree.parent("new.blp/arrays.json").unwrap();
    tree.removing.unlink(parent, name).unwrap();
    let made = tree.puts("new.blp/arrays.json", DESCRIPTION);
    assert!(matches!(made, Err(Error::Computed(_))), "{made:?}");
}

#[test]
fn a_draft_can_take_the_place_of_an_array() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.puts_container().unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    tree.makes("more.blp", NewEntry::Directory { mode: 0o755 })
        .unwrap();
    tree.puts("more.blp/out", &[7; 36]).unwrap();
    let (from, to) = (
        tree.parent("more.blp/out").unwrap(),
        tree.parent("new.blp/data").unwrap(),
    );
    tree.renames.rename(from, to, Renaming::Over).unwrap();
    let content = tree.content(tree.inode("new.blp/data").unwrap());
    assert!(content.starts_with("36 \"\\u{7}\\u{7}"), "{content}");
}
