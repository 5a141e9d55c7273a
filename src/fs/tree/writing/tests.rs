//! Changes of a tree without a kernel: on a disk that fails at its n-th call, and on one that
//! writes down what is done.

mod added;
mod calls;
mod driving;
mod forgotten;
mod later;
mod little_memory;
mod made;
mod refused;
mod remembered;
mod replaced;
mod retyped;
mod waiting;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use super::super::{Cookie, HandleId, InodeId, PageCache, Settings, Tree};
use super::Hole;
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::disk::failing::{FailingDisk, Failure};
use crate::disk::local::LocalDisk;
use crate::disk::recording::{RecordingDisk, replay};
use crate::disk::{
    Allocation, Caller, Disk, NewAttributes, NewEntry, NewTime, Putting, Renaming, XattrSetting,
};
use crate::error::{Error, Result};
use crate::live::ContainerSettings;
use crate::source::local::LocalStore;
use crate::source::{FileKind, SpecialKind, Timestamp};

pub(crate) const ROOT: InodeId = InodeId::ROOT;
pub(crate) const NOBODY: Caller = Caller::of(0, 0);

/// A tree over a directory, changed through what `wrap` makes of its disk.
pub(crate) fn tree_of(source: &Path, wrap: impl FnOnce(Arc<dyn Disk>) -> Arc<dyn Disk>) -> Tree {
    tree_on(source, |disk| Some(wrap(disk)))
}

pub(crate) fn tree_on(
    source: &Path,
    disk: impl FnOnce(Arc<dyn Disk>) -> Option<Arc<dyn Disk>>,
) -> Tree {
    tree_with(source, ContainerSettings::default(), disk)
}

pub(crate) fn tree_with(
    source: &Path,
    containers: ContainerSettings,
    disk: impl FnOnce(Arc<dyn Disk>) -> Option<Arc<dyn Disk>>,
) -> Tree {
    let store = Arc::new(LocalStore::open(source, source).unwrap());
    let disk = disk(Arc::new(LocalDisk::new(Arc::clone(&store))));
    let (cache, workers) = (BlockCache::new(1 << 20), ReadAheadWorkers::new(1).unwrap());
    let settings = Settings {
        containers,
        ..Settings::default()
    };
    let (tree, _) = Tree::new(store, disk, Path::new(""), cache, workers, settings).unwrap();
    tree
}

/// Files, directories and containers of both kinds.
pub(crate) fn ground() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::create_dir_all(at.join("d/inner")).unwrap();
    std::fs::create_dir(at.join("empty")).unwrap();
    std::fs::write(at.join("file"), "what it holds").unwrap();
    std::fs::write(at.join("other"), "something else").unwrap();
    std::fs::write(at.join("d/inner/deep"), "deep").unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mount-tests/golden");
    let file = golden.join("bloscpack/sources/chunk-4k.blp");
    std::fs::copy(&file, at.join("one.blp")).unwrap();
    std::fs::copy(&file, at.join("two.blp")).unwrap();
    std::fs::create_dir(at.join("matrix")).unwrap();
    let matrix = golden.join("bpcells/sources/m-names-utf8");
    for file in std::fs::read_dir(matrix).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), at.join("matrix").join(file.file_name())).unwrap();
    }
    directory
}

type Operation = fn(&Tree) -> Result<()>;

fn new_times() -> NewAttributes {
    let at = |secs| Some(NewTime::At(Timestamp { secs, nanos: 7 }));
    NewAttributes {
        mode: Some(0o640),
        atime: at(5),
        mtime: at(-5),
        ..NewAttributes::default()
    }
}

