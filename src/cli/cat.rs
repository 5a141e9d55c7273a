//! `arrayfs cat`: decoded bytes to standard output, decoded ahead by worker threads.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::{CommandResult, Failure, container, output};
use crate::array::prefetch::{ReadAhead, ReadAheadWorkers};
use crate::array::read::{CachedArray, Tail};
use crate::cache::{ArrayIndex, BlockCache, VersionId};
use crate::container::Preferences;
use crate::container::inside::join;

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

/// `name`: within what the path means, if that is not an array.
fn open(
    path: &Path,
    preferences: Preferences,
    name: Option<&str>,
) -> Result<Arc<CachedArray>, Failure> {
    let found = container::find(path, preferences)?;
    let cache = BlockCache::new(CACHE);
    let opened = found.open(cache.budget())?;
    let name = join(&found.within, name.unwrap_or_default());
    let wanted = opened.resolve(&name);
    if wanted.is_empty() {
        return Err(Failure::usage(format!(
            "{} is a container: say which array, as 'arrayfs ls {}' shows them",
            path.display(),
            path.display()
        )));
    }
    let arrays = opened.all_written();
    let Some((index, located)) = arrays
        .iter()
        .enumerate()
        .find(|(_, located)| located.path() == wanted)
    else {
        return Err(container::missing(&found.shown(), &opened, &wanted));
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
