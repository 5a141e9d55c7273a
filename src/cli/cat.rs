//! `arrayfs cat`: decoded bytes to standard output, decoded ahead by worker threads.

use std::io::{self, Write};
use std::path::Path;

use super::failure::{CommandResult, Failure};
use super::{open_array, output};
use crate::array::prefetch::{ReadAhead, ReadAheadWorkers};
use crate::array::read::Tail;
use crate::container::Preferences;

const CACHE: u64 = 64 << 20;

/// Written at a time.
const STEP: usize = 1 << 20;

pub(super) fn run(
    path: &Path,
    preferences: Preferences,
    name: Option<&str>,
    offset: u64,
    length: Option<u64>,
) -> CommandResult {
    let array = open_array::open(path, preferences, name, CACHE)?.array;
    let end = length
        .map_or(array.bytes, |n| offset.saturating_add(n))
        .min(array.bytes);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = ReadAheadWorkers::new(threads).map_err(Failure::new)?;
    let stream = ReadAhead::of(&array, CACHE);
    let mut at = offset;
    let mut out = io::stdout().lock();
    while at < end {
        let len = (end - at).min(STEP as u64);
        let advance = stream.advance(at..at + len, end);
        workers.follow(&array, &advance);
        if let Some(passed) = advance.passed {
            array.let_go(passed);
        }
        let written = array.read(at, len as usize, Tail::GoodPart, |bytes| match bytes {
            Ok(bytes) => out
                .write_all(bytes)
                .map(|()| bytes.len())
                .map_err(output::failed),
            Err(e) => Err(Some(Failure::from(e))),
        });
        match written {
            Ok(n) => at += n as u64,
            Err(None) => return Ok(()),
            Err(Some(failure)) => return Err(failure),
        }
    }
    out.flush()
        .or_else(|e| output::failed(e).map_or(Ok(()), Err))
}
