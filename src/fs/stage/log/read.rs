//! Reads a log: which file is believed to be one, and what its records say.
//!
//! After each sync a record says so, which reaches the disk when the system likes: so after a power
//! loss damage to the records synced last may look like an end, and after a kill nothing does. A
//! log is believed only if it is a regular file of mode 0600 that belongs to the container's owner,
//! and names the container.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::LogOf;
use super::found::LogState;
use super::record::{self, Begin};
use crate::error::{Error, Fault, Result};
use crate::records::{RecordSequence, Records};
use crate::source::{FileKind, Source, Stat};

/// The file under a name that a log of a container may have.
pub enum FoundLog {
    /// No file, or nothing in it ever reached the disk.
    Nothing,
    /// Something that is not believed to be a log of this container, for this reason.
    Foreign(Error),
    Held(Box<LogState>),
}

/// The file under this name of the container's logs. An error if it cannot be read, or is damaged.
pub fn read_log(of: &LogOf<'_>, name: &OsStr) -> Result<FoundLog> {
    read_log_until(of, name, u64::MAX)
}

/// The same of its first bytes: no record from `end` on counts.
pub fn read_log_until(of: &LogOf<'_>, name: &OsStr, end: u64) -> Result<FoundLog> {
    let path = of.directory.join(name);
    let stat = match of.store.stat(&path) {
        Err(e) if e.is_not_found() => return Ok(FoundLog::Nothing),
        stat => stat?,
    };
    let located = |e: Error| e.of_container(&of.store.display(&path));
    if let Err(e) = check_trust(&stat, of) {
        return Ok(FoundLog::Foreign(located(e)));
    }
    let source = of.store.open(&path)?;
    if source.id() != stat.id {
        let path = of.store.display(&path);
        return Err(Error::Changed { path });
    }
    match fold(source, (of, name), end).map_err(located)? {
        FoundLog::Foreign(e) => Ok(FoundLog::Foreign(located(e))),
        found => Ok(found),
    }
}

fn check_trust(stat: &Stat, of: &LogOf<'_>) -> Result<()> {
    let refused =
        |what: &str| Fault::new(format!("the log of a stage is not believed: its {what}"));
    let mode = u32::from(stat.mode) & 0o7777;
    if stat.kind != FileKind::File {
        return Err(refused("kind is wrong").expected("a regular file").into());
    }
    if mode != 0o600 {
        let fault = refused("mode is wrong").expected("0600");
        return Err(fault.found(format_args!("{mode:04o}")).into());
    }
    if stat.uid != of.owner {
        let fault = refused("owner is not the container's").expected(of.owner);
        return Err(fault.found(stat.uid).into());
    }
    Ok(())
}

/// What the records of a file say that is believed to be a log.
/// None from `end` on count.
pub(crate) fn fold(
    source: Arc<dyn Source>,
    (of, name): (&LogOf<'_>, &OsStr),
    end: u64,
) -> Result<FoundLog> {
    let (log, len) = (Arc::clone(&source), source.identity().size());
    let mut records = Records::new(&*log, 0, RecordSequence::Rising(None));
    let Some(first) = records.next()? else {
        records.check_end(len)?;
        return Ok(FoundLog::Nothing);
    };
    if first.kind != record::BEGIN {
        return Err(first.nonsense("one that does not say what the log is of"));
    }
    let begin: Begin = first.decoded()?;
    if begin.container != of.container.as_bytes() {
        let shown = String::from_utf8_lossy(&begin.container).into_owned();
        let fault = Fault::new("the log is another container's");
        let fault = fault.expected(Path::new(of.container).display());
        return Ok(FoundLog::Foreign(fault.found(shown).into()));
    }
    let mut state = LogState::new(begin, name, source)?;
    loop {
        let at = records.at();
        if at >= end {
            break;
        }
        let Some(found) = records.next()? else { break };
        let added = state.add(at, &found);
        added.map_err(|e| e.map_fault(|fault| fault.bytes(at..records.at())))?;
    }
    records.check_end(len)?;
    state.end_at(records.at(), records.sequence());
    state.build_layers()?;
    Ok(FoundLog::Held(Box::new(state)))
}
