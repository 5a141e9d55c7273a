//! `arrayfs cat`: decoded bytes to standard output, decoded ahead by worker threads.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::{CommandResult, Failure, container, output};
use crate::array::prefetch::{ReadAhead, ReadAheadWorkers};
use crate::array::read::{CachedArray, Tail};
use crate::cache::{ArrayIndex, BlockCache, VersionId};
use crate::container::inside::{Located, join};
use crate::container::{Container, Preferences};

const CACHE: u64 = 64 << 20;

/// Names told when none of them was meant.
const MOST_NAMES: usize = 30;

/// Written at a time.
const STEP: usize = 1 << 20;

pub(super) fn run(
    path: &Path,
    preferences: Preferences,
    name: &str,
    offset: u64,
    length: Option<u64>,
) -> CommandResult {
    let array = open(path, preferences, name)?;
    let end = length
        .map_or(array.bytes, |n| offset.saturating_add(n))
        .min(array.bytes);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = ReadAheadWorkers::new(threads).map_err(Failure::new)?;
    let stream = ReadAhead::new(CACHE);
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

fn open(path: &Path, preferences: Preferences, name: &str) -> Result<Arc<CachedArray>, Failure> {
    let found = container::find(path, preferences)?;
    let cache = BlockCache::new(CACHE);
    let opened = found.open(cache.budget())?;
    let wanted = opened.resolve(name);
    let arrays = opened.all_arrays();
    let Some((index, located)) = arrays
        .iter()
        .enumerate()
        .find(|(_, located)| located.path() == wanted)
    else {
        return Err(missing(path, &opened, &wanted));
    };
    let info = located.array.info();
    Ok(Arc::new(CachedArray {
        bytes: info.map_err(|e| located.locate(e))?.bytes,
        array: Arc::clone(&located.array),
        cache,
        version: VersionId(0),
        index: ArrayIndex(u32::try_from(index).unwrap_or(u32::MAX)),
        container: found.shown(),
        group: Arc::clone(&located.group),
        prefix: Arc::from([]),
    }))
}

/// Why there is no such array.
fn missing(path: &Path, opened: &Arc<Container>, name: &str) -> Failure {
    let mut faults = opened.all_faults().into_iter();
    if let Some(fault) = faults.find(|fault| fault.array.as_deref() == Some(name)) {
        return Failure::new(fault);
    }
    let mut unreadable = opened.all_unreadable().into_iter();
    if let Some((group, member)) =
        unreadable.find(|(group, member)| join(group, &member.name) == name)
    {
        let error = member.error().of_array(&group, &member.name);
        return Failure::from(error.of_container(path));
    }
    let arrays = opened.all_arrays();
    let mut names: Vec<String> = arrays.iter().take(MOST_NAMES).map(Located::path).collect();
    if arrays.len() > MOST_NAMES {
        names.push(format!("and {} more", arrays.len() - MOST_NAMES));
    }
    Failure::new(format!(
        "{} has no array '{name}'; it has: {}",
        path.display(),
        names.join(", ")
    ))
}
