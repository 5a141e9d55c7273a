//! `arrayfs complete`, which the completions of shells ask for what only the program knows: arrays
//! in containers, mounts, mount options.
//!
//! [`words`] takes a line apart, [`subject`] finds out what is being typed, [`candidates`] what it
//! may become. A candidate is a line. Exit status 1: the shell's own rules know as much; 0 and
//! nothing: it is a file's name. Nothing else is said, for the user is typing. Used by
//! [`super::run`].

mod candidates;
mod subject;
mod words;

use std::io::Write;

use super::failure::{CommandResult, Failure};
use super::internal::Completed;
use super::output;
use crate::container::Preferences;
use subject::TypedSubject;
use words::TypedWords;

pub(super) fn run(completed: &Completed, preferences: Preferences) -> CommandResult {
    let typed = match completed {
        Completed::Bash { line } => TypedWords::of_line(line),
        Completed::Words { words } => TypedWords::of(words),
    };
    let Some(subject) = subject::of(&typed.before, &typed.current) else {
        return Err(Failure::silent());
    };
    let current = &typed.current;
    let found = match subject {
        TypedSubject::File => Vec::new(),
        TypedSubject::ContainerOrArray => candidates::below(current, preferences),
        TypedSubject::ArrayOf(container) => candidates::arrays_of(&container, current, preferences),
        TypedSubject::Mount => candidates::mounts(current),
        TypedSubject::MountOptions => candidates::mount_options(current),
    };
    output::print(|out| {
        // Of the word the shell replaces what lies behind its last break.
        let ends = found.iter().filter_map(|one| one.get(typed.kept..));
        ends.into_iter().try_for_each(|end| writeln!(out, "{end}"))
    })
}
