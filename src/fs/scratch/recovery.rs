//! What a crash left in a store: merges that have begun are finished, logs are merged, and files
//! that were never synced are cut to what of them reached the disk.
//!
//! All files are looked at unless the mount before has ended in order ([`super::store_mark`]), at
//! their two ends first. What a crash can leave of a file, and what becomes of it:
//!
//! - a mark of a merge at its end, and all that the merge needs: that is put (again). If anything
//!   is missing, nothing of it has been put, or all;
//! - records behind its chunks: what was synced, and perhaps more, on top of the chunks;
//! - the mark of a file at rest, of a mount that has ended, or of what was synced: nothing is
//!   looked for, and a chunk that does not check is damage;
//! - the mark of a mount that has not ended, or bytes at its end that never reached the disk: it
//!   may never have been synced, and ends before the first chunk of which some bytes did not reach
//!   the disk.
//!
//! Uses [`super::store`]; used by [`super::mount`] before that is served, and by [`super::settle`].

use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::base::{ENTRY, StoredChunks, read_all};
use super::each_file::each_file;
use super::encode::EncodeOptions;
use super::file::ScratchFile;
use super::mark::{Epoch, MARK_LEN, RestMark, SeenChange, TailMark};
use super::merge::ENTRIES_EACH;
use super::redo::clear;
use super::renaming;
use super::snapshot::FlushExtent;
use super::store::ScratchStore;
use super::tail::{self, RecordKind, put_all};
use crate::container::bloscpack::layout::{self, HEADER, MARK};
use crate::disk::{DiskFile, NewAttributes, NewTime, Target};
use crate::error::{Error, Fault, Result};
use crate::memory::fallible;
use crate::source::{Source, Stat, Timestamp};
use crate::sync::Mutex;

/// What the disk writes as a whole.
const SECTOR: u64 = 512;

/// Looks at all files, which these mounts may have left. Says whether each of them is whole now.
pub(super) fn recover(store: &ScratchStore, epochs: &[Epoch]) -> bool {
    let finish = |directory: &Path, second: &OsStr| renaming::finish(store, directory, second);
    let failed = each_file(store.inner(), &finish, &|path, stat| {
        heal(store, path, stat, epochs)
    });
    for (path, e) in &failed {
        log::error!("{}: cannot be recovered: {e}", path.display());
    }
    failed.is_empty()
}

/// Merges the logs of all files. Returns what could not be merged, and why.
pub(super) fn merge_logs(store: &ScratchStore) -> Vec<(PathBuf, Error)> {
    // Renames are those of programs that are at work.
    each_file(store.inner(), &|_, _| Ok(()), &|path, stat| {
        let source = store.inner().open(path)?;
        match layout::has_log(&*source)? {
            true => open(store, path, stat)?.flush(FlushExtent::All),
            false => Ok(()),
        }
    })
}

/// Merges what one file's log has, and what a merge had begun.
pub(super) fn merge_log(store: &ScratchStore, path: &Path) -> Result<()> {
    let stat = store.inner().stat(path)?;
    finish_merge(store, &*store.disk()?.open(path, stat.id)?)?;
    open(store, path, &stat)?.flush(FlushExtent::All)
}

/// Bytes of a stored file's log, or of what a merge is to put; none if there is neither.
pub fn left_log(source: &dyn Source) -> Result<Option<u64>> {
    let len = source.len();
    if !layout::has_log(source)? {
        return Ok(None);
    }
    if let Some(mark) = tail::pending_merge(source, len)? {
        return Ok(Some(len.saturating_sub(mark.start)));
    }
    let chunks = StoredChunks::read(source, len, EncodeOptions::default().chunk_size)?;
    let (start, fingerprint) = (chunks.end(), chunks.fingerprint());
    let end = tail::whole_end(source, start, fingerprint)?;
    Ok((end > start).then(|| end - start))
}

fn heal(store: &ScratchStore, path: &Path, stat: &Stat, epochs: &[Epoch]) -> Result<()> {
    if stat.size == 0 {
        let shown = store.inner().display(path);
        log::warn!(
            "{}: was never synced, and is empty: nothing of it had been stored",
            shown.display()
        );
    }
    match stat.size == 0 || heal_stored(store, path, stat, epochs)? == 0 {
        // Other programs read no file of no bytes.
        true => open(store, path, stat)?.flush(FlushExtent::All),
        false => Ok(()),
    }
}

