//! Which ranges of one array are changed, and where their bytes are: pure arithmetic on intervals.
//!
//! Three things make up what is shown: extents (changed ranges), the length, and how much of the
//! array below still shows. Truncation lowers the last for good, because bytes that are cut off do
//! not come back when the array grows again; extension is a length alone. Bytes behind what shows
//! of the array below that are in no extent are zeros; where it does show, zeros are an extent,
//! which takes as much for a terabyte as for a byte. Assumes that ranges end before `u64::MAX`,
//! which [`super::Stage`] and the reader of logs see to. Every operation takes time for what it
//! removes and a logarithm of what there is, however hostile the log is that they come from. Used
//! by [`super::layer`], and by the reader of logs.

use std::collections::BTreeMap;
use std::ops::Range;

/// Where in memory bytes begin: which slab, and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InSlab(u64);

/// Bits of a place within a slab.
const AT_BITS: u32 = 22;

/// Where the bytes of an extent are: in memory, in the log, or both; or in the next file, at the
/// place of the array; zeros are nowhere. There may be millions of extents, so two numbers say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExtentPlace {
    memory: u64,
    /// Offset in the log, which nothing but its own header has at 0; or [`NEXT`] and the offset in
    /// the array.
    disk: u64,
}

/// For [`ExtentPlace::disk`]. No log, and no array, is so long.
const NEXT: u64 = 1 << 63;

/// For [`ExtentPlace::memory`]: the bytes are not in memory.
const NO_MEMORY: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    len: u64,
    place: ExtentPlace,
}

/// What a part of a range consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Staged(ExtentPlace),
    /// What the array below has there.
    Below,
    Zeros,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extents {
    by_start: BTreeMap<u64, Extent>,
    len: u64,
    visible: u64,
}

impl InSlab {
    /// None: the number or the place does not fit, which takes more memory than there is.
    pub(super) fn new(slab: u64, at: usize) -> Option<InSlab> {
        let fits = at >> AT_BITS == 0 && slab < NO_MEMORY >> AT_BITS;
        fits.then_some(InSlab(slab << AT_BITS | at as u64))
    }

    pub(super) fn slab(self) -> u64 {
        self.0 >> AT_BITS
    }

    pub(super) fn at(self) -> usize {
        (self.0 & ((1 << AT_BITS) - 1)) as usize
    }
}

impl ExtentPlace {
    pub(super) const ZEROS: ExtentPlace = ExtentPlace {
        memory: NO_MEMORY,
        disk: 0,
    };

    pub(super) fn in_memory(place: InSlab) -> ExtentPlace {
        ExtentPlace {
            memory: place.0,
            disk: 0,
        }
    }

    pub(super) fn in_log(at: u64) -> ExtentPlace {
        ExtentPlace {
            memory: NO_MEMORY,
            disk: at,
        }
    }

    /// In the next file. `at`: offset in the array.
    pub(super) fn in_next(at: u64) -> ExtentPlace {
        ExtentPlace {
            memory: NO_MEMORY,
            disk: NEXT | at,
        }
    }

    pub(super) fn is_in_next(self) -> bool {
        self.disk & NEXT != 0
    }

    pub(super) fn memory(self) -> Option<InSlab> {
        (self.memory != NO_MEMORY).then_some(InSlab(self.memory))
    }

    pub(super) fn log(self) -> Option<u64> {
        (self.disk != 0 && !self.is_in_next()).then_some(self.disk)
    }

    /// Where the bytes are when the log has them at another offset, or none, if they are in memory
    /// as well. Zeros are in no log.
    pub(super) fn with_log(self, log: Option<u64>) -> ExtentPlace {
        match log {
            _ if self == ExtentPlace::ZEROS => self,
            None if self.memory == NO_MEMORY => self,
            log => ExtentPlace {
                disk: log.unwrap_or(0),
                ..self
            },
        }
    }

    /// Where the bytes of an extent are from its `n`th one on.
    fn skip(self, n: u64) -> ExtentPlace {
        let within_slab = |place: InSlab| place.0.saturating_add(n);
        ExtentPlace {
            memory: self.memory().map_or(NO_MEMORY, within_slab),
            disk: match self.disk {
                0 => 0,
                at => at.saturating_add(n),
            },
        }
    }
}

