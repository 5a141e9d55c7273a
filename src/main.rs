//! The `arrayfs` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    arrayfs::cli::run(std::env::args_os().collect())
}
