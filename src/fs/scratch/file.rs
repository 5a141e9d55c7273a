//! A file of a scratch mount that is open, or of which something is not stored yet: one for all its
//! handles.
//!
//! Locks, in their order: [`ScratchFile::io`] is held by who writes to the stored file, for as long
//! as the disk takes; the content's lock by readers while they decode, by writers while they copy,
//! and by a merge while it moves what readers may want. Programs that write take the second alone,
//! so they wait for no disk. Times are what programs have seen last: the stored file has its own
//! while something is held, and gets these with each flush.
//!
//! Uses [`super::shared`] and [`super::content`], and [`super::replay`] and [`super::relaid`] to be
//! opened; knows nothing of who stores it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::base::StoredChunks;
use super::content::FileContent;
use super::mark::RestMark;
use super::relaid;
use super::replay::FoundTail;
use super::shared::{ScratchShared, refused};
use super::tail::{DAEMON, TailLog};
use super::times::FileTimes;
use crate::cache::{ArrayIndex, BlockId, BlockKey, Decode, VersionId};
use crate::disk::{DiskFile, Target};
use crate::error::{Error, Fault, Result};
use crate::memory::Arena;
use crate::source::{FileId, Source, SourceIdentity, Stat, Timestamp};
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How long a file for which there was no space on the disk is not tried again by those who write
/// to it.
const REFUSED: Duration = Duration::from_secs(1);

/// What lies on the disk beside the chunks.
#[derive(Default)]
pub(super) struct StoredState {
    /// What is stored may have been acknowledged: it is never changed but by way of the log.
    pub(super) is_synced: bool,
    /// All that was put is known to have reached the disk.
    pub(super) is_on_disk: bool,
    pub(super) log: Option<TailLog>,
    /// What the file's end says, if it has no log.
    pub(super) rest: Option<RestMark>,
    /// Bytes of the stored file.
    pub(super) len: u64,
    /// Where the bytes that were reserved end, and those in the table.
    pub(super) reserved: u64,
    pub(super) table_reserved: u64,
    /// Its time as we left it, to notice changes of others; none while it is ours alone that
    /// changes.
    pub(super) left: Option<Timestamp>,
    /// A merge could not be finished: what is stored is neither old nor new, and the next mount
    /// finishes it.
    pub(super) is_broken: bool,
}

pub(super) struct ScratchFile {
    pub(super) id: FileId,
    /// What was opened. In a mount that only reads, a stored file that is another by now is another
    /// version.
    pub(super) opened: SourceIdentity,
    pub(super) shared: Arc<ScratchShared>,
    /// How messages call it.
    pub(super) path: PathBuf,
    pub(super) reader: Arc<dyn Source>,
    writer: OnceLock<Arc<dyn DiskFile>>,
    io: Mutex<StoredState>,
    content: RwLock<FileContent>,
    times: Mutex<FileTimes>,
    pub(super) version: VersionId,
    /// Handles.
    pub(super) opens: AtomicUsize,
    /// Bytes that the places of its chunks are charged with.
    charged_places: AtomicU64,
    /// It may have bits of its mode that a write takes away.
    pub(super) may_have_set_id: AtomicBool,
    /// What is stored was never synced: it is written as it comes.
    pub(super) streams: AtomicBool,
    /// Somebody is about to flush it.
    pub(super) is_ordered: AtomicBool,
    /// Its merge waits: it would move very much.
    pub(super) is_deferred: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// When there was no space to store it.
    refused: Mutex<Option<Instant>>,
}

