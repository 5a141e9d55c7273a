//! `arrayfs stage` for what lies in a mount, or in the source of one that writes: through the
//! daemon, whose changes they are.
//!
//! Logs that lie there from before are first looked at by the daemon, which goes on with those that
//! it can. A log that it cannot recover (changes of another version of a container) is committed or
//! discarded here, as without a mount.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{
    FoundContainer, LeftoverChanges, OrphanLog, Search, StageAction, StagedThing, find, print,
    staged,
};
use crate::cli::args::StageCommand;
use crate::cli::failure::{CommandResult, Failure};
use crate::cli::in_mount::{InMount, StagedThere};
use crate::cli::output;
use crate::container::Preferences;
use crate::error::Error;
use crate::tree::xattr::{APPLY, DISCARD, STATE};

pub(super) fn run(
    command: &StageCommand,
    place: &InMount,
    preferences: Preferences,
    action: Option<StageAction>,
) -> CommandResult {
    match command {
        StageCommand::Ls { json, .. } => list(place, preferences, *json),
        StageCommand::Commit { .. } => each(place, preferences, (APPLY, "committed"), action),
        StageCommand::Discard { .. } => each(place, preferences, (DISCARD, "discarded"), action),
    }
}

/// Has the daemon look at what was left here, which goes on with what it can. Gives the containers
/// concerned.
fn look(place: &InMount, preferences: Preferences) -> Result<Search, Failure> {
    let mut search = find(&place.given, preferences)?;
    let mut concerned: Vec<FoundContainer> = Vec::new();
    for left in staged(search.containers, Vec::new()) {
        match left {
            Ok(StagedThing::Container(left)) => {
                if let Some(path) = place.in_mount(&left.container.shown()) {
                    // Whatever it says: to be asked is to look into the container.
                    let _ = rustix::fs::getxattr(&path, STATE, &mut [0; 4096][..]);
                }
                // One may have several logs.
                let is_it = |one: &FoundContainer| one.path == left.container.path;
                if !concerned.last().is_some_and(is_it) {
                    concerned.push(left.container);
                }
            }
            Ok(StagedThing::Orphan(_)) => {}
            Err(e) => search.errors.push(e),
        }
    }
    Ok(Search {
        containers: concerned,
        ..search
    })
}

/// Those of them that the daemon does not name, as far as something is left there.
fn others(
    containers: Vec<FoundContainer>,
    orphans: Vec<OrphanLog>,
    place: &InMount,
    named: &[StagedThere],
) -> impl Iterator<Item = Result<StagedThing, Error>> {
    let named: Vec<PathBuf> = named
        .iter()
        .map(|there| place.mount_path(&there.inside))
        .collect();
    let is_other = |container: &FoundContainer| {
        let path = place.in_mount(&container.shown());
        path.is_none_or(|path| !named.contains(&path))
    };
    let containers = containers.into_iter().filter(is_other).collect();
    staged(containers, orphans)
}

fn list(place: &InMount, preferences: Preferences, json: bool) -> CommandResult {
    let Search {
        containers,
        orphans,
        mut errors,
    } = look(place, preferences)?;
    let named = place.staged()?;
    let there = named.iter().map(|there| {
        let state = match (&there.why, there.new) {
            (Some(why), true) => format!("{}: {why}", standing_of_new()),
            (None, true) => standing_of_new().to_owned(),
            (Some(why), _) => format!("staged: {why}"),
            (None, _) => "staged: it is being written".to_owned(),
        };
        (place.spelled(&there.inside), there.bytes, state)
    });
    let mut all: Vec<(PathBuf, u64, String)> = there.collect();
    for left in others(containers, orphans, place, &named) {
        match left {
            Ok(left) => {
                all.push((left.shown(), left.bytes(), left.recovery_state()));
            }
            Err(e) => errors.push(e),
        }
    }
    output::print(|out| print(out, &all, json))?;
    errors.iter().for_each(output::complain);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::silent()),
    }
}

fn standing_of_new() -> &'static str {
    "new, not packed yet"
}

fn each(
    place: &InMount,
    preferences: Preferences,
    (request, done): (&str, &str),
    action: Option<StageAction>,
) -> CommandResult {
    let Search {
        containers,
        orphans,
        errors,
    } = look(place, preferences)?;
    errors.iter().for_each(output::complain);
    let before = place.staged()?;
    let asked = place.ask(request);
    let after = place.staged()?;
    let mut failed = !errors.is_empty() || asked.is_err() || !after.is_empty();
    if let Err(failure) = asked {
        output::complain(&failure.message);
    }
    for there in &after {
        let (path, why) = (place.spelled(&there.inside), there.why.as_deref());
        let why = why.unwrap_or("it is being written");
        output::complain(format!("{}: stays staged: {why}", path.display()));
    }
    let is_left = |there: &&StagedThere| !after.iter().any(|left| left.inside == there.inside);
    let mut acted_on: Vec<PathBuf> = before
        .iter()
        .filter(is_left)
        .map(|there| place.spelled(&there.inside))
        .collect();
    for left in others(containers, orphans, place, &before) {
        match left
            .map_err(Failure::from)
            .and_then(|left| act_alone(&left, action))
        {
            Ok(path) => acted_on.extend(path),
            Err(failure) => {
                output::complain(&failure.message);
                failed = true;
            }
        }
    }
    output::print(|out| tell(out, &acted_on, done, failed))?;
    match failed {
        true => Err(Failure::silent()),
        false => Ok(()),
    }
}

/// Acts on what the daemon leaves alone, as without a mount. What is new is the daemon's, as long
/// as it serves.
fn act_alone(left: &StagedThing, action: Option<StageAction>) -> Result<Option<PathBuf>, Failure> {
    let is_new = match left {
        StagedThing::Container(found) => matches!(found.left, LeftoverChanges::Drafts(_)),
        StagedThing::Orphan(_) => false,
    };
    match action.filter(|_| !is_new) {
        Some(action) => action(left).map(|()| Some(left.shown())),
        None => Ok(None),
    }
}

fn tell(
    out: &mut impl Write,
    acted_on: &[PathBuf],
    done: &str,
    failed: bool,
) -> std::io::Result<()> {
    if acted_on.is_empty() && !failed {
        writeln!(out, "nothing staged")?;
    }
    let line = |path: &Path| format!("{}: {done}", output::path_text(path));
    acted_on
        .iter()
        .try_for_each(|path| writeln!(out, "{}", line(path)))
}
