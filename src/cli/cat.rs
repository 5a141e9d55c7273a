//! `arrayfs cat`: decoded bytes to standard output, decoded ahead by worker threads.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::{Failure, Outcome, container};
use crate::array::prefetch::{Stream, Workers};
use crate::array::read::{CachedArray, Tail};
use crate::cache::{ArrayIndex, BlockCache, VersionId};

const CACHE: u64 = 64 << 20;

/// Written at a time.
const STEP: usize = 1 << 20;

pub(super) fn run(path: &Path, name: &str, offset: u64, length: Option<u64>) -> Outcome {
    let array = open(path, name)?;
    let end = length
        .map_or(array.bytes, |n| offset.saturating_add(n))
        .min(array.bytes);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = Workers::new(threads).map_err(Failure::new)?;
    let stream = Stream::new(CACHE);
    let mut at = offset;
    let mut out = io::stdout().lock();
    while at < end {
        let len = (end - at).min(STEP as u64);
        let advance = stream.advance(at..at + len, end);
        if let Some(ahead) = advance.ahead {
            workers.order(&array, ahead);
        }
        if let Some(passed) = advance.passed {
            array.let_go(passed);
        }
        let written = array.read(at, len as usize, Tail::GoodPart, |bytes| match bytes {
            Ok(bytes) => out
                .write_all(bytes)
                .map(|()| bytes.len())
                .map_err(broken_pipe_is_fine),
            Err(e) => Err(Some(Failure::from(e))),
        });
        match written {
            Ok(n) => at += n as u64,
            Err(None) => return Ok(()),
            Err(Some(failure)) => return Err(failure),
        }
    }
    out.flush()
        .or_else(|e| broken_pipe_is_fine(e).map_or(Ok(()), Err))
}

/// `arrayfs cat ... | head` is not a failure.
fn broken_pipe_is_fine(e: io::Error) -> Option<Failure> {
    (e.kind() != io::ErrorKind::BrokenPipe).then(|| Failure::new(format!("standard output: {e}")))
}

fn open(path: &Path, name: &str) -> Result<Arc<CachedArray>, Failure> {
    let found = container::find(path)?;
    let opened = found.open()?;
    let names = || {
        opened
            .arrays
            .iter()
            .map(|array| array.name())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (index, array) = opened
        .arrays
        .iter()
        .enumerate()
        .find(|(_, array)| array.name() == name)
        .ok_or_else(|| {
            match opened
                .faults
                .iter()
                .find(|fault| fault.array.as_deref() == Some(name))
            {
                Some(fault) => Failure::new(fault),
                None => Failure::new(format!(
                    "{} has no array '{name}'; it has: {}",
                    path.display(),
                    names()
                )),
            }
        })?;
    Ok(Arc::new(CachedArray {
        bytes: array.info()?.bytes,
        array: Arc::clone(array),
        cache: Arc::new(BlockCache::new(CACHE)),
        version: VersionId(0),
        index: ArrayIndex(u32::try_from(index).unwrap_or(u32::MAX)),
        container: found.shown(),
        prefix: Arc::from([]),
    }))
}
