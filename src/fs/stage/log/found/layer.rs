//! The layers of a log: the changes logged of them, and the extents that they add up to.
//!
//! Used by [`super`].

use std::collections::BTreeMap;

use crate::stage::extents::{ExtentPlace, Extents};
use crate::stage::layer::Layer;
use crate::stage::log::LogBytes;

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
    Length {
        array: u32,
        len: u64,
    },
}

impl LoggedChange {
    pub(super) fn array(&self) -> u32 {
        let (LoggedChange::Put { array, .. }
        | LoggedChange::Zeros { array, .. }
        | LoggedChange::Length { array, .. }) = self;
        *array
    }
}

/// A layer's number, and for each array its changes and the length of the array below.
pub(crate) struct FoundLayer {
    pub(crate) number: u64,
    pub(crate) arrays: Vec<(Extents, u64)>,
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
                LoggedChange::Length { len, .. } => extents.set_len(len, &mut nobody),
            }
        }
        FoundLayer { number, arrays }
    }

    pub(crate) fn open(&self, log: LogBytes) -> Layer {
        Layer::found(self.number, self.arrays.clone(), log)
    }
}
