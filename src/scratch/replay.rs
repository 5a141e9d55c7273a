//! What lies behind the chunks of a stored file that is opened: its log, put above the chunks, or
//! the mark of a file at rest.
//!
//! Used by [`super::file`].

use super::base::{MOST_CHUNKS, StoredChunks};
use super::content::FileContent;
use super::mark::{MARK_LEN, RestMark, SeenChange, TailMark};
use super::tail::{self, RecordKind, TailLog};
use super::times::FileTimes;
use crate::error::{Fault, Result};
use crate::memory::fallible;
use crate::source::{Source, Stat};

/// What a log holds, cuts and holds again is at most so many times what it may hold.
const REGROWN: u64 = 8;

#[derive(Default)]
pub(super) struct FoundTail {
    pub(super) log: Option<TailLog>,
    pub(super) rest: Option<RestMark>,
    /// What either says of the time of change.
    changed: Option<SeenChange>,
}

impl FoundTail {
    /// Of a file of so many bytes. `most_held`: bytes of a log that may be held.
    pub(super) fn read(
        content: &mut FileContent,
        source: &dyn Source,
        len: u64,
        most_held: u64,
    ) -> Result<FoundTail> {
        let (start, fingerprint) = (content.stored.end(), content.stored.fingerprint());
        if len <= start {
            return Ok(FoundTail::default());
        }
        if len == start + MARK_LEN
            && let Some(TailMark::Rest(rest)) = TailMark::read(source, len)?
            && rest.fingerprint == fingerprint
        {
            return Ok(FoundTail {
                rest: Some(rest),
                changed: Some(rest.changed),
                log: None,
            });
        }
        let (next, changed) = replay(content, source, most_held)?;
        if next == start {
            return Ok(FoundTail::default());
        }
        content.is_logged();
        Ok(FoundTail {
            log: Some(TailLog {
                start,
                next,
                // What lies behind may be anything: it is written over.
                len: next,
                fingerprint,
            }),
            changed,
            rest: None,
        })
    }

    /// Those that programs see.
    pub(super) fn times(&self, stat: &Stat) -> FileTimes {
        let seen = self.changed.and_then(|changed| changed.seen(stat.ctime));
        FileTimes {
            ctime: seen.map(|seen| (seen, Some(stat.ctime))),
            stored: self.changed,
            ..FileTimes::default()
        }
    }
}

/// Puts what the log behind the chunks holds above them. Says where it ends.
fn replay(
    content: &mut FileContent,
    source: &dyn Source,
    most_held: u64,
) -> Result<(u64, Option<SeenChange>)> {
    let (start, fingerprint) = (content.stored.end(), content.stored.fingerprint());
    let read = |stored: &StoredChunks, number: u64, at: usize, out: &mut [u8]| {
        let mut plain = fallible::zeros(stored.plain(number) as u64, "cannot replay a log")?;
        stored.decode(source, number, &mut plain)?;
        out.copy_from_slice(&plain[at..at + out.len()]);
        Ok(())
    };
    let most = content.chunk_size().saturating_mul(MOST_CHUNKS);
    let (mut grown, mut changed) = (0u64, None);
    let next = tail::whole_end(source, start, fingerprint)?;
    tail::records(source, start, fingerprint, |record| {
        if record.carried_at > next {
            return Ok(());
        }
        if record.kind == RecordKind::Changed {
            changed = Some(SeenChange::of_numbers([record.at, record.len]));
            return Ok(());
        }
        let end = record.at.checked_add(record.len);
        if end.is_none_or(|end| end > most) {
            let fault = Fault::new("a log speaks of more than a file can have");
            return Err(fault.found(record.at).into());
        }
        let before = content.held_bytes();
        match record.kind {
            RecordKind::Data => content.write(record.at, record.bytes, &read),
            RecordKind::Zeros => content.zero(record.at..record.at + record.len, &read),
            RecordKind::Length => content.set_len(record.at, &read),
            _ => Ok(()),
        }?;
        grown = grown.saturating_add(content.held_bytes().saturating_sub(before));
        match content.held_bytes() > most_held || grown > most_held.saturating_mul(REGROWN) {
            true => Err(crate::memory::no_memory("cannot hold what a log has")),
            false => Ok(()),
        }
    })?;
    Ok((next, changed))
}
