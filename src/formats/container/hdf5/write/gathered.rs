//! Encoded chunks that wait for their places: those of small chunks are asked for together, since
//! each answer of the worker costs two changes of process.
//!
//! Assumes that places do not depend on what is put meanwhile. Used by [`super::edit_recipe`].

use std::sync::Arc;

use super::edit_recipe::PutTo;
use crate::container::hdf5::edit::StoredChunk;
use crate::container::hdf5::index::ChunkEntry;
use crate::memory::budget::{Budget, Hold};
use crate::memory::fallible;

/// Longer chunks do not wait: what is won is little for them.
const LONGEST: usize = 128 << 10;

/// Bytes that wait, and chunks.
const ROOM: usize = 1 << 20;
const MOST: usize = 1024;

#[derive(Default)]
pub(super) struct GatheredChunks {
    /// Of the dataset of this token.
    token: u64,
    chunks: Vec<StoredChunk>,
    /// As they are stored now.
    before: Vec<Option<ChunkEntry>>,
    /// Their bytes, and where those of each end.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The charge for `bytes`; none as long as none have been gathered.
    hold: Option<Hold>,
}

impl GatheredChunks {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Whether a chunk can wait with those that do.
    pub(super) fn takes(&mut self, to: &PutTo, bytes: &[u8], budget: &Arc<Budget>) -> bool {
        if bytes.len() > LONGEST {
            return false;
        }
        let is_like = self.is_empty() || self.token == to.token && self.chunks.len() < MOST;
        if !is_like || self.bytes.len() + bytes.len() > ROOM {
            return false;
        }
        // Without memory for it they are asked for one by one.
        if self.hold.is_none()
            && let Some(hold) = budget.try_reserve(ROOM as u64)
            && let Ok(room) = fallible::room_for(ROOM, "cannot keep encoded chunks")
        {
            (self.bytes, self.hold) = (room, Some(hold));
        }
        self.hold.is_some()
    }

    /// Adds one that it takes: there is room.
    pub(super) fn add(&mut self, to: &PutTo, chunk: StoredChunk, bytes: &[u8]) {
        self.token = to.token;
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
        self.before.push(to.before);
        self.chunks.push(chunk);
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }

    /// What is to be asked for.
    pub(super) fn asked(&self) -> Vec<StoredChunk> {
        self.chunks.clone()
    }

    /// The chunks, what they are now, and their bytes.
    pub(super) fn each(&self) -> impl Iterator<Item = (StoredChunk, Option<ChunkEntry>, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let parts = starts.zip(&self.ends);
        let parts = parts.map(|(start, end)| &self.bytes[start..*end]);
        let chunks = self.chunks.iter().zip(&self.before).zip(parts);
        chunks.map(|((chunk, before), bytes)| (*chunk, *before, bytes))
    }

    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.before.clear();
        self.bytes.clear();
        self.ends.clear();
    }
}
