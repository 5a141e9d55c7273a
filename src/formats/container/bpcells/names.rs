//! Arrays of strings stored one per line: `row_names`, `col_names`, `cell_names`, `chr_names`.
//!
//! Size and number of the shown lines take one pass over the file, made when they are first asked
//! for and remembered. A file that is shown as it is stored (no CR, a final LF: all but Windows
//! files) is read straight; another is cut into blocks of equal stored size, which decode to uneven
//! ones and are indexed by a second pass.

mod lines;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece, direct_piece, uneven_pieces};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::{Arena, no_memory, room};
use crate::source::{Source, StoredRanges};
use lines::{Measure, TextPart};

/// Stored bytes of a block.
const BLOCK: u64 = 256 * 1024;
/// Hundreds of millions of names; bounds the scan in time and memory whatever a sparse file claims.
const MOST: u64 = 1 << 34;

/// What the scan reads at once.
const STEP: usize = 32 << 10;

pub(super) struct Names {
    name: String,
    source: Arc<dyn Source>,
    budget: Arc<Budget>,
    index: OnceLock<LineIndex>,
}

/// What the scan found.
struct LineIndex {
    lines: u64,
    bytes: u64,
    blocks: Option<LineBlocks>,
}

/// Blocks of a text that is not shown as it is stored.
struct LineBlocks {
    /// Where each begins in the shown bytes, and their end.
    starts: Vec<u64>,
    _hold: Hold,
}

impl Names {
    pub(super) fn new(name: &str, source: Arc<dyn Source>, budget: Arc<Budget>) -> Result<Self> {
        if source.len() > MOST {
            return Err(Fault::new("too long for names")
                .file(name)
                .expected(format_args!("at most {MOST} bytes"))
                .found(source.len())
                .into());
        }
        Ok(Names {
            name: name.to_owned(),
            source,
            budget,
            index: OnceLock::new(),
        })
    }

    /// Two readers may scan at once; both find the same.
    fn index(&self) -> Result<&LineIndex> {
        if self.index.get().is_none() {
            let _ = self.index.set(self.scan()?);
        }
        let missing = || Error::Bug("the lines were scanned and are not indexed".into());
        self.index.get().ok_or_else(missing)
    }

    fn scan(&self) -> Result<LineIndex> {
        let whole = self.measure(0..self.source.len())?;
        Ok(LineIndex {
            lines: whole.lines,
            bytes: whole.bytes,
            blocks: whole.changed.then(|| self.find_blocks()).transpose()?,
        })
    }

    fn find_blocks(&self) -> Result<LineBlocks> {
        let blocks = self.source.len().div_ceil(BLOCK);
        let hold = self.budget.keep(8 * (blocks + 1))?;
        let mut starts = Vec::new();
        let refused = |_| no_memory("cannot index the names");
        starts
            .try_reserve_exact(blocks as usize + 1)
            .map_err(refused)?;
        let mut shown = 0;
        starts.push(shown);
        for block in 0..blocks {
            shown += self.measure(self.lines_at(block))?.bytes;
            starts.push(shown);
        }
        Ok(LineBlocks {
            starts,
            _hold: hold,
        })
    }

    /// Where a block is stored.
    fn lines_at(&self, block: u64) -> Range<u64> {
        let start = block.saturating_mul(BLOCK).min(self.source.len());
        start..start.saturating_add(BLOCK).min(self.source.len())
    }

    /// What stored bytes come to.
    fn measure(&self, range: Range<u64>) -> Result<Measure> {
        let mut buffer = [0; STEP + 1];
        let mut all = Measure::default();
        let mut at = range.start;
        while at < range.end {
            let step = at..range.end.min(at + STEP as u64);
            all.add(self.part(&step, &mut buffer)?.measure());
            at = step.end;
        }
        Ok(all)
    }

    /// Reads stored bytes, and the byte after them, into a buffer that has room for them.
    fn part<'a>(&self, range: &Range<u64>, buffer: &'a mut [u8]) -> Result<TextPart<'a>> {
        let len = (range.end - range.start) as usize;
        let read = (self.source.len() - range.start).min(len as u64 + 1) as usize;
        self.source
            .fetch_one(range.start, &mut buffer[..read])
            .map_err(|e| e.map_fault(|fault| fault.file(&self.name)))?;
        let (stored, next) = buffer[..read].split_at(len);
        Ok(TextPart {
            stored,
            next: next.first().copied(),
        })
    }

    /// The stored bytes of a block, and the byte after them.
    fn room(&self, block: BlockId) -> u64 {
        let stored = self.lines_at(block.0);
        stored.end - stored.start + 1
    }
}

impl Array for Names {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let index = self.index()?;
        let blocks = match &index.blocks {
            Some(blocks) => blocks.starts.len() as u64 - 1,
            None => u64::from(index.bytes > 0),
        };
        Ok(Info {
            dtype: Dtype::Text,
            shape: vec![index.lines],
            order: Order::C,
            bytes: index.bytes,
            stored_bytes: self.source.len(),
            blocks,
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let index = self.index()?;
        let range = range.start..range.end.min(index.bytes);
        match &index.blocks {
            Some(blocks) => uneven_pieces(&blocks.starts, range, out),
            None => direct_piece(range, out),
        }
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        self.index.get().is_some()
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        let range = match *piece {
            Piece::Block { id, .. } => {
                let stored = self.lines_at(id.0);
                stored.start..stored.end.saturating_add(1)
            }
            Piece::Direct { at, take } => at..at.saturating_add(take),
        };
        needed.name(&self.source, range);
        Ok(false)
    }

    fn scratch(&self, block: BlockId) -> u64 {
        room(self.room(block))
    }

    fn decode(&self, block: BlockId, out: &mut [u8], mut scratch: Arena<'_>) -> Result<()> {
        let buffer = scratch.take(self.room(block))?;
        let part = self.part(&self.lines_at(block.0), buffer)?;
        let found = part.measure().bytes;
        if found != out.len() as u64 {
            let fault = Fault::new("the names are not as long as when they were counted");
            let fault = fault.block(block.0).file(&self.name);
            return Err(fault.expected(out.len()).found(found).into());
        }
        part.convert(out);
        Ok(())
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let fetched = self.source.fetch_one(at, out);
        fetched.map_err(|e| e.map_fault(|fault| fault.file(&self.name)))
    }
}
