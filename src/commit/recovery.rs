//! What a log that was left behind means for the container beside it, and settling it.
//!
//! A log names the container that it belongs to by size and time. What the file is now says how far a commit got that did
//! not come to its end: [`look`] compares, and changes nothing. A writable mount and `arrayfs stage commit` then settle it
//! ([`settle`]); everything else reads through it ([`Left::layers`], [`Left::source`]). What does not fit is never applied.
//! Used by `tree` and by the commands.

use std::path::Path;
use std::sync::Arc;

use super::fingerprint::fingerprint;
use super::patched::{Patched, through_log};
use super::replaced::put_all;
use crate::array::Info;
use crate::container::rewrite::Rewrite;
use crate::container::{Container, Recognised};
use crate::disk::{Caller, Disk, NewAttributes, NewTime, Place, Target};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::source::{Source, Stat, Store, Timestamp};
use crate::stage::{
    Base, BaseFile, Layer, LogOf, LogSpot, LogState, Overlay, PendingCommit, Stage, StageMemory,
    StagedArray, log_name, new_name, read_log,
};

/// Bytes that are copied at once.
const STEP: u64 = 256 << 10;

/// A log, and how it stands to its container.
pub struct Left {
    state: LogState,
    standing: LogStanding,
}

/// How far what the log tells of has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStanding {
    /// What is staged lies above the container as it is.
    Staged,
    /// The commit that was under way has come to its end, but for tidying up.
    Committed,
    /// It has begun to change the file, or may have: it is to be done again from the log.
    Sealed,
    /// The container is another one: nothing of the log fits it.
    Stale,
    /// The new file has the container's name, and what had it before is not what was opened.
    Swapped,
}

/// What the log of a container means; none if there is no log, or nothing in it.
pub fn look(of: &LogOf<'_>, now: &Stat) -> Result<Option<Left>> {
    let Some(state) = read_log(of)? else {
        return Ok(None);
    };
    let standing = standing(of, now, &state)?;
    Ok(Some(Left { state, standing }))
}

fn standing(of: &LogOf<'_>, now: &Stat, state: &LogState) -> Result<LogStanding> {
    let Some(base) = state.base().files.first() else {
        return Ok(LogStanding::Stale);
    };
    let is_base = is_like(now, base.size, base.mtime());
    Ok(match state.pending() {
        Some(PendingCommit::Replacing {
            inode,
            birth,
            size,
            mtime,
            ..
        }) => {
            let id = now.identity.id;
            match (is_like(now, *size, *mtime), is_base) {
                // Who keeps times makes the two alike. In a copy neither is known: to apply what is staged twice does no harm.
                (true, true) if (id.inode, id.birth) != (*inode, *birth) => LogStanding::Staged,
                (true, _) => after_exchange(of, base)?,
                (false, true) => LogStanding::Staged,
                (false, false) => LogStanding::Stale,
            }
        }
        Some(PendingCommit::Sealed { times, .. }) => {
            // Its size and time are no sign that it is done: they may reach the disk before the bytes.
            let seems_done = times.first().is_some_and(|time| {
                let mtime = Timestamp {
                    secs: time.secs,
                    nanos: time.nanos,
                };
                is_like(now, final_len(state, base), mtime)
            });
            match is_base || seems_done || is_half_done(of, now, state, base)? {
                true => LogStanding::Sealed,
                false => LogStanding::Stale,
            }
        }
        None if is_base => LogStanding::Staged,
        None => LogStanding::Stale,
    })
}

fn is_like(now: &Stat, size: u64, mtime: Timestamp) -> bool {
    now.identity.size == size && now.identity.mtime == mtime
}

/// The new file is in place: what came out under its name must be what was opened.
fn after_exchange(of: &LogOf<'_>, base: &BaseFile) -> Result<LogStanding> {
    let path = of.directory.join(new_name(of.container));
    match of.store.stat(&path) {
        Ok(out) if is_like(&out, base.size, base.mtime()) => Ok(LogStanding::Committed),
        Ok(_) => Ok(LogStanding::Swapped),
        // Removed already.
        Err(e) if e.is_not_found() => Ok(LogStanding::Committed),
        Err(e) => Err(e),
    }
}

