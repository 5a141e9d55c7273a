//! Reading how a log that was left behind relates to the container beside it, and recovering from
//! it.
//!
//! A log names the container that it belongs to by size and time. The file as it is now says how
//! far an unfinished commit got: `look` compares, and changes nothing. A writable mount and
//! `arrayfs stage commit` then recover from it ([`recover`]); everything else reads through it
//! ([`Leftover::layers`], [`Leftover::source`]). A log that does not fit is never applied. Used by
//! `tree` and by the commands.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::exchange::{Exchange, Swap};
use super::found_logs::LogBeside;
use super::future_file::{FutureContent, FutureFile, Redo};
use super::grown::cut_back;
pub use super::recovery_state::RecoveryState;
use super::recovery_state::{NameHolder, hidden_path_of, holder, name_of, path_of, recovery_state};
use super::redo::{redo, sync_done};
use super::rollback::undo;
use super::spot::Spot;
use super::taken_next::{keep_next, not_there};
use crate::container::Recognised;
use crate::disk::{Caller, Disk, Place, Target};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::source::{Source, Store};
use crate::stage::log::NewFileRecord;
use crate::stage::{
    Base, BaseFile, FoundLog, Layer, LayerMemory, LogOf, LogPlace, LogSpot, LogState,
    PendingCommit, Stage, log_names, new_name, next_name, read_log, read_log_until, to_nobody,
};

/// A power loss leaves references without their bytes at the end of a log: once that is cut off
/// nothing is wrong any more, but in a log that nobody has written so.
const MOST_CUTS: usize = 4;

/// A log, and how it stands to its container.
pub struct Leftover {
    pub(super) state: LogState,
    recovery_state: RecoveryState,
    /// Files that a commit that has got halfway is still to replace, and where the new ones lie.
    new_at: Vec<(PathBuf, PathBuf)>,
}

/// How this log of a container relates to it; none if there is no log, or nothing in it.
pub(super) fn look(of: &LogOf<'_>, name: &OsStr) -> Result<Option<LogBeside>> {
    let (state, recovery_state) = match read_with_next(of, name)? {
        (FoundLog::Nothing, _) => return Ok(None),
        (FoundLog::Foreign(e), _) => return Ok(Some(LogBeside::Foreign(e))),
        (FoundLog::Held(state), recovery_state) => (*state, recovery_state),
    };
    // One that could not be removed, and has nothing to say.
    if recovery_state == RecoveryState::Stale && says_nothing(&state) {
        return Ok(None);
    }
    let mut new_at = Vec::new();
    if let (RecoveryState::PartlyPublished, Some(PendingCommit::Replacing { files, .. })) =
        (recovery_state, state.pending())
    {
        for file in files {
            if holder(of, &state, file)? == NameHolder::Old {
                let (name, hidden) = (path_of(of, &file.name), hidden_path_of(of, &file.name));
                new_at.push((name, hidden));
            }
        }
    }
    Ok(Some(LogBeside::Leftover(Box::new(Leftover {
        state,
        recovery_state,
        new_at,
    }))))
}

/// Reads a log as far as the next file has the bytes to which it refers, and how it relates to the
/// container.
fn read_with_next(of: &LogOf<'_>, name: &OsStr) -> Result<(FoundLog, RecoveryState)> {
    let mut end = u64::MAX;
    for _ in 0..MOST_CUTS {
        let found = read_log_until(of, name, end);
        let mut found = found.map_err(|e| match (end, &e) {
            (u64::MAX, _) | (_, Error::Io { .. }) => e,
            (at, _) => not_there(of, name, at),
        })?;
        let FoundLog::Held(state) = &mut found else {
            return Ok((found, RecoveryState::Staged));
        };
        let recovery_state = recovery_state(of, state)?;
        let is_staged = matches!(recovery_state, RecoveryState::Staged | RecoveryState::Stale);
        match is_staged.then(|| state.find_next(of)).transpose()? {
            Some(Some(at)) => end = at,
            Some(None) | None => return Ok((found, recovery_state)),
        }
    }
    Err(not_there(of, name, end))
}

fn says_nothing(state: &LogState) -> bool {
    state.pending().is_none() && state.is_clean() && !state.grows()
}

impl Leftover {
    pub fn recovery_state(&self) -> RecoveryState {
        self.recovery_state
    }

    /// Bytes that are staged.
    pub fn bytes(&self) -> u64 {
        match self.is_stale() {
            true => self.state.staged_bytes(),
            false => self.state.bytes_of(&self.layers()),
        }
    }

