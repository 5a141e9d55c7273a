//! Commands that are no user's: the daemon's own processes, and what makes packages. No help, page
//! or completion has them.
//!
//! Used by [`super::run`] alone.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

#[derive(Parser)]
#[command(name = "arrayfs")]
struct InternalMain {
    #[command(subcommand)]
    command: InternalCommand,
}

#[derive(Subcommand)]
pub(super) enum InternalCommand {
    /// Reads the structure of HDF5 files for another arrayfs, on its standard input
    #[command(name = "hdf5-worker")]
    Hdf5Worker,
    /// Ends the connection on its standard input when a thread of a daemon has ended
    Guardian {
        daemon: u32,
        thread: u32,
        /// The number of the mounted file system, and where it is mounted, if it is to be unmounted
        #[arg(num_args = 2, value_names = ["DEVICE", "MOUNTPOINT"])]
        left_behind: Vec<OsString>,
    },
    /// Tells shells what a word of a command line may become
    #[command(subcommand)]
    Complete(Completed),
    /// Writes what belongs into a package and follows from the commands' definition
    #[command(subcommand)]
    Generate(Generated),
}

#[derive(Subcommand)]
pub(super) enum Generated {
    /// Manual pages of all commands
    Man {
        /// A directory, which is made if it is missing
        directory: PathBuf,
    },
    /// Completions for bash, fish and zsh
    Completions {
        /// A directory, which is made if it is missing
        directory: PathBuf,
    },
}

#[derive(Subcommand)]
pub(super) enum Completed {
    /// As bash has it
    Bash {
        /// Up to the cursor
        line: String,
    },
    /// As zsh and fish have it
    Words {
        /// All up to the one at the cursor, without their quotes
        #[arg(last = true)]
        words: Vec<String>,
    },
}

/// The command, if it is one of these.
pub(super) fn parse(argv: &[OsString]) -> Option<InternalCommand> {
    let name = argv.get(1)?.to_str()?;
    let ours = InternalMain::command().find_subcommand(name).is_some();
    ours.then(|| InternalMain::parse_from(argv).command)
}
