//! Where chunks go that are encoded anew: arithmetic, and the row of writes that follows from it.
//!
//! Chunks lie back to back. One that has become smaller fills its place with slack; one that has
//! become larger moves those behind it, until another has bytes to spare. The table of a small file
//! has three spare entries for each chunk, that of any other a hole with room for 256 Ki chunks, so
//! a file that grows moves what it has while that is little. Pure; used by [`super::flush`], which
//! decides whether the writes go to the file at once or through its log, and by [`super::relaid`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::base::{ENTRY, MOST_CHUNKS, StoredChunks};
use super::encode;
use super::pieces::MergePiece;
use super::places::ChunkPlaces;
use crate::codec::blosc::ChunkHeader;
use crate::container::bloscpack::layout;
use crate::error::{Error, Result};
use crate::memory::fallible;

/// Entries of a small new table for each chunk; of any other the number is a multiple of it.
pub(super) const ENTRIES_EACH: u64 = 4;

/// From so many chunks on a table has room for all that a file may get before it is very large: no
/// chunk moves when it grows.
const FEW: u64 = 64;
const MANY: u64 = 256 << 10;

/// Entries of a new table for so many chunks.
pub(super) fn table_entries(chunks: u64) -> u64 {
    match chunks {
        0..FEW => chunks * ENTRIES_EACH,
        FEW..MANY => MANY,
        _ => MOST_CHUNKS.max(chunks),
    }
}

/// What file systems allocate at once.
const BLOCK: u64 = 4096;

/// Whether the entries that say nothing are not written: a hole takes no room on the disk.
pub(super) fn has_hole(entries: u64) -> bool {
    entries >= MANY
}

/// Small chunks are put with one write.
const TOGETHER: usize = 64 << 10;

/// A merge: what the file is afterwards, and what makes it that. Chunks come by their places, what
/// moves to the right first from the right.
#[derive(Debug)]
pub(super) struct MergePlan {
    pub(super) stored: StoredChunks,
    pub(super) pieces: Vec<MergePiece>,
    /// Entries of a large new table that say nothing, and need not be there.
    pub(super) hole: Option<Range<u64>>,
}

/// What a file is to become.
pub(super) struct MergeOrder {
    /// Plain bytes.
    pub(super) len: u64,
    /// So many of the stored chunks keep their bytes, but for those encoded anew.
    pub(super) valid: u64,
    /// Chunks that change.
    pub(super) encoded: BTreeMap<u64, NewChunk>,
    /// What has changed of those that are stored as they are, and are so again.
    pub(super) patches: BTreeMap<u64, Range<usize>>,
    /// Others that become zeros, as a whole; in order.
    pub(super) zeroed: Vec<Range<u64>>,
    /// A whole chunk of zeros: chunks that are neither stored nor encoded are those.
    pub(super) zeros: Arc<Vec<u8>>,
    /// Bytes of an element, for a file that has no chunks yet.
    pub(super) typesize: u8,
    /// Drop the metadata: they may describe another length.
    pub(super) drops_metadata: bool,
    /// Nothing is written: it costs nothing to move chunks.
    pub(super) is_for_readers: bool,
}

/// A chunk that changes.
pub(super) enum NewChunk {
    /// Encoded, with its digest.
    Encoded(Vec<u8>),
    /// So many bytes, made when they are read.
    Plain(u64),
}

impl MergePlan {
    /// Bytes that are only moved.
    pub(super) fn moved(&self) -> u64 {
        let moved = |piece: &MergePiece| match piece {
            MergePiece::Moved { len, .. } => *len,
            _ => 0,
        };
        self.pieces.iter().map(moved).sum()
    }

    pub(super) fn new(old: &StoredChunks, order: MergeOrder) -> Result<MergePlan> {
        let mut layout = Layouting::begin(old, &order)?;
        let from = layout.first_changed(old, &order);
        if from > 0 {
            layout.new.places = old.places.first(from)?;
        }
        let (mut encoded, mut zeroed) = (order.encoded, order.zeroed.into_iter().peekable());
        for number in from..layout.chunks {
            while zeroed.next_if(|range| range.end <= number).is_some() {}
            let is_zeroed = zeroed.peek().is_some_and(|range| range.contains(&number));
            match encoded.remove(&number) {
                Some(NewChunk::Plain(len)) => layout.make(number, len)?,
                Some(NewChunk::Encoded(bytes)) => match order.patches.get(&number) {
                    Some(changed) => layout.patch(old, number, bytes, changed)?,
                    None => layout.put(old, number, bytes)?,
                },
                None if number < order.valid && !is_zeroed => layout.keep(old, number)?,
                None => layout.put_zeros(old, number, &order.zeros)?,
            }
        }
        layout.end(old, from)
    }
}

