//! libhdf5 without a worker, for fuzzers: they see what the library does within their own process.
//! Used by [`super`] where nothing else is built.

use std::sync::{Arc, LazyLock};

use serde::Serialize;

use super::pool::unreadable;
use super::process::EncodedAnswer;
use super::wire::{RawBytes, WorkerAnswer, WorkerRefusal, WorkerTask};
use crate::container::hdf5::library::{self, LibraryFile};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::Source;

/// Answers as a worker would.
pub(super) fn ask<T>(
    wanted: WorkerTask,
    source: &dyn Source,
    budget: &Arc<Budget>,
    read: impl FnOnce(EncodedAnswer) -> Result<Option<WorkerAnswer<T>>>,
) -> Result<T> {
    static STARTED: LazyLock<std::result::Result<(), String>> = LazyLock::new(library::start);
    STARTED.clone().map_err(Error::Bug)?;
    let mut bytes = vec![0; source.len() as usize];
    source.fetch_one(0, &mut bytes)?;
    let file = LibraryFile::open(Box::new(bytes)).map_err(WorkerRefusal::from);
    let bytes = match wanted {
        WorkerTask::Index => encode(&file.and_then(|file| Ok(file.index()?))),
        WorkerTask::Chunks(token) => {
            let packed = file.and_then(|file| file.chunks(token));
            encode(
                &packed
                    .as_deref()
                    .map(RawBytes)
                    .map_err(WorkerRefusal::clone),
            )
        }
        WorkerTask::Edit | WorkerTask::Create(_) => return Err(Error::Unsupported),
    }?;
    let hold = budget.keep(bytes.len() as u64)?;
    match read(EncodedAnswer { bytes, hold })? {
        Some(answer) => answer.map_err(Error::from),
        None => Err(unreadable().into()),
    }
}

fn encode<T: Serialize>(answer: &WorkerAnswer<T>) -> Result<Vec<u8>> {
    postcard::to_stdvec(answer).map_err(|e| Error::Bug(e.to_string()))
}
