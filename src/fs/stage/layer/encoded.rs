//! A [`Layer`] as the encoding ahead of commits sees it.
//!
//! A write to a block, or a cut, drops its encoded form under the layer's own lock: so
//! [`Layer::encoded`] gives the bytes that are shown. A block is complete when as many of its bytes
//! are staged as it has. Used by `live` and, of a frozen layer, by the commit.

use std::ops::Range;
use std::sync::Arc;

use super::super::encoded_blocks::{EncodedBlock, EncodingTicket};
use super::super::extents::{Extents, Shown};
use super::super::written_array::WrittenArray;
use super::{ArrayChanges, Layer, LayerState};
use crate::array::chunking::{ChunkId, Chunking};

impl Layer {
    /// Those of `blocks` that a write has completed, or come to the end of once more, and that no
    /// thread encodes.
    pub fn complete(
        &self,
        array: WrittenArray,
        blocks: &Arc<dyn Chunking>,
        written: &Range<u64>,
    ) -> Vec<u64> {
        let mut state = self.state.write();
        // An absorbed layer has no blocks of its own.
        let is_absorbed = state.absorbed_by.is_some();
        match state.arrays.get_mut(array.index()) {
            Some(ArrayChanges {
                extents, encoded, ..
            }) if !is_absorbed => {
                encoded.complete(blocks, written, &|range| staged_bytes(extents, range))
            }
            _ => Vec::new(),
        }
    }

    /// A block is going to be read and encoded; none if it is already, or if it is not wholly
    /// staged.
    pub fn begin_encoding(&self, array: WrittenArray, block: ChunkId) -> Option<EncodingTicket> {
        let mut state = self.state.write();
        if state.absorbed_by.is_some() {
            return None;
        }
        let ArrayChanges {
            extents, encoded, ..
        } = state.arrays.get_mut(array.index())?;
        encoded.begin(block, &|range| staged_bytes(extents, range))
    }

    /// The encoded block; none if encoding came to nothing.
    pub fn end_encoding(
        &self,
        array: WrittenArray,
        block: ChunkId,
        ticket: EncodingTicket,
        encoded: Option<EncodedBlock>,
    ) {
        let mut state = self.state.write();
        if let Some(array) = state.arrays.get_mut(array.index()) {
            array.encoded.end(block, ticket, encoded);
        }
    }

    /// A block as it was encoded, if it was.
    pub fn encoded(&self, array: WrittenArray, block: ChunkId) -> Option<Arc<EncodedBlock>> {
        let state = self.state.read();
        state.array(array)?.encoded.get(block)
    }

    /// No more is begun: the layer is going to be committed.
    pub(crate) fn end_encodings(&self) {
        let mut state = self.state.write();
        state
            .arrays
            .iter_mut()
            .for_each(|array| array.encoded.close());
    }

    /// Gives up an encoded block; false if there is none.
    pub(crate) fn give_up_encoded(&self) -> bool {
        let mut state = self.state.write();
        let mut arrays = state.arrays.iter_mut();
        arrays.any(|array| array.encoded.give_up())
    }
}

impl LayerState {
    /// All bytes of a range are going to be staged, others than now.
    pub(super) fn note_write(&mut self, array: WrittenArray, range: &Range<u64>) {
        let Some(ArrayChanges {
            extents, encoded, ..
        }) = self.arrays.get_mut(array.index())
        else {
            return;
        };
        encoded.drop_in(range);
        let mut at = range.start;
        while encoded.counts() && at < range.end {
            let (part, shown) = extents.look(at..range.end);
            at = part.end;
            if !matches!(shown, Shown::Staged(_)) {
                encoded.add(&part);
            }
        }
    }

    /// Bytes of a range are going to be cut off, or zeros.
    pub(super) fn note_loss(&mut self, array: WrittenArray, range: &Range<u64>) {
        if let Some(array) = self.arrays.get_mut(array.index()) {
            array.encoded.drop_in(range);
            array.encoded.lose(range);
        }
    }
}

/// How many bytes of a range are staged.
fn staged_bytes(extents: &Extents, range: Range<u64>) -> u64 {
    let (mut at, mut staged) = (range.start, 0);
    while at < range.end {
        let (part, shown) = extents.look(at..range.end);
        at = part.end;
        if matches!(shown, Shown::Staged(_)) {
            staged += part.end - part.start;
        }
    }
    staged
}
