//! Undoing a commit of which some new files have taken their places, and which another process has
//! made impossible to complete.
//!
//! The old files lie under the hidden names, so the container can be what it was, but for the files
//! that the other process has changed, which are never touched. Used by [`super::recovery`].

use super::recovery::{place, replaced, sync_names};
use super::recovery_state::{
    NameHolder, RecoveryState, came_out, hidden_path_of, holder, is_new, is_torn, name_of,
};
use super::taken_next::keep_next;
use crate::disk::Renaming;
use crate::error::Result;
use crate::stage::{LogSpot, LogState, new_name};

/// Undoes a commit that can neither be completed nor stay as it is.
pub(super) fn undo(spot: &LogSpot, state: &LogState, recovery_state: RecoveryState) -> Result<()> {
    let is_to_be_undone = match recovery_state {
        RecoveryState::Foreign => true,
        RecoveryState::Stale => is_torn(&spot.of(), state)?,
        _ => false,
    };
    match is_to_be_undone {
        true => take_back(spot, state),
        false => Ok(()),
    }
}

/// Gives the names that new files have got back to the files that had them: the file that came out
/// of one exchange was another process's, or another process has changed the container when only
/// some had been made. Its files come last: until then a crash leaves a state that is recognised as
/// this one.
fn take_back(spot: &LogSpot, state: &LogState) -> Result<()> {
    let (of, mut written_here, mut theirs) = (spot.of(), Vec::new(), Vec::new());
    for file in replaced(state) {
        if holder(&of, state, file)? == NameHolder::New {
            match came_out(&of, state, file)? {
                NameHolder::Other => theirs.push(file),
                NameHolder::Old | NameHolder::New => written_here.push(file),
            }
        }
    }
    for file in written_here.into_iter().chain(theirs) {
        let name = name_of(&spot.container, &file.name);
        let hidden = new_name(name);
        let (now, other) = (place(spot, name), place(spot, &hidden));
        match spot.store.stat(&spot.directory.join(&hidden)) {
            Ok(_) => spot.disk.rename(other, now, Renaming::Exchange)?,
            // There was none of this name.
            Err(e) if e.is_not_found() && state.base().file(&file.name).is_none() => {
                spot.disk.rename(now, other, Renaming::NoReplace)?;
            }
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e),
        }
    }
    sync_names(spot)?;
    for file in replaced(state) {
        let hidden = hidden_path_of(&of, &file.name);
        match spot.store.stat(&hidden) {
            // What is staged may lie in it.
            Ok(now) if is_new(&now, file) && state.next_was_taken() => keep_next(spot, state)?,
            Ok(now) if is_new(&now, file) => {
                let name = new_name(name_of(&spot.container, &file.name));
                spot.disk.unlink(place(spot, &name))?;
            }
            Ok(_) => {}
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
