//! What `verify` checked and found.
//!
//! A fault is told when it is found, once for each container. Of a container with very many only so many
//! are listed and remembered; the others are counted, and how many they are is said when all of its checks
//! are done. So memory is bounded however damaged a container is.

use std::collections::{HashMap, HashSet};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::{Outcome, output, size};
use crate::daemon::log::one_line;
use crate::error::Error;

/// Faults listed of an array, and of all arrays of a container.
const LISTED_OF_ARRAY: usize = 100;
const LISTED_OF_CONTAINER: usize = 10_000;

pub(super) struct Report {
    json: bool,
    pub(super) progress: ProgressBar,
    pub(super) containers: AtomicU64,
    pub(super) arrays: AtomicU64,
    blocks: AtomicU64,
    bytes: AtomicU64,
    pub(super) faults: AtomicU64,
    unlisted: AtomicU64,
    /// For the JSON document.
    lines: Mutex<Vec<String>>,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        let progress = if std::io::stderr().is_terminal() && !json {
            let style = "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
            ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            )
        } else {
            ProgressBar::hidden()
        };
        Report {
            json,
            progress,
            containers: AtomicU64::new(0),
            arrays: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            unlisted: AtomicU64::new(0),
            lines: Mutex::default(),
        }
    }

    /// A block, or so many bytes that are not in blocks.
    pub(super) fn checked(&self, bytes: u64) {
        self.blocks.fetch_add(1, Relaxed);
        self.progress.inc(bytes);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// A fault that is none of an opened container.
    pub(super) fn fault(&self, line: &str) {
        self.faults.fetch_add(1, Relaxed);
        self.say(line);
    }

    fn say(&self, line: &str) {
        self.progress.suspend(|| output::complain(line));
        if self.json {
            self.lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(one_line(line).into_owned());
        }
    }

    /// Writes the summary.
    pub(super) fn finish(&self) -> Outcome {
        self.progress.finish_and_clear();
        let summary = if self.json {
            self.document()
        } else {
            self.sentence()
        };
        output::print(|out| writeln!(out, "{summary}"))
    }

    fn document(&self) -> String {
        json!({
            "containers": self.containers.load(Relaxed),
            "arrays": self.arrays.load(Relaxed),
            "blocks": self.blocks.load(Relaxed),
            "bytes": self.bytes.load(Relaxed),
            "faults": *self.lines.lock().unwrap_or_else(PoisonError::into_inner),
            "unlisted": self.unlisted.load(Relaxed),
        })
        .to_string()
    }

    fn sentence(&self) -> String {
        format!(
            "{} containers, {} arrays, {} in {} blocks: {}",
            self.containers.load(Relaxed),
            self.arrays.load(Relaxed),
            size::show(self.bytes.load(Relaxed)),
            self.blocks.load(Relaxed),
            match self.faults.load(Relaxed) {
                0 => "sound".to_owned(),
                1 => "1 fault".to_owned(),
                n => format!("{n} faults"),
            }
        )
    }
}

/// A container that is being checked; it is dropped when its last check is done.
pub(super) struct Subject<'a> {
    pub(super) report: &'a Report,
    path: PathBuf,
    told: Mutex<Told>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(report: &'a Report, path: PathBuf) -> Self {
        Subject {
            report,
            path,
            told: Mutex::default(),
        }
    }

    /// Tells of a fault, unless it has been told: a bad chunk is met again in each of its blocks.
    pub(super) fn error(&self, e: Error) {
        let e = e.map_fault(|fault| fault.container(&self.path));
        let array = match &e {
            Error::Fault(fault) => fault.array.clone().unwrap_or_default(),
            _ => String::new(),
        };
        let line = e.to_string();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match told.take(array, &line) {
            Taken::Known => {}
            Taken::Listed => {
                drop(told);
                self.report.fault(&line);
            }
            Taken::Counted => {
                self.report.faults.fetch_add(1, Relaxed);
                self.report.unlisted.fetch_add(1, Relaxed);
            }
        }
    }
}

