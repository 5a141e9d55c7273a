//! `arrayfs verify`: every rule, checksum and block of every container, in parallel.
//!
//! One thread opens containers and cuts their arrays into jobs, the others decode. Faults go to
//! standard error, a line each, as they are found; the summary goes to standard output.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::container::{self, Found};
use super::{Failure, Outcome, size};
use crate::array::{Array, Piece};
use crate::container::inside::Located;
use crate::container::{Check, Preferences};
use crate::error::{Error, Fault, Result};

/// Decoded bytes of one job.
const JOB: u64 = 8 << 20;

pub(super) fn run(paths: &[PathBuf], preferences: Preferences, json: bool) -> Outcome {
    let report = Report::new(json);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (sender, jobs) = crossbeam_channel::bounded(4 * threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let jobs = jobs.clone();
            scope.spawn(|| work(jobs, &report));
        }
        for path in paths {
            if let Err(failure) = verify_path(path, preferences, &sender, &report) {
                report.faults.fetch_add(1, Relaxed);
                report.say(&failure.message);
            }
        }
        drop(sender);
    });
    report.finish();
    if report.faults.load(Relaxed) > 0 {
        Err(Failure::silent())
    } else {
        Ok(())
    }
}

fn verify_path(
    path: &Path,
    preferences: Preferences,
    jobs: &Sender<Job>,
    report: &Report,
) -> std::result::Result<(), Failure> {
    if path.is_dir() {
        container::walk(path, preferences, &mut |e| report.error(&e), &mut |found| {
            plan(&found, jobs, report);
        })
    } else {
        plan(&container::find(path, preferences)?, jobs, report);
        Ok(())
    }
}

/// Something to check, and the container that it is of.
struct Job {
    container: Arc<PathBuf>,
    what: Work,
}

enum Work {
    /// Stored pieces of an array.
    Decode(Located, Vec<Piece>),
    /// What an array has beside its blocks.
    Rules(Located),
    /// Rules between the arrays of a group.
    Between(Arc<str>, Arc<dyn Check>),
}

/// Opens a container and orders the checks of its arrays.
fn plan(found: &Found, jobs: &Sender<Job>, report: &Report) {
    let opened = match found.open() {
        Ok(opened) => opened,
        Err(e) => return report.error(&e),
    };
    report
        .containers
        .fetch_add(opened.all().len() as u64, Relaxed);
    for fault in opened.all_faults() {
        report.error(&fault.into());
    }
    let container = Arc::new(found.shown());
    let order = |what| {
        let container = Arc::clone(&container);
        // The workers live as long as this sender.
        let _ = jobs.send(Job { container, what });
    };
    for located in opened.all_arrays() {
        report.arrays.fetch_add(1, Relaxed);
        if let Err(e) = plan_array(&located, report, &order) {
            report.error(&e.map_fault(|fault| located.locate(fault).container(&container)));
        }
    }
    for (group, check) in opened.all_checks() {
        order(Work::Between(group, check));
    }
}

fn plan_array(located: &Located, report: &Report, order: &dyn Fn(Work)) -> Result<()> {
    located.array.info()?;
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let surveyed = located.array.survey(&mut |piece| {
        bytes += piece.take();
        batch.push(piece);
        if bytes >= JOB {
            report.progress.inc_length(bytes);
            let pieces = std::mem::take(&mut batch);
            order(Work::Decode(located.clone(), pieces));
            bytes = 0;
        }
    });
    report.progress.inc_length(bytes);
    order(Work::Decode(located.clone(), batch));
    order(Work::Rules(located.clone()));
    surveyed
}

fn work(jobs: Receiver<Job>, report: &Report) {
    let mut buffer = Vec::new();
    for Job { container, what } in jobs {
        let place = |located: &Located, e: Error| {
            report.error(&e.map_fault(|fault| located.locate(fault).container(&container)));
        };
        match what {
            Work::Decode(located, pieces) => {
                for piece in pieces {
                    if let Err(e) = decode(&*located.array, piece, &mut buffer) {
                        place(&located, e);
                    }
                    report.blocks.fetch_add(1, Relaxed);
                    report.progress.inc(piece.take());
                    report.bytes.fetch_add(piece.take(), Relaxed);
                }
            }
            Work::Rules(located) => {
                let mut tell = |fault: Fault| place(&located, fault.into());
                if let Err(e) = located.array.verify(&mut tell) {
                    place(&located, e);
                }
            }
            Work::Between(group, check) => {
                let tell = |e: Error| {
                    report.error(&e.map_fault(|fault| fault.inside(&group).container(&container)));
                };
                if let Err(e) = check.check(&mut |fault| tell(fault.into())) {
                    tell(e);
                }
            }
        }
    }
}

fn decode(array: &dyn Array, piece: Piece, buffer: &mut Vec<u8>) -> Result<()> {
    match piece {
        Piece::Block { id, block_len, .. } => array.decode(id, sized(buffer, block_len)),
        Piece::Direct { at, take } => read_direct(array, at, take, buffer),
    }
}

fn read_direct(array: &dyn Array, at: u64, take: u64, buffer: &mut Vec<u8>) -> Result<()> {
    const STEP: u64 = 1 << 20;
    let mut done = 0;
    while done < take {
        let n = STEP.min(take - done);
        array.read_direct(at + done, sized(buffer, n))?;
        done += n;
    }
    Ok(())
}

fn sized(buffer: &mut Vec<u8>, len: u64) -> &mut [u8] {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

/// What was checked and found.
struct Report {
    json: bool,
    progress: ProgressBar,
    containers: AtomicU64,
    arrays: AtomicU64,
    blocks: AtomicU64,
    bytes: AtomicU64,
    faults: AtomicU64,
    told: Mutex<HashSet<String>>,
    lines: Mutex<Vec<String>>,
}

impl Report {
    fn new(json: bool) -> Self {
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
            told: Mutex::default(),
            lines: Mutex::default(),
        }
    }

    fn error(&self, e: &Error) {
        let line = e.to_string();
        // A bad chunk is met again in each of its blocks.
        if self
            .told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(line.clone())
        {
            self.faults.fetch_add(1, Relaxed);
            self.say(&line);
        }
    }

    fn say(&self, line: &str) {
        let line = line.replace('\n', "\\n");
        self.progress.suspend(|| {
            let _ = writeln!(std::io::stderr(), "arrayfs: {line}");
        });
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    fn finish(&self) {
        self.progress.finish_and_clear();
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let summary = if self.json {
            json!({
                "containers": count(&self.containers),
                "arrays": count(&self.arrays),
                "blocks": count(&self.blocks),
                "bytes": count(&self.bytes),
                "faults": *self.lines.lock().unwrap_or_else(PoisonError::into_inner),
            })
            .to_string()
        } else {
            format!(
                "{} containers, {} arrays, {} in {} blocks: {}",
                count(&self.containers),
                count(&self.arrays),
                size::show(count(&self.bytes)),
                count(&self.blocks),
                match count(&self.faults) {
                    0 => "sound".to_owned(),
                    1 => "1 fault".to_owned(),
                    n => format!("{n} faults"),
                }
            )
        };
        // A closed pipe does not change the verdict.
        let _ = writeln!(std::io::stdout(), "{summary}");
    }
}
