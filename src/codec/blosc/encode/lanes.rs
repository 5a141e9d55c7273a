//! Blocks of one large chunk on several threads.
//!
//! Each thread has an [`Encoder`] and scratch memory of its own, the room for a stored block
//! included. Blocks are put in their order, so the chunk is the same whichever thread made them.
//! Used by [`Encoder`], for chunks that no others are encoded beside.

use super::Encoder;
use super::assembler::Assembler;
use super::error::EncodeError;
use super::plan::ChunkPlan;
use crate::pipeline::in_order;

/// Lays all blocks into `chunk`; false if they do not fit. `scratch` has [`ChunkPlan::scratch_of`]
/// `threads`.
pub(super) fn put_blocks(
    plan: &ChunkPlan,
    plain: &[u8],
    chunk: &mut Assembler<'_>,
    scratch: &mut [u8],
    threads: usize,
) -> Result<bool, EncodeError> {
    let (found, expected) = (scratch.len(), plan.scratch_of(threads));
    if found < expected {
        return Err(EncodeError::ScratchSize { found, expected });
    }
    let spaces: Vec<(Encoder, &mut [u8])> = scratch
        .chunks_exact_mut(plan.scratch_of_lane())
        .take(plan.lanes(threads))
        .map(|space| (Encoder::new(), space))
        .collect();
    let encode = |(encoder, space): &mut (Encoder, &mut [u8]), job: usize| {
        let i = job as u32;
        let (out, scratch) = space.split_at_mut(plan.most_of_block());
        let bytes = &plain[plan.block_range(i)];
        let len = encoder.block(plan, bytes, out, scratch);
        len.map_err(NotPut::Failed)?.ok_or(NotPut::Full)
    };
    let put = |job: usize, (_, space): &mut (Encoder, &mut [u8]), len| {
        let fits = chunk.put(job as u32, &space[..len]);
        fits.then_some(()).ok_or(NotPut::Full)
    };
    match in_order(spaces, plan.blocks() as usize, encode, put) {
        Ok(()) => Ok(true),
        Err(NotPut::Full) => Ok(false),
        Err(NotPut::Failed(e)) => Err(e),
    }
}

enum NotPut {
    /// The chunk has no room for the block.
    Full,
    Failed(EncodeError),
}
