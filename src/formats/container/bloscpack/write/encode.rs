//! A chunk with its changes, encoded as it was before, or as the chunks beside it are.
//!
//! Where a chunk is to stay in its place and has become larger, it is tried at its codec's highest
//! level; where it has become smaller, the rest of its place is slack within its stated size. Used
//! by [`super::recipe`].

use super::in_parts;
use super::recipe::Plan;
use crate::array::chunking::{ChunkId, Chunking};
use crate::array::uncached::lent_for;
use crate::codec::blosc::encode::{ChunkPlan, ChunkSettings, Compressor, EncodeError, Encoder};
use crate::codec::blosc::{ChunkHeader, Codec, Filter};
use crate::container::bloscpack::chunks::FoundChunk;
use crate::container::chunked_write::dirty::read_chunks;
use crate::container::chunked_write::memory::EncodeNeeds;
use crate::container::chunked_write::{Batch, ChunkedArray, PutPart};
use crate::container::writable::{CommitWay, DoneBefore};
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::{Arena, fallible, no_memory, room};
use crate::range_set::RangeSet;

/// Most bytes that are looked at to find out how a chunk was written.
const FIRST: u64 = 64 << 10;

/// How a chunk is encoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EncodeSettings {
    pub(super) chunk: ChunkSettings,
    /// What it takes now, where it is to stay in its place.
    pub(super) place: Option<usize>,
}

impl ChunkedArray for Plan<'_> {
    type Settings = EncodeSettings;

    fn chunking(&self) -> impl Chunking {
        self.new.chunking()
    }

    fn dirty(&self) -> &RangeSet {
        &self.dirty
    }

    fn needs(&self, threads: usize) -> Result<EncodeNeeds> {
        let mut most = EncodeNeeds::default();
        let mut before = None;
        for number in self.dirty.iter().flatten() {
            let plain = self.new.plain(number);
            let len = plain.end - plain.start;
            let stored = self.stored_before(number)?;
            let decode = lent_for(&*self.changed.shown, plain)?;
            let like = (stored.map(|chunk| chunk.header), len, decode);
            // Most chunks are like the one before, and there may be millions.
            if before != Some(like) {
                most = most.max(self.needs_of(stored, len, decode, threads)?);
                before = Some(like);
            }
        }
        Ok(most)
    }

    fn settings(&self, batch: &Batch) -> Result<EncodeSettings> {
        let stored = self.stored_before(batch.first())?;
        let place = stored.filter(|_| self.stays(batch.first()));
        Ok(EncodeSettings {
            chunk: self.chunk_settings(stored)?,
            place: place.map(|chunk| place_of(&chunk) as usize),
        })
    }

    fn is_known_zeros(&self, batch: &Batch) -> bool {
        let plain = self.new.plain(batch.first());
        self.changed.shown.zeros_ahead(plain.clone()) >= plain.end - plain.start
    }

    fn read(&self, batch: &Batch, plain: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        let (shown, grid) = (&*self.changed.shown, self.new.chunking());
        read_chunks(shown, &grid, batch.runs(), plain, scratch)
    }

    /// With the digest behind it.
    fn encode(
        &self,
        settings: &EncodeSettings,
        plain: &[u8],
        out: &mut [u8],
        mut scratch: Arena<'_>,
        threads: usize,
    ) -> Result<usize> {
        let (chunk, place) = (&settings.chunk, settings.place);
        let work = chunk.scratch_within(plain.len(), threads).map_err(failed)?;
        let work = scratch.take(work as u64)?;
        let len = Encoder::lend(|encoder| match place {
            None => encoder.chunk(chunk, plain, out, work, threads),
            Some(place) => {
                match encoder.chunk_within(chunk, plain, &mut out[..place], work, threads)? {
                    true => Ok(place),
                    false => encoder.chunk(&chunk.highest(), plain, out, work, threads),
                }
            }
        });
        let len = len.map_err(failed)?;
        let digest = self.file.header.checksum.digest(&out[..len]);
        let digest = digest.as_bytes();
        out[len..][..digest.len()].copy_from_slice(digest);
        Ok(len + digest.len())
    }

    fn needs_in_parts(&self) -> Result<Option<EncodeNeeds>> {
        in_parts::needs(self).map(Some)
    }

    fn encode_in_parts(
        &self,
        batch: &Batch,
        space: &mut Workspace,
        put: PutPart<'_>,
    ) -> Result<()> {
        in_parts::encode(self, batch, space, put)
    }

    /// Not for a place that it has to fit.
    fn ahead(&self, batch: &Batch) -> Option<(&dyn DoneBefore, ChunkId)> {
        let (shape, number) = (self.new.chunk_size, batch.first());
        let is_whole = self.plain_len(batch) == shape;
        let ahead = self.changed.done_before.as_deref()?;
        (is_whole && !self.stays(number)).then_some((ahead, ChunkId { shape, number }))
    }
}

