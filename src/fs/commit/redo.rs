//! Putting redo records of a log into files, and carrying out a sealed commit again: however much
//! of it was done before, this gives the same files.
//!
//! Used by [`super::in_place`] and [`super::recovery`].

use std::ffi::OsStr;

use super::changed_file::{HIDDEN, finish_made};
use super::recovery::place;
use super::recovery_state::path_of;
use crate::disk::{Caller, DiskFile, NewAttributes, NewTime, Target};
use crate::error::Result;
use crate::source::Timestamp;
use crate::stage::log::{Patch, SealedFile};
use crate::stage::{LogSpot, LogState};

/// Bytes that are moved at once.
pub(super) const STEP: u64 = 256 << 10;

/// All files of it, which are on the disk then.
pub(super) fn redo(spot: &LogSpot, state: &LogState) -> Result<()> {
    let mut files = state.sealed().iter();
    files.try_for_each(|sealed| redo_file(spot, state, sealed))
}

/// Syncs the files of a sealed commit that are as it leaves them: the committer may have been
/// killed before they had reached the disk, and the log is about to go.
pub(super) fn sync_done(spot: &LogSpot, state: &LogState) -> Result<()> {
    state.sealed().iter().try_for_each(|sealed| {
        let path = path_of(&spot.of(), &sealed.name);
        let id = spot.store.stat(&path)?.id;
        spot.disk.sync(Target::Named { path: &path, id }, false)
    })
}

fn redo_file(spot: &LogSpot, state: &LogState, sealed: &SealedFile) -> Result<()> {
    let path = path_of(&spot.of(), &sealed.name);
    let is_new = state.base().file(&sealed.name).is_none();
    let first = spot.store.stat(&spot.directory.join(&spot.container))?;
    let (file, now) = match spot.store.stat(&path) {
        Err(e) if is_new && e.is_not_found() => {
            let place = place(spot, OsStr::new(&sealed.name));
            (spot.disk.create(place, HIDDEN, spot.owner)?, first.clone())
        }
        now => {
            let now = now?;
            (spot.disk.open(&path, now.id)?, now)
        }
    };
    let owner = Caller::of(now.uid, now.gid);
    put_patches(state.patches_of(sealed), (&*file, owner), &|at, out| {
        state.read_logged(at, out)
    })?;
    file.set_len(state.file_length(sealed), owner)?;
    let mtime = sealed.mtime;
    let mtime = mtime.map(|(secs, nanos)| Timestamp { secs, nanos });
    if is_new {
        let names = Target::Named {
            path: &spot.directory,
            id: spot.directory_id,
        };
        return finish_made(&*spot.disk, &*file, &first, mtime, names);
    }
    let target = Target::Open(file.source());
    if let Some(mtime) = mtime {
        let times = NewAttributes {
            mtime: Some(NewTime::At(mtime)),
            ..NewAttributes::default()
        };
        match spot.disk.set_attributes(target, &times) {
            // The committer could set it. The time that the file has is as good.
            Err(e) if e.is_permission_denied() => log::warn!("{e}"),
            set => set?,
        }
    }
    spot.disk.sync(target, false)
}

/// Puts bytes of a log into a file. `logged` reads them.
pub(super) fn put_patches(
    patches: &[Patch],
    (file, owner): (&dyn DiskFile, Caller),
    logged: &dyn Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut buf = Vec::new();
    for patch in patches {
        let mut from = patch.logged.start;
        while from < patch.logged.end {
            buf.resize(STEP.min(patch.logged.end - from) as usize, 0);
            logged(from, &mut buf)?;
            file.put_all(patch.at + (from - patch.logged.start), &buf, owner)?;
            from += buf.len() as u64;
        }
    }
    Ok(())
}
