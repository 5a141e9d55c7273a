//! What a crash left in a store: merges that have begun are finished, logs are merged, and files
//! that were never synced are cut to what of them reached the disk.
//!
//! A mark in the root of the store says since when a mount has been changing it; when that has
//! ended well it says so. After a crash only files that have changed since are looked at. What a
//! crash can leave of a file, and what becomes of it:
//!
//! - a mark of a merge at its end, and all that the merge needs: that is put (again). If anything
//!   is
//!   missing, nothing of it has been put, or all;
//! - records behind its chunks: what was synced, and perhaps more, on top of the chunks;
//! - an empty log behind its chunks: it was synced as it is, and whatever does not check is damage;
//! - nothing behind its chunks, or a mark that was not certain yet: it may never have been synced;
//!   it
//!   ends before the first chunk that did not reach the disk. What is damaged otherwise stays.
//!
//! Used by [`super::ScratchMount`] before a mount is served.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::base::{ENTRY, StoredChunks};
use super::disk::ScratchDisk;
use super::file::ScratchFile;
use super::flush::FlushExtent;
use super::names;
use super::tail::{self, RecordKind, TailMark, put_all};
use crate::container::bloscpack::layout::HEADER;
use crate::disk::{Disk, DiskFile, NewAttributes, NewTime, Place, Putting, Target};
use crate::error::{Error, Fault, Result};
use crate::memory::fallible;
use crate::source::{FileKind, Source, Stat, Timestamp};

/// In the root of a store.
pub(super) const MARK_NAME: &str = ".arrayfs-scratch";

