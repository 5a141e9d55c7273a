//! The daemon's side of libhdf5: asks a worker process for the structure of a file.
//!
//! libhdf5 parses untrusted files in C. It runs in processes of its own ([`process`], [`pool`])
//! that get an opened file, or the bytes that they ask for, and hand plain data back ([`wire`];
//! their side is [`serve`]); an edit of a file is a [`session`]. A file that makes the library
//! crash, hang or eat memory costs a worker, and its reason is a fault like any other. Answers are
//! charged to the budget from when they are announced until they are not needed any more.
//! `ARRAYFS_HDF5_WORKER` names a program to start instead, for example a sandbox around `arrayfs
//! hdf5-worker`; it gets the socket as standard input and `hdf5-worker` as its argument.
//! `ARRAYFS_HDF5_LIMITS="SECONDS,MEBIBYTES"` changes what one request may take: see [`limits`].

mod charged;
#[cfg(feature = "fuzzing")]
mod in_process;
mod limits;
mod nodes_ahead;
mod pool;
mod process;
mod serve;
mod served_file;
mod session;
mod superblock;
#[cfg(test)]
mod tests;
pub(super) mod wire;

use std::sync::Arc;

use super::chunk_table::ChunkTable;
use super::dataset::ChunkTables;
use super::index::FileIndex;
use crate::error::{Error, Result};
use crate::memory::budget::{Budget, Hold};
use crate::source::Source;
#[cfg(not(feature = "fuzzing"))]
use pool::POOL;
use process::EncodedAnswer;
use wire::{RawBytes, WorkerAnswer, WorkerTask};

pub use process::{deaths as worker_deaths, start_by_command};
pub use serve::run as serve;
pub(super) use session::{EditSession, wrong_reply};
pub(super) use superblock::{end, end_places};

/// What is made of an index takes up to so many times as much as the index. Measured: 0.7 times
/// where datasets are a number each, twice where they have chunks and attributes.
pub(super) const MADE: u64 = 2;

/// The structure of an HDF5 file as a worker answered, which takes a tenth of what is made of it.
pub(super) struct IndexAnswer {
    superblock: u8,
    encoded: EncodedAnswer,
}

impl IndexAnswer {
    /// A structure as if a worker had answered it.
    pub(super) fn of(index: &FileIndex, budget: &Arc<Budget>) -> Result<IndexAnswer> {
        let answer: WorkerAnswer<&FileIndex> = Ok(index);
        let bytes = postcard::to_stdvec(&answer).map_err(|e| Error::Bug(e.to_string()))?;
        let hold = budget.keep(bytes.len() as u64)?;
        Ok(IndexAnswer {
            superblock: index.superblock,
            encoded: EncodedAnswer { bytes, hold },
        })
    }

    /// The structure, and its charge, which is held while it is used. It comes from untrusted
    /// bytes: see [`super::index`].
    pub(super) fn read(&self, budget: &Arc<Budget>) -> Result<(FileIndex, Hold)> {
        let read = charged::read(&self.encoded.bytes, budget)?;
        let (index, hold) = read.ok_or_else(pool::unreadable)??;
        let superblock = self.superblock;
        Ok((
            FileIndex {
                superblock,
                ..index
            },
            hold,
        ))
    }
}

/// Asks for the structure of an HDF5 file. Gives what [`IndexAnswer::read`] gives, too.
pub(super) fn index(
    source: &dyn Source,
    budget: &Arc<Budget>,
) -> Result<(IndexAnswer, (FileIndex, Hold))> {
    let superblock = superblock::check(source)?;
    let read = |encoded: EncodedAnswer| {
        let read = charged::read(&encoded.bytes, budget)?;
        Ok(read.map(|answer| answer.map(|(index, hold)| (encoded, index, hold))))
    };
    let (encoded, index, hold) = ask(WorkerTask::Index, source, budget, read)?;
    let index = FileIndex {
        superblock,
        ..index
    };
    let answer = IndexAnswer {
        superblock,
        encoded,
    };
    Ok((answer, (index, hold)))
}

/// The stored chunks of the dataset with this token, not checked.
pub(super) fn chunks(source: &dyn Source, token: u64, budget: &Arc<Budget>) -> Result<ChunkTable> {
    let read = |EncodedAnswer { bytes, hold }| {
        let packed = wire::decode::<RawBytes<'_>>(&bytes);
        let len = packed.map(|packed| packed.map(|RawBytes(packed)| packed.len()));
        Ok(len.map(|len| {
            len.map(|len| {
                let skip = bytes.len().saturating_sub(len);
                ChunkTable::received(bytes, skip, hold)
            })
        }))
    };
    ask(WorkerTask::Chunks(token), source, budget, read)
}

/// Asks for the chunk tables of this file when they are wanted.
pub(super) fn tables(source: &Arc<dyn Source>, budget: &Arc<Budget>) -> ChunkTables {
    let (source, budget) = (Arc::clone(source), Arc::clone(budget));
    Arc::new(move |token| chunks(&*source, token, &budget))
}

/// Asks a worker, if what it would answer is not kept. `read` makes something of the answer, or
/// finds that it is none.
fn ask<T>(
    wanted: WorkerTask,
    source: &dyn Source,
    budget: &Arc<Budget>,
    read: impl Fn(EncodedAnswer) -> Result<Option<WorkerAnswer<T>>>,
) -> Result<T> {
    let what = format!("hdf5 {wanted:?}");
    if let Some(bytes) = source.kept(&what) {
        let hold = budget.keep(bytes.len() as u64)?;
        if let Some(Ok(found)) = read(EncodedAnswer { bytes, hold })? {
            return Ok(found);
        }
    }
    let read = |encoded: EncodedAnswer| {
        let copy = source.is_far().then(|| encoded.bytes.clone());
        let answer = read(encoded)?;
        if let (Some(Ok(_)), Some(bytes)) = (&answer, copy) {
            source.keep(&what, &bytes);
        }
        Ok(answer)
    };
    #[cfg(feature = "fuzzing")]
    return in_process::ask(wanted, source, budget, read);
    #[cfg(not(feature = "fuzzing"))]
    POOL.ask(wanted, source, budget, read)
}