impl ScratchFile {
    /// Looks at a stored file that has been opened.
    pub(super) fn open(
        shared: &Arc<ScratchShared>,
        path: &Path,
        reader: Arc<dyn Source>,
    ) -> Result<ScratchFile> {
        let stat = reader.stat()?;
        let options = &shared.options;
        let stored_len = stat.size;
        let budget = shared.cache.budget();
        let (reader, len) = match relaid::finished(&reader, stored_len, budget)? {
            Some(finished) if !shared.is_writable() => {
                let len = finished.len();
                (finished, len)
            }
            Some(_) => return Err(unfinished(0..stored_len)),
            None => (reader, stored_len),
        };
        let stored = match len {
            0 => StoredChunks::none(options.form()),
            _ => StoredChunks::read(&*reader, len, options.chunk_size)?,
        };
        let mut content = FileContent::new(stored, options.form());
        let found = FoundTail::read(&mut content, &*reader, len, (shared.cache.limit(), budget))?;
        let file = ScratchFile {
            id: stat.id,
            opened: stat.identity(),
            version: shared.next_version(),
            shared: Arc::clone(shared),
            path: path.to_owned(),
            reader,
            writer: OnceLock::new(),
            times: Mutex::new(found.times(&stat)),
            io: Mutex::new(StoredState {
                is_synced: len > 0,
                is_on_disk: false,
                log: found.log,
                rest: found.rest,
                len,
                reserved: 0,
                table_reserved: 0,
                left: Some(stat.mtime),
                is_broken: false,
            }),
            content: RwLock::new(content),
            opens: AtomicUsize::new(0),
            charged_places: AtomicU64::new(0),
            may_have_set_id: AtomicBool::new(true),
            streams: AtomicBool::new(len == 0),
            is_ordered: AtomicBool::new(false),
            is_deferred: AtomicBool::new(false),
            failure: Mutex::new(None),
            refused: Mutex::default(),
        };
        file.shared.charge(file.read().held_bytes() as i64);
        file.charge_places(&file.read().stored);
        file.check_current()?;
        Ok(file)
    }

    /// These are the stored chunks from now on.
    pub(super) fn charge_places(&self, stored: &StoredChunks) {
        let takes = stored.places.takes();
        let before = self.charged_places.swap(takes, Ordering::AcqRel);
        self.shared.places.add(takes);
        self.shared.places.remove(before);
    }

    /// Whether what was opened is what the stored file is now; in a mount that may write nobody
    /// else does.
    pub(super) fn is_current(&self, now: SourceIdentity) -> bool {
        self.shared.is_writable() || self.opened == now
    }

    /// What was read of the stored file is of the version that was opened.
    fn check_current(&self) -> Result<()> {
        if self.shared.is_writable() || self.is_current(self.reader.stat()?.identity()) {
            return Ok(());
        }
        let path = self.path.clone();
        Err(Error::Changed { path })
    }

    pub(super) fn set_writer(&self, writer: Arc<dyn DiskFile>) {
        let _ = self.writer.set(writer);
    }

    pub(super) fn writer(&self) -> Result<&dyn DiskFile> {
        let writer = self.writer.get().map(|writer| &**writer);
        writer.ok_or(Error::NotOpenForWriting)
    }

    pub(super) fn has_writer(&self) -> bool {
        self.writer.get().is_some()
    }