fn final_len(state: &LogState, base: &BaseFile) -> u64 {
    state
        .file_lengths()
        .last()
        .map_or(base.size, |&(_, len)| len)
}

/// Whether the file can be the old one with a part of the changes: what they leave alone is as it was.
fn is_half_done(of: &LogOf<'_>, now: &Stat, state: &LogState, base: &BaseFile) -> Result<bool> {
    let Some(PendingCommit::Sealed { times, .. }) = state.pending() else {
        return Ok(false);
    };
    let (size, new) = (now.identity.size, final_len(state, base));
    let highest = state
        .redo()
        .iter()
        .map(|redo| redo.offset.saturating_add(redo.len));
    let highest = highest.max().unwrap_or(0).max(base.size).max(new);
    if size < base.size.min(new) || size > highest {
        return Ok(false);
    }
    let source = of.store.open(&of.directory.join(of.container))?;
    let patches = state
        .redo()
        .iter()
        .map(|redo| redo.offset..redo.offset + redo.len);
    let found = fingerprint(&*source, patches.collect(), base.size.min(new))?;
    Ok(times.first().is_some_and(|time| time.untouched == found))
}

impl Left {
    pub fn standing(&self) -> LogStanding {
        self.standing
    }

    /// Bytes that are staged.
    pub fn bytes(&self) -> u64 {
        let layers = match self.standing {
            LogStanding::Stale | LogStanding::Swapped => self.state.layers(),
            _ => self.layers(),
        };
        let arrays = (0..self.state.arrays().len()).map(|n| StagedArray(n as u32));
        let changed = arrays.flat_map(|n| layers.iter().flat_map(move |layer| layer.changed(n)));
        changed.map(|range| range.end - range.start).sum()
    }

    /// What the log holds.
    pub fn state(&self) -> &LogState {
        &self.state
    }

    /// What is to be shown above the container's arrays, the top first.
    pub fn layers(&self) -> Vec<Arc<Layer>> {
        let mut layers = self.state.layers();
        // Of what lies below a layer that says nothing the log need not know the lengths.
        layers.retain(|layer| !layer.is_unchanged());
        match self.standing {
            LogStanding::Staged => {}
            // The one below is in the container.
            LogStanding::Committed | LogStanding::Sealed => {
                let committed = self.state.pending().map_or(0, PendingCommit::layer);
                layers.retain(|layer| layer.number() > committed);
            }
            LogStanding::Stale | LogStanding::Swapped => layers.clear(),
        }
        layers
    }

    /// The container's file as it will be when the commit has been done again.
    pub fn source(self: &Arc<Self>, stored: Arc<dyn Source>) -> Arc<dyn Source> {
        let base = self.state.base().files.first();
        match (self.standing, base) {
            (LogStanding::Sealed, Some(base)) => Arc::new(Patched::new(
                stored,
                Arc::clone(self),
                final_len(&self.state, base),
            )),
            _ => stored,
        }
    }
}

/// Opens a container as its log shows it: for who only reads.
pub fn open_through(
    recognised: &Recognised,
    store: &Arc<dyn Store>,
    path: &Path,
    budget: &Arc<Budget>,
) -> Result<Container> {
    let left = match left_at(recognised, &**store, path) {
        Ok(Some(left)) => left,
        Ok(None) => return recognised.open(store, path, budget),
        // The container is shown as it is.
        Err(e) => {
            log::warn!("{e}");
            return recognised.open(store, path, budget);
        }
    };
    let left = Arc::new(left);
    let through = through_log(store, path, &left);
    let mut container = recognised.open(&through, path, budget)?;
    let layers = left.layers();
    if layers.is_empty() {
        return Ok(container);
    }
    let rewrite = container.rewrite.clone();
    for (number, array) in container.arrays.iter_mut().enumerate() {
        let number = StagedArray(u32::try_from(number).unwrap_or(u32::MAX));
        let (name, rewrite) = (array.name().to_owned(), rewrite.clone());
        let overlay = Overlay::new(Arc::clone(array), layers.clone(), number);
        let reshape = move |info: &Info, len: u64| {
            let info_for = |rewrite: &Arc<dyn Rewrite>| rewrite.info(&name, len).ok();
            rewrite
                .as_ref()
                .and_then(info_for)
                .unwrap_or_else(|| info.clone())
        };
        *array = Arc::new(overlay.reshaped(Arc::new(reshape)));
    }
    Ok(container)
}

