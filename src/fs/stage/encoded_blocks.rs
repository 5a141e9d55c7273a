//! Blocks that were encoded while their array was still being written, so that a commit need not
//! encode them again.
//!
//! A block is a chunk of the array, which may be many ranges of it ([`Chunking`]): the bytes of it
//! that are staged are counted, and it is encoded when all of them are. The encoded block is
//! another form of bytes that the layer holds as well, and can be dropped at any time. Encoding
//! begins before the bytes are read, and its result counts only if nothing was written to them
//! since. Pure but for the memory that is charged. Used by [`super::layer`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::slab::EncodedCharge;
use crate::array::chunking::{ChunkId, Chunking};

/// Tells attempts on the same block apart.
static NEXT_TICKET: AtomicU64 = AtomicU64::new(0);

/// A whole block as it is going to be stored.
pub struct EncodedBlock {
    bytes: Vec<u8>,
    _charge: EncodedCharge,
}

/// That a block is being encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodingTicket(u64);

/// Of one array.
#[derive(Default)]
pub(super) struct EncodedBlocks {
    /// None: no writer has asked yet.
    blocks: Option<Arc<dyn Chunking>>,
    /// Of those that were written to.
    staged: BTreeMap<u64, BlockCount>,
    encoded: BTreeMap<u64, BlockEncoding>,
    /// No more is begun.
    closed: bool,
}

struct BlockCount {
    /// So many of its bytes are staged.
    bytes: u64,
    /// All were, once: it was returned as complete.
    is_told: bool,
}

struct BlockEncoding {
    ticket: EncodingTicket,
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

impl EncodedBlocks {
    /// See [`super::Layer::complete`]. `staged`: how many bytes of a range are.
    pub(super) fn complete(
        &mut self,
        blocks: &Arc<dyn Chunking>,
        written: &Range<u64>,
        staged: &dyn Fn(Range<u64>) -> u64,
    ) -> Vec<u64> {
        let mut complete = Vec::new();
        if self.closed {
            return complete;
        }
        if self.shape() != Some(blocks.shape()) {
            self.clear();
        }
        // Another thread may have written further on since this length was asked for: writes must
        // find the blocks that are encoded.
        let is_known = |known: &Arc<dyn Chunking>| known.chunks() >= blocks.chunks();
        if !self.blocks.as_ref().is_some_and(is_known) {
            self.blocks = Some(Arc::clone(blocks));
        }
        blocks.touched(written, &mut |numbers, _| {
            let told = |number: &u64| self.is_to_tell(&**blocks, *number, written, staged);
            complete.extend(numbers.filter(told));
        });
        // A write may touch a block in many places.
        complete.sort_unstable();
        complete.dedup();
        complete
    }

    fn is_to_tell(
        &mut self,
        blocks: &dyn Chunking,
        number: u64,
        written: &Range<u64>,
        staged: &dyn Fn(Range<u64>) -> u64,
    ) -> bool {
        let block = self.staged.entry(number).or_insert_with(|| BlockCount {
            bytes: ranges_of(blocks, number).map(staged).sum(),
            is_told: false,
        });
        if block.bytes != blocks.bytes(number..number + 1) || self.encoded.contains_key(&number) {
            return false;
        }
        // A program that writes the block once more is most likely done with it at its end.
        let end = |range: Range<u64>| range.end.saturating_sub(1);
        let is_told = std::mem::replace(&mut block.is_told, true);
        let mut last = ranges_of(blocks, number).rev();
        !is_told || last.next().is_some_and(|last| written.contains(&end(last)))
    }

    fn shape(&self) -> Option<u64> {
        self.blocks.as_ref().map(|blocks| blocks.shape())
    }

