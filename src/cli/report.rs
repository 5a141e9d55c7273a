//! What `verify` checked and found.
//!
//! A fault is reported when it is found, once for each container; so is a part that is whole but
//! not shown, which is no fault. Of very many in a container only so many are listed and
//! remembered; the others are counted, and their number is printed when all of its checks are done.
//! So memory is bounded however damaged a container is.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use indicatif::ProgressBar;
use serde_json::json;

use super::counted::counted;
use super::failure::CommandResult;
use super::{output, progress, size};
use crate::daemon::log::one_line;
use crate::error::Error;
use crate::sync::Mutex;

/// Findings of a kind that are listed of an array, and of all arrays of a container.
const LISTED_OF_ARRAY: usize = 100;
const LISTED_OF_CONTAINER: usize = 10_000;

/// What may be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    Fault,
    /// Whole, but there is no way to show it.
    NotShown,
}

impl Finding {
    fn of(error: &Error) -> Finding {
        match error {
            Error::NotShown(_) => Finding::NotShown,
            _ => Finding::Fault,
        }
    }
}

pub(super) struct Report {
    json: bool,
    pub(super) progress: ProgressBar,
    pub(super) containers: AtomicU64,
    pub(super) arrays: AtomicU64,
    blocks: AtomicU64,
    bytes: AtomicU64,
    pub(super) faults: AtomicU64,
    not_shown: AtomicU64,
    /// Faults that are only counted.
    unlisted: AtomicU64,
    /// For the JSON document.
    lines: Mutex<Vec<(Finding, String)>>,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        Report {
            json,
            progress: progress::of_bytes(!json),
            containers: AtomicU64::new(0),
            arrays: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            not_shown: AtomicU64::new(0),
            unlisted: AtomicU64::new(0),
            lines: Mutex::default(),
        }
    }

    /// A block, or so many bytes that are not in blocks, of which so many are in the progress
    /// already.
    pub(super) fn checked(&self, bytes: u64, told: u64) {
        self.blocks.fetch_add(1, Relaxed);
        self.progress.inc(bytes.saturating_sub(told));
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Files left beside a container that is gone are no damage, and reported all the same.
    pub(super) fn orphans(&self, line: &str) {
        self.progress.suspend(|| output::complain(one_line(line)));
    }

    /// A fault that is none of an opened container.
    pub(super) fn fault(&self, line: &str) {
        self.count(Finding::Fault);
        self.say(Finding::Fault, line);
    }

    fn count(&self, finding: Finding) {
        let counter = match finding {
            Finding::Fault => &self.faults,
            Finding::NotShown => &self.not_shown,
        };
        counter.fetch_add(1, Relaxed);
    }

    fn say(&self, finding: Finding, line: &str) {
        let line = one_line(line);
        self.progress.suspend(|| match (finding, self.json) {
            (Finding::Fault, _) => output::complain(&line),
            // If standard output cannot be written, the summary fails as well.
            (Finding::NotShown, false) => drop(output::print(|out| writeln!(out, "{line}"))),
            (Finding::NotShown, true) => {}
        });
        if self.json {
            let mut lines = self.lines.lock();
            lines.push((finding, line.into_owned()));
        }
    }

    fn lines(&self, of: Finding) -> Vec<String> {
        let lines = self.lines.lock();
        let of = lines.iter().filter(|(finding, _)| *finding == of);
        of.map(|(_, line)| line.clone()).collect()
    }

    /// Writes the summary.
    pub(super) fn finish(&self) -> CommandResult {
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
            "faults": self.lines(Finding::Fault),
            "unlisted": self.unlisted.load(Relaxed),
            "not_shown": self.not_shown.load(Relaxed),
            "unreadable": self.lines(Finding::NotShown),
        })
        .to_string()
    }

    fn sentence(&self) -> String {
        format!(
            "{}, {}, {} in {}: {}{}",
            counted(self.containers.load(Relaxed), "container"),
            counted(self.arrays.load(Relaxed), "array"),
            size::show(self.bytes.load(Relaxed)),
            counted(self.blocks.load(Relaxed), "block"),
            match self.faults.load(Relaxed) {
                0 => "sound".to_owned(),
                faults => counted(faults, "fault"),
            },
            match self.not_shown.load(Relaxed) {
                0 => String::new(),
                n => format!(", {n} not shown"),
            }
        )
    }
}

/// A container that is being checked; it is dropped when its last check is done.
pub(super) struct Subject<'a> {
    pub(super) report: &'a Report,
    path: PathBuf,
    faults: Mutex<ListedFindings>,
    not_shown: Mutex<ListedFindings>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(report: &'a Report, path: PathBuf) -> Self {
        Subject {
            report,
            path,
            faults: Mutex::default(),
            not_shown: Mutex::default(),
        }
    }

    /// Reports an error, unless it has been reported: a bad chunk is met again in each of its
    /// blocks.
    pub(super) fn error(&self, e: Error) {
        let e = e.of_container(&self.path);
        let array = match &e {
            Error::Fault(fault) => fault.array.clone(),
            Error::NotShown(not) => not.array.clone(),
            _ => None,
        };
        let (finding, line) = (Finding::of(&e), e.to_string());
        let findings = match finding {
            Finding::Fault => &self.faults,
            Finding::NotShown => &self.not_shown,
        };
        let mut findings = findings.lock();
        let taken = findings.take(array.unwrap_or_default(), &line);
        drop(findings);
        match taken {
            Taken::Known => return,
            Taken::Listed => self.report.say(finding, &line),
            Taken::Counted if finding == Finding::Fault => {
                self.report.unlisted.fetch_add(1, Relaxed);
            }
            Taken::Counted => {}
        }
        self.report.count(finding);
    }
}

