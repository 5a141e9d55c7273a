//! Threads that stand in for those that serve requests, so that one of these always listens.
//!
//! A request may wait long: for the structure of a hostile file, for a disk, for a large chunk to
//! be decoded. As many of them as there are serving threads would hold up all others. So the last
//! serving thread that is free hands over what may wait, and listens on. Reads take at most a part
//! of the threads that stand in: however many of them wait, requests for names and attributes are
//! served. Used by `adapter`.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::memory::room_for_thread;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Most threads that stand in, and most of them that read. Beyond, requests wait for each other.
const MOST: usize = 64;
const MOST_READING: usize = 32;

/// Most errands that wait for a thread, but for reads: what is written is copied for each, and a
/// request may carry 1 MiB.
const MOST_WAITING: usize = 64;

/// How long a thread waits for something to do before it ends.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// What is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    Read,
    /// A look-up, a listing, an open.
    Look,
}

pub(super) struct StandIns {
    /// Serving threads.
    serving: usize,
    /// Those of them that are at work.
    busy: AtomicUsize,
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    reads: VecDeque<Job>,
    looks: VecDeque<Job>,
    /// Threads that stand in, those of them that have nothing to do, and those that read.
    threads: usize,
    idle: usize,
    reading: usize,
}

impl Waiting {
    fn add(&mut self, errand: Errand, job: Job) {
        match errand {
            Errand::Read => self.reads.push_back(job),
            Errand::Look => self.looks.push_back(job),
        }
    }

    /// The next job, if a thread may do it now.
    fn next(&mut self) -> Option<(Errand, Job)> {
        if let Some(job) = self.looks.pop_front() {
            return Some((Errand::Look, job));
        }
        let may_read = self.reading < MOST_READING;
        let job = may_read.then(|| self.reads.pop_front()).flatten()?;
        self.reading += 1;
        Some((Errand::Read, job))
    }

    fn done(&mut self, errand: Errand) {
        self.reading -= usize::from(errand == Errand::Read);
    }

    /// How many more could be done at once than there are threads for.
    fn lacks_threads(&self) -> bool {
        let reads = self.reads.len().min(MOST_READING - self.reading);
        self.threads < MOST && self.looks.len() + reads > self.idle
    }
}

impl StandIns {
    pub(super) fn new(serving: usize) -> Arc<Self> {
        Arc::new(StandIns {
            serving,
            busy: AtomicUsize::new(0),
            waiting: Mutex::default(),
            more: Condvar::new(),
        })
    }

