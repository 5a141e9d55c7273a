//! `arrayfs verify`: every rule, checksum and block of every container, in parallel.
//!
//! One thread opens containers and cuts their arrays into jobs, the others decode. Faults go to
//! standard error, a line each, as they are found; what is whole but not shown, and the summary, go
//! to standard output. A panic is reported as a fault, so that the workers live as long as there
//! are jobs. All memory whose size a file decides is charged to one budget of the default size:
//! workers wait for the memory of a block.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::{Receiver, Sender};

use super::container::{self, Found, FoundContainer, orphans_line};
use super::failure::{CommandResult, Failure};
use super::report::{Report, Subject};
use crate::array::{Piece, uncached};
use crate::container::inside::Located;
use crate::container::{Check, Preferences};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;

/// Decoded bytes of one job.
const JOB: u64 = 8 << 20;

pub(super) fn run(paths: &[PathBuf], preferences: Preferences, json: bool) -> CommandResult {
    let report = Report::new(json);
    let budget = Budget::by_default();
    with_workers(&budget, |jobs| {
        for path in paths {
            if let Err(failure) = verify_path(path, preferences, &budget, jobs, &report) {
                report.fault(&failure.message);
            }
        }
    });
    report.finish()?;
    if report.faults.load(Relaxed) > 0 {
        Err(Failure::silent())
    } else {
        Ok(())
    }
}

/// Does the jobs that `order` sends, and returns when all are done.
fn with_workers<'a>(budget: &Arc<Budget>, order: impl FnOnce(&Sender<CheckJob<'a>>)) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (sender, jobs) = crossbeam_channel::bounded(4 * threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let jobs = jobs.clone();
            scope.spawn(|| work(jobs, budget));
        }
        // Only workers receive: without any, sending would fail rather than wait.
        drop(jobs);
        order(&sender);
        // Moved in here, it is dropped by a panic as well, and the workers end.
        drop(sender);
    });
}

fn verify_path<'a>(
    path: &Path,
    preferences: Preferences,
    budget: &Arc<Budget>,
    jobs: &Sender<CheckJob<'a>>,
    report: &'a Report,
) -> std::result::Result<(), Failure> {
    let failed = &mut |e: Error| report.fault(&e.to_string());
    container::walk(path, preferences, failed, &mut |found| match found {
        Found::Container(found) => plan(&found, budget, jobs, report),
        Found::Lookalike(fault) => report.fault(&fault.to_string()),
        Found::Orphans(at) => report.orphans(&orphans_line(&at)),
    })
}

/// Something to check, and the container that it is of.
struct CheckJob<'a> {
    subject: Arc<Subject<'a>>,
    what: Task,
}

enum Task {
    /// Stored pieces of an array.
    Decode(Located, Vec<Piece>),
    /// What an array has beside its blocks.
    Rules(Located),
    /// Rules between the arrays of a group.
    Between(Arc<str>, Arc<dyn Check>),
}

/// Opens a container and orders its checks.
fn plan<'a>(
    found: &FoundContainer,
    budget: &Arc<Budget>,
    jobs: &Sender<CheckJob<'a>>,
    report: &'a Report,
) {
    let subject = Arc::new(Subject::new(report, found.shown()));
    if let Err(e) = guarded(|| plan_container(found, budget, &subject, jobs)) {
        subject.error(e);
    }
}