impl Drop for Subject<'_> {
    fn drop(&mut self) {
        let path = self.path.display();
        for rest in self.faults.get_mut().rest() {
            let line = format!("{path}: {rest}");
            self.report.say(Finding::Fault, &line);
        }
        for rest in self.not_shown.get_mut().rest() {
            let line = format!("not shown: {path}: {rest}");
            self.report.say(Finding::NotShown, &line);
        }
    }
}

/// The findings of one kind that have been reported of a container.
#[derive(Default)]
struct ListedFindings {
    arrays: HashMap<String, ListedOfArray>,
    listed: usize,
    /// Of arrays that have nothing listed.
    more: u64,
}

#[derive(Default)]
struct ListedOfArray {
    lines: HashSet<String>,
    more: u64,
}

enum Taken {
    Listed,
    Known,
    /// Too many have been listed. It may be one of those already counted.
    Counted,
}

impl ListedFindings {
    fn take(&mut self, array: String, line: &str) -> Taken {
        let full = self.listed >= LISTED_OF_CONTAINER;
        if full && !self.arrays.contains_key(&array) {
            self.more += 1;
            return Taken::Counted;
        }
        let findings = self.arrays.entry(array).or_default();
        if findings.lines.contains(line) {
            return Taken::Known;
        }
        if full || findings.lines.len() >= LISTED_OF_ARRAY {
            findings.more += 1;
            return Taken::Counted;
        }
        findings.lines.insert(line.to_owned());
        self.listed += 1;
        Taken::Listed
    }

    /// How many are not listed, and where.
    fn rest(&self) -> Vec<String> {
        let mut rest = Vec::new();
        for (array, findings) in self.arrays.iter().filter(|(_, findings)| findings.more > 0) {
            let place = match array.as_str() {
                "" => String::new(),
                array => format!("{array}: "),
            };
            rest.push(format!("{place}{} more, not listed", findings.more));
        }
        if self.more > 0 {
            rest.push(format!("{} more of other arrays, not listed", self.more));
        }
        rest.sort_unstable();
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::NotShown;

    fn listed(findings: &mut ListedFindings, array: &str, line: &str) -> bool {
        matches!(findings.take(array.into(), line), Taken::Listed)
    }

    #[test]
    fn of_a_very_bad_array_only_some_faults_are_listed() {
        let mut findings = ListedFindings::default();
        let mut of_data = |number: usize| listed(&mut findings, "data", &number.to_string());
        assert_eq!((0..1000).filter(|n| of_data(*n)).count(), LISTED_OF_ARRAY);
        // Met again, it is neither listed nor counted.
        assert!(!of_data(0));
        assert!(listed(&mut findings, "other", "0"));
        assert_eq!(findings.rest(), ["data: 900 more, not listed"]);
    }

    #[test]
    fn of_very_many_bad_arrays_only_some_are_remembered() {
        let mut findings = ListedFindings::default();
        for array in 0..LISTED_OF_CONTAINER + 7 {
            findings.take(array.to_string(), "bad");
        }
        assert_eq!(findings.arrays.len(), LISTED_OF_CONTAINER);
        assert_eq!(findings.rest(), ["7 more of other arrays, not listed"]);
        assert!(!listed(&mut findings, "0", "worse"));
        assert!(
            findings
                .rest()
                .contains(&"0: 1 more, not listed".to_owned())
        );
    }

    #[test]
    fn what_is_counted_is_a_fault_all_the_same() {
        let report = Report::new(true);
        let subject = Subject::new(&report, "x".into());
        subject.faults.lock().listed = LISTED_OF_CONTAINER;
        for _ in 0..3 {
            subject.error(Error::NotFound);
        }
        drop(subject);
        assert_eq!(report.faults.load(Relaxed), 3);
        assert!(report.sentence().ends_with(": 3 faults"));
        let document: serde_json::Value = serde_json::from_str(&report.document()).unwrap();
        assert_eq!(document["unlisted"], 3);
        assert_eq!(
            document["faults"][0],
            "x: 3 more of other arrays, not listed"
        );
    }
    #[test]
    fn what_is_not_shown_is_told_once_and_is_no_fault() {
        let report = Report::new(true);
        let subject = Subject::new(&report, "x".into());
        for _ in 0..2 {
            let not = NotShown::new("filter 9");
            subject.error(Error::from(not).of_array("g", "a"));
        }
        drop(subject);
        let document: serde_json::Value = serde_json::from_str(&report.document()).unwrap();
        assert_eq!(
            (&document["not_shown"], &document["faults"]),
            (&json!(1), &json!([]))
        );
        assert_eq!(
            document["unreadable"],
            json!(["not shown: x: g/a: filter 9"])
        );
        assert!(report.sentence().ends_with(": sound, 1 not shown"));
    }
}
