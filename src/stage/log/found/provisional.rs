//! New content of arrays of which a log may not have all: it counts when the log says that it has.
//!
//! An array whose content is replaced as a whole shows, after a crash, the old one or the new one,
//! and never a part. Used by [`super`].

use std::collections::BTreeMap;

use super::layer::LoggedChange;

/// A change logged of a layer.
type LoggedStep = (u64, LoggedChange);

#[derive(Default)]
pub(super) struct Provisional {
    /// By array: the layer in which it began, and the changes logged since.
    arrays: BTreeMap<u32, (u64, Vec<LoggedStep>)>,
}

impl Provisional {
    pub(super) fn begin(&mut self, layer: u64, array: u32) {
        let (of, _) = self.arrays.entry(array).or_insert((layer, Vec::new()));
        *of = layer;
    }

    pub(super) fn arrays(&self) -> impl Iterator<Item = u32> + '_ {
        self.arrays.keys().copied()
    }

    /// Where to put changes of an array that are not to be believed yet.
    pub(super) fn of(&mut self, array: u32) -> Option<&mut Vec<LoggedStep>> {
        self.arrays.get_mut(&array).map(|(_, steps)| steps)
    }

    /// The changes of an array, which is provisional no more.
    pub(super) fn end(&mut self, array: u32) -> Vec<LoggedStep> {
        self.arrays.remove(&array).unwrap_or_default().1
    }

    /// The changes above the layers up to this one, which are the container's: of arrays whose new
    /// content is in there.
    pub(super) fn commit(&mut self, layer: u64) -> Vec<LoggedStep> {
        let mut kept = Vec::new();
        self.arrays.retain(|_, (of, steps)| {
            steps.retain(|(number, _)| *number > layer);
            let is_stored = *of <= layer;
            if is_stored {
                kept.append(steps);
            }
            !is_stored
        });
        kept
    }
}
