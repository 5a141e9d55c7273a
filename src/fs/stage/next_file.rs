//! The next file: what a container's only file is going to be, begun while its arrays are written.
//!
//! An array whose bytes lie in one piece of the file ([`StoredRun`]) need not be held in memory
//! until the commit, which would only write it to such a place: what is written of it goes there at
//! once. The rest of the file is written by the commit that takes it. It lies beside the container
//! under a name of its own ([`super::log::next_name`]), never without a log, which refers to its
//! bytes by their checksums: so a crash leaves the bytes, or what is told from them. Made by
//! [`super::Stage`], written by its writers, taken by `commit`, and read through layers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use std::ops::Range;

use super::log::{FoundNext, LogSpot, next_name, sync_file};
use super::place::LogPlace;
use crate::array::byte_order::{turn, turn_to};
use crate::array::stored_run::StoredRun;
use crate::disk::{Caller, DiskFile};
use crate::error::{Error, Result};
use crate::memory::fallible;
use crate::records::read_all;
use crate::source::{FileId, Source};
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

const DOING: &str = "cannot use a file that was begun";

/// Bytes that are checked, and turned around, at once: of these the processor's cache has all.
const STEP: usize = 256 << 10;
const TURNED: usize = 64 << 10;

/// A checksum of so many bytes is worth a thread.
const IN_PARTS: u64 = if cfg!(test) { 64 } else { 4 << 20 };

/// The disk begins to write so much as soon as it is there.
const WRITEBACK: u64 = 2 << 20;

/// Most bytes to which one record refers.
pub(super) const REFERRED_AT_ONCE: u64 = 64 << 20;

/// So many are open at once, of all containers.
const MOST: usize = 32;

static OPEN: AtomicUsize = AtomicUsize::new(0);

pub struct NextFile {
    file: NextBytes,
    /// Whether bytes may be put there; shared by those who do.
    gate: RwLock<bool>,
    /// The commit under way makes it the container.
    taken: AtomicBool,
    /// The log refers to bytes that may not be on the disk.
    unsynced: AtomicBool,
    /// Whether the directory knows it for good.
    named: AtomicBool,
    /// Bytes have not reached the disk, and may never: the system reports that once.
    failed: AtomicBool,
}

enum NextBytes {
    Begun(Arc<dyn DiskFile>, Caller),
    Found(Arc<dyn Source>),
}

/// As long as somebody holds this, nobody refers to bytes that are being put.
pub(super) type PuttingGuard<'a> = RwLockReadGuard<'a, bool>;

impl NextFile {
    /// Begins one beside a container; none if there are too many, or another one lies there.
    pub(super) fn begin(spot: &LogSpot) -> Result<Option<Arc<NextFile>>> {
        if OPEN.load(Ordering::Relaxed) >= MOST {
            return Ok(None);
        }
        let name = next_name(&spot.container);
        let file = match spot.disk.create(spot.place(&name), 0o600, spot.owner) {
            Err(e) if e.is_already_there() => return Ok(None),
            file => file?,
        };
        let begun = NextBytes::Begun(file, spot.owner);
        Ok(Some(NextFile::new(begun, true)))
    }

    /// One that a daemon before has left, to be read.
    pub(super) fn found(source: Arc<dyn Source>) -> Arc<NextFile> {
        NextFile::new(NextBytes::Found(source), false)
    }

    /// The same for the stage that goes on with the log. It is put to no more: it may hold bytes
    /// that no layer knows.
    pub(super) fn resume(spot: &LogSpot, found: &FoundNext) -> Result<Arc<NextFile>> {
        let path = spot.directory.join(found.name(&spot.container));
        let file = match spot.disk.open(&path, found.source.id()) {
            // A commit that had taken it has given it the mode of the container.
            Err(e) if e.is_permission_denied() => NextBytes::Found(Arc::clone(&found.source)),
            file => NextBytes::Begun(file?, spot.owner),
        };
        let next = NextFile::new(file, false);
        next.is_referred_to();
        Ok(next)
    }

