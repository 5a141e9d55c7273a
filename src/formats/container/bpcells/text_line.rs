//! A text of one line that says how a container is stored: `version`, `storage_order`.
//!
//! Both are read when the container is opened, and shown from memory as arrays, so that they can be
//! written. Used by `write`.

use std::ops::Range;

use crate::array::dtype::Dtype;
use crate::array::{Array, Info, Order, Piece, direct_piece};
use crate::error::{Fault, Result};

pub(super) struct TextLine {
    name: &'static str,
    content: Vec<u8>,
}

impl TextLine {
    pub(super) fn new(name: &'static str, line: &str) -> TextLine {
        TextLine {
            name,
            content: format!("{line}\n").into_bytes(),
        }
    }
}

impl Array for TextLine {
    fn name(&self) -> &str {
        self.name
    }

    fn info(&self) -> Result<Info> {
        let bytes = self.content.len() as u64;
        Ok(Info {
            dtype: Dtype::Text,
            shape: vec![1],
            order: Order::C,
            bytes,
            stored_bytes: bytes,
            blocks: 1,
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range.start..range.end.min(self.content.len() as u64), out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = self
            .content
            .get(from..)
            .and_then(|rest| rest.get(..out.len()));
        let bytes =
            bytes.ok_or_else(|| Fault::new("the line is shorter than what is read of it"))?;
        out.copy_from_slice(bytes);
        Ok(())
    }
}