    /// Whether it is of another version of the container.
    pub fn is_stale(&self) -> bool {
        matches!(
            self.recovery_state,
            RecoveryState::Stale | RecoveryState::Foreign
        )
    }

    /// Whether it is of another version, and no commit has left anything to be taken back: writers
    /// need not wait until it is recovered.
    pub fn is_only_old(&self) -> bool {
        self.recovery_state == RecoveryState::Stale && self.state.pending().is_none()
    }

    /// Whether a commit has begun that is still to be brought to its end.
    pub(super) fn is_half_done(&self) -> bool {
        matches!(
            self.recovery_state,
            RecoveryState::Sealed | RecoveryState::PartlyPublished
        )
    }

    /// Why it stays, if it is of another version.
    pub fn as_stale(&self, spot: &LogSpot) -> Error {
        stale(spot, self)
    }

    /// Whether all files that it names are of such a container.
    pub(super) fn is_of(&self, recognised: &Recognised) -> bool {
        let layout = recognised.layout();
        let is_member = |name: &str| layout.has_file(name);
        let mut base = self.state.base().files.iter();
        let is_changed = match self.state.pending() {
            Some(PendingCommit::Replacing { files, .. }) => {
                files.iter().all(|file| is_member(&file.name))
            }
            Some(PendingCommit::Sealed { files, .. }) => {
                files.iter().all(|file| is_member(&file.name))
            }
            None => true,
        };
        is_changed && base.all(|file| is_member(&file.name))
    }

    /// The content of the log.
    pub fn state(&self) -> &LogState {
        &self.state
    }

    /// The layers to be shown above the container's arrays, the top first.
    pub fn layers(&self) -> Vec<Arc<Layer>> {
        let mut layers = self.state.layers();
        // Below a layer without changes the log need not have the lengths.
        layers.retain(|layer| !layer.is_unchanged());
        match self.recovery_state {
            RecoveryState::Staged => {}
            // The one below is in the container.
            RecoveryState::Committed | RecoveryState::PartlyPublished | RecoveryState::Sealed => {
                let committed = self.state.pending().map_or(0, PendingCommit::layer);
                layers.retain(|layer| layer.number() > committed);
            }
            RecoveryState::Stale | RecoveryState::Foreign => layers.clear(),
        }
        layers
    }

    /// A file of the container as it will be when the commit has been done again. `name`: as in
    /// [`Base::files`]; `stored`: the result of opening it, which may not be there yet.
    pub(super) fn source(
        &self,
        store: &dyn Store,
        (path, name): (&Path, &str),
        stored: Result<Arc<dyn Source>>,
    ) -> Result<Arc<dyn Source>> {
        let new = self.new_at.iter().find(|(named, _)| named == path);
        let mut sealed = self.state.sealed().iter();
        let sealed = sealed.find(|file| file.name == name);
        if let Some(cut) = self.cut(name) {
            return cut.over(stored);
        }
        match (self.recovery_state, sealed, new) {
            (RecoveryState::Sealed, Some(of), _) => {
                let future = FutureFile {
                    name: name.into(),
                    len: self.state.file_length(of),
                    mtime: None,
                    content: FutureContent::Redo(Redo {
                        is_made: self.state.base().file(name).is_none(),
                        patches: self.state.patches_of(of).into(),
                        grown: None,
                        log: self.state.bytes(),
                    }),
                };
                future.over(stored)
            }
            (RecoveryState::PartlyPublished, _, Some((_, new))) => store.open(new),
            _ => stored,
        }
    }

    /// A file that a commit was making longer, as it was before.
    fn cut(&self, name: &str) -> Option<FutureFile> {
        let is_staged = self.recovery_state == RecoveryState::Staged;
        let base = self.state.base().file(name).filter(|_| is_staged)?;
        self.state.growing(name)?;
        Some(FutureFile {
            name: name.into(),
            len: base.size,
            mtime: None,
            content: FutureContent::Redo(Redo {
                is_made: false,
                patches: Arc::default(),
                grown: None,
                log: self.state.bytes(),
            }),
        })
    }
}

