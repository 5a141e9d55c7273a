//! From a byte range to bytes: pieces, cache, codec, reply.
//!
//! [`CachedArray`] joins an array with the cache and with its place in the mount; it is what an open
//! file, a view and `arrayfs cat` read from. A view's header is the `prefix` before the array's bytes.

mod plan;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Array, BlockId, Piece};
use crate::cache::{ArrayIndex, BlockCache, Decode, Key, VersionId};
use crate::error::{Error, Fault, Result};
use crate::memory::block::Block;
use crate::memory::{Scratch, no_memory};
use plan::{Placed, Plan};

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
    /// Decoded size of the array, without the prefix.
    pub bytes: u64,
}

/// What to do with a range whose end cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// All or an error. The kernel wants this of every read: it takes a short answer for the end of the
    /// file and fills pages with zeros, even for O_DIRECT, whose rest it asks for through the page cache.
    Whole,
    /// The good bytes before the fault; the next read gets the error.
    GoodPart,
}

thread_local! {
    /// Where ranges that span blocks are put together; at most one request long.
    static ASSEMBLY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl CachedArray {
    /// Size as shown.
    pub fn size(&self) -> u64 {
        self.prefix.len() as u64 + self.bytes
    }

    /// Gives the bytes of `offset..offset + len`, cut at the end, to `reply`. A range within one block
    /// is not copied.
    pub fn read<R>(
        &self,
        offset: u64,
        len: usize,
        tail: Tail,
        reply: impl FnOnce(Result<&[u8]>) -> R,
    ) -> R {
        let end = offset.saturating_add(len as u64).min(self.size());
        if offset >= end {
            return reply(Ok(&[]));
        }
        let before = self.prefix.len() as u64;
        let mut plan = Plan::new(self, offset.max(before) - before..end.max(before) - before);
        let mut placed = Vec::new();
        if let Err(e) = plan.next(&mut placed) {
            return reply(Err(e));
        }
        if let (
            true,
            [
                (
                    _,
                    Piece::Block {
                        id,
                        block_len,
                        skip,
                        take,
                    },
                ),
            ],
        ) = (offset >= before && plan.is_done(), &placed[..])
        {
            return match self.block(*id, *block_len) {
                Ok(block) => reply(slice(&block, *skip, *take)),
                Err(e) => reply(Err(e)),
            };
        }
        ASSEMBLY.with_borrow_mut(|buf| {
            let out = match room(buf, (end - offset) as usize) {
                Ok(out) => out,
                Err(e) => return reply(Err(e)),
            };
            let start = self.copy_prefix(offset, out);
            match self.copy(&mut plan, &mut placed, &mut out[start..]) {
                Ok(()) => reply(Ok(out)),
                Err((good, _)) if tail == Tail::GoodPart && start + good > 0 => {
                    reply(Ok(&out[..start + good]))
                }
                Err((_, e)) => reply(Err(e)),
            }
        })
    }

    /// Fills `out` with all pieces of the plan, of which the first are `placed`; after a fault, says how
    /// many bytes before the first bad one are good.
    fn copy(
        &self,
        plan: &mut Plan<'_>,
        placed: &mut Vec<Placed>,
        out: &mut [u8],
    ) -> std::result::Result<(), (usize, Error)> {
        loop {
            self.copy_pieces(placed, out)?;
            if plan.is_done() {
                return Ok(());
            }
            let at = plan.planned();
            plan.next(placed).map_err(|e| (at, e))?;
        }
    }

    /// The pieces of a block are copied together, as it may make up many of them (the rows of an
    /// n-dimensional chunk), and no two blocks are held at once (see `cache`).
    fn copy_pieces(
        &self,
        placed: &mut [Placed],
        out: &mut [u8],
    ) -> std::result::Result<(), (usize, Error)> {
        if placed.len() > 2 {
            placed.sort_by_key(|(_, piece)| block_of(piece));
        }
        let mut failed: Option<(usize, Error)> = None;
        for group in placed.chunk_by(|a, b| same_block(&a.1, &b.1) || follows(a, b)) {
            if let Err((at, e)) = self.copy_group(group, out)
                && failed.as_ref().is_none_or(|(first, _)| at < *first)
            {
                failed = Some((at, e));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Copies the pieces of one block, or direct pieces that follow each other.
    fn copy_group(
        &self,
        group: &[Placed],
        out: &mut [u8],
    ) -> std::result::Result<(), (usize, Error)> {
        match *group {
            [(first, Piece::Block { id, block_len, .. }), ..] => {
                let copied = self.block(id, block_len).and_then(|block| {
                    for (at, piece) in group {
                        if let Piece::Block { skip, take, .. } = *piece {
                            let part = slice(&block, skip, take)?;
                            out[*at..*at + part.len()].copy_from_slice(part);
                        }
                    }
                    Ok(())
                });
                copied.map_err(|e| (first, e))
            }
            [(first, Piece::Direct { at, .. }), ..] => self.copy_direct(first, at, group, out),
            [] => Ok(()),
        }
    }

    /// Reads direct pieces at once; one by one if that fails, to tell the good from the bad.
    fn copy_direct(
        &self,
        first: usize,
        at: u64,
        group: &[Placed],
        out: &mut [u8],
    ) -> std::result::Result<(), (usize, Error)> {
        let len: u64 = group.iter().map(|(_, piece)| piece.take()).sum();
        let part = &mut out[first..first + len as usize];
        match self.array.read_direct(at, part) {
            Err(_) if group.len() > 1 => group
                .chunks(1)
                .try_for_each(|one| self.copy_group(one, out)),
            read => read.map_err(|e| (first, self.locate(e))),
        }
    }

    fn copy_prefix(&self, offset: u64, out: &mut [u8]) -> usize {
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.prefix.len());
        let rest = &self.prefix[from..];
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        n
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

    /// Decodes the blocks of a range of the array's own bytes into the cache, as far as memory permits.
    pub fn prefetch(&self, range: Range<u64>) {
        self.for_pieces(range, |placed| {
            placed.sort_by_key(|(_, piece)| block_of(piece));
            for group in placed.chunk_by(|a, b| same_block(&a.1, &b.1)) {
                if let [(_, Piece::Block { id, block_len, .. }), ..] = *group {
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

    /// Lets go of the blocks that end in a range of the array's own bytes: it has been read.
    pub fn let_go(&self, range: Range<u64>) {
        self.for_pieces(range, |placed| {
            for (_, piece) in placed {
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

    /// The pieces of a range, some at a time, up to the first fault: who reads it will report it.
    fn for_pieces(&self, range: Range<u64>, mut each: impl FnMut(&mut [Placed])) {
        let mut plan = Plan::new(self, range);
        let mut placed = Vec::new();
        while !plan.is_done() && plan.next(&mut placed).is_ok() {
            each(&mut placed);
        }
    }

    fn key(&self, block: BlockId) -> Key {
        Key {
            version: self.version,
            array: self.index,
            block,
        }
    }

    /// Adds what only this layer knows: which array of which container.
    fn locate(&self, error: Error) -> Error {
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

    fn decode(&self, out: &mut [u8], scratch: Scratch<'_>) -> Result<()> {
        self.array
            .array
            .decode(self.id, out, scratch)
            .map_err(|e| self.array.locate(e))
    }
}

/// Direct pieces come first and stay in order; so do the pieces of a block.
pub(super) fn block_of(piece: &Piece) -> Option<BlockId> {
    match piece {
        Piece::Block { id, .. } => Some(*id),
        Piece::Direct { .. } => None,
    }
}

pub(super) fn same_block(a: &Piece, b: &Piece) -> bool {
    block_of(a).is_some() && block_of(a) == block_of(b)
}

/// Whether two direct pieces are one range of the array.
fn follows(a: &Placed, b: &Placed) -> bool {
    match (a.1, b.1) {
        (Piece::Direct { at, take }, Piece::Direct { at: next, .. }) => {
            a.0 + take as usize == b.0 && at.checked_add(take) == Some(next)
        }
        _ => false,
    }
}

fn slice(block: &Block, skip: u64, take: u64) -> Result<&[u8]> {
    skip.checked_add(take)
        .and_then(|end| block.bytes().get(skip as usize..end as usize))
        .ok_or_else(|| Fault::new("a block is shorter than its array says").into())
}

/// `len` bytes of a buffer that grows if need be, of arbitrary content.
fn room(buf: &mut Vec<u8>, len: usize) -> Result<&mut [u8]> {
    if buf.len() < len {
        buf.try_reserve(len - buf.len())
            .map_err(|_| no_memory("cannot put an answer together"))?;
        buf.resize(len, 0);
    }
    Ok(&mut buf[..len])
}
