//! Encoded blocks laid one behind the other, with the table of where they start.
//!
//! Readers find them by the table.

use super::super::header::ChunkHeader;
use super::plan::ChunkPlan;

/// A chunk that is being put together.
pub(super) struct Assembler<'a> {
    plan: ChunkPlan,
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Assembler<'a> {
    /// The chunk is to fit into `out`; none if not even its table does, or if no chunk is as long.
    pub(super) fn new(plan: &ChunkPlan, out: &'a mut [u8]) -> Option<Self> {
        let at = plan.table_end();
        let possible = at..=i32::MAX as usize;
        possible.contains(&out.len()).then_some(Self {
            plan: *plan,
            out,
            at,
        })
    }

    /// Puts the stored bytes of block `i`; false if they do not fit, and then the chunk does not.
    pub(super) fn put(&mut self, i: u32, stored: &[u8]) -> bool {
        let fits = self.free().get_mut(..stored.len());
        if let Some(place) = fits {
            place.copy_from_slice(stored);
            self.placed(i, stored.len());
            return true;
        }
        false
    }

    /// Where the next block goes, to be written in place.
    pub(super) fn free(&mut self) -> &mut [u8] {
        &mut self.out[self.at..]
    }

    /// Block `i` is now the first `len` bytes of what was free.
    pub(super) fn placed(&mut self, i: u32, len: usize) {
        assert!(i < self.plan.blocks());
        let entry = ChunkHeader::LEN + 4 * i as usize;
        let start = self.at as u32;
        self.out[entry..entry + 4].copy_from_slice(&start.to_le_bytes());
        self.at += len;
    }

    /// Bytes of the chunk, all blocks having been put.
    pub(super) fn finish(self) -> usize {
        let header = self.plan.header(self.at as u32, false);
        self.out[..ChunkHeader::LEN].copy_from_slice(&header);
        self.at
    }

    /// Ends a chunk that takes all of the room, all blocks having been put: what is left over
    /// becomes zeros that belong to it.
    pub(super) fn finish_filling(self) {
        let header = self.plan.header(self.out.len() as u32, false);
        self.out[..ChunkHeader::LEN].copy_from_slice(&header);
        self.out[self.at..].fill(0);
    }
}