/// A plan that is being made.
struct Layouting {
    new: StoredChunks,
    chunks: u64,
    valid: u64,
    moves_freely: bool,
    moved: Vec<MergePiece>,
    put: Vec<MergePiece>,
}

impl Layouting {
    fn begin(old: &StoredChunks, order: &MergeOrder) -> Result<Layouting> {
        let size = u64::from(old.form.chunk_size);
        let chunks = order.len.div_ceil(size).max(1);
        let mut new = StoredChunks {
            last: (order.len - (chunks - 1) * size) as u32,
            said_size: old.form.chunk_size,
            ..old.clone_without_places()
        };
        if old.chunks() == 0 {
            new.typesize = order.typesize.max(1);
        }
        if order.drops_metadata {
            (new.table, new.has_metadata, new.describes_array) = (layout::HEADER, false, false);
        }
        // Other programs' files without a table stay so.
        let has_none = old.chunks() > 0 && old.entries == 0;
        if !has_none && (chunks > new.entries || order.drops_metadata) {
            new.entries = table_entries(chunks);
        }
        new.places = ChunkPlaces::from(new.table + new.entries * ENTRY);
        Ok(Layouting {
            new,
            chunks,
            valid: order.valid,
            moves_freely: order.is_for_readers,
            moved: Vec::new(),
            put: Vec::new(),
        })
    }

    /// Where the next chunk goes.
    fn next(&self) -> u64 {
        self.new.places.end()
    }

    /// The first chunk that is not where it was, or not what it was.
    fn first_changed(&self, old: &StoredChunks, order: &MergeOrder) -> u64 {
        if self.next() != old.first() {
            return 0;
        }
        let changed = order.encoded.keys().next().copied().unwrap_or(u64::MAX);
        let zeroed = order.zeroed.first().map_or(u64::MAX, |range| range.start);
        changed.min(zeroed).min(order.valid).min(self.chunks)
    }

    /// A stored chunk stays as it is, perhaps elsewhere.
    fn keep(&mut self, old: &StoredChunks, number: u64) -> Result<()> {
        let (from, len) = old.slot(number).unwrap_or_default();
        let to = self.next();
        if from != to {
            match self.moved.last_mut() {
                Some(MergePiece::Moved {
                    from: f,
                    to: t,
                    len: l,
                }) if *f + *l == from && *t + *l == to => {
                    *l += len;
                }
                _ => self.moved.push(MergePiece::Moved { from, to, len }),
            }
        }
        self.place(len)
    }

    /// A chunk is encoded anew. One that is smaller than its place ends where that ended, so that
    /// those behind stay, or come back to where they were.
    fn put(&mut self, old: &StoredChunks, number: u64, mut bytes: Vec<u8>) -> Result<()> {
        let is_last = number + 1 == self.chunks;
        if !is_last && number < self.valid && !self.moves_freely {
            let (at, len) = old.slot(number).unwrap_or_default();
            let slot = (at + len).saturating_sub(self.next()) as usize;
            if slot > bytes.len() && slot as u64 <= old.form.most_stored() {
                encode::pad(&mut bytes, slot, old.form.checksum)?;
            }
        }
        let (len, next) = (bytes.len() as u64, self.next());
        match self.put.last_mut() {
            Some(MergePiece::New { to, bytes: before })
                if *to + before.len() as u64 == next && before.len() + bytes.len() <= TOGETHER =>
            {
                before.extend_from_slice(&bytes);
            }
            _ => self.put.push(MergePiece::New { to: next, bytes }),
        }
        self.place(len)
    }

    /// A chunk that is stored as it is: if it stays where it was, what has changed of it, and its
    /// digest.
    fn patch(
        &mut self,
        old: &StoredChunks,
        number: u64,
        bytes: Vec<u8>,
        changed: &Range<usize>,
    ) -> Result<()> {
        let (at, len) = old.slot(number).unwrap_or_default();
        let digest = bytes.len() - old.form.checksum.digest_len();
        let part = changed.start + ChunkHeader::LEN..(changed.end + ChunkHeader::LEN).min(digest);
        if at != self.next() || len != bytes.len() as u64 || part.start >= part.end {
            return self.put(old, number, bytes);
        }
        for range in [part, digest..bytes.len()] {
            self.put.push(MergePiece::New {
                to: at + range.start as u64,
                bytes: bytes[range].to_vec(),
            });
        }
        self.place(len)
    }