/// Says how many bytes are left.
fn heal_stored(store: &ScratchStore, path: &Path, stat: &Stat, epochs: &[Epoch]) -> Result<u64> {
    let mut source = store.inner().open(path)?;
    if tail::pending_merge(&*source, source.len())?.is_some() {
        finish_merge(store, &*store.disk()?.open(path, stat.id)?)?;
        source = store.inner().open(path)?;
    }
    let len = source.len();
    let mark = TailMark::read(&*source, len)?;
    let left = LeftFile {
        shown: store.inner().display(path),
        source: &*source,
        epochs,
        state: LeftState::of(&*source, epochs, mark)?,
    };
    let cut = match StoredChunks::read(&*source, len, store.files.shared.options.chunk_size) {
        Ok(chunks) => {
            clear_spare(store, (path, stat), (&*source, &chunks), mark)?;
            if has_log(&*source, &chunks)? {
                merge_left(store, path, stat)?;
                return Ok(len);
            }
            left.cut(chunks)?
        }
        Err(Error::Fault(fault)) => left.cut_broken(&fault)?,
        Err(Error::NotShown(_)) => None,
        Err(e) => return Err(e),
    };
    match cut {
        Some(cut) => cut.make(store, path, stat),
        None => Ok(len),
    }
}

/// A table was being written, or chunks have moved away from where it has room: whatever stands
/// there among the spare entries of a file of ours goes.
fn clear_spare(
    store: &ScratchStore,
    (path, stat): (&Path, &Stat),
    (source, chunks): (&dyn Source, &StoredChunks),
    mark: Option<TailMark>,
) -> Result<()> {
    let spare = chunks.spare();
    if mark.is_none() || is_clear(source, spare.clone())? {
        return Ok(());
    }
    let stored = store.disk()?.open(path, stat.id)?;
    clear(&*stored, spare)?;
    keep_mtime(store, &*stored, stat)?;
    store.disk()?.sync(Target::Open(stored.source()), true)
}