/// What lies beside a container, if it may have a log that means something. An error for one that is not believed.
pub fn left_at(recognised: &Recognised, store: &dyn Store, path: &Path) -> Result<Option<Left>> {
    let Some(name) = path.file_name().filter(|_| recognised.format.is_changed()) else {
        return Ok(None);
    };
    let directory = path.parent().unwrap_or(Path::new(""));
    match store.stat(&directory.join(log_name(name))) {
        Err(e) if e.is_not_found() => return Ok(None),
        _ => {}
    }
    let now = store.stat(path)?;
    let of = LogOf {
        store,
        directory,
        container: name,
        owner: now.uid,
    };
    look(&of, &now)
}

/// Carries out what the log of a container asks for. What is still staged then goes on being staged; none if nothing is. A log that
/// does not fit is an error, and stays; unless `fits` says that it does, although it is of another version.
pub fn settle(
    spot: &LogSpot,
    left: &Left,
    memory: &Arc<StageMemory>,
    fits: impl FnOnce(&LogState) -> Result<bool>,
) -> Result<Option<Arc<Stage>>> {
    match left.standing {
        LogStanding::Stale if left.state.pending().is_none() && fits(&left.state)? => {}
        LogStanding::Stale => return Err(stale(spot)),
        LogStanding::Swapped => {
            swap_back(spot)?;
            return Err(stale(spot));
        }
        LogStanding::Staged | LogStanding::Committed | LogStanding::Sealed => {}
    }
    // Locked from here on.
    let stage = Stage::recover(spot.clone(), &left.state, Arc::clone(memory))?;
    match left.standing {
        LogStanding::Sealed => {
            do_again(spot, &left.state)?;
            committed(spot, left, &stage)?;
        }
        LogStanding::Committed => committed(spot, left, &stage)?,
        _ => stage.thaw()?,
    }
    remove_new(spot)?;
    match stage.is_clean() {
        true => stage.discard().map(|()| None),
        false => Ok(Some(stage)),
    }
}

/// Removes what a crash has left beside a container before a log could mean anything: an empty one, and a new file. A log that is
/// not believed stays, and what it may tell of.
pub fn clear(spot: &LogSpot) -> Result<()> {
    let log = log_name(&spot.container);
    match spot.store.stat(&spot.directory.join(&log)) {
        Err(e) if e.is_not_found() => {}
        Err(e) => return Err(e),
        Ok(_) if read_log(&spot.of())?.is_some() => return Ok(()),
        Ok(_) => spot.disk.unlink(place(spot, &log))?,
    }
    match spot
        .store
        .stat(&spot.directory.join(new_name(&spot.container)))
    {
        Err(e) if e.is_not_found() => Ok(()),
        Err(e) => Err(e),
        Ok(_) => remove_new(spot),
    }
}

/// Throws away what is staged. What a commit has begun to change in place is brought to its end before.
pub fn discard(spot: &LogSpot, left: &Left) -> Result<()> {
    let memory = StageMemory::new(Budget::by_default());
    if left.standing == LogStanding::Swapped {
        swap_back(spot)?;
    }
    let stage = Stage::recover(spot.clone(), &left.state, memory)?;
    if left.standing == LogStanding::Sealed {
        do_again(spot, &left.state)?;
    }
    remove_new(spot)?;
    stage.discard()
}

