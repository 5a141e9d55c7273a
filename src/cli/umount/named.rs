//! What a mount leaves, or would lose, in lines for who unmounts it: found in what its daemon says
//! of itself.
//!
//! Used by [`super`].

use serde_json::Value;

use super::super::counted::{counted, verb};
use super::super::{CommandResult, Failure, output, size};
use crate::daemon::mount_table::Mounted;
use crate::scratch::{STAYS_LOGGED, UNMERGED};
use crate::tree::COMES_BACK;

/// What a mount leaves to the next one, or to `arrayfs stage`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfinished {
    Nothing,
    Staged,
}

/// What is held back in the daemon and cannot be stored would be lost with it.
pub(super) fn refuse_unstored(mounted: &Mounted, held: &Value) -> CommandResult {
    let line = |path: &str, why: &str| format!("{path}: not all of it can be stored: {why}");
    match name_files(held, "failed", line, ["cannot be stored"; 2]) {
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
pub(super) fn refuse_unlogged(mounted: &Mounted, status: &Value) -> CommandResult {
    let staged = status["staged"].as_array().into_iter().flatten();
    let unlogged: Vec<&Value> = staged
        .filter(|staged| staged["unlogged"].is_object())
        .collect();
    if unlogged.is_empty() {
        return Ok(());
    }
    unlogged.into_iter().for_each(name_unlogged);
    let path = mounted.mountpoint.display();
    Err(Failure::new(format!(
        "{path} is not unmounted: make room, or discard what was written (arrayfs stage discard), and try \
         again; to unmount it nevertheless, and lose what is in no log: umount {path}"
    )))
}

fn name_unlogged(staged: &Value) {
    let unlogged = &staged["unlogged"];
    let path = staged["path"].as_str().unwrap_or_default();
    let why = unlogged["why"].as_str().unwrap_or_default();
    let arrays: Vec<&Value> = unlogged["arrays"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    if arrays.is_empty() {
        output::complain(format!("{path}: what was written may be in no log: {why}"));
    }
    for array in arrays {
        let bytes = size::show(array["bytes"].as_u64().unwrap_or(0));
        let array = array["array"].as_str().unwrap_or_default();
        output::complain(format!(
            "{path}: {array}: {bytes} that were written are in no log: {why}"
        ));
    }
    if let Some(more @ 1..) = unlogged["arrays_unlisted"].as_u64() {
        let (arrays, are) = (counted(more, "more array"), verb(more, "is", "are"));
        output::complain(format!("{path}: {arrays} {are} not all in a log"));
    }
}

const KEEPS: [&str; 2] = ["keeps its log", "keep their logs"];

/// A line for each file that keeps its log; says whether some had to although all were to be
/// merged.
pub(super) fn name_logged(held: &Value) -> Unfinished {
    name_files(
        held,
        "logged",
        |path, _| format!("{path}: {STAYS_LOGGED}"),
        KEEPS,
    );
    let line = |path: &str, why: &str| format!("{path}: {UNMERGED}: {why}");
    match name_files(held, "unmerged", line, KEEPS) {
        true => Unfinished::Staged,
        false => Unfinished::Nothing,
    }
}

/// A line for each file of a list, and one for those that it has no room for: `more` is what one of
/// them does, or several. Says whether there are any.
fn name_files(
    held: &Value,
    list: &str,
    line: impl Fn(&str, &str) -> String,
    more: [&str; 2],
) -> bool {
    let files: Vec<&Value> = held[list].as_array().into_iter().flatten().collect();
    for file in &files {
        let text = |name: &str| file[name].as_str().or(file.as_str()).unwrap_or_default();
        output::complain(line(text("path"), text("why")));
    }
    let unlisted = held[format!("{list}_unlisted")].as_u64().unwrap_or(0);
    if unlisted > 0 {
        let (files, does) = (
            counted(unlisted, "more file"),
            verb(unlisted, more[0], more[1]),
        );
        output::complain(format!("{files} {does}"));
    }
    !files.is_empty() || unlisted > 0
}

/// What new containers could not keep of what was copied into them.
pub(super) fn name_not_kept(status: &Value) {
    let lines = status["not_kept"].as_array().into_iter().flatten();
    for line in lines.filter_map(Value::as_str) {
        output::complain(line.to_owned());
    }
    match status["not_kept_unlisted"].as_u64() {
        None | Some(0) => {}
        Some(more) => output::complain(format!(
            "{} {} not kept: the log of the mount has the names",
            counted(more, "more thing"),
            verb(more, "was", "were")
        )),
    }
}

/// A line for each container of which something stays staged.
pub(super) fn name_staged(status: &Value) -> Unfinished {
    let staged: Vec<&Value> = status["staged"].as_array().into_iter().flatten().collect();
    for removed in status["half_removed"].as_array().into_iter().flatten() {
        let path = removed.as_str().unwrap_or_default();
        output::complain(format!("{path}: {COMES_BACK}"));
    }
    if let Some(more @ 1..) = status["half_removed_unlisted"].as_u64() {
        let arrays = counted(more, "more array");
        output::complain(format!("{arrays}: {COMES_BACK}"));
    }
    for staged in &staged {
        let text = |name: &str| staged[name].as_str().unwrap_or_default();
        let (path, why) = (text("path"), text("why"));
        output::complain(format!("{path}: stays staged: {why}"));
    }
    let unlisted = status["staged_unlisted"].as_u64().unwrap_or(0);
    if unlisted > 0 {
        let containers = counted(unlisted, "more container");
        let stay = verb(unlisted, "stays", "stay");
        output::complain(format!("{containers} {stay} staged"));
    }
    match staged.is_empty() && unlisted == 0 {
        true => Unfinished::Nothing,
        false => Unfinished::Staged,
    }
}
