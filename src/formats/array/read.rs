//! From a byte range to bytes: pieces, cache, codec, reply.
//!
//! [`CachedArray`] joins an array with the cache and with its place in the mount; it is what an
//! open file, a view and `arrayfs cat` read from. A view's header is the `prefix` before the
//! array's bytes.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::fetcher;
use super::gather::{PieceSource, gather, gather_rest, same_block, slice};
use super::steps::{PieceSteps, PlacedPiece, PlacedRange};
use super::{Array, BlockId, Piece};
use crate::cache::{ArrayIndex, BlockCache, BlockKey, Decode, VersionId};
use crate::error::{Error, Result};
use crate::memory::Arena;
use crate::memory::block::Block;

pub struct CachedArray {
    pub array: Arc<dyn Array>,
    pub cache: Arc<BlockCache>,
    pub version: VersionId,
    pub index: ArrayIndex,
    /// For messages.
    pub container: PathBuf,
    /// Group of the inner container that the array belongs to; empty for the outermost.
    pub group: Arc<str>,
    /// Bytes shown before the array's own.
    pub prefix: Arc<[u8]>,
    /// Decoded size of the array, without the prefix, when it was opened.
    pub bytes: u64,
    /// Its store is far away: what a request needs is fetched before anything is decoded.
    pub is_far: bool,
}

/// What to do with a range whose end cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// All or an error. The kernel wants this of every read: it takes a short answer for the end of
    /// the file and fills pages with zeros, even for O_DIRECT, whose rest it asks for through the
    /// page cache.
    Whole,
    /// The good bytes before the fault; the next read gets the error.
    GoodPart,
}

impl CachedArray {
    /// This array behind these bytes.
    pub fn behind(&self, prefix: Arc<[u8]>) -> CachedArray {
        CachedArray {
            array: Arc::clone(&self.array),
            cache: Arc::clone(&self.cache),
            container: self.container.clone(),
            group: Arc::clone(&self.group),
            prefix,
            ..*self
        }
    }

    /// Size as shown.
    pub fn size(&self) -> u64 {
        self.prefix.len() as u64 + self.len_now()
    }

    /// Decoded size of the array, without the prefix.
    pub fn len_now(&self) -> u64 {
        self.array.len_now().unwrap_or(self.bytes)
    }

    /// Gives the bytes of `offset..offset + len`, cut at the end, to `reply`. A range within one
    /// block is not copied.
    pub fn read<R>(
        &self,
        offset: u64,
        len: usize,
        tail: Tail,
        reply: impl FnOnce(Result<&[u8]>) -> R,
    ) -> R {
        let (range, len) = self.range(offset, len);
        if len == 0 {
            return reply(Ok(&[]));
        }
        self.expect_places(&range.from);
        let (ranges, prefixed) = ([range], offset < self.prefix.len() as u64);
        let mut steps = PieceSteps::new(&*self.array, &ranges);
        let mut placed = Vec::new();
        if let Err(e) = steps.next(&mut placed) {
            return reply(Err(self.locate(e)));
        }
        if let (true, false, Some((id, len, part))) =
            (steps.is_done(), prefixed, only_block(&placed))
        {
            self.expect(&placed);
            return match self.block(id, len) {
                Ok(block) => reply(slice(block.bytes(), part.0, part.1)),
                Err(e) => reply(Err(e)),
            };
        }
        let mut out = match self.cache.replies.take(len) {
            Ok(out) => out,
            Err(e) => return reply(Err(e)),
        };
        self.copy_prefix(offset, &mut out);
        match gather_rest(&mut steps, &mut placed, &mut FromCache(self), &mut out) {
            Ok(()) => reply(Ok(&out)),
            Err(stopped) if tail == Tail::GoodPart && stopped.good > 0 => {
                reply(Ok(&out[..stopped.good]))
            }
            Err(stopped) => reply(Err(stopped.error)),
        }
    }

    /// Copies ranges of the array's own bytes to their places in `out`; all of them, or an error.
    pub fn read_ranges(&self, ranges: &[PlacedRange], out: &mut [u8]) -> Result<()> {
        gather(&*self.array, ranges, &mut FromCache(self), out)
    }

    /// As [`CachedArray::read`], from blocks that are in the cache: nothing is decoded, no source
    /// is read and no other thread is waited for. None if that does not do; then `reply` has not
    /// been called.
    pub fn read_cached<R>(
        &self,
        offset: u64,
        len: usize,
        reply: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let (range, len) = self.range(offset, len);
        if len == 0 {
            return Some(reply(&[]));
        }
        if !self.array.places_known(&range.from) {
            return None;
        }
        let (ranges, prefixed) = ([range], offset < self.prefix.len() as u64);
        let mut steps = PieceSteps::new(&*self.array, &ranges);
        let mut placed = Vec::new();
        steps.next(&mut placed).ok()?;
        if let (true, false, Some((id, _, part))) = (steps.is_done(), prefixed, only_block(&placed))
        {
            let block = self.cache.cached(self.key(id))?;
            return slice(block.bytes(), part.0, part.1).ok().map(reply);
        }
        let mut out = self.cache.replies.take(len).ok()?;
        self.copy_prefix(offset, &mut out);
        gather_rest(&mut steps, &mut placed, &mut InCache(self), &mut out).ok()?;
        Some(reply(&out))
    }

