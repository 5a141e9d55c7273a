//! The bytes of a stored file, with what its log says, written into an empty one.
//!
//! Chunks are decoded by several threads, each after its digest has been checked, and written in
//! order; those that are zeros become holes. Used by [`super::exchange`].

use super::super::encode::are_zeros;
use super::super::file::ScratchFile;
use super::super::tail::{DAEMON, put_all};
use super::{Told, spaces};
use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::memory::fallible;
use crate::pipeline;

const DOING: &str = "cannot unpack a file";

/// The disk begins to write so much as soon as it is there.
const WRITEBACK: u64 = 8 << 20;

/// Says how many bytes there are. `told`: so many of them more are done.
pub(super) fn unpack(
    file: &ScratchFile,
    into: &dyn DiskFile,
    threads: usize,
    told: Told<'_>,
) -> Result<u64> {
    let (len, size) = {
        let content = file.read();
        (content.len, content.chunk_size())
    };
    let jobs = usize::try_from(len.div_ceil(size)).unwrap_or(usize::MAX);
    let mut unbegun = 0;
    pipeline::in_order(
        spaces::<()>(threads, jobs, size),
        jobs,
        |space, job| {
            let at = job as u64 * size;
            let wanted = (len - at).min(size) as usize;
            fallible::lengthen(&mut space.plain, wanted, DOING)?;
            match file.read_at(at, &mut space.plain)? == wanted {
                true => Ok(are_zeros(&space.plain)),
                false => Err(Error::Invalid("it became shorter while it was read".into())),
            }
        },
        |job, space, are_zeros| {
            let at = job as u64 * size;
            told(space.plain.len() as u64);
            if !are_zeros {
                put_all(into, at, &space.plain)?;
            }
            if at - unbegun >= WRITEBACK {
                into.begin_writeback(unbegun..at);
                unbegun = at;
            }
            Ok(())
        },
    )?;
    into.set_len(len, DAEMON)?;
    Ok(len)
}
