//! A [`Layer`] as who encodes ahead sees it.
//!
//! What is written to a block, or cut off it, takes back what was encoded of it, under the layer's own lock: so what
//! [`Layer::encoded`] gives is what is shown. Used by `tree` and, of a frozen layer, by the commit.

use std::ops::Range;
use std::sync::Arc;

use super::super::StagedArray;
use super::super::ahead::{AheadTicket, EncodedBlock};
use super::super::extents::Shown;
use super::{Layer, LayerState};

impl Layer {
    /// A block is going to be read and encoded; none if it is already, or if it is not wholly staged.
    pub fn begin_encoding(&self, array: StagedArray, block: &Range<u64>) -> Option<AheadTicket> {
        let mut state = self.write_state();
        let mut at = block.start;
        while at < block.end {
            match state.look(array, at..block.end) {
                (part, Shown::Staged(_)) => at = part.end,
                _ => return None,
            }
        }
        state.arrays.get_mut(array.index())?.ahead.begin(block)
    }

    /// What came of it; none: nothing did.
    pub fn end_encoding(
        &self,
        array: StagedArray,
        start: u64,
        ticket: AheadTicket,
        encoded: Option<EncodedBlock>,
    ) {
        let mut state = self.write_state();
        if let Some(array) = state.arrays.get_mut(array.index()) {
            array.ahead.end(start, ticket, encoded);
        }
    }

    /// A block as it was encoded, if it was.
    pub fn encoded(&self, array: StagedArray, block: &Range<u64>) -> Option<Arc<EncodedBlock>> {
        let state = self.read_state();
        state.array(array)?.ahead.get(block)
    }

    /// No more is begun: the layer is going to be committed.
    pub(in crate::stage) fn end_encodings(&self) {
        let mut state = self.write_state();
        state
            .arrays
            .iter_mut()
            .for_each(|array| array.ahead.close());
    }

    /// Gives up an encoded block; false if there is none.
    pub(in crate::stage) fn give_up_encoded(&self) -> bool {
        let mut state = self.write_state();
        let mut arrays = state.arrays.iter_mut();
        arrays.any(|array| array.ahead.give_up())
    }
}

impl LayerState {
    /// Bytes of a range are others now.
    pub(super) fn drop_encoded(&mut self, array: StagedArray, range: Range<u64>) {
        if let Some(array) = self.arrays.get_mut(array.index()) {
            array.ahead.drop_in(range);
        }
    }
}