    /// What of the array's own bytes is asked for, and how many bytes the answer has.
    fn range(&self, offset: u64, len: usize) -> (PlacedRange, usize) {
        let end = offset.saturating_add(len as u64).min(self.size());
        let before = self.prefix.len() as u64;
        let range = PlacedRange {
            from: offset.max(before) - before..end.max(before) - before,
            to: before.saturating_sub(offset) as usize,
        };
        (range, end.saturating_sub(offset) as usize)
    }

    fn copy_prefix(&self, offset: u64, out: &mut [u8]) {
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.prefix.len());
        let rest = &self.prefix[from..];
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
    }

    /// One decoded block, from the cache if it is there.
    pub fn block(&self, id: BlockId, len: u64) -> Result<Arc<Block>> {
        self.cache.get(
            self.key(id),
            &BlockDecode {
                array: self,
                id,
                len,
            },
        )
    }

    /// Decodes the blocks of a range of the array's own bytes into the cache, as far as memory
    /// permits.
    pub fn prefetch(&self, range: Range<u64>) {
        self.expect_places(&range);
        self.for_pieces(range, |placed| {
            placed.sort_by_key(PlacedPiece::block);
            self.expect(placed);
            for group in placed.chunk_by(same_block) {
                if let Some(Piece::Block { id, block_len, .. }) =
                    group.first().map(|first| first.piece)
                {
                    let decode = BlockDecode {
                        array: self,
                        id,
                        len: block_len,
                    };
                    self.cache.prefetch(self.key(id), &decode);
                }
            }
        });
    }

    /// Asks for what a range of the array's own bytes needs of a source that is far away.
    pub fn fetch_ahead(&self, range: Range<u64>) {
        self.expect_places(&range);
        self.for_pieces(range, |placed| {
            placed.sort_by_key(PlacedPiece::block);
            self.expect(placed);
        });
    }

    fn expect_places(&self, range: &Range<u64>) {
        if self.is_far {
            fetcher::expect_places(&*self.array, range);
        }
    }

    fn expect(&self, placed: &[PlacedPiece]) {
        if self.is_far {
            let is_there = |id| self.cache.has(self.key(id));
            fetcher::expect(&*self.array, placed, &is_there);
        }
    }

    /// Lets go of the blocks that end in a range of the array's own bytes: it has been read.
    pub fn let_go(&self, range: Range<u64>) {
        self.for_pieces(range, |placed| {
            for PlacedPiece { piece, .. } in placed {
                if let Piece::Block {
                    id,
                    block_len,
                    skip,
                    take,
                } = *piece
                    && skip.checked_add(take) == Some(block_len)
                {
                    self.cache.let_go(self.key(id));
                }
            }
        });
    }

    /// The pieces of a range, some at a time, up to the first fault: a read of it will report it.
    fn for_pieces(&self, from: Range<u64>, mut each: impl FnMut(&mut [PlacedPiece])) {
        let ranges = [PlacedRange { from, to: 0 }];
        let mut steps = PieceSteps::new(&*self.array, &ranges);
        let mut placed = Vec::new();
        while !steps.is_done() && steps.next(&mut placed).is_ok() {
            each(&mut placed);
        }
    }

    fn key(&self, block: BlockId) -> BlockKey {
        BlockKey {
            version: self.version,
            array: self.index,
            block,
        }
    }

    /// Adds what only this layer knows: which array of which container.
    /// The error with the names of array and container.
    pub fn locate(&self, error: Error) -> Error {
        let error = error.of_array(&self.group, self.array.name());
        error.of_container(&self.container)
    }
}

/// One block of an array, for the cache.
struct BlockDecode<'a> {
    array: &'a CachedArray,
    id: BlockId,
    len: u64,
}

impl Decode for BlockDecode<'_> {
    fn yields(&self) -> u64 {
        self.len
    }

    fn scratch(&self) -> u64 {
        self.array.array.scratch(self.id)
    }

    fn decode(&self, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        self.array
            .array
            .decode(self.id, out, scratch)
            .map_err(|e| self.array.locate(e))
    }
}

/// The pieces of an array whose blocks are in the cache, or get there.
struct FromCache<'a>(&'a CachedArray);

impl PieceSource for FromCache<'_> {
    fn block(
        &mut self,
        id: BlockId,
        len: u64,
        copy: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let block = self.0.block(id, len)?;
        copy(block.bytes()).map_err(|e| self.0.locate(e))
    }

    fn expect(&mut self, placed: &[PlacedPiece]) {
        self.0.expect(placed);
    }

    fn direct(&mut self, at: u64, out: &mut [u8]) -> Result<()> {
        let read = self.0.array.read_direct(at, out);
        read.map_err(|e| self.0.locate(e))
    }

    fn locate(&self, error: Error) -> Error {
        self.0.locate(error)
    }
}

/// The pieces of an array whose blocks are in the cache. Its errors only say that there are others.
struct InCache<'a>(&'a CachedArray);

impl PieceSource for InCache<'_> {
    fn block(
        &mut self,
        id: BlockId,
        _len: u64,
        copy: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let block = self.0.cache.cached(self.0.key(id)).ok_or(Error::NotFound)?;
        copy(block.bytes())
    }

    fn direct(&mut self, _at: u64, _out: &mut [u8]) -> Result<()> {
        Err(Error::NotFound)
    }
}

/// The block that a range lies in, if it is one: its number, its size, and what is skipped and
/// taken of it.
fn only_block(placed: &[PlacedPiece]) -> Option<(BlockId, u64, (u64, u64))> {
    match placed {
        [only] => match only.piece {
            Piece::Block {
                id,
                block_len,
                skip,
                take,
            } => Some((id, block_len, (skip, take))),
            Piece::Direct { .. } => None,
        },
        _ => None,
    }
}
