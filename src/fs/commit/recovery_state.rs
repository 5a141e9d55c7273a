//! How a log that was left behind stands to its container: how far a commit got that did not come
//! to its end.
//!
//! A log names the container's files by size and time, which a copy keeps, and the new files of a
//! commit by their inodes as well. Nothing is changed here. Used by [`super::recovery`].

use std::ffi::OsStr;
use std::path::PathBuf;

use super::fingerprint::fingerprint;
use super::grown::is_grown;
use super::sealed::{can_be, is_done};
use crate::error::Result;
use crate::range_set::RangeSet;
use crate::source::{Stat, Timestamp};
use crate::stage::log::{NewFileRecord, SealedFile};
use crate::stage::{BaseFile, LogOf, LogState, PendingCommit, new_name};

/// How far the commit that the log records has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryState {
    /// The staged changes lie above the container as it is.
    Staged,
    /// The commit that was under way is complete, but for tidying up.
    Committed,
    /// Some of its new files have taken their places, and the others are there.
    PartlyPublished,
    /// It has begun to change files, or may have: it is to be done again from the log.
    Sealed,
    /// The container is another one: nothing of the log fits it.
    Stale,
    /// The new files are in their places, and a file that came out of one is not the one that was
    /// opened.
    Foreign,
}

/// Which file has the name of one that a commit was about to replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameHolder {
    Old,
    New,
    Other,
}

pub(super) fn recovery_state(of: &LogOf<'_>, state: &LogState) -> Result<RecoveryState> {
    match state.pending() {
        Some(PendingCommit::Replacing { files, .. }) => of_replaced(of, state, files),
        Some(PendingCommit::Sealed { files, .. }) => of_sealed(of, state, files),
        None => match others_are_base(of, state, |_| false)? {
            true => Ok(RecoveryState::Staged),
            false => Ok(RecoveryState::Stale),
        },
    }
}

/// Where a file of the container lies.
pub(super) fn path_of(of: &LogOf<'_>, name: &str) -> PathBuf {
    of.directory.join(name_of(of.container, name))
}

/// The name of a container's file in the directory; an empty name stands for the container's own.
pub(super) fn name_of<'a>(container: &'a OsStr, name: &'a str) -> &'a OsStr {
    match name {
        "" => container,
        name => OsStr::new(name),
    }
}

/// Where the new file lies that is to replace it, or the old one that it has replaced.
pub(super) fn hidden_path_of(of: &LogOf<'_>, name: &str) -> PathBuf {
    of.directory.join(new_name(name_of(of.container, name)))
}

pub(super) fn is_like(now: &Stat, size: u64, mtime: Timestamp) -> bool {
    now.size == size && now.mtime == mtime
}

pub(super) fn is_base(now: &Stat, base: &BaseFile) -> bool {
    is_like(now, base.size, base.mtime())
}

fn stat(of: &LogOf<'_>, path: PathBuf) -> Result<Option<Stat>> {
    match of.store.stat(&path) {
        Err(e) if e.is_not_found() => Ok(None),
        other => other.map(Some),
    }
}

