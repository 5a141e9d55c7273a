//! The stored chunks of a dataset, packed: about three bytes each.
//!
//! libhdf5 has no way to the address of one chunk but a walk over the whole index, so the worker
//! walks it once and packs what it finds; the daemon keeps that as it came, charged to the budget,
//! and unpacks a segment of [`SEGMENT`] chunks whenever it looks for one. It comes from the worker
//! and is checked like any input: numbers must rise and lie in the grid. Addresses and sizes are
//! judged chunk by chunk when they are used, so that one bad entry costs one chunk; ranges may
//! overlap, which is harmless.
//!
//! ```text
//! chunks (8 bytes)
//! segments: number of the first chunk, where its entries begin (8 bytes each)
//! entries: what differs from the chunk before (1 byte), those numbers as in LEB128
//! ```
//!
//! Packed by `library`, used by `dataset::chunked`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::index::ChunkEntry;
use crate::error::{Fault, Result};
use crate::memory::budget::Hold;

/// Chunks that are unpacked to find one.
const SEGMENT: u64 = 64;

const HEAD: usize = 8;
const SEGMENT_BYTES: usize = 16;

/// What is told of an entry, if it is not as follows from the one before.
const NUMBER: u8 = 1;
const ADDRESS: u8 = 2;
const SIZE: u8 = 4;
const MASK: u8 = 8;

/// The chunk before the first.
const NONE: ChunkEntry = ChunkEntry {
    number: u64::MAX,
    address: 0,
    size: 0,
    mask: 0,
};

/// Cheap to clone: the packed bytes are shared.
#[derive(Clone)]
pub(super) struct ChunkTable {
    received: Arc<ReceivedTable>,
    /// Chunks that have been stored elsewhere since, by number.
    moved: BTreeMap<u64, ChunkEntry>,
    /// Chunks that are stored.
    stored: u64,
    /// Every entry has been looked at, for a grid of so many chunks.
    checked: Option<u64>,
}

/// A table as it came.
struct ReceivedTable {
    /// Begins with something else, `skip` bytes of it.
    bytes: Vec<u8>,
    skip: usize,
    /// For the bytes; none if they are few.
    hold: Option<Hold>,
}

/// So many chunks that have moved are remembered beside a table: beyond, it is asked for anew.
const MOVED_MOST: usize = 4096;

impl ChunkTable {
    /// The table that lies behind `skip` bytes, charged to `hold`.
    pub(super) fn received(bytes: Vec<u8>, skip: usize, hold: Hold) -> ChunkTable {
        ChunkTable::of(ReceivedTable {
            bytes,
            skip,
            hold: Some(hold),
        })
    }

    fn of(received: ReceivedTable) -> ChunkTable {
        ChunkTable {
            received: Arc::new(received),
            moved: BTreeMap::new(),
            stored: 0,
            checked: None,
        }
    }

    /// A small one, which came with the index.
    pub(super) fn small(stored: &[ChunkEntry]) -> ChunkTable {
        let mut packer = ChunkPacker::default();
        stored.iter().for_each(|chunk| packer.push(*chunk));
        ChunkTable::of(ReceivedTable {
            bytes: packer.finish(),
            skip: 0,
            hold: None,
        })
    }

    /// This table with these chunks where a commit puts them; none if they are too many.
    pub(super) fn with_moved(&self, moved: &[ChunkEntry]) -> Option<ChunkTable> {
        let mut table = self.clone();
        for chunk in moved {
            let is_first = table.moved.insert(chunk.number, *chunk).is_none();
            table.stored += u64::from(is_first && self.get(chunk.number).is_none());
        }
        (table.moved.len() <= MOVED_MOST).then_some(table)
    }

