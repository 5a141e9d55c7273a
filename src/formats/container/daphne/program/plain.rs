//! Numbers that lie in the file as they are shown: the program's matrices.
//!
//! Read straight, never cached here. Columns and offsets of a CSRMatrix are checked as they pass: a
//! wrong one is a fault for the reads that touch it. Used by `program`.

use std::ops::Range;
use std::sync::Arc;

use super::super::block::scan::load;
use crate::array::dtype::Dtype;
use crate::array::{Array, Info, Order, Piece, direct_piece};
use crate::error::{Error, Fault, Result};
use crate::source::{Source, StoredRanges};

/// What every number must obey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberRule {
    None,
    /// 64-bit numbers below this.
    Below(u64),
    /// 64-bit numbers that never fall, from 0 to this.
    Rises(u64),
}

pub(crate) struct PlainNumbers {
    pub(crate) name: &'static str,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    /// Stored bytes.
    pub(crate) place: Range<u64>,
    pub(crate) rule: NumberRule,
}

impl PlainNumbers {
    fn bytes(&self) -> u64 {
        self.place.end - self.place.start
    }

    /// Checks the whole numbers of a part of the array that begins at `at`.
    fn check(&self, at: u64, part: &[u8]) -> Result<()> {
        let skip = (8 - at % 8) % 8;
        let (whole, mut least) = (part.get(skip as usize..).unwrap_or(&[]), 0);
        let numbers = whole.chunks_exact(8).map(load);
        for (number, element) in numbers.zip((at + skip) / 8..) {
            let (what, expected) = match self.rule {
                NumberRule::None => return Ok(()),
                NumberRule::Rises(most) if number < least || number > most => (
                    "a row offset falls, or lies beyond the entries",
                    format!("{least} to {most}"),
                ),
                NumberRule::Below(most) if number >= most => (
                    "a column lies outside the matrix",
                    format!("less than {most}"),
                ),
                NumberRule::Rises(_) | NumberRule::Below(_) => {
                    least = number;
                    continue;
                }
            };
            let stored = self.place.start + element * 8;
            let fault = Fault::new(what).bytes(stored..stored + 8);
            return Err(fault.expected(expected).found(number).into());
        }
        Ok(())
    }

    /// Checks the numbers that lie across the ends of a range, and the first against the one before
    /// it.
    fn check_ends(&self, at: u64, len: u64) -> Result<()> {
        let (first, end) = (at - at % 8, (at + len).next_multiple_of(8));
        let last = (at + len) / 8 * 8;
        match self.rule {
            _ if len == 0 => Ok(()),
            NumberRule::None => Ok(()),
            NumberRule::Below(_) if first < at || last < end => {
                self.check_stored(first..end.min(first + 8))?;
                self.check_stored(last..end)
            }
            NumberRule::Below(_) => Ok(()),
            NumberRule::Rises(_) => {
                self.check_stored(first.saturating_sub(8)..end.min(first + 16))?;
                self.check_stored(last.saturating_sub(8)..end)
            }
        }
    }

    /// Checks at most three whole numbers.
    fn check_stored(&self, range: Range<u64>) -> Result<()> {
        let mut buf = [0; 24];
        let buf = &mut buf[..(range.end - range.start).min(24) as usize];
        self.source.fetch_one(self.place.start + range.start, buf)?;
        self.check(range.start, buf)
    }
}

impl Array for PlainNumbers {
    fn name(&self) -> &str {
        self.name
    }

    fn info(&self) -> Result<Info> {
        Ok(Info {
            dtype: self.dtype.clone(),
            shape: self.shape.clone(),
            order: Order::C,
            bytes: self.bytes(),
            stored_bytes: self.bytes(),
            blocks: u64::from(self.bytes() > 0),
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range.start..range.end.min(self.bytes()), out);
        Ok(())
    }

    /// With the numbers at both ends, and the one before, that the range is checked with.
    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        if let Some(range) = piece.direct() {
            let start = self.place.start + (range.start - range.start % 8).saturating_sub(8);
            let end = self
                .place
                .start
                .saturating_add(range.end.saturating_add(16));
            needed.name(&self.source, start..end.min(self.place.end));
        }
        Ok(false)
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        if at.saturating_add(out.len() as u64) > self.bytes() {
            let (bytes, name) = (self.bytes(), self.name);
            return Err(Error::Bug(format!(
                "{name} has {bytes} bytes and is read from {at} on"
            )));
        }
        self.source.fetch_one(self.place.start + at, out)?;
        self.check(at, out)?;
        self.check_ends(at, out.len() as u64)
    }
}
