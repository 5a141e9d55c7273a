//! From a byte range to bytes: pieces, cache, codec, reply.
//!
//! [`CachedArray`] joins an array with the cache and with its place in the mount; it is what an open
//! file, a view and `arrayfs cat` read from. A view's header is the `prefix` before the array's bytes.

use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Array, BlockId, Piece};
use crate::cache::buffer::Block;
use crate::cache::{ArrayIndex, BlockCache, Decode, Key, VersionId};
use crate::error::{Error, Fault, Result};

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
        let mut pieces = Vec::new();
        let range = offset.max(before) - before..end.max(before) - before;
        if let Err(e) = self.pieces(range, &mut pieces) {
            return reply(Err(e));
        }
        if let (
            true,
            [
                Piece::Block {
                    id,
                    block_len,
                    skip,
                    take,
                },
            ],
        ) = (offset >= before, &pieces[..])
        {
            return match self.block(*id, *block_len) {
                Ok(block) => reply(slice(&block, *skip, *take)),
                Err(e) => reply(Err(e)),
            };
        }
        self.assemble(offset..end, &pieces, tail, reply)
    }

    /// Puts the prefix and the pieces together.
    fn assemble<R>(
        &self,
        range: Range<u64>,
        pieces: &[Piece],
        tail: Tail,
        reply: impl FnOnce(Result<&[u8]>) -> R,
    ) -> R {
        ASSEMBLY.with_borrow_mut(|buf| {
            let len = (range.end - range.start) as usize;
            if buf.len() < len {
                buf.resize(len, 0);
            }
            let out = &mut buf[..len];
            let start = self.copy_prefix(range.start, out);
            match self.copy_pieces(pieces, &mut out[start..]) {
                Ok(()) => reply(Ok(out)),
                Err((good, _)) if tail == Tail::GoodPart && start + good > 0 => {
                    reply(Ok(&out[..start + good]))
                }
                Err((_, e)) => reply(Err(e)),
            }
        })
    }

    /// Fills `out`; after a fault, says how many bytes before the first bad one are good. The pieces of a
    /// block are copied together, as it may make up many of them (the rows of an n-dimensional chunk),
    /// and no two blocks are held at once (see `cache`).
    fn copy_pieces(
        &self,
        pieces: &[Piece],
        out: &mut [u8],
    ) -> std::result::Result<(), (usize, Error)> {
        let mut placed: Vec<(usize, Piece)> = Vec::with_capacity(pieces.len());
        let mut at = 0;
        for piece in pieces {
            placed.push((at, *piece));
            at += piece.take() as usize;
        }
        if pieces.len() > 2 {
            placed.sort_by_key(|(_, piece)| block_of(piece));
        }
        let mut failed: Option<(usize, Error)> = None;
        for group in placed.chunk_by(|a, b| same_block(&a.1, &b.1)) {
            if let Err(e) = self.copy_group(group, out) {
                let first = group.first().map_or(0, |(at, _)| *at);
                if failed.as_ref().is_none_or(|(at, _)| first < *at) {
                    failed = Some((first, e));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Copies the pieces of one block, or one direct piece.
    fn copy_group(&self, group: &[(usize, Piece)], out: &mut [u8]) -> Result<()> {
        match group {
            [(_, Piece::Block { id, block_len, .. }), ..] => {
                let block = self.block(*id, *block_len)?;
                for (at, piece) in group {
                    if let Piece::Block { skip, take, .. } = *piece {
                        let part = slice(&block, skip, take)?;
                        out[*at..*at + part.len()].copy_from_slice(part);
                    }
                }
                Ok(())
            }
            [(start, Piece::Direct { at, take })] => {
                let part = &mut out[*start..*start + *take as usize];
                self.array
                    .read_direct(*at, part)
                    .map_err(|e| self.locate(e))
            }
            _ => Ok(()),
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

    /// Pieces of a range of the array's own bytes.
    pub fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        self.array.pieces(range, out).map_err(|e| self.locate(e))
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
        let mut pieces = Vec::new();
        if self.pieces(range, &mut pieces).is_err() {
            return;
        }
        for piece in pieces {
            if let Piece::Block { id, block_len, .. } = piece {
                let decode = BlockDecode {
                    array: self,
                    id,
                    len: block_len,
                };
                self.cache.prefetch(self.key(id), &decode);
            }
        }
    }

    /// Lets go of the blocks that end in a range of the array's own bytes: it has been read.
    pub fn let_go(&self, range: Range<u64>) {
        let mut pieces = Vec::new();
        if self.pieces(range, &mut pieces).is_err() {
            return;
        }
        for piece in pieces {
            if let Piece::Block {
                id,
                block_len,
                skip,
                take,
            } = piece
                && skip + take == block_len
            {
                self.cache.let_go(self.key(id));
            }
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
        error.map_fault(|fault| {
            let fault = fault.array(self.array.name()).inside(&self.group);
            fault.container(&self.container)
        })
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

    fn decode(&self, out: &mut [u8]) -> Result<()> {
        self.array
            .array
            .decode(self.id, out)
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

fn slice(block: &Block, skip: u64, take: u64) -> Result<&[u8]> {
    let range = skip as usize..(skip + take) as usize;
    block
        .bytes()
        .get(range)
        .ok_or_else(|| Fault::new("a block is shorter than its array says").into())
}
