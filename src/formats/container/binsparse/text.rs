//! `binsparse.json` as an array: where a container can be written, its descriptor can be, too.
//!
//! It is shown from memory, as it was read when the container was opened. Used by the formats
//! around this one.

use std::ops::Range;
use std::sync::Arc;

use super::{LONGEST, TEXT};
use crate::array::dtype::Dtype;
use crate::array::{Array, Info, Order, Piece, direct_piece};
use crate::container::rewrite::Change;
use crate::error::{Error, Fault, Result};

pub(crate) struct DescriptorText(pub(crate) Arc<Vec<u8>>);

impl DescriptorText {
    /// Refuses a descriptor that would be too long.
    pub(crate) fn permits(change: Change) -> Result<()> {
        let bytes = match change {
            Change::Write { offset, len } => offset.saturating_add(len),
            Change::SetLen(len) | Change::Truncate(len) => len,
        };
        match bytes > LONGEST as u64 {
            true => Err(Error::Invalid(format!(
                "{TEXT} has at most {LONGEST} bytes"
            ))),
            false => Ok(()),
        }
    }

    /// What a descriptor of so many bytes is.
    pub(crate) fn info_at(bytes: u64) -> Info {
        Info {
            dtype: Dtype::Text,
            shape: vec![1],
            order: Order::C,
            bytes,
            stored_bytes: bytes,
            blocks: 1,
            codec: "none".into(),
        }
    }
}

impl Array for DescriptorText {
    fn name(&self) -> &str {
        TEXT
    }

    fn info(&self) -> Result<Info> {
        Ok(DescriptorText::info_at(self.0.len() as u64))
    }

    fn weight(&self) -> u64 {
        self.0.len() as u64 + 256
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range.start..range.end.min(self.0.len() as u64), out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = self.0.get(from..).and_then(|rest| rest.get(..out.len()));
        let shorter = || Fault::new("the descriptor is shorter than what is read of it");
        out.copy_from_slice(bytes.ok_or_else(shorter)?);
        Ok(())
    }
}
