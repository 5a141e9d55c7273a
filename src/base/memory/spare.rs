//! Mappings whose pages the system has given and cleared already, for blocks that are about to be
//! decoded.
//!
//! For a block of 256 KiB the system takes several times as long as the decoder that fills it, and
//! a reader waits for both. So while many are asked for, a thread has some ready; after a moment
//! without requests it gives them back. A few at most, beside the budget, like the freed memory
//! that [`super::block`] keeps, which uses them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use memmap2::MmapMut;

use super::pages::mapped;
use super::{is_short, room_for_thread};
use crate::sync::Mutex;

/// As many of one size are made ready, if all of them together are not more than that.
const READY: usize = 6;
const MOST: usize = 2 << 20;

/// Nothing is made ready for the first ones: of a small container there are no more.
const FIRST: usize = 4;

/// After so long without requests none is expected.
const IDLE: Duration = Duration::from_secs(2);

pub(super) struct SpareMappings {
    most: usize,
    ready: Arc<Mutex<Ready>>,
    /// Tells the thread which size is wanted; none if there can be no thread.
    wanted: OnceLock<Option<Sender<usize>>>,
}

#[derive(Default)]
struct Ready {
    /// What was asked for the last time, and how often in sequence.
    size: usize,
    asked: usize,
    /// Counts how often everything was given up: what is made meanwhile goes as well.
    given_up: u64,
    mappings: Vec<MmapMut>,
}

impl SpareMappings {
    /// Has at most so many bytes ready.
    pub(super) fn new(most: u64) -> Self {
        SpareMappings {
            most: MOST.min(usize::try_from(most).unwrap_or(MOST)),
            ready: Arc::default(),
            wanted: OnceLock::new(),
        }
    }

    /// A mapping of this size, if one is ready.
    pub(super) fn take(&self, size: usize) -> Option<MmapMut> {
        if size > self.most / 2 {
            return None;
        }
        let (many, taken) = with(&self.ready, |ready| {
            if std::mem::replace(&mut ready.size, size) != size {
                ready.asked = 0;
            }
            ready.asked = ready.asked.saturating_add(1);
            let fitting = ready.mappings.iter().position(|one| one.len() == size);
            let taken = fitting.map(|at| ready.mappings.swap_remove(at));
            (ready.asked > FIRST, taken)
        });
        if many && let Some(wanted) = self.wanted.get_or_init(|| self.start()) {
            // It has enough to do, if it has not looked at the last one yet.
            let _ = wanted.try_send(size);
        }
        taken
    }

    /// Gives them back to the system.
    pub(super) fn give_up(&self) {
        give_back(&self.ready);
    }

    fn start(&self) -> Option<Sender<usize>> {
        let (wanted, orders) = bounded(1);
        let (most, ready) = (self.most, Arc::clone(&self.ready));
        let thread = std::thread::Builder::new().name("spare-memory".into());
        let started =
            room_for_thread() && thread.spawn(move || work(most, &ready, &orders)).is_ok();
        started.then_some(wanted)
    }
}

/// Ends with the budget.
fn work(most: usize, ready: &Mutex<Ready>, orders: &Receiver<usize>) {
    loop {
        let size = match orders.recv_timeout(IDLE) {
            Ok(size) => size,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                give_back(ready);
                let Ok(size) = orders.recv() else { return };
                size
            }
        };
        let before = with(ready, |ready| ready.given_up);
        while wants(most, ready, size)
            && !is_short()
            && let Ok(mapping) = mapped(size)
        {
            let refused = with(ready, |ready| match ready.given_up == before {
                true => {
                    ready.mappings.push(mapping);
                    None
                }
                false => Some(mapping),
            });
            if refused.is_some() {
                break;
            }
        }
    }
}

/// Whether there is to be one more of this size. Those of another one make room: the container that
/// was read has changed.
fn wants(most: usize, ready: &Mutex<Ready>, size: usize) -> bool {
    let mut others = Vec::new();
    let wants = with(ready, |ready| {
        let bytes: usize = ready.mappings.iter().map(|one| one.len()).sum();
        if bytes + size > most {
            let all = std::mem::take(&mut ready.mappings);
            (ready.mappings, others) = all.into_iter().partition(|one| one.len() == size);
        }
        let count = ready.mappings.iter().filter(|one| one.len() == size);
        count.count() < READY.min(most / size.max(1))
    });
    drop(others);
    wants
}

fn give_back(ready: &Mutex<Ready>) {
    let all = with(ready, |ready| {
        ready.asked = 0;
        ready.given_up += 1;
        std::mem::take(&mut ready.mappings)
    });
    drop(all);
}

/// A lock under which nothing is waited for.
fn with<T>(ready: &Mutex<Ready>, work: impl FnOnce(&mut Ready) -> T) -> T {
    work(&mut ready.lock())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn count(spare: &SpareMappings, size: usize) -> usize {
        let of_size = |ready: &mut Ready| {
            let fitting = ready.mappings.iter().filter(|one| one.len() == size);
            fitting.count()
        };
        with(&spare.ready, of_size)
    }

    fn wait_for(spare: &SpareMappings, size: usize, wanted: usize) {
        let start = Instant::now();
        while count(spare, size) != wanted {
            assert!(
                start.elapsed() < 20 * IDLE,
                "{} of {wanted}",
                count(spare, size)
            );
            std::thread::yield_now();
        }
    }

    #[test]
    fn some_are_ready_while_many_are_asked_for() {
        let spare = SpareMappings::new(u64::MAX);
        let size = 256 << 10;
        for _ in 0..FIRST {
            assert!(spare.take(size).is_none());
        }
        assert!(spare.wanted.get().is_none(), "nothing is made for a few");
        assert!(spare.take(size).is_none());
        wait_for(&spare, size, READY);
        assert_eq!(spare.take(size).map(|one| one.len()), Some(size));
        wait_for(&spare, size, READY);
        // Another size takes their place when both are too much.
        let large = MOST / 2;
        (0..=FIRST).for_each(|_| drop(spare.take(large)));
        wait_for(&spare, large, 2);
        assert_eq!(count(&spare, size), 0);
        assert!(spare.take(large + 1).is_none(), "too large to be kept");
    }

    #[test]
    fn nobody_asks_and_nothing_is_kept() {
        let spare = SpareMappings::new(u64::MAX);
        (0..=FIRST).for_each(|_| drop(spare.take(128 << 10)));
        wait_for(&spare, 128 << 10, READY);
        wait_for(&spare, 128 << 10, 0);
        (0..=FIRST).for_each(|_| drop(spare.take(128 << 10)));
        wait_for(&spare, 128 << 10, READY);
        spare.give_up();
        assert_eq!(count(&spare, 128 << 10), 0);
    }
}
