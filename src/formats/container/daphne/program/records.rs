//! A column of a program-written Frame: one value of every record.
//!
//! Records lie row by row, the values of all columns packed; a block is a bounded number of them. A
//! frame of one column has nothing between its values and is read straight, as `plain`. Used by
//! `program`.

use std::ops::Range;
use std::sync::Arc;

use super::super::block::index_cache::ChargedList;
use super::super::strided;
use super::super::value::ValueType;
use crate::array::{Array, BlockId, Info, Order, Piece, even_pieces};
use crate::error::{Error, Result};
use crate::memory::Arena;
use crate::source::{Source, StoredRanges};

/// Decoded bytes of a block, and the stored bytes that are passed over for it.
const BLOCK: u64 = 1 << 20;
const PASSED: u64 = 8 << 20;

pub(crate) struct RecordColumn {
    pub(crate) name: String,
    pub(crate) source: Arc<dyn Source>,
    /// Types of all columns, with which this one is charged.
    pub(crate) _charged: Arc<ChargedList<ValueType>>,
    pub(crate) value: ValueType,
    pub(crate) rows: u64,
    /// Bytes of a record.
    pub(crate) record: u64,
    /// Where the column's value of the first record is stored.
    pub(crate) first: u64,
}

impl RecordColumn {
    fn bytes(&self) -> u64 {
        self.rows * self.value.size() as u64
    }

    fn block_len(&self) -> u64 {
        let size = self.value.size() as u64;
        (BLOCK / size).min(PASSED / self.record).max(1) * size
    }
}

impl Array for RecordColumn {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        Ok(Info {
            dtype: self.value.dtype(),
            shape: vec![self.rows],
            order: Order::C,
            bytes: self.bytes(),
            stored_bytes: self.bytes(),
            blocks: self.bytes().div_ceil(self.block_len()),
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        even_pieces(self.bytes(), self.block_len(), range, out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        if let Piece::Block { id, block_len, .. } = *piece {
            let size = self.value.size() as u64;
            let row = id.0.saturating_mul(self.block_len()) / size;
            let first = self.first.saturating_add(row.saturating_mul(self.record));
            let records = (block_len / size).saturating_sub(1);
            let len = records.saturating_mul(self.record).saturating_add(size);
            needed.name(&self.source, first..first.saturating_add(len));
        }
        Ok(false)
    }

    fn scratch(&self, _block: BlockId) -> u64 {
        strided::MEMORY
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        let at = block.0.saturating_mul(self.block_len());
        let fits = at
            .checked_add(out.len() as u64)
            .is_some_and(|end| end <= self.bytes());
        if !fits {
            return Err(Error::Bug(format!("block {} of a column is none", block.0)));
        }
        let row = at / self.value.size() as u64;
        let first = self.first + row * self.record;
        let (record, size) = (self.record, self.value.size());
        strided::gather(&*self.source, (first, record), size, out, scratch)
    }
}
