//! Strings of variable length that lie in an object header: few, so they came with the index as
//! text.
//!
//! Each value and a line feed, as [`super`] shows those that lie elsewhere. Used by `dataset`.

use std::ops::Range;
use std::sync::Arc;

use crate::array::dtype::Dtype;
use crate::array::own_feeds::OwnFeeds;
use crate::array::{Array, Info, Order, Piece, direct_piece};
use crate::error::{Fault, Result};

pub(crate) struct CompactStrings {
    name: String,
    shape: Vec<u64>,
    lines: Arc<[u8]>,
    /// Of the values, if one has a line feed of its own.
    lengths: Arc<[u32]>,
    stored_bytes: u64,
}

impl CompactStrings {
    /// `lines`: as many as `shape` says.
    pub(crate) fn new(
        name: &str,
        shape: &[u64],
        lines: &[u8],
        stored_bytes: u64,
    ) -> Result<CompactStrings> {
        let found = memchr::memchr_iter(b'\n', lines).count() as u64;
        let expected = crate::array::grid::product(shape, 1);
        // Values may have line feeds of their own.
        if expected.is_none_or(|expected| found < expected) {
            let fault = Fault::new("the strings are fewer than the elements");
            return Err(fault
                .expected(format_args!("{shape:?}"))
                .found(found)
                .into());
        }
        Ok(CompactStrings {
            name: name.to_owned(),
            shape: shape.to_vec(),
            lines: lines.into(),
            lengths: Arc::default(),
            stored_bytes,
        })
    }

    /// With the lengths of the values, where their lines do not tell them.
    pub(crate) fn with_lengths(self, lengths: &[u32]) -> CompactStrings {
        CompactStrings {
            lengths: lengths.into(),
            ..self
        }
    }
}

impl Array for CompactStrings {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let bytes = self.lines.len() as u64;
        Ok(Info {
            dtype: Dtype::Text,
            shape: self.shape.clone(),
            order: Order::C,
            bytes,
            stored_bytes: self.stored_bytes,
            blocks: u64::from(bytes > 0),
            codec: "compact".into(),
        })
    }

    fn own_feeds(&self, _most: u64) -> Result<Option<Arc<[OwnFeeds]>>> {
        let (mut at, mut found) = (0usize, Vec::new());
        for (number, len) in (0u64..).zip(&*self.lengths) {
            let end = at.saturating_add(*len as usize);
            let value = self.lines.get(at..end).unwrap_or_default();
            match memchr::memchr_iter(b'\n', value).count() as u64 {
                0 => {}
                feeds => found.push((number, feeds)),
            }
            at = end.saturating_add(1);
        }
        Ok(Some(found.into()))
    }

    fn weight(&self) -> u64 {
        (self.lines.len() + size_of_val(&*self.lengths)) as u64 + 256
    }

    fn value_lengths(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
        for len in &*self.lengths {
            visit(u64::from(*len))?;
        }
        Ok(!self.lengths.is_empty())
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range, out);
        Ok(())
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.lines.get(at..));
        let part = from.and_then(|rest| rest.get(..out.len()));
        let beyond = || Fault::new("there are no such bytes").expected(self.lines.len());
        out.copy_from_slice(part.ok_or_else(beyond)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_from_any_byte_on() {
        let texts = CompactStrings::new("x", &[3], b"a\n\nb\nc\n", 48).unwrap();
        assert_eq!(texts.info().unwrap().bytes, 7);
        let mut out = [0; 4];
        texts.read_direct(2, &mut out).unwrap();
        assert_eq!(&out, b"\nb\nc"[..].first_chunk().unwrap());
        assert!(texts.read_direct(4, &mut out).is_err());
    }

    #[test]
    fn fewer_lines_than_elements_are_refused() {
        assert!(CompactStrings::new("x", &[2, 2], b"a\nb\nc\n", 0).is_err());
        assert!(CompactStrings::new("x", &[u64::MAX, 2], b"", 0).is_err());
        assert!(CompactStrings::new("x", &[0], b"", 0).is_ok());
        assert!(CompactStrings::new("x", &[], b"a\nb\n", 0).is_ok());
    }
}
