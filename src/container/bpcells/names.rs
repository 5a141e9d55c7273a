//! Arrays of strings stored one per line: `row_names`, `col_names`, `cell_names`, `chr_names`.
//!
//! Size and number of the shown lines take one pass over the file, made when they are first asked
//! for and remembered. A file that is shown as it is stored (no CR, a final LF: all but Windows
//! files) is read straight; another is cut into blocks of equal stored size, which decode to uneven
//! ones.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::lines::{Measure, Part};
use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece, direct_piece, uneven_pieces};
use crate::error::{Fault, Result};
use crate::memory::Scratch;
use crate::source::Source;

/// Stored bytes of a block, and what the scan reads at once.
const BLOCK: u64 = 256 * 1024;
/// Hundreds of millions of names; bounds the scan in time and memory whatever a sparse file claims.
const MOST: u64 = 1 << 34;

thread_local! {
    /// Stored bytes of one block, and the byte after it.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Converted bytes of one block.
    static CONVERTED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct Names {
    name: String,
    source: Arc<dyn Source>,
    layout: OnceLock<Layout>,
}

/// What the scan found.
#[derive(Debug, Clone)]
struct Layout {
    lines: u64,
    bytes: u64,
    /// Where each block begins in the shown bytes, and their end; none if shown as stored.
    starts: Option<Vec<u64>>,
}

impl Names {
    pub(super) fn new(name: &str, source: Arc<dyn Source>) -> Result<Self> {
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
            layout: OnceLock::new(),
        })
    }

    /// Two readers may scan at once; both find the same.
    fn layout(&self) -> Result<&Layout> {
        if self.layout.get().is_none() {
            let _ = self.layout.set(self.scan()?);
        }
        self.layout
            .get()
            .ok_or_else(|| Fault::new("the names were not scanned").into())
    }

    fn scan(&self) -> Result<Layout> {
        let (mut lines, mut bytes, mut changed) = (0, 0, false);
        let mut starts = vec![0];
        for block in 0..self.source.len().div_ceil(BLOCK) {
            let measure: Measure = self.with_part(block, |part| part.measure())?;
            lines += measure.lines;
            bytes += measure.bytes;
            changed |= measure.changed;
            starts.push(bytes);
        }
        Ok(Layout {
            lines,
            bytes,
            starts: changed.then_some(starts),
        })
    }

    /// Reads stored block `block` and the byte after it.
    fn with_part<R>(&self, block: u64, f: impl FnOnce(Part<'_>) -> R) -> Result<R> {
        let start = block.saturating_mul(BLOCK).min(self.source.len());
        let read = (self.source.len() - start).min(BLOCK + 1) as usize;
        STORED.with_borrow_mut(|buf| {
            buf.resize(read, 0);
            self.source
                .fetch_one(start, buf)
                .map_err(|e| e.map_fault(|fault| fault.file(&self.name)))?;
            let next = buf.get(BLOCK as usize).copied();
            Ok(f(Part {
                stored: &buf[..read.min(BLOCK as usize)],
                next,
            }))
        })
    }
}

impl Array for Names {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let layout = self.layout()?;
        let blocks = match &layout.starts {
            Some(starts) => starts.len() as u64 - 1,
            None => u64::from(layout.bytes > 0),
        };
        Ok(Info {
            dtype: Dtype::Text,
            shape: vec![layout.lines],
            order: Order::C,
            bytes: layout.bytes,
            stored_bytes: self.source.len(),
            blocks,
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let layout = self.layout()?;
        let range = range.start..range.end.min(layout.bytes);
        match &layout.starts {
            Some(starts) => uneven_pieces(starts, range, out),
            None => direct_piece(range, out),
        }
        Ok(())
    }

    fn scratch(&self, _block: BlockId) -> u64 {
        2 * BLOCK + 2
    }

    fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Scratch<'_>) -> Result<()> {
        CONVERTED.with_borrow_mut(|converted| {
            converted.clear();
            self.with_part(block.0, |part| part.convert(converted))?;
            if converted.len() != out.len() {
                return Err(
                    Fault::new("the names are not as long as when they were counted")
                        .block(block.0)
                        .file(&self.name)
                        .expected(out.len())
                        .found(converted.len())
                        .into(),
                );
            }
            out.copy_from_slice(converted);
            Ok(())
        })
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let fetched = self.source.fetch_one(at, out);
        fetched.map_err(|e| e.map_fault(|fault| fault.file(&self.name)))
    }
}
