//! The log: one line per event, to standard error or a file with time and level, or to the system's
//! log; where there is none, to a file of its own. What comes again is counted.

mod state_file;
mod syslog;
mod told;

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::sync::{Mutex, MutexGuard};

use log::{Level, LevelFilter, Log, Metadata, Record};

use state_file::StateFile;
use syslog::SystemLog;
use told::ToldMessages;
pub use told::Warning;

/// So many warnings are shown of a mount.
const SHOWN: usize = 10;

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    StandardError,
    File(PathBuf),
    /// syslog, or the journal; where nobody listens, a file.
    System,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::StandardError => f.write_str("standard error"),
            Destination::File(path) => path.display().fmt(f),
            Destination::System => f.write_str("the system log"),
        }
    }
}

struct Logger {
    destination: Destination,
    /// Of a log file that is made: by the umask of the process that started us, which a daemon that
    /// writes gives up.
    mode: u32,
    sink: Mutex<Sink>,
    told: Mutex<ToldMessages>,
    /// The process that started us still reads standard error: warnings go there, too.
    at_terminal: AtomicBool,
}

/// An opened destination.
enum Sink {
    StandardError,
    File(File),
    /// The second takes what nobody listens to.
    System(SystemLog, StateFile),
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Starts logging; panics are logged, too. Once per process, and after it went to the background:
/// lines of the system's log carry its number. `of`: the mountpoint.
pub fn start(destination: Destination, level: LevelFilter, of: &Path) -> io::Result<()> {
    let mode = mode_of_new_files();
    let sink = Sink::open(&destination, mode, of)?;
    let logger = LOGGER.get_or_init(|| Logger {
        at_terminal: AtomicBool::new(destination != Destination::StandardError),
        destination,
        mode,
        sink: Mutex::new(sink),
        told: Mutex::default(),
    });
    if log::set_logger(logger).is_ok() {
        log::set_max_level(level);
        std::panic::set_hook(Box::new(|panic| log::error!("{panic}")));
    }
    Ok(())
}

/// From now on nothing that is logged elsewhere goes to standard error.
pub(super) fn leave_terminal() {
    if let Some(logger) = LOGGER.get() {
        logger.at_terminal.store(false, Ordering::Relaxed);
    }
}

/// Whether the system's log takes lines now. If it does not, it may later.
pub fn check_system() -> io::Result<()> {
    SystemLog::new(Path::new(syslog::SYSTEM))?.is_there()
}

/// What was counted and not told yet: the process is about to end.
pub fn end() {
    let Some(logger) = LOGGER.get() else { return };
    for (level, text) in logger.told().untold() {
        logger.sink().tell(level, &text);
    }
}

/// The latest warnings and errors, the last one at the end.
pub fn warnings() -> Vec<Warning> {
    let logger = LOGGER.get();
    logger.map_or_else(Vec::new, |logger| logger.told().warnings(SHOWN))
}

/// Where lines go now, in words.
pub fn place() -> String {
    let Some(logger) = LOGGER.get() else {
        return "nowhere".to_owned();
    };
    match &*logger.sink() {
        Sink::System(system, file) if system.is_there().is_err() => match file.path() {
            Some(path) => path.display().to_string(),
            None => "nothing to tell yet, and no system log".to_owned(),
        },
        _ => logger.destination.to_string(),
    }
}

/// Opens the file anew, after it was moved away. From then on everything is told anew.
pub fn reopen() {
    let Some(logger) = LOGGER.get() else { return };
    let Destination::File(path) = &logger.destination else {
        return;
    };
    match append(path, logger.mode) {
        Ok(file) => {
            end();
            *logger.sink() = Sink::File(file);
            log::info!("log reopened");
        }
        Err(e) => log::error!("cannot reopen {}: {e}", path.display()),
    }
}

fn append(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).append(true).mode(mode).open(path)
}

/// Asked by setting it, as POSIX has it, while no other thread makes files.
fn mode_of_new_files() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    0o666 & !mask.bits()
}

impl Sink {
    fn open(destination: &Destination, mode: u32, of: &Path) -> io::Result<Sink> {
        Ok(match destination {
            Destination::StandardError => Sink::StandardError,
            Destination::File(path) => Sink::File(append(path, mode)?),
            Destination::System => {
                let system = SystemLog::new(Path::new(syslog::SYSTEM))?;
                Sink::System(system, StateFile::new(of, mode))
            }
        })
    }

    /// There is nowhere to report a failure to log: it is ignored.
    fn tell(&mut self, level: Level, text: &str) {
        match self {
            Sink::StandardError => drop(io::stderr().write_all(stamped(level, text).as_bytes())),
            Sink::File(file) => drop(file.write_all(stamped(level, text).as_bytes())),
            Sink::System(system, file) => {
                let mut elsewhere = |level, text: &str| file.append(&stamped(level, text)).is_ok();
                system.tell(level, text, &mut elsewhere);
            }
        }
    }
}

fn stamped(level: Level, text: &str) -> String {
    format!("{:.3} {level:5} {text}\n", jiff::Timestamp::now())
}

/// Control characters as `%XX`: a path may hold line ends and what terminals obey, a record is one
/// line.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let mut line = String::with_capacity(text.len() + 2);
    for c in text.chars() {
        match c.is_control() {
            true => {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                line.extend(bytes.map(|byte| format!("%{byte:02X}")));
            }
            false => line.push(c),
        }
    }
    line.into()
}

impl Logger {
    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.sink.lock()
    }

    fn told(&self) -> MutexGuard<'_, ToldMessages> {
        self.told.lock()
    }

    /// What whoever debugs asks for is told each time.
    fn lines(&self, level: Level, text: &str) -> Vec<(Level, String)> {
        match level {
            Level::Error | Level::Warn | Level::Info => {
                self.told().note(level, text, Instant::now())
            }
            Level::Debug | Level::Trace => vec![(level, text.to_owned())],
        }
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // fuser logs every mount, option and unusual request: noise to users.
        let own = metadata.target().starts_with("arrayfs");
        metadata.level() <= log::max_level() && (own || metadata.level() <= Level::Error)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let (level, text) = (record.level(), record.args().to_string());
        for (level, text) in self.lines(level, &one_line(&text)) {
            if level <= Level::Warn && self.at_terminal.load(Ordering::Relaxed) {
                Sink::StandardError.tell(level, &text);
            }
            self.sink().tell(level, &text);
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_and_moves_no_cursor() {
        assert_eq!(one_line("/data/größe 100%"), "/data/größe 100%");
        assert_eq!(
            one_line("a\nERROR b\x1b[2J\u{85}"),
            "a%0AERROR b%1B[2J%C2%85"
        );
    }
}
