//! The log of a file: what was synced of it and is not in its chunks yet, behind the last of them.
//!
//! Readers of Bloscpack files stop at the last chunk, so bytes behind it disturb nobody. The log is
//! a row of records ([`crate::records`]), whose sequence number is the fingerprint of the chunks
//! that they change, then zeros, which are there ahead so that an fsync need not lengthen the file,
//! then a [`TailMark`]. While a merge changes the file in place, the records are the bytes that it
//! puts (a redo), and the mark says so: from the moment when that is on the disk the file is the
//! new one, whatever becomes of the rest. A file without a log has a mark alone.
//!
//! A log is found by the mark, or behind the last chunk: a crash may have cost the mark alone.
//! Records are those up to the first that does not check; of a log they count up to the last
//! [`RecordKind::Whole`]. Used by [`super::flush`] and
//! [`super::recovery`].

use super::mark::{MARK_LEN, PendingMerge, TailMark};
use crate::disk::{Caller, DiskFile};
use crate::error::Result;
use crate::memory::fallible;
use crate::records::{BYTES, FoundRecord, RecordHead, RecordSequence, Records, numbers};
use crate::source::Source;

/// The daemon itself: it moves bytes that their owners have written.
pub(super) const DAEMON: Caller = Caller::of(0, 0);

/// The longest that a record carries: more is split.
pub(super) const RECORD_MOST: usize = 1 << 20;

/// So many zeros are there ahead at least, and at most.
const AHEAD: (u64, u64) = (16 << 10, 1 << 20);

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// Bytes of the file as programs see it.
    Data,
    /// So many zeros of it.
    Zeros,
    /// Its length from here on.
    Length,
    /// Bytes of the stored file, of a merge.
    Redo,
    /// So many bytes that the merge has put behind the file already.
    Behind,
    /// When programs last changed the file, in nanoseconds since 1970, and when that was stored.
    Changed,
    /// All records of a log since the last one of these are there: they count together or not at
    /// all.
    Whole,
}

impl RecordKind {
    const ALL: [RecordKind; 7] = [
        Self::Data,
        Self::Zeros,
        Self::Length,
        Self::Redo,
        Self::Behind,
        Self::Changed,
        Self::Whole,
    ];

    fn code(self) -> u8 {
        BYTES
            | match self {
                RecordKind::Data => 1,
                RecordKind::Zeros => 2,
                RecordKind::Length => 3,
                RecordKind::Redo => 4,
                RecordKind::Behind => 5,
                RecordKind::Changed => 6,
                RecordKind::Whole => 7,
            }
    }

    /// How many bytes follow one of this length.
    fn carries(self, len: u64) -> u64 {
        match self {
            RecordKind::Data | RecordKind::Redo => len,
            _ => 0,
        }
    }
}

/// A record that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TailRecord {
    pub(super) kind: RecordKind,
    /// Where its bytes belong, or the length.
    pub(super) at: u64,
    pub(super) len: u64,
    /// The CRC-32 of what has been put behind the file.
    pub(super) crc: u64,
    /// Where the bytes lie in the stored file that it carries.
    pub(super) carried_at: u64,
}

impl TailRecord {
    fn of(found: &FoundRecord<'_>) -> Result<TailRecord> {
        let kinds = RecordKind::ALL.into_iter();
        let ([at, len, crc], carried_at, carried) = found.bytes();
        let kind = kinds.filter(|kind| kind.carries(len) == carried);
        match kind.clone().find(|kind| kind.code() == found.kind) {
            Some(kind) if carried <= RECORD_MOST as u64 => Ok(TailRecord {
                kind,
                at,
                len,
                crc,
                carried_at,
            }),
            _ => Err(found.nonsense(found.kind)),
        }
    }

    /// Appends the stored form of a record about so many bytes, which are these if it is one of
    /// bytes.
    pub(super) fn write(
        kind: RecordKind,
        (at, len): (u64, u64),
        bytes: &[u8],
        fingerprint: u64,
        out: &mut Vec<u8>,
    ) {
        let crc = match kind {
            RecordKind::Behind => crc32fast::hash(bytes).into(),
            _ => 0,
        };
        let head = RecordHead {
            kind: kind.code(),
            sequence: fingerprint,
            synced: 0,
        };
        let carried = &bytes[..kind.carries(bytes.len() as u64) as usize];
        head.append(&[&numbers([at, len, crc]), carried], out);
    }
}