    fn new(file: NextBytes, is_open: bool) -> Arc<NextFile> {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Arc::new(NextFile {
            file,
            gate: RwLock::new(is_open),
            taken: AtomicBool::new(false),
            unsynced: AtomicBool::new(false),
            named: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        })
    }

    pub(super) fn source(&self) -> &dyn Source {
        match &self.file {
            NextBytes::Begun(file, _) => file.source(),
            NextBytes::Found(source) => &**source,
        }
    }

    /// To put bytes there; none if that is over.
    pub(super) fn enter(&self) -> Option<PuttingGuard<'_>> {
        Some(self.gate.read()).filter(|is_open| **is_open)
    }

    /// Nobody puts bytes there until this is dropped.
    pub(super) fn alone(&self) -> RwLockWriteGuard<'_, bool> {
        self.gate.write()
    }

    /// Puts shown bytes of an array, whole elements, where they are stored.
    pub(super) fn put(
        &self,
        _held: &PuttingGuard<'_>,
        run: &StoredRun,
        (at, bytes): (u64, &[u8]),
    ) -> Result<()> {
        let NextBytes::Begun(file, owner) = &self.file else {
            return Err(Error::ReadOnly);
        };
        let place = run.place(&(at..at.saturating_add(bytes.len() as u64)));
        match run.turned {
            0 | 1 => file.put_all(place.start, bytes, *owner)?,
            turned => {
                let mut room = fallible::zeros(bytes.len().min(TURNED) as u64, DOING)?;
                let mut to = place.start;
                for part in bytes.chunks(TURNED) {
                    let room = &mut room[..part.len()];
                    turn_to(part, room, turned.into());
                    file.put_all(to, room, *owner)?;
                    to = to.saturating_add(part.len() as u64);
                }
            }
        }
        // Of a sequence, what lies before the last boundary.
        let begun = place.start - place.start % WRITEBACK..place.end - place.end % WRITEBACK;
        if !begun.is_empty() {
            file.begin_writeback(begun);
        }
        Ok(())
    }

    /// Bytes of an array, as they are shown.
    pub(super) fn read(&self, run: &StoredRun, at: u64, out: &mut [u8]) -> Result<()> {
        read(self.source(), run, at, out)
    }

    pub(super) fn checksum(&self, run: &StoredRun, range: &Range<u64>) -> Result<u32> {
        checksum(self.source(), run, range)
    }

    /// The log says of bytes that they are there: they have to be on the disk before it is.
    pub(super) fn is_referred_to(&self) {
        self.unsynced.store(true, Ordering::Release);
    }

    /// Returns when the bytes to which the log refers are on the disk.
    pub(super) fn sync(&self, place: &dyn LogPlace) -> Result<()> {
        if !self.unsynced.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let again = match self.failed.load(Ordering::Acquire) {
            // The commit under way writes to it, and is going to fail.
            true if self.is_taken() => Err(not_on_the_disk()),
            true => self.write_again(),
            false => Ok(()),
        };
        let is_named = self.named.load(Ordering::Acquire);
        let synced = again.and_then(|()| sync_file(place, self.source(), is_named));
        self.failed.store(synced.is_err(), Ordering::Release);
        match &synced {
            Ok(()) => self.named.store(true, Ordering::Release),
            Err(_) => self.is_referred_to(),
        }
        synced
    }

    /// The system forgets that pages are dirty that it could not write, so they are made dirty
    /// again.
    fn write_again(&self) -> Result<()> {
        let NextBytes::Begun(file, owner) = &self.file else {
            return Err(Error::ReadOnly);
        };
        let _alone = self.alone();
        let (mut at, len) = (0, file.source().stat()?.size);
        let mut room = fallible::zeros(STEP as u64, DOING)?;
        while at < len {
            let n = (len - at).min(STEP as u64) as usize;
            read_all(file.source(), at, &mut room[..n])?;
            file.put_all(at, &room[..n], *owner)?;
            at += n as u64;
        }
        Ok(())
    }

    /// For the commit that makes it the container: nothing is put there any more by anybody else.
    /// None if another one had it, or it was only found: then it holds more than the layer knows;
    /// or if bytes of it may never reach the disk.
    pub fn take(&self) -> Option<Arc<dyn DiskFile>> {
        let mut is_open = self.alone();
        let was_open = std::mem::replace(&mut *is_open, false);
        let NextBytes::Begun(file, _) = &self.file else {
            return None;
        };
        let is_sound = was_open && !self.failed.load(Ordering::Acquire);
        is_sound.then(|| {
            self.taken.store(true, Ordering::Release);
            Arc::clone(file)
        })
    }

    /// That commit came to nothing: the layer goes on reading from it.
    pub fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// That commit has synced it, or failed to. An error, too, if another sync has been told that
    /// bytes of it may never reach the disk.
    pub fn note_synced(&self, synced: Result<()>) -> Result<()> {
        if synced.is_err() {
            self.failed.store(true, Ordering::Release);
            self.is_referred_to();
        }
        synced?;
        match self.failed.load(Ordering::Acquire) {
            true => Err(not_on_the_disk()),
            false => Ok(()),
        }
    }

    pub fn id(&self) -> FileId {
        self.source().id()
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }
}

