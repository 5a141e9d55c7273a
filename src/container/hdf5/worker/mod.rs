//! The daemon's side of libhdf5: asks a worker process for the structure of a file.
//!
//! libhdf5 parses untrusted files in C. It runs in processes of its own ([`process`], [`pool`]) that
//! get an opened file and hand plain data back ([`wire`]; their side is [`serve`]); a file that makes the library crash, hang or
//! eat memory costs a worker, and its reason is a [`Fault`] like any other.
//! `ARRAYFS_HDF5_WORKER` names a program to start instead, for example a sandbox around `arrayfs
//! hdf5-worker`; it gets the socket as standard input and `hdf5-worker` as its argument.
//! `ARRAYFS_HDF5_LIMITS="SECONDS,MEBIBYTES"` changes what one request may take (20 s, 1024 MiB).

mod limits;
mod pool;
mod process;
mod serve;
mod superblock;
#[cfg(test)]
mod tests;
pub(super) mod wire;

use std::os::fd::BorrowedFd;

use super::index::{ChunkEntry, FileIndex};
use crate::error::{Fault, Result};
use crate::source::Source;
use pool::POOL;
use wire::Wanted;

pub use serve::run as serve;

/// The structure of an HDF5 file. It comes from untrusted bytes: see [`super::index`].
pub(super) fn index(source: &dyn Source) -> Result<FileIndex> {
    let superblock = superblock::check(source)?;
    let index: FileIndex = POOL.ask(Wanted::Index, local(source)?)?;
    Ok(FileIndex {
        superblock,
        ..index
    })
}

/// The stored chunks of the dataset with this token, by number; numbers are unique.
pub(super) fn chunks(source: &dyn Source, token: u64) -> Result<Vec<ChunkEntry>> {
    let chunks: Vec<ChunkEntry> = POOL.ask(Wanted::Chunks(token), local(source)?)?;
    if chunks.is_sorted_by(|a, b| a.number < b.number) {
        return Ok(chunks);
    }
    Err(Fault::new("the HDF5 worker gave chunks twice or out of order").into())
}

fn local(source: &dyn Source) -> Result<BorrowedFd<'_>> {
    let needed = || Fault::new("reading an HDF5 file needs a local file").into();
    source.fd().ok_or_else(needed)
}