/// Whether all files but these are what they were.
fn others_are_base(of: &LogOf<'_>, state: &LogState, but: impl Fn(&str) -> bool) -> Result<bool> {
    let files = &state.base().files;
    for base in files {
        let now = match but(&base.name) {
            false => stat(of, path_of(of, &base.name))?,
            true => continue,
        };
        let is_same = match now {
            Some(now) => is_base(&now, base) || is_grown(of, &now, (state, &base.name))?,
            None => false,
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(!files.is_empty())
}

fn of_sealed(of: &LogOf<'_>, state: &LogState, files: &[SealedFile]) -> Result<RecoveryState> {
    let is_sealed = |name: &str| files.iter().any(|file| file.name == name);
    let mut is_same = others_are_base(of, state, is_sealed)?;
    for file in files {
        is_same = is_same && can_be(of, state, file)?;
    }
    if !is_same {
        return Ok(RecoveryState::Stale);
    }
    for file in files {
        if !is_done(of, state, file)? {
            return Ok(RecoveryState::Sealed);
        }
    }
    // It has come to its end, and only the removal of its log has not reached the disk.
    Ok(RecoveryState::Committed)
}

fn of_replaced(of: &LogOf<'_>, state: &LogState, files: &[NewFileRecord]) -> Result<RecoveryState> {
    let is_replaced = |name: &str| files.iter().any(|file| file.name == name);
    let others = others_are_base(of, state, is_replaced)?;
    let (mut old, mut new, mut swapped, mut tidied) = (0, 0, false, false);
    for file in files {
        match holder(of, state, file)? {
            NameHolder::Other => return Ok(RecoveryState::Stale),
            NameHolder::Old => old += 1,
            NameHolder::New => {
                new += 1;
                swapped |= came_out(of, state, file)? == NameHolder::Other;
                let hidden = stat(of, hidden_path_of(of, &file.name))?;
                tidied |= hidden.is_none() && state.base().file(&file.name).is_some();
            }
        }
    }
    Ok(match (old, new) {
        _ if !others => RecoveryState::Stale,
        (_, 0) => RecoveryState::Staged,
        // The files that came out were looked at before the first of them was removed.
        (0, _) if tidied => RecoveryState::Committed,
        _ if swapped => RecoveryState::Foreign,
        (0, _) => RecoveryState::Committed,
        _ if all_are_there(of, state, files)? => RecoveryState::PartlyPublished,
        _ => RecoveryState::Stale,
    })
}

/// Which file has the name now.
pub(super) fn holder(of: &LogOf<'_>, state: &LogState, new: &NewFileRecord) -> Result<NameHolder> {
    let base = state.base().file(&new.name);
    let Some(now) = stat(of, path_of(of, &new.name))? else {
        return Ok(match base {
            None => NameHolder::Old,
            Some(_) => NameHolder::Other,
        });
    };
    let is_old = base.is_some_and(|base| is_base(&now, base));
    match (is_new(&now, new), is_old) {
        (true, true) => which_of_alike(of, &now, new),
        (true, false) => Ok(NameHolder::New),
        (false, true) => Ok(NameHolder::Old),
        (false, false) => Ok(NameHolder::Other),
    }
}

pub(super) fn is_new(now: &Stat, new: &NewFileRecord) -> bool {
    let mtime = Timestamp {
        secs: new.mtime_secs,
        nanos: new.mtime_nanos,
    };
    is_like(now, new.size, mtime)
}

fn is_itself(now: &Stat, new: &NewFileRecord) -> bool {
    (now.id.inode, now.id.birth) == (new.inode, new.birth)
}

/// A committer that keeps times makes old and new alike. In a copy of the directory neither is
/// recognised by its inode: there the content decides.
fn which_of_alike(of: &LogOf<'_>, now: &Stat, new: &NewFileRecord) -> Result<NameHolder> {
    if is_itself(now, new) {
        return Ok(NameHolder::New);
    }
    let hidden = stat(of, hidden_path_of(of, &new.name))?;
    if hidden.is_some_and(|hidden| is_itself(&hidden, new)) {
        return Ok(NameHolder::Old);
    }
    let source = of.store.open(&path_of(of, &new.name))?;
    match fingerprint(&*source, &RangeSet::default(), new.size)? == new.sample {
        true => Ok(NameHolder::New),
        false => Ok(NameHolder::Old),
    }
}

/// The new file is in place: the one that came out under its hidden name must be the one that was
/// opened, unless it has been removed already.
pub(super) fn came_out(
    of: &LogOf<'_>,
    state: &LogState,
    new: &NewFileRecord,
) -> Result<NameHolder> {
    let Some(out) = stat(of, hidden_path_of(of, &new.name))? else {
        return Ok(NameHolder::Old);
    };
    let base = state.base().file(&new.name);
    match base.is_some_and(|base| is_base(&out, base)) {
        true => Ok(NameHolder::Old),
        false => Ok(NameHolder::Other),
    }
}

/// Whether some names are the new files' and some are not: neither the container before the commit
/// nor the one after it.
pub(super) fn is_torn(of: &LogOf<'_>, state: &LogState) -> Result<bool> {
    let Some(PendingCommit::Replacing { files, .. }) = state.pending() else {
        return Ok(false);
    };
    let (mut new, mut others) = (false, false);
    for file in files {
        match holder(of, state, file)? {
            NameHolder::New => new = true,
            NameHolder::Old | NameHolder::Other => others = true,
        }
    }
    Ok(new && others)
}

/// Whether the new files that have not taken their places are where they can do so.
fn all_are_there(of: &LogOf<'_>, state: &LogState, files: &[NewFileRecord]) -> Result<bool> {
    for new in files {
        if holder(of, state, new)? == NameHolder::Old {
            let hidden = stat(of, hidden_path_of(of, &new.name))?;
            if !hidden.is_some_and(|hidden| is_new(&hidden, new)) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
