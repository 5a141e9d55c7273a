//! Memory of the intervals that say where staged bytes are ([`super::extents`]) and which of them
//! are not in the log.
//!
//! Small writes here and there take more of it than of memory for their bytes, and giving bytes to
//! the log gives none of it back: only a commit does. So all stages together have a part of the
//! budget for it; a write that would take more is refused, and its container is committed. Used by
//! [`super::layer`], and by [`super::Stage`] before it writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::slab::LayerMemory;
use crate::memory::budget::{Budget, TableCharge};

/// What an extent takes in its tree, and a range that is not logged, where they come in any order.
pub(super) const EXTENT: u64 = 64;
pub(super) const RANGE: u64 = 32;

/// Memory of the count of a chunk's staged bytes.
pub(super) const CHUNK: u64 = 48;

/// So much of each layer is not charged: something can be staged whatever `cache=` is.
pub(super) const FREE: u64 = 128 * (EXTENT + RANGE);

/// Bytes that are charged at once.
const STEP: u64 = 16 << 10;

/// The part of all stages is a quarter of the budget, and at least this.
const LEAST: u64 = 8 << 20;

/// How much the intervals of all stages may take, and how much they do.
pub(super) struct IntervalMemory {
    most: u64,
    used: AtomicU64,
    table: TableCharge,
}

/// The charge for the intervals of one layer.
pub(crate) struct IntervalCharge {
    bytes: u64,
    memory: Arc<LayerMemory>,
}

impl IntervalMemory {
    pub(super) fn new(budget: &Arc<Budget>) -> IntervalMemory {
        IntervalMemory {
            most: (budget.limit() / 4).max(LEAST),
            used: AtomicU64::new(0),
            table: TableCharge::new(Arc::clone(budget)),
        }
    }

    fn claim(&self, bytes: u64, most: u64) -> bool {
        let add = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= most);
        let order = Ordering::Relaxed;
        let claimed = self.used.fetch_update(order, order, add).is_ok();
        if claimed {
            self.table.add(bytes);
        }
        claimed
    }
}

impl LayerMemory {
    /// Charges about so much; none: all of it is in use.
    pub(super) fn charge_intervals(self: &Arc<Self>, bytes: u64) -> Option<IntervalCharge> {
        self.intervals_within(bytes, self.intervals.most)
    }

    /// Charges so much for intervals that are there already, which is not refused.
    pub(super) fn charge_found(self: &Arc<Self>, bytes: u64) -> Option<IntervalCharge> {
        self.intervals_within(bytes, u64::MAX)
    }

    fn intervals_within(self: &Arc<Self>, bytes: u64, most: u64) -> Option<IntervalCharge> {
        let bytes = bytes.next_multiple_of(STEP);
        let charge = || IntervalCharge {
            bytes,
            memory: Arc::clone(self),
        };
        self.intervals.claim(bytes, most).then(charge)
    }
}

impl IntervalCharge {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn join(&mut self, mut more: IntervalCharge) {
        self.bytes += std::mem::take(&mut more.bytes);
    }
}

impl Drop for IntervalCharge {
    fn drop(&mut self) {
        // One that has joined another is dropped under the lock of its layer.
        if self.bytes == 0 {
            return;
        }
        let intervals = &self.memory.intervals;
        intervals.used.fetch_sub(self.bytes, Ordering::Relaxed);
        intervals.table.remove(self.bytes);
    }
}
