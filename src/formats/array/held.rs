//! An array whose bytes are in memory: texts that are read when their container is opened, and what
//! is computed from other arrays.
//!
//! `B` has the bytes, and whatever they are charged by. Used by the formats, and by
//! `container::restated`.

use std::ops::Range;
use std::sync::Arc;

use super::own_feeds::OwnFeeds;
use super::{Array, Info, Piece, direct_piece};
use crate::error::{Fault, Result};

pub struct HeldArray<B> {
    name: String,
    info: Info,
    bytes: B,
    /// Of the values of a text, if one has a line feed of its own.
    lengths: Arc<[u32]>,
}

impl<B: AsRef<[u8]> + Send + Sync> HeldArray<B> {
    /// `info`: of so many bytes as there are.
    pub fn new(name: impl Into<String>, info: Info, bytes: B) -> HeldArray<B> {
        HeldArray {
            name: name.into(),
            info,
            bytes,
            lengths: Arc::default(),
        }
    }

    /// A text of one value.
    pub fn text(name: impl Into<String>, bytes: B) -> HeldArray<B> {
        let info = Info::text(bytes.as_ref().len() as u64);
        HeldArray::new(name, info, bytes)
    }

    /// With the lengths of the values, where their lines do not tell them.
    pub fn with_lengths(self, lengths: &[u32]) -> HeldArray<B> {
        HeldArray {
            lengths: lengths.into(),
            ..self
        }
    }
}

impl<B: AsRef<[u8]> + Send + Sync> Array for HeldArray<B> {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        Ok(self.info.clone())
    }

    fn own_feeds(&self, _most: u64) -> Result<Option<Arc<[OwnFeeds]>>> {
        let (mut at, mut found) = (0usize, Vec::new());
        for (number, len) in (0u64..).zip(&*self.lengths) {
            let end = at.saturating_add(*len as usize);
            let value = self.bytes.as_ref().get(at..end).unwrap_or_default();
            match memchr::memchr_iter(b'\n', value).count() as u64 {
                0 => {}
                feeds => found.push((number, feeds)),
            }
            at = end.saturating_add(1);
        }
        Ok(Some(found.into()))
    }

    fn value_lengths(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
        for len in &*self.lengths {
            visit(u64::from(*len))?;
        }
        Ok(!self.lengths.is_empty())
    }

    fn weight(&self) -> u64 {
        (self.bytes.as_ref().len() + size_of_val(&*self.lengths)) as u64 + 256
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range.start..range.end.min(self.info.bytes), out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let bytes = self.bytes.as_ref();
        let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
        let part = from.and_then(|rest| rest.get(..out.len()));
        let beyond = || Fault::new("there are no such bytes").expected(bytes.len());
        out.copy_from_slice(part.ok_or_else(beyond)?);
        Ok(())
    }
}
