//! The labels of a frame as a text: one to a line.
//!
//! A file has a length and bytes for each. They are held as long as the file is open, as the names
//! of its columns are. Used by `spec`, and by `program`, whose files say none.

use std::ops::Range;

use super::block::index_cache::{BlockIndexCache, ChargedList};
use crate::array::dtype::Dtype;
use crate::array::{Array, Info, Order, Piece, direct_piece};
use crate::error::{Error, Result};

/// The name of the text that has them.
pub(super) const LABELS: &str = "labels";
/// Why it is only read.
pub(super) const WHAT_LABELS_ARE: &str = "the labels of a frame are what its file says";

pub(super) struct FrameLabels {
    /// A line feed behind each.
    text: ChargedList<u8>,
    /// Where each begins behind the one before.
    ends: ChargedList<usize>,
    /// Where the file has the first one's length; none of labels that no file says.
    at: Option<u64>,
}

impl FrameLabels {
    /// Makes room for so many labels, which begin at `at` in the file.
    pub(super) fn new(
        count: u64,
        at: Option<u64>,
        index_cache: &BlockIndexCache,
    ) -> Result<FrameLabels> {
        Ok(FrameLabels {
            text: index_cache.list(0)?,
            ends: index_cache.list(count)?,
            at,
        })
    }

    /// The labels of a frame whose file says none, as DAPHNE's own reader makes them.
    pub(super) fn made(count: u64, index_cache: &BlockIndexCache) -> Result<FrameLabels> {
        let mut made = FrameLabels::new(count, None, index_cache)?;
        for number in 0..count {
            made.push(format!("col_{number}").as_bytes(), index_cache)?;
        }
        Ok(made)
    }

    pub(super) fn push(&mut self, label: &[u8], index_cache: &BlockIndexCache) -> Result<()> {
        index_cache.grow(&mut self.text, label.len() + 1)?;
        self.text.list.extend_from_slice(label);
        self.text.list.push(b'\n');
        self.ends.list.push(self.text.list.len());
        Ok(())
    }

    /// All of them are there.
    pub(super) fn fit(&mut self) {
        self.text.fit();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends.list);
        let label = |(&start, &end): (&usize, &usize)| &self.text.list[start..end - 1];
        starts.zip(&self.ends.list).map(label)
    }

    pub(super) fn count(&self) -> u64 {
        self.ends.list.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.text.list.len() as u64
    }
}

impl Array for FrameLabels {
    fn name(&self) -> &str {
        LABELS
    }

    fn info(&self) -> Result<Info> {
        // Of each the file has two bytes more, and no line feed.
        let stored = self.at.map(|_| self.bytes() + self.count());
        Ok(Info {
            dtype: Dtype::Text,
            shape: vec![self.count()],
            order: Order::C,
            bytes: self.bytes(),
            stored_bytes: stored.unwrap_or(0),
            blocks: stored.map_or(0, |_| 1),
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range.start..range.end.min(self.bytes()), out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn value_lengths(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
        self.iter()
            .try_for_each(|label| visit(label.len() as u64))?;
        Ok(true)
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let rest = usize::try_from(at).ok();
        let rest = rest.and_then(|at| self.text.list.get(at..)?.get(..out.len()));
        let beyond = || Error::Bug("labels are read behind their end".into());
        out.copy_from_slice(rest.ok_or_else(beyond)?);
        Ok(())
    }
}
