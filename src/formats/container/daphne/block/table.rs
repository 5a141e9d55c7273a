//! Where the blocks of a specification-form file lie: a compact table, made by reading only their
//! heads.
//!
//! `rx` u64, `cx` u64, `#r` u32, `#c` u32, type u8, then by type; the body runs to the end of the
//! file, so a block ends where the next begins and its entry count follows from its length.
//! Positions, sizes and counts are checked here; the contents of sparse blocks are not looked at.
//! Used by everything that reads blocks.

use std::ops::Range;

use super::super::header::FileHead;
use super::super::value::ValueType;
use super::index_cache::{BlockIndexCache, ChargedList};
use crate::error::{Fault, Result};
use crate::memory::scratch::Region;
use crate::source::{ForwardWindow, Source};

/// Position and block header.
const HEAD: u64 = 25;
/// Blocks of a file; bounds the memory of the table.
const MOST: usize = 1 << 24;
const WINDOW: u64 = 64 << 10;
/// Offsets share a word with the types.
const FAR: u64 = 1 << 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockBody {
    Empty,
    Dense(ValueType),
    Sparse(ValueType),
    Coo(ValueType),
}

impl BlockBody {
    pub(crate) fn value(self) -> Option<ValueType> {
        match self {
            BlockBody::Empty => None,
            BlockBody::Dense(value) | BlockBody::Sparse(value) | BlockBody::Coo(value) => {
                Some(value)
            }
        }
    }
}

/// A block and where it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellBlock {
    /// In the order of the file.
    pub(crate) number: u32,
    /// Cells of the object that it holds.
    pub(crate) row: u64,
    pub(crate) col: u64,
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) body: BlockBody,
    /// Stored bytes, with position and header.
    pub(crate) at: u64,
    pub(crate) end: u64,
}

impl CellBlock {
    pub(crate) fn rows(&self) -> Range<u64> {
        self.row..self.row + u64::from(self.height)
    }

    pub(crate) fn cols(&self) -> Range<u64> {
        self.col..self.col + u64::from(self.width)
    }

    pub(crate) fn area(&self) -> u64 {
        u64::from(self.height) * u64::from(self.width)
    }

    pub(crate) fn stored(&self) -> u64 {
        self.end - self.at
    }

    pub(crate) fn value(&self) -> Option<ValueType> {
        self.body.value()
    }

    /// Where the values, rows or entries begin.
    pub(crate) fn payload(&self) -> u64 {
        self.at + HEAD + payload_skip(self.body)
    }

    /// Stored bytes of an entry: indices and value.
    pub(crate) fn entry(&self) -> u64 {
        entry_size(self.body, self.width)
    }

    /// Stored entries of a sparse or COO block.
    pub(crate) fn entries(&self) -> u64 {
        let counts = match self.body {
            BlockBody::Sparse(_) => 4 * u64::from(self.height),
            _ => 0,
        };
        (self.end - self.payload() - counts) / self.entry().max(1)
    }

    /// What the block is, in one word, and those `before` it.
    pub(crate) fn codec(&self, before: Option<&'static str>) -> Option<&'static str> {
        let own = match self.body {
            BlockBody::Empty => "empty",
            BlockBody::Dense(_) => "none",
            BlockBody::Sparse(_) => "sparse",
            BlockBody::Coo(_) => "coo",
        };
        let is_mixed = before.is_some_and(|before| before != own);
        Some(if is_mixed { "mixed" } else { own })
    }

    pub(crate) fn fault(&self, what: impl Into<String>) -> Fault {
        let fault = Fault::new(what).block(self.number.into());
        fault.bytes(self.at..self.end)
    }
}

/// Bytes between the block header and the values, rows or entries.
fn payload_skip(body: BlockBody) -> u64 {
    match body {
        BlockBody::Empty => 0,
        BlockBody::Dense(_) => 1,
        BlockBody::Sparse(_) => 9,
        BlockBody::Coo(_) => 5,
    }
}

fn entry_size(body: BlockBody, width: u32) -> u64 {
    match body {
        BlockBody::Empty => 0,
        BlockBody::Dense(value) => value.size() as u64,
        BlockBody::Sparse(value) => 4 + value.size() as u64,
        BlockBody::Coo(value) if width == 1 => 4 + value.size() as u64,
        BlockBody::Coo(value) => 8 + value.size() as u64,
    }
}

/// 32 bytes for a block that takes at least 25 in the file.
#[derive(Clone, Copy)]
struct PackedHead {
    row: u64,
    col: u64,
    height: u32,
    width: u32,
    /// Offset, type and value type.
    place: u64,
}

pub(crate) struct BlockTable {
    blocks: ChargedList<PackedHead>,
    end: u64,
}

impl BlockTable {
    /// Finds every block of the object that `header` describes.
    pub(crate) fn read(
        source: &dyn Source,
        header: &FileHead,
        index_cache: &BlockIndexCache,
    ) -> Result<BlockTable> {
        let end = source.len();
        let mut region = Region::default();
        let buf = region.scratch(WINDOW)?.take(WINDOW)?;
        let mut window = ForwardWindow::new(source, end, buf);
        let mut table = BlockTable {
            end,
            ..BlockTable::none(index_cache)?
        };
        let mut at = header.len;
        while at < end {
            index_cache.grow(&mut table.blocks, 1)?;
            if table.len() >= MOST || at >= FAR {
                let fault = Fault::new("too many blocks, or too long a file").bytes(at..end);
                return Err(fault.expected(format_args!("at most {MOST} blocks")).into());
            }
            let next = table.read_block(&mut window, header, at, end);
            let number = table.len() as u64;
            at = next.map_err(|e| e.map_fault(|f| f.block(number).bytes(at..end)))?;
        }
        Ok(table)
    }

