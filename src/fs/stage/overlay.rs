//! An array as it is shown: what is staged, above what the container holds.
//!
//! An [`Overlay`] is an [`Array`] like any other. Where nothing is staged it gives the pieces of
//! the array below, so cache and formats read as they did; what is staged, and zeros that
//! truncation left, are [`Piece::Direct`]. It is of one moment only in its length and its list of
//! layers: what is written while it is read shows or does not, and a piece that was found before is
//! never worse than that. What was staged is never below later, so direct bytes stay direct. Used
//! by `tree`, and by the commands that read through a log.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::layer::{Layer, Part, Step};
use super::written_array::WrittenArray;
use crate::array::{Array, BlockId, Info, Piece, Unfiltered, direct_piece};
use crate::error::{Fault, Result};
use crate::memory::Arena;
use crate::memory::block::Block;
use crate::source::StoredRanges;

/// Says what an array is whose length is no longer that of its container.
pub type Reshape = Arc<dyn Fn(&Info, u64) -> Info + Send + Sync>;

/// An array with what is staged of it.
pub struct Overlay {
    base: Arc<dyn Array>,
    /// The top first.
    layers: Vec<Arc<Layer>>,
    array: WrittenArray,
    reshape: Option<Reshape>,
    base_len: OnceLock<u64>,
}

impl Overlay {
    /// `layers`: the top first, as [`super::Stage::layers`] gives them.
    pub fn new(base: Arc<dyn Array>, layers: Vec<Arc<Layer>>, array: WrittenArray) -> Overlay {
        Overlay {
            base,
            layers,
            array,
            reshape: None,
            base_len: OnceLock::new(),
        }
    }

    /// This overlay with a shape that follows the length.
    pub fn reshaped(mut self, reshape: Reshape) -> Overlay {
        self.reshape = Some(reshape);
        self
    }

    /// Zeros at the start of a range as the layers from `level` on show it.
    fn zeros_from(&self, level: usize, range: Range<u64>) -> u64 {
        let Some(layer) = self.layers.get(level) else {
            let is_behind = |&len: &u64| range.start >= len;
            return match self.base_len.get().is_some_and(is_behind) {
                true => range.end - range.start,
                false => 0,
            };
        };
        let mut at = range.start;
        while at < range.end {
            let (end, zeros) = match layer.first_part(self.array, at..range.end) {
                Part::Zeros(part) => (part.end, part.end - at),
                Part::Below(part) => (part.end, self.zeros_from(level + 1, part)),
                Part::Staged(_) => break,
            };
            at += zeros;
            if at < end {
                break;
            }
        }
        at - range.start
    }

    fn base_len(&self) -> Result<u64> {
        match self.base_len.get() {
            Some(&len) => Ok(len),
            None => {
                let len = self.base.info()?.bytes;
                Ok(*self.base_len.get_or_init(|| len))
            }
        }
    }

    /// Pieces of a range as the layers from `level` on show it.
    fn pieces_from(&self, level: usize, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let Some(layer) = self.layers.get(level) else {
            // A layer never lets more show than there was; a base that is another by now must do no
            // harm.
            let end = range.end.min(self.base_len()?).max(range.start);
            if range.start < end {
                self.base.pieces(range.start..end, out)?;
            }
            direct_piece(end..range.end, out);
            return Ok(());
        };
        let mut parts = Vec::new();
        layer.parts(self.array, range, &mut parts);
        for part in parts {
            match part {
                Part::Below(range) => self.pieces_from(level + 1, range, out)?,
                Part::Staged(range) | Part::Zeros(range) => direct_piece(range, out),
            }
        }
        Ok(())
    }

    /// Direct bytes as the layers from `level` on have them.
    fn read_from(&self, level: usize, at: u64, out: &mut [u8]) -> Result<()> {
        let Some(layer) = self.layers.get(level) else {
            return self.read_base(at, out);
        };
        let mut done = 0;
        while done < out.len() {
            let from = at.saturating_add(done as u64);
            done += match layer.read_some(self.array, from, &mut out[done..])? {
                Step::Read(n) => n,
                Step::Below(n) => {
                    self.read_from(level + 1, from, &mut out[done..][..n])?;
                    n
                }
            };
        }
        Ok(())
    }

    fn read_base(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let shown = self.base_len()?.saturating_sub(at).min(out.len() as u64) as usize;
        let (direct, behind) = out.split_at_mut(shown);
        behind.fill(0);
        match direct.is_empty() {
            true => Ok(()),
            false => self.base.read_direct(at, direct),
        }
    }
}

/// An array of one dimension has as many elements as fit; this module knows no more of the shape of
/// others.
fn lengthened(info: &Info, bytes: u64) -> Info {
    let mut info = info.clone();
    if let (&mut [ref mut len], Some(item)) = (&mut info.shape[..], info.dtype.itemsize())
        && item > 0
        && bytes.is_multiple_of(item)
    {
        *len = bytes / item;
    }
    info.bytes = bytes;
    info
}

impl Array for Overlay {
    fn name(&self) -> &str {
        self.base.name()
    }

    fn info(&self) -> Result<Info> {
        let info = self.base.info()?;
        let top = self.layers.first();
        let len = top.map_or(info.bytes, |top| top.len(self.array));
        Ok(match &self.reshape {
            _ if len == info.bytes => info,
            Some(reshape) => Info {
                bytes: len,
                ..reshape(&info, len)
            },
            None => lengthened(&info, len),
        })
    }

    fn check_structure(&self) -> Result<()> {
        self.base.check_structure()
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        self.pieces_from(0, range, out)
    }

    fn len_now(&self) -> Option<u64> {
        self.layers.first().map(|top| top.len(self.array))
    }

    fn weight(&self) -> u64 {
        self.base.weight()
    }

    fn places_known(&self, range: &Range<u64>) -> bool {
        let Some(&len) = self.base_len.get() else {
            return false;
        };
        let below = range.start.min(len)..range.end.min(len);
        below.is_empty() || self.base.places_known(&below)
    }

    fn zeros_ahead(&self, range: Range<u64>) -> u64 {
        self.zeros_from(0, range)
    }

    fn stored_places(&self, range: &Range<u64>, needed: &mut StoredRanges) -> Result<()> {
        let len = self.base_len()?;
        let below = range.start.min(len)..range.end.min(len);
        match below.is_empty() {
            true => Ok(()),
            false => self.base.stored_places(&below, needed),
        }
    }

    /// What is staged lies at hand.
    fn stored(&self, piece: &Piece, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        self.base.stored(piece, round, needed)
    }

    fn scratch(&self, block: BlockId) -> u64 {
        self.base.scratch(block)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        self.base.decode(block, out, scratch)
    }

    fn at_hand(&self, block: BlockId) -> Option<Arc<Block>> {
        self.base.at_hand(block)
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.read_from(0, at, out)
    }

    /// What is stored is the container's; what is staged is checked where the log is read.
    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        self.base.survey(visit)
    }

    fn unfiltered(&self, are_counted: bool) -> Result<Unfiltered> {
        self.base.unfiltered(are_counted)
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        self.base.verify(report)
    }
}
