//! `arrayfs generate`: manual pages and completions, out of the commands' definition. Whoever makes
//! a package calls it (`scripts/package.sh`), so that these always fit the program.
//!
//! Used by [`super::run`].

use std::fs;
use std::path::Path;

use clap_complete::Shell;

use super::failure::{CommandResult, Failure};
use super::internal::Generated;
use super::output::path_text;
use super::{definition, manual};

/// Completions, by the names under which shells find them in their own directories.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "arrayfs"),
    (Shell::Fish, "arrayfs.fish"),
    (Shell::Zsh, "_arrayfs"),
];

/// What the definition does not know, and the program is asked for: arrays, mounts, mount options.
/// If it is none of these that is typed, the completions above know as much.
const BASH_ASKS: &str = include_str!("complete/asks.bash");
const ZSH_ASKS: &str = include_str!("complete/asks.zsh");
const FISH_ASKS: &str = include_str!("complete/asks.fish");

pub(super) fn run(generated: &Generated) -> CommandResult {
    match generated {
        Generated::Man { directory } => {
            for page in manual::pages().map_err(|e| Failure::new(format!("a page: {e}")))? {
                put(&directory.join(page.file), &page.text)?;
            }
        }
        Generated::Completions { directory } => {
            for (shell, name) in SHELLS {
                put(
                    &directory.join(shell.to_string()).join(name),
                    &completion(shell),
                )?;
            }
        }
    }
    Ok(())
}

fn completion(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut definition::arrayfs(), "arrayfs", &mut text);
    let text = String::from_utf8_lossy(&text);
    match shell {
        Shell::Bash => {
            let asking = text.replace("complete -F _arrayfs ", "complete -F _arrayfs_asking ");
            format!("{BASH_ASKS}{asking}").into_bytes()
        }
        Shell::Zsh => {
            let asking = format!("_arrayfs() {{\n{ZSH_ASKS}");
            text.replacen("_arrayfs() {\n", &asking, 1).into_bytes()
        }
        _ => format!("{text}{FISH_ASKS}").into_bytes(),
    }
}

fn put(path: &Path, text: &[u8]) -> CommandResult {
    let directory = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = directory.and_then(|()| fs::write(path, text));
    written.map_err(|e| Failure::new(format!("cannot write {}: {e}", path_text(path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_have_commands_and_values_and_nothing_internal() {
        for (shell, _) in SHELLS {
            let text = String::from_utf8(completion(shell)).unwrap();
            for part in ["verify", "discard", "blosclz", "daphne", "log-level"] {
                assert!(text.contains(part), "{shell}: {part}");
            }
            for internal in ["hdf5-worker", "guardian", "generate"] {
                assert!(!text.contains(internal), "{shell}: {internal}");
            }
            assert!(text.contains("complete words --") || text.contains("complete bash "));
            assert!(shell != Shell::Bash || text.contains("-F _arrayfs_asking -o nosort"));
        }
    }
}
