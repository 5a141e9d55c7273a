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
    arrays: BTreeMap<u32, NewContent>,
}

/// The new content of an array.
struct NewContent {
    /// The layer in which it began, and that in which it began again.
    first: u64,
    last: u64,
    /// The changes logged since.
    steps: Vec<LoggedStep>,
}

impl Provisional {
    pub(super) fn begin(&mut self, layer: u64, array: u32) {
        let new = || NewContent {
            first: layer,
            last: layer,
            steps: Vec::new(),
        };
        self.arrays.entry(array).or_insert_with(new).last = layer;
    }

    pub(super) fn arrays(&self) -> impl Iterator<Item = u32> + '_ {
        self.arrays.keys().copied()
    }

    /// Where to put a change of an array in a layer that is not to be believed yet. Changes of the
    /// layer below may be logged later than the new content begins.
    pub(super) fn of(&mut self, array: u32, layer: u64) -> Option<&mut Vec<LoggedStep>> {
        let content = self.arrays.get_mut(&array)?;
        (layer >= content.first).then_some(&mut content.steps)
    }

    /// The changes of an array, which is provisional no more.
    pub(super) fn end(&mut self, array: u32) -> Vec<LoggedStep> {
        let content = self.arrays.remove(&array);
        content.map_or(Vec::new(), |content| content.steps)
    }

    /// The changes above the layers up to this one, which are the container's: of arrays whose new
    /// content is in there.
    pub(super) fn commit(&mut self, layer: u64) -> Vec<LoggedStep> {
        let mut kept = Vec::new();
        self.arrays.retain(|_, content| {
            content.steps.retain(|(number, _)| *number > layer);
            let is_stored = content.last <= layer;
            if is_stored {
                kept.append(&mut content.steps);
            }
            !is_stored
        });
        kept
    }
}