    /// None if it is encoded, or being encoded, or not complete: `staged` says how many bytes of a
    /// range are.
    pub(super) fn begin(
        &mut self,
        block: ChunkId,
        staged: &dyn Fn(Range<u64>) -> u64,
    ) -> Option<EncodingTicket> {
        let blocks = self.blocks.as_ref()?;
        let (shape, number) = (block.shape, block.number);
        let is_one = blocks.shape() == shape && number < blocks.chunks();
        if self.closed || !is_one || self.encoded.contains_key(&number) {
            return None;
        }
        // The count says when to look; to be encoded the bytes must be there.
        let found: u64 = ranges_of(&**blocks, number).map(staged).sum();
        if found != blocks.bytes(number..number + 1) {
            return None;
        }
        let ticket = EncodingTicket(NEXT_TICKET.fetch_add(1, Ordering::Relaxed));
        let encoded = None;
        self.encoded
            .insert(number, BlockEncoding { ticket, encoded });
        Some(ticket)
    }

    /// It is done; none: it could not be. Bytes of something that has changed are dropped.
    pub(super) fn end(
        &mut self,
        block: ChunkId,
        ticket: EncodingTicket,
        encoded: Option<EncodedBlock>,
    ) {
        let Some(begun) = self.encoded.get_mut(&block.number) else {
            return;
        };
        match encoded {
            _ if begun.ticket != ticket => {}
            Some(encoded) => begun.encoded = Some(Arc::new(encoded)),
            None => drop(self.encoded.remove(&block.number)),
        }
    }

    /// Exactly this block.
    pub(super) fn get(&self, block: ChunkId) -> Option<Arc<EncodedBlock>> {
        let found = self.encoded.get(&block.number)?;
        let is_same = self.shape() == Some(block.shape);
        found.encoded.clone().filter(|_| is_same)
    }

    /// Something was written, or cut off.
    pub(super) fn drop_in(&mut self, range: &Range<u64>) {
        if let Some(blocks) = self.blocks.as_ref().filter(|_| !self.encoded.is_empty()) {
            blocks.touched(range, &mut |numbers, _| {
                remove_in(&mut self.encoded, numbers);
            });
        }
    }