fn plan_container<'a>(
    found: &FoundContainer,
    budget: &Arc<Budget>,
    subject: &Arc<Subject<'a>>,
    jobs: &Sender<CheckJob<'a>>,
) -> Result<()> {
    let (opened, report) = (found.open(budget)?, subject.report);
    let meant = match found.meant(&opened) {
        Ok(meant) => meant,
        Err(failure) => {
            report.fault(&failure.message);
            return Ok(());
        }
    };
    report
        .containers
        .fetch_add(opened.all().len() as u64, Relaxed);
    for fault in opened.all_faults() {
        subject.error(fault.into());
    }
    let unreadable = opened.all_unreadable().into_iter();
    for (group, member) in unreadable.filter(|(_, member)| member.is_whole) {
        subject.error(member.error().of_array(&group, &member.name));
    }
    let order = |what| {
        let subject = Arc::clone(subject);
        // The workers live as long as this sender.
        let _ = jobs.send(CheckJob { subject, what });
    };
    let arrays = opened.all_arrays().into_iter();
    for located in arrays.filter(|located| meant.has(&located.path())) {
        report.arrays.fetch_add(1, Relaxed);
        if let Err(e) = guarded(|| plan_array(&located, report, &order)) {
            subject.error(located.locate(e));
        }
    }
    if !found.within.is_empty() {
        return Ok(());
    }
    for (group, check) in opened.all_checks() {
        order(Task::Between(group, check));
    }
    Ok(())
}

/// Turns a panic into an error; the line that the panic printed says where it was.
fn guarded(check: impl FnOnce() -> Result<()>) -> Result<()> {
    let panicked = |_| {
        Err(Error::Bug(
            "a check panicked, the line before says where".into(),
        ))
    };
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(panicked)
}

fn plan_array(located: &Located, report: &Report, order: &dyn Fn(Task)) -> Result<()> {
    located.array.info()?;
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let surveyed = located.array.survey(&mut |piece| {
        bytes += piece.take();
        batch.push(piece);
        if bytes >= JOB {
            report.progress.inc_length(bytes);
            let pieces = std::mem::take(&mut batch);
            order(Task::Decode(located.clone(), pieces));
            bytes = 0;
        }
    });
    report.progress.inc_length(bytes);
    order(Task::Decode(located.clone(), batch));
    order(Task::Rules(located.clone()));
    surveyed
}

fn work(jobs: Receiver<CheckJob<'_>>, budget: &Arc<Budget>) {
    for CheckJob { subject, what } in jobs {
        let at = |located: &Located, e: Error| {
            subject.error(located.locate(e));
        };
        match what {
            Task::Decode(located, pieces) => {
                for piece in pieces {
                    let mut told = 0;
                    let mut done = |bytes| {
                        told += bytes;
                        subject.report.progress.inc(bytes);
                    };
                    let array = &*located.array;
                    let checked = guarded(|| uncached::check(array, piece, budget, &mut done));
                    if let Err(e) = checked {
                        at(&located, e);
                    }
                    subject.report.checked(piece.take(), told);
                }
            }
            Task::Rules(located) => {
                let mut tell = |fault: Fault| at(&located, fault.into());
                if let Err(e) = guarded(|| located.array.verify(&mut tell)) {
                    at(&located, e);
                }
            }
            Task::Between(group, check) => {
                let tell = |e: Error| subject.error(e.map_fault(|fault| fault.inside(&group)));
                let faults = guarded(|| check.check(budget, &mut |fault| tell(fault.into())));
                let remarks = guarded(|| check.remarks(&mut |remark| tell(remark.into())));
                for e in [faults, remarks].into_iter().filter_map(Result::err) {
                    tell(e);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[derive(Default)]
    struct Panics {
        checked: AtomicU64,
    }

    impl Check for Panics {
        fn check(&self, _budget: &Arc<Budget>, _report: &mut dyn FnMut(Fault)) -> Result<()> {
            self.checked.fetch_add(1, Relaxed);
            panic!("meant to");
        }
    }

    /// More jobs than the queue holds: if the workers were gone, sending would wait for ever.
    #[test]
    fn checks_that_panic_are_told_and_the_others_go_on() {
        const JOBS: u64 = 3000;
        let (report, panics) = (Report::new(true), Arc::new(Panics::default()));
        with_workers(&Budget::by_default(), |jobs| {
            let subject = Arc::new(Subject::new(&report, "x".into()));
            for _ in 0..JOBS {
                let subject = Arc::clone(&subject);
                let what = Task::Between("group".into(), Arc::clone(&panics) as _);
                jobs.send(CheckJob { subject, what }).unwrap();
            }
        });
        assert_eq!(panics.checked.load(Relaxed), JOBS);
        assert_eq!(report.faults.load(Relaxed), 1);
    }
}
