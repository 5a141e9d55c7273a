//! Chunks of a text: as many values as the chunk has elements, each behind its length.
//!
//! How long a decoded chunk is, is told by nothing but its bytes, so room for it is tried, little
//! at first, and all of it charged. Used by [`super`].

use std::sync::Arc;

use super::layout::ValueWalk;
use crate::codec::filters::FilterError;
use crate::codec::numcodecs::{Chain, ChunkCodec, Length};
use crate::container::zarr::array::{ChunkAt, ChunkLookup};
use crate::container::zarr::damage;
use crate::container::zarr::plan::TEXT_MOST;
use crate::error::{Error, Fault, Result};
use crate::memory::block::{Block, Workspace};
use crate::memory::budget::Budget;
use crate::memory::room;

/// Room that is tried first: so many times the stored bytes, and so many more.
const TRIED: [(u64, u64); 2] = [(4, 64 << 10), (64, 1 << 20)];

pub(super) struct TextChunks {
    places: Arc<dyn ChunkLookup>,
    codecs: Vec<ChunkCodec>,
    fill: Vec<u8>,
    budget: Arc<Budget>,
}

/// A value of a chunk.
#[derive(Clone, Copy)]
pub(super) struct TextValue<'c> {
    pub(super) bytes: &'c [u8],
}

impl TextValue<'_> {
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl TextChunks {
    pub(super) fn new(
        places: Arc<dyn ChunkLookup>,
        chain: Chain,
        fill: Vec<u8>,
        budget: &Arc<Budget>,
    ) -> TextChunks {
        TextChunks {
            places,
            codecs: chain.codecs().cloned().collect(),
            fill,
            budget: Arc::clone(budget),
        }
    }

    pub(super) fn places(&self) -> &dyn ChunkLookup {
        &*self.places
    }

    /// Shown bytes of so many values that are not stored.
    pub(super) fn missing_bytes(&self, values: u64) -> u64 {
        values.saturating_mul(self.fill.len() as u64 + 1)
    }

    /// Shown bytes of the values of a chunk that are in the array.
    pub(super) fn shown_bytes(&self, place: &[u64], walk: ValueWalk<'_>) -> Result<u64> {
        if self.places.locate(place)?.is_none() {
            return Ok(self.missing_bytes(walk.within().left()));
        }
        let mut bytes = 0u64;
        self.read(place, walk, &mut |_, value| {
            bytes = bytes.saturating_add(value.len() + 1);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Visits the values of a chunk that are in the array, as they are stored.
    pub(super) fn read(
        &self,
        place: &[u64],
        mut walk: ValueWalk<'_>,
        visit: &mut dyn FnMut(u64, TextValue<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(located) = self.places.locate(place)? else {
            let mut walk = walk.within();
            while let Some(number) = walk.next() {
                if let Some(number) = number {
                    visit(number, TextValue { bytes: &self.fill })?;
                }
            }
            return Ok(());
        };
        let (block, len) = self.decoded(&located)?;
        let bytes = block.bytes().get(..len).unwrap_or_default();
        let stored = located.range.clone();
        let read = each(bytes, &mut walk, visit);
        read.map_err(|e| e.map_fault(|fault| fault.bytes(stored)))
    }

    /// A chunk without its codecs, and how many bytes of the block it is.
    fn decoded(&self, located: &ChunkAt) -> Result<(Block, usize)> {
        // What lies between two codecs is about as long.
        let buffers = self.codecs.len().clamp(1, 2) as u64 + 2;
        let most = (self.budget.limit() / 2 / buffers).min(TEXT_MOST as u64);
        let tried = TRIED
            .iter()
            .map(|(times, more)| located.len().saturating_mul(*times).saturating_add(*more));
        let mut tried = tried.filter(|room| *room < most).chain([most]).peekable();
        loop {
            let room = match (self.codecs.is_empty(), tried.next()) {
                (true, _) => located.len(),
                (false, room) => room.unwrap_or(most),
            };
            match self.decode(located, room)? {
                Ok(decoded) => return Ok(decoded),
                // It may have been too little.
                Err(FilterError::Damage(_)) if tried.peek().is_some() => {}
                Err(e) => {
                    let bytes = located.range.clone();
                    return Err(damage::error(e).map_fault(|fault| fault.bytes(bytes)));
                }
            }
        }
    }

    fn decode(
        &self,
        located: &ChunkAt,
        most: u64,
    ) -> Result<std::result::Result<(Block, usize), FilterError>> {
        let len = usize::try_from(most).unwrap_or(usize::MAX);
        let chain = Chain::new(self.codecs.clone(), Length::AtMost(len));
        if located.len() > chain.stored().most() as u64 {
            let fault = Fault::new("the chunk is stored in too many bytes");
            let fault = fault.bytes(located.range.clone()).found(located.len());
            return Err(fault
                .expected(format_args!("at most {}", chain.stored().most()))
                .into());
        }
        let scratch = room(located.len()).saturating_add(chain.scratch());
        let bytes = most.saturating_add(scratch);
        let decode = |mut space: Workspace| -> Result<_> {
            let (out, mut scratch) = space.parts();
            let stored = scratch.take(located.len())?;
            located.source.fetch_one(located.range.start, stored)?;
            let decoded = chain.decode(stored, out, scratch);
            Ok(decoded.map(|len| (space.into_block(), len)))
        };
        // Who reads holds memory already, and may not wait for more.
        if let Some(hold) = self.budget.try_reserve(bytes) {
            return decode(Workspace::new(most, scratch, hold, most)?);
        }
        let mut overdraft = self.budget.overdraw(bytes)?;
        decode(Workspace::new(most, scratch, overdraft.hold(), most)?)
    }
}

/// Visits the values of a decoded chunk: their number, then the length of each before it.
fn each(
    bytes: &[u8],
    walk: &mut ValueWalk<'_>,
    visit: &mut dyn FnMut(u64, TextValue<'_>) -> Result<()>,
) -> Result<()> {
    let early = || Error::from(Fault::new("the chunk ends before its values"));
    let (count, mut rest) = bytes.split_first_chunk().ok_or_else(early)?;
    let (count, expected) = (u64::from(u32::from_le_bytes(*count)), walk.left());
    if count != expected {
        let fault = Fault::new("the chunk has another number of values");
        return Err(fault.expected(expected).found(count).into());
    }
    while let Some(number) = walk.next() {
        let (len, behind) = rest.split_first_chunk().ok_or_else(early)?;
        let len = u32::from_le_bytes(*len) as usize;
        let (value, behind) = behind.split_at_checked(len).ok_or_else(early)?;
        rest = behind;
        if let Some(number) = number {
            visit(number, TextValue { bytes: value })?;
        }
    }
    Ok(())
}