    /// A chunk that is made when it is read.
    fn make(&mut self, number: u64, len: u64) -> Result<()> {
        let to = self.next();
        fallible::push(
            &mut self.put,
            MergePiece::Made { to, number, len },
            "cannot read a log",
        )?;
        self.place(len)
    }

    /// A chunk of zeros that was none before.
    fn put_zeros(&mut self, old: &StoredChunks, number: u64, zeros: &Arc<Vec<u8>>) -> Result<()> {
        if number < old.chunks() && number < self.valid && !self.moves_freely {
            return self.put(old, number, zeros.to_vec());
        }
        let next = self.next();
        match self.put.last_mut() {
            Some(MergePiece::Repeated { to, bytes, count })
                if *to + bytes.len() as u64 * *count == next =>
            {
                *count += 1;
            }
            _ => self.put.push(MergePiece::Repeated {
                to: next,
                bytes: Arc::clone(zeros),
                count: 1,
            }),
        }
        self.place(zeros.len() as u64)
    }

    fn place(&mut self, len: u64) -> Result<()> {
        let len = u32::try_from(len).map_err(|_| Error::Bug("a chunk is too long".into()))?;
        self.new.places.push(len)
    }

    fn end(mut self, old: &StoredChunks, from: u64) -> Result<MergePlan> {
        let (right, left): (Vec<_>, Vec<_>) = self
            .moved
            .into_iter()
            .partition(|piece| matches!(piece, MergePiece::Moved { from, to, .. } if to > from));
        let mut pieces: Vec<_> = left.into_iter().chain(right.into_iter().rev()).collect();
        let table = self.new.table_from(old, from)?;
        let is_one = self.put.len() == 1;
        match (self.put.first_mut().filter(|_| is_one), table) {
            // A small file is one write.
            (Some(MergePiece::New { to, bytes }), Some(table))
                if table.to() == layout::HEADER
                    && layout::HEADER + table.len() == *to
                    && pieces.is_empty() =>
            {
                let entries = table.table_part(0, table.len() as usize)?;
                *bytes = [&self.new.header()[..], &entries, bytes].concat();
                *to = 0;
                pieces.extend(self.put);
            }
            (_, table) => {
                pieces.extend(self.put);
                pieces.extend(table.filter(|table| table.len() > 0));
                let bytes = self.new.header().to_vec();
                pieces.push(MergePiece::New { to: 0, bytes });
            }
        }
        let hole = self.new.spare();
        let is_large = has_hole(self.new.entries) && self.new.has_new_table(old);
        Ok(MergePlan {
            stored: self.new,
            pieces,
            hole: (is_large && !hole.is_empty()).then_some(hole),
        })
    }
}

impl StoredChunks {
    pub(super) fn clone_without_places(&self) -> StoredChunks {
        StoredChunks {
            places: ChunkPlaces::from(self.first()),
            ..*self
        }
    }

    /// Bytes that move when the file gets so many chunks, if those are few.
    pub(super) fn moved_to_grow(&self, chunks: u64) -> u64 {
        let moves = self.chunks() > 0 && self.entries > 0 && chunks > self.entries;
        match moves && self.chunks() < MANY {
            true => self.end() - self.first(),
            false => 0,
        }
    }

    /// Where entries go that are no more than a hole yet, of so many chunks; whole blocks.
    pub(super) fn table_room(&self, chunks: u64) -> Option<Range<u64>> {
        let used = self.table + self.chunks() * ENTRY;
        let end = self.table + chunks.min(self.entries) * ENTRY;
        let end = end.next_multiple_of(BLOCK).min(self.first());
        (has_hole(self.entries) && end > used).then_some(used..end)
    }

    /// Where entries lie that say nothing.
    pub(super) fn spare(&self) -> Range<u64> {
        self.table + self.chunks().min(self.entries) * ENTRY..self.table + self.entries * ENTRY
    }

    fn has_new_table(&self, old: &StoredChunks) -> bool {
        self.entries != old.entries || self.table != old.table
    }