    /// Of a file that has none.
    pub(crate) fn none(index_cache: &BlockIndexCache) -> Result<BlockTable> {
        Ok(BlockTable {
            blocks: index_cache.list(0)?,
            end: 0,
        })
    }

    /// Adds the block at `at`; gives where it ends.
    fn read_block(
        &mut self,
        window: &mut ForwardWindow<'_, '_>,
        header: &FileHead,
        at: u64,
        end: u64,
    ) -> Result<u64> {
        window.bytes(at, HEAD as usize)?;
        let (row, col) = (window.u64(at)?, window.u64(at + 8)?);
        let (height, width) = (window.u32(at + 16)?, window.u32(at + 20)?);
        let kind = window.u8(at + 24)?;
        check_place(header, (row, height), (col, width))?;
        let body = body(window, kind, at + HEAD)?;
        let size = HEAD + size(window, at + HEAD, body, height, width, end - at - HEAD)?;
        let value = body.value().map_or(0, |value| value as u8);
        self.blocks.list.push(PackedHead {
            row,
            col,
            height,
            width,
            place: at << 16 | u64::from(kind) << 8 | u64::from(value),
        });
        Ok(at + size)
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.list.len()
    }

    /// `number` is less than [`Table::len`].
    pub(crate) fn get(&self, number: u32) -> CellBlock {
        let packed = self.blocks.list[number as usize];
        let value = ValueType::from_index(packed.place as u8);
        let next = self.blocks.list.get(number as usize + 1);
        CellBlock {
            number,
            row: packed.row,
            col: packed.col,
            height: packed.height,
            width: packed.width,
            body: match packed.place >> 8 & 0xff {
                1 => BlockBody::Dense(value),
                2 => BlockBody::Sparse(value),
                3 => BlockBody::Coo(value),
                _ => BlockBody::Empty,
            },
            at: packed.place >> 16,
            end: next.map_or(self.end, |next| next.place >> 16),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = CellBlock> + '_ {
        (0..self.blocks.list.len() as u32).map(|number| self.get(number))
    }

    /// What the blocks are, in one word.
    pub(crate) fn codec(&self) -> &'static str {
        let codec = self.iter().fold(None, |before, block| block.codec(before));
        codec.unwrap_or("none")
    }
}

/// Lies within the object, and has cells if the object does.
fn check_place(header: &FileHead, rows: (u64, u32), cols: (u64, u32)) -> Result<()> {
    for (what, (start, len), all) in [("rows", rows, header.rows), ("columns", cols, header.cols)] {
        let inside = start <= all && u64::from(len) <= all - start;
        if !inside {
            return Err(
                Fault::new(format!("the block's {what} lie outside the object"))
                    .expected(format_args!("within 0..{all}"))
                    .found(format_args!("{len} from {start} on"))
                    .into(),
            );
        }
        if len == 0 && all > 0 {
            return Err(Fault::new(format!("a block of no {what}")).into());
        }
    }
    Ok(())
}

fn body(window: &mut ForwardWindow<'_, '_>, kind: u8, at: u64) -> Result<BlockBody> {
    let make = match kind {
        0 => return Ok(BlockBody::Empty),
        1 => BlockBody::Dense,
        2 => BlockBody::Sparse,
        3 => BlockBody::Coo,
        _ => {
            let fault = Fault::new("the block type is not known").bytes(at - 1..at);
            return Err(fault.expected("0 to 3").found(kind).into());
        }
    };
    let code = window.u8(at)?;
    ValueType::spec(code).map(make).ok_or_else(|| {
        Fault::new("the block's value type is not known")
            .bytes(at..at + 1)
            .expected("1 to 10")
            .found(code)
            .into()
    })
}

/// Stored bytes after the block header, of the `left` that there are.
fn size(
    window: &mut ForwardWindow<'_, '_>,
    at: u64,
    body: BlockBody,
    height: u32,
    width: u32,
    left: u64,
) -> Result<u64> {
    let area = u64::from(height) * u64::from(width);
    let (entries, counts) = match body {
        BlockBody::Empty => return Ok(0),
        BlockBody::Dense(_) => (area, 0),
        BlockBody::Sparse(_) => (window.u64(at + 1)?, 4 * u64::from(height)),
        BlockBody::Coo(_) => (u64::from(window.u32(at + 1)?), 0),
    };
    if entries > area {
        let fault = Fault::new("more entries than cells");
        return Err(fault
            .expected(format_args!("at most {area}"))
            .found(entries)
            .into());
    }
    let entry = u128::from(entry_size(body, width));
    let need = u128::from(entries) * entry + u128::from(counts + payload_skip(body));
    match u64::try_from(need) {
        Ok(need) if need <= left => Ok(need),
        _ => {
            let fault = Fault::new("the block is longer than the rest of the file");
            Err(fault
                .expected(format_args!("{need} bytes"))
                .found(left)
                .into())
        }
    }
}