/// Each begins on ground of its own.
const OPERATIONS: &[(&str, Operation)] = &[
    ("create", |tree| {
        let (attr, open) = tree
            .making
            .create(ROOT, OsStr::new("new"), 0o644, true, NOBODY)?;
        tree.contents.write(
            attr.inode,
            open.handle,
            3,
            b"bytes",
            Putting::default(),
            NOBODY,
        )?;
        tree.closing.sync(attr.inode, open.handle, false)?;
        tree.closing.release(open.handle);
        Ok(())
    }),
    ("write", |tree| {
        let (inode, handle) = tree.written("file", false)?;
        let append = Putting {
            append: true,
            ..Putting::default()
        };
        tree.contents
            .write(inode, handle, 0, b"at the end", append, NOBODY)?;
        tree.contents
            .write(inode, handle, 5, b"within", Putting::default(), NOBODY)?;
        tree.closing.release(handle);
        Ok(())
    }),
    ("truncate", |tree| {
        let (_, handle) = tree.written("file", true)?;
        tree.closing.release(handle);
        let (inode, attributes) = (tree.inode("other")?, NewAttributes::default());
        tree.changes
            .set_attributes(inode, None, Some(4), &attributes, NOBODY)?;
        Ok(())
    }),
    ("allocate", |tree| {
        let (inode, handle) = tree.written("file", false)?;
        let what = Allocation {
            mode: 0,
            offset: 0,
            len: 100,
        };
        tree.contents.allocate(inode, handle, what, NOBODY)?;
        assert_eq!(tree.contents.seek(inode, handle, 0, Hole::Data)?, 0);
        tree.closing.release(handle);
        Ok(())
    }),
    ("copy", |tree| {
        let (from, to) = (
            tree.reading.open(tree.inode("file")?)?,
            tree.written("other", false)?,
        );
        tree.contents
            .copy_range((from.handle, 0), (to.0, to.1, 2), 5, NOBODY)?;
        tree.closing.release(to.1);
        Ok(())
    }),
    ("make", |tree| {
        tree.makes("d/made", NewEntry::Directory { mode: 0o750 })?;
        tree.makes("d/made/file", NewEntry::File { mode: 0o600 })?;
        let target = OsStr::new("where/ever");
        tree.makes("d/made/link", NewEntry::Symlink { target })?;
        let (kind, mode, device) = (SpecialKind::Fifo, 0o644, 0);
        tree.makes("d/made/pipe", NewEntry::Special { kind, mode, device })?;
        tree.closing.sync_directory(tree.inode("d/made")?, false)
    }),
    ("link", |tree| {
        let (parent, name) = tree.parent("d/another")?;
        tree.making
            .link(tree.inode("file")?, parent, name)
            .map(drop)
    }),
    ("unlink", |tree| {
        tree.removing.unlink(ROOT, OsStr::new("file"))
    }),
    ("rmdir", |tree| {
        tree.removing.remove_directory(ROOT, OsStr::new("empty"))
    }),
    ("rename", |tree| {
        tree.renames("d/inner", "moved", Renaming::NoReplace)
    }),
    ("rename over", |tree| {
        tree.renames("file", "other", Renaming::Over)
    }),
    ("exchange", |tree| {
        tree.renames("file", "d/inner", Renaming::Exchange)
    }),
    ("rename a container", |tree| {
        tree.renames("one.blp", "d/three.blp", Renaming::Over)
    }),
    ("rename a container over another", |tree| {
        tree.inode("two.blp/data")?;
        tree.renames("one.blp", "two.blp", Renaming::Over)
    }),
    ("rename a container over a directory", |tree| {
        tree.inode("one.blp/data")?;
        tree.renames("one.blp", "empty", Renaming::Over)
    }),
    ("exchange a container", |tree| {
        tree.renames("one.blp", "matrix", Renaming::Exchange)
    }),
    ("remove a container", |tree| tree.remove_all("one.blp")),
    ("set attributes", |tree| {
        let inode = tree.inode("file")?;
        tree.changes
            .set_attributes(inode, None, None, &new_times(), NOBODY)?;
        Ok(())
    }),
    ("set attributes of a container", |tree| {
        for path in ["one.blp", "matrix"] {
            let inode = tree.inode(path)?;
            let attributes = NewAttributes {
                mode: Some(0o700),
                ..NewAttributes::default()
            };
            tree.changes
                .set_attributes(inode, None, None, &attributes, NOBODY)?;
        }
        Ok(())
    }),
    ("xattr", |tree| {
        let (inode, name) = (tree.inode("file")?, OsStr::new("user.x"));
        match tree
            .changes
            .set_xattr(inode, name, (b"value", XattrSetting::Any), &|_| true)
        {
            // Not every file system has them.
            Err(Error::Io { cause, .. }) if cause.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                Ok(())
            }
            set => {
                set?;
                assert_eq!(tree.xattrs.xattr(inode, name)?, b"value");
                tree.changes.remove_xattr(inode, name)
            }
        }
    }),
];