    /// The entries of the table from a chunk on: of spare ones as many as there are in a small new
    /// table, or as were used before.
    fn table_from(&self, old: &StoredChunks, from: u64) -> Result<Option<MergePiece>> {
        if self.entries == 0 {
            return Ok(None);
        }
        let is_new = self.has_new_table(old);
        let from = if is_new { 0 } else { from };
        let count = self.chunks();
        let end = match is_new {
            true if has_hole(self.entries) => count,
            true => self.entries,
            false => old.chunks().max(count).min(self.entries),
        };
        let first = from.min(count);
        Ok(Some(MergePiece::Table {
            to: self.table + from * ENTRY,
            places: self.places.copy()?,
            chunks: first..count,
            unused: end.saturating_sub(from.max(count)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::base::StoredForm;
    use super::*;
    use crate::codec::checksum::Checksum;
    use proptest::prelude::*;

    const SIZE: usize = 512;

    fn encoded(number: u64, edition: u64, hard: bool, len: usize) -> Vec<u8> {
        let mut state = number.wrapping_mul(977) ^ edition.wrapping_mul(31) | 1;
        let plain: Vec<u8> = (0..len)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                if hard {
                    (state >> 33) as u8
                } else {
                    (state >> 62) as u8
                }
            })
            .collect();
        let options = encode::EncodeOptions::default();
        let encoder = encode::ChunkEncoder::choose(&plain, &options, Checksum::Adler32);
        let mut space = encode::EncodeSpace::default();
        let len = encoder.encode(&plain, encode::ChunkSlack::Spare, &mut space);
        space.encoded(len.unwrap()).to_vec()
    }

    /// Does what the flush of a file does that was never synced.
    fn apply(file: &mut Vec<u8>, plan: &MergePlan) {
        for piece in &plan.pieces {
            let to = piece.to() as usize;
            let bytes = match piece {
                MergePiece::New { bytes, .. } => bytes.clone(),
                MergePiece::Repeated { bytes, count, .. } => bytes.repeat(*count as usize),
                MergePiece::Made { .. } => unreachable!(),
                MergePiece::Table { .. } => piece.table_part(0, piece.len() as usize).unwrap(),
                MergePiece::Moved { from, len, .. } => {
                    file[*from as usize..(*from + *len) as usize].to_vec()
                }
            };
            file.resize(file.len().max(to + bytes.len()), 0);
            file[to..to + bytes.len()].copy_from_slice(&bytes);
        }
        file.truncate(plan.stored.end() as usize);
    }

    proptest! {
        #[test]
        fn chunks_are_where_the_plan_says(
            rounds in proptest::collection::vec(
                (1usize..40 * SIZE, proptest::collection::btree_map(0u64..40, any::<bool>(), 0..8), 0u64..40), 1..6)
        ) {
            let mut stored = StoredChunks::none(StoredForm {
                chunk_size: SIZE as u32,
                checksum: Checksum::Adler32,
            });
            let mut file = Vec::new();
            let mut content: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            let mut len_before = 0;
            for (edition, (len, changed, valid)) in rounds.into_iter().enumerate() {
                let chunks = (len as u64).div_ceil(SIZE as u64);
                let last = len - (chunks as usize - 1) * SIZE;
                let valid = valid.min(stored.chunks()).min(chunks);
                let plain = |number: u64| if number + 1 == chunks { last } else { SIZE };
                let mut new = BTreeMap::new();
                for (number, hard) in changed {
                    if number < chunks {
                        new.insert(number, encoded(number, edition as u64, hard, plain(number)));
                    }
                }
                // What has another length now is encoded anew, as a flush sees to.
                for number in [(len_before as u64).div_ceil(SIZE as u64).saturating_sub(1), chunks - 1] {
                    if number < chunks && len != len_before {
                        new.entry(number).or_insert_with(|| encoded(number, 7, true, plain(number)));
                    }
                }
                content.retain(|number, _| *number < valid);
                content.extend(new.clone());
                let zeros = encode::encoded_zeros(SIZE, Checksum::Adler32).unwrap();
                let order = MergeOrder { len: len as u64, valid, encoded: new.into_iter().map(|(number, bytes)| (number, NewChunk::Encoded(bytes))).collect(), patches: BTreeMap::new(), zeroed: Vec::new(), is_for_readers: false, zeros: Arc::new(zeros.clone()), typesize: 1, drops_metadata: false };
                let plan = MergePlan::new(&stored, order).unwrap();
                apply(&mut file, &plan);
                stored = plan.stored;
                len_before = len;
                prop_assert_eq!(stored.chunks(), chunks);
                prop_assert_eq!(&file[..32], &stored.header()[..]);
                for number in 0..chunks {
                    let (at, slot) = stored.slot(number).unwrap();
                    let entry = (stored.table + number * ENTRY) as usize;
                    prop_assert_eq!(&file[entry..entry + 8], &at.to_le_bytes()[..]);
                    let mut expected = content.get(&number).unwrap_or(&zeros).clone();
                    encode::pad(&mut expected, slot as usize, Checksum::Adler32).unwrap();
                    prop_assert_eq!(&file[at as usize..(at + slot) as usize], &expected[..]);
                }
                prop_assert!(stored.entries >= chunks);
            }
        }
    }
}