    pub(super) fn io(&self) -> MutexGuard<'_, StoredState> {
        self.io.lock()
    }

    /// Cuts the stored file, and with it what was reserved.
    pub(super) fn cut(&self, io: &mut StoredState, len: u64) -> Result<()> {
        io.reserved = 0;
        io.table_reserved = io.table_reserved.min(len);
        self.writer()?.set_len(len, DAEMON)
    }

    /// Has all that was written to the stored file on the disk.
    pub(super) fn sync_stored(&self, data: bool) -> Result<()> {
        let target = Target::Open(self.writer()?.source());
        self.shared.disk()?.sync(target, data)
    }

    /// Whether a thread writes to the stored file, or waits for the disk.
    pub(super) fn is_being_stored(&self) -> bool {
        self.io.is_locked()
    }

    pub(super) fn is_written_anew(&self) -> bool {
        self.read().is_written_anew()
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, FileContent> {
        self.content.read()
    }

    pub(super) fn change(&self) -> RwLockWriteGuard<'_, FileContent> {
        self.content.write()
    }

    pub(super) fn times(&self) -> MutexGuard<'_, FileTimes> {
        self.times.lock()
    }

    /// When it was changed first since it was stored, if it was; none at all while a thread is
    /// storing it.
    pub(super) fn changed_since(&self) -> Option<Option<Instant>> {
        let times = self.times.try_lock();
        times
            .filter(|_| !self.is_being_stored())
            .map(|times| times.since)
    }

    /// A program has changed its bytes.
    pub(super) fn stamp(&self) {
        self.times().stamp(self.shared.clock.now());
        self.is_deferred.store(false, Ordering::Relaxed);
    }

    /// Puts what programs see in the place of what is stored.
    pub(super) fn show(&self, stat: &mut Stat) {
        stat.size = self.read().len;
        self.times().show(stat);
        self.shared.clock.note(stat);
    }

    /// As programs see it.
    pub(super) fn stat(&self) -> Result<Stat> {
        let mut stat = self.reader.stat()?;
        self.show(&mut stat);
        Ok(stat)
    }

    /// Reads at most so many bytes: less only at the end.
    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let content = self.read();
        let read = |stored: &StoredChunks, number: u64, at: usize, out: &mut [u8]| {
            self.read_chunk(stored, number, at, out)
        };
        content
            .read(offset, buf, &read)
            .map_err(|e| e.of_container(&self.path))
    }

    /// Plain bytes of a stored chunk. A whole one that nobody has asked for is decoded into its
    /// place; one of which a part is wanted is kept for the next.
    pub(super) fn read_chunk(
        &self,
        stored: &StoredChunks,
        number: u64,
        at: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let key = self.key(number);
        let cache = &self.shared.cache;
        let plain = stored.plain(number);
        let block = match cache.cached(key) {
            Some(block) => block,
            None if at == 0 && out.len() == plain => {
                return self.decode(stored, number, out);
            }
            None => {
                let file = self;
                let decode = ChunkDecode {
                    file,
                    stored,
                    number,
                };
                cache.get(key, &decode)?
            }
        };
        let found = block.bytes().get(at..at + out.len());
        let found = found.ok_or_else(|| {
            let what = format!(
                "chunk {number} of {plain} bytes is cached with {}, at {at} {}",
                block.bytes().len(),
                out.len()
            );
            Error::Bug(what)
        })?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn decode(&self, stored: &StoredChunks, number: u64, out: &mut [u8]) -> Result<()> {
        let decoded = stored.decode(&*self.reader, number, out);
        self.check_current()?;
        decoded
    }

    fn key(&self, number: u64) -> BlockKey {
        BlockKey {
            version: self.version,
            array: ArrayIndex(0),
            block: BlockId(number),
        }
    }

    /// A chunk is stored anew: what was decoded of it before counts no more. To be called with the
    /// content's lock held alone, so that no decode of it is under way.
    pub(super) fn forget_chunk(&self, number: u64) {
        self.shared.cache.let_go(self.key(number));
    }

    /// A background flush has failed: the next fsync or close says so.
    pub(super) fn note_failure(&self, e: &Error) {
        let mut failure = self.failure.lock();
        *failure = Some(e.clone());
    }

    /// Storing it has found space on the disk, or none.
    pub(super) fn note_space<T>(&self, stored: &Result<T>) {
        let refused = matches!(stored, Err(e) if e.is_no_room());
        let mut known = self.refused.lock();
        *known = refused.then(Instant::now);
    }

    /// There was no space a moment ago: to encode everything once more would be in vain.
    pub(super) fn check_space(&self) -> Result<()> {
        let known = *self.refused.lock();
        match known.is_some_and(|at| at.elapsed() < REFUSED) {
            true => Err(refused("store", self.path.as_os_str(), libc::ENOSPC)),
            false => Ok(()),
        }
    }

    pub(super) fn take_failure(&self) -> Result<()> {
        let mut failure = self.failure.lock();
        failure.take().map_or(Ok(()), Err)
    }

    /// Bytes that are not in their chunks, at least one if anything is not; none if that is
    /// changing.
    pub(super) fn held_back(&self) -> Option<u64> {
        let content = self.content.try_read()?;
        let bytes = content.held_bytes().max(1);
        Some(if content.differs() { bytes } else { 0 })
    }

    /// Whether nothing is to be stored; false if that is changing.
    pub(super) fn has_all_stored(&self) -> bool {
        let content = self.content.try_read();
        content.is_some_and(|content| !content.differs())
    }

    pub(super) fn is_open(&self) -> bool {
        self.opens.load(Ordering::Acquire) > 0
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let held = self.read().held_bytes();
        self.shared.charge(-(held as i64));
        self.shared
            .places
            .remove(self.charged_places.load(Ordering::Acquire));
        self.shared.cache.forget(self.version);
    }
}

/// The next mount that may write finishes it.
fn unfinished(bytes: Range<u64>) -> Error {
    let fault = Fault::new("a merge has begun and is not finished; mount the store writable");
    fault.bytes(bytes).into()
}

struct ChunkDecode<'a> {
    file: &'a ScratchFile,
    stored: &'a StoredChunks,
    number: u64,
}

impl Decode for ChunkDecode<'_> {
    fn yields(&self) -> u64 {
        self.stored.plain(self.number) as u64
    }

    fn scratch(&self) -> u64 {
        0
    }

    fn decode(&self, out: &mut [u8], _scratch: Arena<'_>) -> Result<()> {
        self.file.decode(self.stored, self.number, out)
    }
}
