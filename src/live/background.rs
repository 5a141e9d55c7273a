//! Threads for what nobody waits for: encoding ahead of a commit, freeing what a commit has made useless.
//!
//! Nothing depends on them: what they do not take up, because all of them have enough to do or because there are none, is
//! done by who wanted it, or not at all. Used by `writing`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};

/// Tasks that wait for each thread at most: more are better left to a commit, which has all cores.
const WAITING_EACH: usize = 2;

type BackgroundTask = Box<dyn FnOnce() + Send>;

/// The threads. Dropping them ends the threads, after what they have taken up.
pub(crate) struct BackgroundWorkers {
    queue: Option<Sender<BackgroundTask>>,
    threads: Vec<JoinHandle<()>>,
}

impl BackgroundWorkers {
    /// One for each core, as far as threads can be had.
    pub(crate) fn new() -> BackgroundWorkers {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let (queue, tasks) = crossbeam_channel::bounded(cores * WAITING_EACH);
        let spawn = |number| {
            let tasks = tasks.clone();
            let thread = std::thread::Builder::new().name(format!("background-{number}"));
            thread.spawn(move || work(&tasks)).ok()
        };
        BackgroundWorkers {
            threads: (0..cores).map_while(spawn).collect(),
            queue: Some(queue),
        }
    }

    /// False: it is not going to be done.
    pub(crate) fn order(&self, task: impl FnOnce() + Send + 'static) -> bool {
        let queue = self.queue.as_ref().filter(|_| !self.threads.is_empty());
        queue.is_some_and(|queue| queue.try_send(Box::new(task)).is_ok())
    }
}

impl Drop for BackgroundWorkers {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(tasks: &Receiver<BackgroundTask>) {
    while let Ok(task) = tasks.recv() {
        // A panic must not cost the thread; the hook has reported it.
        let _ = catch_unwind(AssertUnwindSafe(task));
    }
}
