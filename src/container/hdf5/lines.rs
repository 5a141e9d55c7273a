//! Strings of fixed length as lines of text: each up to its first NUL, and a line feed.
//!
//! What BPCells makes of names that another program has written. The shown size takes one pass over the
//! strings, made when it is first asked for. Used by `fields`.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::recent::Recent;
use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece};
use crate::error::{Fault, Result};
use crate::memory::Scratch;

/// Strings of a block.
const STRINGS: u64 = 4096;

pub(super) struct FixedLines {
    name: String,
    strings: Recent,
    /// Bytes of a stored string.
    size: u64,
    count: u64,
    /// Where each block begins in the shown bytes, and their end.
    starts: OnceLock<Vec<u64>>,
}

impl FixedLines {
    /// `strings`: a list of strings of `size` bytes.
    pub(super) fn new(name: &str, strings: Arc<dyn Array>, size: u64) -> Result<Self> {
        let count = strings.info()?.bytes / size.max(1);
        Ok(FixedLines {
            name: name.to_owned(),
            strings: Recent::new(strings),
            size,
            count,
            starts: OnceLock::new(),
        })
    }

    fn starts(&self) -> Result<&[u64]> {
        if self.starts.get().is_none() {
            let _ = self.starts.set(self.scan()?);
        }
        Ok(self.starts.get().map_or(&[], Vec::as_slice))
    }

    fn scan(&self) -> Result<Vec<u64>> {
        let (mut starts, mut lines) = (vec![0], Vec::new());
        let mut total = 0;
        for block in 0..self.count.div_ceil(STRINGS) {
            self.lines(block, &mut lines)?;
            total += lines.len() as u64;
            starts.push(total);
        }
        Ok(starts)
    }

    /// The lines of one block.
    fn lines(&self, block: u64, lines: &mut Vec<u8>) -> Result<()> {
        let first = block.saturating_mul(STRINGS).min(self.count);
        let last = (first + STRINGS).min(self.count);
        let mut string = vec![0; usize::try_from(self.size).unwrap_or(usize::MAX)];
        lines.clear();
        for number in first..last {
            self.strings.read(number * self.size, &mut string)?;
            let end = memchr::memchr(0, &string).unwrap_or(string.len());
            lines.extend_from_slice(&string[..end]);
            lines.push(b'\n');
        }
        Ok(())
    }
}

impl Array for FixedLines {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let starts = self.starts()?;
        Ok(Info {
            dtype: Dtype::Text,
            shape: vec![self.count],
            order: Order::C,
            bytes: starts.last().copied().unwrap_or(0),
            blocks: starts.len() as u64 - 1,
            ..self.strings.array().info()?
        })
    }

    fn check_structure(&self) -> Result<()> {
        self.strings.array().check_structure()
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        crate::array::uneven_pieces(self.starts()?, range, out);
        Ok(())
    }

    fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Scratch<'_>) -> Result<()> {
        let mut lines = Vec::with_capacity(out.len());
        self.lines(block.0, &mut lines)?;
        if lines.len() != out.len() {
            let fault = Fault::new("the strings are not as long as when they were counted");
            return Err(fault
                .block(block.0)
                .expected(out.len())
                .found(lines.len())
                .into());
        }
        out.copy_from_slice(&lines);
        Ok(())
    }
}