    /// Looks at every entry. `chunks`: how many the grid has.
    pub(super) fn checked(mut self, chunks: u64) -> Result<ChunkTable> {
        if self.checked == Some(chunks) {
            return Ok(self);
        }
        let mut before: Option<u64> = None;
        let mut found = 0u64;
        let packed = self.packed();
        for segment in 0..packed.segments() {
            let first = packed.segment(segment).map(|(first, _)| first);
            if packed.entries(segment).next().map(|chunk| chunk.number) != first {
                return Err(Fault::new("the table of chunks cannot be read").into());
            }
            for chunk in packed.entries(segment) {
                check(before, chunk.number, chunks)?;
                before = Some(chunk.number);
                found += 1;
            }
        }
        let said = packed.stored();
        if found != said {
            let fault = Fault::new("the table of chunks has not all its entries");
            return Err(fault.expected(said).found(found).into());
        }
        (self.stored, self.checked) = (found, Some(chunks));
        Ok(self)
    }

    /// Chunks that are stored.
    pub(super) fn len(&self) -> u64 {
        self.stored
    }

    /// Bytes that no budget is charged for.
    pub(super) fn uncharged(&self) -> u64 {
        match &self.received.hold {
            Some(_) => 0,
            None => self.received.bytes.capacity() as u64,
        }
    }

    /// The chunk of this number, if it is stored.
    pub(super) fn get(&self, number: u64) -> Option<ChunkEntry> {
        if let Some(moved) = self.moved.get(&number) {
            return Some(*moved);
        }
        let packed = self.packed();
        let segment = packed.segment_of(number)?;
        let mut entries = packed.entries(segment);
        let found = entries.find(|chunk| chunk.number >= number);
        found.filter(|chunk| chunk.number == number)
    }

    /// The stored chunks by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = ChunkEntry> {
        let mut packed = self.packed().iter().peekable();
        let mut moved = self.moved.values().copied().peekable();
        std::iter::from_fn(move || match (packed.peek(), moved.peek()) {
            (Some(stays), Some(first)) if stays.number < first.number => packed.next(),
            (Some(stays), Some(first)) => {
                if stays.number == first.number {
                    packed.next();
                }
                moved.next()
            }
            (None, Some(_)) => moved.next(),
            (_, None) => packed.next(),
        })
    }

    fn packed(&self) -> PackedChunks<'_> {
        let (bytes, skip) = (&self.received.bytes, self.received.skip);
        PackedChunks(bytes.get(skip..).unwrap_or_default())
    }
}

fn check(before: Option<u64>, number: u64, chunks: u64) -> Result<()> {
    if let Some(before) = before.filter(|before| *before >= number) {
        let fault = Fault::new("the table of chunks does not rise").block(number);
        return Err(fault.expected(format_args!("more than {before}")).into());
    }
    if number >= chunks {
        let fault = Fault::new("the table has a chunk outside of the dataset").block(number);
        let expected = format_args!("fewer than {chunks} chunks");
        return Err(fault.expected(expected).into());
    }
    Ok(())
}

/// A packed table; whatever its bytes are, reading it ends.
#[derive(Clone, Copy)]
pub(super) struct PackedChunks<'a>(pub(super) &'a [u8]);

impl<'a> PackedChunks<'a> {
    fn stored(self) -> u64 {
        self.number(0).unwrap_or(0)
    }

    fn segments(self) -> u64 {
        let room = self.0.len().saturating_sub(HEAD) / SEGMENT_BYTES;
        self.stored().div_ceil(SEGMENT).min(room as u64)
    }

    fn number(self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Number of the first chunk of a segment, and where its entries begin.
    fn segment(self, segment: u64) -> Option<(u64, usize)> {
        let at = HEAD + SEGMENT_BYTES * usize::try_from(segment).ok()?;
        Some((self.number(at)?, self.number(at + 8)?.try_into().ok()?))
    }

    /// The segment in which a chunk of this number is, if it is stored.
    fn segment_of(self, number: u64) -> Option<u64> {
        let (mut low, mut high) = (0, self.segments());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.segment(middle) {
                Some((first, _)) if first <= number => low = middle + 1,
                _ => high = middle,
            }
        }
        low.checked_sub(1)
    }

