//! Chunked datasets: a block is a chunk in its shown form, as large at the edges as elsewhere.
//!
//! Chunks that are missing are made up; unfiltered ones are read in place where their runs are long. A
//! chunk that cannot be sound (beyond the end of the file, stored size too small for what it claims) is
//! found out before memory is taken for it and costs no other chunk. The table of chunks is asked for at
//! the first read. Used by [`super`].

mod grid;
mod read;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::fill::Fill;
use super::{ChunkTables, unchunked};
use crate::array::{BlockId, Piece};
use crate::container::hdf5::chunk_table::ChunkTable;
use crate::container::hdf5::element::Element;
use crate::container::hdf5::index::{self, ChunkEntry, StorageLayout};
use crate::error::{Error, Fault, Result};
use crate::source::Source;
use grid::{ChunkGrid, ChunkRun};
use read::ChunkReader;

/// Runs of unfiltered chunks from this size on are read in place.
const LONG_RUN: u64 = 16 << 10;

/// Unfiltered chunks from this size on are read in place however short their runs are.
const LARGE_CHUNK: u64 = 64 << 20;

pub(super) struct Chunked {
    token: u64,
    tables: ChunkTables,
    table: OnceLock<ChunkTable>,
    /// Held while the table is asked for, which may take long; why there was none the last time.
    asking: Mutex<Option<Refused>>,
    grid: ChunkGrid,
    reader: ChunkReader,
    fill: Fill,
    plain_edges: bool,
}

