//! A CSRMatrix as three arrays: what `values`, `col_idxs` and `row_offsets` are like, and how they
//! are cut.
//!
//! Blocks of entries and of rows begin anew at each group and are numbered by their first entry or
//! row; offsets of rows that are known to be empty are made up. The work is done in [`read`].

mod check;
pub(super) mod read;
mod row_groups;
mod stored_rows;

use std::ops::Range;
use std::sync::Arc;

use super::block::table::BlockBody;
use super::dense::read::push_direct;
use super::describe::DescribedFile;
use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece};
use crate::error::{Error, Result};
use crate::memory::Scratch;
use crate::source::StoredRanges;
use check::CountCheck;
use read::{CsrMatrix, ENTRIES_MEMORY, OFFSETS_MEMORY};
use row_groups::RowGroups;

/// Entries, or rows, of a block.
const BLOCK: u64 = 32 << 10;

/// What part of an entry an array shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryField {
    Columns,
    Values,
}

/// `values` or `col_idxs`.
pub(super) struct CsrEntries {
    pub(super) csr: Arc<CsrMatrix>,
    pub(super) field: EntryField,
    pub(super) stored_bytes: u64,
}

/// `row_offsets`: one more than there are rows.
pub(super) struct CsrOffsets {
    pub(super) csr: Arc<CsrMatrix>,
    pub(super) stored_bytes: u64,
}

impl CsrEntries {
    fn size(&self) -> u64 {
        match self.field {
            EntryField::Columns => 8,
            EntryField::Values => self.csr.value.size() as u64,
        }
    }
}

/// A block of `BLOCK` items that begins at `start` of a group's `items`, of which `wanted` are
/// wanted.
fn block(items: &Range<u64>, at: u64, size: u64, wanted: &Range<u64>) -> (Piece, u64) {
    let skip = at - items.start;
    let start = at - skip % BLOCK;
    let end = (start + BLOCK).min(items.end);
    let bytes = (start * size).max(wanted.start)..(end * size).min(wanted.end);
    let piece = Piece::Block {
        id: BlockId(start),
        block_len: (end - start) * size,
        skip: bytes.start - start * size,
        take: bytes.end - bytes.start,
    };
    (piece, end)
}

fn no_block(id: BlockId) -> Error {
    Error::Bug(format!("no block of a CSRMatrix begins at {}", id.0))
}

impl Array for CsrEntries {
    fn name(&self) -> &str {
        match self.field {
            EntryField::Columns => "col_idxs",
            EntryField::Values => "values",
        }
    }

    fn info(&self) -> Result<Info> {
        let groups = self.csr.groups()?;
        let dtype = match self.field {
            EntryField::Columns => Dtype::U64,
            EntryField::Values => self.csr.value.dtype(),
        };
        Ok(Info {
            dtype,
            shape: vec![groups.entries()],
            order: Order::C,
            bytes: groups.entries() * self.size(),
            stored_bytes: self.stored_bytes,
            blocks: self.csr.stored.table.len().max(1) as u64,
            codec: self.csr.codec().into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let (groups, size) = (self.csr.groups()?, self.size());
        let range = range.start..range.end.min(groups.entries() * size);
        let mut at = range.start / size;
        while range.start < range.end && at * size < range.end {
            let (group, next) = groups.get(groups.by_entry(at));
            let (piece, end) = block(&(group.first..next.first), at, size, &range);
            out.push(piece);
            at = end;
        }
        Ok(())
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        if let Some(id) = piece.block() {
            let groups = self.csr.groups()?;
            self.csr.name(groups, groups.by_entry(id.0), needed);
        }
        Ok(false)
    }

    fn scratch(&self, _block: BlockId) -> u64 {
        ENTRIES_MEMORY
    }

    fn decode(&self, id: BlockId, out: &mut [u8], scratch: Scratch<'_>) -> Result<()> {
        let groups = self.csr.groups()?;
        if id.0 >= groups.entries() {
            return Err(no_block(id));
        }
        let number = groups.by_entry(id.0);
        let (group, next) = groups.get(number);
        let (start, len) = (id.0 - group.first, out.len() as u64 / self.size());
        let most = (next.first - id.0).min(BLOCK);
        if !start.is_multiple_of(BLOCK) || len != most {
            return Err(no_block(id));
        }
        self.csr
            .entries(number, &(start..start + len), self.field, out, scratch)
    }

    /// The columns lie between the values; offsets are checked with them.
    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        if self.field == EntryField::Columns {
            return Ok(());
        }
        let (groups, size) = (self.csr.groups()?, self.size());
        let mut at = 0;
        while at < groups.entries() {
            let (group, next) = groups.get(groups.by_entry(at));
            let all = 0..groups.entries() * size;
            let (piece, end) = block(&(group.first..next.first), at, size, &all);
            visit(piece);
            at = end;
        }
        Ok(())
    }
}

impl CsrMatrix {
    /// Names the blocks of a group, of which rows are read.
    fn name(&self, groups: &RowGroups, group: usize, needed: &mut StoredRanges) {
        if self.wide.is_some() {
            self.stored.name_all(needed);
        }
        for number in groups.blocks(group) {
            let block = self.stored.table.get(*number);
            self.stored.name_block(&block, needed);
        }
    }

