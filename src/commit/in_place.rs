//! A commit as changes of the file itself, behind a log of them.
//!
//! Every byte that is going to be written is in the log first, and a record that seals it; both are on the disk before the
//! file is touched. Doing it all again from the log gives the same file, however much of it was done before: so after a
//! crash it is the old file, if there is no seal, or the new one. Bytes that stay where they are cost nothing. Used by [`super`].

use std::ops::Range;
use std::sync::Arc;

use super::fingerprint::fingerprint;
use super::new_files::put_all;
use super::{Commit, Publish};
use crate::container::rewrite::{CommitWay, MemberNumber, Recipe};
use crate::disk::{Allocation, Caller, DiskFile, NewAttributes, NewTime, Target};
use crate::error::{Error, Result};
use crate::source::{Source, Stat, Timestamp};
use crate::stage::Stage;
use crate::stage::log::{CommitRecord, SealedTime};

/// Bytes that are moved at once.
const STEP: u64 = 256 << 10;

/// Bytes of the log that belong into the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Patch {
    pub(super) file: MemberNumber,
    pub(super) at: u64,
    /// Where in the log they are.
    pub(super) logged: Range<u64>,
}

pub(super) fn change(commit: &Commit<'_>, publish: Publish<'_>) -> Result<()> {
    let mut redo = RedoLog {
        stage: commit.stage,
        old: commit.source()?,
        patches: Vec::new(),
        len: None,
    };
    let changed = commit.changed;
    commit
        .rewrite
        .recipe(changed, CommitWay::InPlace, commit.budget, &mut redo)?;
    let RedoLog {
        patches, len, old, ..
    } = redo;
    let ranges = patches.iter();
    let ranges = ranges.map(|patch| patch.at..patch.at + (patch.logged.end - patch.logged.start));
    let stays = old.len().min(len.unwrap_or(u64::MAX));
    let untouched = fingerprint(&*old, ranges.collect(), stays)?;
    let now = commit.unchanged()?;
    let file = commit.disk.open(&commit.spot.path(), now.identity.id)?;
    commit.stage.append(&CommitRecord::Sealed {
        layer: commit.layer,
        times: vec![SealedTime {
            file: MemberNumber::ONLY.0,
            secs: commit.written.secs,
            nanos: commit.written.nanos,
            untouched,
        }],
        in_place: true,
    })?;
    commit.stage.sync_log()?;
    let caller = commit.owner(&now);
    publish(CommitWay::InPlace, &mut || {
        // Nobody is kept from changing it at the very same time; whoever did it before is not overwritten.
        commit.unchanged()?;
        reserve(commit, &*file, &now, len, caller)?;
        let carry_out = || {
            for patch in &patches {
                apply(commit.stage, patch, &*file, caller)?;
            }
            finish(commit, &*file, len, commit.written, caller)
        };
        // Half of it is neither container: what failed is tried again, and if it fails again, by who recovers.
        carry_out()
            .or_else(|e| {
                log::warn!("{e}; trying again");
                carry_out()
            })
            .inspect_err(|_| commit.stage.stay_sealed())
    })
}

/// Takes the room that the file is going to need: that there is none is found out before it is changed.
fn reserve(
    commit: &Commit<'_>,
    file: &dyn DiskFile,
    now: &Stat,
    len: Option<u64>,
    caller: Caller,
) -> Result<()> {
    let (old, new) = (now.identity.size, len.unwrap_or(0));
    if new <= old {
        return Ok(());
    }
    let room = Allocation {
        mode: libc::FALLOC_FL_KEEP_SIZE.cast_unsigned(),
        offset: old,
        len: new - old,
    };
    match file.allocate(room, caller) {
        Err(e) if has_no_room(&e) => {
            // It may have counted as a modification.
            let restored = set_mtime(commit, file, now.identity.mtime);
            let target = Target::Open(file.source());
            let restored = restored.and_then(|()| commit.disk.sync(target, false));
            restored.inspect_err(|_| commit.stage.stay_sealed())?;
            Err(e)
        }
        Err(e) => {
            log::debug!("{e}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

pub(super) fn has_no_room(e: &Error) -> bool {
    match e {
        Error::Io { cause, .. } => {
            let code = cause.raw_os_error();
            [libc::ENOSPC, libc::EDQUOT, libc::EFBIG]
                .iter()
                .any(|one| code == Some(*one))
        }
        _ => false,
    }
}

fn set_mtime(commit: &Commit<'_>, file: &dyn DiskFile, mtime: Timestamp) -> Result<()> {
    let times = NewAttributes {
        mtime: Some(NewTime::At(mtime)),
        ..NewAttributes::default()
    };
    commit
        .disk
        .set_attributes(Target::Open(file.source()), &times)
}

fn apply(stage: &Stage, patch: &Patch, file: &dyn DiskFile, caller: Caller) -> Result<()> {
    let mut buf = Vec::new();
    let mut at = patch.logged.start;
    while at < patch.logged.end {
        let step = STEP.min(patch.logged.end - at);
        buf.resize(step as usize, 0);
        stage.read_logged(at, &mut buf)?;
        put_all(file, patch.at + (at - patch.logged.start), &buf, caller)?;
        at += step;
    }
    Ok(())
}

fn finish(
    commit: &Commit<'_>,
    file: &dyn DiskFile,
    len: Option<u64>,
    written: Timestamp,
    caller: Caller,
) -> Result<()> {
    if let Some(len) = len {
        file.set_len(len, caller)?;
    }
    set_mtime(commit, file, written)?;
    commit.disk.sync(Target::Open(file.source()), false)
}

/// The log as a recipe is written to it.
struct RedoLog<'a> {
    stage: &'a Stage,
    old: Arc<dyn Source>,
    patches: Vec<Patch>,
    len: Option<u64>,
}

impl Recipe for RedoLog<'_> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        if from.start == to {
            return Ok(());
        }
        let mut buf = vec![0; STEP.min(from.end - from.start) as usize];
        let mut at = from.start;
        while at < from.end {
            let n = STEP.min(from.end - at) as usize;
            self.old.fetch_one(at, &mut buf[..n])?;
            self.put(file, to + (at - from.start), &buf[..n])?;
            at += n as u64;
        }
        Ok(())
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        let patches = &mut self.patches;
        self.stage
            .append_redo(file.0, at, bytes, &mut |at, logged| {
                patches.push(Patch { file, at, logged });
            })
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        self.len = Some(len);
        let record = CommitRecord::RedoLength { file: file.0, len };
        self.stage.append(&record)
    }
}
