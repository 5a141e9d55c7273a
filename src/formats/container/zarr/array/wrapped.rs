//! Shards that are encoded as a whole: decoded before anything is found in them. Used by
//! [`super::shards`].

use std::sync::Arc;

use super::places::{ChunkAt, ChunkLookup, VisitPlace, identity_of};
use crate::array::nested::NestedBlocks;
use crate::codec::numcodecs::ChunkCodec;
use crate::container::zarr::damage;
use crate::container::zarr::members::{DecodedBlocks, DecodesWhole};
use crate::container::zarr::plan::ShardLevel;
use crate::error::{Error, Fault, Result};
use crate::memory::{Arena, room};
use crate::source::StoredRanges;

/// Shards that are encoded as a whole.
pub(super) struct WrappedShards {
    outer: Arc<dyn ChunkLookup>,
    decoded: Arc<DecodedBlocks>,
}

struct Wrapping {
    outer: Arc<dyn ChunkLookup>,
    level: Arc<ShardLevel>,
}

impl WrappedShards {
    pub(super) fn around(
        outer: Arc<dyn ChunkLookup>,
        level: &Arc<ShardLevel>,
        nested: &Arc<NestedBlocks>,
    ) -> Arc<dyn ChunkLookup> {
        let wrapping = Wrapping {
            outer: Arc::clone(&outer),
            level: Arc::clone(level),
        };
        Arc::new(WrappedShards {
            outer,
            decoded: DecodedBlocks::new(Arc::new(wrapping), nested),
        })
    }
}

impl ChunkLookup for WrappedShards {
    fn rounds(&self) -> u32 {
        self.outer.rounds() + 1
    }

    fn name(&self, place: &[u64], round: u32, needed: &mut StoredRanges) -> Result<()> {
        if round < self.outer.rounds() {
            return self.outer.name(place, round, needed);
        }
        if let Some(number) = self.number(place)
            && !self.decoded.has(number)
            && let Some(located) = self.outer.locate(place)?
        {
            needed.name(&located.source, located.range);
        }
        Ok(())
    }

    fn locate(&self, place: &[u64]) -> Result<Option<ChunkAt>> {
        let (Some(located), Some(number)) = (self.outer.locate(place)?, self.number(place)) else {
            return Ok(None);
        };
        let source = self.decoded.source(number, identity_of(&located))?;
        Ok(Some(ChunkAt {
            range: 0..source.len(),
            source,
        }))
    }

    fn number(&self, place: &[u64]) -> Option<u64> {
        self.outer.number(place)
    }

    fn place(&self, number: u64) -> Vec<u64> {
        self.outer.place(number)
    }

    fn list(&self) -> Result<()> {
        self.outer.list()
    }

    fn has_row(&self, first: u64) -> bool {
        self.outer.has_row(first)
    }

    fn each_stored(&self, visit: VisitPlace<'_>) -> Result<()> {
        self.outer.each_stored(visit)
    }

    fn are_unchanged(&self) -> Result<bool> {
        self.outer.are_unchanged()
    }
}

impl Wrapping {
    fn located(&self, number: u64) -> Result<ChunkAt> {
        let located = self.outer.locate(&self.outer.place(number))?;
        located.ok_or_else(|| Error::from(Fault::new("the shard is missing")))
    }
}

impl DecodesWhole for Wrapping {
    fn is_far(&self) -> bool {
        false
    }

    /// It has been named when it was located.
    fn expect(&self, _number: u64) {}

    fn most(&self, number: u64) -> u64 {
        let most = self.level.around.plain().most() as u64;
        let is_sum = |codec: &ChunkCodec| matches!(codec, ChunkCodec::Sum { .. });
        match self.level.around.codecs().all(is_sum) {
            true => self.located(number).map_or(0, |located| located.len()),
            false => most,
        }
    }

    fn scratch(&self, number: u64) -> u64 {
        let stored = self.located(number).map_or(0, |located| located.len());
        room(stored).saturating_add(self.level.around.scratch())
    }

    fn decode(&self, number: u64, out: &mut [u8], mut scratch: Arena<'_>) -> Result<u64> {
        let located = self.located(number)?;
        let stored = scratch.take(located.len())?;
        located.source.fetch_one(located.range.start, stored)?;
        let decoded = self
            .level
            .around
            .decode(stored, out, scratch)
            .map_err(damage::error);
        let bytes = located.range.clone();
        Ok(decoded.map_err(|e| e.map_fault(|fault| fault.bytes(bytes)))? as u64)
    }
}
