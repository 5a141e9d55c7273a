//! `arrayfs pack DIR` and `unpack DIR`: a directory becomes a scratch store in place, or a plain
//! one again. What is done lies in [`crate::scratch`].
//!
//! Used by the commands [`super::pack`] and [`super::unpack`].

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use indicatif::ProgressBar;

use super::args::PackArgs;
use super::counted::counted;
use super::failure::{CommandResult, Failure};
use super::given_path::real;
use super::in_mount::InMount;
use super::{options, output, progress, size, stopping, writing};
use crate::daemon::log::Destination;
use crate::daemon::{self, privileges, processes};
use crate::disk::local::open_local;
use crate::error::{Error, plain};
use crate::scratch::{ConvertDirection, ConvertWatch, Converted, EncodeOptions, convert};

/// How files are encoded, of what was asked for.
pub(super) fn encode_options(args: &PackArgs) -> Result<EncodeOptions, Failure> {
    let refused = [
        ("--dtype", args.dtype.is_some()),
        ("--shape", args.shape.is_some()),
        ("--filter", args.filter.is_some()),
        ("--no-shuffle", args.no_shuffle),
        ("--force", args.force),
        ("OUT", args.out.is_some()),
    ];
    if let Some((what, _)) = refused.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!(
            "{what} is for a single file, {} is a directory",
            args.file.display()
        )));
    }
    let mut encoding = EncodeOptions::default();
    let given = [
        ("codec", args.codec.clone()),
        ("level", args.level.map(|level| level.to_string())),
        ("chunk", args.chunk.clone()),
        ("checksum", args.checksum.clone()),
        ("typesize", args.typesize.map(|size| size.to_string())),
    ];
    for (name, value) in &given {
        if let Some(value) = value {
            options::set_encoding(&mut encoding, name, value)?;
        }
    }
    Ok(encoding)
}

pub(super) fn run(
    directory: &Path,
    direction: ConvertDirection,
    options: &EncodeOptions,
) -> CommandResult {
    let shown = directory.display();
    let failed = |e: std::io::Error| Failure::new(format!("{shown}: {}", plain(&e)));
    let path = real(directory).map_err(failed)?;
    let (doing, done) = words(direction);
    if let Some(place) = InMount::at(&path)? {
        let mounted = &place.mounted;
        return Err(Failure::new(format!(
            "{shown} is not {done}: it lies in the arrayfs mount at {}; unmount that, and {doing} its source: {}",
            mounted.mountpoint.display(),
            mounted.source
        )));
    }
    processes::name_command(doing);
    let refused = |why: String| Failure::new(format!("{shown} is not {done}: {why}"));
    let _lock = writing::lock(&path).map_err(refused)?;
    // What a recovery says of files that were never synced.
    daemon::log::start(
        Destination::StandardError,
        ::log::LevelFilter::Warn,
        directory,
    )
    .map_err(failed)?;
    privileges::survive_length_limit();
    let watch = TerminalWatch {
        bar: progress::of_bytes(true),
        files: AtomicU64::new(0),
        stopped: stopping::when_stopped().map_err(failed)?,
    };
    let (store, disk) = open_local(&path, directory).map_err(failed)?;
    let converted = convert(store, disk, direction, options, &watch);
    watch.bar.finish_and_clear();
    let converted = converted.map_err(|e| {
        let why = match &e {
            // What another version has left waits for that.
            Error::NotShown(not) => not.to_string(),
            _ => format!("{e}; the same command goes on"),
        };
        Failure::new(format!("{shown} is not all {done}: {why}"))
    })?;
    report(directory, direction, &converted, &watch)
}

fn words(direction: ConvertDirection) -> (&'static str, &'static str) {
    match direction {
        ConvertDirection::Pack => ("pack", "packed"),
        ConvertDirection::Unpack => ("unpack", "unpacked"),
    }
}

fn report(
    directory: &Path,
    direction: ConvertDirection,
    converted: &Converted,
    watch: &TerminalWatch,
) -> CommandResult {
    let (_, done) = words(direction);
    let mut line = format!(
        "{}: {} {done}, {} -> {}",
        directory.display(),
        counted(converted.files, "file"),
        size::show(converted.before),
        size::show(converted.after)
    );
    if converted.stored_already > 0 {
        let stored = counted(converted.stored_already, "file");
        line += &format!("; {stored} named .blp taken as packed already");
    }
    if converted.left > 0 {
        line += &format!("; {} left as they are", converted.left);
    }
    output::print(|out| writeln!(out, "{line}"))?;
    if converted.is_stopped {
        let all = watch.files.load(Ordering::Relaxed);
        return Err(Failure::new(format!(
            "{}: interrupted after {} of {}; the same command goes on",
            directory.display(),
            converted.files,
            counted(all, "file")
        )));
    }
    match converted.left {
        0 => Ok(()),
        _ => Err(Failure::silent()),
    }
}

struct TerminalWatch {
    bar: ProgressBar,
    files: AtomicU64,
    stopped: Arc<AtomicBool>,
}

impl ConvertWatch for TerminalWatch {
    fn begins(&self, files: u64, bytes: u64) {
        self.files.store(files, Ordering::Relaxed);
        self.bar.set_length(bytes);
    }

    fn advanced(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn left_alone(&self, path: &Path, why: &str) {
        let path = path.display().to_string();
        let line = match why.contains(&path) {
            true => format!("left as it is: {why}"),
            false => format!("{path}: left as it is: {why}"),
        };
        self.bar.suspend(|| output::complain(line));
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
