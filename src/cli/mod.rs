//! The commands: one file each. They parse, call and print; what they do lies elsewhere.
//!
//! Exit status: 0 done, 1 failed (a message on standard error), 2 wrong usage.

mod append;
mod args;
mod cat;
mod complete;
mod container;
mod convert;
mod counted;
mod definition;
mod described;
mod examples;
mod failure;
mod flagless_options;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed;
mod generate;
mod given_path;
mod in_mount;
mod info;
mod internal;
mod limits;
mod ls;
mod manual;
mod mount;
mod mount_programs;
mod new_output;
mod no_such_array;
mod open_array;
mod options;
mod orphan_logs;
mod output;
mod pack;
mod path_alone;
mod plain_input;
mod preconditions;
mod progress;
mod prometheus;
mod refresh;
mod remote;
mod report;
mod running;
mod screen;
mod show;
mod size;
mod stage;
mod stats;
mod status;
mod stopping;
mod styled;
mod table;
mod top;
mod umount;
mod unpack;
mod verify;
mod version;
mod which_mount;
mod writing;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::container::{LogsInFiles, Preferences};
use crate::daemon::background::Inherited;
use crate::daemon::guardian;
use crate::scratch;
use args::{Command, StageCommand};
use failure::CommandResult;
pub use failure::Failure;
use internal::InternalCommand;
use mount_programs::{MountHelper, UmountHelper};
use options::RemoteFlags;
pub use version::Build;

/// Runs the command line, `mount.fuse.arrayfs` and `umount.fuse.arrayfs` included. The process must
/// not have opened anything yet.
pub fn run(argv: Vec<OsString>, build: &Build) -> ExitCode {
    let inherited = Inherited::find();
    crate::container::hdf5::start_by_command();
    match dispatch(argv, build, inherited) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                output::complain(&failure.message);
            }
            ExitCode::from(failure.status)
        }
    }
}

fn dispatch(argv: Vec<OsString>, build: &Build, inherited: Inherited) -> CommandResult {
    let program = argv
        .first()
        .and_then(|arg| std::path::Path::new(arg).file_name());
    let is_called =
        |start: &[u8]| program.is_some_and(|name| name.as_encoded_bytes().starts_with(start));
    if is_called(b"mount.") {
        return mount::run(MountHelper::parse_from(argv).into(), inherited);
    }
    if is_called(b"umount.") {
        return umount::run_for_system(&UmountHelper::parse_from(argv));
    }
    if let Some(command) = internal::parse(&argv) {
        return run_internal(command, inherited);
    }
    let main = definition::parse(argv, build)?;
    let dialect = main.dialect.as_deref().map(options::dialect).transpose()?;
    let preferences = Preferences {
        dialect: dialect.unwrap_or_default(),
        logs_in_files: LogsInFiles(Some(scratch::read_through_log)),
        ..Preferences::default()
    };
    crate::memory::keep_reserve();
    local_paths(&main.command).try_for_each(remote::refuse)?;
    match main.command {
        Command::Mount(mut args) => {
            args.options
                .extend(main.dialect.map(|value| format!("dialect={value}")));
            mount::run(*args, inherited)
        }
        Command::Umount { mountpoint, quick } => umount::run(&mountpoint, quick),
        Command::Ls(mut args) => {
            args.path = given(&args.path, &args.remote)?;
            ls::run(&args, preferences)
        }
        Command::Info {
            json,
            stats: true,
            container,
            remote,
        } => stats::run(&given(&container, &remote)?, preferences, json),
        Command::Info {
            json,
            container,
            remote,
            ..
        } => info::run(&given(&container, &remote)?, preferences, json),
        Command::Cat {
            container,
            array,
            offset,
            length,
            remote,
        } => {
            let container = given(&container, &remote)?;
            cat::run(&container, preferences, array.as_deref(), offset, length)
        }
        Command::Show(mut args) => {
            args.container = given(&args.container, &args.remote)?;
            show::run(&args, preferences)
        }
        Command::Verify {
            json,
            mut paths,
            remote,
        } => {
            let settings = remote.settings()?;
            for path in &mut paths {
                *path = remote::given(path, &settings)?;
            }
            remote::remember(settings);
            verify::run(&paths, preferences, json)
        }
        Command::Status {
            json,
            prometheus,
            mountpoint,
        } => {
            let form = match (json, prometheus) {
                (_, true) => status::StatusForm::Prometheus,
                (true, _) => status::StatusForm::Json,
                (false, false) => status::StatusForm::Text,
            };
            status::run(mountpoint.as_deref(), form)
        }
        Command::Top {
            once,
            interval,
            mountpoint,
        } => top::run(mountpoint.as_deref(), interval, once),
        Command::Refresh { path } => refresh::run(&path),
        Command::Stage(command) => stage::run(&command, preferences),
        Command::Pack(args) => pack::run(&args),
        Command::Unpack { force, file, out } => unpack::run(&file, out, force, preferences),
        Command::Append { file, more } => append::run(&file, &more, preferences),
    }
}

/// Paths of commands that are for this host alone.
fn local_paths(command: &Command) -> impl Iterator<Item = &Path> {
    let paths: [Option<&PathBuf>; 2] = match command {
        Command::Umount { mountpoint, .. } => [Some(mountpoint), None],
        Command::Status { mountpoint, .. } | Command::Top { mountpoint, .. } => {
            [mountpoint.as_ref(), None]
        }
        Command::Refresh { path } => [Some(path), None],
        Command::Stage(
            StageCommand::Ls { path, .. }
            | StageCommand::Commit { path }
            | StageCommand::Discard { path },
        ) => [Some(path), None],
        Command::Pack(args) => [Some(&args.file), args.out.as_ref()],
        Command::Unpack { file, out, .. } => [Some(file), out.as_ref()],
        Command::Append { file, more } => [Some(file), Some(more)],
        _ => [None, None],
    };
    paths.into_iter().flatten().map(PathBuf::as_path)
}

/// What a command is to read; what is said of remote sources is noted.
fn given(path: &Path, flags: &RemoteFlags) -> Result<PathBuf, Failure> {
    let settings = flags.settings()?;
    let path = remote::given(path, &settings)?;
    remote::remember(settings);
    Ok(path)
}

/// None has a reserve of memory: the worker's is bounded, and it may die; the others need none.
fn run_internal(command: InternalCommand, inherited: Inherited) -> CommandResult {
    match command {
        InternalCommand::Hdf5Worker => {
            crate::container::hdf5::serve();
            Ok(())
        }
        InternalCommand::Guardian {
            daemon,
            thread,
            left_behind,
        } => {
            inherited.close();
            guardian::guard(daemon, thread).map_err(Failure::new)?;
            umount::left_behind(&left_behind)
        }
        InternalCommand::Complete(completed) => complete::run(&completed, Preferences::default()),
        InternalCommand::Generate(generated) => generate::run(&generated),
    }
}
