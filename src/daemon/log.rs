//! The log: one line per event, with time and level, to standard error or to a file.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};

struct Logger {
    file: Option<PathBuf>,
    out: Mutex<Option<File>>,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Starts logging, to `file` or to standard error. Once per process.
pub fn start(file: Option<PathBuf>, level: LevelFilter) -> io::Result<()> {
    let out = file.as_ref().map(append).transpose()?;
    let logger = LOGGER.get_or_init(|| Logger {
        file,
        out: Mutex::new(out),
    });
    if log::set_logger(logger).is_ok() {
        log::set_max_level(level);
    }
    Ok(())
}

/// Opens the file anew, after it was moved away.
pub fn reopen() {
    let Some(logger) = LOGGER.get() else { return };
    let Some(path) = &logger.file else { return };
    match append(path) {
        Ok(file) => {
            *logger.out.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
            log::info!("log reopened");
        }
        Err(e) => log::error!("cannot reopen {}: {e}", path.display()),
    }
}

fn append(path: &PathBuf) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// Control characters as `%XX`: a path may hold line ends and what terminals obey, a record is one line.
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

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // fuser tells of every mount, option and unusual request: noise to everybody else.
        let own = metadata.target().starts_with("arrayfs");
        metadata.level() <= log::max_level() && (own || metadata.level() <= log::Level::Error)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let line = format!(
            "{:.3} {:5} {}\n",
            jiff::Timestamp::now(),
            record.level(),
            one_line(&record.args().to_string())
        );
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // Where could a failure to log be told?
        let _ = match out.as_mut() {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        };
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
