//! An edit of a file: steps that one worker carries out, from the daemon's side.
//!
//! Sessions have seats of their own: an edit lasts as long as its chunks are encoded, and openings
//! do not wait for that. Time counts while the worker is asked, and grows with the chunks. A worker
//! that fails is ended, and so is the edit: nothing has been written anywhere. Used by `write`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::Allowance;
use super::pool::{self, POOL, WorkerPool, request};
use super::process::{EncodedAnswer, Failed, Worker, WorkerEnd};
use super::wire::{self, WorkerTask};
use crate::container::hdf5::edit::{EditReply, EditStep, FinishedEdit};
use crate::container::hdf5::made::NewFileForm;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::source::Source;
use crate::sync::{Condvar, Mutex};

/// Processor time that a chunk adds to what an edit may take.
const PER_CHUNK: Duration = Duration::from_micros(100);

/// An object that is made takes as long as so many chunks.
const CHUNKS_PER_OBJECT: usize = 4;

/// So many bytes of text take as long as a chunk: a value of one byte 6 microseconds.
const TEXT_PER_CHUNK: usize = 32;

/// How many sessions there may be.
pub(super) struct SessionSeats {
    free: Mutex<usize>,
    freed: Condvar,
}

impl SessionSeats {
    pub(super) fn new(most: usize) -> SessionSeats {
        SessionSeats {
            free: Mutex::new(most),
            freed: Condvar::new(),
        }
    }

    fn sit(&'static self) -> SessionSeat {
        let mut free = self.free.lock();
        while *free == 0 {
            self.freed.wait(&mut free);
        }
        *free -= 1;
        SessionSeat(self)
    }
}

struct SessionSeat(&'static SessionSeats);

impl Drop for SessionSeat {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

/// A file that a worker has open to change it.
pub(crate) struct EditSession<'a> {
    pool: &'static WorkerPool,
    file: &'a dyn Source,
    budget: &'a Arc<Budget>,
    allowance: Allowance,
    end: WorkerEnd,
    wanted: WorkerTask,
    /// None after a failure.
    worker: Option<Worker>,
    /// Whether a step has been answered.
    is_begun: bool,
    _seat: SessionSeat,
}

impl<'a> EditSession<'a> {
    pub(crate) fn begin(file: &'a dyn Source, budget: &'a Arc<Budget>) -> Result<EditSession<'a>> {
        EditSession::of(&POOL, WorkerTask::Edit, (file, budget))
    }

    /// Begins a new file; `nothing` has no bytes.
    pub(crate) fn create(
        form: NewFileForm,
        nothing: &'a dyn Source,
        budget: &'a Arc<Budget>,
    ) -> Result<EditSession<'a>> {
        EditSession::of(&POOL, WorkerTask::Create(form), (nothing, budget))
    }

    /// One that a worker of this pool carries out.
    pub(super) fn of(
        pool: &'static WorkerPool,
        wanted: WorkerTask,
        (file, budget): (&'a dyn Source, &'a Arc<Budget>),
    ) -> Result<EditSession<'a>> {
        let seat = pool.sessions.sit();
        let allowance = pool.allowance(file);
        let worker = pool.take_worker()?;
        Ok(EditSession {
            pool,
            file,
            budget,
            allowance,
            end: worker.end(allowance),
            wanted,
            worker: Some(worker),
            is_begun: false,
            _seat: seat,
        })
    }

    /// Has a step carried out; not the last one.
    pub(crate) fn step(&mut self, step: &EditStep) -> Result<EditReply> {
        let things = match step {
            EditStep::Chunks { chunks, .. } => chunks.len(),
            EditStep::Texts { texts, .. } => texts.len() / TEXT_PER_CHUNK,
            EditStep::Make(steps) => steps.len().saturating_mul(CHUNKS_PER_OBJECT),
            _ => 0,
        };
        let bytes = wire::encode_step(step).map_err(|e| Error::Bug(e.to_string()))?;
        let mut answered = self.ask(&bytes, things);
        if let (Err(Failed::Ended(_)), false) = (&answered, self.is_begun) {
            // An idle one may end at any time, and has done nothing yet.
            self.worker = Some(self.pool.start()?);
            answered = self.ask(&bytes, things);
        }
        let answered = answered.map_err(|failed| {
            self.worker = None;
            self.pool.error(failed, self.allowance)
        })?;
        self.is_begun = true;
        let answer = wire::decode::<EditReply>(&answered.bytes).ok_or_else(pool::unreadable)?;
        answer.map_err(|refusal| {
            self.worker = None;
            refusal.into()
        })
    }

    /// Sends a step, behind the request if it is the first, and waits for the answer.
    fn ask(&mut self, step: &[u8], things: usize) -> std::result::Result<EncodedAnswer, Failed> {
        let gone = || Failed::Refused(Error::Bug("an edit goes on after its end".into()));
        let worker = self.worker.as_mut().ok_or_else(gone)?;
        if !self.is_begun {
            self.end = worker.end(self.allowance);
            worker.send(request(self.wanted, self.file, self.allowance), self.file)?;
        }
        self.end.busy += PER_CHUNK.saturating_mul(things as u32);
        // What the daemon does between the steps does not count.
        self.end.waited = Instant::now() + self.allowance.waiting_time();
        worker.send_more(step, self.end)?;
        worker.answer(self.file, self.end, self.budget)
    }

    /// Ends the edit: what is to be written.
    pub(crate) fn finish(mut self) -> Result<FinishedEdit> {
        match self.step(&EditStep::Finish)? {
            EditReply::Finished(edit) => {
                if let Some(worker) = self.worker.take().filter(|_| !edit.is_last) {
                    self.pool.give_back(worker);
                }
                Ok(edit)
            }
            _ => Err(wrong_reply()),
        }
    }
}

/// The worker answered something else than was asked.
pub(crate) fn wrong_reply() -> Error {
    Fault::new("the HDF5 worker answers something else").into()
}
