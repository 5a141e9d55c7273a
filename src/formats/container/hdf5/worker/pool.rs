//! The workers of this process: started when first wanted, used again, replaced when they end.
//!
//! Starting a process for every file would cost more than most files do. There are at most as many
//! workers as cores, not counting those whose request takes long: a request about another file does
//! not wait for them. Requests about one file never take more than half of the workers.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use super::limits::{Allowance, Limits};
use super::process::{EncodedAnswer, Failed, Program, Worker, note_death};
use super::session::SessionSeats;
use super::wire::{WorkerAnswer, WorkerRequest, WorkerTask};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::processors::processors;
use crate::source::{Source, SourceIdentity};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// The pool of the process.
pub(super) static POOL: LazyLock<WorkerPool> = LazyLock::new(|| {
    WorkerPool::new(
        Program::from_environment(),
        Limits::from_environment(),
        processors(),
    )
});

/// From this time on a request takes long.
const LONG: Duration = Duration::from_millis(500);
/// Most requests that take long.
const LONG_MOST: usize = 8;

pub(super) struct WorkerPool {
    run: Program,
    limits: Limits,
    most: usize,
    workers: Mutex<Workers>,
    freed: Condvar,
    /// Of edits, which take none of those that openings wait for.
    pub(super) sessions: SessionSeats,
}

#[derive(Default)]
struct Workers {
    idle: Vec<Worker>,
    busy: Vec<RunningJob>,
    /// Number of the next job.
    next: u64,
}

/// What a worker is at.
struct RunningJob {
    number: u64,
    file: SourceIdentity,
    since: Instant,
}

impl WorkerPool {
    /// A pool of at most `most` workers that run this program.
    pub(super) fn new(run: Program, limits: Limits, most: usize) -> WorkerPool {
        WorkerPool {
            run,
            limits,
            most: most.max(1),
            workers: Mutex::default(),
            freed: Condvar::new(),
            sessions: SessionSeats::new(most.max(1)),
        }
    }

    /// Asks a worker about a file; `read` makes something of the answer, which is charged to the
    /// budget, or finds that it is none. A worker that ends on the way gets a second one to try,
    /// since an old one may have carried damage along.
    pub(super) fn ask<T>(
        &self,
        wanted: WorkerTask,
        file: &dyn Source,
        budget: &Arc<Budget>,
        read: impl FnOnce(EncodedAnswer) -> Result<Option<WorkerAnswer<T>>>,
    ) -> Result<T> {
        let allowance = self.allowance(file);
        let request = request(wanted, file, allowance);
        let mut seat = self.sit(file.identity().without_content());
        let ask = |worker: &mut Worker| {
            let end = worker.end(allowance);
            worker.send(request, file)?;
            worker.answer(file, end, budget)
        };
        let mut asked = ask(seat.worker()?);
        if let Err(Failed::Ended(_)) = asked {
            seat.dismiss();
            asked = ask(seat.worker()?);
        }
        let encoded = asked.map_err(|failed| {
            seat.dismiss();
            self.error(failed, allowance)
        })?;
        let answer = read(encoded)?;
        if answer.is_none() || seat.worker()?.is_tired() {
            seat.dismiss();
        }
        match answer {
            Some(answer) => answer.map_err(Error::from),
            None => Err(unreadable().into()),
        }
    }

    pub(super) fn allowance(&self, file: &dyn Source) -> Allowance {
        self.limits.allowance(file.len())
    }

