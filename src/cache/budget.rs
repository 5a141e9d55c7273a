//! One byte budget for everything decoded: cached blocks, blocks in use and decodes in flight.
//!
//! Bytes are taken before memory is allocated and given back by dropping the [`Hold`] that names them.
//! [`default_limit`] chooses the size from the machine's or the control group's memory.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub struct Budget {
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    used: u64,
    /// Counts what may let a waiter go on: bytes given back, blocks that can be evicted now.
    changes: u64,
}

/// Bytes taken from the budget, returned on drop.
pub struct Hold {
    bytes: u64,
    budget: Arc<Budget>,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Budget {
            limit,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn used(&self) -> u64 {
        self.lock().used
    }

    /// No demand is larger than the whole budget: what is larger gets it all, alone.
    pub fn clamp(&self, bytes: u64) -> u64 {
        bytes.min(self.limit)
    }

    pub fn try_take(&self, bytes: u64) -> bool {
        let mut state = self.lock();
        let sum = state
            .used
            .checked_add(bytes)
            .filter(|sum| *sum <= self.limit);
        if let Some(sum) = sum {
            state.used = sum;
        }
        sum.is_some()
    }

    /// To be asked before one looks for memory, and given to [`Budget::wait`] if there was none.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Waits until something has changed since [`Budget::changes`] was asked.
    pub fn wait(&self, seen: u64) {
        let mut state = self.lock();
        while state.changes == seen {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A block can be evicted that could not before.
    pub fn announce(&self) {
        self.change(0);
    }

    fn change(&self, given_back: u64) {
        let mut state = self.lock();
        state.used -= given_back;
        state.changes = state.changes.wrapping_add(1);
        drop(state);
        self.changed.notify_all();
    }

    /// Names bytes that have been taken, so that they are returned on drop.
    pub fn hold(self: &Arc<Self>, bytes: u64) -> Hold {
        Hold {
            bytes,
            budget: Arc::clone(self),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.change(self.bytes);
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

    #[test]
    fn takes_up_to_the_limit() {
        let budget = Arc::new(Budget::new(10));
        assert!(budget.try_take(6));
        assert!(!budget.try_take(5));
        drop(budget.hold(6));
        assert!(budget.try_take(10));
        assert!(!budget.try_take(u64::MAX));
    }

    #[test]
    fn the_default_is_sane() {
        let limit = default_limit();
        assert!((1 << 20..=GIB).contains(&limit), "{limit}");
    }
}
