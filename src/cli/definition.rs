//! The commands as users see them: what `args` defines, with examples. Help, pages and completions
//! are made of this, so that they say the same.
//!
//! Used by [`super::run`] and [`super::generate`].

use std::ffi::OsString;

use clap::{Command, CommandFactory, FromArgMatches};

use super::args::Main;
use super::examples::{self, Example};
use super::failure::Failure;
use super::mount_programs::{MountHelper, UmountHelper};
use super::path_alone;
use super::version::{self, Build};

/// `arrayfs` with all its commands.
pub(super) fn arrayfs() -> Command {
    with_examples(Main::command(), "")
}

/// `mount.fuse.arrayfs`, which mount(8) calls.
pub(super) fn mount_helper() -> Command {
    MountHelper::command()
}

/// `umount.fuse.arrayfs`, which umount(8) calls.
pub(super) fn umount_helper() -> Command {
    UmountHelper::command()
}

/// The command line of a user; ends the process where it is wrong, or asks for help.
pub(super) fn parse(argv: Vec<OsString>, build: &Build) -> Result<Main, Failure> {
    let mut command = arrayfs();
    // Asks the library, so only where it is wanted. A string of the definition lives forever.
    if argv.iter().any(|arg| arg == "--version") {
        command = command.long_version(&*version::long(build).leak());
    }
    let matches = command.try_get_matches_from_mut(&argv);
    let parsed = matches.and_then(|matches| Main::from_arg_matches(&matches));
    parsed.map_err(|e| match path_alone::advice(&argv, &e) {
        Some(advice) => Failure::usage(advice),
        None => e.format(&mut command).exit(),
    })
}

/// Adds to the help of a command, and of those below it, what `examples` has. `path` is its name
/// without that of the program, and a space where there is more.
fn with_examples(command: Command, path: &str) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    let all = names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |below| {
            let path = format!("{path}{name}");
            let shown = shown(&below, examples::of(&path));
            with_examples(below.after_help(shown), &format!("{path} "))
        })
    });
    match path {
        "" => {
            let shown = shown(&all, examples::of(path));
            all.after_help(shown)
        }
        _ => all,
    }
}

/// What stands behind the options: examples, then what stood there.
fn shown(command: &Command, examples: &[Example]) -> String {
    let mut parts = Vec::new();
    if !examples.is_empty() {
        let lines = examples.iter().map(|example| {
            let (typed, does) = (example.typed, example.does);
            format!("  {typed}\n      {does}")
        });
        parts.push(format!(
            "Examples:\n{}",
            lines.collect::<Vec<_>>().join("\n")
        ));
    }
    parts.extend(command.get_after_help().map(ToString::to_string));
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `look` with every command that does something, and its name without `arrayfs`.
    fn each(command: &Command, path: &str, look: &mut impl FnMut(&Command, &str)) {
        for below in command.get_subcommands() {
            let path = format!("{path}{}", below.get_name());
            look(below, &path);
            each(below, &format!("{path} "), look);
        }
    }

    #[test]
    fn the_definition_is_sound() {
        arrayfs().debug_assert();
        mount_helper().debug_assert();
        umount_helper().debug_assert();
    }

    /// Options that are flattened into those of a command may leave their heading to what follows.
    #[test]
    fn what_must_be_given_stands_first_and_under_no_heading_of_options() {
        each(&arrayfs(), "", &mut |command, path| {
            for given in command.get_positionals() {
                assert_eq!(given.get_help_heading(), None, "{path}: {given}");
            }
        });
        let help = arrayfs().try_get_matches_from(["arrayfs", "mount", "--help"]);
        let help = help.err().unwrap().to_string();
        let places = [
            "[OPTIONS] <SOURCE> <MOUNTPOINT>",
            "Arguments:\n  <SOURCE>",
            "\n  <MOUNTPOINT>",
            "Options:",
            "--views",
            "Scratch storage:",
            "--typesize",
        ];
        let places = places.map(|part| {
            help.find(part)
                .unwrap_or_else(|| panic!("{part} in {help}"))
        });
        assert!(places.is_sorted(), "{places:?} in {help}");
    }

    #[test]
    fn every_command_has_examples_that_it_takes() {
        let mut tried = 0;
        each(&arrayfs(), "", &mut |command, path| {
            let examples = examples::of(path);
            assert!(!examples.is_empty(), "{path}");
            let help = command.get_after_help().map(ToString::to_string);
            for Example { typed, .. } in examples {
                assert!(help.as_ref().is_some_and(|help| help.contains(typed)));
                let words = typed.split(" | ").next().into_iter();
                let words = words.flat_map(|first| first.split_whitespace());
                let words: Vec<_> = words.take_while(|word| *word != ">").collect();
                assert_eq!(words[0], "arrayfs", "{typed}");
                if let Err(e) = arrayfs().try_get_matches_from(&words) {
                    panic!("{typed}: {e}");
                }
                tried += 1;
            }
        });
        assert!(tried > 20, "{tried}");
    }
}
