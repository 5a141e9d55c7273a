//! How many plain bytes chunks hold, and which of the array each holds. Pure arithmetic; used by
//! whatever finds, reads and checks chunks.

use std::ops::Range;

/// Plain bytes of the chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkSizes {
    /// `chunk_size` each, `last` for the last.
    Even {
        chunk_size: u64,
        last: u64,
        chunks: u64,
    },
    /// What each chunk's header says, as found by the walk.
    Walked { bytes: u64, chunks: u64 },
}

/// The part of the array that a chunk holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkExtent {
    pub(crate) number: u64,
    pub(crate) plain: Range<u64>,
}

impl ChunkSizes {
    pub(crate) fn bytes(&self) -> u64 {
        match *self {
            ChunkSizes::Even { chunks: 0, .. } => 0,
            // Checked to fit by the header.
            ChunkSizes::Even {
                chunk_size,
                last,
                chunks,
            } => chunk_size * (chunks - 1) + last,
            ChunkSizes::Walked { bytes, .. } => bytes,
        }
    }

    pub(crate) fn chunks(&self) -> u64 {
        match *self {
            ChunkSizes::Even { chunks, .. } | ChunkSizes::Walked { chunks, .. } => chunks,
        }
    }

    /// Plain bytes of a chunk, by the file's header.
    pub(super) fn of(&self, number: u64) -> u64 {
        match *self {
            ChunkSizes::Even { last, chunks, .. } if number + 1 == chunks => last,
            ChunkSizes::Even { chunk_size, .. } => chunk_size,
            ChunkSizes::Walked { .. } => 0,
        }
    }

    /// The chunk that holds byte `plain` of the array, which has that byte; none where only a walk
    /// knows it.
    pub(super) fn extent_at(&self, plain: u64) -> Option<ChunkExtent> {
        match *self {
            // There are bytes, so with a chunk size of 0 they are all in the last chunk.
            ChunkSizes::Even {
                chunk_size, chunks, ..
            } => {
                let number = plain.checked_div(chunk_size).unwrap_or(chunks);
                Some(self.extent(number.min(chunks - 1)))
            }
            ChunkSizes::Walked { .. } => None,
        }
    }

    /// The extent of chunk `number`; an empty one where only a walk knows it.
    pub(crate) fn extent(&self, number: u64) -> ChunkExtent {
        let start = match *self {
            ChunkSizes::Even { chunk_size, .. } => number * chunk_size,
            ChunkSizes::Walked { .. } => 0,
        };
        ChunkExtent {
            number,
            plain: start..start + self.of(number),
        }
    }
}