    fn sit(&self, file: SourceIdentity) -> Seat<'_> {
        let mut workers = self.lock();
        while let Some(patience) = workers.must_wait(self.most, file, Instant::now()) {
            self.freed.wait_for(&mut workers, patience);
        }
        let number = workers.next;
        workers.next += 1;
        workers.busy.push(RunningJob {
            number,
            file,
            since: Instant::now(),
        });
        drop(workers);
        Seat {
            pool: self,
            number,
            worker: self.idle_worker(),
        }
    }

    /// A worker that has nothing to do, or a new one.
    pub(super) fn take_worker(&self) -> Result<Worker> {
        self.idle_worker().map_or_else(|| self.start(), Ok)
    }

    /// One that has nothing to do; those that have ended meanwhile go.
    fn idle_worker(&self) -> Option<Worker> {
        loop {
            let worker = self.lock().idle.pop()?;
            if worker.is_waiting() {
                return Some(worker);
            }
            note_death();
        }
    }

    /// Keeps a worker for others.
    pub(super) fn give_back(&self, worker: Worker) {
        let mut workers = self.lock();
        if workers.idle.len() < self.most && !worker.is_tired() {
            workers.idle.push(worker);
        }
    }

    pub(super) fn start(&self) -> Result<Worker> {
        Worker::start(&self.run, self.limits).map_err(|cause| {
            let program = self.run.program.display();
            Error::io(format!("cannot start the HDF5 worker {program}"), cause)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock()
    }

    /// A file that made the library hang most likely does it again, and costs its time again.
    pub(super) fn error(&self, failed: Failed, allowance: Allowance) -> Error {
        let Allowance { seconds, wait } = allowance;
        let retry_after = match failed {
            Failed::Late => allowance.processor_time() * 10,
            Failed::Silent => allowance.waiting_time(),
            _ => Duration::from_secs(10),
        };
        if matches!(failed, Failed::Late | Failed::Silent | Failed::TooLong(_)) {
            note_death();
        }
        let what = match failed {
            Failed::Late => format!(
                "the HDF5 library took longer than {seconds} s of processor time on this file"
            ),
            Failed::Silent => {
                format!("the HDF5 worker gave no answer about this file in {wait} s")
            }
            Failed::Refused(error) => return error,
            Failed::TooLong(bytes) => format!("the HDF5 worker announces {bytes} bytes"),
            Failed::Ended(None) => "the HDF5 worker closed its end on this file".into(),
            Failed::Ended(Some(status)) => self.ending(status),
        };
        Fault::new(what).passing(retry_after).into()
    }

    fn ending(&self, status: ExitStatus) -> String {
        match (status.signal(), status.code()) {
            // A program that gets no memory aborts; one that the system has no memory for is
            // killed.
            (Some(signal @ (libc::SIGABRT | libc::SIGKILL)), _) => format!(
                "the HDF5 library ended by signal {signal} on this file, it may have needed more than \
                 {} MiB",
                self.limits.mebibytes
            ),
            (Some(signal), _) => format!("the HDF5 library ended by signal {signal} on this file"),
            (_, Some(code)) => format!("the HDF5 worker ended with status {code} on this file"),
            _ => "the HDF5 worker ended on this file".into(),
        }
    }
}

/// What a worker answered is no answer.
pub(super) fn unreadable() -> Fault {
    Fault::new("the answer of the HDF5 worker cannot be read")
}

impl Workers {
    /// For how long at least; none if a worker may be had for this file.
    fn must_wait(&self, most: usize, file: SourceIdentity, now: Instant) -> Option<Duration> {
        let age = |job: &RunningJob| now.saturating_duration_since(job.since);
        let of_file = self.busy.iter().filter(|job| job.file == file).count();
        let quick = self.busy.iter().filter(|job| age(job) < LONG).count();
        let taken = self.busy.len() >= most + LONG_MOST;
        if taken || of_file >= most.div_ceil(2) {
            // Until one is done, which wakes the waiting threads.
            return Some(Duration::from_secs(60));
        }
        let eldest = self.busy.iter().map(age).filter(|age| *age < LONG).max();
        (quick >= most).then(|| LONG.saturating_sub(eldest.unwrap_or_default()))
    }
}

pub(super) fn request(
    wanted: WorkerTask,
    file: &dyn Source,
    allowance: Allowance,
) -> WorkerRequest {
    WorkerRequest {
        wanted,
        // Ends itself only if the daemon, which is stricter, is not there to end it.
        seconds: allowance.wait.saturating_mul(2),
        len: file.len(),
    }
}

/// The right to use one worker, and the worker.
struct Seat<'a> {
    pool: &'a WorkerPool,
    /// Of the job.
    number: u64,
    worker: Option<Worker>,
}

impl Seat<'_> {
    /// The worker, started if there is none.
    fn worker(&mut self) -> Result<&mut Worker> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => self.pool.start()?,
        };
        Ok(self.worker.insert(worker))
    }

    fn dismiss(&mut self) {
        self.worker = None;
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut workers = self.pool.lock();
        workers.busy.retain(|job| job.number != self.number);
        if workers.idle.len() < self.pool.most {
            workers.idle.extend(self.worker.take());
        }
        drop(workers);
        // All are woken, for not every one can go on: a thread may wait for a worker of the same
        // file.
        self.pool.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ObjectTag;

    #[test]
    fn only_requests_that_take_long_make_room_for_others() {
        let start = Instant::now();
        let mut workers = Workers::default();
        let id = |number: u64| SourceIdentity::of_object(ObjectTag::of(&number.to_le_bytes()), 0);
        let add = |workers: &mut Workers, file, after: u64| {
            let since = start + Duration::from_millis(after);
            workers.busy.push(RunningJob {
                number: 0,
                file: id(file),
                since,
            });
        };
        let wait = |workers: &Workers, file, at: u64| {
            let now = start + Duration::from_millis(at);
            workers
                .must_wait(2, id(file), now)
                .map(|wait| wait.as_millis())
        };
        add(&mut workers, 1, 0);
        assert_eq!(wait(&workers, 2, 0), None);
        // Half of the workers for one file.
        assert!(wait(&workers, 1, 10_000).is_some());
        add(&mut workers, 2, 100);
        assert_eq!(wait(&workers, 3, 200), Some(300));
        assert_eq!(wait(&workers, 3, 500), None);
        for file in 3..11 {
            assert_eq!(wait(&workers, file, 10_000), None);
            add(&mut workers, file, 0);
        }
        assert!(wait(&workers, 11, 10_000).is_some());
    }
}
