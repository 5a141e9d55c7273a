//! What lies behind the chunks of a stored file that is opened: its log, put above the chunks, or
//! the mark of a file at rest.
//!
//! Uses [`super::overlay`] and [`super::content`]; used by [`super::file`].

use std::sync::Arc;

use super::base::{StoredChunks, read_all};
use super::content::FileContent;
use super::mark::{MARK_LEN, RestMark, SeenChange, TailMark};
use super::overlay::LogOverlay;
use super::tail::{RECORD_MOST, TailLog};
use super::times::FileTimes;
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::memory::{fallible, no_memory};
use crate::source::{Source, Stat};

const DOING: &str = "cannot replay a log";

/// Chunks that are held between two looks at how much that is.
const STEP: u64 = 1024;

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
        (most_held, budget): (u64, &Arc<Budget>),
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
        let Some(overlay) = LogOverlay::read(source, &content.stored, budget)? else {
            return Ok(FoundTail::default());
        };
        put_above(content, source, &overlay, most_held)?;
        content.is_logged();
        let next = overlay.end;
        Ok(FoundTail {
            log: Some(TailLog {
                start,
                next,
                // What lies behind may be anything: it is written over.
                len: next,
                fingerprint,
            }),
            changed: overlay.changed,
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

/// Holds above the chunks what the log has.
fn put_above(
    content: &mut FileContent,
    source: &dyn Source,
    overlay: &LogOverlay,
    most_held: u64,
) -> Result<()> {
    let read = |stored: &StoredChunks, number: u64, at: usize, out: &mut [u8]| {
        let mut plain = fallible::zeros(stored.plain(number) as u64, DOING)?;
        stored.decode(source, number, &mut plain)?;
        out.copy_from_slice(&plain[at..at + out.len()]);
        Ok(())
    };
    content.set_len(overlay.least_len, &read)?;
    content.set_len(overlay.len, &read)?;
    // A step touches few chunks, so that what is held is never much more than may be.
    let step = content.chunk_size().saturating_mul(STEP);
    for (part, extent) in overlay.parts(0..overlay.len) {
        let mut at = part.start;
        while at < part.end {
            let most = extent.from.map_or(step, |_| RECORD_MOST as u64);
            let n = (part.end - at).min(most);
            match extent.from {
                None => content.zero(at..at + n, &read)?,
                Some(from) => {
                    let mut bytes = fallible::zeros(n, DOING)?;
                    read_all(source, from + (at - part.start), &mut bytes)?;
                    content.write(at, &bytes, &read)?;
                }
            }
            at += n;
            if content.held_bytes() > most_held {
                return Err(no_memory("cannot hold what a log has"));
            }
        }
    }
    Ok(())
}
