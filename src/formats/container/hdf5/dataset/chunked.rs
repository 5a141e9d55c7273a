//! Chunked datasets: a block is a chunk in its shown form, as large at the edges as elsewhere.
//!
//! Chunks that are missing are made up; unfiltered ones are read in place where their runs are
//! long. A chunk that cannot be sound (beyond the end of the file, stored size too small for what
//! it claims) is found out before memory is taken for it and costs no other chunk. A chunk may be
//! stored short, as writers do at the edges: bytes of the array that it lacks are a fault, all
//! others are shown. The table of chunks is asked for at the first read. Used by [`super`].

mod read;
mod short;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::{ChunkTables, direct_of, unchunked};
use crate::array::fill::Fill;
use crate::array::grid::{CHUNK_MOST, ChunkGrid, ChunkRun, product};
use crate::array::{BlockId, Piece, Unfiltered};
use crate::container::hdf5::chunk_table::ChunkTable;
use crate::container::hdf5::element::Element;
use crate::container::hdf5::index::{self, ChunkEntry, StorageLayout};
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::Arena;
use crate::source::{Source, StoredRanges};
use crate::sync::Mutex;
use read::ChunkReader;
pub(crate) use read::pipeline as filter_pipeline;
use short::ShortChunks;

/// Runs of unfiltered chunks from this size on are read in place.
const LONG_RUN: u64 = 16 << 10;

/// Unfiltered chunks from this size on are read in place however short their runs are.
const LARGE_CHUNK: u64 = 64 << 20;

pub(crate) struct Chunked {
    token: u64,
    tables: ChunkTables,
    table: OnceLock<ChunkTable>,
    /// Held while the table is asked for, which may take long; why there was none the last time.
    asking: Mutex<Option<Refused>>,
    grid: ChunkGrid,
    reader: ChunkReader,
    fill: Fill,
    plain_edges: bool,
    /// Bits of the filters that some chunk went through.
    applied: u32,
    short: ShortChunks,
}

struct Refused {
    error: Error,
    /// Until then it is not asked for again; none: for ever.
    until: Option<Instant>,
}

/// How long a table that there was no memory for is not asked for again.
const REFUSED_FOR: Duration = Duration::from_secs(5);

impl Refused {
    fn new(error: &Error, now: Instant) -> Option<Refused> {
        let until = match error {
            Error::Fault(fault) => fault.passing.map(|after| now + after),
            error if error.is_no_memory() => Some(now + REFUSED_FOR),
            Error::NotShown(_) => None,
            _ => return None,
        };
        let error = error.clone();
        Some(Refused { error, until })
    }
}

/// How the bytes of a chunk are got.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Block,
    /// As they are stored, or made up.
    Direct,
    /// Not at all.
    Bad,
}

impl Chunked {
    pub(super) fn new(
        source: &Arc<dyn Source>,
        dataset: &index::DatasetEntry,
        dims: &[u64],
        element: Element,
        fill: Fill,
        tables: ChunkTables,
    ) -> Result<Chunked> {
        let StorageLayout::Chunked {
            chunk,
            plain_edges,
            applied,
            table,
            ..
        } = &dataset.layout
        else {
            return Err(Fault::new("the dataset has no chunks").into());
        };
        if product(chunk, element.stored).is_none_or(|bytes| bytes > CHUNK_MOST) {
            let why = format!("chunks of {chunk:?} elements have more than 4 GiB");
            return Err(NotShown::new(why).into());
        }
        let stored = ChunkGrid::new(dims, chunk, element.stored).map_err(Fault::new)?;
        let grid = ChunkGrid::new(dims, chunk, element.shown).map_err(Fault::new)?;
        let (filters, stored) = (&dataset.filters, stored.chunk_bytes());
        let given = OnceLock::new();
        if let Some(table) = table {
            let _ = given.set(ChunkTable::small(table).checked(grid.chunks())?);
        }
        Ok(Chunked {
            token: dataset.token,
            tables,
            table: given,
            asking: Mutex::default(),
            grid,
            reader: ChunkReader::new(source, filters, stored, element.cast),
            fill,
            plain_edges: *plain_edges,
            applied: *applied,
            short: ShortChunks::default(),
        })
    }