/// Carries out what the log of a container asks for. Returns the stage of the changes that are
/// still staged then; none if there are none. A log that does not fit is an error, and is kept;
/// unless `fits` says that it does, although it is of another version.
pub fn recover(
    (place, spot): (Arc<dyn LogPlace>, &LogSpot),
    left: &Leftover,
    memory: &Arc<LayerMemory>,
    fits: impl FnOnce(&LogState) -> Result<bool>,
) -> Result<Option<Arc<Stage>>> {
    match left.recovery_state {
        RecoveryState::Stale if left.state.pending().is_none() && fits(&left.state)? => {}
        RecoveryState::Stale | RecoveryState::Foreign => {
            undo(spot, &left.state, left.recovery_state)?;
            // The next commit of what is there now makes a file of the other name.
            keep_next(spot, &left.state)?;
            return Err(stale(spot, left));
        }
        RecoveryState::Staged
        | RecoveryState::Committed
        | RecoveryState::PartlyPublished
        | RecoveryState::Sealed => {}
    }
    // Locked from here on.
    let stage = Stage::recover(place, &left.state, Arc::clone(memory))?;
    match left.recovery_state {
        RecoveryState::Sealed => {
            redo(spot, &left.state)?;
            committed(spot, left, &stage)?;
        }
        RecoveryState::PartlyPublished => {
            go_forward(spot, &left.state)?;
            committed(spot, left, &stage)?;
        }
        RecoveryState::Committed => {
            sync_done(spot, &left.state)?;
            committed(spot, left, &stage)?;
        }
        RecoveryState::Staged => {
            keep_next(spot, &left.state)?;
            // A change by somebody else after that is none of the commit's.
            if cut_back(spot, &left.state)? {
                stage.sync_log()?;
            }
            stage.unfreeze(&mut to_nobody)?;
        }
        RecoveryState::Stale | RecoveryState::Foreign => {
            keep_next(spot, &left.state)?;
            stage.unfreeze(&mut to_nobody)?;
        }
    }
    remove_new(spot, needs_next(spot, left, &stage)?)?;
    match stage.is_clean() {
        true => stage.throw_away().map(|()| None),
        false => Ok(Some(stage)),
    }
}

/// Removes empty logs and a new file that a crash has left beside a container before its log could
/// mean anything. A log that is not believed stays, and so do the files that it may name.
pub fn clear(spot: &LogSpot) -> Result<()> {
    let mut is_cleared = true;
    for log in log_names(&spot.container) {
        match spot.store.stat(&spot.directory.join(&log)) {
            Err(e) if e.is_not_found() => continue,
            Err(e) => return Err(e),
            Ok(_) => {}
        }
        let is_empty = match read_log(&spot.of(), &log)? {
            FoundLog::Nothing => true,
            FoundLog::Foreign(_) => false,
            FoundLog::Held(state) => says_nothing(&state),
        };
        match is_empty {
            true => spot.disk.unlink(place(spot, &log))?,
            false => is_cleared = false,
        }
    }
    match is_cleared {
        true => remove_new(spot, false),
        false => Ok(()),
    }
}

/// Discards the stage. A commit that has begun to change files in place is completed before.
pub fn discard(spot: &LogSpot, left: &Leftover) -> Result<()> {
    let memory = LayerMemory::new(Budget::by_default());
    undo(spot, &left.state, left.recovery_state)?;
    let stage = Stage::recover(Arc::new(spot.clone()), &left.state, memory)?;
    match left.recovery_state {
        RecoveryState::Sealed => redo(spot, &left.state)?,
        RecoveryState::PartlyPublished => go_forward(spot, &left.state)?,
        RecoveryState::Committed => sync_done(spot, &left.state)?,
        RecoveryState::Staged => drop(cut_back(spot, &left.state)?),
        RecoveryState::Stale | RecoveryState::Foreign => {}
    }
    // The log goes before the file to which it refers.
    keep_next(spot, &left.state)?;
    remove_new(spot, true)?;
    stage.throw_away()
}

/// Where the log of a container lies: beside its file, or in the directory that it is.
pub fn spot_at(
    recognised: &Recognised,
    disk: Arc<dyn Disk>,
    store: Arc<dyn Store>,
    path: &Path,
) -> Result<LogSpot> {
    let (directory, name) = recognised.first_file(path).ok_or(Error::Unsuitable)?;
    let now = store.stat(&directory.join(&name))?;
    Ok(LogSpot {
        directory_id: store.stat(&directory)?.id,
        directory,
        files: recognised.file_names(&name),
        container: name,
        owner: Caller::of(now.uid, now.gid),
        disk,
        store,
    })
}