    fn entries(self, segment: u64) -> Entries<'a> {
        let left = self.stored() - (SEGMENT * segment).min(self.stored());
        let (first, at) = self.segment(segment).unwrap_or((0, usize::MAX));
        Entries {
            bytes: self.0.get(at..).unwrap_or_default(),
            before: ChunkEntry {
                number: first.wrapping_sub(1),
                ..NONE
            },
            left: left.min(SEGMENT),
        }
    }

    /// Every chunk.
    pub(super) fn iter(self) -> impl Iterator<Item = ChunkEntry> {
        (0..self.segments()).flat_map(move |segment| self.entries(segment))
    }
}

/// Entries of a segment; ends early if they cannot be read.
struct Entries<'a> {
    bytes: &'a [u8],
    before: ChunkEntry,
    left: u64,
}

impl Iterator for Entries<'_> {
    type Item = ChunkEntry;

    fn next(&mut self) -> Option<ChunkEntry> {
        self.left = self.left.checked_sub(1)?;
        let (&kinds, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        let mut field = |what, value: u64| match kinds & what {
            0 => Some(value),
            _ => take(&mut self.bytes).map(|more| value.wrapping_add(more)),
        };
        let before = self.before;
        let chunk = ChunkEntry {
            number: field(NUMBER, before.number.wrapping_add(1))?,
            address: field(ADDRESS, before.address.wrapping_add(before.size))?,
            size: field(SIZE, before.size)?,
            mask: u32::try_from(field(MASK, before.mask.into())?).ok()?,
        };
        self.before = chunk;
        Some(chunk)
    }
}

/// Takes a number in LEB128 with the sign in its lowest bit.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((number >> 1) ^ (number & 1).wrapping_neg());
        }
    }
    None
}

fn put(number: u64, bytes: &mut Vec<u8>) {
    // Small differences are small numbers, in either direction.
    let mut left = (number << 1) ^ ((number as i64 >> 63) as u64);
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
}

/// Packs chunks, which come by number.
pub(super) struct ChunkPacker {
    segments: Vec<(u64, u64)>,
    entries: Vec<u8>,
    before: ChunkEntry,
    stored: u64,
}

impl Default for ChunkPacker {
    fn default() -> Self {
        ChunkPacker {
            segments: Vec::new(),
            entries: Vec::new(),
            before: NONE,
            stored: 0,
        }
    }
}

impl ChunkPacker {
    pub(super) fn len(&self) -> u64 {
        self.stored
    }

    /// Whether a chunk of this number may come next.
    pub(super) fn is_behind(&self, number: u64) -> bool {
        self.stored == 0 || number > self.before.number
    }

