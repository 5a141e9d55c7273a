//! A few faults of each kind: a broken array of a billion entries must not make a billion lines.
//!
//! Used by `order` and `slices`.

use crate::error::Fault;

/// Faults of a kind that are reported one by one; the rest is counted.
const TOLD: u64 = 3;

/// The faults of one array and one kind.
#[derive(Default)]
pub(super) struct Few {
    count: u64,
}

impl Few {
    /// Tells the fault, or only counts it.
    pub(super) fn tell(&mut self, report: &mut dyn FnMut(Fault), fault: impl FnOnce() -> Fault) {
        self.count += 1;
        if self.count <= TOLD {
            report(fault());
        }
    }

    /// Tells how many were only counted.
    pub(super) fn finish(&self, report: &mut dyn FnMut(Fault), array: &str, what: &str) {
        if let Some(more @ 1..) = self.count.checked_sub(TOLD) {
            report(Fault::new(format!("{more} more elements {what}")).array(array));
        }
    }
}
