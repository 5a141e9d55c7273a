//! Whichever call of the disk fails in a scenario: the error is reported, what was synced is there,
//! and nothing is lost once the disk works again.

use std::collections::BTreeSet;

use super::examine::{examine, sound};
use super::image::Image;
use super::session::{Done, Session};
use super::{
    Run, all_runs, datasets, if_sampled, judge, matrices, on_all_processors, plain, runs, runs_of,
};
use crate::tree::InUse;

/// How a scenario went with a failure.
enum Went {
    /// There was none: it has fewer calls.
    Well,
    Failed {
        told: usize,
    },
}

fn fail(run: &Run, code: i32, call: usize) -> Result<Went, String> {
    let session = run.session(code);
    session.failure.arm(call);
    (run.scenario.act)(&session);
    let well = session.failure.is_armed();
    session.failure.arm(0);
    session.disk.watch(|_| true);
    let done = session.done.lock();
    let told = done.errors.len();
    if told > usize::from(!well) {
        let image = Image::load(session.directory.path());
        return Err(format!(
            "told {told} errors: {:?}\n{}",
            done.errors,
            describe(&session, &done, &image)
        ));
    }
    // The power goes now.
    let image = Image::load(session.directory.path());
    let allowed = done.allowed(&session.first, done.bounds(usize::MAX));
    let after_a_crash =
        |e: String| format!("after a crash: {e}\n{}", describe(&session, &done, &image));
    let recovered = examine(run.subject, &image, run.way).map_err(after_a_crash)?;
    judge(&recovered, &[&allowed], &session).map_err(after_a_crash)?;
    // Or it does not, and a commit on request succeeds.
    let stays = session.tree.containers().commit_all(InUse::Ignored);
    if !stays.is_empty() {
        return Err(format!("stays staged: {stays:?}"));
    }
    let all = done.allowed(&session.first, done.all());
    let shown = run
        .subject
        .content(&session.tree)
        .map_err(|e| e.to_string())?;
    if BTreeSet::from([shown.clone()]) != all {
        return Err("what was written is not shown".into());
    }
    sound(run.subject, session.directory.path(), Some(&shown))?;
    let mut left = Image::load(session.directory.path()).names();
    left.retain(|name| !run.subject.makes.contains(&&**name));
    match left == session.before.names() || told == 0 {
        true if well => Ok(Went::Well),
        true => Ok(Went::Failed { told }),
        false => Err(format!("{left:?} is left")),
    }
}

/// The disk, what was asked of it, and what was answered.
fn describe(session: &Session, done: &Done, image: &Image) -> String {
    let mut text = format!("told: {:?}\n", done.errors);
    for (name, file) in &image.files {
        text += &format!("{name:?}: {} bytes, {:?}\n", file.len, file.mtime);
    }
    for change in session.disk.changes() {
        text.extend(format!("{change:?}").chars().take(200));
        text.push('\n');
    }
    text
}

/// What came of all calls of a run.
#[derive(Default)]
struct Outcome {
    failures: usize,
    told: usize,
    wrong: Vec<String>,
}

/// Of calls, one in so many fails. How many of the failures are reported depends on which.
fn one_in() -> usize {
    if_sampled(16)
}

fn fail_all(run: &Run) -> Outcome {
    let mut outcome = Outcome::default();
    let first = crc32fast::hash(run.name().as_bytes()) as usize % one_in();
    for code in [libc::EIO, libc::ENOSPC] {
        for call in (1 + first..).step_by(one_in()) {
            match fail(run, code, call) {
                Ok(Went::Well) => break,
                Ok(Went::Failed { told }) => {
                    outcome.failures += 1;
                    outcome.told += told;
                }
                Err(e) => outcome
                    .wrong
                    .push(format!("{code}, call {call}, {}: {e}", run.name())),
            }
            assert!(call < 200, "{} does not end", run.name());
        }
    }
    outcome
}

#[test]
fn whichever_call_of_a_commit_fails_nothing_is_lost() {
    // A sync of the names that fails is tried again.
    fail_each(all_runs().filter(|run| run.scenario.errors == 0), 300, 55);
}

#[test]
fn whichever_call_of_a_commit_of_several_files_fails_nothing_is_lost() {
    let runs = runs_of(matrices::SCENARIOS);
    let ends = |run: &Run| run.scenario.errors == 0 && run.scenario.name != matrices::STAYS;
    fail_each(runs.filter(ends), 300, 55);
}

#[test]
fn whichever_call_of_a_commit_of_arrays_that_lie_as_they_are_fails_nothing_is_lost() {
    let runs = runs_of(plain::SCENARIOS).filter(|run| plain::ends(run.scenario));
    fail_each(runs, 300, 40);
}

#[test]
fn whichever_call_fails_while_arrays_are_written_in_sequence_nothing_is_lost() {
    fail_each(runs_of(runs::SCENARIOS), 300, 30);
}

#[test]
fn whichever_call_of_a_commit_of_an_hdf5_file_fails_nothing_is_lost() {
    let runs = runs_of(datasets::SCENARIOS).filter(|run| datasets::ends(run.scenario));
    fail_each(runs, 300, 40);
}

#[test]
fn whichever_call_of_a_commit_in_place_of_several_files_fails_nothing_is_lost() {
    // A call that fails while the files are being changed is tried again, and no error is reported
    // if that succeeds.
    fail_each(runs_of(matrices::SCENARIOS_IN_PLACE), 300, 40);
}

/// `percent`: so many of the failures are reported at least.
fn fail_each(runs: impl Iterator<Item = Run>, least: usize, percent: usize) {
    let runs: Vec<Run> = runs.collect();
    let outcomes = on_all_processors(runs.len(), |number| fail_all(&runs[number]));
    let wrong: Vec<&String> = outcomes.iter().flat_map(|outcome| &outcome.wrong).collect();
    wrong.iter().for_each(|wrong| println!("  FAILED {wrong}"));
    let failures: usize = outcomes.iter().map(|outcome| outcome.failures).sum();
    let told: usize = outcomes.iter().map(|outcome| outcome.told).sum();
    println!("{failures} failures, {told} of them told");
    assert!(wrong.is_empty());
    assert!(
        failures * one_in() > least && told * 100 > failures * percent,
        "{failures}, {told}"
    );
}
