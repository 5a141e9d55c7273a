//! Reads an array from its first element to its last, for checks: whole numbers as 64-bit integers.
//!
//! Goes around the block cache, which is for bytes that will be read again: every block is decoded
//! once, into a buffer of the reader's own. That holds for arrays whose blocks follow each other
//! (every array of one dimension); others are read correctly, but their blocks more than once. Used
//! by the full checks of `container`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::dtype::Dtype;
use super::gather::{self, PieceSource};
use super::steps::PlacedRange;
use super::{Array, BlockId};
use crate::error::{Fault, Result};
use crate::memory::block::{Block, Workspace};
use crate::memory::budget::{Budget, Hold};
use crate::patience;

/// Bytes that are converted at a time; a multiple of every element size.
const STEP: usize = 8 << 10;

/// How whole numbers are stored, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WholeNumber {
    /// 1, 2, 4 or 8 bytes.
    pub(crate) size: usize,
    pub(crate) signed: bool,
}

impl WholeNumber {
    /// None for types that are not whole numbers (or booleans, which count as such).
    pub(crate) fn of(dtype: &Dtype) -> Option<WholeNumber> {
        let (size, signed) = match &*dtype.name() {
            "uint8" | "bool" => (1, false),
            "uint16" => (2, false),
            "uint32" => (4, false),
            "uint64" => (8, false),
            "int8" => (1, true),
            "int16" => (2, true),
            "int32" => (4, true),
            "int64" => (8, true),
            _ => return None,
        };
        Some(WholeNumber { size, signed })
    }

    /// Converts `raw`, whole elements; negative numbers get their sign extended.
    fn widen(self, raw: &[u8], out: &mut [u64]) {
        macro_rules! each {
            ($of:ty) => {
                for (out, raw) in out.iter_mut().zip(raw.chunks_exact(size_of::<$of>())) {
                    let mut element = [0; size_of::<$of>()];
                    element.copy_from_slice(raw);
                    *out = <$of>::from_le_bytes(element) as u64;
                }
            };
        }
        match (self.size, self.signed) {
            (1, false) => each!(u8),
            (2, false) => each!(u16),
            (4, false) => each!(u32),
            (1, true) => each!(i8),
            (2, true) => each!(i16),
            (4, true) => each!(i32),
            _ => each!(u64),
        }
    }
}

type LastBlock = (BlockId, Block);

/// The readers of one check: each has one decoded block, kept until it needs the next. A reader
/// that needs memory which is not free makes all of them give their blocks up, so that none is held
/// while it waits; the others decode theirs again.
#[derive(Clone)]
pub(crate) struct SequentialReaders {
    budget: Arc<Budget>,
    /// Each reader's last block.
    blocks: Rc<RefCell<Vec<Option<LastBlock>>>>,
}

/// One of the readers.
pub(crate) struct Sequential {
    array: Arc<dyn Array>,
    number: WholeNumber,
    /// Bytes that have been read.
    done: u64,
    readers: SequentialReaders,
    /// Its place among them.
    place: usize,
    /// Elements not handed out yet.
    left: u64,
}

impl SequentialReaders {
    /// For a check whose thread holds nothing of the budget.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        SequentialReaders {
            budget: Arc::clone(budget),
            blocks: Rc::default(),
        }
    }

    fn join(&self) -> usize {
        let mut blocks = self.blocks.borrow_mut();
        blocks.push(None);
        blocks.len() - 1
    }

    /// A reader's last block, if it is this one; else it is given up.
    fn take(&self, place: usize, id: BlockId) -> Option<Block> {
        let (last, block) = self.blocks.borrow_mut().get_mut(place)?.take()?;
        (last == id).then_some(block)
    }

    fn put(&self, place: usize, id: BlockId, block: Block) {
        if let Some(last) = self.blocks.borrow_mut().get_mut(place) {
            *last = Some((id, block));
        }
    }

    fn reserve(&self, bytes: u64) -> Hold {
        if let Some(hold) = self.budget.try_reserve(bytes) {
            return hold;
        }
        self.blocks.borrow_mut().fill_with(|| None);
        self.budget.reserve(bytes)
    }
}