/// Where the log of a container that is one file lies.
pub fn spot_at(disk: Arc<dyn Disk>, store: Arc<dyn Store>, path: &Path) -> Result<LogSpot> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let now = store.stat(path)?;
    Ok(LogSpot {
        directory_id: store.stat(directory)?.identity.id,
        directory: directory.to_owned(),
        container: path.file_name().ok_or(Error::Unsuitable)?.to_owned(),
        owner: Caller {
            uid: now.uid,
            gid: now.gid,
        },
        disk,
        store,
    })
}

fn stale(spot: &LogSpot) -> Error {
    let name = log_name(&spot.container);
    let fault = Fault::new(format!(
        "{} holds changes of another version of the container; `arrayfs stage` settles that",
        name.to_string_lossy()
    ));
    let path = spot.directory.join(&spot.container);
    Error::from(fault.container(&spot.store.display(&path)))
}

/// The layer that was committed is the container's.
fn committed(spot: &LogSpot, left: &Left, stage: &Stage) -> Result<()> {
    let path = spot.directory.join(&spot.container);
    let now = spot.store.stat(&path)?.identity;
    let base = Base {
        format: left.state.base().format.clone(),
        files: vec![BaseFile {
            name: String::new(),
            size: now.size,
            mtime_secs: now.mtime.secs,
            mtime_nanos: now.mtime.nanos,
        }],
    };
    let lens: Vec<u64> = match stage.frozen() {
        Some(frozen) => frozen.lens(),
        None => left.state.arrays().iter().map(|&(_, len)| len).collect(),
    };
    remove_new(spot)?;
    stage.committed(base, &lens)
}

/// Does the changes of a sealed commit, whether or not they were done before.
fn do_again(spot: &LogSpot, state: &LogState) -> Result<()> {
    let path = spot.directory.join(&spot.container);
    let id = spot.store.stat(&path)?.identity.id;
    let file = spot.disk.open(&path, id)?;
    let mut buf = Vec::new();
    for redo in state.redo() {
        let mut done = 0;
        while done < redo.len {
            let n = STEP.min(redo.len - done);
            buf.resize(n as usize, 0);
            state.read_redo(redo, done, &mut buf)?;
            put_all(&*file, redo.offset + done, &buf, spot.owner)?;
            done += n;
        }
    }
    for &(_, len) in state.file_lengths() {
        file.set_len(len, spot.owner)?;
    }
    let target = Target::Open(file.source());
    if let Some(PendingCommit::Sealed { times, .. }) = state.pending()
        && let Some(time) = times.first()
    {
        let mtime = NewTime::At(Timestamp {
            secs: time.secs,
            nanos: time.nanos,
        });
        let times = NewAttributes {
            mtime: Some(mtime),
            ..NewAttributes::default()
        };
        spot.disk.set_attributes(target, &times)?;
    }
    spot.disk.sync(target, false)
}

fn place<'a>(spot: &'a LogSpot, name: &'a std::ffi::OsStr) -> Place<'a> {
    Place {
        directory: &spot.directory,
        id: spot.directory_id,
        name,
    }
}

/// What came out of an exchange was somebody else's: it gets its name back.
fn swap_back(spot: &LogSpot) -> Result<()> {
    let new = new_name(&spot.container);
    let (ours, theirs) = (place(spot, &spot.container), place(spot, &new));
    spot.disk
        .rename(theirs, ours, crate::disk::Renaming::Exchange)?;
    spot.disk.unlink(theirs)
}

/// Removes the file that a commit made, or replaced.
fn remove_new(spot: &LogSpot) -> Result<()> {
    let new = new_name(&spot.container);
    match spot.disk.unlink(place(spot, &new)) {
        Err(e) if e.is_not_found() => Ok(()),
        Err(e) => Err(e),
        Ok(()) => spot.disk.sync(
            Target::Named {
                path: &spot.directory,
                id: spot.directory_id,
            },
            false,
        ),
    }
}