struct Refused {
    fault: Box<Fault>,
    since: Instant,
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
            table,
        } = &dataset.layout
        else {
            return Err(Fault::new("the dataset has no chunks").into());
        };
        let stored = ChunkGrid::new(dims, chunk, element.stored).map_err(Fault::new)?;
        let grid = ChunkGrid::new(dims, chunk, element.shown).map_err(Fault::new)?;
        let (filters, stored) = (&dataset.filters, stored.chunk_bytes());
        let given = OnceLock::new();
        if let Some(table) = table {
            let _ = given.set(ChunkTable::new(table, grid.chunks())?);
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
        })
    }

    /// Why nothing can be decoded.
    pub(super) fn trouble(&self) -> Option<&Error> {
        self.reader.trouble()
    }

    /// Chunks of the grid, stored or not.
    pub(super) fn chunks(&self) -> u64 {
        self.grid.chunks()
    }

    pub(super) fn codec(&self) -> Cow<'static, str> {
        self.reader.codec()
    }

    fn table(&self) -> Result<&ChunkTable> {
        if self.table.get().is_none() {
            let mut refused = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            if self.table.get().is_none() {
                let table = self.ask(&mut refused)?;
                let _ = self.table.set(table);
            }
        }
        let table = self.table.get();
        table.ok_or_else(|| Fault::new("the table of chunks is missing").into())
    }

    /// Asks for the table, unless that has been refused: the worker may take long to give up, and a reader
    /// comes back for every page.
    fn ask(&self, refused: &mut Option<Refused>) -> Result<ChunkTable> {
        if let Some(Refused { fault, since }) = refused
            && fault.passing.is_none_or(|after| since.elapsed() < after)
        {
            return Err(Fault::clone(fault).into());
        }
        let stored = (self.tables)(self.token);
        let table = stored.and_then(|stored| ChunkTable::new(&stored, self.grid.chunks()));
        if let Err(Error::Fault(fault)) = &table {
            *refused = Some(Refused {
                fault: fault.clone(),
                since: Instant::now(),
            });
        }
        table
    }

    /// Whether a chunk is stored without filters.
    fn is_plain(&self, number: u64) -> bool {
        !self.reader.has_filters() || (self.plain_edges && self.grid.is_partial(number))
    }

    fn check(&self, chunk: &ChunkEntry) -> Result<()> {
        self.reader.check(chunk, self.is_plain(chunk.number))
    }

    fn way(&self, table: &ChunkTable, number: u64) -> Way {
        match table.get(number) {
            None => Way::Direct,
            Some(chunk) if self.check(&chunk).is_err() => Way::Bad,
            Some(_) if self.is_plain(number) && self.reads_in_place() => Way::Direct,
            Some(_) => Way::Block,
        }
    }

    fn reads_in_place(&self) -> bool {
        self.grid.longest_run() >= LONG_RUN || self.reader.stored() >= LARGE_CHUNK
    }

    pub(super) fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        self.reader.pipeline()?;
        let table = self.table()?;
        if table.len() == 0 {
            let (at, take) = (range.start, range.end - range.start);
            out.push(Piece::Direct { at, take });
            return Ok(());
        }
        let mut last = (u64::MAX, Way::Bad);
        self.grid.runs(range, &mut |run| {
            let before = last.1;
            if last.0 != run.chunk {
                last = (run.chunk, self.way(table, run.chunk));
            }
            self.push(run, last.1, before, out);
            Ok(())
        })
    }

    /// Adds the piece of a run; direct ones that follow each other become one, except bad ones.
    fn push(&self, run: ChunkRun, way: Way, before: Way, out: &mut Vec<Piece>) {
        match (way, out.last_mut()) {
            (Way::Block, _) => out.push(Piece::Block {
                id: BlockId(run.chunk),
                block_len: self.grid.chunk_bytes(),
                skip: run.skip,
                take: run.take,
            }),
            (Way::Direct, Some(Piece::Direct { at, take }))
                if before == Way::Direct && *at + *take == run.at =>
            {
                *take += run.take;
            }
            _ => out.push(Piece::Direct {
                at: run.at,
                take: run.take,
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

    /// The same of any chunk, and the block.
    pub(super) fn largest(&self) -> u64 {
        let stored = self.table.get().map_or(0, ChunkTable::largest);
        let chunk = ChunkEntry {
            number: 0,
            address: 0,
            size: stored.max(self.reader.stored()),
            mask: 0,
        };
        let scratch = self.reader.scratch(&chunk, false);
        scratch.saturating_add(self.grid.chunk_bytes())
    }

    pub(super) fn decode(&self, number: u64, out: &mut [u8]) -> Result<()> {
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
        self.reader.decode(&chunk, self.is_plain(number), out)
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
        if self.is_plain(run.chunk) {
            return self.reader.read(&chunk, run.skip, out);
        }
        let fault = Fault::new("the chunk has to be decoded");
        Err(fault.block(run.chunk).into())
    }

    /// Visits every stored chunk; of a bad one, a byte that tells its fault.
    pub(super) fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        self.reader.pipeline()?;
        let (table, len) = (self.table()?, self.grid.chunk_bytes());
        for chunk in table.iter() {
            match self.way(table, chunk.number) {
                Way::Block => visit(Piece::Block {
                    id: BlockId(chunk.number),
                    block_len: len,
                    skip: 0,
                    take: len,
                }),
                Way::Direct => {
                    let mut visit = |row: Range<u64>| unchunked::steps(row.start, row.end, visit);
                    self.grid.rows(chunk.number, &mut visit);
                }
                Way::Bad => visit(Piece::Direct {
                    at: self.grid.first_byte(chunk.number),
                    take: 1,
                }),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::container::hdf5::index::Datatype;
    use crate::container::hdf5::sample::Bytes;

    fn chunked(tables: ChunkTables) -> Chunked {
        let source: Arc<dyn Source> = Arc::new(Bytes(vec![]));
        let dataset = index::DatasetEntry {
            token: 0,
            element: Datatype::Opaque { size: 1 },
            dims: Some(vec![10]),
            layout: StorageLayout::Chunked {
                chunk: vec![4],
                plain_edges: false,
                table: None,
            },
            filters: vec![],
            fill: None,
            attributes: vec![],
            stored_bytes: 0,
            text: None,
        };
        let element = Element::of(&dataset.element).unwrap();
        let fill = Fill::new(None, &element).unwrap();
        Chunked::new(&source, &dataset, &[10], element, fill, tables).unwrap()
    }

    #[test]
    fn a_refused_table_is_asked_for_again_only_when_the_fault_may_have_passed() {
        let hour = Duration::from_secs(3600);
        for (passing, times) in [(None, 1), (Some(hour), 1), (Some(Duration::ZERO), 3)] {
            let asked = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&asked);
            let array = chunked(Arc::new(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                let fault = Fault::new("no table today");
                let fault = Fault { passing, ..fault };
                Err(fault.into())
            }));
            for _ in 0..3 {
                assert!(array.pieces(0..1, &mut Vec::new()).is_err());
            }
            assert_eq!(asked.load(Ordering::Relaxed), times);
        }
    }
}