impl Sequential {
    /// Starts before the first element; a fault if the array is not one of whole numbers.
    pub(crate) fn new(array: Arc<dyn Array>, readers: &SequentialReaders) -> Result<Self> {
        let info = array.info()?;
        let number = WholeNumber::of(&info.dtype).ok_or_else(|| {
            let fault = Fault::new("not an array of whole numbers").array(array.name());
            fault.found(info.dtype.name())
        })?;
        Ok(Sequential {
            left: info.bytes / number.size as u64,
            array,
            number,
            done: 0,
            place: readers.join(),
            readers: readers.clone(),
        })
    }

    pub(crate) fn number(&self) -> WholeNumber {
        self.number
    }

    /// The next elements, as many as `out` takes, less only at the end. Signed numbers are
    /// sign-extended: a negative one reads as 2^63 or more (`as i64` gives it back). After an error
    /// the reader is of no further use. Errors carry the array's name.
    pub(crate) fn read(&mut self, out: &mut [u64]) -> Result<usize> {
        let n = usize::try_from(self.left).map_or(out.len(), |left| left.min(out.len()));
        let mut raw = [0; STEP];
        for out in out[..n].chunks_mut(STEP / self.number.size) {
            patience::check()?;
            let raw = &mut raw[..out.len() * self.number.size];
            self.fill(raw)
                .map_err(|e| e.map_fault(|fault| fault.array(self.array.name())))?;
            self.number.widen(raw, out);
        }
        self.left -= n as u64;
        Ok(n)
    }

    /// The next bytes, all of `out`.
    fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        let from = self.done..self.done + out.len() as u64;
        let mut source = Following {
            array: &*self.array,
            readers: &self.readers,
            place: self.place,
        };
        let ranges = [PlacedRange { from, to: 0 }];
        gather::gather(&*self.array, &ranges, &mut source, out)?;
        self.done += out.len() as u64;
        Ok(())
    }
}

/// An array of which the last block is there.
struct Following<'a> {
    array: &'a dyn Array,
    readers: &'a SequentialReaders,
    place: usize,
}

