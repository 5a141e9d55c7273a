//! `arrayfs stage`: changes of arrays that are not committed. Here: those that a mount has left;
//! [`served`]: those of a mount; [`scratch`]: those of scratch stores.
//!
//! They lie in logs beside their containers, those of new containers in directories of drafts.
//! Committing and discarding need the lock of the directory as a source, which a log is content to
//! share, and that of the log: what a mount has staged is its own.

mod scratch;
mod served;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::args::StageCommand;
use super::container::{FoundContainer, walk_beside};
use super::failure::{CommandResult, Failure};
use super::given_path::real;
use super::in_mount::InMount;
use super::orphan_logs::{OrphanLog, find_orphans};
use super::{output, size, status};
use crate::cache::BlockCache;
use crate::commit::drafts::{DraftsState, LeftoverDrafts, left_drafts};
use crate::commit::found_logs::{LogBeside, logs_at};
use crate::commit::recovery::{Leftover, RecoveryState, discard, spot_at};
use crate::commit::tidy::remove_directory;
use crate::container::Preferences;
use crate::daemon::source_lock::{self, Refusal, SourceLock};
use crate::error::{Error, plain};
use crate::live::unmounted::recover_and_commit;
use crate::memory::budget::Budget;
use crate::memory::limit::default_limit;

/// What a mount has left somewhere.
enum StagedThing {
    Container(Box<StagedContainerFile>),
    Orphan(OrphanLog),
}

/// A container with a log, or one that is new.
struct StagedContainerFile {
    container: FoundContainer,
    left: LeftoverChanges,
}

/// What a mount has left.
enum LeftoverChanges {
    Log(Box<Leftover>),
    Drafts(LeftoverDrafts),
    /// A scratch mount's log, in the file itself: its bytes.
    InFile(u64),
}

/// What is done to what a mount has left of a container.
type StageAction = fn(&StagedThing) -> Result<(), Failure>;

pub(super) fn run(command: &StageCommand, preferences: Preferences) -> CommandResult {
    let (path, action): (_, Option<StageAction>) = match command {
        StageCommand::Ls { path, .. } => (path, None),
        StageCommand::Commit { path } => (path, Some(commit)),
        StageCommand::Discard { path } => (path, Some(throw_away)),
    };
    if let Some(place) = InMount::written_at(path)?.filter(|place| place.mounted.writable) {
        return match status::is_of_scratch(&place.mounted.mountpoint) {
            true => scratch::served(command, &place.mounted.mountpoint),
            false => served::run(command, &place, preferences, action),
        };
    }
    match command {
        StageCommand::Ls { json, path } => list(path, preferences, *json),
        StageCommand::Commit { path } => each(path, preferences, "committed", commit),
        StageCommand::Discard { path } => each(path, preferences, "discarded", throw_away),
    }
}