    pub(super) fn push(&mut self, chunk: ChunkEntry) {
        if self.stored.is_multiple_of(SEGMENT) {
            self.segments
                .push((chunk.number, self.entries.len() as u64));
            self.before = ChunkEntry {
                number: chunk.number.wrapping_sub(1),
                ..NONE
            };
        }
        let before = self.before;
        let end = before.address.wrapping_add(before.size);
        let differences = [
            (
                NUMBER,
                chunk.number.wrapping_sub(before.number.wrapping_add(1)),
            ),
            (ADDRESS, chunk.address.wrapping_sub(end)),
            (SIZE, chunk.size.wrapping_sub(before.size)),
            (MASK, u64::from(chunk.mask).wrapping_sub(before.mask.into())),
        ];
        let received = differences
            .iter()
            .filter(|(_, difference)| *difference != 0);
        self.entries
            .push(received.clone().fold(0, |all, (what, _)| all | what));
        received.for_each(|(_, difference)| put(*difference, &mut self.entries));
        self.before = chunk;
        self.stored += 1;
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let start = HEAD + SEGMENT_BYTES * self.segments.len();
        let mut bytes = Vec::with_capacity(start + self.entries.len());
        bytes.extend(self.stored.to_le_bytes());
        for (first, at) in self.segments {
            bytes.extend(first.to_le_bytes());
            bytes.extend((at + start as u64).to_le_bytes());
        }
        bytes.extend(self.entries);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Budget;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn chunk(number: u64, mask: u32) -> ChunkEntry {
        ChunkEntry {
            number,
            address: 1000 + 7 * number,
            size: 3 + number,
            mask,
        }
    }

    #[test]
    fn numbers_must_rise_and_lie_in_the_grid() {
        let table = |numbers: &[u64]| {
            let chunks: Vec<ChunkEntry> = numbers.iter().map(|&n| chunk(n, 0)).collect();
            ChunkTable::small(&chunks).checked(4)
        };
        assert!(table(&[0, 1, 3]).is_ok());
        assert!(table(&[]).is_ok());
        for (numbers, what) in [
            (&[0, 0][..], "rise"),
            (&[2, 1], "rise"),
            (&[1, 4], "outside"),
        ] {
            let refused = table(numbers).err().unwrap();
            assert!(refused.to_string().contains(what));
        }
    }

    #[test]
    fn chunks_behind_each_other_take_little() {
        let chunks = (0..100_000u64).map(|number| ChunkEntry {
            number,
            address: 5000 + 4096 * number,
            size: 4096 - number % 3,
            mask: 0,
        });
        let mut packer = ChunkPacker::default();
        chunks.for_each(|chunk| packer.push(chunk));
        let bytes = packer.finish().len();
        assert!(bytes < 400_000, "{bytes}");
    }

    fn any_chunks() -> impl Strategy<Value = BTreeMap<u64, ChunkEntry>> {
        let any = (any::<u64>(), any::<u64>(), 0u32..3);
        let chunks = prop::collection::btree_map(0u64..1000, any, 0..300);
        chunks.prop_map(|chunks| {
            let entry = |(number, (address, size, mask))| {
                (
                    number,
                    ChunkEntry {
                        number,
                        address,
                        size,
                        mask,
                    },
                )
            };
            chunks.into_iter().map(entry).collect()
        })
    }

    proptest! {
        #[test]
        fn chunks_are_found_by_number(chunks in any_chunks()) {
            let listed: Vec<ChunkEntry> = chunks.values().copied().collect();
            let table = ChunkTable::small(&listed).checked(1000).unwrap();
            for number in 0..1010 {
                prop_assert_eq!(table.get(number), chunks.get(&number).copied());
            }
            prop_assert_eq!(table.iter().collect::<Vec<_>>(), listed);
        }

        #[test]
        fn chunks_that_have_moved_are_found_where_they_are(
            mut chunks in any_chunks(), moves in prop::collection::vec(any_chunks(), 0..3),
        ) {
            let listed: Vec<ChunkEntry> = chunks.values().copied().collect();
            let mut table = ChunkTable::small(&listed).checked(1000).unwrap();
            for moved in moves {
                let listed: Vec<ChunkEntry> = moved.values().copied().collect();
                table = table.with_moved(&listed).unwrap().checked(1000).unwrap();
                chunks.extend(moved);
            }
            for number in 0..1010 {
                prop_assert_eq!(table.get(number), chunks.get(&number).copied());
            }
            prop_assert_eq!(table.len(), chunks.len() as u64);
            prop_assert_eq!(table.iter().collect::<Vec<_>>(), chunks.into_values().collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_a_table_or_refused(
            chunks in any_chunks(), changed in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            kept in any::<prop::sample::Index>(),
        ) {
            let mut packer = ChunkPacker::default();
            chunks.values().for_each(|chunk| packer.push(*chunk));
            let mut bytes = packer.finish();
            for (at, byte) in changed {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(kept.index(bytes.len() + 1));
            let hold = Budget::new(1 << 20).keep(0).unwrap();
            if let Ok(table) = ChunkTable::received(bytes, 0, hold).checked(1000) {
                let numbers: Vec<u64> = table.iter().map(|chunk| chunk.number).collect();
                prop_assert!(numbers.is_sorted_by(|a, b| a < b) && numbers.len() as u64 == table.len());
                for number in numbers {
                    prop_assert!(table.get(number).is_some());
                }
            }
        }
    }
}
