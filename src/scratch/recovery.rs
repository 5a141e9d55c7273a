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
use std::sync::atomic::Ordering;

use super::base::{ENTRY, StoredChunks};
use super::disk::ScratchDisk;
use super::file::ScratchFile;
use super::flush::FlushExtent;
use super::merge::ENTRIES_EACH;
use super::names;
use super::renaming;
use super::tail::{self, RecordKind, TailMark, put_all};
use crate::container::bloscpack::layout::{self, HEADER};
use crate::disk::{Disk, DiskFile, NewAttributes, NewTime, Place, Target};
use crate::error::{Error, Fault, Result};
use crate::memory::fallible;
use crate::source::{FileKind, Source, Stat, Timestamp};

/// In the root of a store.
pub(super) const MARK_NAME: &str = ".arrayfs-scratch";

const UNCLEAN: &str = "arrayfs scratch store: being changed, or left by a crash\n";
pub(super) const CLEAN: &str = "arrayfs scratch store: left in order\n";
const WITH_LOGS: &str = "some files have logs\n";
const LONGEST: usize = UNCLEAN.len() + WITH_LOGS.len();

/// Clocks of file systems tick coarsely.
const TICK: i64 = 1;

/// Whether files may have logs that no mount has to merge at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OldLogs {
    None,
    Some,
}

impl OldLogs {
    pub(super) fn of(are_there: bool) -> OldLogs {
        match are_there {
            true => OldLogs::Some,
            false => OldLogs::None,
        }
    }
}

/// The mark of a store.
pub(super) struct StoreMark {
    file: Arc<dyn DiskFile>,
}

impl StoreMark {
    /// Opens it, or makes it. Says since when the store has been changed by a mount that did not
    /// end well, and whether files have logs of mounts that did.
    pub(super) fn open(disk: &ScratchDisk) -> Result<(StoreMark, Option<Timestamp>, OldLogs)> {
        let store = &disk.store.inner;
        let path = Path::new(MARK_NAME);
        let (file, since, logs) = match store.stat(path) {
            Ok(stat) => {
                let file = disk.inner.open(path, stat.identity.id)?;
                let mut said = [0; LONGEST];
                let found = file.source().read(0, &mut said)?;
                let said = &said[..found];
                // What says nothing was being written.
                let is_known = |what: &str| said == what.as_bytes();
                let logs = OldLogs::of(!is_known(CLEAN) && !is_known(UNCLEAN));
                let is_clean = said.starts_with(CLEAN.as_bytes());
                (file, (!is_clean).then_some(stat.identity.mtime), logs)
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
                (file, None, OldLogs::None)
            }
            Err(e) => return Err(e),
        };
        Ok((StoreMark { file }, since, logs))
    }

    /// From now on the store is changed.
    pub(super) fn begin(&self, disk: &dyn Disk, logs: OldLogs) -> Result<()> {
        self.say(disk, UNCLEAN, logs)
    }

    /// Not all that was left since then could be recovered: the next mount is to look again.
    pub(super) fn still(&self, disk: &dyn Disk, since: Timestamp) -> Result<()> {
        let to = NewAttributes {
            mtime: Some(NewTime::At(since)),
            ..NewAttributes::default()
        };
        disk.set_attributes(Target::Open(self.file.source()), &to)
    }

    /// Everything is stored, but for what these logs have.
    pub(super) fn end(&self, disk: &dyn Disk, logs: OldLogs) -> Result<()> {
        self.say(disk, CLEAN, logs)
    }

    fn say(&self, disk: &dyn Disk, what: &str, logs: OldLogs) -> Result<()> {
        let with_logs = match logs {
            OldLogs::None => "",
            OldLogs::Some => WITH_LOGS,
        };
        let line = [what, with_logs].concat();
        let source = self.file.source();
        let mut said = [0; LONGEST];
        let found = source.read(0, &mut said)?;
        if said[..found] == *line.as_bytes() {
            // On a full disk as well.
            let to = NewAttributes {
                mtime: Some(NewTime::Now),
                ..NewAttributes::default()
            };
            disk.set_attributes(Target::Open(source), &to)?;
        } else {
            put_all(&*self.file, 0, line.as_bytes())?;
            self.file.set_len(line.len() as u64, tail::DAEMON)?;
        }
        disk.sync(Target::Open(source), true)
    }
}

/// Looks at all files that have changed since then. Says whether each of them is whole now.
pub(super) fn recover(disk: &ScratchDisk, since: Timestamp) -> bool {
    let since = Timestamp {
        secs: since.secs.saturating_sub(TICK),
        ..since
    };
    let finish = |directory: &Path, second: &OsStr| renaming::finish(disk, directory, second);
    let failed = each_file(disk, &finish, &|path, stat| match stat.ctime < since {
        true => Ok(()),
        false => heal(disk, path, stat, since),
    });
    for (path, e) in &failed {
        log::error!("{}: cannot be recovered: {e}", path.display());
    }
    failed.is_empty()
}