    /// These chunks after a commit, of the file that it makes. `applied`: which filters some chunk
    /// went through, if they may be others.
    pub(super) fn changed(
        &self,
        source: &Arc<dyn Source>,
        table: ChunkTable,
        applied: Option<u32>,
    ) -> Result<Chunked> {
        Ok(Chunked {
            token: self.token,
            tables: Arc::clone(&self.tables),
            table: OnceLock::from(table.checked(self.grid.chunks())?),
            asking: Mutex::default(),
            grid: self.grid.clone(),
            reader: self.reader.of_file(source),
            fill: self.fill.clone(),
            plain_edges: self.plain_edges,
            applied: applied.unwrap_or(self.applied),
            short: ShortChunks::default(),
        })
    }

    /// Why not everything can be decoded.
    pub(super) fn trouble(&self) -> Option<Error> {
        self.reader.trouble(self.applied)
    }

    /// Bytes that it takes: measured with one dimension and two filters, and no table.
    pub(super) fn weight(&self) -> u64 {
        const BESIDE_TABLE: u64 = 1 << 10;
        let table = self.table.get();
        BESIDE_TABLE + table.map_or(0, ChunkTable::uncharged)
    }

    /// Chunks of the grid, stored or not.
    pub(super) fn chunks(&self) -> u64 {
        self.grid.chunks()
    }

