//! Where no log can be made, and where the disk is dead: which error is reported, and when.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::{NOBODY, ground, tree_of, tree_with};
use crate::commit::Preference;
use crate::disk::Putting;
use crate::disk::failing::{FailingDisk, Failure};
use crate::error::Error;
use crate::live::ContainerSettings;
use crate::tree::{PageCache, Tree};

fn code(e: &Error) -> Option<i32> {
    match e {
        Error::Io { cause, .. } => cause.raw_os_error(),
        _ => None,
    }
}

fn failing(source: &std::path::Path, failure: &Arc<Failure>) -> Tree {
    failing_with(source, Preference::default(), failure)
}

fn failing_with(source: &std::path::Path, commit: Preference, failure: &Arc<Failure>) -> Tree {
    let settings = ContainerSettings {
        commit,
        ..ContainerSettings::default()
    };
    tree_with(source, settings, |disk| {
        let failure = Arc::clone(failure);
        Some(Arc::new(FailingDisk { disk, failure }))
    })
}

/// Told at the close it would be too late: many programs do not listen then.
#[test]
fn where_no_log_can_be_made_opening_for_writing_is_refused() {
    for (refused, told) in [
        (libc::EPERM, Some(libc::EACCES)),
        (libc::EOPNOTSUPP, Some(libc::EACCES)),
        (libc::EROFS, Some(libc::EROFS)),
        (libc::EIO, Some(libc::EIO)),
        (libc::ENOSPC, None),
    ] {
        let directory = ground();
        let failure = Failure::new(refused);
        let tree = failing(directory.path(), &failure);
        let inode = tree.inode("one.blp/data").unwrap();
        failure.arm(1);
        let opened = tree.contents.open_for_writing(inode);
        assert_eq!(opened.as_ref().err().and_then(code), told, "{refused}");
        assert!(!failure.is_armed());
        let truncated = || tree.contents.set_len(inode, None, 100, NOBODY);
        failure.arm(1);
        assert_eq!(truncated().err().as_ref().and_then(code), told, "{refused}");
        assert!(tree.contents.open_for_writing(inode).is_ok(), "{refused}");
    }
}

/// Whether a log can be made is found out without one, where there are files without names.
#[test]
fn opening_for_writing_leaves_the_directory_as_it_is() {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let directory = ground();
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    if openat(CWD, directory.path(), flags, Mode::RUSR).is_err() {
        return;
    }
    let before = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let opened = std::fs::File::open(directory.path()).unwrap();
    opened.set_modified(before).unwrap();
    let tree = tree_of(directory.path(), |disk| disk);
    let inode = tree.inode("one.blp/data").unwrap();
    for _ in 0..3 {
        let handle = tree.contents.open_for_writing(inode).unwrap().handle;
        tree.closing.close(handle).unwrap();
    }
    assert_eq!(opened.metadata().unwrap().modified().unwrap(), before);
}

/// A change that we have half made ourselves is not taken for another process's.
#[test]
fn a_dead_disk_is_told_as_such_and_not_as_a_change() {
    let (mut deaths, mut unread) = (0, 0);
    for preference in [Preference::Replace, Preference::InPlace] {
        for call in 1.. {
            let directory = ground();
            let failure = Failure::new(libc::EIO);
            let tree = failing_with(directory.path(), preference, &failure);
            let (inode, handle) = tree.written("one.blp/data", false).unwrap();
            let how = Putting::default();
            tree.contents
                .write(inode, handle, 0, b"bytes", how, NOBODY)
                .unwrap();
            failure.die_at(call);
            let closed = tree.closing.close(handle);
            // All of it was done before, but for tidying up.
            if closed.is_ok() {
                break;
            }
            let what = format!("{preference:?}, call {call}");
            let told = |done: crate::error::Result<()>| {
                let e = done
                    .err()
                    .unwrap_or_else(|| panic!("{what}: nothing is told"));
                assert_eq!(code(&e), Some(libc::EIO), "{what}: {e}");
            };
            told(closed);
            for _ in 0..2 {
                let _ = tree.contents.write(inode, handle, 9, b"more", how, NOBODY);
                told(tree.closing.sync(inode, handle, false));
                // Only the first close commits.
                tree.closing.close(handle).unwrap();
            }
            let read = |bytes: crate::error::Result<&[u8]>| bytes.map(drop);
            let read = tree
                .reading
                .read(handle, 0, 1 << 20, PageCache::Bypassed, read);
            if read.is_err() {
                told(read);
                unread += 1;
            }
            deaths += 1;
        }
    }
    assert!(deaths > 15 && unread > 0, "{deaths}, {unread}");
}

/// As on a network file system.
#[test]
fn closing_an_ordinary_file_says_what_was_lost() {
    let directory = ground();
    let failure = Failure::new(libc::EDQUOT);
    let tree = failing(directory.path(), &failure);
    let (inode, handle) = tree.written("file", false).unwrap();
    let put = tree
        .contents
        .write(inode, handle, 0, b"some", Putting::default(), NOBODY);
    assert_eq!(put.unwrap(), 4);
    tree.closing.close(handle).unwrap();
    failure.fail_at_close();
    let closed = tree.closing.close(handle).unwrap_err();
    assert_eq!(code(&closed), Some(libc::EDQUOT));
    tree.closing.release(handle);
}
