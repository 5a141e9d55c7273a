//! The labels of a frame, as the file says them: read when they are asked for.
//!
//! Stored as a length and bytes each, shown as bytes and a line feed each. Blocks hold whole
//! labels. Used by `spec`, and by `program`, whose files say none.

use std::ops::Range;
use std::sync::Arc;

use super::block::index_cache::{BlockIndexCache, ChargedList};
use crate::array::direct::DirectArray;
use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece};
use crate::error::{Error, Result};
use crate::memory::{Arena, fallible, room};
use crate::source::{ForwardWindow, Source, StoredRanges};

/// Shown bytes from which a block ends with the label.
const BLOCK: u64 = 256 << 10;
const WINDOW: u64 = 64 << 10;

/// The name of the text that has them.
pub(super) const LABELS: &str = "labels";
/// Why it is only read.
pub(super) const WHAT_LABELS_ARE: &str = "the labels of a frame are what its file says";

/// Labels of a frame, one after another.
pub(super) struct FrameLabels {
    bytes: ChargedList<u8>,
    ends: ChargedList<usize>,
    /// Where the first one's length is stored.
    pub(super) at: u64,
}

impl FrameLabels {
    /// Makes room for so many labels, which begin at `at` in the file.
    pub(super) fn new(count: u64, at: u64, index_cache: &BlockIndexCache) -> Result<FrameLabels> {
        Ok(FrameLabels {
            bytes: index_cache.list(0)?,
            ends: index_cache.list(count)?,
            at,
        })
    }

    pub(super) fn push(&mut self, label: &[u8], index_cache: &BlockIndexCache) -> Result<()> {
        index_cache.grow(&mut self.bytes, label.len())?;
        self.bytes.list.extend_from_slice(label);
        self.ends.list.push(self.bytes.list.len());
        Ok(())
    }

    pub(super) fn list(&self) -> Vec<&[u8]> {
        let (bytes, ends) = (&self.bytes.list, &self.ends.list);
        let starts = std::iter::once(&0).chain(ends);
        let label = |(&start, &end): (&usize, &usize)| &bytes[start..end];
        starts.zip(ends).map(label).collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.ends.list.len() as u64
    }
}

pub(super) struct LabelLines {
    source: Arc<dyn Source>,
    labels: u64,
    /// Of each block: its first label, where that is stored, and where it is shown; then the end.
    starts: Vec<(u64, u64, u64)>,
}

impl LabelLines {
    pub(super) fn new(source: Arc<dyn Source>, labels: &FrameLabels) -> Self {
        let list = labels.list();
        let (mut at, mut shown) = (labels.at, 0);
        let mut starts = vec![(0, at, 0)];
        for (number, label) in (0..).zip(&list) {
            if starts.last().is_some_and(|start| shown - start.2 >= BLOCK) {
                starts.push((number, at, shown));
            }
            at += 2 + label.len() as u64;
            shown += label.len() as u64 + 1;
        }
        starts.push((list.len() as u64, at, shown));
        LabelLines {
            source,
            labels: list.len() as u64,
            starts,
        }
    }

    fn bytes(&self) -> u64 {
        self.starts.last().map_or(0, |end| end.2)
    }
}

impl Array for LabelLines {
    fn name(&self) -> &str {
        LABELS
    }

    fn info(&self) -> Result<Info> {
        Ok(Info {
            dtype: Dtype::Text,
            shape: vec![self.labels],
            order: Order::C,
            bytes: self.bytes(),
            stored_bytes: self.bytes() + self.labels,
            blocks: self.starts.len() as u64 - 1,
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let first = self.starts.partition_point(|start| start.2 <= range.start);
        for (block, ends) in self
            .starts
            .windows(2)
            .enumerate()
            .skip(first.saturating_sub(1))
        {
            let (start, end) = (ends[0].2, ends[1].2);
            let (from, to) = (start.max(range.start), end.min(range.end));
            if from < to {
                out.push(Piece::Block {
                    id: BlockId(block as u64),
                    block_len: end - start,
                    skip: from - start,
                    take: to - from,
                });
            } else if start >= range.end {
                break;
            }
        }
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn value_lengths(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
        let (Some(first), Some(end)) = (self.starts.first(), self.starts.last()) else {
            return Ok(false);
        };
        let mut room = fallible::zeros(WINDOW, "cannot read the labels")?;
        let mut window = ForwardWindow::eager(&*self.source, end.1, &mut room);
        let mut at = first.1;
        for _ in 0..self.labels {
            let len = u64::from(window.u16(at)?);
            visit(len)?;
            at += 2 + len;
        }
        Ok(true)
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        let block = piece.block().and_then(|id| usize::try_from(id.0).ok());
        let ends = block.and_then(|block| self.starts.get(block)?.1.into());
        let next = block.and_then(|block| self.starts.get(block.saturating_add(1)));
        if let (Some(start), Some(next)) = (ends, next) {
            needed.name(&self.source, start..next.1);
        }
        Ok(false)
    }

    fn scratch(&self, _block: BlockId) -> u64 {
        room(WINDOW)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], mut scratch: Arena<'_>) -> Result<()> {
        let number = usize::try_from(block.0).unwrap_or(usize::MAX);
        let ends = self
            .starts
            .get(number)
            .zip(self.starts.get(number.saturating_add(1)));
        let changed = || {
            Error::Bug(format!(
                "block {} of the labels is not as it was cut",
                block.0
            ))
        };
        let (start, end) = ends.ok_or_else(changed)?;
        let mut window = ForwardWindow::eager(&*self.source, end.1, scratch.take(WINDOW)?);
        let (mut at, mut rest) = (start.1, out);
        for _ in start.0..end.0 {
            let len = usize::from(window.u16(at)?);
            let label = &window.bytes(at + 2, len)?[..len];
            let (line, after) = rest.split_at_mut_checked(len + 1).ok_or_else(changed)?;
            line[..len].copy_from_slice(label);
            line[len] = b'\n';
            rest = after;
            at += 2 + len as u64;
        }
        Ok(())
    }
}

/// The labels of a frame whose file says none, as DAPHNE's own reader makes them.
pub(super) fn made_labels(columns: u64, index_cache: &BlockIndexCache) -> Result<Arc<dyn Array>> {
    let mut text: ChargedList<u8> = index_cache.list(0)?;
    for number in 0..columns {
        let label = format!("col_{number}\n");
        index_cache.grow(&mut text, label.len())?;
        text.list.extend_from_slice(label.as_bytes());
    }
    let info = Info {
        dtype: Dtype::Text,
        shape: vec![columns],
        order: Order::C,
        bytes: text.list.len() as u64,
        stored_bytes: 0,
        blocks: 0,
        codec: "none".into(),
    };
    let read = move |at, out: &mut [u8]| {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = text.list.get(from..).and_then(|rest| rest.get(..out.len()));
        let beyond = || Error::Bug("labels are read behind their end".into());
        out.copy_from_slice(bytes.ok_or_else(beyond)?);
        Ok(())
    };
    Ok(Arc::new(DirectArray::new(LABELS.into(), info, read)))
}
