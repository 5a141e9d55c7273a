//! A run of chunks as the walk found them, and reading headers that lie near each other.
//!
//! Places are held by segments of [`SEGMENT`] chunks, some at a time, so that a file of millions of
//! chunks takes no more memory than one of thousands. Used by [`super::walk`], [`super::steps`] and
//! [`super::check`].

use std::sync::OnceLock;

use super::layout::{CHUNK_HEADER, Layout};
use crate::codec::blosc::{BloscError, ChunkHeader};
use crate::error::{self, Fault};
use crate::source::Source;

/// Chunks of a segment.
pub(super) const SEGMENT: u64 = 512;

/// Headers closer together than this are read several at a time ...
const NEAR: u64 = 4 << 10;
/// ... with one read of this size.
const WINDOW: u64 = 64 << 10;

pub(super) type RawHeader = [u8; ChunkHeader::LEN];

/// Where a chunk is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    At(Slot),
    Lost(Lost),
}

#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) at: u64,
    header: OnceLock<RawHeader>,
    /// Where the next chunk begins, if that is not where this one's header says.
    pub(super) next: Option<u64>,
}

/// A chunk that nothing leads to, behind one that is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    /// The last chunk before it whose place is known, ...
    pub(super) behind: u64,
    /// ... and that place.
    pub(super) at: u64,
}

pub(super) struct Segment {
    pub(super) places: Vec<Place>,
}

/// A chunk's header as the real reader takes it: where there is nothing to decode, it does not look at the
/// codec of a memcpyed chunk, nor at anything but the reserved flag of an empty one.
pub(super) fn parse(raw: &RawHeader) -> Result<ChunkHeader, BloscError> {
    const MEMCPYED: u8 = 0x02;
    const RESERVED: u8 = 0x08;
    const CODEC: u8 = 0xe0;
    ChunkHeader::parse(raw).or_else(|refused| {
        let mut raw = *raw;
        if raw[4..8] == [0; 4] {
            raw[2] &= RESERVED;
            raw[3] = 1;
        } else if raw[2] & MEMCPYED != 0 {
            raw[2] &= !CODEC;
        }
        ChunkHeader::parse(&raw).map_err(|_| refused)
    })
}

impl Slot {
    /// A chunk whose header is read when it is wanted.
    pub(super) fn new(at: u64) -> Self {
        Slot {
            at,
            header: OnceLock::new(),
            next: None,
        }
    }

    pub(super) fn with_header(at: u64, header: RawHeader, next: Option<u64>) -> Self {
        Slot {
            at,
            header: OnceLock::from(header),
            next,
        }
    }

    /// The header as read, if it was.
    pub(super) fn header(&self) -> Option<&RawHeader> {
        self.header.get()
    }
}

impl Lost {
    pub(super) fn fault(&self, number: u64) -> Fault {
        let what = format!(
            "lost: chunk {} before it does not lead to the next one",
            self.behind
        );
        Fault::new(what)
            .block(number)
            .bytes(self.at..self.at.saturating_add(CHUNK_HEADER))
    }
}

impl Place {
    pub(super) fn slot(&self) -> Option<&Slot> {
        match self {
            Place::At(slot) => Some(slot),
            Place::Lost(_) => None,
        }
    }
}

impl Segment {
    /// The header of a chunk of the segment; those that lie near behind it are read along.
    pub(super) fn header(
        &self,
        slot: &Slot,
        index: usize,
        layout: &Layout,
        source: &dyn Source,
    ) -> error::Result<RawHeader> {
        if let Some(header) = slot.header() {
            return Ok(*header);
        }
        let mut window = Window::new();
        let header = window.header(source, layout, slot.at)?;
        let _ = slot.header.set(header);
        let mut last = slot.at;
        for next in self.places.iter().skip(index + 1).map_while(Place::slot) {
            let near = next.at.saturating_sub(last) < NEAR && layout.has_header(next.at);
            if !near || next.at - slot.at + CHUNK_HEADER > WINDOW {
                break;
            }
            let _ = next.header.set(window.header(source, layout, next.at)?);
            last = next.at;
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
#[derive(Default)]
pub(super) struct Window {
    at: u64,
    bytes: Vec<u8>,
    last: Option<u64>,
}

impl Window {
    pub(super) fn new() -> Self {
        Window::default()
    }

    /// The header at `at`, which the layout has checked to be in the file.
    pub(super) fn header(
        &mut self,
        source: &dyn Source,
        layout: &Layout,
        at: u64,
    ) -> error::Result<RawHeader> {
        if !self.holds(at) {
            let near = self.last.is_some_and(|last| at.saturating_sub(last) < NEAR);
            let most = if near { WINDOW } else { CHUNK_HEADER };
            self.bytes
                .resize(most.min(layout.len.saturating_sub(at)) as usize, 0);
            self.at = at;
            source.fetch_one(at, &mut self.bytes)?;
        }
        self.last = Some(at);
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