impl Plan<'_> {
    /// What a chunk of so many bytes takes, and the decode of what it is made of.
    fn needs_of(
        &self,
        stored: Option<FoundChunk>,
        len: u64,
        decode: u64,
        threads: usize,
    ) -> Result<EncodeNeeds> {
        let settings = self.chunk_settings(stored)?;
        let nbytes = usize::try_from(len).map_err(|_| no_memory("cannot encode a chunk"))?;
        let most = |settings| ChunkPlan::new(settings, nbytes).map(|plan| plan.most() as u64);
        let usual = most(&settings).map_err(failed)?;
        let highest = most(&settings.highest()).map_err(failed)?;
        let place = stored.as_ref().map_or(0, place_of);
        let work = settings.scratch_within(nbytes, threads).map_err(failed)?;
        Ok(EncodeNeeds {
            plain: len,
            out: usual.max(highest).max(place) + self.file.header.checksum.digest_len() as u64,
            scratch: decode.max(room(work as u64)),
        })
    }

    /// Whether a chunk is best encoded to what it takes now.
    fn stays(&self, number: u64) -> bool {
        self.way == CommitWay::InPlace && self.keeps_its_place(number)
    }

    /// The chunk as it is stored, if it is there.
    pub(super) fn stored_before(&self, number: u64) -> Result<Option<FoundChunk>> {
        match number < self.old.chunks {
            true => self.stored(number).map(Some),
            false => Ok(None),
        }
    }

    /// Those that are known; else those of the chunk, or of the last one, if only of a chunk of
    /// nothing; what the real program takes if there is none.
    pub(super) fn chunk_settings(&self, stored: Option<FoundChunk>) -> Result<ChunkSettings> {
        if let Some(settings) = self.file.encoded_as {
            return Ok(settings);
        }
        let like = match (stored, self.old.chunks.checked_sub(1)) {
            (Some(stored), _) => Some(stored),
            (None, Some(last)) => Some(self.stored(last)?),
            (None, None) => None,
        };
        let typesize = self.file.header.typesize.max(1);
        match like {
            Some(chunk) => {
                let first = self.first_bytes(&chunk)?;
                Ok(ChunkSettings::of_chunk(&chunk.header, &first))
            }
            None => Ok(ChunkSettings::new(
                Compressor::BloscLz,
                Filter::Shuffle,
                typesize,
            )),
        }
    }

    /// Stored bytes that show more of how the chunk was written: of zlib alone there are any.
    fn first_bytes(&self, chunk: &FoundChunk) -> Result<Vec<u8>> {
        let header = &chunk.header;
        if header.codec() != Codec::Zlib || header.memcpyed() {
            return Ok(Vec::new());
        }
        let streams = u64::from(header.bstarts_range().end) + 8;
        let len = streams.min(header.ctbytes().into()).min(FIRST);
        let mut first = fallible::zeros(len, "cannot look at a chunk")?;
        self.file.data.source.fetch_one(chunk.at, &mut first)?;
        Ok(first)
    }
}

fn place_of(stored: &FoundChunk) -> u64 {
    u64::from(ChunkHeader::ctbytes(&stored.header))
}

pub(super) fn failed(e: EncodeError) -> Error {
    match e {
        EncodeError::NoContext => no_memory("cannot encode a chunk"),
        other => Error::Bug(format!("cannot encode a chunk: {other}")),
    }
}
