//! Where the chromosomes of fragments begin and end, by where they begin.
//!
//! `chr_ptr` says it in any order. The reader allows two million of them, so this is some megabytes
//! at most; they are charged. Used by `end_max` and `consistency`.

use std::sync::Arc;

use super::merged::MergedArray;
use super::spaces::{read_step, steps};
use crate::container::chunked_write::memory::at_once;
use crate::error::Result;
use crate::memory::block::Workspace;
use crate::memory::budget::{Budget, Hold};
use crate::memory::fallible;

pub(super) struct Chromosomes {
    /// Begin and end of those that have fragments.
    ranges: Vec<(u64, u64)>,
    _hold: Option<Hold>,
}

impl Chromosomes {
    /// Reads `chr_ptr`.
    pub(super) fn read(
        pointers: &MergedArray<'_>,
        space: &mut Workspace,
        budget: &Arc<Budget>,
    ) -> Result<Chromosomes> {
        let count = usize::try_from(pointers.count() / 2).unwrap_or(usize::MAX);
        let bytes = (count as u64).saturating_mul(size_of::<(u64, u64)>() as u64);
        let hold = at_once(bytes, budget);
        let mut ranges = fallible::room_for(count, "cannot read chr_ptr")?;
        let width = pointers.form.width().unwrap_or(8) as usize;
        for step in steps(0..pointers.len) {
            let step = read_step(pointers.shown, &step, space)?;
            let pairs = step.chunks_exact(2 * width);
            let pairs = pairs.map(|pair| pair.split_at(width));
            let pairs = pairs.map(|(begin, end)| (unsigned(begin), unsigned(end)));
            ranges.extend(pairs.filter(|(begin, end)| begin < end));
        }
        ranges.sort_unstable();
        Ok(Chromosomes {
            ranges,
            _hold: Some(hold),
        })
    }

    #[cfg(test)]
    pub(super) fn of(ranges: Vec<(u64, u64)>) -> Chromosomes {
        Chromosomes {
            ranges,
            _hold: None,
        }
    }

    /// Where they begin, in order.
    pub(super) fn begins(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter().map(|(begin, _)| *begin)
    }

    /// Whether a fragment and the one before it belong to the same.
    pub(super) fn continues_at(&self, fragment: u64) -> bool {
        let before = self.ranges.partition_point(|(begin, _)| *begin <= fragment);
        let last = before.checked_sub(1).and_then(|last| self.ranges.get(last));
        last.is_some_and(|(begin, end)| *begin < fragment && fragment < *end)
    }
}

/// A little-endian number of at most 8 bytes.
pub(super) fn unsigned(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    let len = bytes.len().min(8);
    all[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(all)
}
