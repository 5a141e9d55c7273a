//! The `arrayfs` command.

use std::process::ExitCode;

use git_version::git_version;

/// Known here alone: a commit has the library built no second time. Empty without a repository, as
/// in a source package.
const COMMIT: &str = git_version!(
    args = ["--always", "--exclude=*", "--abbrev=12"],
    fallback = ""
);

/// The C library of a static program may have an allocator that is slow under many threads.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    arrayfs::cli::run(std::env::args_os().collect(), COMMIT)
}
