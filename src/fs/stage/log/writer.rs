//! Appends to a log, and syncs it.
//!
//! Sequence numbers are never given twice, not even for a record that could not be written. An
//! fsync should write nothing but the bytes of its records: so the file is filled with zeros ahead,
//! by more each time, and its length and blocks are there when records come. Zeros are written, not
//! allocated: the first write to an allocated range changes metadata.

mod anew;
mod file;

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::record::{self, Begin, CommitRecord, Record};
use super::{Base, LogBytes, LogSpot, LogState, log_names};
use crate::disk::reopened::ReopenedFile;
use crate::disk::{Caller, DiskFile, Place, Target};
use crate::error::{Error, Result};
use crate::memory::fallible;
use crate::records::{HEADER, NUMBERS, RecordHead, encoded, numbers};
use crate::source::Source;
use crate::stage::place::LogPlace;
use crate::stage::written_array::WrittenArray;
use file::{create_file, opened};

pub(crate) use file::try_to_create;

/// How far the file is filled with zeros ahead, the first time and at most.
const ROOM: u64 = 64 << 10;
const MOST_ROOM: u64 = 4 << 20;

/// The largest buffer that records are put together in, and the smallest, which is always there.
const BUFFER: usize = 256 << 10;
const SMALL_BUFFER: usize = 8 << 10;

/// What lies before the bytes of a record.
const FRONT: usize = HEADER + NUMBERS;

/// After a recovery sequence numbers rise by more than the number of records that a crash may have
/// left behind the end.
const RECOVERED: u64 = 1 << 32;

static ZEROS: [u8; ROOM as usize] = [0; ROOM as usize];

pub(crate) struct LogWriter {
    file: Arc<ReopenedFile>,
    name: OsString,
    owner: Caller,
    /// Where the next record goes.
    end: u64,
    /// How long the file is.
    room: u64,
    step: u64,
    sequence: u64,
    /// How much is known to be on the disk.
    synced: u64,
    /// Where the record ends that says so, if nothing came after it.
    told: u64,
    /// Whether the directory knows the file for good.
    named: bool,
    /// The bytes written since have not reached the disk, and may never: the system reports that
    /// once.
    failed: bool,
}

/// A sync under way.
pub(crate) struct SyncRound {
    file: Arc<ReopenedFile>,
    end: u64,
    named: bool,
}

/// Runs with memory for a record of so many bytes, or fewer if there is none.
pub(crate) fn with_buffer<T>(bytes: usize, with: impl FnOnce(&mut [u8]) -> T) -> T {
    let size = bytes.saturating_add(FRONT + 8).min(BUFFER);
    let large = (size > SMALL_BUFFER).then(|| fallible::zeros(size as u64, "cannot write a log"));
    match large {
        Some(Ok(mut large)) => with(&mut large),
        _ => with(&mut [0; SMALL_BUFFER]),
    }
}

impl LogWriter {
    /// Makes the log of a container, under the first of its names that can be had: a file that has
    /// one already may be another process's, or was not recovered, and is kept.
    pub(crate) fn create(
        (place, spot): (&Arc<dyn LogPlace>, &LogSpot),
        base: &Base,
    ) -> Result<LogWriter> {
        let (name, file) = create_file(spot)?;
        if log_names(&spot.container).next().as_ref() != Some(&name) {
            let path = spot.store.display(&spot.directory.join(&name));
            log::warn!(
                "{}: what is staged goes to this log, for another lies where it should; `arrayfs stage ls` tells of both",
                path.display()
            );
        }
        let mut writer = match opened((place, spot), &name, file) {
            Ok(file) => LogWriter::of(file, name, spot.owner, first_sequence()),
            Err(e) => {
                let _ = spot.disk.unlink(spot.place(&name));
                return Err(e);
            }
        };
        if let Err(e) = writer.begin(spot, base) {
            let _ = writer.remove(spot);
            return Err(e);
        }
        Ok(writer)
    }