    /// A serving thread begins to work, until it drops the value.
    pub(super) fn begin(&self) -> AtWork<'_> {
        let before = self.busy.fetch_add(1, Ordering::SeqCst);
        AtWork {
            busy: &self.busy,
            is_last: before + 1 >= self.serving,
        }
    }

    /// Has something done by a thread that stands in; here, if the system has no thread left for
    /// it, or too much waits already.
    pub(super) fn hand_over(
        self: &Arc<Self>,
        errand: Errand,
        work: impl FnOnce() + Send + 'static,
    ) {
        let mut waiting = self.lock();
        if errand == Errand::Look && waiting.looks.len() >= MOST_WAITING {
            drop(waiting);
            return work();
        }
        waiting.add(errand, Box::new(work));
        let short = waiting.lacks_threads() && !self.add_thread(&mut waiting);
        if short && waiting.threads == 0 {
            drop(self.do_next(waiting));
        } else {
            drop(waiting);
            self.more.notify_one();
        }
    }

    /// Does what is next, if there is something, and returns the lock taken anew.
    fn do_next<'a>(
        &'a self,
        mut waiting: MutexGuard<'a, Waiting>,
    ) -> (MutexGuard<'a, Waiting>, bool) {
        let Some((errand, job)) = waiting.next() else {
            return (waiting, false);
        };
        drop(waiting);
        // A panic, which the log has, must not cost the thread and its place.
        let _ = catch_unwind(AssertUnwindSafe(job));
        let mut waiting = self.lock();
        waiting.done(errand);
        (waiting, true)
    }

    fn add_thread(self: &Arc<Self>, waiting: &mut Waiting) -> bool {
        if !room_for_thread() {
            return false;
        }
        let stand_ins = Arc::clone(self);
        let thread = std::thread::Builder::new().name("stand-in".into());
        let started = thread.spawn(move || stand_ins.stand_in()).is_ok();
        waiting.threads += usize::from(started);
        started
    }

    fn stand_in(&self) {
        let mut waiting = self.lock();
        loop {
            let (after, done) = self.do_next(waiting);
            waiting = after;
            if done {
                continue;
            }
            waiting.idle += 1;
            let woken = self.more.wait_for(&mut waiting, IDLE);
            waiting.idle -= 1;
            if woken.timed_out() && waiting.looks.is_empty() && waiting.reads.is_empty() {
                waiting.threads -= 1;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

/// Counts a serving thread as busy as long as it lives, a panic included.
pub(super) struct AtWork<'a> {
    busy: &'a AtomicUsize,
    is_last: bool,
}

impl AtWork<'_> {
    /// Whether no other thread listens.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_last_free_thread_is_told_so() {
        let stand_ins = StandIns::new(2);
        let first = stand_ins.begin();
        assert!(!first.is_last());
        assert!(stand_ins.begin().is_last());
        // The second has ended, so another one is free again.
        drop(first);
        assert!(!stand_ins.begin().is_last());
    }

    #[test]
    fn somebody_else_does_what_is_handed_over() {
        let stand_ins = StandIns::new(1);
        let (tell, told) = mpsc::channel();
        let who = move || tell.send(std::thread::current().id()).unwrap();
        stand_ins.hand_over(Errand::Read, who);
        assert_ne!(told.recv().unwrap(), std::thread::current().id());
    }

    #[test]
    fn who_hands_over_too_much_does_it_himself() {
        let stand_ins = StandIns::new(1);
        let (begun, begins) = mpsc::channel();
        let (go, gone) = crossbeam_channel::unbounded::<()>();
        let (tell, told) = mpsc::channel();
        let hand_over = |number: usize| {
            let (begun, gone, tell) = (begun.clone(), gone.clone(), tell.clone());
            let own = std::thread::current().id();
            stand_ins.hand_over(Errand::Look, move || {
                tell.send(std::thread::current().id() == own).unwrap();
                begun.send(number).unwrap();
                if number < MOST + MOST_WAITING {
                    let _ = gone.recv();
                }
            });
        };
        // One after the other: all of these are being done before anything waits.
        for number in 0..MOST {
            hand_over(number);
            begins.recv().unwrap();
        }
        (MOST..MOST + MOST_WAITING).for_each(hand_over);
        assert!(told.try_iter().all(|by_himself| !by_himself));
        hand_over(MOST + MOST_WAITING);
        assert!(told.try_recv().unwrap(), "it waits, too");
        drop(go);
        (0..MOST_WAITING).for_each(|_| assert!(!told.recv().unwrap()));
    }

    #[test]
    fn however_many_read_those_who_look_are_served() {
        let stand_ins = StandIns::new(1);
        let (begun, begins) = mpsc::channel();
        let (go, gone) = crossbeam_channel::unbounded::<()>();
        for _ in 0..2 * MOST {
            let (begun, gone) = (begun.clone(), gone.clone());
            stand_ins.hand_over(Errand::Read, move || {
                begun.send(()).unwrap();
                let _ = gone.recv();
            });
        }
        (0..MOST_READING).for_each(|_| begins.recv().unwrap());
        let (tell, told) = mpsc::channel();
        stand_ins.hand_over(Errand::Look, move || tell.send(()).unwrap());
        told.recv().unwrap();
        assert!(begins.try_recv().is_err(), "more read than may");
        // The others have their turn.
        drop(go);
        (MOST_READING..2 * MOST).for_each(|_| begins.recv().unwrap());
    }
}
