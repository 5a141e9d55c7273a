//! Threads that stand in for those that serve requests, so that one of these always listens.
//!
//! A request may wait long: for the structure of a hostile file, for a disk. As many of them as there are
//! serving threads would hold up everybody else's. So the last serving thread that is free hands over what
//! may wait, and listens on. Used by `adapter`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most threads that stand in. Beyond, requests wait for each other.
const MOST: usize = 64;

/// How long a thread waits for something to do before it ends.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

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
    jobs: VecDeque<Job>,
    /// Threads that stand in, and those of them that have nothing to do.
    threads: usize,
    idle: usize,
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

    /// Does something on this serving thread; or, if all others are at work and it `may_wait`, on another.
    pub(super) fn serve(
        self: &Arc<Self>,
        may_wait: impl FnOnce() -> bool,
        work: impl FnOnce() + Send + 'static,
    ) {
        let _busy = Busy::new(&self.busy);
        let is_last = self.busy.load(Ordering::SeqCst) >= self.serving;
        if is_last && may_wait() {
            self.hand_over(work);
        } else {
            work();
        }
    }

    fn hand_over(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        let mut waiting = self.lock();
        if waiting.idle <= waiting.jobs.len() && !self.add_thread(&mut waiting) {
            drop(waiting);
            return work();
        }
        waiting.jobs.push_back(Box::new(work));
        drop(waiting);
        self.more.notify_one();
    }

    fn add_thread(self: &Arc<Self>, waiting: &mut Waiting) -> bool {
        if waiting.threads >= MOST {
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
            if let Some(job) = waiting.jobs.pop_front() {
                drop(waiting);
                job();
                waiting = self.lock();
                continue;
            }
            waiting.idle += 1;
            let woken = self.more.wait_timeout(waiting, IDLE);
            let (again, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            waiting = again;
            waiting.idle -= 1;
            if timeout.timed_out() && waiting.jobs.is_empty() {
                waiting.threads -= 1;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts as busy as long as it lives, a panic included.
struct Busy<'a>(&'a AtomicUsize);

impl<'a> Busy<'a> {
    fn new(busy: &'a AtomicUsize) -> Self {
        busy.fetch_add(1, Ordering::SeqCst);
        Busy(busy)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_last_free_thread_hands_over_what_may_wait() {
        let stand_ins = StandIns::new(1);
        let (tell, told) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let here = std::thread::current().id();
        let first = tell.clone();
        stand_ins.serve(
            || true,
            move || {
                let _ = wait.recv();
                first.send(std::thread::current().id()).unwrap();
            },
        );
        // It waits, and this thread serves on.
        let second = tell.clone();
        stand_ins.serve(
            || false,
            move || second.send(std::thread::current().id()).unwrap(),
        );
        assert_eq!(told.recv().unwrap(), here);
        go.send(()).unwrap();
        assert_ne!(told.recv().unwrap(), here);
        // With another one free, nothing is handed over.
        let stand_ins = StandIns::new(2);
        stand_ins.serve(
            || true,
            move || tell.send(std::thread::current().id()).unwrap(),
        );
        assert_eq!(told.recv().unwrap(), here);
    }
}
