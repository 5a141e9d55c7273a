//! What a mount leaves, or would lose, in lines for who unmounts it: found in what its daemon says
//! of itself.
//!
//! Used by [`super`].

use super::super::counted::{counted, verb};
use super::super::failure::{CommandResult, Failure};
use super::super::{output, size};
use crate::daemon::mount_table::Mounted;
use crate::scratch::{STAYS_LOGGED, UNMERGED};
use crate::tree::COMES_BACK;
use crate::tree::mount_status::{HeldBackStatus, MountStatus, StagedStatus, UNSTORED};

/// What a mount leaves to the next one, or to `arrayfs stage`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfinished {
    Nothing,
    Staged,
}

/// What is held back in the daemon and cannot be stored would be lost with it.
pub(super) fn refuse_unstored(mounted: &Mounted, held: &HeldBackStatus) -> CommandResult {
    let lines = held.failed.iter().map(|file| file.line(UNSTORED));
    match name_all(lines, held.failed_unlisted, ["cannot be stored"; 2]) {
        false => Ok(()),
        true => {
            let path = mounted.mountpoint.display();
            Err(Failure::new(format!(
                "{path} is not unmounted: make room, or remove those files, and try again; to unmount it \
                 nevertheless, and lose what is not stored: umount {path}"
            )))
        }
    }
}

/// What is staged and in no log would be lost, too.
pub(super) fn refuse_unlogged(mounted: &Mounted, status: &MountStatus) -> CommandResult {
    let staged = status.staged.iter();
    let named = staged.filter(|staged| name_unlogged(staged)).count();
    if named == 0 {
        return Ok(());
    }
    let path = mounted.mountpoint.display();
    Err(Failure::new(format!(
        "{path} is not unmounted: make room, or discard what was written (arrayfs stage discard), and try \
         again; to unmount it nevertheless, and lose what is in no log: umount {path}"
    )))
}

/// Says whether anything is.
fn name_unlogged(staged: &StagedStatus) -> bool {
    let Some(unlogged) = &staged.unlogged else {
        return false;
    };
    let (path, why) = (&staged.path, &unlogged.why);
    if unlogged.arrays.is_empty() {
        output::complain(format!("{path}: what was written may be in no log: {why}"));
    }
    for array in &unlogged.arrays {
        let (array, bytes) = (&array.array, size::show(array.bytes));
        output::complain(format!(
            "{path}: {array}: {bytes} that were written are in no log: {why}"
        ));
    }
    if let more @ 1.. = unlogged.arrays_unlisted {
        let (arrays, are) = (counted(more, "more array"), verb(more, "is", "are"));
        output::complain(format!("{path}: {arrays} {are} not all in a log"));
    }
    true
}

const KEEPS: [&str; 2] = ["keeps its log", "keep their logs"];

/// A line for each file that keeps its log; says whether some had to although all were to be
/// merged.
pub(super) fn name_logged(held: &HeldBackStatus) -> Unfinished {
    let logged = held.logged.iter();
    let logged = logged.map(|path| format!("{path}: {STAYS_LOGGED}"));
    name_all(logged, held.logged_unlisted, KEEPS);
    let unmerged = held.unmerged.iter().map(|file| file.line(UNMERGED));
    match name_all(unmerged, held.unmerged_unlisted, KEEPS) {
        true => Unfinished::Staged,
        false => Unfinished::Nothing,
    }
}

/// A line for each file of a list, and one for those that it has no room for: `more` is what one of
/// them does, or several. Says whether there are any.
fn name_all(lines: impl ExactSizeIterator<Item = String>, unlisted: u64, more: [&str; 2]) -> bool {
    let any = lines.len() > 0 || unlisted > 0;
    lines.for_each(output::complain);
    if unlisted > 0 {
        let files = counted(unlisted, "more file");
        let does = verb(unlisted, more[0], more[1]);
        output::complain(format!("{files} {does}"));
    }
    any
}

/// What new containers could not keep of what was copied into them.
pub(super) fn name_not_kept(status: &MountStatus) {
    status.not_kept.iter().for_each(output::complain);
    if let more @ 1.. = status.not_kept_unlisted {
        output::complain(format!(
            "{} {} not kept: the log of the mount has the names",
            counted(more, "more thing"),
            verb(more, "was", "were")
        ));
    }
}

/// A line for each container of which something stays staged.
pub(super) fn name_staged(status: &MountStatus) -> Unfinished {
    for path in &status.half_removed {
        output::complain(format!("{path}: {COMES_BACK}"));
    }
    if let more @ 1.. = status.half_removed_unlisted {
        let arrays = counted(more, "more array");
        output::complain(format!("{arrays}: {COMES_BACK}"));
    }
    for StagedStatus { path, why, .. } in &status.staged {
        let why = why.as_deref().unwrap_or_default();
        output::complain(format!("{path}: stays staged: {why}"));
    }
    let unlisted = status.staged_unlisted;
    if unlisted > 0 {
        let containers = counted(unlisted, "more container");
        let stay = verb(unlisted, "stays", "stay");
        output::complain(format!("{containers} {stay} staged"));
    }
    match status.staged.is_empty() && unlisted == 0 {
        true => Unfinished::Nothing,
        false => Unfinished::Staged,
    }
}
