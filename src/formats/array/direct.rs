//! An array whose bytes are read by a function, with nothing to decode: what is computed, or lies
//! in another file.
//!
//! Used by formats whose arrays have bytes of others', and by `live` for files that take the place
//! of arrays.

use std::ops::Range;

use super::{Array, Info, Piece, direct_piece};
use crate::error::Result;

/// `R` fills a buffer with the bytes from an offset on.
pub struct DirectArray<R> {
    name: String,
    info: Info,
    read: R,
}

impl<R> DirectArray<R>
where
    R: Fn(u64, &mut [u8]) -> Result<()> + Send + Sync,
{
    pub fn new(name: String, info: Info, read: R) -> DirectArray<R> {
        DirectArray { name, info, read }
    }
}

impl<R> Array for DirectArray<R>
where
    R: Fn(u64, &mut [u8]) -> Result<()> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        Ok(self.info.clone())
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        direct_piece(range.start..range.end.min(self.info.bytes), out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        (self.read)(at, out)
    }
}
