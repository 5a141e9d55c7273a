//! `idxptr` and `chr_ptr`: the arrays that say where columns and chromosomes begin and end.
//!
//! A reader follows them blindly, so they are decoded in blocks that are checked as they are read:
//! `idxptr` never decreases, a chromosome never ends before it begins (docs/formats.md). They keep
//! their stored width. Used by `matrix` and `fragments`, which learn the number of entries from
//! them.

use std::ops::Range;
use std::sync::Arc;

use super::fields::{Field, decoded_bytes};
use super::packed::{BLOCK_BYTES, PackedStream};
use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece, even_pieces};
use crate::error::{Error, Fault, Result};
use crate::memory::Arena;
use crate::source::StoredRanges;

/// What holds between entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PointerRule {
    /// Each entry is at least the one before.
    NeverDecreasing,
    /// Entries 2c and 2c + 1 are begin and end; the pairs have no order.
    Pairs,
}

enum StoredPointers {
    Plain(Arc<dyn Field>),
    /// `idxptr` of version 9999.
    Packed(PackedStream),
}

pub(super) struct Pointers {
    name: String,
    stored: StoredPointers,
    rule: PointerRule,
    len: u64,
}

impl Pointers {
    /// All elements of `field`.
    pub(super) fn plain(name: &str, field: Arc<dyn Field>, rule: PointerRule) -> Result<Self> {
        let len = field.len();
        decoded_bytes(len, field.number())?;
        Ok(Pointers {
            name: name.to_owned(),
            stored: StoredPointers::Plain(field),
            rule,
            len,
        })
    }

    pub(super) fn packed(name: &str, stream: PackedStream, rule: PointerRule) -> Self {
        let len = stream.len();
        Pointers {
            name: name.to_owned(),
            stored: StoredPointers::Packed(stream),
            rule,
            len,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The last entry; none if there are no entries.
    pub(super) fn last(&self) -> Result<Option<u64>> {
        self.len
            .checked_sub(1)
            .map(|last| self.entry(last))
            .transpose()
    }

    /// The largest entry, 0 if there are none: reads all of them.
    pub(super) fn largest(&self) -> Result<u64> {
        match &self.stored {
            StoredPointers::Plain(field) => largest(&**field),
            StoredPointers::Packed(_) => Err(Error::Bug("packed pointers never decrease".into())),
        }
    }

    fn width(&self) -> u64 {
        match &self.stored {
            StoredPointers::Plain(field) => field.number().width(),
            StoredPointers::Packed(_) => 4,
        }
    }

    fn entry(&self, index: u64) -> Result<u64> {
        match &self.stored {
            StoredPointers::Plain(field) => field.read_unsigned(index),
            StoredPointers::Packed(stream) => stream.value(index).map(u64::from),
        }
    }

    /// One block, unchecked.
    fn read(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        match &self.stored {
            StoredPointers::Plain(field) => field.read(block.0.saturating_mul(BLOCK_BYTES), out),
            StoredPointers::Packed(stream) => stream.decode_block(block, out, scratch),
        }
    }

    /// Checks entries from number `first` on, `before` being the entry before them.
    fn check(&self, first: u64, before: u64, entries: &[u8]) -> Result<()> {
        let mut previous = before;
        for (entry, number) in entries
            .chunks_exact(self.width() as usize)
            .map(unsigned)
            .zip(first..)
        {
            // The border between two chromosomes is free.
            let bound = self.rule == PointerRule::NeverDecreasing || number % 2 == 1;
            if bound && entry < previous {
                return Err(self.decreasing(number, previous, entry).into());
            }
            previous = entry;
        }
        Ok(())
    }

    fn decreasing(&self, number: u64, previous: u64, entry: u64) -> Fault {
        let what = match self.rule {
            PointerRule::NeverDecreasing => format!("entry {number} is less than the one before"),
            PointerRule::Pairs => format!("chromosome {} ends before it begins", number / 2),
        };
        let fault = Fault::new(what)
            .expected(format_args!("at least {previous}"))
            .found(entry);
        match &self.stored {
            StoredPointers::Plain(field) => {
                let at = number.saturating_mul(self.width());
                field.locate(fault, at..at.saturating_add(self.width()))
            }
            StoredPointers::Packed(_) => fault,
        }
    }
}

fn largest(field: &dyn Field) -> Result<u64> {
    let width = field.number().width();
    let bytes = decoded_bytes(field.len(), field.number())?;
    // A whole number of elements.
    let mut step = [0; 8192];
    let (mut at, mut largest) = (0, 0);
    while at < bytes {
        let step = &mut step[..(bytes - at).min(8192) as usize];
        field.read(at, step)?;
        let elements = step.chunks_exact(width as usize).map(unsigned);
        largest = elements.fold(largest, u64::max);
        at += step.len() as u64;
    }
    Ok(largest)
}

/// A little-endian number of 4 or 8 bytes.
fn unsigned(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

impl Array for Pointers {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let bytes = self.len * self.width();
        let (dtype, stored_bytes, codec) = match &self.stored {
            StoredPointers::Plain(field) => (field.number().dtype(), field.stored_bytes(), "none"),
            StoredPointers::Packed(stream) => (Dtype::U32, stream.stored_bytes(), stream.codec()),
        };
        Ok(Info {
            dtype,
            shape: vec![self.len],
            order: Order::C,
            bytes,
            stored_bytes,
            blocks: bytes.div_ceil(BLOCK_BYTES),
            codec: codec.into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        even_pieces(self.len * self.width(), BLOCK_BYTES, range, out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    /// With the entry before a block, which its first is compared with.
    fn stored(&self, piece: &Piece, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        let Some(block) = piece.block() else {
            return Ok(false);
        };
        match &self.stored {
            StoredPointers::Plain(field) => {
                let start = block.0.saturating_mul(BLOCK_BYTES);
                let end = start.saturating_add(BLOCK_BYTES);
                let end = end.min(self.len * self.width());
                field.stored(start.saturating_sub(self.width())..end, round, needed)
            }
            StoredPointers::Packed(stream) => stream.stored(block, round, needed),
        }
    }

    fn scratch(&self, block: BlockId) -> u64 {
        match &self.stored {
            StoredPointers::Plain(_) => 0,
            StoredPointers::Packed(stream) => stream.scratch(block),
        }
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        let checked = |out: &mut [u8]| {
            let first = block.0.saturating_mul(BLOCK_BYTES / self.width());
            // A block holds whole pairs, so only `idxptr` looks back.
            let before = match first.checked_sub(1) {
                Some(last) if self.rule == PointerRule::NeverDecreasing => self.entry(last)?,
                _ => 0,
            };
            self.read(block, out, scratch)?;
            self.check(first, before, out)
        };
        checked(out).map_err(|e| e.map_fault(|fault| fault.block(block.0)))
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        match &self.stored {
            StoredPointers::Plain(_) => Ok(()),
            StoredPointers::Packed(stream) => stream.verify(report),
        }
    }
}
