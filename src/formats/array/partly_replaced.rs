//! An array, something of which is replaced: its name, its description, or blocks that need not be
//! decoded. All else is its own.
//!
//! - A dataset of HDF5 that several names lead to is an array by each of them (`container::hdf5`).
//! - What is read through a log describes itself as it will be (`container::restated`).
//! - A commit merges changes with stored bytes, and the program that made the changes has mostly
//!   read those first. The commit decodes past the cache, because it takes its memory once, before
//!   it begins; blocks that the cache happens to have are taken from there (`live`).

use std::ops::Range;
use std::sync::Arc;

use super::{Array, BlockId, Info, Piece, Unfiltered};
use crate::cache::{ArrayIndex, BlockCache, BlockKey, VersionId};
use crate::error::{Fault, Result};
use crate::memory::Arena;
use crate::memory::block::Block;
use crate::source::StoredRanges;

pub struct PartlyReplaced {
    array: Arc<dyn Array>,
    name: Option<String>,
    info: Option<Info>,
    blocks: Option<CachedBlocks>,
}

/// Decoded blocks of an array, which a cache may have.
pub struct CachedBlocks {
    pub cache: Arc<BlockCache>,
    pub version: VersionId,
    pub index: ArrayIndex,
}

impl PartlyReplaced {
    /// Nothing of it yet.
    pub fn new(array: Arc<dyn Array>) -> PartlyReplaced {
        PartlyReplaced {
            array,
            name: None,
            info: None,
            blocks: None,
        }
    }

    pub fn with_name(self, name: String) -> PartlyReplaced {
        PartlyReplaced {
            name: Some(name),
            ..self
        }
    }

    /// The description must fit the bytes that the array has.
    pub fn with_info(self, info: Info) -> PartlyReplaced {
        PartlyReplaced {
            info: Some(info),
            ..self
        }
    }

    pub fn with_blocks(self, blocks: CachedBlocks) -> PartlyReplaced {
        PartlyReplaced {
            blocks: Some(blocks),
            ..self
        }
    }
}

impl Array for PartlyReplaced {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.array.name())
    }

    fn info(&self) -> Result<Info> {
        match &self.info {
            Some(info) => Ok(info.clone()),
            None => self.array.info(),
        }
    }

    fn check_structure(&self) -> Result<()> {
        self.array.check_structure()
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        self.array.pieces(range, out)
    }

    fn len_now(&self) -> Option<u64> {
        match &self.info {
            Some(_) => None,
            None => self.array.len_now(),
        }
    }

    fn weight(&self) -> u64 {
        self.array.weight()
    }

    fn places_known(&self, range: &Range<u64>) -> bool {
        self.array.places_known(range)
    }

    fn zeros_ahead(&self, range: Range<u64>) -> u64 {
        self.array.zeros_ahead(range)
    }

    fn stored_places(&self, range: &Range<u64>, needed: &mut StoredRanges) -> Result<()> {
        self.array.stored_places(range, needed)
    }

    fn stored(&self, piece: &Piece, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        self.array.stored(piece, round, needed)
    }

    fn scratch(&self, block: BlockId) -> u64 {
        self.array.scratch(block)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        self.array.decode(block, out, scratch)
    }

    fn at_hand(&self, block: BlockId) -> Option<Arc<Block>> {
        match &self.blocks {
            Some(blocks) => blocks.cache.cached(BlockKey {
                version: blocks.version,
                array: blocks.index,
                block,
            }),
            None => self.array.at_hand(block),
        }
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.array.read_direct(at, out)
    }

    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        self.array.survey(visit)
    }

    fn unfiltered(&self, are_counted: bool) -> Result<Unfiltered> {
        self.array.unfiltered(are_counted)
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        self.array.verify(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Order;
    use crate::array::dtype::Dtype;
    use crate::array::uncached::{DecodeMemory, read_into};
    use crate::cache::Decode;

    /// One block, which can be decoded to this byte.
    struct OneBlock(u8);

    impl Array for OneBlock {
        fn name(&self) -> &str {
            "one"
        }

        fn info(&self) -> Result<Info> {
            Ok(Info {
                dtype: Dtype::U8,
                shape: vec![8],
                order: Order::C,
                bytes: 8,
                stored_bytes: 8,
                blocks: 1,
                codec: "test".into(),
            })
        }

        fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
            super::super::even_pieces(8, 8, range, out);
            Ok(())
        }

        fn decode(&self, _: BlockId, out: &mut [u8], _: Arena<'_>) -> Result<()> {
            out.fill(self.0);
            Ok(())
        }
    }

    struct Filled(u8);

    impl Decode for Filled {
        fn yields(&self) -> u64 {
            8
        }

        fn scratch(&self) -> u64 {
            0
        }

        fn decode(&self, out: &mut [u8], _: Arena<'_>) -> Result<()> {
            out.fill(self.0);
            Ok(())
        }
    }

    #[test]
    fn what_is_cached_is_not_decoded_and_what_is_not_is_not_cached() {
        let cache = BlockCache::new(1 << 20);
        let array = |version| {
            PartlyReplaced::new(Arc::new(OneBlock(1))).with_blocks(CachedBlocks {
                cache: Arc::clone(&cache),
                version: VersionId(version),
                index: ArrayIndex(0),
            })
        };
        let key = BlockKey {
            version: VersionId(7),
            array: ArrayIndex(0),
            block: BlockId(0),
        };
        cache.get(key, &Filled(2)).unwrap();
        let read = |version| {
            let (mut part, mut whole) = ([0; 5], [0; 8]);
            let memory = || DecodeMemory::Reserved(cache.budget());
            read_into(&array(version), 3, &mut part, memory()).unwrap();
            read_into(&array(version), 0, &mut whole, memory()).unwrap();
            (part, whole)
        };
        assert_eq!(read(7), ([2; 5], [2; 8]));
        assert_eq!(read(8), ([1; 5], [1; 8]));
        assert_eq!(cache.blocks(), 1);
    }
}
