//! `arrayfs stage`: changes of arrays that a mount has left uncommitted, without a mount.
//!
//! They lie in logs beside their containers. Committing and discarding need the log's lock: what a mount has staged
//! is its own.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::args::StageCommand;
use super::container::{FoundContainer, walk};
use super::{CommandResult, Failure, output, size};
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::commit::recovery::{Left, LogStanding, discard, left_at, spot_at};
use crate::container::Preferences;
use crate::disk::Disk;
use crate::disk::local::LocalDisk;
use crate::error::Error;
use crate::memory::limit::default_limit;
use crate::tree::{Settings, Tree};

/// A container with a log.
struct StagedContainerFile {
    container: FoundContainer,
    left: Left,
}

pub(super) fn run(command: &StageCommand, preferences: Preferences) -> CommandResult {
    match command {
        StageCommand::Ls { json, path } => list(path, preferences, *json),
        StageCommand::Commit { path } => each(path, preferences, "committed", commit),
        StageCommand::Discard { path } => each(path, preferences, "discarded", throw_away),
    }
}

/// Containers at or below a path that have something staged.
fn find(
    path: &Path,
    preferences: Preferences,
) -> Result<(Vec<StagedContainerFile>, Vec<Error>), Failure> {
    let (mut containers, mut errors) = (Vec::new(), Vec::new());
    let mut failed = |e| errors.push(e);
    walk(path, preferences, &mut failed, &mut |found| {
        containers.push(found);
    })?;
    let mut found = Vec::new();
    for container in containers {
        match left_at(&container.recognised, &*container.store, &container.path) {
            Ok(Some(left)) => found.push(StagedContainerFile { container, left }),
            Ok(None) => {}
            Err(e) => errors.push(e),
        }
    }
    Ok((found, errors))
}

fn list(path: &Path, preferences: Preferences, json: bool) -> CommandResult {
    let (found, errors) = find(path, preferences)?;
    let of = |found: &StagedContainerFile| {
        (
            found.container.shown(),
            found.left.bytes(),
            standing(&found.left),
        )
    };
    let all: Vec<_> = found.iter().map(of).collect();
    output::print(|out| {
        if json {
            let each = all.iter().map(|(path, bytes, standing)| {
                json!({ "path": output::path_text(path), "bytes": bytes, "state": standing })
            });
            serde_json::to_writer_pretty(&mut *out, &each.collect::<Vec<_>>())?;
            return writeln!(out);
        }
        if all.is_empty() {
            return writeln!(out, "nothing staged");
        }
        all.iter().try_for_each(|(path, bytes, standing)| {
            let (path, bytes) = (output::path_text(path), size::show(*bytes));
            writeln!(out, "{path}  {bytes}  {standing}")
        })
    })?;
    errors.iter().for_each(output::complain);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::silent()),
    }
}

fn standing(left: &Left) -> &'static str {
    match left.standing() {
        LogStanding::Staged => "staged",
        LogStanding::Committed => "committed, to be tidied up",
        LogStanding::Sealed => "being committed",
        LogStanding::Stale | LogStanding::Swapped => "of another version of the container",
    }
}

fn each(
    path: &Path,
    preferences: Preferences,
    done: &str,
    settle: fn(&StagedContainerFile) -> Result<(), Failure>,
) -> CommandResult {
    let (found, errors) = find(path, preferences)?;
    errors.iter().for_each(output::complain);
    let mut failed = !errors.is_empty();
    let mut settled = Vec::new();
    for found in &found {
        match settle(found) {
            Ok(()) => settled.push(found.container.shown()),
            Err(failure) => {
                output::complain(&failure.message);
                failed = true;
            }
        }
    }
    output::print(|out| {
        if settled.is_empty() && !failed {
            writeln!(out, "nothing staged")?;
        }
        let mut settled = settled.iter();
        settled.try_for_each(|path| writeln!(out, "{}: {done}", output::path_text(path)))
    })?;
    match failed {
        true => Err(Failure::silent()),
        false => Ok(()),
    }
}

/// By a tree that shows nothing but this container, and nobody sees.
fn commit(found: &StagedContainerFile) -> Result<(), Failure> {
    let store = Arc::clone(&found.container.local);
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(Arc::clone(&store)));
    let failed = |e: std::io::Error| Failure::new(format!("cannot start a thread: {e}"));
    let workers = ReadAheadWorkers::new(1).map_err(failed)?;
    let settings = Settings {
        preferences: found.container.recognised.preferences,
        settles_stale: true,
        ..Settings::default()
    };
    let cache = BlockCache::new(default_limit());
    let (tree, _nobody) = Tree::new(
        store,
        Some(disk),
        &found.container.path,
        cache,
        workers,
        settings,
    )?;
    tree.commit_left()?;
    match tree.commit_all().into_iter().next() {
        Some((path, why)) => Err(Failure::new(format!(
            "{}: stays staged: {why}",
            path.display()
        ))),
        None => Ok(()),
    }
}

fn throw_away(found: &StagedContainerFile) -> Result<(), Failure> {
    let store = Arc::clone(&found.container.local);
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(Arc::clone(&store)));
    let spot = spot_at(disk, store, &found.container.path)?;
    Ok(discard(&spot, &found.left)?)
}
