//! Another process changes the container while something is staged, and the power goes: what it
//! wrote is never touched.

use std::ffi::OsStr;

use super::examine::examine;
use super::scenarios::FOREIGN;
use super::session::{THEIRS, sample, tree_at};
use super::subject::FILE;
use super::{Run, all_runs, on_all_processors, states};
use crate::tree::Tree;

const LOG: &str = ".x.blp.arrayfs-stage";
const NEW: &str = ".x.blp.arrayfs-new";

/// What the array in a file holds.
fn content_of(bytes: &[u8], run: &Run) -> Vec<u8> {
    let directory = super::image::scratch();
    std::fs::write(directory.path().join(FILE.container), bytes).unwrap();
    let tree: Tree = tree_at(directory.path(), run.way, |_| None);
    FILE.content(&tree).unwrap()
}

fn check(run: &Run) -> (usize, usize) {
    let session = run.session(libc::EIO);
    (run.scenario.act)(&session);
    let changes = session.disk.changes();
    let done = session.done.lock();
    assert_eq!(
        done.errors.len(),
        run.scenario.errors,
        "{}: {:?}",
        run.scenario.name,
        done.errors
    );
    let theirs = sample(FOREIGN);
    let shown_of_theirs = content_of(&theirs, run);
    let states = states(&session.before, &changes, |at| done.bounds(at));
    let judged = on_all_processors(states.len(), |number| {
        let state = &states[number];
        let at = |name: &str| state.image.files.get(OsStr::new(name));
        let is_theirs = |name: &str| at(name).is_some_and(|file| file.bytes == theirs);
        let recovered = examine(run.subject, &state.image, run.way)?;
        let now = |name: &str| recovered.left.files.get(OsStr::new(name));
        if is_theirs(FILE.container) || is_theirs(NEW) {
            if now(FILE.container).is_none_or(|file| file.bytes != theirs) {
                return Err("what somebody else wrote is gone".to_owned());
            }
            if recovered.shown != shown_of_theirs {
                return Err("something else is shown".to_owned());
            }
            let log = (at(LOG), now(LOG));
            let is_safe = state.bounds.iter().any(|(safe, _)| *safe > 0);
            return match log {
                (Some(before), Some(after)) if before == after => Ok(()),
                (Some(_), None) | (None, None) if !is_safe => Ok(()),
                _ => Err("the log is changed".to_owned()),
            };
        }
        let mut names = recovered.left.names();
        names.retain(|name| name != THEIRS);
        let allowed = |bounds: &(usize, usize)| {
            done.allowed(&session.first, *bounds)
                .contains(&recovered.shown)
        };
        match names == [FILE.container] && state.bounds.iter().all(allowed) {
            true => Ok(()),
            false => Err(format!(
                "{names:?} is left, {} bytes",
                recovered.shown.len()
            )),
        }
    });
    let mut wrong = 0;
    for (state, judged) in states.iter().zip(judged) {
        if let Err(e) = judged {
            if wrong == 0 {
                println!(
                    "  FAILED {e}: {}",
                    state.describe(&session.before, &changes)
                );
            }
            wrong += 1;
        }
    }
    println!(
        "{:5} states, {wrong} failures: {}, {:?}",
        states.len(),
        run.scenario.name,
        run.way
    );
    (states.len(), wrong)
}

#[test]
fn what_others_wrote_is_never_touched() {
    let counts: Vec<_> = all_runs()
        .filter(|run| run.scenario.foreign)
        .map(|run| check(&run))
        .collect();
    let wrong: usize = counts.iter().map(|(_, wrong)| wrong).sum();
    assert!(wrong == 0 && counts.len() > 2, "{counts:?}");
}
