//! Chunked datasets: a block is a chunk in its shown form, as large at the edges as elsewhere.
//!
//! Chunks that are missing are made up; unfiltered ones are read in place where their runs are long. A
//! chunk that cannot be sound (beyond the end of the file, stored size too small for what it claims) is
//! found out before memory is taken for it and costs no other chunk. The table of chunks is asked for at
//! the first read. Used by [`super`].

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::fill::Fill;
use super::{Tables, expansion, plain};
use crate::array::{BlockId, Piece};
use crate::codec::filters::{self, Pipeline};
use crate::container::hdf5::element::Element;
use crate::container::hdf5::element::cast::Cast;
use crate::container::hdf5::grid::{Grid, Run};
use crate::container::hdf5::index::{self, Chunk, Filter, Layout};
use crate::container::hdf5::table::Table;
use crate::error::{Fault, Result};
use crate::source::Source;

/// Runs of unfiltered chunks from this size on are read in place.
const LONG_RUN: u64 = 16 << 10;

/// Unfiltered chunks from this size on are read in place however short their runs are.
const LARGE_CHUNK: u64 = 64 << 20;

/// A larger buffer is not kept for the next chunk.
const KEPT: usize = 4 << 20;

thread_local! {
    /// Stored bytes of one chunk.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Decoded bytes of one chunk that are converted into the block.
    static DECODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct Chunked {
    source: Arc<dyn Source>,
    token: u64,
    tables: Tables,
    table: OnceLock<Table>,
    /// Held while the table is asked for, which may take long.
    asking: Mutex<()>,
    grid: Grid,
    /// Bytes of a chunk as stored.
    stored: u64,
    cast: Cast,
    fill: Fill,
    filters: Vec<Filter>,
    pipeline: std::result::Result<Pipeline, Fault>,
    plain_edges: bool,
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
        dataset: &index::Dataset,
        dims: &[u64],
        element: Element,
        fill: Fill,
        tables: Tables,
    ) -> Result<Chunked> {
        let Layout::Chunked {
            chunk,
            plain_edges,
            table,
        } = &dataset.layout
        else {
            return Err(Fault::new("the dataset has no chunks").into());
        };
        let grid = |element| Grid::new(dims, chunk, element).map_err(Fault::new);
        let stored = grid(element.stored)?.chunk_bytes();
        let grid = grid(element.shown)?;
        let given = OnceLock::new();
        if let Some(table) = table {
            let _ = given.set(Table::new(table, grid.chunks())?);
        }
        Ok(Chunked {
            source: Arc::clone(source),
            token: dataset.token,
            tables,
            table: given,
            asking: Mutex::default(),
            grid,
            stored,
            cast: element.cast,
            fill,
            filters: dataset.filters.clone(),
            pipeline: pipeline(&dataset.filters, stored),
            plain_edges: *plain_edges,
        })
    }

    /// Why nothing can be decoded.
    pub(super) fn trouble(&self) -> Option<&Fault> {
        self.pipeline.as_ref().err()
    }

    /// Chunks of the grid, stored or not.
    pub(super) fn chunks(&self) -> u64 {
        self.grid.chunks()
    }

    pub(super) fn codec(&self) -> Cow<'static, str> {
        match &self.pipeline {
            Ok(pipeline) => pipeline.name().into(),
            Err(_) => {
                let ids: Vec<String> = self.filters.iter().map(|f| f.id.to_string()).collect();
                format!("filters {}", ids.join("+")).into()
            }
        }
    }

    fn table(&self) -> Result<&Table> {
        if self.table.get().is_none() {
            let _alone = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            if self.table.get().is_none() {
                let stored = (self.tables)(self.token)?;
                let _ = self.table.set(Table::new(&stored, self.grid.chunks())?);
            }
        }
        let table = self.table.get();
        table.ok_or_else(|| Fault::new("the table of chunks is missing").into())
    }

    fn pipeline(&self) -> Result<&Pipeline> {
        self.pipeline.as_ref().map_err(|fault| fault.clone().into())
    }

    /// Whether a chunk is stored without filters.
    fn is_plain(&self, number: u64) -> bool {
        self.filters.is_empty() || (self.plain_edges && self.grid.is_partial(number))
    }

    fn way(&self, table: &Table, number: u64) -> Way {
        match table.get(number) {
            None => Way::Direct,
            Some(chunk) if self.check(&chunk).is_err() => Way::Bad,
            Some(_) if self.is_plain(number) && self.reads_in_place() => Way::Direct,
            Some(_) => Way::Block,
        }
    }

    fn reads_in_place(&self) -> bool {
        self.grid.longest_run() >= LONG_RUN || self.stored >= LARGE_CHUNK
    }

    /// Finds what cannot be right about a chunk without reading it.
    fn check(&self, chunk: &Chunk) -> std::result::Result<(), Fault> {
        let end = chunk.address.saturating_add(chunk.size);
        let bytes = chunk.address..end;
        if chunk.size >= u64::from(u32::MAX) || end > self.source.len() {
            let fault = plain::beyond_the_end(chunk.address, end, self.source.len());
            return Err(fault.block(chunk.number));
        }
        if self.is_plain(chunk.number) && chunk.size < self.stored {
            let fault = Fault::new("the unfiltered chunk is too short").block(chunk.number);
            return Err(fault.bytes(bytes).expected(self.stored).found(chunk.size));
        }
        let plausible =
            expansion::is_plausible(&self.filters, chunk.mask, chunk.size, self.stored);
        if chunk.size == 0 || !(plausible || self.is_plain(chunk.number)) {
            let fault = Fault::new("the chunk is too short for what it is to hold");
            let fault = fault.block(chunk.number).bytes(bytes);
            return Err(fault.expected(format_args!("{} decoded bytes", self.stored)));
        }
        Ok(())
    }

    pub(super) fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        self.pipeline()?;
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
    fn push(&self, run: Run, way: Way, before: Way, out: &mut Vec<Piece>) {
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

    /// Memory beside the block: the stored chunk, what the filters need, and the chunk before it is
    /// converted.
    pub(super) fn scratch(&self, number: u64) -> u64 {
        let chunk = self.table().ok().and_then(|table| table.get(number));
        let converted = if self.cast.in_place() { 0 } else { self.stored };
        match (chunk, &self.pipeline) {
            (Some(_), _) if self.is_plain(number) => converted,
            (Some(chunk), Ok(pipeline)) => chunk
                .size
                .saturating_add(converted)
                .saturating_add(pipeline.scratch()),
            _ => 0,
        }
    }

    pub(super) fn decode(&self, number: u64, out: &mut [u8]) -> Result<()> {
        let pipeline = self.pipeline()?;
        if out.len() as u64 != self.grid.chunk_bytes() {
            let fault = Fault::new("the block has another length").block(number);
            return Err(fault.expected(self.grid.chunk_bytes()).found(out.len()).into());
        }
        let Some(chunk) = self.table()?.get(number) else {
            self.fill.put(0, out);
            return Ok(());
        };
        self.check(&chunk)?;
        let decoded = if self.cast.in_place() {
            let decoded = self.decode_stored(pipeline, &chunk, out);
            decoded.map(|()| self.cast.apply(out))
        } else {
            with_buffer(&DECODED, self.stored, |buffer| {
                self.decode_stored(pipeline, &chunk, buffer)?;
                self.cast.run(buffer, out);
                Ok(())
            })
        };
        decoded.map_err(|e| e.map_fault(|fault| fault.block(number)))
    }

    /// Decodes a chunk that has been checked into its stored type.
    fn decode_stored(&self, pipeline: &Pipeline, chunk: &Chunk, out: &mut [u8]) -> Result<()> {
        if self.is_plain(chunk.number) {
            return self.source.fetch_one(chunk.address, out);
        }
        with_buffer(&STORED, chunk.size, |stored| {
            self.source.fetch_one(chunk.address, stored)?;
            pipeline.decode(chunk.mask, stored, out).map_err(|error| {
                let bytes = chunk.address..chunk.address + chunk.size;
                Fault::new(error.to_string()).bytes(bytes).into()
            })
        })
    }

    pub(super) fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.pipeline()?;
        let table = self.table()?;
        if table.len() == 0 {
            self.fill.put(at, out);
            return Ok(());
        }
        let end = at.saturating_add(out.len() as u64);
        let mut rest = out;
        self.grid.runs(at..end, &mut |run| {
            // Not more than `out` has: the runs make up its range.
            let take = usize::try_from(run.take).unwrap_or(usize::MAX).min(rest.len());
            let (part, others) = std::mem::take(&mut rest).split_at_mut(take);
            rest = others;
            self.read_run(table, run, part)
        })
    }

    fn read_run(&self, table: &Table, run: Run, out: &mut [u8]) -> Result<()> {
        let Some(chunk) = table.get(run.chunk) else {
            self.fill.put(run.at, out);
            return Ok(());
        };
        self.check(&chunk)?;
        if !self.is_plain(run.chunk) {
            return Err(Fault::new("the chunk has to be decoded").block(run.chunk).into());
        }
        plain::read(&self.cast, run.skip, out, &mut |at, out| {
            let fetched = plain::fetch(&*self.source, chunk.address, at, out);
            fetched.map_err(|e| e.map_fault(|fault| fault.block(run.chunk)))
        })
    }

    /// Visits every stored chunk; of a bad one, a byte that tells its fault.
    pub(super) fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        self.pipeline()?;
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
                    let mut visit = |row: Range<u64>| plain::steps(row.start, row.end, visit);
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

