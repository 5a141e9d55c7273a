//! What a crash left in a store: merges that have begun are finished, logs are merged, and files
//! that were never synced are cut to what of them reached the disk.
//!
//! A mark in the root of the store says since when a mount has been changing it; when that has
//! ended well it says so. After a crash only files that have changed since are looked at. What a
//! crash can leave of a file, and what becomes of it:
//!
//! - a mark of a merge at its end: all records of that are on the disk, and are put (again);
//! - records behind its chunks: what was synced, and perhaps more, on top of the chunks;
//! - an empty log behind its chunks: it was synced as it is, and whatever does not check is damage;
//! - nothing behind its chunks: it may never have been synced; it ends before the first chunk that
//!   does not check.
//!
//! Used by [`super::ScratchMount`] before a mount is served.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::base::{StoredChunks, read_all};
use super::disk::ScratchDisk;
use super::file::ScratchFile;
use super::flush::FlushExtent;
use super::names;
use super::tail::{self, RecordKind, TailMark, put_all};
use crate::disk::{Disk, DiskFile, Place, Putting, Target};
use crate::error::{Error, Result};
use crate::memory::fallible;
use crate::source::{FileKind, Source, Stat, Timestamp};

/// In the root of a store.
pub(super) const MARK_NAME: &str = ".arrayfs-scratch";

const UNCLEAN: &[u8] = b"arrayfs scratch store: being changed, or left by a crash\n";
const CLEAN: &[u8] = b"arrayfs scratch store: left in order\n";

/// Clocks of file systems tick coarsely.
const TICK: i64 = 1;

/// The mark of a store.
pub(super) struct StoreMark {
    file: Arc<dyn DiskFile>,
}

impl StoreMark {
    /// Opens it, or makes it. Says since when the store has been changed by a mount that did not
    /// end well.
    pub(super) fn open(disk: &ScratchDisk) -> Result<(StoreMark, Option<Timestamp>)> {
        let store = &disk.store.inner;
        let path = Path::new(MARK_NAME);
        let (file, since) = match store.stat(path) {
            Ok(stat) => {
                let file = disk.inner.open(path, stat.identity.id)?;
                let mut said = [0; UNCLEAN.len()];
                let found = file.source().read(0, &mut said)?;
                let is_clean = said[..found] == *CLEAN;
                (file, (!is_clean).then_some(stat.identity.mtime))
            }
            Err(e) if e.is_not_found() => {
                let root = Path::new("");
                let id = store.stat(root)?.identity.id;
                let place = Place {
                    directory: root,
                    id,
                    name: OsStr::new(MARK_NAME),
                };
                let file = disk.inner.create(place, 0o600, tail::DAEMON)?;
                disk.inner
                    .sync_named(file.source(), Target::Named { path: root, id })?;
                (file, None)
            }
            Err(e) => return Err(e),
        };
        Ok((StoreMark { file }, since))
    }

    /// From now on the store is changed.
    pub(super) fn begin(&self, disk: &dyn Disk) -> Result<()> {
        self.say(disk, UNCLEAN)
    }

    /// Everything is stored.
    pub(super) fn end(&self, disk: &dyn Disk) -> Result<()> {
        self.say(disk, CLEAN)
    }

    fn say(&self, disk: &dyn Disk, what: &[u8]) -> Result<()> {
        self.file.set_len(0, tail::DAEMON)?;
        self.file.put(0, what, Putting::default(), tail::DAEMON)?;
        disk.sync(Target::Open(self.file.source()), true)
    }
}

/// Looks at all files that have changed since then.
pub(super) fn recover(disk: &ScratchDisk, since: Timestamp) -> Result<()> {
    let since = Timestamp {
        secs: since.secs.saturating_sub(TICK),
        ..since
    };
    let store = &*disk.store.inner;
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let mut files = Vec::new();
        store.list(&directory, &mut |name, kind| match kind {
            FileKind::Directory => directories.push(directory.join(name)),
            FileKind::File if names::unpacked(name).is_some() => files.push(directory.join(name)),
            _ => {}
        })?;
        for path in files {
            let stat = store.stat(&path)?;
            if stat.ctime < since || stat.identity.size == 0 {
                continue;
            }
            if let Err(e) = heal(disk, &path, &stat) {
                log::error!(
                    "{}: cannot be recovered: {e}",
                    store.display(&path).display()
                );
            }
        }
    }
    Ok(())
}

