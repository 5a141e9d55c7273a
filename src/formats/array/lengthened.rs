//! An array and bytes behind its end, as one array: what it is when they have been appended.
//!
//! Blocks stay those of the array, and what is behind is read directly. Used by `live` for files
//! that are appended to arrays.

use std::ops::Range;
use std::sync::Arc;

use super::{Array, BlockId, Info, Piece, direct_piece};
use crate::error::Result;
use crate::memory::Arena;
use crate::memory::block::Block;

/// `R` fills a buffer with the bytes from an offset behind the array's end on.
pub struct Lengthened<R> {
    before: Arc<dyn Array>,
    /// Bytes of it.
    len: u64,
    info: Info,
    read: R,
}

impl<R> Lengthened<R>
where
    R: Fn(u64, &mut [u8]) -> Result<()> + Send + Sync,
{
    /// `info`: of all of it.
    pub fn new(before: Arc<dyn Array>, info: Info, read: R) -> Result<Lengthened<R>> {
        let len = before.info()?.bytes;
        Ok(Lengthened {
            before,
            len,
            info,
            read,
        })
    }
}

impl<R> Array for Lengthened<R>
where
    R: Fn(u64, &mut [u8]) -> Result<()> + Send + Sync,
{
    fn name(&self) -> &str {
        self.before.name()
    }

    fn info(&self) -> Result<Info> {
        Ok(self.info.clone())
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let stored = range.start.min(self.len)..range.end.min(self.len);
        if !stored.is_empty() {
            self.before.pieces(stored, out)?;
        }
        direct_piece(range.start.max(self.len)..range.end, out);
        Ok(())
    }

    fn scratch(&self, block: BlockId) -> u64 {
        self.before.scratch(block)
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        self.before.decode(block, out, scratch)
    }

    fn at_hand(&self, block: BlockId) -> Option<Arc<Block>> {
        self.before.at_hand(block)
    }

    /// Runs of the array and of what is behind it are apart: a piece is of one of them.
    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        match at.checked_sub(self.len) {
            Some(behind) => (self.read)(behind, out),
            None => self.before.read_direct(at, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::array::direct::DirectArray;
    use crate::array::dtype::Dtype;
    use crate::array::uncached::read;
    use crate::array::{Order, even_pieces};

    fn info(bytes: u64) -> Info {
        Info {
            dtype: Dtype::U8,
            shape: vec![bytes],
            order: Order::C,
            bytes,
            stored_bytes: 0,
            blocks: 0,
            codec: "".into(),
        }
    }

    fn byte(at: u64) -> u8 {
        (at % 251) as u8
    }

    struct Blocks(u64);

    impl Array for Blocks {
        fn name(&self) -> &str {
            "blocks"
        }

        fn info(&self) -> Result<Info> {
            Ok(info(self.0))
        }

        fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
            even_pieces(self.0, 7, range, out);
            Ok(())
        }

        fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Arena<'_>) -> Result<()> {
            let first = block.0 * 7;
            out.iter_mut()
                .zip(first..)
                .for_each(|(out, at)| *out = byte(at));
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn bytes_follow_each_other(before in 0u64..60, behind in 0u64..60, a in 0u64..120, b in 0u64..120) {
            let plain = move |at: u64, out: &mut [u8]| {
                out.iter_mut().zip(at..).for_each(|(out, at)| *out = byte(at));
                Ok(())
            };
            let is_direct = a % 2 == 0;
            let stored: Arc<dyn Array> = match is_direct {
                true => Arc::new(DirectArray::new("direct".into(), info(before), plain)),
                false => Arc::new(Blocks(before)),
            };
            let all = before + behind;
            let read_behind = move |at: u64, out: &mut [u8]| plain(before + at, out);
            let array = Lengthened::new(stored, info(all), read_behind).unwrap();
            let range = a.min(b).min(all)..a.max(b).min(all);
            let expected: Vec<u8> = range.clone().map(byte).collect();
            prop_assert_eq!(read(&array, range).unwrap(), expected);
        }
    }
}
