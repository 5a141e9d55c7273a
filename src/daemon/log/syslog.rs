//! The system's log: datagrams to the socket that syslogd or the journal listens on.
//!
//! Nothing here waits: a line that the system's log does not take at once is lost, and the next one
//! that it takes says how many were lost. Every line is addressed anew, so a log that is restarted,
//! or started later, is found again; lines that nobody listens to meanwhile can go elsewhere.
//!
//! Framing as RFC 3164 and syslog(3) have it: `<PRIORITY>TIME TAG[PID]: text`, the time local and
//! without year. Used by [`super`].

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use log::Level;

/// Where the system listens.
pub(super) const SYSTEM: &str = "/dev/log";

/// LOG_DAEMON
const FACILITY: u8 = 3;

/// Longest text of a line in bytes: with its head it fits into what syslogd and journald take at
/// once.
const LONGEST: usize = 8000;

pub(super) struct SystemLog {
    socket: UnixDatagram,
    path: PathBuf,
    /// Lines since the last one that was taken.
    lost: u64,
}

impl SystemLog {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(SystemLog {
            socket,
            path: path.to_owned(),
            lost: 0,
        })
    }

    /// Whether a process listens now.
    pub(super) fn is_there(&self) -> io::Result<()> {
        UnixDatagram::unbound()?.connect(&self.path)
    }

    /// Logs a line; `text` has no control characters. `elsewhere` takes what nobody listens to, if
    /// it can.
    pub(super) fn tell(
        &mut self,
        level: Level,
        text: &str,
        elsewhere: &mut dyn FnMut(Level, &str) -> bool,
    ) {
        if self.lost > 0 {
            let lost = format!("lines lost before this one: {}", self.lost);
            if self.send_or((Level::Warn, &lost), elsewhere) {
                self.lost = 0;
            }
        }
        // Lines stay in order: none overtakes the word of those that were lost.
        if self.lost > 0 || !self.send_or((level, text), elsewhere) {
            self.lost += 1;
        }
    }

    fn send_or(
        &self,
        (level, text): (Level, &str),
        elsewhere: &mut dyn FnMut(Level, &str) -> bool,
    ) -> bool {
        match self.send(level, text) {
            Ok(()) => true,
            // It does not take the line at once.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => false,
            Err(_) => elsewhere(level, text),
        }
    }

    fn send(&self, level: Level, text: &str) -> io::Result<()> {
        let now = jiff::Zoned::now().strftime("%b %e %H:%M:%S").to_string();
        let line = framed(level, &now, std::process::id(), text);
        loop {
            match self.socket.send_to(line.as_bytes(), &self.path) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                sent => return sent.map(drop),
            }
        }
    }
}

fn framed(level: Level, time: &str, pid: u32, text: &str) -> String {
    let priority = FACILITY << 3 | severity(level);
    let name = env!("CARGO_PKG_NAME");
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text[..end];
    format!("<{priority}>{time} {name}[{pid}]: {text}")
}

/// LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG
fn severity(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere(_: Level, _: &str) -> bool {
        false
    }

    /// What waits in the socket.
    fn taken(system: &UnixDatagram) -> Vec<String> {
        system.set_nonblocking(true).unwrap();
        let mut line = [0; 2 * LONGEST];
        let next = || {
            let n = system.recv(&mut line).ok()?;
            Some(String::from_utf8(line[..n].to_vec()).unwrap())
        };
        std::iter::from_fn(next).collect()
    }

    fn texts(system: &UnixDatagram) -> Vec<String> {
        let text = |line: String| line.split_once("]: ").unwrap().1.to_owned();
        taken(system).into_iter().map(text).collect()
    }

    #[test]
    fn a_line_is_framed_as_the_system_expects() {
        let line = framed(Level::Error, "Jan  2 03:04:05", 4711, "x: block 3: größe");
        assert_eq!(line, "<27>Jan  2 03:04:05 arrayfs[4711]: x: block 3: größe");
        let priority = |level| {
            framed(level, "", 1, "")
                .split_once('>')
                .unwrap()
                .0
                .to_owned()
        };
        let levels = [Level::Warn, Level::Info, Level::Debug, Level::Trace];
        assert_eq!(levels.map(priority), ["<28", "<30", "<31", "<31"]);
        let long = framed(Level::Info, "", 1, &"ö".repeat(LONGEST));
        assert!(long.ends_with('ö') && long.len() < LONGEST + 100);
    }

    #[test]
    fn lines_arrive_one_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let system = UnixDatagram::bind(&path).unwrap();
        let mut log = SystemLog::new(&path).unwrap();
        assert!(log.is_there().is_ok());
        log.tell(Level::Info, "one", &mut nowhere);
        log.tell(Level::Error, "two", &mut nowhere);
        let lines = taken(&system);
        let [one, two] = &lines[..] else {
            panic!("{lines:?}");
        };
        let tag = format!(" arrayfs[{}]: ", std::process::id());
        assert!(
            one.starts_with("<30>") && one.ends_with(&format!("{tag}one")),
            "{one}"
        );
        assert!(
            two.starts_with("<27>") && two.ends_with(&format!("{tag}two")),
            "{two}"
        );
        // `Mmm dd hh:mm:ss`
        let time = &one[4..one.len() - tag.len() - 3];
        assert_eq!(
            (time.len(), &time[3..4], &time[6..7], &time[9..10]),
            (15, " ", " ", ":")
        );
    }

    #[test]
    fn a_system_log_that_comes_late_or_again_is_found_and_told_what_it_missed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = SystemLog::new(&path).unwrap();
        assert!(log.is_there().is_err());
        log.tell(Level::Info, "before", &mut nowhere);
        let system = UnixDatagram::bind(&path).unwrap();
        log.tell(Level::Info, "late", &mut nowhere);
        assert_eq!(texts(&system), ["lines lost before this one: 1", "late"]);
        // It ends and leaves its socket, and another one takes its place.
        drop(system);
        log.tell(Level::Info, "nobody listens", &mut nowhere);
        log.tell(Level::Info, "still nobody", &mut nowhere);
        std::fs::remove_file(&path).unwrap();
        let system = UnixDatagram::bind(&path).unwrap();
        log.tell(Level::Info, "again", &mut nowhere);
        log.tell(Level::Info, "on", &mut nowhere);
        assert_eq!(
            texts(&system),
            ["lines lost before this one: 2", "again", "on"]
        );
    }

    /// Would hang if it waited.
    #[test]
    fn a_system_log_that_does_not_read_costs_lines_and_no_time() {
        const LINES: usize = 100_000;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let system = UnixDatagram::bind(&path).unwrap();
        let mut log = SystemLog::new(&path).unwrap();
        for number in 0..LINES {
            log.tell(Level::Info, &number.to_string(), &mut nowhere);
        }
        let first = texts(&system);
        assert!(!first.is_empty() && first.len() < LINES);
        assert_eq!(
            first,
            (0..first.len()).map(|n| n.to_string()).collect::<Vec<_>>()
        );
        log.tell(Level::Info, "after", &mut nowhere);
        let lost = format!("lines lost before this one: {}", LINES - first.len());
        assert_eq!(texts(&system), [lost, "after".to_owned()]);
    }

    #[test]
    fn what_nobody_listens_to_goes_elsewhere_and_is_not_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = SystemLog::new(&path).unwrap();
        let mut taken_elsewhere = Vec::new();
        let mut elsewhere = |level, text: &str| {
            taken_elsewhere.push((level, text.to_owned()));
            true
        };
        log.tell(Level::Warn, "nobody listens", &mut elsewhere);
        let system = UnixDatagram::bind(&path).unwrap();
        log.tell(Level::Info, "late", &mut elsewhere);
        drop(system);
        log.tell(Level::Error, "nobody any more", &mut elsewhere);
        let expected = [
            (Level::Warn, "nobody listens"),
            (Level::Error, "nobody any more"),
        ];
        let expected = expected.map(|(level, text)| (level, text.to_owned()));
        assert_eq!(taken_elsewhere, expected);
    }
}
