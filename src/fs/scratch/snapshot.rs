//! What is to be stored of a file, as it was at one moment, and its chunks encoded.
//!
//! Programs go on writing while it is encoded: what a snapshot holds does not change any more. Uses
//! [`super::file`]; used by [`super::flush`], and by the two ways in which that writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::base::{StoredChunks, read_all};
use super::bytes::HeldBytes;
use super::content::{FileContent, HeldChunk};
use super::encode::{ChunkEncoder, ChunkSlack, EncodeSpace, encoded_zeros};
use super::file::{ScratchFile, StoredState};
use super::merge::{MergeOrder, NewChunk};
use crate::error::Result;
use crate::memory::fallible;
use crate::pipeline;

/// How much of a file is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushExtent {
    All,
    /// All that has changed; the times are left to the sync that is to follow.
    BeforeSync,
    /// All that has changed, unless that moves very much: then a log is enough for now.
    IfCheap,
    /// Chunks that are full: the program is still writing.
    FullChunks,
}

impl FlushExtent {
    /// For a file that is being written.
    pub(super) fn of_writer(file: &ScratchFile) -> FlushExtent {
        match file.streams.load(Ordering::Relaxed) {
            true => FlushExtent::FullChunks,
            false => FlushExtent::All,
        }
    }
}

/// What is to be stored, as it was at one moment.
pub(super) struct FlushSnapshot {
    pub(super) len: u64,
    pub(super) valid: u64,
    pub(super) chunks: Vec<(u64, usize, HeldChunk)>,
    drops_metadata: bool,
    /// Of the content before.
    pub(super) least_len: u64,
}

impl FlushSnapshot {
    /// A chunk by which it is found out how all are best encoded.
    pub(super) fn sample(&self) -> &[u8] {
        let chunks = self.chunks.iter().map(|(_, _, held)| &held.bytes[..]);
        chunks.max_by_key(|bytes| bytes.len()).unwrap_or(&[])
    }

    /// Leaves one of its chunks, encoded, at the start of the space; says how long that is.
    pub(super) fn encode(
        &self,
        job: usize,
        encoder: &ChunkEncoder,
        slack: ChunkSlack,
        space: &mut EncodeSpace,
    ) -> Result<usize> {
        let (_, plain, held) = &self.chunks[job];
        let held = &held.bytes;
        match held.encoded() {
            // It has been made longer, or shorter, than what is held of it.
            _ if held.len() != *plain => {
                let mut bytes = fallible::zeros(*plain as u64, "cannot encode a chunk")?;
                let n = held.len().min(*plain);
                bytes[..n].copy_from_slice(&held[..n]);
                encoder.encode(&bytes, slack, space)
            }
            Some(known) => space.take(known),
            None => encoder.encode(held, slack, space),
        }
    }
}

impl ScratchFile {
    /// Takes what a flush of this extent stores; none if there is nothing.
    pub(super) fn snapshot(
        &self,
        extent: FlushExtent,
        io: &StoredState,
    ) -> Result<Option<FlushSnapshot>> {
        let mut content = self.change();
        let size = content.chunk_size();
        let full = content.len / size;
        // What is stored beyond full chunks would have to be kept apart, and so what a log has.
        let is_apart = io.is_synced || content.stored.len() > full * size;
        let (len, chunks) = match extent {
            FlushExtent::FullChunks if !is_apart => (full * size, full),
            _ => (content.len, content.chunks()),
        };
        let is_new = content.stored.chunks() == 0 && io.len == 0;
        if chunks == 0 || !content.differs() && !is_new {
            return Ok(None);
        }
        let valid = content.valid.min(chunks);
        let plain = |number: u64| (len - (number * size).min(len)).min(size) as usize;
        let mut wanted: BTreeMap<u64, HeldChunk> = content
            .held()
            .range(..chunks)
            .map(|(number, held)| (*number, held.clone()))
            .collect();
        let ends = [valid.checked_sub(1), Some(chunks - 1)];
        for number in ends.into_iter().flatten() {
            let stored = match number < valid {
                true => content.stored.plain(number),
                false => size as usize,
            };
            if plain(number) != stored && !wanted.contains_key(&number) {
                wanted.insert(number, self.unheld(&content, number)?);
            }
        }
        let chunks = wanted
            .into_iter()
            .map(|(number, held)| (number, plain(number), held));
        let snapshot = FlushSnapshot {
            len,
            valid,
            chunks: chunks.collect(),
            drops_metadata: content.stored.describes_array && len != content.stored.len(),
            least_len: content.least_len,
        };
        (content.cut, content.least_len) = (u64::MAX, u64::MAX);
        Ok(Some(snapshot))
    }

