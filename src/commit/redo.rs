//! Doing a sealed commit again from its log: whatever of it was done before, this gives the same files.
//!
//! Used by [`super::recovery`].

use super::in_place::STEP;
use super::new_files::put_all;
use super::standing::path_of;
use crate::disk::{Caller, DiskFile, NewAttributes, NewTime, Target};
use crate::error::Result;
use crate::source::Timestamp;
use crate::stage::log::SealedFile;
use crate::stage::{LogSpot, LogState};

/// All files of it, which are on the disk then.
pub(super) fn redo(spot: &LogSpot, state: &LogState) -> Result<()> {
    let mut files = state.sealed().iter();
    files.try_for_each(|sealed| redo_file(spot, state, sealed))
}

fn redo_file(spot: &LogSpot, state: &LogState, sealed: &SealedFile) -> Result<()> {
    let path = path_of(&spot.of(), &sealed.name);
    let now = spot.store.stat(&path)?;
    let file = spot.disk.open(&path, now.identity.id)?;
    let owner = Caller {
        uid: now.uid,
        gid: now.gid,
    };
    put_again(state, sealed, &*file, owner)?;
    if let Some(len) = state.file_length(sealed) {
        file.set_len(len, owner)?;
    }
    let target = Target::Open(file.source());
    if let Some((secs, nanos)) = sealed.mtime {
        let times = NewAttributes {
            mtime: Some(NewTime::At(Timestamp { secs, nanos })),
            ..NewAttributes::default()
        };
        match spot.disk.set_attributes(target, &times) {
            // Who began it could. The time that it has is as good.
            Err(e) if e.is_permission_denied() => log::warn!("{e}"),
            set => set?,
        }
    }
    spot.disk.sync(target, false)
}

fn put_again(
    state: &LogState,
    sealed: &SealedFile,
    file: &dyn DiskFile,
    owner: Caller,
) -> Result<()> {
    let mut buf = Vec::new();
    for redo in state.redo_of(sealed) {
        let mut done = 0;
        while done < redo.len {
            let n = STEP.min(redo.len - done);
            buf.resize(n as usize, 0);
            state.read_redo(redo, done, &mut buf)?;
            put_all(file, redo.offset + done, &buf, owner)?;
            done += n;
        }
    }
    Ok(())
}
