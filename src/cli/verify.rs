//! `arrayfs verify`: every rule, checksum and block of every container, in parallel.
//!
//! One thread opens containers and cuts their arrays into jobs, the others decode. Faults go to
//! standard error, a line each, as they are found; the summary goes to standard output.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::container::{self, Found};
use super::{Failure, Outcome, size};
use crate::array::{Array, Piece};
use crate::error::{Error, Fault, Result};

/// Decoded bytes of one job.
const JOB: u64 = 8 << 20;

pub(super) fn run(paths: &[PathBuf], json: bool) -> Outcome {
    let report = Report::new(json);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (sender, jobs) = crossbeam_channel::bounded(4 * threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let jobs = jobs.clone();
            scope.spawn(|| work(jobs, &report));
        }
        for path in paths {
            if let Err(failure) = verify_path(path, &sender, &report) {
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
    path: &std::path::Path,
    jobs: &Sender<Job>,
    report: &Report,
) -> std::result::Result<(), Failure> {
    if path.is_dir() {
        container::walk(path, &mut |e| report.error(&e), &mut |found| {
            plan(&found, jobs, report);
        })
    } else {
        plan(&container::find(path)?, jobs, report);
        Ok(())
    }
}

/// A part of an array, or the rules of a whole one.
struct Job {
    array: Arc<dyn Array>,
    container: Arc<PathBuf>,
    what: Check,
}

enum Check {
    Range(Range<u64>),
    Rules,
}

/// Opens a container and orders the checks of its arrays.
fn plan(found: &Found, jobs: &Sender<Job>, report: &Report) {
    let opened = match found.open() {
        Ok(opened) => opened,
        Err(e) => return report.error(&e),
    };
    report.containers.fetch_add(1, Relaxed);
    for fault in &opened.faults {
        report.fault(fault);
    }
    let container = Arc::new(found.shown());
    for array in &opened.arrays {
        let job = |what| Job {
            array: Arc::clone(array),
            container: Arc::clone(&container),
            what,
        };
        report.arrays.fetch_add(1, Relaxed);
        match array.info() {
            Ok(info) => {
                report.progress.inc_length(info.bytes);
                let starts = (0..info.bytes).step_by(JOB as usize);
                let ranges = starts.map(|at| Check::Range(at..(at + JOB).min(info.bytes)));
                for check in ranges.chain([Check::Rules]) {
                    // The workers live as long as this sender.
                    let _ = jobs.send(job(check));
                }
            }
            Err(e) => report.located(e, array.name(), &container),
        }
    }
}

fn work(jobs: Receiver<Job>, report: &Report) {
    let mut buffer = Vec::new();
    for Job {
        array,
        container,
        what,
    } in jobs
    {
        let checked = match what {
            Check::Range(range) => decode(&*array, range, &mut buffer, &container, report),
            Check::Rules => array.verify(&mut |fault| {
                report.located(fault.into(), array.name(), &container);
            }),
        };
        if let Err(e) = checked {
            report.located(e, array.name(), &container);
        }
    }
}

/// Decodes the blocks that begin in a range; one that began before it is another job's.
fn decode(
    array: &dyn Array,
    range: Range<u64>,
    buffer: &mut Vec<u8>,
    container: &std::path::Path,
    report: &Report,
) -> Result<()> {
    let mut pieces = Vec::new();
    array.pieces(range.clone(), &mut pieces)?;
    for piece in pieces {
        let decoded = match piece {
            Piece::Block { skip, .. } if skip > 0 => Ok(()),
            Piece::Block { id, block_len, .. } => array.decode(id, sized(buffer, block_len)),
            Piece::Stored { at, take } => read_stored(array, at, take, buffer),
        };
        report.blocks.fetch_add(1, Relaxed);
        report.progress.inc(piece.take());
        report.bytes.fetch_add(piece.take(), Relaxed);
        match decoded {
            Err(fault @ Error::Fault(_)) => report.located(fault, array.name(), container),
            other => other?,
        }
    }
    Ok(())
}

fn read_stored(array: &dyn Array, at: u64, take: u64, buffer: &mut Vec<u8>) -> Result<()> {
    const STEP: u64 = 1 << 20;
    let mut done = 0;
    while done < take {
        let n = STEP.min(take - done);
        array.read_stored(at + done, sized(buffer, n))?;
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

    fn fault(&self, fault: &Fault) {
        self.error(&Error::from(fault.clone()));
    }

    fn located(&self, e: Error, array: &str, container: &std::path::Path) {
        self.error(&e.map_fault(|fault| fault.array(array).container(container)));
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
