//! The log of a file: what was synced of it and is not in its chunks yet, behind the last of them.
//!
//! Readers of Bloscpack files stop at the last chunk, so bytes behind it disturb nobody. The log is
//! a row of records, each with a checksum of its own and the fingerprint of the chunks that it
//! changes, then zeros, which are there ahead so that an fsync need not lengthen the file, then a
//! [`TailMark`]. While a merge changes the file in place, the records are the bytes that it puts (a
//! redo), and the mark says so: from the moment when that is on the disk the file is the new one,
//! whatever becomes of the rest. A file without a log has a mark alone.
//!
//! A log is found by the mark, or behind the last chunk: a crash may have cost the mark alone.
//! Records are those up to the first that does not check; of a log they count up to the last
//! [`RecordKind::Whole`]. Used by [`super::flush`] and
//! [`super::recovery`].

use super::mark::{MARK_LEN, TailMark, checksum, number};
use crate::container::bloscpack::layout::RECORD;
use crate::disk::{Caller, DiskFile};
use crate::error::Result;
use crate::memory::fallible;
use crate::source::Source;

/// The daemon itself: it moves bytes that their owners have written.
pub(super) const DAEMON: Caller = Caller::of(0, 0);

/// Bytes of a record before what it carries.
const RECORD_HEAD: usize = 40;

/// The longest that a record carries: more is split.
pub(super) const RECORD_MOST: usize = 1 << 20;

/// So many zeros are there ahead at least, and at most.
const AHEAD: (u64, u64) = (16 << 10, 1 << 20);

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// Bytes of the file as programs see it.
    Data,
    /// So many zeros of it; the record carries none.
    Zeros,
    /// Its length from here on.
    Length,
    /// Bytes of the stored file, of a merge.
    Redo,
    /// So many bytes that the merge has put behind the file already; it carries their CRC-32.
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
        match self {
            RecordKind::Data => 1,
            RecordKind::Zeros => 2,
            RecordKind::Length => 3,
            RecordKind::Redo => 4,
            RecordKind::Behind => 5,
            RecordKind::Changed => 6,
            RecordKind::Whole => 7,
        }
    }

    fn of(code: u8) -> Option<RecordKind> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// How many bytes follow one of this length.
    fn carries(self, len: u64) -> u64 {
        match self {
            RecordKind::Data | RecordKind::Redo => len,
            RecordKind::Behind => 4,
            RecordKind::Zeros | RecordKind::Length | RecordKind::Changed | RecordKind::Whole => 0,
        }
    }
}

/// A record; `bytes` are those that it carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TailRecord<'a> {
    pub(super) kind: RecordKind,
    /// Where its bytes belong, or the length.
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) bytes: &'a [u8],
    /// Where these lie in the stored file; of one that is to be written, that is not known yet.
    pub(super) carried_at: u64,
}

impl TailRecord<'_> {
    /// Appends the record's stored form.
    pub(super) fn write(&self, fingerprint: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(RECORD);
        out.extend_from_slice(&[self.kind.code(), 0, 0, 0]);
        for field in [self.at, self.len, fingerprint] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let sum = checksum(&out[start..], self.bytes);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(self.bytes);
    }
}

/// Calls `each` with every record from `start` on that checks, and says where the last one ends.
pub(super) fn records(
    source: &dyn Source,
    start: u64,
    fingerprint: u64,
    mut each: impl FnMut(TailRecord<'_>) -> Result<()>,
) -> Result<u64> {
    let mut at = start;
    loop {
        let mut head = [0; RECORD_HEAD];
        if source.read(at, &mut head)? < RECORD_HEAD {
            return Ok(at);
        }
        let (kind, len) = (RecordKind::of(head[4]), number(&head, 16));
        let Some(kind) = kind.filter(|_| head[..4] == RECORD[..]) else {
            return Ok(at);
        };
        let carried = kind.carries(len);
        if carried > RECORD_MOST as u64 || number(&head, 24) != fingerprint {
            return Ok(at);
        }
        let mut bytes = fallible::zeros(carried, "cannot read a log")?;
        let found = source.read(at + RECORD_HEAD as u64, &mut bytes)? as u64;
        let sum = checksum(&head[..32], &bytes).to_le_bytes();
        if found < carried || head[32..36] != sum {
            return Ok(at);
        }
        each(TailRecord {
            kind,
            at: number(&head, 8),
            len,
            bytes: &bytes,
            carried_at: at + RECORD_HEAD as u64,
        })?;
        at += RECORD_HEAD as u64 + carried;
    }
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
        let whole = TailRecord {
            kind: RecordKind::Whole,
            at: 0,
            len: 0,
            bytes: &[],
            carried_at: 0,
        };
        whole.write(self.fingerprint, records);
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
        let room = len - self.next - MARK_LEN;
        let mut bytes = fallible::room_for(room as usize + 64, "cannot write a log")?;
        bytes.extend_from_slice(records);
        bytes.resize(room as usize, 0);
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

/// A merge that has begun: where its records begin, their fingerprint, and how long the stored file
/// is when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PendingMerge {
    pub(super) start: u64,
    pub(super) fingerprint: u64,
    pub(super) end: u64,
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
            is_whole = crc_of(source, record.at, record.len)?.to_le_bytes() == record.bytes;
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