impl PieceSource for Following<'_> {
    fn block(
        &mut self,
        id: BlockId,
        len: u64,
        copy: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let block = match self.readers.take(self.place, id) {
            Some(block) => block,
            None => {
                let scratch = self.array.scratch(id);
                let hold = self.readers.reserve(len.saturating_add(scratch));
                let mut space = Workspace::new(len, scratch, hold, len)?;
                let (block, scratch) = space.parts();
                self.array.decode(id, block, scratch)?;
                space.into_block()
            }
        };
        copy(block.bytes())?;
        self.readers.put(self.place, id, block);
        Ok(())
    }

    fn direct(&mut self, at: u64, out: &mut [u8]) -> Result<()> {
        self.array.read_direct(at, out)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::array::{Info, Order, Piece};
    use crate::memory::Arena;
    use proptest::prelude::*;

    /// Bytes in blocks up to `plain`, direct behind; counts its decodes.
    struct Bytes {
        dtype: Dtype,
        bytes: Vec<u8>,
        block_len: u64,
        plain: u64,
        decodes: AtomicU64,
    }

    impl Array for Bytes {
        fn name(&self) -> &str {
            "bytes"
        }

        fn info(&self) -> Result<Info> {
            Ok(Info {
                dtype: self.dtype.clone(),
                shape: vec![self.bytes.len() as u64],
                order: Order::C,
                bytes: self.bytes.len() as u64,
                stored_bytes: 0,
                blocks: 0,
                codec: "none".into(),
            })
        }

        fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
            let blocks = range.start..range.end.min(self.plain);
            crate::array::even_pieces(self.plain, self.block_len, blocks, out);
            let at = range.start.max(self.plain);
            if at < range.end {
                let take = range.end - at;
                out.push(Piece::Direct { at, take });
            }
            Ok(())
        }

        fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Arena<'_>) -> Result<()> {
            self.decodes.fetch_add(1, Ordering::Relaxed);
            self.read_direct(block.0 * self.block_len, out)
        }

        fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
            let stored = &self.bytes[at as usize..][..out.len()];
            out.copy_from_slice(stored);
            Ok(())
        }
    }

    fn all(array: Arc<dyn Array>, step: usize) -> Vec<u64> {
        let readers = SequentialReaders::new(&Budget::new(1 << 20));
        let mut reader = Sequential::new(array, &readers).unwrap();
        let mut all = Vec::new();
        let mut buffer = vec![0; step];
        loop {
            let n = reader.read(&mut buffer).unwrap();
            all.extend(&buffer[..n]);
            if n < step {
                return all;
            }
        }
    }

    #[test]
    fn negative_numbers_keep_their_sign() {
        for (descr, size) in [("|i1", 1), ("<i2", 2), ("<i4", 4), ("<i8", 8)] {
            let array = Bytes {
                dtype: Dtype::numpy(descr, size),
                bytes: [vec![0xfe], vec![0xff; size as usize - 1]].concat(),
                block_len: 1,
                plain: 0,
                decodes: AtomicU64::new(0),
            };
            assert_eq!(all(Arc::new(array), 5), [-2i64 as u64]);
        }
    }

    /// There is room for one block at a time, or not even for that.
    #[test]
    fn readers_of_blocks_that_fill_the_budget_get_all_their_numbers() {
        let bytes: Vec<u8> = (0..10_000u64).flat_map(u64::to_le_bytes).collect();
        for limit in [30_000, 50_000] {
            let budget = Budget::new(limit);
            let readers = SequentialReaders::new(&budget);
            let reader = || {
                let array = Bytes {
                    dtype: Dtype::U64,
                    bytes: bytes.clone(),
                    block_len: 40_000,
                    plain: 80_000,
                    decodes: AtomicU64::new(0),
                };
                Sequential::new(Arc::new(array), &readers).unwrap()
            };
            let mut pair = [reader(), reader()];
            for step in 0..10 {
                for reader in &mut pair {
                    let mut numbers = [0; 1000];
                    assert_eq!(reader.read(&mut numbers).unwrap(), 1000);
                    assert_eq!([numbers[0], numbers[999]], [step * 1000, step * 1000 + 999]);
                }
                assert!(budget.used() <= limit);
            }
            drop((pair, readers));
            assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn text_and_floats_are_refused() {
        for dtype in [Dtype::Text, Dtype::F32, Dtype::numpy("|S1", 1)] {
            assert_eq!(WholeNumber::of(&dtype), None);
        }
    }

    proptest! {
        #[test]
        fn every_element_is_read_once_and_every_block_decoded_once(
            numbers in proptest::collection::vec(any::<u64>(), 0..40_000),
            wide in any::<bool>(),
            block_len in 100u64..60_000,
            plain in 0u64..400_000,
            step in 1usize..20_000,
        ) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            let plain = plain.min(bytes.len() as u64);
            let dtype = if wide { Dtype::U64 } else { Dtype::numpy("<u2", 2) };
            let expected: Vec<u64> = match wide {
                true => numbers,
                false => bytes
                    .chunks(2)
                    .map(|e| u64::from(u16::from_le_bytes([e[0], e[1]])))
                    .collect(),
            };
            let decodes = AtomicU64::new(0);
            let array = Arc::new(Bytes { dtype, bytes, block_len, plain, decodes });
            prop_assert_eq!(all(array.clone(), step), expected);
            let decodes = array.decodes.load(Ordering::Relaxed);
            prop_assert_eq!(decodes, plain.div_ceil(block_len));
        }
    }
}
