//! Chunk headers as they are read: those that lie near each other with one read, some that lie
//! apart with one request. Used by whatever goes from chunk to chunk in this folder.

use std::collections::VecDeque;

use crate::codec::blosc::{BloscError, ChunkHeader};
use crate::container::bloscpack::sections::Sections;
use crate::error::{Fault, Result};
use crate::memory::fallible;
use crate::source::{Fetch, Source};
use crate::sync::{Mutex, MutexGuard};

/// Headers closer together than this are read several at a time ...
const NEAR: u64 = 4 << 10;
/// ... with one read of this size.
pub(super) const WINDOW: u64 = 64 << 10;

pub(crate) type RawHeader = [u8; ChunkHeader::LEN];

/// A chunk's header as the real reader takes it: where there is nothing to decode, it does not look
/// at the codec of a memcpyed chunk, nor at anything but the reserved flag of an empty one.
pub(crate) fn parse(raw: &RawHeader) -> std::result::Result<ChunkHeader, BloscError> {
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

/// Headers that lie apart and are kept at hand: those of a chunk, of its neighbours and of theirs.
const APART: usize = 8;

/// The headers read last, passed from one reader to the next.
#[derive(Default)]
pub(super) struct LastHeaders {
    /// A run of stored bytes and where it begins.
    run: Vec<u8>,
    run_at: u64,
    /// Single ones, the last first.
    apart: VecDeque<(u64, RawHeader)>,
    last: Option<u64>,
}

/// Reads headers. What was read last is lent by `lender`, to one at a time, and goes back there.
pub(super) struct HeadersAtHand<'a> {
    source: &'a dyn Source,
    sections: &'a Sections,
    lender: &'a Mutex<LastHeaders>,
    held: LastHeaders,
}

impl Drop for HeadersAtHand<'_> {
    fn drop(&mut self) {
        *lock(self.lender) = std::mem::take(&mut self.held);
    }
}

fn lock(headers: &Mutex<LastHeaders>) -> MutexGuard<'_, LastHeaders> {
    headers.lock()
}

impl<'a> HeadersAtHand<'a> {
    pub(super) fn new(
        source: &'a dyn Source,
        sections: &'a Sections,
        lender: &'a Mutex<LastHeaders>,
    ) -> Self {
        HeadersAtHand {
            source,
            sections,
            lender,
            held: std::mem::take(&mut lock(lender)),
        }
    }

    /// The header at `at`; `None` where no chunk can be.
    pub(super) fn read(&mut self, at: u64) -> Result<Option<RawHeader>> {
        if !self.sections.has_header(at) {
            return Ok(None);
        }
        if !self.holds(at) {
            let near = self.held.last.is_some_and(|last| at.abs_diff(last) < NEAR);
            match near {
                true => self.read_run(at)?,
                false => self.read_apart(&[at])?,
            }
        }
        self.held.last = Some(at);
        match self.at_hand(at) {
            Some(header) => Ok(Some(header)),
            None => Err(Fault::new("a chunk header lies beyond the file").into()),
        }
    }

    /// Reads some headers, given in rising order, with one request, as far as they are not at hand.
    pub(super) fn read_together(&mut self, places: &[u64]) -> Result<()> {
        let wanted = |at: &u64| self.sections.has_header(*at) && !self.holds(*at);
        let wanted: Vec<u64> = places.iter().copied().filter(wanted).collect();
        match (wanted.first(), wanted.last()) {
            (Some(first), Some(last)) if wanted.len() > 1 && last.saturating_sub(*first) < NEAR => {
                self.read_run(*first)
            }
            _ => self.read_apart(&wanted),
        }
    }

    fn holds(&self, at: u64) -> bool {
        self.at_hand(at).is_some()
    }

    /// A header that can be had without reading.
    pub(super) fn at_hand(&self, at: u64) -> Option<RawHeader> {
        let held = &self.held;
        let from = at.checked_sub(held.run_at);
        let from = from.and_then(|from| usize::try_from(from).ok());
        let in_run = from.and_then(|from| held.run.get(from..)?.first_chunk());
        let apart = || held.apart.iter().find(|(place, _)| *place == at);
        in_run.copied().or_else(|| Some(apart()?.1))
    }

    /// Reads a run of headers, of which the first may be one.
    fn read_run(&mut self, at: u64) -> Result<()> {
        let len = WINDOW.min(self.sections.len.saturating_sub(at));
        let held = &mut self.held;
        held.run.clear();
        fallible::lengthen(&mut held.run, len as usize, "cannot read chunk headers")?;
        held.run_at = at;
        let done = self.source.fetch_one(at, &mut held.run);
        if done.is_err() {
            held.run.clear();
        }
        done
    }

    fn read_apart(&mut self, places: &[u64]) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        let mut read: Vec<_> = places
            .iter()
            .map(|at| (*at, RawHeader::default()))
            .collect();
        let fetches = read.iter_mut().map(|(at, header)| Fetch {
            offset: *at,
            buf: header,
        });
        self.source.fetch(&mut fetches.collect::<Vec<_>>())?;
        for header in read {
            self.held.apart.push_front(header);
        }
        self.held.apart.truncate(APART);
        Ok(())
    }
}
