//! A file that is written as it comes: full chunks go behind those that are stored, each as soon as
//! it is encoded.
//!
//! That is what most programs do, and the fastest way: chunks are encoded by all cores while those
//! before are written, nothing is copied, and the disk begins at once. It is taken where nothing
//! that is stored changes; else [`super::merge`] says what is to be done. Assumes that the caller
//! holds [`ScratchFile::io`]. Uses [`super::snapshot`] and [`super::at_rest`]; used by
//! [`super::flush`].

use super::base::{ENTRY, StoredChunks};
use super::encode::{ChunkEncoder, ChunkSlack, EncodeSpace};
use super::file::{ScratchFile, StoredState};
use super::mark::{MARK_LEN, TailMark};
use super::snapshot::FlushSnapshot;
use super::tail::put_all;
use crate::error::Result;
use crate::pipeline;

/// Of fewer bytes the disk need not hear before it is asked to sync them.
const BEGUN: u64 = 4 << 20;

impl ScratchFile {
    /// Writes the chunks of a snapshot behind the stored ones; false if that does not do.
    pub(super) fn append(&self, io: &mut StoredState, snapshot: &FlushSnapshot) -> Result<bool> {
        let Some(mut new) = self.appended(io, snapshot)? else {
            return Ok(false);
        };
        let (writer, first) = (self.writer()?, new.chunks());
        (io.rest, io.is_on_disk) = (None, false);
        let (start, size) = (new.end(), new.form.chunk_size as usize);
        let encoder =
            ChunkEncoder::choose(snapshot.sample(), &self.shared.options, new.form.checksum);
        let chunks = &snapshot.chunks;
        let written = pipeline::in_order(
            EncodeSpace::for_threads(chunks.len()),
            chunks.len(),
            |space: &mut EncodeSpace, job| {
                // What is written now may be written over later.
                snapshot.encode(job, &encoder, ChunkSlack::Spare, space)
            },
            |job, space, len| {
                self.shared.note_encoded(size, len);
                let at = new.end();
                new.places.push(len as u32)?;
                if job + 1 < chunks.len() {
                    return put_all(writer, at, space.encoded(len));
                }
                (new.last, new.said_size) = (new.form.chunk_size, new.form.chunk_size);
                let rest = self.rest_of(&new, self.shared.epoch())?;
                // The disk has both or, at the end of a sector, neither.
                let mark = TailMark::Rest(rest).bytes();
                put_all(writer, at, space.encoded_with(len, &mark)?)?;
                self.note_rest(io, new.end(), rest);
                Ok(())
            },
        );
        written?;
        let places = new.places.starts(first..new.chunks());
        let places: Vec<u8> = places.flat_map(u64::to_le_bytes).collect();
        put_all(writer, new.table + first * ENTRY, &places)?;
        put_all(writer, 0, &new.header())?;
        if new.end() - start >= BEGUN {
            writer.begin_writeback(start..new.end());
        }
        self.publish(&mut self.change(), snapshot, new);
        Ok(true)
    }

    /// What is stored, to be lengthened: if all chunks of the snapshot come behind it, are full,
    /// and the table has room for them.
    fn appended(&self, io: &StoredState, snapshot: &FlushSnapshot) -> Result<Option<StoredChunks>> {
        let content = self.read();
        let stored = &content.stored;
        let (first, size) = (stored.chunks(), stored.form.chunk_size as usize);
        let numbers = snapshot.chunks.iter().map(|(number, _, _)| *number);
        let follows = numbers.eq(first..first + snapshot.chunks.len() as u64);
        let are_full = snapshot.chunks.iter().all(|(_, plain, _)| *plain == size);
        let count = snapshot.chunks.len() as u64;
        let fits = !io.is_synced
            && first > 0
            && count > 0
            && snapshot.len == (first + count) * size as u64
            && snapshot.valid == first
            && stored.last == stored.form.chunk_size
            && first + snapshot.chunks.len() as u64 <= stored.entries;
        let is_at_rest = io.log.is_none() && io.len <= stored.end() + MARK_LEN;
        if !(fits && follows && are_full && is_at_rest) {
            return Ok(None);
        }
        let mut new = stored.clone_without_places();
        new.places = stored.places.copy()?;
        Ok(Some(new))
    }
}