    fn codec(&self) -> &'static str {
        match self.stored.table.len() {
            0 => "sparse",
            _ => self.stored.table.codec(),
        }
    }

    /// Bytes stored for values, columns and the rest.
    pub(super) fn stored_bytes(&self) -> (u64, u64, u64) {
        let (mut values, mut cols, mut rest) = (0, 0, 0);
        for block in self.stored.table.iter() {
            let size = block.value().map_or(0, |value| value.size() as u64);
            let (own, index) = match block.body {
                BlockBody::Empty => (0, 0),
                BlockBody::Dense(_) => (block.area() * size, 0),
                BlockBody::Sparse(_) => (block.entries() * size, 4 * block.entries()),
                BlockBody::Coo(_) if block.width == 1 => (block.entries() * size, 0),
                BlockBody::Coo(_) => (block.entries() * size, 4 * block.entries()),
            };
            values += own;
            cols += index;
            rest += block.stored() - own - index;
        }
        (values, cols, rest)
    }
}

impl CsrOffsets {
    fn bytes(&self) -> u64 {
        (self.csr.rows + 1) * 8
    }
}

/// The offset that every row of a group has, if that is known.
fn made_up(groups: &RowGroups, row: u64) -> Option<(u64, u64)> {
    let number = groups.by_row(row);
    let group = groups.list.list[number];
    match groups.list.list.get(number + 1) {
        // What follows the last row.
        None => Some((group.first, group.row + 1)),
        Some(next) if group.nothing => Some((group.first, next.row)),
        Some(_) => None,
    }
}

impl Array for CsrOffsets {
    fn name(&self) -> &str {
        "row_offsets"
    }

    fn info(&self) -> Result<Info> {
        Ok(Info {
            dtype: Dtype::U64,
            shape: vec![self.csr.rows + 1],
            order: Order::C,
            bytes: self.bytes(),
            stored_bytes: self.stored_bytes,
            blocks: self.csr.stored.table.len().max(1) as u64,
            codec: self.csr.codec().into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let groups = self.csr.groups()?;
        let range = range.start..range.end.min(self.bytes());
        let mut at = range.start / 8;
        while range.start < range.end && at * 8 < range.end {
            if let Some((_, end)) = made_up(groups, at) {
                push_direct(&(at * 8..end * 8), &range, out);
                at = end;
                continue;
            }
            let (group, next) = groups.get(groups.by_row(at));
            let (piece, end) = block(&(group.row..next.row), at, 8, &range);
            out.push(piece);
            at = end;
        }
        Ok(())
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        if let Some(id) = piece.block() {
            let groups = self.csr.groups()?;
            self.csr.name(groups, groups.by_row(id.0), needed);
        }
        Ok(false)
    }

    fn scratch(&self, _block: BlockId) -> u64 {
        OFFSETS_MEMORY
    }

    fn decode(&self, id: BlockId, out: &mut [u8], scratch: Scratch<'_>) -> Result<()> {
        let groups = self.csr.groups()?;
        if id.0 >= self.csr.rows {
            return Err(no_block(id));
        }
        let number = groups.by_row(id.0);
        let (group, next) = groups.get(number);
        let len = out.len() as u64 / 8;
        let most = (next.row - id.0).min(BLOCK);
        if !(id.0 - group.row).is_multiple_of(BLOCK) || len != most {
            return Err(no_block(id));
        }
        self.csr.offsets(number, &(id.0..id.0 + len), out, scratch)
    }

    /// Gives offsets of rows that are known to be empty, and the last one.
    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let groups = self.csr.groups()?;
        let (mut at, mut rest) = (at, out);
        while !rest.is_empty() {
            let known = made_up(groups, at / 8);
            let not_plain =
                || Error::Bug(format!("offset {} is not known without its row", at / 8));
            let (offset, end) = known.ok_or_else(not_plain)?;
            let len = (end * 8 - at).min(rest.len() as u64) as usize;
            let (part, after) = rest.split_at_mut(len);
            let mut pattern = offset.to_le_bytes();
            pattern.rotate_left((at % 8) as usize);
            for part in part.chunks_mut(8) {
                part.copy_from_slice(&pattern[..part.len()]);
            }
            at += len as u64;
            rest = after;
        }
        Ok(())
    }

    /// Everything that is stored is looked at with the values.
    fn survey(&self, _visit: &mut dyn FnMut(Piece)) -> Result<()> {
        Ok(())
    }
}

/// Shows the three arrays of a CSRMatrix, which store so many bytes each.
pub(super) fn show(
    csr: CsrMatrix,
    stored: (u64, u64, u64),
    file: &mut DescribedFile,
) -> Arc<CsrMatrix> {
    let csr = Arc::new(csr);
    let entries = |field, stored_bytes| -> Arc<dyn Array> {
        Arc::new(CsrEntries {
            csr: Arc::clone(&csr),
            field,
            stored_bytes,
        })
    };
    file.arrays.push(entries(EntryField::Values, stored.0));
    file.arrays.push(entries(EntryField::Columns, stored.1));
    file.arrays.push(Arc::new(CsrOffsets {
        csr: Arc::clone(&csr),
        stored_bytes: stored.2,
    }));
    file.checks.push(Arc::new(CountCheck(Arc::clone(&csr))));
    csr
}
