//! What the memory of a [`Layer`] is charged: of its intervals, before it is written to, and all of
//! it, when it is no part of its stage any more. Used by [`super::super::Stage`].

use super::super::intervals::{CHUNK, EXTENT, FREE, IntervalCharge, RANGE};
use super::{ArrayChanges, Layer, LayerState};

impl Layer {
    /// What its intervals take beyond what they are charged.
    pub(crate) fn uncharged(&self) -> u64 {
        let state = self.state.read();
        let charged = state.charge.as_ref().map_or(0, IntervalCharge::bytes);
        let taken = state
            .arrays
            .iter()
            .map(ArrayChanges::intervals)
            .sum::<u64>();
        taken.saturating_sub(charged.saturating_add(FREE))
    }

    pub(crate) fn add_charge(&self, more: IntervalCharge) {
        self.state.write().add_charge(more);
    }

    /// It is no part of a stage any more, which cannot give its memory back: only readers that
    /// began before have it, until they end. They may wait for just that memory, so it is charged
    /// no more.
    pub(crate) fn uncharge(&self) {
        let mut state = self.state.write();
        let (slabs, intervals) = (state.slabs.uncharge(), state.charge.take());
        let encoded = state
            .arrays
            .iter_mut()
            .map(|array| array.encoded.take_last());
        let encoded: Vec<_> = encoded.collect();
        drop(state);
        drop((slabs, intervals, encoded));
    }
}

impl ArrayChanges {
    /// What its intervals take.
    fn intervals(&self) -> u64 {
        EXTENT * self.extents.count() as u64
            + RANGE * self.unlogged.ranges() as u64
            + CHUNK * self.encoded.counted() as u64
    }
}

impl LayerState {
    pub(super) fn add_charge(&mut self, more: IntervalCharge) {
        match &mut self.charge {
            Some(charge) => charge.join(more),
            None => self.charge = Some(more),
        }
    }
}
