//! How large a budget is by default: a part of the memory that the machine or the control group
//! gives this process.
//!
//! Used by the commands that make a [`super::budget::Budget`].

use std::sync::Arc;

use super::budget::{Budget, KEPT_LEAST};

impl Budget {
    /// One of the default size, for a command that works without a mount.
    pub fn by_default() -> Arc<Budget> {
        Budget::keeping(default_limit(), KEPT_LEAST)
    }
}

const GIB: u64 = 1 << 30;

/// An eighth of the memory that this process may use, at most 1 GiB.
pub fn default_limit() -> u64 {
    (available() / 8).clamp(1 << 20, GIB)
}

/// The memory that this process may use, in bytes: the machine's, or its control group's.
pub fn available() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram.saturating_mul(machine.mem_unit.into());
    machine.min(control_group_limit().unwrap_or(u64::MAX))
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
    fn the_default_is_sane() {
        let limit = default_limit();
        assert!((1 << 20..=GIB).contains(&limit), "{limit}");
    }
}
