//! Which logs lie beside a container, and which of them is its own.
//!
//! A container has one log, but more may lie there: one of an older version of it, of a container
//! that had its name before, or a file that another program has put there. Those are never applied
//! by themselves, hinder no writer, and are reported. A log whose container is gone is an *orphan*.
//! Used by `tree` and by the commands.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::recovery::{Leftover, clear, look, place};
use crate::container::Recognised;
use crate::disk::{Caller, Disk};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::source::Store;
use crate::stage::{
    FoundLog, LayerMemory, LogOf, LogSpot, Stage, container_of_log, log_names, read_log,
};

/// A log beside a container.
pub enum LogBeside {
    Leftover(Box<Leftover>),
    /// It is not believed, or another container's.
    Foreign(Error),
    /// It may be the container's, and cannot be read, or is damaged.
    Unreadable(Error),
}

/// All logs of a container that may mean something.
pub struct FoundLogs(Vec<LogBeside>);

impl FoundLogs {
    /// The log to recover or to read through, and the others, which the caller reports. Where none
    /// fits, the first of an older version.
    pub fn own(self) -> (Option<Leftover>, Vec<LogBeside>) {
        let mut logs = self.0;
        let fits = |log: &LogBeside| matches!(log, LogBeside::Leftover(left) if !left.is_stale());
        let is_left = |log: &LogBeside| matches!(log, LogBeside::Leftover(_));
        let own = logs.iter().position(fits);
        match own.or_else(|| logs.iter().position(is_left)) {
            Some(own) => match logs.remove(own) {
                LogBeside::Leftover(left) => (Some(*left), logs),
                other => {
                    logs.insert(own, other);
                    (None, logs)
                }
            },
            None => (None, logs),
        }
    }

    pub fn into_all(self) -> Vec<LogBeside> {
        self.0
    }
}

/// The logs beside a container's files, if its format can have logs.
pub fn logs_at(recognised: &Recognised, store: &dyn Store, path: &Path) -> Result<FoundLogs> {
    let mut found = Vec::new();
    let Some((directory, container)) = recognised
        .first_file(path)
        .filter(|_| recognised.format.is_changed())
    else {
        return Ok(FoundLogs(found));
    };
    for name in log_names(&container) {
        match store.stat(&directory.join(&name)) {
            Err(e) if e.is_not_found() => continue,
            _ => {}
        }
        let of = LogOf {
            store,
            directory: &directory,
            container: &container,
            owner: store.stat(&directory.join(&container))?.uid,
        };
        let log = match look(&of, &name) {
            Ok(Some(LogBeside::Leftover(left))) if !left.is_of(recognised) => {
                let fault = Fault::new("the log names files that are not the container's");
                LogBeside::Unreadable(Error::from(fault.container(&store.display(path))))
            }
            Ok(Some(log)) => log,
            Ok(None) => continue,
            Err(e) => LogBeside::Unreadable(e),
        };
        found.push(log);
    }
    Ok(FoundLogs(found))
}

/// Whether one of the logs of a container has this name.
pub fn is_log_of(log: &OsStr, container: &OsStr) -> bool {
    log_names(container).any(|name| name == log)
}

/// Bytes that are staged in a log whose container is gone, as far as the log alone shows.
pub fn orphan_bytes(store: &dyn Store, directory: &Path, log: &OsStr) -> Result<u64> {
    let stat = store.stat(&directory.join(log))?;
    let of = LogOf {
        store,
        directory,
        container: container_of_log(log).ok_or(Error::Unsuitable)?,
        owner: stat.uid,
    };
    match read_log(&of, log) {
        Ok(FoundLog::Held(state)) => Ok(state.staged_bytes()),
        Ok(FoundLog::Nothing) => Ok(0),
        _ => Ok(stat.size),
    }
}

/// Removes a log whose container is gone, unless another process goes on with it.
pub fn discard_orphan(
    disk: Arc<dyn Disk>,
    store: Arc<dyn Store>,
    directory: &Path,
    log: &OsStr,
) -> Result<()> {
    let stat = store.stat(&directory.join(log))?;
    let spot = LogSpot {
        directory_id: store.stat(directory)?.id,
        directory: directory.to_owned(),
        container: container_of_log(log).ok_or(Error::Unsuitable)?.to_owned(),
        files: Vec::new(),
        owner: Caller::of(stat.uid, stat.gid),
        disk,
        store,
    };
    let memory = LayerMemory::new(Budget::by_default());
    match read_log(&spot.of(), log) {
        // Locked from here on.
        Ok(FoundLog::Held(state)) => {
            Stage::recover(Arc::new(spot.clone()), &state, memory)?.throw_away()?;
        }
        _ => spot.disk.unlink(place(&spot, log))?,
    }
    // Not before the log, which may refer to it.
    clear(&spot)
}