/// What a tree shows is what is there: as much as a tree shows that begins now.
fn assert_shows_what_is_there(tree: &Tree, source: &Path, what: &str) {
    let fresh = tree_of(source, |disk| disk);
    assert_eq!(tree.shown(ROOT, ""), fresh.shown(ROOT, ""), "{what}");
}

#[test]
fn whichever_call_fails_the_caller_is_told_and_the_tree_goes_on() {
    let mut failures = 0;
    for (name, operation) in OPERATIONS {
        for call in 1.. {
            let directory = ground();
            let failure = Failure::new(libc::EIO);
            let tree = tree_of(directory.path(), |disk| {
                let failure = Arc::clone(&failure);
                Arc::new(FailingDisk { disk, failure })
            });
            // The kernel has looked around.
            tree.shown(ROOT, "");
            failure.arm(call);
            let done = operation(&tree);
            let what = format!("{name}, call {call}");
            if failure.is_armed() {
                assert!(call > 1, "{name} calls nothing");
                done.unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_shows_what_is_there(&tree, directory.path(), &what);
                break;
            }
            failures += 1;
            let is_told = |e: &Error| matches!(e, Error::Io { cause, .. } if cause.raw_os_error() == Some(libc::EIO));
            assert!(done.as_ref().is_err_and(is_told), "{what}: {done:?}");
            assert_shows_what_is_there(&tree, directory.path(), &what);
        }
    }
    assert!(failures > 30, "{failures}");
}

#[test]
fn every_beginning_of_what_was_done_can_be_done_again() {
    for (name, operation) in OPERATIONS {
        let directory = ground();
        let recording = Arc::new(std::sync::OnceLock::new());
        let tree = tree_of(directory.path(), |disk| {
            let disk = Arc::new(RecordingDisk::new(disk));
            let _ = recording.set(Arc::clone(&disk));
            disk
        });
        // The kernel has looked around.
        tree.shown(ROOT, "");
        operation(&tree).unwrap_or_else(|e| panic!("{name}: {e}"));
        let changes = recording.get().unwrap().changes();
        assert!(!changes.is_empty(), "{name}");
        for some in 0..=changes.len() {
            let again = ground();
            replay(&changes[..some], again.path()).unwrap();
            let now = tree_of(again.path(), |disk| disk).shown(ROOT, "");
            if some == changes.len() {
                let fresh = tree_of(directory.path(), |disk| disk);
                assert_eq!(now, fresh.shown(ROOT, ""), "{name}");
            }
        }
    }
}

#[test]
fn nothing_is_changed_through_a_tree_without_a_disk() {
    let directory = ground();
    let tree = tree_on(directory.path(), |_| None);
    for (name, operation) in OPERATIONS {
        let refused = operation(&tree);
        assert!(
            matches!(refused, Err(Error::ReadOnly)),
            "{name}: {refused:?}"
        );
    }
}

