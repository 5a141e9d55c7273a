//! Goes over all stored files of a store, several at a time: that mostly waits for the disk.
//!
//! Files of several names come one after the other, so that two threads never have one file. Used
//! by [`super::recovery`].

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::names;
use crate::error::{Error, Result};
use crate::source::{FileKind, Listed, Stat, Store};
use crate::sync::Mutex;

/// What is done to a file, by its place in the store.
pub(super) type OnFile<'a> = &'a (dyn Fn(&Path, &Stat) -> Result<()> + Sync);

/// What is done to the second name of what a rename replaces, in a directory.
pub(super) type OnSecondName<'a> = &'a dyn Fn(&Path, &OsStr) -> Result<()>;

/// So many files are looked at together, by so many threads.
const TOGETHER: usize = 4096;
const THREADS: usize = 8;

/// Goes over all stored files. Returns which of them failed, and why.
pub(super) fn each_file(
    store: &dyn Store,
    finish: OnSecondName<'_>,
    each: OnFile<'_>,
) -> Vec<(PathBuf, Error)> {
    let (mut directories, mut files) = (vec![PathBuf::new()], Vec::new());
    let mut failed = Vec::new();
    while let Some(directory) = directories.pop() {
        let mut renamings = Vec::new();
        let listed = store.list(&directory, &mut |Listed { name, kind, .. }| match kind {
            _ if names::is_renaming(name) => renamings.push(name.to_owned()),
            FileKind::Directory => directories.push(directory.join(name)),
            FileKind::File if names::unpacked(name).is_some() => files.push(directory.join(name)),
            _ => {}
        });
        if let Err(e) = listed {
            let shown = store.display(&directory);
            log::warn!("{}: not looked at: {e}", shown.display());
        }
        for second in renamings {
            if let Err(e) = finish(&directory, &second) {
                failed.push((store.display(&directory.join(second)), e));
            }
        }
        if files.len() >= TOGETHER || directories.is_empty() {
            failed.extend(together(store, &files, each));
            files.clear();
        }
    }
    failed
}

fn together(store: &dyn Store, files: &[PathBuf], each: OnFile<'_>) -> Vec<(PathBuf, Error)> {
    let next = AtomicUsize::new(0);
    let (failed, linked) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let fail = |path: &Path, done: Result<()>| {
        if let Err(e) = done {
            failed.lock().push((store.display(path), e));
        }
    };
    let work = || {
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            match store.stat(path) {
                Ok(stat) if stat.nlink > 1 => linked.lock().push(path),
                stat => fail(path, stat.and_then(|stat| each(path, &stat))),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS.min(files.len()) {
            // Where there is no thread to be had, this one does it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    for path in linked.into_inner() {
        fail(path, store.stat(path).and_then(|stat| each(path, &stat)));
    }
    failed.into_inner()
}
