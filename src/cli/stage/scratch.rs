//! `arrayfs stage` for scratch stores: logs of files that no mount has merged yet, and what a
//! scratch mount holds back.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::super::counted::counted;
use super::{FoundContainer, StagedContainerFile, print};
use crate::cli::args::StageCommand;
use crate::cli::failure::{CommandResult, Failure};
use crate::cli::in_mount::InMount;
use crate::cli::{output, status};
use crate::error::Error;
use crate::scratch;
use crate::tree::mount_status::{HeldBackStatus, UNSTORED};
use crate::tree::xattr::APPLY;

/// Bytes of the log that a stored file has; none if it has no log.
pub(super) fn left_log(found: &FoundContainer) -> Result<Option<u64>, Error> {
    match found.recognised.format.name() {
        "bloscpack" => scratch::left_log(&*found.store.open(&found.path)?),
        _ => Ok(None),
    }
}

/// Merges a file's log.
pub(super) fn merge(found: &StagedContainerFile) -> Result<(), Failure> {
    let container = &found.container;
    let (store, disk) = (Arc::clone(&container.store), container.disk()?);
    let merged = scratch::merge_log(store, disk, &container.path);
    Ok(merged.map_err(|e| e.of_container(&container.shown()))?)
}

/// What a log has was synced, and nobody but its program can say that it is not wanted.
pub(super) fn refuse_discard(found: &StagedContainerFile) -> Failure {
    let shown = found.container.shown();
    Failure::new(format!(
        "{}: its log has what a program has synced; merge it (arrayfs stage commit), or remove the file",
        shown.display()
    ))
}

/// In a scratch mount, or in its store.
pub(super) fn served(command: &StageCommand, mountpoint: &Path) -> CommandResult {
    match command {
        StageCommand::Ls { json, .. } => list(mountpoint, *json),
        StageCommand::Commit { .. } => commit(mountpoint),
        StageCommand::Discard { path } => Err(Failure::new(format!(
            "{}: in a scratch mount nothing is staged: what was written is the file",
            path.display()
        ))),
    }
}

fn list(mountpoint: &Path, json: bool) -> CommandResult {
    let held = held_there(mountpoint)?;
    let (files, bytes) = (held.files, held.bytes);
    let all = match files {
        0 => Vec::new(),
        _ => {
            let state = format!("{} to be stored", counted(files, "file"));
            vec![(mountpoint.to_owned(), bytes, state)]
        }
    };
    output::print(|out| print(out, &all, json))
}

fn commit(mountpoint: &Path) -> CommandResult {
    let before = held_there(mountpoint)?.files;
    if let Some(root) = InMount::at(mountpoint)? {
        root.ask(APPLY)?;
    }
    let after = held_there(mountpoint)?;
    let lines = after.failed.iter().map(|file| file.line(UNSTORED));
    lines.for_each(output::complain);
    let at = mountpoint.display();
    output::print(|out| match before.saturating_sub(after.files) {
        0 => writeln!(out, "nothing staged"),
        files => writeln!(out, "{at}: {files} stored"),
    })?;
    match after.failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::silent()),
    }
}

/// What the daemon says that it holds back.
fn held_there(mountpoint: &Path) -> Result<HeldBackStatus, Failure> {
    let status = status::of(mountpoint).map_err(|e| {
        Failure::new(format!(
            "{}: {}",
            mountpoint.display(),
            status::describe(&e)
        ))
    })?;
    Ok(status.held_back.unwrap_or_default())
}
