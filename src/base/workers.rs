//! Threads for work that no request waits for: decoding ahead of readers, encoding ahead of
//! commits, freeing what is useless.
//!
//! Nothing depends on them: what they do not take up, because all of them have enough to do or
//! because there are none, is done by the thread that wanted it, or not at all. Used by
//! `array::prefetch` and by `live`.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};

type BackgroundTask = Box<dyn FnOnce() + Send>;

/// The threads. Dropping them ends the threads, after what they have taken up.
pub struct WorkerThreads {
    queue: Option<Sender<BackgroundTask>>,
    threads: Vec<JoinHandle<()>>,
}

impl WorkerThreads {
    /// So many threads, for which at most `waiting` tasks wait.
    pub fn new(name: &str, threads: usize, waiting: usize) -> io::Result<WorkerThreads> {
        let (mut workers, tasks) = WorkerThreads::idle(waiting);
        for number in 0..threads {
            workers.threads.push(start(name, number, &tasks)?);
        }
        Ok(workers)
    }

    /// As many of so many threads as can be had, for which at most `waiting` tasks wait.
    pub fn as_many(name: &str, threads: usize, waiting: usize) -> WorkerThreads {
        let (mut workers, tasks) = WorkerThreads::idle(waiting);
        let had = (0..threads).map_while(|number| start(name, number, &tasks).ok());
        workers.threads.extend(had);
        workers
    }

    fn idle(waiting: usize) -> (WorkerThreads, Receiver<BackgroundTask>) {
        let (queue, tasks) = crossbeam_channel::bounded(waiting);
        let workers = WorkerThreads {
            queue: Some(queue),
            threads: Vec::new(),
        };
        (workers, tasks)
    }

    /// False: it is not going to be done.
    pub fn order(&self, task: impl FnOnce() + Send + 'static) -> bool {
        let queue = self.queue.as_ref().filter(|_| !self.threads.is_empty());
        queue.is_some_and(|queue| queue.try_send(Box::new(task)).is_ok())
    }
}

impl Drop for WorkerThreads {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn start(
    name: &str,
    number: usize,
    tasks: &Receiver<BackgroundTask>,
) -> io::Result<JoinHandle<()>> {
    let tasks = tasks.clone();
    let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
    thread.spawn(move || {
        while let Ok(task) = tasks.recv() {
            // A panic must not cost the thread; the hook has reported it.
            let _ = catch_unwind(AssertUnwindSafe(task));
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_panic_costs_no_thread_and_what_waits_too_long_is_refused() {
        let workers = WorkerThreads::new("test", 1, 1).unwrap();
        let (begun, has_begun) = channel();
        let (go_on, goes_on) = channel::<()>();
        assert!(workers.order(move || {
            begun.send(()).unwrap();
            let _ = goes_on.recv();
            panic!("of a task");
        }));
        has_begun.recv().unwrap();
        let (done, is_done) = channel();
        assert!(workers.order(move || done.send(()).unwrap()));
        assert!(!workers.order(|| {}), "one waits already");
        drop(go_on);
        is_done.recv().unwrap();
    }

    #[test]
    fn nobody_takes_up_anything_without_threads() {
        assert!(!WorkerThreads::as_many("test", 0, 1).order(|| {}));
    }
}