fn stale(spot: &LogSpot, left: &Leftover) -> Error {
    let name = left.state.name();
    let fault = Fault::new(format!(
        "{} holds changes of another version of the container: `arrayfs stage commit` applies them \
         if all lengths and types still agree, `arrayfs stage discard` removes them",
        name.to_string_lossy()
    ));
    let path = spot.directory.join(&spot.container);
    Error::from(fault.container(&spot.store.display(&path)))
}

/// The layer that was committed is the container's.
fn committed(spot: &LogSpot, left: &Leftover, stage: &Stage) -> Result<()> {
    let old = left.state.base();
    let mut names: Vec<&str> = old.files.iter().map(|file| &*file.name).collect();
    let new = replaced(&left.state).iter().map(|file| &*file.name);
    let new = new.chain(left.state.sealed().iter().map(|file| &*file.name));
    for name in new {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let file = |name: &&str| {
        let path = path_of(&spot.of(), name);
        let now = spot.store.stat(&path)?.file();
        Ok(BaseFile::new(name, now))
    };
    let base = Base {
        format: old.format.clone(),
        files: names.iter().map(file).collect::<Result<_>>()?,
    };
    let lens: Vec<u64> = match stage.frozen() {
        Some(frozen) => frozen.lens(),
        None => left.state.arrays().iter().map(|array| array.len).collect(),
    };
    remove_new(spot, needs_next(spot, left, stage)?)?;
    stage.committed(&stage.alone(), base, &lens, &mut to_nobody)?;
    stage.sync_log()
}

/// The files that a commit was about to replace.
pub(super) fn replaced(state: &LogState) -> &[NewFileRecord] {
    match state.pending() {
        Some(PendingCommit::Replacing { files, .. }) => files,
        _ => &[],
    }
}

/// Gives the new files their places that do not have them yet.
fn go_forward(spot: &LogSpot, state: &LogState) -> Result<()> {
    let of = spot.of();
    let mut swaps = Vec::new();
    for new in replaced(state) {
        if holder(&of, state, new)? != NameHolder::Old {
            continue;
        }
        let name = name_of(&spot.container, &new.name).to_owned();
        let seen = match spot.store.stat(&path_of(&of, &new.name)) {
            Err(e) if e.is_not_found() => None,
            other => Some(other?.file()),
        };
        swaps.push(Swap {
            new_name: new_name(&name),
            name,
            seen,
            new: spot.store.stat(&hidden_path_of(&of, &new.name))?.file(),
        });
    }
    let exchange = Exchange {
        disk: &*spot.disk,
        store: &spot.store,
        spot: &Spot {
            directory: spot.directory.clone(),
            id: spot.directory_id,
            name: spot.container.clone(),
        },
    };
    exchange.carry_out(&swaps, &|| {})
}

pub(super) fn place<'a>(spot: &'a LogSpot, name: &'a std::ffi::OsStr) -> Place<'a> {
    Place {
        directory: &spot.directory,
        id: spot.directory_id,
        name,
    }
}

pub(super) fn sync_names(spot: &LogSpot) -> Result<()> {
    let target = Target::Named {
        path: &spot.directory,
        id: spot.directory_id,
    };
    spot.disk.sync(target, false)
}

/// Whether what is staged lies in the next file, or another log may refer to it: one of an older
/// version, which is kept.
fn needs_next(spot: &LogSpot, left: &Leftover, stage: &Stage) -> Result<bool> {
    let layers = stage.layers();
    if layers.iter().any(|layer| layer.next_file().is_some()) {
        return Ok(true);
    }
    for log in log_names(&spot.container) {
        if log == left.state.name() {
            continue;
        }
        match spot.store.stat(&spot.directory.join(&log)) {
            Err(e) if e.is_not_found() => {}
            other => return other.map(|_| true),
        }
    }
    Ok(false)
}

/// Removes the files that commits have made, or replaced, and the next one unless it is kept.
fn remove_new(spot: &LogSpot, keeps_next: bool) -> Result<()> {
    let mut removed = false;
    // A log that was being written anew, too.
    let logs = log_names(&spot.container);
    let new = spot.files.iter().cloned().chain(logs);
    let new = new.map(|name| new_name(&name));
    let next = (!keeps_next).then(|| next_name(&spot.container));
    for new in new.chain(next) {
        match spot.store.stat(&spot.directory.join(&new)) {
            Err(e) if e.is_not_found() => continue,
            other => other?,
        };
        spot.disk.unlink(place(spot, &new))?;
        removed = true;
    }
    match removed {
        true => sync_names(spot),
        false => Ok(()),
    }
}