/// Calls `each` with every record from `start` on that checks, and says where the last one ends.
pub(super) fn records(
    source: &dyn Source,
    start: u64,
    fingerprint: u64,
    mut each: impl FnMut(TailRecord) -> Result<()>,
) -> Result<u64> {
    let mut records = Records::new(source, start, RecordSequence::Same(fingerprint));
    while let Some(found) = records.next()? {
        each(TailRecord::of(&found)?)?;
    }
    Ok(records.at())
}

/// Where the records of a log end that count.
pub(super) fn whole_end(source: &dyn Source, start: u64, fingerprint: u64) -> Result<u64> {
    let mut end = start;
    records(source, start, fingerprint, |record| {
        if record.kind == RecordKind::Whole {
            end = record.carried_at;
        }
        Ok(())
    })?;
    Ok(end)
}

/// Where the next record goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct TailLog {
    pub(super) start: u64,
    pub(super) next: u64,
    /// How long the file is, with the mark.
    pub(super) len: u64,
    pub(super) fingerprint: u64,
}

impl TailLog {
    /// An empty one behind chunks that end at `start`, in a file of so many bytes.
    pub(super) fn begin(start: u64, fingerprint: u64) -> TailLog {
        TailLog {
            start,
            next: start,
            len: start,
            fingerprint,
        }
    }

    /// Bytes of its records.
    pub(super) fn bytes(&self) -> u64 {
        self.next - self.start
    }

    /// Writes records behind those there are, with one call, and that these are all. They are not
    /// synced.
    pub(super) fn append(&mut self, file: &dyn DiskFile, records: &mut Vec<u8>) -> Result<()> {
        TailRecord::write(RecordKind::Whole, (0, 0), &[], self.fingerprint, records);
        let end = self.next.saturating_add(records.len() as u64);
        if end.saturating_add(MARK_LEN) <= self.len {
            put_all(file, self.next, records)?;
            self.next = end;
            return Ok(());
        }
        let ahead = self.bytes().clamp(AHEAD.0, AHEAD.1);
        let len = end.saturating_add(ahead + MARK_LEN).next_multiple_of(4096);
        let mark = TailMark::Log {
            start: self.start,
            fingerprint: self.fingerprint,
        };
        let before_mark = (len - self.next - MARK_LEN) as usize;
        let mut bytes = fallible::room_for(before_mark + 64, "cannot write a log")?;
        bytes.extend_from_slice(records);
        bytes.resize(before_mark, 0);
        bytes.extend_from_slice(&mark.bytes());
        put_all(file, self.next, &bytes)?;
        (self.next, self.len) = (end, len);
        Ok(())
    }
}

/// Writes all bytes, or fails.
pub(super) fn put_all(file: &dyn DiskFile, at: u64, bytes: &[u8]) -> Result<()> {
    file.put_all(at, bytes, DAEMON)
}

/// The merge that a file's mark speaks of, if all that it needs is there. One that lacks something
/// has not begun to change the file, or is over: then the mark means nothing.
pub(super) fn pending_merge(source: &dyn Source, len: u64) -> Result<Option<PendingMerge>> {
    let mark = TailMark::read(source, len)?;
    let Some(TailMark::Redo(merge)) = mark.filter(|_| len >= MARK_LEN) else {
        return Ok(None);
    };
    // Pieces do not overlap, so all of them together are no more than the file.
    let (mut is_whole, mut left) = (merge.end <= merge.start, merge.start);
    let end = records(source, merge.start, merge.fingerprint, |record| {
        let end = record.at.checked_add(record.len);
        is_whole &= end.is_some_and(|end| end <= merge.start) && record.len <= left;
        left = left.saturating_sub(record.len);
        if record.kind == RecordKind::Behind && is_whole {
            is_whole = u64::from(crc_of(source, record.at, record.len)?) == record.crc;
        }
        Ok(())
    })?;
    Ok((is_whole && end == len - MARK_LEN).then_some(merge))
}

fn crc_of(source: &dyn Source, at: u64, len: u64) -> Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut buf = fallible::zeros(len.min(RECORD_MOST as u64), "cannot check a merge")?;
    let mut done = 0;
    while done < len {
        let n = (len - done).min(RECORD_MOST as u64) as usize;
        if source.read(at + done, &mut buf[..n])? < n {
            break;
        }
        hasher.update(&buf[..n]);
        done += n as u64;
    }
    Ok(hasher.finalize())
}
