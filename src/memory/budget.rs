//! One byte budget for everything decoded: cached blocks, blocks in use and decodes in flight.
//!
//! Bytes are taken before memory is allocated and given back by dropping the [`Hold`] that names them.
//! Who must wait for bytes queues: while anybody waits, nobody else takes any, or many readers of small
//! blocks would keep a reader of a large one waiting for as long as they read.
//! [`default_limit`] chooses the size from the machine's or the control group's memory.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub struct Budget {
    limit: u64,
    state: Mutex<State>,
    /// For the first of the queue: something may let it go on.
    changed: Condvar,
    /// For the others of the queue: it has moved.
    moved: Condvar,
}

#[derive(Default)]
struct State {
    used: u64,
    /// Counts what may let the first of the queue go on: bytes given back, blocks that can be evicted now.
    changes: u64,
    /// Number of the next to join the queue.
    next: u64,
    /// Number of the first of the queue; nobody waits if it is `next`.
    first: u64,
}

/// Bytes taken from the budget, returned on drop.
pub struct Hold {
    bytes: u64,
    budget: Arc<Budget>,
}

/// The first place of the queue, left on drop.
pub struct Turn<'a> {
    budget: &'a Budget,
}

pub enum Taken {
    All(Hold),
    /// So many bytes must be given back first.
    Short(u64),
    /// Others wait already.
    OthersFirst,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Budget {
            limit,
            state: Mutex::default(),
            changed: Condvar::new(),
            moved: Condvar::new(),
        }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn used(&self) -> u64 {
        self.lock().used
    }

    /// Takes all of `bytes` or nothing; `turn` as proof of being the first, if there is a queue.
    pub fn take(self: &Arc<Self>, bytes: u64, turn: Option<&Turn<'_>>) -> Taken {
        let mut state = self.lock();
        if turn.is_none() && state.first != state.next {
            return Taken::OthersFirst;
        }
        let free = self.limit - state.used;
        if bytes > free {
            return Taken::Short(bytes - free);
        }
        state.used += bytes;
        Taken::All(Hold {
            bytes,
            budget: Arc::clone(self),
        })
    }

    /// Joins the queue and returns as its first.
    pub fn queue(&self) -> Turn<'_> {
        let mut state = self.lock();
        let number = state.next;
        state.next = state.next.wrapping_add(1);
        while state.first != number {
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Turn { budget: self }
    }

    /// A block can be evicted that could not before.
    pub fn announce(&self) {
        self.change(0);
    }

    #[cfg(test)]
    pub fn waiting(&self) -> u64 {
        let state = self.lock();
        state.next.wrapping_sub(state.first)
    }

    fn change(&self, given_back: u64) {
        let mut state = self.lock();
        state.used -= given_back;
        state.changes = state.changes.wrapping_add(1);
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// To be asked before one looks for memory, and given to [`Turn::wait`] if there was none.
    pub fn changes(&self) -> u64 {
        self.budget.lock().changes
    }

    /// Waits until something has changed since [`Turn::changes`] was asked.
    pub fn wait(&self, seen: u64) {
        let mut state = self.budget.lock();
        while state.changes == seen {
            state = self
                .budget
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.first = state.first.wrapping_add(1);
        drop(state);
        self.budget.moved.notify_all();
    }
}

impl Hold {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Parts with up to `bytes` of it.
    pub fn split(&mut self, bytes: u64) -> Hold {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Hold {
            bytes,
            budget: Arc::clone(&self.budget),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.change(self.bytes);
        }
    }
}

const GIB: u64 = 1 << 30;

/// An eighth of the memory that this process may use, at most 1 GiB.
pub fn default_limit() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram.saturating_mul(machine.mem_unit.into());
    (machine.min(control_group_limit().unwrap_or(u64::MAX)) / 8).clamp(1 << 20, GIB)
}

/// The smallest memory limit of this process's control group and its parents (v2, then v1).
fn control_group_limit() -> Option<u64> {
    let membership = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut least: Option<u64> = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (top, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|c| c == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        for group in std::path::Path::new(path.trim_start_matches('/')).ancestors() {
            let limit = std::path::Path::new(top).join(group).join(file);
            let limit = std::fs::read_to_string(limit)
                .ok()
                .and_then(|t| t.trim().parse().ok());
            least = [least, limit].into_iter().flatten().min();
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(budget: &Arc<Budget>, bytes: u64) -> Option<Hold> {
        match budget.take(bytes, None) {
            Taken::All(hold) => Some(hold),
            _ => None,
        }
    }

    #[test]
    fn takes_up_to_the_limit() {
        let budget = Arc::new(Budget::new(10));
        let mut held = took(&budget, 6).unwrap();
        assert!(matches!(budget.take(5, None), Taken::Short(1)));
        drop(held.split(2));
        assert_eq!((held.bytes(), budget.used()), (4, 4));
        drop(held);
        let _held = took(&budget, 10).unwrap();
        assert!(matches!(
            budget.take(u64::MAX, None),
            Taken::Short(u64::MAX)
        ));
    }

    #[test]
    fn nobody_takes_what_the_first_of_the_queue_waits_for() {
        let budget = Arc::new(Budget::new(10));
        let turn = budget.queue();
        assert!(matches!(budget.take(1, None), Taken::OthersFirst));
        assert!(matches!(budget.take(1, Some(&turn)), Taken::All(_)));
        drop(turn);
        assert!(took(&budget, 1).is_some());
    }

    #[test]
    fn the_default_is_sane() {
        let limit = default_limit();
        assert!((1 << 20..=GIB).contains(&limit), "{limit}");
    }
}