impl StagedThing {
    fn shown(&self) -> PathBuf {
        match self {
            StagedThing::Container(found) => found.container.shown(),
            StagedThing::Orphan(log) => log.shown(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            StagedThing::Container(found) => bytes(found),
            StagedThing::Orphan(log) => log.bytes(),
        }
    }

    fn recovery_state(&self) -> String {
        match self {
            StagedThing::Container(found) => recovery_state(&found.left).to_owned(),
            StagedThing::Orphan(log) => format!("of {}, which is not there", log.container()),
        }
    }
}

/// Containers and orphans at or below a path, and what could not be looked at.
struct Search {
    containers: Vec<FoundContainer>,
    orphans: Vec<OrphanLog>,
    errors: Vec<Error>,
}

fn find(path: &Path, preferences: Preferences) -> Result<Search, Failure> {
    let (mut containers, mut errors) = (Vec::new(), Vec::new());
    let mut failed = |e| errors.push(e);
    let orphans = find_orphans(path, preferences, &mut failed)?;
    let walked = walk_beside(path, preferences, &mut failed, &mut |found| {
        containers.extend(found.container());
    });
    // The path of a log whose container is gone is that of no container.
    if orphans.is_empty() {
        walked?;
    }
    Ok(Search {
        containers,
        orphans,
        errors,
    })
}

/// What is staged, one after the other: as long as a container is looked at, its logs are open.
fn staged(
    containers: Vec<FoundContainer>,
    orphans: Vec<OrphanLog>,
) -> impl Iterator<Item = Result<StagedThing, Error>> {
    let of_container = |container: FoundContainer| {
        let left = left_of(&container).unwrap_or_else(|e| vec![Err(e)]);
        left.into_iter().map(move |left| {
            let container = container.clone();
            let file = StagedContainerFile {
                container,
                left: left?,
            };
            Ok(StagedThing::Container(Box::new(file)))
        })
    };
    let containers = containers.into_iter().flat_map(of_container);
    containers.chain(orphans.into_iter().map(|log| Ok(StagedThing::Orphan(log))))
}

fn left_of(container: &FoundContainer) -> Result<Vec<Result<LeftoverChanges, Error>>, Error> {
    let (recognised, store, path) = (&container.recognised, &*container.store, &container.path);
    let logs = logs_at(recognised, store, path)?.into_all().into_iter();
    let of_log = |log| match log {
        LogBeside::Leftover(left) => Ok(LeftoverChanges::Log(left)),
        LogBeside::Foreign(e) | LogBeside::Unreadable(e) => Err(e),
    };
    let mut found: Vec<_> = logs.map(of_log).collect();
    if found.is_empty() {
        let drafts = left_drafts(recognised, store, path, &Budget::by_default())?;
        let drafts =
            drafts.filter(|left| left.recovery_state != DraftsState::New || !left.is_empty);
        found.extend(drafts.map(|drafts| Ok(LeftoverChanges::Drafts(drafts))));
    }
    let in_file = scratch::left_log(container)?;
    found.extend(in_file.map(|bytes| Ok(LeftoverChanges::InFile(bytes))));
    Ok(found)
}

/// Bytes that are staged.
fn bytes(found: &StagedContainerFile) -> u64 {
    match &found.left {
        LeftoverChanges::Log(left) => left.bytes(),
        LeftoverChanges::InFile(bytes) => *bytes,
        LeftoverChanges::Drafts(left) => {
            let (store, mut bytes) = (&found.container.store, 0);
            // Drafts that cannot be read are reported when they are packed or discarded.
            let _ = store.list_stats(&left.path, &mut |_, stat| bytes += stat.size);
            bytes
        }
    }
}

fn list(path: &Path, preferences: Preferences, json: bool) -> CommandResult {
    let mut search = find(path, preferences)?;
    let mut all = Vec::new();
    for found in staged(search.containers, search.orphans) {
        match found {
            Ok(found) => all.push((found.shown(), found.bytes(), found.recovery_state())),
            Err(e) => search.errors.push(e),
        }
    }
    let errors = search.errors;
    // What could not be looked at may be staged.
    if json || errors.is_empty() || !all.is_empty() {
        output::print(|out| print(out, &all, json))?;
    }
    errors.iter().for_each(output::complain);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::silent()),
    }
}

/// Where something is staged, how many bytes, and what it is.
fn print(out: &mut impl Write, all: &[(PathBuf, u64, String)], json: bool) -> std::io::Result<()> {
    if json {
        let each = all.iter().map(
            |(path, bytes, state)| json!({ "path": output::path_text(path), "bytes": bytes, "state": state }),
        );
        serde_json::to_writer_pretty(&mut *out, &each.collect::<Vec<_>>())?;
        return writeln!(out);
    }
    if all.is_empty() {
        return writeln!(out, "nothing staged");
    }
    all.iter().try_for_each(|(path, bytes, state)| {
        let (path, bytes) = (output::path_text(path), size::show(*bytes));
        writeln!(out, "{path}  {bytes}  {state}")
    })
}

fn recovery_state(left: &LeftoverChanges) -> &'static str {
    let left = match left {
        LeftoverChanges::Log(left) => left,
        LeftoverChanges::InFile(_) => return "synced in a scratch mount, not merged",
        LeftoverChanges::Drafts(left) => {
            return match left.recovery_state {
                DraftsState::New => "new, not packed yet",
                DraftsState::Packed => "committed, to be tidied up",
                DraftsState::Foreign => "of another version of the container",
            };
        }
    };
    match left.recovery_state() {
        RecoveryState::Staged => "staged",
        RecoveryState::Committed => "committed, to be tidied up",
        RecoveryState::Sealed | RecoveryState::PartlyPublished => "being committed",
        RecoveryState::Stale | RecoveryState::Foreign => "of another version of the container",
    }
}

