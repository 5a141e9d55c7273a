//! Counts the values of one array: portions on all cores, their sums merged in the order of the
//! array.
//!
//! A portion that is done waits for those before it, so the sums do not depend on which core was
//! faster. At most a few wait: portions are handed out in order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::ProgressBar;

use crate::array::Info;
use crate::array::read::CachedArray;
use crate::error::{Error, Result};
use crate::look::element::StructurePart;
use crate::look::figures::ColumnSums;
use crate::look::layout::ElementLayout;
use crate::look::physical::PhysicalScale;
use crate::look::portions::ArrayPortions;
use crate::processors::processors;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Portions that may be done before one that is not.
const AHEAD: u64 = 64;

/// Arrays of fewer portions are walked through whatever is stored of them.
const PORTIONS_FEW: u64 = 16;

/// An array that is to be counted.
pub(super) struct ArrayCount<'a> {
    pub(super) array: &'a CachedArray,
    pub(super) info: &'a Info,
    pub(super) chunks: &'a [u64],
    /// What is not stored of it is fill, not made from other arrays.
    pub(super) is_own: bool,
    pub(super) columns: Vec<StructurePart>,
    pub(super) scale: &'a PhysicalScale,
    pub(super) bar: &'a ProgressBar,
}

/// The sums so far.
struct MergedSums {
    /// The portion that is to be merged next.
    next: u64,
    sums: Vec<ColumnSums>,
    waiting: BTreeMap<u64, Vec<ColumnSums>>,
    failed: Option<Error>,
}

impl ArrayCount<'_> {
    fn no_sums(&self) -> Vec<ColumnSums> {
        let columns = self.columns.iter();
        columns
            .map(|column| ColumnSums::of(&column.element))
            .collect()
    }

    /// The sums of its columns.
    pub(super) fn run(&self) -> Result<Vec<ColumnSums>> {
        let Some(layout) = ElementLayout::of(self.info) else {
            return Ok(self.no_sums());
        };
        let portions = ArrayPortions::of(self.info, self.chunks);
        if let Some(sums) = self.never_written(&layout, &portions)? {
            return Ok(sums);
        }
        let merged = Mutex::new(MergedSums {
            next: 0,
            sums: self.no_sums(),
            waiting: BTreeMap::new(),
            failed: None,
        });
        let shared = SharedCount {
            portions: &portions,
            layout: &layout,
            given: AtomicU64::new(0),
            merged: &merged,
            moved: Condvar::new(),
        };
        let threads = processors() as u64;
        std::thread::scope(|scope| {
            for _ in 1..threads.min(portions.count()) {
                // Where there is no thread to be had, this one does it all.
                let builder = std::thread::Builder::new();
                let _ = builder.spawn_scoped(scope, || self.work(&shared));
            }
            self.work(&shared);
        });
        let merged = merged.into_inner();
        match merged.failed {
            Some(error) => Err(error),
            None => Ok(merged.sums),
        }
    }

    /// The sums of a large array of which nothing is stored: it is the same element throughout, and
    /// may be larger than can ever be walked through. None if it is not like that.
    fn never_written(
        &self,
        layout: &ElementLayout,
        portions: &ArrayPortions,
    ) -> Result<Option<Vec<ColumnSums>>> {
        let count = self.info.shape.iter();
        let count = count.fold(1u64, |all, len| all.saturating_mul(*len));
        if !self.is_own
            || self.info.stored().is_some_and(|stored| stored > 0)
            || portions.count() < PORTIONS_FEW
        {
            return Ok(None);
        }
        let mut is_stored = false;
        self.array.array.survey(&mut |_| is_stored = true)?;
        if is_stored {
            return Ok(None);
        }
        // What is made up may be more than one fill value in some format: that would be seen here.
        let first = layout.read_as_stored(self.array, &portions.get(0))?;
        let element = first.get(0);
        for n in [0, portions.count() / 2, portions.count() - 1] {
            let some = layout.read_as_stored(self.array, &portions.get(n))?;
            let mut elements = some.bytes.chunks_exact(some.size.max(1));
            if elements.any(|other| other != element) {
                return Ok(None);
            }
        }
        let mut sums = self.no_sums();
        for (sums, column) in sums.iter_mut().zip(&self.columns) {
            sums.add(column, element, first.size, self.scale);
            sums.repeat(count);
        }
        self.bar.inc(self.info.bytes);
        Ok(Some(sums))
    }

    fn work(&self, shared: &SharedCount<'_>) {
        loop {
            let n = shared.given.fetch_add(1, Ordering::Relaxed);
            if n >= shared.portions.count() || !shared.may_begin(n) {
                return;
            }
            let counted = catch_unwind(AssertUnwindSafe(|| self.count(n, shared)));
            let counted = counted.unwrap_or_else(|_| {
                let why = "counting panicked, the line before says where";
                Err(Error::Bug(why.into()))
            });
            shared.merge(n, counted);
        }
    }

    fn count(&self, n: u64, shared: &SharedCount<'_>) -> Result<Vec<ColumnSums>> {
        let picked = shared
            .layout
            .read_as_stored(self.array, &shared.portions.get(n))?;
        let mut sums = self.no_sums();
        for (sums, column) in sums.iter_mut().zip(&self.columns) {
            sums.add(column, &picked.bytes, picked.size, self.scale);
        }
        self.bar.inc(picked.bytes.len() as u64);
        Ok(sums)
    }
}

/// What the threads share.
struct SharedCount<'a> {
    portions: &'a ArrayPortions,
    layout: &'a ElementLayout,
    /// Portions that were handed out.
    given: AtomicU64,
    merged: &'a Mutex<MergedSums>,
    moved: Condvar,
}

impl SharedCount<'_> {
    fn lock(&self) -> MutexGuard<'_, MergedSums> {
        self.merged.lock()
    }

    /// Waits until not too many portions before this one are to be merged; false if one has failed.
    fn may_begin(&self, n: u64) -> bool {
        let mut merged = self.lock();
        while merged.failed.is_none() && n >= merged.next.saturating_add(AHEAD) {
            self.moved.wait(&mut merged);
        }
        merged.failed.is_none()
    }

    fn merge(&self, n: u64, counted: Result<Vec<ColumnSums>>) {
        let mut merged = self.lock();
        match counted {
            Err(error) => drop(merged.failed.get_or_insert(error)),
            Ok(sums) => drop(merged.waiting.insert(n, sums)),
        }
        loop {
            let next = merged.next;
            let Some(sums) = merged.waiting.remove(&next) else {
                break;
            };
            for (own, next) in merged.sums.iter_mut().zip(&sums) {
                own.merge(next);
            }
            merged.next += 1;
        }
        drop(merged);
        self.moved.notify_all();
    }
}
