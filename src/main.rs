//! The `arrayfs` command.

use std::process::ExitCode;

use arrayfs::cli::Build;
use git_version::git_version;

/// Known here alone: another commit, or a static program, has the library built no second time.
const BUILD: Build = Build {
    commit: git_version!(
        args = [
            "--always",
            "--exclude=*",
            "--abbrev=12",
            "--dirty=-modified"
        ],
        fallback = ""
    ),
    is_static: cfg!(target_feature = "crt-static"),
};

fn main() -> ExitCode {
    arrayfs::cli::run(std::env::args_os().collect(), &BUILD)
}
