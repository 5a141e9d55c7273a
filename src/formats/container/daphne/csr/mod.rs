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
use crate::memory::Arena;
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

/// One of the three arrays.
pub(super) struct CsrArray {
    csr: Arc<CsrMatrix>,
    /// None: `row_offsets`, one more than there are rows.
    field: Option<EntryField>,
    stored_bytes: u64,
}

impl CsrArray {
    fn size(&self) -> u64 {
        match self.field {
            Some(EntryField::Values) => self.csr.value.size() as u64,
            Some(EntryField::Columns) | None => 8,
        }
    }

    /// Elements of the array.
    fn count(&self, groups: &RowGroups) -> u64 {
        match self.field {
            Some(_) => groups.entries(),
            None => self.csr.rows + 1,
        }
    }

    /// The group of an element, and all elements of that.
    fn group_of(&self, groups: &RowGroups, at: u64) -> (usize, Range<u64>) {
        let number = match self.field {
            Some(_) => groups.by_entry(at),
            None => groups.by_row(at),
        };
        let (group, next) = groups.get(number);
        match self.field {
            Some(_) => (number, group.first..next.first),
            None => (number, group.row..next.row),
        }
    }

    /// An offset that all rows up to another one have, if that is known.
    fn made_up(&self, groups: &RowGroups, row: u64) -> Option<(u64, u64)> {
        let list = &groups.list.list;
        let number = self.field.is_none().then(|| groups.by_row(row))?;
        let group = list[number];
        match list.get(number + 1) {
            // What follows the last row.
            None => Some((group.first, group.row + 1)),
            Some(next) if group.nothing => Some((group.first, next.row)),
            Some(_) => None,
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

impl Array for CsrArray {
    fn name(&self) -> &str {
        match self.field {
            Some(EntryField::Columns) => "col_idxs",
            Some(EntryField::Values) => "values",
            None => "row_offsets",
        }
    }

    fn info(&self) -> Result<Info> {
        let count = self.count(self.csr.groups()?);
        let dtype = match self.field {
            Some(EntryField::Values) => self.csr.value.dtype(),
            Some(EntryField::Columns) | None => Dtype::U64,
        };
        Ok(Info {
            dtype,
            shape: vec![count],
            order: Order::C,
            bytes: count * self.size(),
            stored_bytes: self.stored_bytes,
            blocks: self.csr.stored.table.len().max(1) as u64,
            codec: self.csr.codec().into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let (groups, size) = (self.csr.groups()?, self.size());
        let range = range.start..range.end.min(self.count(groups) * size);
        let mut at = range.start / size;
        while range.start < range.end && at * size < range.end {
            if let Some((_, end)) = self.made_up(groups, at) {
                push_direct(&(at * size..end * size), &range, out);
                at = end;
                continue;
            }
            let (piece, end) = block(&self.group_of(groups, at).1, at, size, &range);
            out.push(piece);
            at = end;
        }
        Ok(())
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        if let Some(id) = piece.block() {
            let groups = self.csr.groups()?;
            let (group, _) = self.group_of(groups, id.0);
            self.csr.name(groups, group, needed);
        }
        Ok(false)
    }

    fn scratch(&self, _block: BlockId) -> u64 {
        match self.field {
            Some(_) => ENTRIES_MEMORY,
            None => OFFSETS_MEMORY,
        }
    }

    fn decode(&self, id: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        let no_block = || Error::Bug(format!("no block of a CSRMatrix begins at {}", id.0));
        let groups = self.csr.groups()?;
        let all = match self.field {
            Some(_) => groups.entries(),
            None => self.csr.rows,
        };
        if id.0 >= all {
            return Err(no_block());
        }
        let (group, items) = self.group_of(groups, id.0);
        let (start, len) = (id.0 - items.start, out.len() as u64 / self.size());
        if !start.is_multiple_of(BLOCK) || len != (items.end - id.0).min(BLOCK) {
            return Err(no_block());
        }
        match self.field {
            Some(field) => {
                let want = start..start + len;
                self.csr.entries(group, &want, field, out, scratch)
            }
            None => self.csr.offsets(group, &(id.0..id.0 + len), out, scratch),
        }
    }

    /// Gives offsets of rows that are known to be empty, and the last one.
    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let groups = self.csr.groups()?;
        let (mut at, mut rest) = (at, out);
        while !rest.is_empty() {
            let known = self.made_up(groups, at / 8);
            let not_plain =
                || Error::Bug(format!("element {} is not known without its row", at / 8));
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

    /// The columns lie between the values; offsets are checked with them.
    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        if self.field != Some(EntryField::Values) {
            return Ok(());
        }
        let (groups, size) = (self.csr.groups()?, self.size());
        let (mut at, all) = (0, 0..groups.entries() * size);
        while at < groups.entries() {
            let (piece, end) = block(&self.group_of(groups, at).1, at, size, &all);
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

/// Shows the three arrays of a CSRMatrix, which store so many bytes each.
pub(super) fn show(csr: CsrMatrix, stored: (u64, u64, u64), file: &mut DescribedFile) {
    let csr = Arc::new(csr);
    let fields = [Some(EntryField::Values), Some(EntryField::Columns), None];
    let shown = fields.into_iter().zip([stored.0, stored.1, stored.2]);
    file.arrays.extend(shown.map(|(field, stored_bytes)| {
        let csr = Arc::clone(&csr);
        let array = CsrArray {
            csr,
            field,
            stored_bytes,
        };
        Arc::new(array) as Arc<dyn Array>
    }));
    file.checks.push(Arc::new(CountCheck(csr)));
}