    /// Whether the staged bytes of any block are counted.
    pub(super) fn counts(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Of how many blocks the staged bytes are counted.
    pub(super) fn counted(&self) -> usize {
        self.staged.len()
    }

    /// Bytes that were not staged are.
    pub(super) fn add(&mut self, range: &Range<u64>) {
        if let Some(blocks) = &self.blocks {
            blocks.touched(range, &mut |numbers, bytes| {
                let staged = self.staged.range_mut(numbers);
                staged.for_each(|(_, block)| block.bytes += bytes);
            });
        }
    }

    /// Bytes that were staged, perhaps, are not any more.
    pub(super) fn lose(&mut self, range: &Range<u64>) {
        if let Some(blocks) = &self.blocks {
            blocks.touched(range, &mut |numbers, _| {
                remove_in(&mut self.staged, numbers);
            });
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// The last of them: no more is begun.
    pub(super) fn take_last(&mut self) -> EncodedBlocks {
        let closed = EncodedBlocks {
            closed: true,
            ..EncodedBlocks::default()
        };
        std::mem::replace(self, closed)
    }

    /// As if nothing had been begun.
    pub(super) fn clear(&mut self) {
        *self = EncodedBlocks::default();
    }

    /// Gives up one that is done; false if none is.
    pub(super) fn give_up(&mut self) -> bool {
        let mut blocks = self.encoded.iter();
        let done = blocks.find(|(_, block)| block.encoded.is_some());
        let number = done.map(|(&number, _)| number);
        number.is_some_and(|number| self.encoded.remove(&number).is_some())
    }
}

/// Which ranges of the array a block is.
fn ranges_of(
    blocks: &dyn Chunking,
    number: u64,
) -> impl DoubleEndedIterator<Item = Range<u64>> + use<> {
    let mut ranges = Vec::new();
    blocks.ranges(number..number + 1, 0, &mut ranges);
    ranges.into_iter().map(|range| range.from)
}

fn remove_in<T>(blocks: &mut BTreeMap<u64, T>, numbers: Range<u64>) {
    while let Some((&number, _)) = blocks.range(numbers.clone()).next_back() {
        blocks.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::LayerMemory;
    use super::*;
    use crate::array::chunking::EvenChunks;
    use crate::array::uncached::PlacedRange;
    use crate::memory::budget::Budget;

    fn encoded(byte: u8) -> Option<EncodedBlock> {
        LayerMemory::new(Budget::new(1 << 20)).encoded(vec![byte])
    }

    fn block(number: u64) -> ChunkId {
        ChunkId { shape: 10, number }
    }

    fn byte(blocks: &EncodedBlocks, number: u64) -> Option<u8> {
        blocks.get(block(number)).map(|block| block.bytes()[0])
    }

    fn tens(len: u64) -> Arc<dyn Chunking> {
        Arc::new(EvenChunks::whole(10, len))
    }

    fn all(range: Range<u64>) -> u64 {
        range.end - range.start
    }

    /// Two threads write at once: the one that asked for the length first may report last which
    /// blocks are complete.
    #[test]
    fn an_older_length_hides_no_block_from_what_is_written_to_it() {
        let mut blocks = EncodedBlocks::default();
        assert_eq!(blocks.complete(&tens(30), &(20..30), &all), [2]);
        let ticket = blocks.begin(block(2), &all).unwrap();
        blocks.end(block(2), ticket, encoded(1));
        assert_eq!(blocks.complete(&tens(10), &(0..10), &all), [0]);
        blocks.drop_in(&(25..26));
        assert_eq!(byte(&blocks, 2), None, "it is of what was there before");
    }

    #[test]
    fn what_was_written_meanwhile_is_worth_nothing() {
        let mut blocks = EncodedBlocks::default();
        assert!(
            blocks.begin(block(0), &all).is_none(),
            "nothing is known of it"
        );
        assert_eq!(blocks.complete(&tens(25), &(0..25), &all), [0, 1]);
        let first = blocks.begin(block(0), &all).unwrap();
        assert!(blocks.begin(block(0), &all).is_none());
        let second = blocks.begin(block(1), &all).unwrap();
        blocks.drop_in(&(9..10));
        blocks.end(block(0), first, encoded(1));
        blocks.end(block(1), second, encoded(2));
        assert_eq!((byte(&blocks, 0), byte(&blocks, 1)), (None, Some(2)));
        let other = ChunkId {
            shape: 9,
            number: 1,
        };
        assert!(blocks.get(other).is_none());
        // Begun again before the first attempt ends.
        let again = blocks.begin(block(0), &all).unwrap();
        blocks.end(block(0), first, encoded(3));
        assert_eq!(byte(&blocks, 0), None);
        blocks.end(block(0), again, encoded(4));
        assert_eq!(byte(&blocks, 0), Some(4));
        assert!(blocks.give_up() && blocks.give_up() && !blocks.give_up());
    }

    #[test]
    fn one_that_failed_can_be_begun_again() {
        let mut blocks = EncodedBlocks::default();
        assert_eq!(blocks.complete(&tens(20), &(0..20), &all), [0, 1]);
        let ticket = blocks.begin(block(0), &all).unwrap();
        blocks.end(block(0), ticket, None);
        assert!(blocks.begin(block(0), &all).is_some());
        blocks.drop_in(&(3..3));
        assert!(blocks.begin(block(0), &all).is_none());
        blocks.drop_in(&(0..u64::MAX));
        assert!(blocks.begin(block(0), &all).is_some());
        blocks.close();
        assert!(blocks.begin(block(1), &all).is_none());
        assert!(blocks.complete(&tens(20), &(0..20), &all).is_empty());
        blocks.clear();
        assert!(blocks.begin(block(1), &all).is_none());
        assert_eq!(blocks.complete(&tens(20), &(0..20), &all), [0, 1]);
        assert!(blocks.begin(block(1), &all).is_some());
    }

    #[test]
    fn a_block_is_told_when_its_bytes_are_all_there_in_any_order() {
        let mut blocks = EncodedBlocks::default();
        let none = |_| 0;
        assert!(blocks.complete(&tens(20), &(12..15), &|_| 3).is_empty());
        blocks.add(&(17..20));
        assert!(blocks.complete(&tens(20), &(17..20), &none).is_empty());
        blocks.add(&(10..12));
        assert!(blocks.complete(&tens(20), &(10..12), &none).is_empty());
        blocks.add(&(15..17));
        assert_eq!(blocks.complete(&tens(20), &(15..17), &none), [1]);
        // Once more only at its end, and not while it is encoded.
        assert!(blocks.complete(&tens(20), &(10..19), &none).is_empty());
        assert_eq!(blocks.complete(&tens(30), &(19..21), &none), [1]);
        let ticket = blocks.begin(block(1), &all).unwrap();
        assert!(blocks.complete(&tens(30), &(19..20), &none).is_empty());
        blocks.end(block(1), ticket, None);
        // A block that was cut off is returned again when it is complete.
        blocks.lose(&(18..u64::MAX));
        assert!(blocks.complete(&tens(30), &(19..20), &|_| 9).is_empty());
        assert!(blocks.begin(block(1), &|_| 9).is_none());
        blocks.add(&(18..19));
        assert_eq!(blocks.complete(&tens(30), &(18..19), &none), [1]);
        // Of other chunks nothing is counted.
        let nines: Arc<dyn Chunking> = Arc::new(EvenChunks::whole(9, 30));
        assert!(blocks.complete(&nines, &(18..19), &none).is_empty());
    }

    /// Two columns of a table of two rows, each a chunk of two ranges.
    struct Columns;

    impl Chunking for Columns {
        fn chunks(&self) -> u64 {
            2
        }

        fn shape(&self) -> u64 {
            1
        }

        fn bytes(&self, chunks: Range<u64>) -> u64 {
            8 * (chunks.end - chunks.start)
        }

        fn touched(&self, range: &Range<u64>, tell: &mut dyn FnMut(Range<u64>, u64)) {
            for at in range.start..range.end.min(16) {
                let column = at / 4 % 2;
                tell(column..column + 1, 1);
            }
        }

        fn ranges(&self, chunks: Range<u64>, to: usize, out: &mut Vec<PlacedRange>) {
            for (n, column) in chunks.enumerate() {
                for row in 0..2 {
                    let start = 8 * row + 4 * column;
                    let to = to + 8 * n + 4 * row as usize;
                    let from = start..start + 4;
                    out.push(PlacedRange { from, to });
                }
            }
        }

        fn reshaped(&self, _: &Self, _: &mut Vec<Range<u64>>) {}
    }

    #[test]
    fn a_chunk_of_many_ranges_is_complete_when_all_are_there() {
        let columns: Arc<dyn Chunking> = Arc::new(Columns);
        let mut blocks = EncodedBlocks::default();
        let column = |number| ChunkId { shape: 1, number };
        let first_row = |range: Range<u64>| if range.start < 8 { 4 } else { 0 };
        assert!(blocks.complete(&columns, &(0..8), &first_row).is_empty());
        blocks.add(&(12..16));
        assert_eq!(blocks.complete(&columns, &(12..16), &|_| 0), [1]);
        let ticket = blocks.begin(column(1), &all).unwrap();
        blocks.end(column(1), ticket, encoded(5));
        // The other column lies between its ranges.
        blocks.drop_in(&(8..12));
        assert!(blocks.get(column(1)).is_some() && blocks.begin(column(0), &first_row).is_none());
        blocks.drop_in(&(7..8));
        assert!(blocks.get(column(1)).is_none());
    }
}