    /// A chunk of which the length alone changes.
    fn unheld(&self, content: &FileContent, number: u64) -> Result<HeldChunk> {
        let has = match number < content.valid {
            true => content.stored.plain(number),
            false => 0,
        };
        let mut bytes = fallible::zeros(has as u64, "cannot store a file")?;
        if has > 0 {
            let read = self.read_chunk(&content.stored, number, 0, &mut bytes);
            read.map_err(|e| e.of_container(&self.path))?;
        }
        Ok(HeldChunk {
            bytes: Arc::new(HeldBytes::of(bytes)),
            edition: 0,
            unlogged: 0..0,
            changed: 0..content.stored.form.chunk_size as usize,
        })
    }

    pub(super) fn encode(&self, snapshot: &FlushSnapshot) -> Result<MergeOrder> {
        let form = self.read().form();
        let (checksum, size) = (form.checksum, form.chunk_size as usize);
        let encoder = ChunkEncoder::choose(snapshot.sample(), &self.shared.options, checksum);
        let (mut encoded, mut patches) = (BTreeMap::new(), BTreeMap::new());
        let chunks = &snapshot.chunks;
        let all = snapshot.len.div_ceil(size as u64).max(1);
        pipeline::in_order(
            EncodeSpace::for_threads(chunks.len()),
            chunks.len(),
            |space: &mut EncodeSpace, job| {
                let (number, plain, _) = &chunks[job];
                let is_first = *number >= snapshot.valid;
                let slack = match is_first && *plain == size && number + 1 < all {
                    true => ChunkSlack::Spare,
                    false => ChunkSlack::None,
                };
                let len = snapshot.encode(job, &encoder, slack, space)?;
                fallible::copy(space.encoded(len), "cannot store a chunk")
            },
            |job, _, bytes: Vec<u8>| {
                let (number, plain, held) = &chunks[job];
                self.shared.note_encoded(*plain, bytes.len());
                if *number < snapshot.valid && self.is_stored_plain(*number, &bytes)? {
                    patches.insert(*number, held.changed.clone());
                }
                encoded.insert(*number, NewChunk::Encoded(bytes));
                Ok(())
            },
        )?;
        let beyond = encoded.range(snapshot.valid..).count() as u64;
        let zeros = match snapshot.valid + beyond < all {
            true => encoded_zeros(size, checksum)?,
            false => Vec::new(),
        };
        Ok(MergeOrder {
            typesize: encoder.typesize(),
            len: snapshot.len,
            valid: snapshot.valid,
            encoded,
            patches,
            zeroed: Vec::new(),
            zeros: Arc::new(zeros),
            drops_metadata: snapshot.drops_metadata,
            is_for_readers: false,
        })
    }

    /// What was flushed is stored from now on.
    pub(super) fn publish(
        &self,
        content: &mut FileContent,
        snapshot: &FlushSnapshot,
        stored: StoredChunks,
    ) {
        let before = content.held_bytes();
        for (number, _, flushed) in &snapshot.chunks {
            self.forget_chunk(*number);
            content.let_go(*number, flushed.edition);
        }
        for number in snapshot.valid..content.stored.chunks() {
            self.forget_chunk(number);
        }
        self.charge_places(&stored);
        content.stored = stored;
        content.valid = content.stored.chunks().min(content.cut);
        content.note_stored();
        let now = content.held_bytes();
        self.shared.charge(now as i64 - before as i64);
    }
    /// Whether a chunk is stored as it is, and is to be so again: then a part of it can be changed.
    fn is_stored_plain(&self, number: u64, encoded: &[u8]) -> Result<bool> {
        const PLAIN: u8 = 0x02;
        let slot = self.read().stored.slot(number);
        let Some((at, _)) = slot.filter(|(_, len)| *len == encoded.len() as u64) else {
            return Ok(false);
        };
        let Some(new) = encoded
            .first_chunk()
            .filter(|new: &&[u8; 16]| new[2] & PLAIN != 0)
        else {
            return Ok(false);
        };
        let mut old = [0; 16];
        read_all(&*self.reader, at, &mut old)?;
        Ok(old == *new)
    }
}
