//! One byte budget for everything decoded: cached blocks, blocks in use and decodes in flight.
//!
//! Bytes are taken before memory is allocated and given back by dropping the [`Hold`] that names them.
//! [`default_limit`] chooses the size from the machine's or the control group's memory.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub struct Budget {
    limit: u64,
    used: Mutex<u64>,
    given_back: Condvar,
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
            used: Mutex::new(0),
            given_back: Condvar::new(),
        }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn used(&self) -> u64 {
        *self.lock()
    }

    /// No demand is larger than the whole budget: what is larger gets it all, alone.
    pub fn clamp(&self, bytes: u64) -> u64 {
        bytes.min(self.limit)
    }

    pub fn try_take(&self, bytes: u64) -> bool {
        take(&mut self.lock(), bytes, self.limit)
    }

    /// Takes `bytes`, or waits until somebody gives some back and returns false.
    pub fn wait(&self, bytes: u64) -> bool {
        let mut used = self.lock();
        if take(&mut used, bytes, self.limit) {
            return true;
        }
        let mut used = self
            .given_back
            .wait(used)
            .unwrap_or_else(PoisonError::into_inner);
        take(&mut used, bytes, self.limit)
    }

    /// Names bytes that have been taken, so that they are returned on drop.
    pub fn hold(self: &Arc<Self>, bytes: u64) -> Hold {
        Hold {
            bytes,
            budget: Arc::clone(self),
        }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(used: &mut u64, bytes: u64, limit: u64) -> bool {
    let fits = used.checked_add(bytes).is_some_and(|sum| sum <= limit);
    if fits {
        *used += bytes;
    }
    fits
}

impl Hold {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        *self.budget.lock() -= self.bytes;
        self.budget.given_back.notify_all();
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