/// Whether the table says where the chunks are.
fn table_is_right(source: &dyn Source, chunks: &StoredChunks) -> Result<bool> {
    let starts = chunks.places.starts(0..chunks.chunks());
    for (at, start) in (chunks.table..).step_by(ENTRY as usize).zip(starts) {
        let mut entry = [0; ENTRY as usize];
        read_all(source, at, &mut entry)?;
        if u64::from_le_bytes(entry) != start {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether entries of a table are unknown, or a hole.
fn is_clear(source: &dyn Source, spare: Range<u64>) -> Result<bool> {
    let mut part = fallible::zeros(
        (64 << 10).min(spare.end - spare.start),
        "cannot look at a table",
    )?;
    let mut at = spare.start;
    while at < spare.end {
        match source.posix().and_then(|file| file.seek(at, false)) {
            Ok(data) if data >= spare.end => return Ok(true),
            Ok(data) => at = at.max(data - (data - spare.start) % ENTRY),
            // There is no such call, or nothing behind.
            Err(_) => {}
        }
        let n = (spare.end - at).min(part.len() as u64) as usize;
        read_all(source, at, &mut part[..n])?;
        let is_none =
            |entry: &[u8]| entry.iter().all(|b| *b == 0) || entry.iter().all(|b| *b == 0xff);
        if !part[..n].chunks(ENTRY as usize).all(is_none) {
            return Ok(false);
        }
        at += n as u64;
    }
    Ok(true)
}

/// Has what a log says in the chunks, if that is cheap.
fn merge_left(store: &ScratchStore, path: &Path, stat: &Stat) -> Result<()> {
    // What a log has is held, so one after the other.
    static MERGING: Mutex<()> = Mutex::new(());
    let _alone = MERGING.lock();
    let file = open(store, path, stat)?;
    if file.read().differs() {
        file.flush(FlushExtent::IfCheap)?;
    }
    if file.read().differs() {
        store.has_old_logs.store(true, Ordering::Release);
    }
    Ok(())
}

/// What the end of a file says of whether it was just being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftState {
    /// One of the mounts that did not end wrote it, and did not sync it.
    BeingWritten,
    /// It never reached the disk, or the file ends so.
    Unwritten,
    AtRest,
}

impl LeftState {
    fn of(source: &dyn Source, epochs: &[Epoch], mark: Option<TailMark>) -> Result<LeftState> {
        let at = source.len().saturating_sub(MARK_LEN);
        Ok(match mark {
            Some(TailMark::Rest(rest)) if epochs.contains(&rest.epoch) => LeftState::BeingWritten,
            None if never_written(source, at, source.len() - at)? => LeftState::Unwritten,
            _ => LeftState::AtRest,
        })
    }
}

/// A file that a crash has left.
struct LeftFile<'a> {
    shown: PathBuf,
    source: &'a dyn Source,
    epochs: &'a [Epoch],
    state: LeftState,
}

/// To what a file is cut: so many of these chunks.
struct LeftCut {
    chunks: StoredChunks,
    sound: u64,
}

impl LeftFile<'_> {
    /// Its header or places do not fit its bytes: one of ours, if it was being written.
    fn cut_broken(&self, why: &Fault) -> Result<Option<LeftCut>> {
        let (shown, len) = (self.shown.display(), self.source.len());
        if never_written(self.source, 0, HEADER.min(len))? {
            log::warn!("{shown}: was never synced, and is empty: {why}");
            let chunks = StoredChunks::none(EncodeOptions::default().form());
            return Ok(Some(LeftCut { chunks, sound: 0 }));
        }
        match StoredChunks::read_part(self.source, len) {
            Ok(Some(part)) => self.cut(part),
            Ok(None) | Err(Error::Fault(_)) => {
                log::warn!("{shown}: left as it is: {why}");
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// It ends before a chunk that does not check, if that did not reach the disk, or not as a
    /// whole.
    fn cut(&self, chunks: StoredChunks) -> Result<Option<LeftCut>> {
        let head = layout::read(self.source, self.source.len())?;
        let said = head.header.nchunks.unwrap_or(0);
        let may_be_ours = !chunks.has_metadata && chunks.entries > 0;
        let is_at_rest = self.state == LeftState::AtRest && !self.ends_unwritten(&chunks, said)?;
        if !may_be_ours || is_at_rest {
            return Ok(None);
        }
        let sound = sound_chunks(self.source, &chunks)?;
        if sound >= said {
            // Its chunks did, and of the table not all.
            let is_told = table_is_right(self.source, &chunks)?;
            return Ok((!is_told).then_some(LeftCut { chunks, sound }));
        }
        let shown = self.shown.display();
        if !self.did_not_reach(&chunks, sound)? {
            log::error!("{shown}: block {sound} is damaged");
            return Ok(None);
        }
        let keeps = sound.saturating_mul(chunks.form.chunk_size.into());
        log::warn!(
            "{shown}: was never synced: cut to {keeps} bytes, the rest did not reach the disk"
        );
        Ok(Some(LeftCut { chunks, sound }))
    }

    /// Whether the last of the chunks, or the mark that is written with it, did not reach the disk
    /// as a whole.
    fn ends_unwritten(&self, chunks: &StoredChunks, said: u64) -> Result<bool> {
        let (end, len) = (chunks.end(), self.source.len());
        if chunks.chunks() < said || chunks.end_early(self.source)? {
            return Ok(true);
        }
        // Its header begins with a version; without it nobody can say where the chunk ends.
        let last = chunks.chunks().checked_sub(1);
        if let Some((at, _)) = last.and_then(|last| chunks.slot(last))
            && never_written(self.source, at, 1)?
        {
            return Ok(true);
        }
        let is_ours = chunks.entries.is_multiple_of(ENTRIES_EACH);
        match len.checked_sub(end) {
            Some(0) => Ok(is_ours && end.is_multiple_of(SECTOR)),
            Some(1..MARK_LEN) => {
                let mut torn = [0; MARK.len()];
                let found = self.source.read(end, &mut torn)?;
                Ok(torn[..found] == MARK[..found])
            }
            // Chunks that the header does not speak of yet, and their mark did not reach the disk.
            Some(_) => Ok(is_ours && TailMark::read(self.source, len)?.is_none()),
            None => Ok(false),
        }
    }

    /// Whether a chunk that does not check, of a file that may have been being written, is one that
    /// did not reach the disk.
    fn did_not_reach(&self, chunks: &StoredChunks, number: u64) -> Result<bool> {
        let (at, len) = chunks.slot(number).unwrap_or((chunks.end(), HEADER));
        let is_missing = number + 1 >= chunks.chunks() && chunks.is_cut_off(self.source, at)?;
        Ok(is_missing
            || self.state == LeftState::BeingWritten
            || never_written(self.source, at, len)?
            || self.ended_at(at)?)
    }

    /// Whether the file once ended here: what was written later over its mark is not there.
    fn ended_at(&self, at: u64) -> Result<bool> {
        let mark = TailMark::read(self.source, at.saturating_add(MARK_LEN))?;
        Ok(matches!(mark, Some(TailMark::Rest(rest)) if self.epochs.contains(&rest.epoch)))
    }
}

impl LeftCut {
    /// Cuts the stored file. The header says so first. Says how many bytes are left.
    fn make(&self, store: &ScratchStore, path: &Path, stat: &Stat) -> Result<u64> {
        let stored = store.disk()?.open(path, stat.id)?;
        let mut len = 0;
        if self.sound > 0 {
            let left = self.put(store, &*stored)?;
            len = left.end();
        }
        stored.set_len(len, tail::DAEMON)?;
        keep_mtime(store, &*stored, stat)?;
        Ok(len)
    }

    fn put(&self, store: &ScratchStore, stored: &dyn DiskFile) -> Result<StoredChunks> {
        let (chunks, sound) = (&self.chunks, self.sound);
        let mut left = chunks.clone_without_places();
        left.places = chunks.places.first(sound)?;
        if sound < chunks.chunks() {
            left.last = left.form.chunk_size;
        }
        // The table may be that of other chunks than the headers lead to.
        let kept = left.places.starts(0..sound);
        let kept: Vec<u8> = kept.flat_map(u64::to_le_bytes).collect();
        put_all(stored, left.table, &kept)?;
        put_all(stored, 0, &left.header())?;
        store.disk()?.sync(Target::Open(stored.source()), true)?;
        clear(stored, left.spare())?;
        Ok(left)
    }
}

/// Recovery is no change that programs have made.
fn keep_mtime(store: &ScratchStore, stored: &dyn DiskFile, stat: &Stat) -> Result<()> {
    let to = NewAttributes {
        mtime: Some(NewTime::At(stat.mtime)),
        ..NewAttributes::default()
    };
    store
        .disk()?
        .set_attributes(Target::Open(stored.source()), &to)
}

fn open(store: &ScratchStore, path: &Path, stat: &Stat) -> Result<Arc<ScratchFile>> {
    let writer = store.disk()?.open(path, stat.id)?;
    let file = store.file(path)?;
    file.set_writer(writer);
    Ok(file)
}

/// Whether some sector of a range is zeros as far as it belongs to the range, or is missing: that
/// is what a crash leaves of bytes that did not reach the disk, and what is stored hardly ever is.
fn never_written(source: &dyn Source, at: u64, len: u64) -> Result<bool> {
    let end = at.saturating_add(len);
    let mut from = at;
    while from < end {
        let to = (from / SECTOR + 1).saturating_mul(SECTOR).min(end);
        let mut sector = [0; SECTOR as usize];
        let part = &mut sector[..(to - from) as usize];
        let found = source.read(from, part)?;
        if found < part.len() || part.iter().all(|byte| *byte == 0) {
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
    Ok(tail::whole_end(source, start, chunks.fingerprint())? > start)
}

/// Puts what a merge was to put.
fn finish_merge(store: &ScratchStore, stored: &dyn DiskFile) -> Result<()> {
    let source = stored.source();
    let stat = source.stat()?;
    let Some(merge) = tail::pending_merge(source, stat.size)? else {
        return Ok(());
    };
    let (start, fingerprint) = (merge.start, merge.fingerprint);
    tail::records(source, start, fingerprint, |record| match record.kind {
        RecordKind::Redo => {
            let mut bytes = fallible::zeros(record.len, "cannot finish a merge")?;
            read_all(source, record.carried_at, &mut bytes)?;
            put_all(stored, record.at, &bytes)
        }
        _ => Ok(()),
    })?;
    store.disk()?.sync(Target::Open(source), true)?;
    stored.set_len(merge.end, tail::DAEMON)?;
    let rest = RestMark {
        epoch: Epoch::NONE,
        fingerprint: !fingerprint,
        changed: SeenChange::new(stat.ctime, Timestamp::tick()),
    };
    put_all(stored, merge.end, &TailMark::Rest(rest).bytes())?;
    keep_mtime(store, stored, &stat)?;
    store.disk()?.sync(Target::Open(source), true)
}
