//! Blocks that were encoded while their array was still being written: what a commit need not do again.
//!
//! They are another form of bytes that the layer holds as well, and can be dropped at any time. One is begun before its
//! bytes are read, and is worth something only if nothing was written to them since. Pure but for the memory that is
//! charged. Used by [`super::layer`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::slab::EncodedCharge;

/// Tells attempts on the same block apart.
static NEXT_TICKET: AtomicU64 = AtomicU64::new(0);

/// A whole block as it is going to be stored.
pub struct EncodedBlock {
    bytes: Vec<u8>,
    _charge: EncodedCharge,
}

/// That a block is being encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AheadTicket(u64);

/// Of one array.
#[derive(Default)]
pub(super) struct AheadBlocks {
    by_start: BTreeMap<u64, AheadBlock>,
    /// No more is begun.
    closed: bool,
}

struct AheadBlock {
    end: u64,
    ticket: AheadTicket,
    /// None: it is being encoded.
    encoded: Option<Arc<EncodedBlock>>,
}

impl EncodedBlock {
    pub(super) fn new(bytes: Vec<u8>, charge: EncodedCharge) -> EncodedBlock {
        EncodedBlock {
            bytes,
            _charge: charge,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl AheadBlocks {
    /// None if it is encoded, or being encoded.
    pub(super) fn begin(&mut self, range: &Range<u64>) -> Option<AheadTicket> {
        // Of other bounds: the last block of an array that has grown.
        while let Some(start) = self.next_in(range)
            && self.bounds(start) != Some(range.clone())
        {
            self.by_start.remove(&start);
        }
        if self.closed || self.by_start.contains_key(&range.start) {
            return None;
        }
        let ticket = AheadTicket(NEXT_TICKET.fetch_add(1, Ordering::Relaxed));
        let block = AheadBlock {
            end: range.end,
            ticket,
            encoded: None,
        };
        self.by_start.insert(range.start, block);
        Some(ticket)
    }

    /// It is done; none: it could not be. Bytes of something that has changed are dropped.
    pub(super) fn end(&mut self, start: u64, ticket: AheadTicket, encoded: Option<EncodedBlock>) {
        let Some(block) = self.by_start.get_mut(&start) else {
            return;
        };
        match encoded {
            _ if block.ticket != ticket => {}
            Some(encoded) => block.encoded = Some(Arc::new(encoded)),
            None => drop(self.by_start.remove(&start)),
        }
    }

    /// Exactly this block.
    pub(super) fn get(&self, range: &Range<u64>) -> Option<Arc<EncodedBlock>> {
        let block = self.by_start.get(&range.start)?;
        block.encoded.clone().filter(|_| block.end == range.end)
    }

    /// Something was written, or cut off.
    pub(super) fn drop_in(&mut self, range: Range<u64>) {
        while let Some(start) = self.next_in(&range) {
            self.by_start.remove(&start);
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// As if nothing had been begun.
    pub(super) fn clear(&mut self) {
        *self = AheadBlocks::default();
    }

    /// Gives up one that is done; false if none is.
    pub(super) fn give_up(&mut self) -> bool {
        let mut blocks = self.by_start.iter();
        let done = blocks.find(|(_, block)| block.encoded.is_some());
        let start = done.map(|(&start, _)| start);
        start.is_some_and(|start| self.by_start.remove(&start).is_some())
    }

    fn bounds(&self, start: u64) -> Option<Range<u64>> {
        let block = self.by_start.get(&start)?;
        Some(start..block.end)
    }

    /// The last one that overlaps with a range.
    fn next_in(&self, range: &Range<u64>) -> Option<u64> {
        let (&start, block) = self.by_start.range(..range.end).next_back()?;
        (block.end > range.start && range.start < range.end).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::StageMemory;
    use super::*;
    use crate::memory::budget::Budget;

    fn encoded(byte: u8) -> Option<EncodedBlock> {
        StageMemory::new(Budget::new(1 << 20)).encoded(vec![byte])
    }

    fn byte(blocks: &AheadBlocks, range: Range<u64>) -> Option<u8> {
        blocks.get(&range).map(|block| block.bytes()[0])
    }

    #[test]
    fn what_was_written_meanwhile_is_worth_nothing() {
        let mut blocks = AheadBlocks::default();
        let first = blocks.begin(&(0..10)).unwrap();
        assert!(blocks.begin(&(0..10)).is_none());
        let second = blocks.begin(&(10..20)).unwrap();
        blocks.drop_in(9..10);
        blocks.end(0, first, encoded(1));
        blocks.end(10, second, encoded(2));
        assert_eq!(
            (byte(&blocks, 0..10), byte(&blocks, 10..20)),
            (None, Some(2))
        );
        assert_eq!(byte(&blocks, 10..19), None);
        // Begun again before the first attempt ends.
        let again = blocks.begin(&(0..10)).unwrap();
        blocks.end(0, first, encoded(3));
        assert_eq!(byte(&blocks, 0..10), None);
        blocks.end(0, again, encoded(4));
        assert_eq!(byte(&blocks, 0..10), Some(4));
        assert!(blocks.give_up() && blocks.give_up() && !blocks.give_up());
    }

    #[test]
    fn one_that_failed_can_be_begun_again() {
        let mut blocks = AheadBlocks::default();
        let ticket = blocks.begin(&(0..10)).unwrap();
        blocks.end(0, ticket, None);
        assert!(blocks.begin(&(0..10)).is_some());
        blocks.drop_in(3..3);
        assert!(blocks.begin(&(0..10)).is_none());
        blocks.drop_in(0..u64::MAX);
        assert!(blocks.begin(&(0..10)).is_some());
        blocks.close();
        assert!(blocks.begin(&(10..20)).is_none());
        blocks.clear();
        assert!(blocks.begin(&(10..20)).is_some());
    }
}
