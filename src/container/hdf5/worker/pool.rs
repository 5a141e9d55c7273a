//! The workers of this process: started when first wanted, used again, replaced when they end.
//!
//! Starting a process for every file would cost more than most files do. There are at most as many
//! workers as cores; who comes when all are busy waits.

use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::limits::Limits;
use super::process::{Failed, Program, Worker};
use super::wire::{self, Request, Wanted};
use crate::error::{Error, Fault, Result};

/// The pool of the process.
pub(super) static POOL: LazyLock<WorkerPool> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    WorkerPool::new(
        Program::from_environment(),
        Limits::from_environment(),
        cores,
    )
});

pub(super) struct WorkerPool {
    run: Program,
    limits: Limits,
    workers: Mutex<Workers>,
    freed: Condvar,
}

struct Workers {
    idle: Vec<Worker>,
    /// How many more may be busy.
    free: usize,
}

impl WorkerPool {
    /// A pool of at most `most` workers that run this program.
    pub(super) fn new(run: Program, limits: Limits, most: usize) -> WorkerPool {
        WorkerPool {
            run,
            limits,
            workers: Mutex::new(Workers {
                idle: Vec::new(),
                free: most.max(1),
            }),
            freed: Condvar::new(),
        }
    }

    /// Asks a worker about a file. A worker that ends on the way gets a second one to try, since an
    /// old one may have carried damage along.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        wanted: Wanted,
        file: BorrowedFd<'_>,
    ) -> Result<T> {
        let request = Request {
            wanted,
            // Ends itself only if the daemon, which is stricter, is not there to end it.
            seconds: self.limits.seconds.saturating_mul(2),
        };
        let mut seat = self.sit();
        let mut asked = seat.worker()?.ask(request, file);
        if let Err(Failed::Ended(_)) = asked {
            seat.dismiss();
            asked = seat.worker()?.ask(request, file);
        }
        let encoded = asked.map_err(|failed| {
            seat.dismiss();
            self.fault(failed)
        })?;
        let answer = wire::decode(&encoded);
        if answer.is_none() || seat.worker()?.is_tired() {
            seat.dismiss();
        }
        match answer {
            Some(answer) => answer.map_err(|reason| Fault::new(reason).into()),
            None => Err(Fault::new("the answer of the HDF5 worker cannot be read").into()),
        }
    }

    fn sit(&self) -> Seat<'_> {
        let mut workers = self.lock();
        while workers.free == 0 {
            let woken = self.freed.wait(workers);
            workers = woken.unwrap_or_else(PoisonError::into_inner);
        }
        workers.free -= 1;
        let worker = workers.idle.pop();
        Seat { pool: self, worker }
    }

    fn start(&self) -> Result<Worker> {
        Worker::start(&self.run, self.limits).map_err(|cause| {
            let program = self.run.program.display();
            Error::io(format!("cannot start the HDF5 worker {program}"), cause)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file that made the library hang most likely does it again, and costs its time again.
    fn fault(&self, failed: Failed) -> Error {
        let retry_after = match failed {
            Failed::Late => Duration::from_secs(self.limits.seconds.into()) * 10,
            _ => Duration::from_secs(10),
        };
        let what = match failed {
            Failed::Late => format!(
                "the HDF5 library took longer than {} s on this file",
                self.limits.seconds
            ),
            Failed::TooLong(bytes) => format!("the HDF5 worker announces {bytes} bytes"),
            Failed::Ended(None) => "the HDF5 worker closed its end on this file".into(),
            Failed::Ended(Some(status)) => self.ending(status),
        };
        Fault::new(what).passing(retry_after).into()
    }

    fn ending(&self, status: ExitStatus) -> String {
        match (status.signal(), status.code()) {
            // A program that gets no memory aborts; one that the system has no memory for is killed.
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

/// The right to use one worker, and the worker.
struct Seat<'a> {
    pool: &'a WorkerPool,
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
        workers.free += 1;
        workers.idle.extend(self.worker.take());
        self.pool.freed.notify_one();
    }
}