/// Merges the logs of all files. Returns what could not be merged, and why.
pub(super) fn merge_logs(disk: &ScratchDisk) -> Vec<(PathBuf, Error)> {
    // Renames are those of programs that are at work.
    each_file(disk, &|_, _| Ok(()), &|path, stat| {
        let source = disk.store.inner.open(path)?;
        match layout::has_log(&*source)? {
            true => open(disk, path, stat)?.flush(FlushExtent::All),
            false => Ok(()),
        }
    })
}

/// Merges what one file's log has, and what a merge had begun.
pub(super) fn merge_log(disk: &ScratchDisk, path: &Path) -> Result<()> {
    let stat = disk.store.inner.stat(path)?;
    finish_merge(disk, &*disk.inner.open(path, stat.identity.id)?)?;
    open(disk, path, &stat)?.flush(FlushExtent::All)
}

/// Bytes of a file's log, or of what a merge is to put; none if there is neither.
pub(super) fn left_log(source: &dyn Source, chunk_size: u32) -> Result<Option<u64>> {
    let len = source.len();
    if !layout::has_log(source)? {
        return Ok(None);
    }
    if let Some(mark) = tail::pending_merge(source, len)? {
        return Ok(Some(len.saturating_sub(mark.start)));
    }
    let chunks = StoredChunks::read(source, len, chunk_size)?;
    let (start, fingerprint) = (chunks.end(), chunks.fingerprint());
    let end = tail::records(source, start, fingerprint, |_| Ok(()))?;
    Ok((end > start).then(|| end - start))
}

/// What is done to a file, by its place in the store.
type OnFile<'a> = &'a dyn Fn(&Path, &Stat) -> Result<()>;

/// What is done to the second name of what a rename replaces, in a directory.
type OnSecondName<'a> = &'a dyn Fn(&Path, &OsStr) -> Result<()>;

/// Goes over all stored files. Returns which of them failed, and why.
fn each_file(
    disk: &ScratchDisk,
    finish: OnSecondName<'_>,
    each: OnFile<'_>,
) -> Vec<(PathBuf, Error)> {
    let store = &*disk.store.inner;
    let (mut directories, mut failed) = (vec![PathBuf::new()], Vec::new());
    while let Some(directory) = directories.pop() {
        let (mut files, mut renamings) = (Vec::new(), Vec::new());
        let listed = store.list(&directory, &mut |name, kind| match kind {
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
        for path in files {
            let done = store.stat(&path).and_then(|stat| each(&path, &stat));
            if let Err(e) = done {
                failed.push((store.display(&path), e));
            }
        }
    }
    failed
}

fn heal(disk: &ScratchDisk, path: &Path, stat: &Stat, since: Timestamp) -> Result<()> {
    if stat.identity.size > 0 {
        heal_stored(disk, path, stat, since)?;
    }
    match disk.store.inner.stat(path)?.identity.size {
        0 => store_empty(disk, path, stat),
        _ => Ok(()),
    }
}

fn heal_stored(disk: &ScratchDisk, path: &Path, stat: &Stat, since: Timestamp) -> Result<()> {
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
        file.flush(FlushExtent::IfCheap)?;
    }
    if file.read().differs() {
        let room = &disk.store.room;
        room.has_old_logs.store(true, Ordering::Release);
    }
    Ok(())
}

/// Of a file of which nothing reached the disk: other programs read no file of no bytes.
fn store_empty(disk: &ScratchDisk, path: &Path, stat: &Stat) -> Result<()> {
    let file = open(disk, path, stat)?;
    file.times().mtime = Some(stat.identity.mtime);
    file.flush(FlushExtent::All)
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
        if !self.is_recent {
            log::warn!("{shown}: left as it is: {why}");
            return Ok(());
        }
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
        // Programs may set its time back, but only ours has such a table.
        let may_be_ours = !chunks.has_metadata
            && chunks.entries > 0
            && chunks.entries.is_multiple_of(ENTRIES_EACH);
        let was_never_synced =
            self.is_recent || may_be_ours && never_written(stored.source(), at, len)?;
        if !was_never_synced {
            log::error!("{shown}: block {sound} is damaged");
            return Ok(());
        }
        let size = chunks.form.chunk_size;
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
        // The table may be that of other chunks than the headers lead to.
        let kept = &left.at[..sound as usize];
        let kept: Vec<u8> = kept.iter().flat_map(|at| at.to_le_bytes()).collect();
        put_all(stored, left.table, &kept)?;
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