impl Extents {
    /// Nothing is changed of an array of this length.
    pub(super) fn new(len: u64) -> Extents {
        Extents {
            by_start: BTreeMap::new(),
            len,
            visible: len,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn visible(&self) -> u64 {
        self.visible
    }

    /// How many extents there are.
    pub(super) fn count(&self) -> usize {
        self.by_start.len()
    }

    /// Whether everything of an array of this length shows as it is.
    pub(super) fn is_unchanged(&self, len: u64) -> bool {
        self.by_start.is_empty() && self.len == len && self.visible == len
    }

    /// The bytes of a range are somewhere else from now on. `dropped` is called with where they
    /// were before.
    pub(super) fn put(
        &mut self,
        range: Range<u64>,
        place: ExtentPlace,
        dropped: &mut dyn FnMut(ExtentPlace, u64),
    ) {
        if range.start < range.end {
            self.remove(range.clone(), dropped);
            self.insert(range.clone(), place);
            self.len = self.len.max(range.end);
        }
    }

    /// Truncates or extends.
    pub(super) fn set_len(&mut self, len: u64, dropped: &mut dyn FnMut(ExtentPlace, u64)) {
        // Not `split_off`, which takes time for all that is left.
        while let Some((&start, &extent)) = self.by_start.last_key_value()
            && start + extent.len > len
        {
            self.remove(start.max(len)..start + extent.len, dropped);
        }
        self.visible = self.visible.min(len);
        self.len = len;
    }

    /// Changes where the bytes of the extents in a range are said to be.
    pub(super) fn relocate(
        &mut self,
        range: Range<u64>,
        mut change: impl FnMut(u64, ExtentPlace) -> ExtentPlace,
    ) {
        let mut at = range.start;
        while let Some((part, place)) = self.next_staged(at..range.end) {
            at = part.end;
            let changed = change(part.start, place);
            if changed != place {
                self.remove(part.clone(), &mut |_, _| {});
                self.insert(part, changed);
            }
        }
    }

    /// The first part of an extent that lies in a range.
    pub(super) fn next_staged(&self, range: Range<u64>) -> Option<(Range<u64>, ExtentPlace)> {
        if range.start >= range.end {
            return None;
        }
        let clip = |(&start, extent): (&u64, &Extent)| {
            let (from, to) = (start.max(range.start), (start + extent.len).min(range.end));
            (from < to).then(|| (from..to, extent.place.skip(from - start)))
        };
        let before = self.by_start.range(..=range.start).next_back();
        before
            .and_then(clip)
            .or_else(|| self.by_start.range(range.clone()).next().and_then(clip))
    }

    /// What the first bytes of a range consist of, and where that ends. The range is not empty.
    pub(super) fn look(&self, range: Range<u64>) -> (Range<u64>, Shown) {
        let next = self.next_staged(range.clone());
        let gap_end = match next {
            Some((part, ExtentPlace::ZEROS)) if part.start == range.start => {
                return (part, Shown::Zeros);
            }
            Some((part, place)) if part.start == range.start => {
                return (part, Shown::Staged(place));
            }
            Some((part, _)) => part.start,
            None => range.end,
        };
        match range.start < self.visible {
            true => (range.start..gap_end.min(self.visible), Shown::Below),
            false => (range.start..gap_end, Shown::Zeros),
        }
    }

    /// Ranges that do not show what is below, in order; neighbours are one.
    pub(super) fn changed(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let tail = (self.visible < self.len).then_some(self.visible..self.len);
        let extents = self.by_start.iter();
        let extents = extents.map(|(&start, extent)| start..start + extent.len);
        for range in extents
            .take_while(|range| range.start < self.visible)
            .chain(tail)
        {
            match ranges.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        ranges
    }

    /// Extents in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Range<u64>, ExtentPlace)> {
        let extents = self.by_start.iter();
        extents.map(|(&start, extent)| (start..start + extent.len, extent.place))
    }

    /// Lays changes over these, which were made to what these show.
    pub(super) fn merge(&mut self, over: &Extents, dropped: &mut dyn FnMut(ExtentPlace, u64)) {
        self.set_len(over.visible.min(self.len), dropped);
        for (range, place) in over.iter() {
            self.put(range, place, dropped);
        }
        self.len = over.len;
    }

    fn remove(&mut self, range: Range<u64>, dropped: &mut dyn FnMut(ExtentPlace, u64)) {
        while let Some((part, place)) = self.next_staged(range.clone()) {
            let before = self.by_start.range_mut(..=part.start).next_back();
            let Some((&start, extent)) = before else {
                return;
            };
            let end = start + extent.len;
            match start < part.start {
                true => extent.len = part.start - start,
                false => drop(self.by_start.remove(&start)),
            }
            if end > part.end {
                let behind = place.skip(part.end - part.start);
                self.by_start.insert(
                    part.end,
                    Extent {
                        len: end - part.end,
                        place: behind,
                    },
                );
            }
            dropped(place, part.end - part.start);
        }
    }

    /// Where nothing is. Becomes one with neighbours whose bytes lie next to its own, or are zeros
    /// like its own.
    fn insert(&mut self, range: Range<u64>, place: ExtentPlace) {
        let mut extent = Extent {
            len: range.end - range.start,
            place,
        };
        if let Some(&next) = self.by_start.get(&range.end)
            && place.skip(extent.len) == next.place
        {
            self.by_start.remove(&range.end);
            extent.len += next.len;
        }
        if let Some((&start, before)) = self.by_start.range_mut(..range.start).next_back()
            && start + before.len == range.start
            && before.place.skip(before.len) == place
        {
            before.len += extent.len;
            return;
        }
        self.by_start.insert(range.start, extent);
    }
}
