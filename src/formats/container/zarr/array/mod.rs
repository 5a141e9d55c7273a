//! Arrays whose elements have all the same size: a block is a chunk, or an inner chunk of a shard,
//! in its shown form, as large at the edges as elsewhere.
//!
//! Where a chunk lies is found out when it is read ([`places`], [`shards`]). Chunks that are
//! missing are made up, and cost one look. Used by [`super::assemble`].

mod listed;
mod places;
mod seen;
mod shards;
mod wrapped;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::current::ReadChunks;
use super::damage;
use super::document::ArrayDocument;
use super::keys::KeyEncoding;
use super::members::Members;
use super::plan::DecodePlan;
use crate::array::fill::Fill;
use crate::array::grid::ChunkGrid;
use crate::array::nested::NestedBlocks;
use crate::array::{Array, BlockId, Info, Order, Piece, direct_piece};
use crate::codec::numcodecs::Chain;
use crate::error::{Error, Fault, Result};
use crate::memory::{Arena, room};
use crate::range_set::RangeSet;
use crate::source::{SourceIdentity, StoredRanges};
use crate::sync::Mutex;
pub(super) use listed::STORED_MOST;
use places::KeyedChunks;
pub(super) use places::OpenChunks;
pub(super) use places::{ChunkAt, ChunkLookup, Counts};
use seen::SeenKeys;
use shards::ShardedChunks;

/// So many separate runs of known chunks are remembered; of more, all are looked for again.
const RUNS_MOST: usize = 4096;

/// Of more chunks of one request, the indices are read one by one.
const NAMED_MOST: usize = 4096;

/// Where an array lies in its store.
pub(super) struct ArrayPlace {
    pub(super) members: Arc<dyn Members>,
    pub(super) key: PathBuf,
    pub(super) nested: Arc<NestedBlocks>,
    /// The array's document.
    pub(super) document: (PathBuf, SourceIdentity),
    pub(super) open: Arc<OpenChunks>,
}

impl ArrayPlace {
    /// What the array occupies, if that is known.
    pub(super) fn stored(&self) -> u64 {
        self.members
            .stored_below(&self.key)
            .unwrap_or(Info::UNCOUNTED)
    }
}

/// Finds the innermost chunks of an array.
pub(super) fn places(
    at: &ArrayPlace,
    shape: &[u64],
    (keys, outer): (KeyEncoding, &[u64]),
    (shards, chunk): (Vec<super::plan::ShardLevel>, &[u64]),
) -> Result<Arc<dyn ChunkLookup>> {
    let counts = Counts::new(shape, outer);
    if counts.total().is_none() {
        return Err(Fault::new("the array has more chunks than there can be").into());
    }
    let seen = SeenKeys::new(at.nested.budget());
    let known = (seen, at.document.clone(), &at.open);
    let keyed = KeyedChunks::new(&at.members, at.key.clone(), (keys, counts), known);
    let mut found: Arc<dyn ChunkLookup> = Arc::new(keyed);
    let mut inner: Vec<Vec<u64>> = shards
        .iter()
        .skip(1)
        .map(|level| level.chunk.clone())
        .collect();
    inner.push(chunk.to_vec());
    for (level, inner) in shards.into_iter().zip(inner) {
        found = Arc::new(ShardedChunks::new(
            found,
            level,
            (shape, &inner),
            &at.nested,
        )?);
    }
    Ok(found)
}

/// Names what locating these chunks takes; of what has to be there before, it is asked for.
pub(super) fn name_places(
    places: &dyn ChunkLookup,
    numbers: Vec<u64>,
    needed: &mut StoredRanges,
) -> Result<()> {
    for round in 0..places.rounds() {
        let mut own = StoredRanges::default();
        let is_last = round + 1 == places.rounds();
        for number in &numbers {
            let into = if is_last { &mut *needed } else { &mut own };
            places.name(&places.place(*number), round, into)?;
        }
        own.hand_over();
    }
    Ok(())
}

pub(super) struct ZarrArray {
    name: String,
    info: Info,
    grid: ChunkGrid,
    chain: Chain,
    fill: Fill,
    places: Arc<dyn ChunkLookup>,
    known: Mutex<KnownChunks>,
}