const UNCLEAN: &[u8] = b"arrayfs scratch store: being changed, or left by a crash\n";
pub(super) const CLEAN: &[u8] = b"arrayfs scratch store: left in order\n";

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

    /// Not all that was left since then could be recovered: the next mount is to look again.
    pub(super) fn still(&self, disk: &dyn Disk, since: Timestamp) -> Result<()> {
        let to = NewAttributes {
            mtime: Some(NewTime::At(since)),
            ..NewAttributes::default()
        };
        disk.set_attributes(Target::Open(self.file.source()), &to)
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

/// Looks at all files that have changed since then. Says whether each of them is whole now.
pub(super) fn recover(disk: &ScratchDisk, since: Timestamp) -> bool {
    let since = Timestamp {
        secs: since.secs.saturating_sub(TICK),
        ..since
    };
    let store = &*disk.store.inner;
    let (mut directories, mut all) = (vec![PathBuf::new()], true);
    while let Some(directory) = directories.pop() {
        let mut files = Vec::new();
        let listed = store.list(&directory, &mut |name, kind| match kind {
            FileKind::Directory => directories.push(directory.join(name)),
            FileKind::File if names::unpacked(name).is_some() => files.push(directory.join(name)),
            _ => {}
        });
        if let Err(e) = listed {
            log::warn!("not looked at: {e}");
        }
        for path in files {
            let healed = store.stat(&path).and_then(|stat| match stat.ctime < since {
                true => Ok(()),
                false => heal(disk, &path, &stat, since),
            });
            if let Err(e) = healed {
                let path = store.display(&path);
                log::error!("{}: cannot be recovered: {e}", path.display());
                all = false;
            }
        }
    }
    all
}

fn heal(disk: &ScratchDisk, path: &Path, stat: &Stat, since: Timestamp) -> Result<()> {
    if stat.identity.size == 0 {
        return Ok(());
    }
    let left = LeftFile {
        shown: disk.store.inner.display(path),
        stored: disk.inner.open(path, stat.identity.id)?,
        is_recent: stat.identity.mtime >= since || stat.identity.id.birth >= nanos(since),
    };
    finish_merge(disk, &*left.stored)?;
    let source = left.stored.source();
    let len = source.stat()?.identity.size;
    let mark = TailMark::read(source, len)?;
    let chunks = match StoredChunks::read(source, len, disk.store.room.options.chunk_size) {
        Ok(chunks) => chunks,
        Err(Error::Fault(fault)) => return left.cut_broken(disk, &fault),
        Err(Error::NotShown(_)) => return Ok(()),
        Err(e) => return Err(e),
    };
    let is_certain = mark.is_some_and(|mark| {
        mark.is_certain && !mark.is_redo && mark.fingerprint == chunks.fingerprint()
    });
    if !is_certain && !has_log(source, &chunks)? {
        let sound = sound_chunks(source, &chunks)?;
        if sound < chunks.chunks() {
            return left.cut(disk, &chunks, sound);
        }
    }
    let file = open(disk, path, stat)?;
    if file.read().differs() {
        file.flush(FlushExtent::All)?;
    }
    Ok(())
}

/// A file that a crash has left.
struct LeftFile {
    shown: PathBuf,
    stored: Arc<dyn DiskFile>,
    /// Its bytes have changed since, or it was made since.
    is_recent: bool,
}

impl LeftFile {
    /// Its header or places do not fit its bytes: one of ours, if it was being written.
    fn cut_broken(&self, disk: &ScratchDisk, why: &Fault) -> Result<()> {
        let (source, shown) = (self.stored.source(), self.shown.display());
        let len = source.stat()?.identity.size;
        if never_written(source, 0, HEADER)? {
            log::warn!("{shown}: was never synced, and is empty: {why}");
            return self.stored.set_len(0, tail::DAEMON);
        }
        match StoredChunks::read_part(source, len) {
            Ok(Some(part)) => self.cut(disk, &part, sound_chunks(source, &part)?),
            Ok(None) | Err(Error::Fault(_)) => {
                log::warn!("{shown}: left as it is: {why}");
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// Cuts it before a chunk that does not check, if that did not reach the disk, or not as a
    /// whole. The header says so first.
    fn cut(&self, disk: &ScratchDisk, chunks: &StoredChunks, sound: u64) -> Result<()> {
        let (stored, shown) = (&*self.stored, self.shown.display());
        let (at, len) = chunks.slot(sound).unwrap_or((chunks.end(), HEADER));
        if !self.is_recent && !never_written(stored.source(), at, len)? {
            log::error!("{shown}: block {sound} is damaged");
            return Ok(());
        }
        let size = chunks.chunk_size;
        let keeps = sound.saturating_mul(size.into());
        log::warn!(
            "{shown}: was never synced: cut to {keeps} bytes, the rest did not reach the disk"
        );
        if sound == 0 {
            return stored.set_len(0, tail::DAEMON);
        }
        let mut left = chunks.clone_without_places();
        left.at = chunks.at[..=sound as usize].to_vec();
        left.last = size;
        put_all(stored, 0, &left.header())?;
        disk.inner.sync(Target::Open(stored.source()), true)?;
        let spare = (left.entries.min(chunks.chunks() + 1)).saturating_sub(sound);
        let unused: Vec<u8> = [0xff].repeat((spare * ENTRY) as usize);
        put_all(stored, left.table + sound * ENTRY, &unused)?;
        stored.set_len(left.end(), tail::DAEMON)
    }
}

/// As times of birth are told.
fn nanos(time: Timestamp) -> u64 {
    let nanos = time.secs.wrapping_mul(1_000_000_000);
    nanos.wrapping_add(time.nanos.into()).cast_unsigned()
}

fn open(disk: &ScratchDisk, path: &Path, stat: &Stat) -> Result<Arc<ScratchFile>> {
    let writer = disk.inner.open(path, stat.identity.id)?;
    let file = disk.store.file(path)?;
    file.set_writer(writer);
    Ok(file)
}

/// Whether some sector of a range is zeros as far as it belongs to the range, or is missing: that
/// is what a crash leaves of bytes that did not reach the disk, and what is stored never is.
fn never_written(source: &dyn Source, at: u64, len: u64) -> Result<bool> {
    const SECTOR: u64 = 512;
    let mut from = at;
    while from < at + len {
        let to = (from / SECTOR + 1).saturating_mul(SECTOR).min(at + len);
        let mut sector = [0; SECTOR as usize];
        let part = &mut sector[..(to - from) as usize];
        let found = source.read(from, part)?;
        if found < part.len() || part.len() >= 16 && part.iter().all(|byte| *byte == 0) {
            return Ok(true);
        }
        from = to;
    }
    Ok(false)
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
    let Some(mark) = tail::pending_merge(source, len)? else {
        return Ok(());
    };
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
    if !mark.is_certain {
        return Ok(());
    }
    // What was acknowledged before stays recognised as that.
    let empty = TailMark {
        is_redo: false,
        start: mark.end,
        fingerprint: !mark.fingerprint,
        ..mark
    };
    put_all(stored, mark.end, &empty.bytes())?;
    disk.inner.sync(Target::Open(source), true)
}