impl Drop for NextFile {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

fn not_on_the_disk() -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::EIO);
    Error::io("cannot sync a file that was begun", cause)
}

fn read(source: &dyn Source, run: &StoredRun, at: u64, out: &mut [u8]) -> Result<()> {
    let range = at..at.saturating_add(out.len() as u64);
    let whole = run.elements(&range);
    let place = run.place(&whole);
    if whole == range {
        read_all(source, place.start, out)?;
        turn(out, run.turned.into());
        return Ok(());
    }
    let mut room = fallible::zeros(whole.end - whole.start, DOING)?;
    read_all(source, place.start, &mut room)?;
    turn(&mut room, run.turned.into());
    let skip = (at - whole.start) as usize;
    out.copy_from_slice(&room[skip..][..out.len()]);
    Ok(())
}

/// Of a range of an array as it is shown, and of nothing beside it: a commit may write the rest of
/// an element. Of one that is long, its halves at the same time.
pub(super) fn checksum(source: &dyn Source, run: &StoredRun, range: &Range<u64>) -> Result<u32> {
    let len = range.end - range.start;
    if len < IN_PARTS {
        return hash(source, run, range.clone()).map(crc32fast::Hasher::finalize);
    }
    let middle = range.start + len / 2;
    let hash = |range: Range<u64>| hash(source, run, range);
    let (first, second) = std::thread::scope(|threads| {
        let other = std::thread::Builder::new();
        let second = other.spawn_scoped(threads, || hash(middle..range.end));
        let first = hash(range.start..middle);
        let ended = || Error::Bug("a checksum has not ended".into());
        let second = match second {
            Ok(second) => second.join().map_err(|_| ended()).flatten(),
            // There may be as many threads as there can be.
            Err(_) => hash(middle..range.end),
        };
        (first, second)
    });
    let (mut first, second) = (first?, second?);
    first.combine(&second);
    Ok(first.finalize())
}

fn hash(source: &dyn Source, run: &StoredRun, range: Range<u64>) -> Result<crc32fast::Hasher> {
    let len = usize::try_from(range.end - range.start).unwrap_or(STEP);
    let mut room = fallible::zeros(len.min(STEP) as u64, DOING)?;
    let (mut crc, mut at) = (crc32fast::Hasher::new(), range.start);
    while at < range.end {
        let n = (range.end - at).min(room.len() as u64) as usize;
        read(source, run, at, &mut room[..n])?;
        crc.update(&room[..n]);
        at += n as u64;
    }
    Ok(crc)
}