/// Chunks that have been looked for.
#[derive(Default)]
struct KnownChunks {
    stored: RangeSet,
    missing: RangeSet,
}

impl KnownChunks {
    fn is_stored(&self, number: u64) -> Option<bool> {
        let one = number..number.saturating_add(1);
        match (self.stored.contains(&one), self.missing.contains(&one)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    fn note(&mut self, number: u64, is_stored: bool) {
        let set = match is_stored {
            true => &mut self.stored,
            false => &mut self.missing,
        };
        set.insert(number..number.saturating_add(1));
        if set.ranges() > RUNS_MOST {
            *set = RangeSet::default();
        }
    }
}

impl ZarrArray {
    pub(super) fn new(name: &str, document: ArrayDocument, at: &ArrayPlace) -> Result<ZarrArray> {
        let outer = document.outer_chunk().to_vec();
        let (shape, size) = (document.shape, document.element.size() as u64);
        let DecodePlan {
            shards,
            chunk,
            chain,
            name: codec,
            ..
        } = document.plan;
        let grid = ChunkGrid::new(&shape, &chunk, size).map_err(Fault::new)?;
        let places = places(at, &shape, (document.keys, &outer), (shards, &chunk))?;
        let bytes = crate::array::grid::product(&shape, size);
        Ok(ZarrArray {
            name: name.to_owned(),
            info: Info {
                dtype: document.element.dtype(),
                bytes: bytes.ok_or_else(|| Fault::new("the array has too many bytes"))?,
                shape,
                order: Order::C,
                stored_bytes: at.stored(),
                blocks: grid.chunks(),
                codec: codec.into(),
            },
            grid,
            chain,
            fill: Fill::new(&document.fill)?,
            places,
            known: Mutex::default(),
        })
    }

    fn locate(&self, number: u64) -> Result<Option<ChunkAt>> {
        let located = self.places.locate(&self.places.place(number));
        located.map_err(|e| e.map_fault(|fault| fault.block(number)))
    }

    /// Whether a chunk is stored; what is wrong with it is told without memory for it.
    fn is_stored(&self, number: u64) -> Result<bool> {
        if let Some(known) = self.known.lock().is_stored(number) {
            return Ok(known);
        }
        let found = self.locate(number)?;
        if let Some(located) = &found {
            let checked = self.check_length(located);
            checked.map_err(|e| e.map_fault(|fault| fault.block(number)))?;
        }
        self.known.lock().note(number, found.is_some());
        Ok(found.is_some())
    }

    fn block(&self, number: u64, skip: u64, take: u64) -> Piece {
        Piece::Block {
            id: BlockId(number),
            block_len: self.grid.chunk_bytes(),
            skip,
            take,
        }
    }

    /// The bytes of a stored chunk are too many, or too few, for it.
    fn check_length(&self, located: &ChunkAt) -> Result<()> {
        let most = self.chain.stored().most() as u64;
        let is_exact = matches!(
            self.chain.stored(),
            crate::codec::numcodecs::Length::Exactly(n) if n as u64 != located.len()
        );
        if located.len() <= most && !is_exact && self.chain.is_plausible(located.len()) {
            return Ok(());
        }
        let fault = Fault::new("the chunk is stored in another number of bytes");
        let fault = match is_exact {
            true => fault.expected(most),
            false if located.len() > most => fault.expected(format_args!("at most {most}")),
            false => fault.expected("enough for what it is to hold"),
        };
        Err(fault
            .bytes(located.range.clone())
            .found(located.len())
            .into())
    }

    fn decode_stored(
        &self,
        located: &ChunkAt,
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<()> {
        self.check_length(located)?;
        let bytes = located.range.clone();
        let at = |e: Error| e.map_fault(|fault| fault.bytes(bytes.clone()));
        if self.chain.is_plain() {
            return located.source.fetch_one(bytes.start, out).map_err(at);
        }
        let stored = scratch.take(located.len())?;
        located.source.fetch_one(bytes.start, stored).map_err(at)?;
        let decoded = self.chain.decode(stored, out, scratch);
        decoded.map(drop).map_err(|e| at(damage::error(e)))
    }
}

impl ReadChunks for ZarrArray {
    fn are_unchanged(&self) -> Result<bool> {
        self.places.are_unchanged()
    }
}

impl Array for ZarrArray {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        Ok(self.info.clone())
    }

    fn weight(&self) -> u64 {
        4 << 10
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let mut last = (u64::MAX, None);
        // Bytes that are made up, as far as they lie behind each other.
        let mut made_up: Option<Range<u64>> = None;
        self.grid.runs(range, &mut |run| -> Result<()> {
            if last.0 != run.chunk {
                last = (run.chunk, self.is_stored(run.chunk).ok());
            }
            let end = run.at + run.take;
            if last.1 == Some(false) {
                let start = made_up.as_ref().map_or(run.at, |before| before.start);
                made_up = Some(start..end);
                return Ok(());
            }
            if let Some(before) = made_up.take() {
                direct_piece(before, out);
            }
            match last.1 {
                // What is bad is none that memory is taken for: reading it tells.
                None => direct_piece(run.at..end, out),
                Some(_) => out.push(self.block(run.chunk, run.skip, run.take)),
            }
            Ok(())
        })?;
        if let Some(rest) = made_up {
            direct_piece(rest, out);
        }
        Ok(())
    }

    fn places_known(&self, range: &Range<u64>) -> bool {
        const LOOKED_AT: u32 = 64;
        let (known, mut left) = (self.known.lock(), LOOKED_AT);
        let looked = self.grid.runs(range.clone(), &mut |run| {
            left = left.checked_sub(1).ok_or(())?;
            known.is_stored(run.chunk).map(drop).ok_or(())
        });
        looked.is_ok()
    }

    fn scratch(&self, block: BlockId) -> u64 {
        match (self.chain.is_plain(), self.locate(block.0)) {
            (false, Ok(Some(located))) => {
                let most = self.chain.stored().most() as u64;
                room(located.len().min(most)).saturating_add(self.chain.scratch())
            }
            _ => 0,
        }
    }

    /// The indices of shards are read.
    fn stored_places(&self, range: &Range<u64>, needed: &mut StoredRanges) -> Result<()> {
        let touched = self.grid.touched(range.clone()).into_iter().flatten();
        let touched = touched.take(NAMED_MOST).collect();
        name_places(&*self.places, touched, needed)
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        if let Some(block) = piece.block()
            && let Some(located) = self.locate(block.0)?
        {
            needed.name(&located.source, located.range);
        }
        Ok(false)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        let len = self.grid.chunk_bytes();
        if out.len() as u64 != len || block.0 >= self.grid.chunks() {
            let fault = Fault::new("there is no such block").block(block.0);
            let fault = fault.expected(format_args!("{len} bytes"));
            return Err(fault.found(out.len()).into());
        }
        let decoded = match self.locate(block.0)? {
            Some(located) => self.decode_stored(&located, out, scratch),
            None => {
                self.fill.put(0, out);
                Ok(())
            }
        };
        decoded.map_err(|e| e.map_fault(|fault| fault.block(block.0)))
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(out.len() as u64);
        let mut last = u64::MAX;
        self.grid.runs(at..end, &mut |run| {
            let is_new = std::mem::replace(&mut last, run.chunk) != run.chunk;
            match is_new && self.is_stored(run.chunk)? {
                true => Err(Error::from(
                    Fault::new("the chunk is stored by now").block(run.chunk),
                )),
                false => Ok(()),
            }
        })?;
        self.fill.put(at, out);
        Ok(())
    }

    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        let len = self.grid.chunk_bytes();
        self.places.each_stored(&mut |place| {
            let number = self.places.number(place).unwrap_or(u64::MAX);
            match self.is_stored(number) {
                Ok(true) => visit(self.block(number, 0, len)),
                Ok(false) => {}
                // A byte of it tells.
                Err(_) => visit(Piece::Direct {
                    at: self.grid.first_byte(number),
                    take: 1,
                }),
            }
            Ok(())
        })
    }
}