fn heal(disk: &ScratchDisk, path: &Path, stat: &Stat) -> Result<()> {
    let stored = disk.inner.open(path, stat.identity.id)?;
    finish_merge(disk, &*stored)?;
    let shown = disk.store.inner.display(path);
    let source = stored.source();
    let len = source.stat()?.identity.size;
    let mark = TailMark::read(source, len)?;
    let chunk_size = disk.store.room.options.chunk_size;
    match StoredChunks::read(source, len, chunk_size) {
        Ok(chunks) if mark.is_some_and(|mark| mark.fingerprint == chunks.fingerprint()) => {}
        Ok(chunks) => {
            let sound = sound_chunks(source, &chunks)?;
            if sound < chunks.chunks() && !has_log(source, &chunks)? {
                let keeps = sound.saturating_mul(chunks.chunk_size.into());
                let lost = chunks.len().saturating_sub(keeps);
                log::warn!(
                    "{}: was never synced: cut to {keeps} bytes, the last {lost} did not reach the disk",
                    shown.display()
                );
                return cut(disk, path, stat, keeps);
            }
        }
        Err(Error::Fault(fault)) => {
            log::warn!(
                "{}: was never synced, and is empty: {fault}",
                shown.display()
            );
            stored.set_len(0, tail::DAEMON)?;
            return Ok(());
        }
        Err(e) => return Err(e),
    }
    let file = open(disk, path, stat)?;
    if file.read().differs() {
        file.flush(FlushExtent::All)?;
    }
    Ok(())
}

fn open(disk: &ScratchDisk, path: &Path, stat: &Stat) -> Result<Arc<ScratchFile>> {
    let writer = disk.inner.open(path, stat.identity.id)?;
    let file = disk.store.file(path)?;
    file.set_writer(writer);
    Ok(file)
}

fn cut(disk: &ScratchDisk, path: &Path, stat: &Stat, len: u64) -> Result<()> {
    let file = open(disk, path, stat)?;
    let refuse = |_: &StoredChunks, _, _, _: &mut [u8]| Err(Error::Unsuitable);
    file.change().set_len(len, &refuse)?;
    file.flush(FlushExtent::All)
}

/// How many chunks check, from the first on.
fn sound_chunks(source: &dyn Source, chunks: &StoredChunks) -> Result<u64> {
    for number in 0..chunks.chunks() {
        let mut plain = fallible::zeros(chunks.plain(number) as u64, "cannot check a chunk")?;
        match chunks.decode(source, number, &mut plain) {
            Ok(()) => {}
            Err(Error::Fault(_)) => return Ok(number),
            Err(e) => return Err(e),
        }
    }
    Ok(chunks.chunks())
}

fn has_log(source: &dyn Source, chunks: &StoredChunks) -> Result<bool> {
    let start = chunks.end();
    let end = tail::records(source, start, chunks.fingerprint(), |_| Ok(()))?;
    Ok(end > start)
}

/// Puts what a merge was to put.
fn finish_merge(disk: &ScratchDisk, stored: &dyn DiskFile) -> Result<()> {
    let source = stored.source();
    let len = source.stat()?.identity.size;
    let Some(mark) = TailMark::read(source, len)?.filter(|mark| mark.is_redo) else {
        return Ok(());
    };
    let whole = tail::records(source, mark.start, mark.fingerprint, |_| Ok(()))?;
    if whole != len - tail::MARK_LEN {
        return Err(tail::broken_redo(mark.start, len));
    }
    tail::records(
        source,
        mark.start,
        mark.fingerprint,
        |record| match record.kind {
            RecordKind::Redo => put_all(stored, record.at, record.bytes),
            _ => Ok(()),
        },
    )?;
    disk.inner.sync(Target::Open(source), true)?;
    stored.set_len(mark.end, tail::DAEMON)?;
    // What was acknowledged before stays recognised as that.
    let mut head = [0; 1];
    read_all(source, 0, &mut head)?;
    let empty = TailMark {
        is_redo: false,
        start: mark.end,
        ..mark
    };
    put_all(stored, mark.end, &empty.bytes())?;
    disk.inner.sync(Target::Open(source), true)
}
