//! A chunk with its changes that is larger than the memory there is: a block of it is the least
//! that is held.
//!
//! What is staged of it lies in the log, most likely, and is read from there block by block. Used
//! by [`super::encode`].

use std::ops::Range;

use super::encode::failed;
use super::recipe::Plan;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::codec::blosc::encode::{
    ChunkSettings, EncodeError, Encoder, PartEncoder, PartNeeds, PartSpace,
};
use crate::container::chunked_write::memory::EncodeNeeds;
use crate::container::chunked_write::{Batch, ChunkedArray, PutPart};
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::{no_memory, room};

/// An error of the codec, or of what it reads from and puts to.
struct PartError(Error);

impl From<EncodeError> for PartError {
    fn from(e: EncodeError) -> PartError {
        PartError(failed(e))
    }
}

pub(super) fn needs(plan: &Plan<'_>) -> Result<EncodeNeeds> {
    let mut most = EncodeNeeds::default();
    for number in plan.dirty.iter().flatten() {
        let bytes = plan.new.plain(number);
        let settings = plan.chunk_settings(plan.stored_before(number)?)?;
        let needs = part_needs(&settings, &bytes)?;
        let decode = lent_for(&*plan.changed.shown, bytes)?;
        let beside = room(4 * needs.blocks as u64).saturating_add(room(needs.scratch as u64));
        most = most.max(EncodeNeeds {
            plain: needs.plain as u64,
            out: needs.out as u64,
            scratch: decode.saturating_add(beside),
        });
    }
    Ok(most)
}

/// Puts a chunk and its digest.
pub(super) fn encode(
    plan: &Plan<'_>,
    batch: &Batch,
    space: &mut Workspace,
    put: PutPart<'_>,
) -> Result<()> {
    let settings = plan.settings(batch)?;
    let bytes = plan.new.plain(batch.first());
    let needs = part_needs(&settings.chunk, &bytes)?;
    let (out, mut scratch) = space.parts();
    let space = PartSpace {
        starts: scratch.take_u32s(needs.blocks as u64)?,
        plain: scratch.take(needs.plain as u64)?,
        out: &mut out[..needs.out],
        scratch: scratch.take(needs.scratch as u64)?,
    };
    let mut read = |part: Range<usize>, plain: &mut [u8]| {
        let at = bytes.start + part.start as u64;
        let memory = DecodeMemory::Lent(scratch.lend());
        read_into(&*plan.changed.shown, at, plain, memory).map_err(PartError)
    };
    let mut hasher = plan.file.header.checksum.hasher();
    let len = (bytes.end - bytes.start) as usize;
    let done = Encoder::lend(|encoder| {
        let mut parts = PartEncoder {
            encoder,
            space,
            read: &mut read,
        };
        parts.chunk(&settings.chunk, len, settings.place, &mut |part| {
            hasher.update(part);
            put(part).map_err(PartError)
        })
    });
    done.map_err(|PartError(e)| e)?;
    match hasher.finish().as_bytes() {
        [] => Ok(()),
        digest => put(digest),
    }
}

fn part_needs(settings: &ChunkSettings, bytes: &Range<u64>) -> Result<PartNeeds> {
    let nbytes = usize::try_from(bytes.end - bytes.start);
    let nbytes = nbytes.map_err(|_| no_memory("cannot encode a chunk"))?;
    PartNeeds::new(settings, nbytes).map_err(failed)
}