fn each(
    path: &Path,
    preferences: Preferences,
    done: &str,
    action: fn(&StagedThing) -> Result<(), Failure>,
) -> CommandResult {
    let search = find(path, preferences)?;
    search.errors.iter().for_each(output::complain);
    let mut failed = !search.errors.is_empty();
    let mut acted_on = Vec::new();
    for found in staged(search.containers, search.orphans) {
        let done = found.map_err(Failure::from).and_then(|found| {
            action(&found)?;
            Ok(found.shown())
        });
        match done {
            Ok(path) => acted_on.push(path),
            Err(failure) => {
                output::complain(&failure.message);
                failed = true;
            }
        }
    }
    output::print(|out| {
        if acted_on.is_empty() && !failed {
            writeln!(out, "nothing staged")?;
        }
        let mut acted_on = acted_on.iter();
        acted_on.try_for_each(|path| writeln!(out, "{}: {done}", output::path_text(path)))
    })?;
    match failed {
        true => Err(Failure::silent()),
        false => Ok(()),
    }
}

/// What a mount has staged, or shows as new, is its own as long as it is mounted. Among commands a
/// log has a lock of its own.
fn lock(found: &StagedContainerFile) -> Result<SourceLock, Failure> {
    let shown = found.container.shown();
    let failed = |why: String| Failure::new(format!("{}: {why}", shown.display()));
    let path = real(&shown).map_err(|e| failed(plain(&e)))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let directory_text = output::path_text(directory);
    let locked = match found.left {
        LeftoverChanges::Log(_) => source_lock::acquire_shared(directory, &directory_text),
        LeftoverChanges::Drafts(_) | LeftoverChanges::InFile(_) => {
            source_lock::acquire(directory, &directory_text)
        }
    };
    locked.map_err(|refusal| match refusal {
        Refusal::Held(rival) => failed(rival.to_string()),
        Refusal::Failed(e) => failed(plain(&e)),
    })
}

fn commit(found: &StagedThing) -> Result<(), Failure> {
    match found {
        StagedThing::Container(found) => commit_container(found),
        StagedThing::Orphan(log) => Err(Failure::new(format!(
            "{}: {} is not there; bring it back beside this log, or `arrayfs stage discard` it",
            log.shown().display(),
            log.container()
        ))),
    }
}

/// Without a mount: no mount shows the container meanwhile.
fn commit_container(found: &StagedContainerFile) -> Result<(), Failure> {
    let _lock = lock(found)?;
    if let LeftoverChanges::InFile(_) = &found.left {
        return scratch::merge(found);
    }
    if let LeftoverChanges::Drafts(left) = &found.left
        && left.recovery_state == DraftsState::Foreign
    {
        let (shown, left) = (found.container.shown(), left.path.file_name());
        let left = left.unwrap_or_default().to_string_lossy();
        let why = format!("what lies in {left} is {}", recovery_state(&found.left));
        return Err(Failure::new(format!("{}: {why}", shown.display())));
    }
    let container = &found.container;
    let (store, disk) = (Arc::clone(&container.store), container.disk()?);
    let cache = BlockCache::new(default_limit());
    let outcome = recover_and_commit(store, disk, &container.path, &container.recognised, cache)?;
    if let Some(why) = outcome.stays {
        return Err(Failure::new(why));
    }
    match (outcome.log, &found.left) {
        // It is another log that stays.
        (Err(_), LeftoverChanges::Log(left)) if !is_there(found, left)? => Ok(()),
        (log, _) => Ok(log?),
    }
}

/// Whether the log is still there.
fn is_there(found: &StagedContainerFile, left: &Leftover) -> Result<bool, Error> {
    let container = &found.container;
    let logs = logs_at(&container.recognised, &*container.store, &container.path)?;
    let is_it = |log: &LogBeside| match log {
        LogBeside::Leftover(now) => now.state().name() == left.state().name(),
        LogBeside::Foreign(_) | LogBeside::Unreadable(_) => false,
    };
    Ok(logs.into_all().iter().any(is_it))
}

fn throw_away(found: &StagedThing) -> Result<(), Failure> {
    match found {
        StagedThing::Container(found) => discard_container(found),
        StagedThing::Orphan(log) => Ok(log.discard()?),
    }
}

fn discard_container(found: &StagedContainerFile) -> Result<(), Failure> {
    let _lock = lock(found)?;
    let (store, disk) = (Arc::clone(&found.container.store), found.container.disk()?);
    match &found.left {
        LeftoverChanges::Log(left) => {
            let spot = spot_at(
                &found.container.recognised,
                disk,
                store,
                &found.container.path,
            )?;
            Ok(discard(&spot, left)?)
        }
        LeftoverChanges::InFile(_) => Err(scratch::refuse_discard(found)),
        LeftoverChanges::Drafts(left) => Ok(remove_directory(
            &*disk,
            &*store,
            &left.path,
            &mut |_, _| {},
        )?),
    }
}
