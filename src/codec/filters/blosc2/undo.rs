//! The filters inside a Blosc2 chunk, undone block by block.
//!
//! There are six slots, applied in order. Truncation of precision is not undone, as what it took is
//! lost. The delta filter combines a block with the first one of the chunk, so that it can only be
//! undone last.

use crate::blosc::bitshuffle::{scratch_len, unbitshuffle};
use crate::blosc::shuffle::Planes;
use crate::filters::error::FilterError;
use crate::filters::shuffle::unshuffle;
use crate::filters::tools::Tools;

const SLOTS: usize = 6;
/// Places in the header.
const CODES: usize = 16;
const META: usize = 24;
const VERSION_ALPHA: u8 = 3;

#[derive(Debug, Clone, Copy)]
enum UndoStep {
    Shuffle,
    Bitshuffle,
    /// Differences of neighbouring bytes, within each of so many planes; 0 for those of the type.
    ByteDelta(u8),
}

/// What is to be undone, from the last filter applied to the first.
pub(super) struct Blosc2Filters {
    steps: Vec<UndoStep>,
    /// Undone last, in place.
    pub(super) delta: bool,
}

impl Blosc2Filters {
    /// Reads the slots of a chunk's header.
    pub(super) fn new(header: &[u8; 32]) -> Result<Self, FilterError> {
        let slots = if header[0] == VERSION_ALPHA {
            SLOTS - 1
        } else {
            SLOTS
        };
        let mut filters = Self {
            steps: Vec::new(),
            delta: false,
        };
        for i in (0..slots).rev() {
            let (code, meta) = (header[CODES + i], header[META + i]);
            if !matches!(code, 0 | 4 | 36) && filters.delta {
                return Err(FilterError::new(
                    "the delta filter was not the first applied",
                ));
            }
            match (code, meta) {
                (0 | 4 | 36, _) => {}
                (1, 0) => filters.steps.push(UndoStep::Shuffle),
                (2, 0) => filters.steps.push(UndoStep::Bitshuffle),
                (3, _) => filters.delta = true,
                (35, _) => filters.steps.push(UndoStep::ByteDelta(meta)),
                _ => return Err(FilterError::new("a filter is not supported").found(code)),
            }
        }
        Ok(filters)
    }

    /// Whether there is nothing to undo but the delta filter.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Undoes all steps, of which there is at least one; `planes` is as long as `out`, and is lost.
    pub(super) fn undo(
        &self,
        mut tools: Tools,
        typesize: usize,
        planes: &mut [u8],
        out: &mut [u8],
    ) -> Result<(), FilterError> {
        for (i, step) in self.steps.iter().enumerate() {
            if i > 0 {
                planes.copy_from_slice(out);
            }
            match step {
                UndoStep::Shuffle => unshuffle(typesize, planes, out),
                UndoStep::Bitshuffle => undo_bitshuffle(tools.lend(), typesize, planes, out)?,
                UndoStep::ByteDelta(meta) => {
                    let width = if *meta == 0 {
                        typesize
                    } else {
                        usize::from(*meta)
                    };
                    undo_byte_delta(width, planes, out);
                }
            }
        }
        Ok(())
    }
}

/// Elements beyond the last multiple of eight are as they were.
fn undo_bitshuffle(
    mut tools: Tools,
    width: usize,
    planes: &[u8],
    out: &mut [u8],
) -> Result<(), FilterError> {
    let whole = planes.len() / width / 8 * 8 * width;
    let (bytes, tail) = planes.split_at(whole);
    let (elements, rest) = out.split_at_mut(whole);
    rest.copy_from_slice(tail);
    let rows = Planes::Joined { bytes, width };
    unbitshuffle(rows, elements, tools.take(scratch_len(rows))?);
    Ok(())
}

fn undo_byte_delta(width: usize, planes: &[u8], out: &mut [u8]) {
    out.copy_from_slice(planes);
    let len = out.len() / width;
    for plane in out.chunks_exact_mut(len.max(1)).take(width) {
        let mut sum = 0u8;
        for byte in plane {
            sum = sum.wrapping_add(*byte);
            *byte = sum;
        }
    }
}

/// Undoes the combination by exclusive or, with the first block or, in that, with the element
/// before.
///
/// Elements are of 1, 2, 4 or 8 bytes, others being taken apart; the rest of a block is as it was.
pub(super) fn undo_delta(typesize: usize, first: Option<&[u8]>, out: &mut [u8]) {
    let width = match typesize {
        1 | 2 | 4 | 8 => typesize,
        _ if typesize.is_multiple_of(8) => 8,
        _ => 1,
    };
    let whole = out.len() - out.len() % width;
    match first {
        Some(first) => {
            for (byte, other) in out[..whole].iter_mut().zip(first) {
                *byte ^= other;
            }
        }
        None => {
            for i in width..whole {
                out[i] ^= out[i - width];
            }
        }
    }
}
