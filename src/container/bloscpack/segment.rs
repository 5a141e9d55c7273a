//! A run of chunks whose places are known: what the offsets table or the walk yields, and what is kept.
//!
//! Places are held by segments of [`SEGMENT`] chunks, a few at a time, so that a file of millions of
//! chunks takes no more memory than one of thousands. Used by [`super::table`], [`super::walk`] and
//! [`super::chunks`].

use std::sync::OnceLock;

use super::layout::{CHUNK_HEADER, Layout};
use crate::codec::blosc::ChunkHeader;
use crate::error::{Fault, Result};
use crate::source::Source;

/// Chunks of a segment.
pub(super) const SEGMENT: u64 = 512;

/// Headers closer together than this are read several at a time ...
const NEAR: u64 = 4 << 10;
/// ... with one read of this size.
const WINDOW: u64 = 64 << 10;

pub(super) type RawHeader = [u8; ChunkHeader::LEN];

/// Where a chunk begins.
pub(super) struct Slot {
    pub(super) at: u64,
    /// Where the next chunk begins, according to the table; `None` for the last one and in a walk.
    pub(super) next: Option<u64>,
    header: OnceLock<RawHeader>,
}

pub(super) struct Segment {
    pub(super) slots: Vec<Slot>,
}

impl Slot {
    pub(super) fn new(at: u64, next: Option<u64>) -> Self {
        Slot {
            at,
            next,
            header: OnceLock::new(),
        }
    }

    pub(super) fn with_header(at: u64, header: RawHeader) -> Self {
        Slot {
            at,
            next: None,
            header: OnceLock::from(header),
        }
    }

    /// The header as read, if it was.
    pub(super) fn header(&self) -> Option<&RawHeader> {
        self.header.get()
    }
}

impl Segment {
    /// The header of a chunk of the segment; those that lie near behind it are read along.
    pub(super) fn header(
        &self,
        index: usize,
        layout: &Layout,
        source: &dyn Source,
    ) -> Result<RawHeader> {
        let slot = &self.slots[index];
        if let Some(header) = slot.header() {
            return Ok(*header);
        }
        let mut window = Window::new();
        let header = window.header(source, layout, slot.at)?;
        let _ = slot.header.set(header);
        for pair in self.slots[index..].windows(2) {
            if pair[1].at - pair[0].at >= NEAR || !layout.has_header(pair[1].at) {
                break;
            }
            if pair[1].at - slot.at + CHUNK_HEADER > WINDOW {
                break;
            }
            let _ = pair[1]
                .header
                .set(window.header(source, layout, pair[1].at)?);
        }
        Ok(header)
    }
}

impl Layout {
    /// Whether a chunk's header could be at `at`.
    pub(super) fn has_header(&self, at: u64) -> bool {
        at >= self.first
            && at
                .checked_add(CHUNK_HEADER)
                .is_some_and(|end| end <= self.len)
    }
}

/// The last bytes read while going from header to header.
pub(super) struct Window {
    at: u64,
    bytes: Vec<u8>,
    last: Option<u64>,
}

impl Window {
    pub(super) fn new() -> Self {
        Window {
            at: 0,
            bytes: Vec::new(),
            last: None,
        }
    }

    /// The header at `at`, which the layout has checked to be in the file.
    pub(super) fn header(
        &mut self,
        source: &dyn Source,
        layout: &Layout,
        at: u64,
    ) -> Result<RawHeader> {
        let near = self.last.is_some_and(|last| at.saturating_sub(last) < NEAR);
        self.last = Some(at);
        if !self.holds(at) {
            let most = if near { WINDOW } else { CHUNK_HEADER };
            self.bytes
                .resize(most.min(layout.len.saturating_sub(at)) as usize, 0);
            self.at = at;
            source.fetch_one(at, &mut self.bytes)?;
        }
        let from = at
            .checked_sub(self.at)
            .and_then(|from| usize::try_from(from).ok());
        let found = from.and_then(|from| self.bytes.get(from..)?.first_chunk());
        found
            .copied()
            .ok_or_else(|| Fault::new("a chunk header lies beyond the file").into())
    }

    fn holds(&self, at: u64) -> bool {
        at >= self.at && at - self.at + CHUNK_HEADER <= self.bytes.len() as u64
    }
}
