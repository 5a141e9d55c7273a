//! Charges for tables of many small entries: of inodes, of files that were written, of intervals
//! that are staged.
//!
//! Their entries come and go one by one, and the kernel, or a writer, decides how many there are:
//! they are never refused, but lenders (cached blocks) make room for them, until they take half of
//! the budget together with what is kept. Charged in steps, so that the account is asked for one
//! entry of many. Used by `tree` and `stage`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Budget;
use crate::sync::Mutex;

/// What is charged at once.
const STEP: u64 = 64 << 10;

/// The charge of one table.
pub struct TableCharge {
    budget: Arc<Budget>,
    used: AtomicU64,
    /// Read without the lock to see whether that is enough.
    charged: AtomicU64,
    /// Held by the thread that changes it.
    changing: Mutex<()>,
}

impl TableCharge {
    pub fn new(budget: Arc<Budget>) -> TableCharge {
        TableCharge {
            budget,
            used: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            changing: Mutex::default(),
        }
    }

    /// Bytes of the table.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The table takes so much more. To be called without a lock that is held while memory is given
    /// up.
    pub fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.follow();
    }

    pub fn remove(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.follow();
    }

    fn is_followed(&self) -> bool {
        let (used, charged) = (self.used(), self.charged.load(Ordering::Relaxed));
        used <= charged && charged - used < 2 * STEP
    }

    fn follow(&self) {
        if self.is_followed() {
            return;
        }
        let _alone = self.changing.lock();
        if !self.is_followed() {
            let to = self.used().next_multiple_of(STEP);
            let from = self.charged.swap(to, Ordering::Relaxed);
            self.budget.charge_tables(from, to);
        }
    }
}

impl Drop for TableCharge {
    fn drop(&mut self) {
        self.budget.charge_tables(*self.charged.get_mut(), 0);
    }
}

impl Budget {
    fn charge_tables(&self, from: u64, to: u64) {
        let mut account = self.lock();
        account.used = account.used.saturating_sub(from).saturating_add(to);
        account.tables = account.tables.saturating_sub(from).saturating_add(to);
        // A waiting thread has more, or waits for less.
        account.changes = account.changes.wrapping_add(1);
        drop(account);
        self.changed.notify_all();
        self.return_to_limit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_charged_as_it_grows_and_shrinks() {
        let budget = Budget::new(1 << 20);
        let table = TableCharge::new(Arc::clone(&budget));
        table.add(1);
        assert_eq!(budget.used(), STEP);
        table.add(STEP);
        assert_eq!((table.used(), budget.used()), (STEP + 1, 2 * STEP));
        table.remove(STEP);
        assert_eq!(budget.used(), 2 * STEP, "it may grow again");
        table.add(4 * STEP);
        table.remove(4 * STEP + 1);
        assert_eq!(budget.used(), 0);
        table.add(300 << 10);
        drop(table);
        assert_eq!(budget.used(), 0);
    }

    /// Half of the budget is left for blocks, and tables never keep a container from being opened.
    #[test]
    fn tables_leave_half_of_the_budget() {
        let budget = Budget::new(1 << 20);
        let table = TableCharge::new(Arc::clone(&budget));
        table.add(10 << 20);
        assert_eq!((budget.used(), budget.counted()), (10 << 20, 512 << 10));
        assert_eq!(budget.reserve(u64::MAX).bytes(), 512 << 10);
        assert!(budget.keep(400 << 10).is_ok());
    }
}