impl Drop for Subject<'_> {
    fn drop(&mut self) {
        let told = self.told.get_mut().unwrap_or_else(PoisonError::into_inner);
        for rest in told.rest() {
            self.report.say(&format!("{}: {rest}", self.path.display()));
        }
    }
}

/// What has been told of a container.
#[derive(Default)]
struct Told {
    arrays: HashMap<String, ToldOfArray>,
    listed: usize,
    /// Of arrays that have nothing listed.
    more: u64,
}

#[derive(Default)]
struct ToldOfArray {
    lines: HashSet<String>,
    more: u64,
}

enum Taken {
    Listed,
    Known,
    /// Too many have been listed. It may be one of those already counted.
    Counted,
}

impl Told {
    fn take(&mut self, array: String, line: &str) -> Taken {
        let full = self.listed >= LISTED_OF_CONTAINER;
        if full && !self.arrays.contains_key(&array) {
            self.more += 1;
            return Taken::Counted;
        }
        let told = self.arrays.entry(array).or_default();
        if told.lines.contains(line) {
            return Taken::Known;
        }
        if full || told.lines.len() >= LISTED_OF_ARRAY {
            told.more += 1;
            return Taken::Counted;
        }
        told.lines.insert(line.to_owned());
        self.listed += 1;
        Taken::Listed
    }

    /// How many are not listed, and where.
    fn rest(&self) -> Vec<String> {
        let mut rest = Vec::new();
        for (array, told) in self.arrays.iter().filter(|(_, told)| told.more > 0) {
            let place = match array.as_str() {
                "" => String::new(),
                array => format!("{array}: "),
            };
            rest.push(format!("{place}{} more faults, not listed", told.more));
        }
        if self.more > 0 {
            rest.push(format!(
                "{} more faults of other arrays, not listed",
                self.more
            ));
        }
        rest.sort_unstable();
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(told: &mut Told, array: &str, line: &str) -> bool {
        matches!(told.take(array.into(), line), Taken::Listed)
    }

    #[test]
    fn of_a_very_bad_array_only_some_faults_are_listed() {
        let mut told = Told::default();
        let mut of_data = |number: usize| listed(&mut told, "data", &number.to_string());
        assert_eq!((0..1000).filter(|n| of_data(*n)).count(), LISTED_OF_ARRAY);
        // Met again, it is neither listed nor counted.
        assert!(!of_data(0));
        assert!(listed(&mut told, "other", "0"));
        assert_eq!(told.rest(), ["data: 900 more faults, not listed"]);
    }

    #[test]
    fn of_very_many_bad_arrays_only_some_are_remembered() {
        let mut told = Told::default();
        for array in 0..LISTED_OF_CONTAINER + 7 {
            told.take(array.to_string(), "bad");
        }
        assert_eq!(told.arrays.len(), LISTED_OF_CONTAINER);
        assert_eq!(told.rest(), ["7 more faults of other arrays, not listed"]);
        assert!(!listed(&mut told, "0", "worse"));
        assert!(
            told.rest()
                .contains(&"0: 1 more faults, not listed".to_owned())
        );
    }

    #[test]
    fn what_is_counted_is_a_fault_all_the_same() {
        let report = Report::new(true);
        let subject = Subject::new(&report, "x".into());
        subject.told.lock().unwrap().listed = LISTED_OF_CONTAINER;
        for _ in 0..3 {
            subject.error(Error::NotFound);
        }
        drop(subject);
        assert_eq!(report.faults.load(Relaxed), 3);
        let document: serde_json::Value = serde_json::from_str(&report.document()).unwrap();
        assert_eq!(document["unlisted"], 3);
        assert_eq!(
            document["faults"][0],
            "x: 3 more faults of other arrays, not listed"
        );
    }
}