/// Entries of a container cannot be made, linked or given attributes.
#[test]
fn a_container_is_no_ordinary_directory() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let array = tree.inode("one.blp/data").unwrap();
    let refused = [
        tree.making.link(array, ROOT, OsStr::new("x")).map(drop),
        tree.changes.set_xattr(
            array,
            OsStr::new("user.x"),
            (b"x", XattrSetting::Any),
            &|_| true,
        ),
    ];
    for (number, refused) in refused.iter().enumerate() {
        assert!(
            matches!(refused, Err(Error::ReadOnly)),
            "{number}: {refused:?}"
        );
    }
}

/// A container is removed when all of it is, and not before.
#[test]
fn what_was_half_removed_is_hidden() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let container = tree.inode("one.blp").unwrap();
    tree.removing.unlink(container, OsStr::new("data")).unwrap();
    assert!(tree.inode("one.blp/data").is_err_and(|e| e.is_not_found()));
    assert!(!tree.names(container).contains(&"data".to_owned()));
    let early = tree.removing.remove_directory(ROOT, OsStr::new("one.blp"));
    assert!(early.is_err(), "there is more of it");
    let stored = directory.path().join("one.blp");
    assert!(
        stored.exists()
            && tree_of(directory.path(), |disk| disk)
                .inode("one.blp/data")
                .is_ok()
    );
    tree.remove_all("one.blp").unwrap();
    assert!(!stored.exists());
    tree.remove_all("matrix").unwrap();
    assert!(!directory.path().join("matrix").exists());
}

/// The kernel checked permissions of the file that it looked up: another one is not removed.
#[test]
fn a_name_that_leads_elsewhere_is_looked_up_again() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.inode("file").unwrap();
    std::fs::write(directory.path().join("theirs"), "not to be removed").unwrap();
    std::fs::rename(
        directory.path().join("theirs"),
        directory.path().join("file"),
    )
    .unwrap();
    let removed = tree.removing.unlink(ROOT, OsStr::new("file"));
    assert!(matches!(removed, Err(Error::Changed { .. })));
    assert!(directory.path().join("file").exists());
}

/// In the mount a container is a directory that is not empty.
#[test]
fn an_empty_directory_does_not_replace_a_container() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.inode("one.blp/data").unwrap();
    tree.inode("empty").unwrap();
    let refused = tree.renames("empty", "one.blp", Renaming::Over);
    assert!(refused.is_err() && directory.path().join("one.blp").is_file());
}

/// The owner of the directory does not own other users' files in it.
#[test]
fn only_who_owns_all_files_of_a_container_changes_them() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let all = NewAttributes {
        mode: Some(0o777),
        ..NewAttributes::default()
    };
    let somebody = Caller::of(rustix::process::geteuid().as_raw() + 4711, 4711);
    for path in ["matrix", "matrix/val", "one.blp"] {
        let inode = tree.inode(path).unwrap();
        let refused = tree
            .changes
            .set_attributes(inode, None, None, &all, somebody);
        assert!(refused.is_err(), "{path}");
    }
}

/// Below a directory that is moved to and fro through the tree, no request finds nothing.
#[test]
fn who_stands_in_a_directory_that_is_moved_stays_there() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let inner = tree.inode("d/inner").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 0..400 {
                let (from, to) = [("d", "e"), ("e", "d")][round % 2];
                tree.renames(from, to, Renaming::Over).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            let look = || tree.names.lookup(inner, OsStr::new("deep"));
            assert_eq!(tree.fs.moves.retry(look).unwrap().kind, FileKind::File);
            tree.fs.moves.retry(|| tree.attributes.attr(inner)).unwrap();
            let make = || {
                tree.making.make(
                    inner,
                    OsStr::new("new"),
                    NewEntry::File { mode: 0o600 },
                    NOBODY,
                )
            };
            tree.fs.moves.retry(make).unwrap();
            tree.fs
                .moves
                .retry(|| tree.removing.unlink(inner, OsStr::new("new")))
                .unwrap();
        }
    });
}