/// Checked once; the fault is what every read gets.
fn pipeline(filters: &[Filter], chunk_bytes: u64) -> std::result::Result<Pipeline, Fault> {
    let filters: Vec<filters::Filter> = filters
        .iter()
        .map(|filter| filters::Filter {
            id: filter.id,
            values: filter.values.clone(),
        })
        .collect();
    // At most 4 GiB: the grid has checked it.
    let chunk_bytes = usize::try_from(chunk_bytes).unwrap_or(usize::MAX);
    Pipeline::new(&filters, chunk_bytes)
        .map_err(|e| Fault::new(format!("filter {} {}", e.id, e.reason)))
}

/// Lends `len` bytes of a thread's buffer, whose contents are arbitrary.
fn with_buffer<R>(
    buffer: &'static std::thread::LocalKey<RefCell<Vec<u8>>>,
    len: u64,
    f: impl FnOnce(&mut [u8]) -> Result<R>,
) -> Result<R> {
    let no_room = || Fault::new("no memory for a chunk").expected(format_args!("{len} bytes"));
    let len = usize::try_from(len).map_err(|_| no_room())?;
    buffer.with_borrow_mut(|buffer| {
        if buffer.len() < len {
            buffer.try_reserve_exact(len - buffer.len()).map_err(|_| no_room())?;
            buffer.resize(len, 0);
        }
        let outcome = f(&mut buffer[..len]);
        if buffer.len() > KEPT {
            *buffer = Vec::new();
        }
        outcome
    })
}