    pub(super) fn codec(&self) -> Cow<'static, str> {
        self.reader.codec()
    }

    /// Chunks that skipped filters, and why changed ones would skip all.
    pub(super) fn unfiltered(&self, are_counted: bool) -> Result<Unfiltered> {
        if !self.reader.has_filters() || self.trouble().is_some() {
            return Ok(Unfiltered::default());
        }
        let encoder = self.reader.pipeline()?.encoder();
        let chunks = match are_counted {
            true => Some(self.table()?.iter().filter(|chunk| chunk.mask != 0).count() as u64),
            false => None,
        };
        Ok(Unfiltered {
            chunks,
            changed: encoder.unfiltered().map(str::to_owned),
        })
    }

    /// Whether the table of chunks has been read.
    pub(super) fn has_table(&self) -> bool {
        self.table.get().is_some()
    }

    /// The table of chunks, if it has been asked for.
    pub(crate) fn known_table(&self) -> Option<&ChunkTable> {
        self.table.get()
    }

    fn table(&self) -> Result<&ChunkTable> {
        if self.table.get().is_none() {
            let mut refused = self.asking.lock();
            if self.table.get().is_none() {
                let table = self.ask(&mut refused)?;
                let _ = self.table.set(table);
            }
        }
        let table = self.table.get();
        table.ok_or_else(|| Fault::new("the table of chunks is missing").into())
    }

    /// Asks for the table, unless that has been refused: the worker may take long to give up, and a
    /// reader comes back for every page.
    fn ask(&self, refused: &mut Option<Refused>) -> Result<ChunkTable> {
        if let Some(Refused { error, until }) = refused
            && until.is_none_or(|until| Instant::now() < until)
        {
            return Err(error.clone());
        }
        let stored = (self.tables)(self.token);
        let table = stored.and_then(|table| table.checked(self.grid.chunks()));
        if let Err(error) = &table {
            *refused = Refused::new(error, Instant::now());
        }
        table
    }

    /// Whether a chunk is stored without filters.
    fn is_plain(&self, number: u64) -> bool {
        !self.reader.has_filters() || (self.plain_edges && self.grid.is_partial(number))
    }

    fn check(&self, chunk: &ChunkEntry) -> Result<()> {
        let (plain, reach) = (self.is_plain(chunk.number), self.grid.reach(chunk.number));
        self.reader.check(chunk, plain, reach)
    }

    /// How a chunk is got, and how many of its shown bytes there are, as far as that is known.
    fn way(&self, table: &ChunkTable, number: u64) -> (Way, u64) {
        let all = self.grid.chunk_bytes();
        match table.get(number) {
            None => (Way::Direct, all),
            Some(chunk) if self.check(&chunk).is_err() => (Way::Bad, all),
            Some(chunk) if self.is_plain(number) => {
                let way = match self.reads_in_place() {
                    true => Way::Direct,
                    false => Way::Block,
                };
                (way, self.reader.held(&chunk))
            }
            Some(_) => (Way::Block, self.short.held(number).unwrap_or(all)),
        }
    }

    fn reads_in_place(&self) -> bool {
        let large = self.grid.longest_run() >= LONG_RUN || self.reader.stored() >= LARGE_CHUNK;
        large && self.reader.reads_in_place()
    }

    /// Visits the pieces of a range, in order.
    pub(super) fn each_piece(
        &self,
        range: Range<u64>,
        visit: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        self.reader.pipeline()?;
        let table = self.table()?;
        if table.len() == 0 {
            let (at, take) = (range.start, range.end - range.start);
            return visit(Piece::Direct { at, take });
        }
        let mut last = (u64::MAX, (Way::Bad, 0));
        // Direct bytes that lie behind each other become one piece, except bad ones.
        let mut direct: Option<Range<u64>> = None;
        self.grid.runs(range, &mut |run| -> Result<()> {
            if last.0 != run.chunk {
                last = (run.chunk, self.way(table, run.chunk));
            }
            let (way, held) = last.1;
            let sound = held.saturating_sub(run.skip).min(run.take);
            if way == Way::Direct && sound == run.take {
                let start = direct.as_ref().map_or(run.at, |before| before.start);
                direct = Some(start..run.at + run.take);
                return Ok(());
            }
            if let Some(before) = direct.take() {
                visit(direct_of(before))?;
            }
            if sound > 0 {
                visit(match way {
                    Way::Block => self.block(run.chunk, run.skip, sound),
                    _ => direct_of(run.at..run.at + sound),
                })?;
            }
            if sound < run.take {
                visit(direct_of(run.at + sound..run.at + run.take))?;
            }
            Ok(())
        })?;
        direct.map_or(Ok(()), |rest| visit(direct_of(rest)))
    }

    fn block(&self, number: u64, skip: u64, take: u64) -> Piece {
        Piece::Block {
            id: BlockId(number),
            block_len: self.grid.chunk_bytes(),
            skip,
            take,
        }
    }

    /// Names what decoding a chunk, or reading direct bytes, fetches.
    pub(super) fn name(&self, piece: &Piece, needed: &mut StoredRanges) -> Result<()> {
        let table = self.table()?;
        match *piece {
            Piece::Block { id, .. } => {
                if let Some(chunk) = table.get(id.0) {
                    self.reader.name(&chunk, 0..self.grid.chunk_bytes(), needed);
                }
                Ok(())
            }
            Piece::Direct { .. } if table.len() == 0 => Ok(()),
            Piece::Direct { at, take } => self.grid.runs(at..at.saturating_add(take), &mut |run| {
                if let Some(chunk) = table.get(run.chunk) {
                    let shown = run.skip..run.skip.saturating_add(run.take);
                    self.reader.name(&chunk, shown, needed);
                }
                Ok(())
            }),
        }
    }

    /// Memory that decoding a chunk takes beside the block.
    pub(super) fn scratch(&self, number: u64) -> u64 {
        let chunk = self.table().ok().and_then(|table| table.get(number));
        chunk.map_or(0, |chunk| {
            self.reader.scratch(&chunk, self.is_plain(number))
        })
    }

    pub(super) fn decode(&self, number: u64, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        self.reader.pipeline()?;
        let len = self.grid.chunk_bytes();
        if out.len() as u64 != len || number >= self.grid.chunks() {
            let fault = Fault::new("there is no such block").block(number);
            let fault = fault.expected(format_args!("{len} bytes"));
            return Err(fault.found(out.len()).into());
        }
        let Some(chunk) = self.table()?.get(number) else {
            self.fill.put(0, out);
            return Ok(());
        };
        self.check(&chunk)?;
        let plain = self.is_plain(number);
        let held = self.reader.decode(&chunk, plain, out, scratch);
        let held = held.map_err(|e| e.map_fault(|fault| fault.block(number)))?;
        // What is known to be missing is in no piece of the block.
        if held < self.grid.reach(number) && !plain && self.short.held(number) != Some(held) {
            self.short.note(number, held);
            return Err(self.too_short(&chunk, held));
        }
        Ok(())
    }

    /// What libhdf5 shows behind the end of such a chunk is what its memory happens to hold.
    fn too_short(&self, chunk: &ChunkEntry, held: u64) -> Error {
        let bytes = chunk.address..chunk.address.saturating_add(chunk.size);
        let fault = Fault::new("the chunk ends before the bytes that it is to hold");
        let reach = self.grid.reach(chunk.number);
        let fault = fault.block(chunk.number).bytes(bytes);
        let fault = fault.expected(format_args!("at least {reach} bytes"));
        fault.found(held).into()
    }

    pub(super) fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.reader.pipeline()?;
        let table = self.table()?;
        if table.len() == 0 {
            self.fill.put(at, out);
            return Ok(());
        }
        let end = at.saturating_add(out.len() as u64);
        let mut rest = out;
        self.grid.runs(at..end, &mut |run| {
            // The runs make up the range, so `out` has them all.
            let take = rest.len().min(run.take as usize);
            let (part, others) = std::mem::take(&mut rest).split_at_mut(take);
            rest = others;
            self.read_run(table, run, part)
        })
    }

    fn read_run(&self, table: &ChunkTable, run: ChunkRun, out: &mut [u8]) -> Result<()> {
        let Some(chunk) = table.get(run.chunk) else {
            self.fill.put(run.at, out);
            return Ok(());
        };
        self.check(&chunk)?;
        let (_, held) = self.way(table, run.chunk);
        if run.skip.saturating_add(run.take) > held {
            return Err(self.too_short(&chunk, held));
        }
        if self.is_plain(run.chunk) {
            return self.reader.read(&chunk, run.skip, out);
        }
        let fault = Fault::new("the chunk has to be decoded");
        Err(fault.block(run.chunk).into())
    }

    /// A chunk as it is stored, if it is.
    pub(crate) fn stored_chunk(&self, number: u64) -> Result<Option<ChunkEntry>> {
        Ok(self.table()?.get(number))
    }

    /// All stored chunks.
    pub(crate) fn stored_chunks(&self) -> Result<Vec<ChunkEntry>> {
        Ok(self.table()?.iter().collect())
    }

    /// Decodes a stored chunk into the front of `out`, as the file's own type has it; says how many
    /// bytes there are.
    pub(crate) fn decode_stored(
        &self,
        chunk: &ChunkEntry,
        out: &mut [u8],
        scratch: Arena<'_>,
    ) -> Result<usize> {
        self.check(chunk)?;
        let plain = self.is_plain(chunk.number);
        let decoded = self.reader.decode_stored(chunk, plain, out, scratch);
        decoded.map_err(|e| e.map_fault(|fault| fault.block(chunk.number)))
    }

    /// Visits every stored chunk; of a bad one, and of what a short one lacks, a byte whose read
    /// returns the fault.
    pub(super) fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        self.reader.pipeline()?;
        let (table, len) = (self.table()?, self.grid.chunk_bytes());
        for chunk in table.iter() {
            let number = chunk.number;
            let (way, held) = self.way(table, number);
            match way {
                Way::Block => visit(self.block(number, 0, len)),
                Way::Direct if held >= self.grid.reach(number) => {
                    let mut visit = |row: Range<u64>| unchunked::steps(row.start, row.end, visit);
                    self.grid.rows(number, &mut visit);
                }
                Way::Direct => {}
                Way::Bad => visit(byte(self.grid.first_byte(number))),
            }
            if way != Way::Bad
                && let Some(missing) = self.first_missing(number, held)
            {
                visit(byte(missing));
            }
        }
        Ok(())
    }

    /// The first byte of the array that lies in a chunk, but not among the `held` ones.
    fn first_missing(&self, number: u64, held: u64) -> Option<u64> {
        if held >= self.grid.reach(number) {
            return None;
        }
        let mut missing = None;
        self.grid.rows(number, &mut |row| {
            let found = self.grid.runs(row, &mut |run| match (
                run.skip.saturating_add(run.take) > held,
                missing,
            ) {
                (true, None) => Err(run.at + held.saturating_sub(run.skip)),
                _ => Ok(()),
            });
            missing = missing.or(found.err());
        });
        missing
    }
}

fn byte(at: u64) -> Piece {
    Piece::Direct { at, take: 1 }
}

#[cfg(test)]
mod tests;