    /// Writes the first record, which names the container; fails if the file is not its owner's
    /// alone.
    fn begin(&mut self, spot: &LogSpot, base: &Base) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let begin = Begin {
            container: spot.container.as_bytes().to_vec(),
            base: base.clone(),
        };
        self.check_owner()?;
        self.put_payload(record::BEGIN, &encoded(&begin)?)
    }

    /// Goes on with a log that was read, behind its last record.
    pub(crate) fn resume(place: &Arc<dyn LogPlace>, found: &LogState) -> Result<LogWriter> {
        let spot = &place.spot()?;
        let path = spot.directory.join(found.name());
        let seen = found.file().ok_or(Error::ReadOnly)?;
        let file = spot.disk.open(&path, seen.id)?;
        let file = opened((place, spot), found.name(), file)?;
        let mut writer = LogWriter::of(file, found.name().to_owned(), spot.owner, found.sequence());
        // Another process may have gone on with it between reading and locking.
        match writer.file.source().stat() {
            Ok(stat) if stat.file() != seen => return Err(Error::Changed { path }),
            Ok(_) | Err(Error::Unsupported) => {}
            Err(e) => return Err(e),
        }
        // Old records behind the end are never taken for new ones.
        writer.sequence = writer.sequence.saturating_add(RECOVERED);
        (writer.end, writer.room) = (found.end(), seen.size);
        writer.clear_rest(spot)?;
        Ok(writer)
    }

    /// A record that was torn, and is overwritten in part by the next one, could be whole again: so
    /// none is left behind the end.
    fn clear_rest(&self, spot: &LogSpot) -> Result<()> {
        let (log, mut at, mut cleared) = (self.bytes(), self.end, false);
        with_buffer(0, |buffer| {
            while at < self.room {
                let n = (self.room - at).min(buffer.len() as u64) as usize;
                log.read(at, &mut buffer[..n])?;
                if buffer[..n] != ZEROS[..n] {
                    self.put_all(at, &ZEROS[..n])?;
                    cleared = true;
                }
                at += n as u64;
            }
            match cleared {
                true => spot.disk.sync(Target::Open(self.file.source()), true),
                false => Ok(()),
            }
        })
    }

    fn of(file: Arc<ReopenedFile>, name: OsString, owner: Caller, sequence: u64) -> LogWriter {
        LogWriter {
            file,
            name,
            owner,
            end: 0,
            room: 0,
            step: ROOM,
            sequence,
            synced: 0,
            told: 0,
            named: false,
            failed: false,
        }
    }

    /// A log that is not the container's owner's would not be believed later.
    fn check_owner(&self) -> Result<()> {
        match self.file.source().stat() {
            Ok(stat) if stat.uid != self.owner.uid || stat.mode & 0o7777 != 0o600 => {
                let cause = io::Error::from_raw_os_error(libc::EACCES);
                Err(Error::io(
                    "a log of the stage cannot be made that is the container's owner's",
                    cause,
                ))
            }
            Ok(_) | Err(Error::Unsupported) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Of the file.
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn bytes(&self) -> LogBytes {
        LogBytes::Written(Arc::clone(&self.file))
    }

    /// Unlinks it.
    pub(crate) fn remove(&self, spot: &LogSpot) -> Result<()> {
        // A reader may still read from it.
        if let Err(e) = self.file.keep_open() {
            log::debug!("{e}");
        }
        match spot.disk.unlink(spot.place(&self.name)) {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    pub(crate) fn put(&mut self, what: &Record) -> Result<()> {
        self.put_payload(record::OTHER, &encoded(what)?)
    }

    pub(crate) fn put_commit(&mut self, what: &CommitRecord) -> Result<()> {
        self.put_payload(record::COMMIT, &encoded(what)?)
    }

    /// Tells `each` part's offset in the file, and where in the log it lies.
    pub(crate) fn put_redo(
        &mut self,
        file: u32,
        offset: u64,
        bytes: &[u8],
        each: &mut dyn FnMut(u64, Range<u64>),
    ) -> Result<()> {
        with_buffer(bytes.len(), |buffer| {
            let mut done = 0;
            while done < bytes.len() {
                let before = numbers([0, file.into(), offset + done as u64]);
                let (put, n) = self.put_bytes(record::REDO, before, buffer, |room| {
                    let n = room.len().min(bytes.len() - done);
                    room[..n].copy_from_slice(&bytes[done..][..n]);
                    n
                })?;
                each(offset + done as u64, put..put + n as u64);
                done += n;
            }
            Ok(())
        })
    }

    /// Appends an extent whose bytes `fill` gives, as many as there is room for; says where they
    /// are, and how many.
    pub(crate) fn put_extent(
        &mut self,
        layer: u64,
        array: WrittenArray,
        offset: u64,
        buffer: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<(u64, usize)> {
        let before = numbers([layer, array.0.into(), offset]);
        self.put_bytes(record::EXTENT, before, buffer, fill)
    }

    fn put_bytes(
        &mut self,
        kind: u8,
        before: [u8; NUMBERS],
        buffer: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<(u64, usize)> {
        buffer[HEADER..FRONT].copy_from_slice(&before);
        // The end is filled up to a multiple of 8.
        let room = (buffer.len() - FRONT) & !7;
        let n = fill(&mut buffer[FRONT..][..room]);
        let end = FRONT + n.next_multiple_of(8);
        buffer[FRONT + n..end].fill(0);
        self.next_head(kind).seal(NUMBERS + n, &mut buffer[..end]);
        let at = self.end + FRONT as u64;
        self.append(&buffer[..end])?;
        Ok((at, n))
    }

    fn put_payload(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let mut record = Vec::new();
        self.next_head(kind).append(&[payload], &mut record);
        self.append(&record)
    }

    /// Whose it is.
    pub(crate) fn owner(&self) -> Caller {
        self.owner
    }

    /// It is given to the container's owner.
    pub(crate) fn give(&mut self, spot: &LogSpot) -> Result<()> {
        spot.give(self.file.source())?;
        self.owner = spot.owner;
        Ok(())
    }

    fn next_head(&mut self, kind: u8) -> RecordHead {
        self.sequence += 1;
        RecordHead {
            kind,
            sequence: self.sequence,
            synced: self.synced,
        }
    }

    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.put_all(self.end, record)?;
        self.end += record.len() as u64;
        self.room = self.room.max(self.end);
        Ok(())
    }

    fn put_all(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file.put_all(at, bytes, self.owner)
    }

    /// None: everything is on the disk.
    pub(crate) fn begin_sync(&mut self) -> Result<Option<SyncRound>> {
        if self.named && (self.end == self.synced || self.end == self.told) {
            return Ok(None);
        }
        self.failed |= self.file.take_failure();
        if self.failed {
            self.write_again()?;
        }
        self.make_room();
        Ok(Some(SyncRound {
            file: Arc::clone(&self.file),
            end: self.end,
            named: self.named,
        }))
    }

    /// Says whether all of it is there.
    pub(crate) fn end_sync(&mut self, round: &SyncRound, succeeded: bool) -> bool {
        // The system may have reported a failure when the file was closed meanwhile, and not to
        // this sync.
        let succeeded = succeeded && !self.file.take_failure();
        self.failed = !succeeded;
        if succeeded {
            self.synced = self.synced.max(round.end);
            self.named = true;
            self.tell_synced();
        }
        succeeded
    }

    /// Says in the log how much of it has reached the disk, so that damage to it is not taken for a
    /// torn end. That this reaches the disk itself is left to the system.
    fn tell_synced(&mut self) {
        if self.end == self.synced && self.put(&Record::Synced).is_ok() {
            self.told = self.end;
        }
    }

    /// Zeros behind the end, if the file has grown anyway since it was last synced. That there is
    /// no space for them is no reason to fail.
    fn make_room(&mut self) {
        if self.end < self.room {
            return;
        }
        let end = self.end + self.step;
        while self.room < end {
            let n = (end - self.room).min(ROOM);
            match self.put_all(self.room, &ZEROS[..n as usize]) {
                Ok(()) => self.room += n,
                Err(_) => return,
            }
        }
        self.step = (self.step * 4).min(MOST_ROOM);
    }

    /// The system forgets that pages are dirty that it could not write, so they are made dirty
    /// again.
    fn write_again(&mut self) -> Result<()> {
        let mut at = self.synced;
        let log = self.bytes();
        with_buffer(BUFFER, |buffer| {
            while at < self.end {
                let n = (self.end - at).min(buffer.len() as u64) as usize;
                log.read(at, &mut buffer[..n])?;
                self.put_all(at, &buffer[..n])?;
                at += n as u64;
            }
            Ok(())
        })
    }
}

/// Handles that show what was staged may still read the log; another stage may write it.
impl Drop for LogWriter {
    fn drop(&mut self) {
        self.file.end();
    }
}

impl SyncRound {
    pub(crate) fn wait(&self, place: &dyn LogPlace) -> Result<()> {
        sync_file(place, self.file.source(), self.named)
    }
}

/// Returns when a file beside the container is on the disk; with its name, unless that is. A
/// directory above may be moved meanwhile: then the name is synced where it lies by then.
pub(crate) fn sync_file(place: &dyn LogPlace, file: &dyn Source, is_named: bool) -> Result<()> {
    const TRIES: usize = 8;
    let sync_at = |spot: &LogSpot| match is_named {
        true => spot.disk.sync(Target::Open(file), true),
        false => spot.disk.sync_named(file, spot.names()),
    };
    for _ in 1..TRIES {
        match sync_at(&place.spot()?) {
            Err(e) if e.is_not_found() || matches!(e, Error::Changed { .. }) => {}
            synced => return synced,
        }
    }
    sync_at(&place.spot()?)
}

impl LogSpot {
    /// The directory, whose sync is one of all names in it.
    pub(crate) fn names(&self) -> Target<'_> {
        Target::Named {
            path: &self.directory,
            id: self.directory_id,
        }
    }

    pub(crate) fn place<'a>(&'a self, name: &'a std::ffi::OsStr) -> Place<'a> {
        Place {
            directory: &self.directory,
            id: self.directory_id,
            name,
        }
    }
}

/// Random, with room for all that will come.
fn first_sequence() -> u64 {
    RandomState::new().hash_one(0) >> 2
}
