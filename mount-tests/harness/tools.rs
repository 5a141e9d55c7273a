//! Programs of others that tests use: those of the system, and those that `scripts/install.sh` puts
//! into `target/tools`. A test whose program is missing says so and passes; `scripts/test.sh` has
//! them all.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::{Ran, run};

/// A directory of programs, instead of `target/tools/bin`.
const NAMED: &str = "ARRAYFS_TEST_TOOLS";

/// Where a program is, if it is installed.
pub fn tool(name: &str) -> Option<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os(NAMED).map(PathBuf::from);
    let installed = package.join("target/tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = named
        .into_iter()
        .chain([installed])
        .chain(directories)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file());
    if found.is_none() {
        eprintln!("not tested, {name} is not installed (scripts/install.sh does it)");
    }
    found
}

/// Whether all of these are there.
pub fn tools(names: &[&str]) -> bool {
    names.iter().all(|name| tool(name).is_some())
}

/// Runs a script of `sh` in a directory, with arguments from `$1` on; it must end well.
#[track_caller]
pub fn shell(directory: &Path, script: &str, arguments: &[&Path]) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-euc", script, "sh"]).args(arguments);
    // Nothing of the user's own settings.
    command
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let ran = run(command.current_dir(directory));
    assert_eq!(
        ran.code(),
        Some(0),
        "{script}\n{}{}",
        ran.text(),
        ran.stderr
    );
    ran
}
