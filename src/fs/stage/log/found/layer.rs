//! The layers of a log: the changes logged of them, and the extents that they add up to.
//!
//! Used by [`super`].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::next::LoggedReference;
use crate::range_set::RangeSet;
use crate::stage::extents::{ExtentPlace, Extents};
use crate::stage::layer::Layer;
use crate::stage::log::LogBytes;
use crate::stage::next_file::NextFile;

pub(super) enum LoggedChange {
    Put {
        array: u32,
        offset: u64,
        len: u64,
        at: u64,
    },
    Zeros {
        array: u32,
        offset: u64,
        len: u64,
    },
    InNext {
        array: u32,
        offset: u64,
        len: u64,
    },
    Length {
        array: u32,
        len: u64,
    },
}

impl LoggedChange {
    pub(super) fn array(&self) -> u32 {
        let (LoggedChange::Put { array, .. }
        | LoggedChange::Zeros { array, .. }
        | LoggedChange::InNext { array, .. }
        | LoggedChange::Length { array, .. }) = self;
        *array
    }
}

/// A layer's number, and for each array its changes and the length of the array below.
pub(crate) struct FoundLayer {
    pub(crate) number: u64,
    pub(crate) arrays: Vec<(Extents, u64)>,
    pub(crate) references: Vec<LoggedReference>,
}

impl FoundLayer {
    pub(super) fn of(
        number: u64,
        below: &[u64],
        steps: BTreeMap<u64, Vec<LoggedChange>>,
    ) -> FoundLayer {
        let array = |&len: &u64| (Extents::new(len), len);
        let mut arrays: Vec<(Extents, u64)> = below.iter().map(array).collect();
        for step in steps.into_values().flatten() {
            let Some((extents, _)) = arrays.get_mut(step.array() as usize) else {
                continue;
            };
            let mut nobody = |_: ExtentPlace, _: u64| {};
            match step {
                LoggedChange::Put {
                    offset, len, at, ..
                } => {
                    extents.put(offset..offset + len, ExtentPlace::in_log(at), &mut nobody);
                }
                LoggedChange::Zeros { offset, len, .. } => {
                    extents.put(offset..offset + len, ExtentPlace::ZEROS, &mut nobody);
                }
                LoggedChange::InNext { offset, len, .. } => {
                    let place = ExtentPlace::in_next(offset);
                    extents.put(offset..offset + len, place, &mut nobody);
                }
                LoggedChange::Length { len, .. } => extents.set_len(len, &mut nobody),
            }
        }
        FoundLayer {
            number,
            arrays,
            references: Vec::new(),
        }
    }

    /// `next`: if the log refers to a next file.
    pub(crate) fn open(&self, log: LogBytes, next: Option<Arc<NextFile>>) -> Layer {
        let layer = Layer::found(self.number, self.arrays.clone(), log);
        let Some(next) = next else {
            return layer;
        };
        layer.set_next(next);
        for reference in &self.references {
            layer.add_area(reference.array, reference.run);
            layer.add_referred(reference.array, reference.range.clone());
        }
        layer
    }

    /// Whether any of the bytes are shown to which a record refers. `later`: those to which later
    /// ones do.
    pub(super) fn shows(&self, reference: &LoggedReference, later: &RangeSet) -> bool {
        let Some((extents, _)) = self.arrays.get(reference.array.index()) else {
            return false;
        };
        let mut at = reference.range.start;
        while let Some((part, place)) = extents.next_staged(at..reference.range.end) {
            at = part.end;
            let of_later = later.within(part.clone());
            let of_later: u64 = of_later.map(|range| range.end - range.start).sum();
            if place.is_in_next() && of_later < part.end - part.start {
                return true;
            }
        }
        false
    }
}
