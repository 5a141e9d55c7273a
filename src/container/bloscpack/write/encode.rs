//! A chunk with its changes, encoded as it was before, or as the chunks beside it are.
//!
//! Where a chunk is to stay in its place and has become larger, it is tried at its codec's highest level; where it has become
//! smaller, the rest of its place is slack within its stated size. Memory for all of it is reserved once. Used by
//! [`super::recipe`].

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::recipe::Plan;
use crate::array::uncached::{DecodeMemory, lent_for, read_into};
use crate::codec::blosc::encode::{ChunkPlan, ChunkSettings, Compressor, EncodeError, Encoder};
use crate::codec::blosc::{ChunkHeader, Codec, Filter};
use crate::container::bloscpack::chunks::FoundChunk;
use crate::container::rewrite::CommitWay;
use crate::error::{Error, Result};
use crate::memory::block::Workspace;
use crate::memory::budget::{Budget, Hold};
use crate::memory::{fallible, no_memory, room};

/// Most bytes that are looked at to tell how a chunk was written.
const FIRST: u64 = 64 << 10;

/// An encoded chunk of zeros that is longer than this was not worth encoding.
const LONGEST_ZEROS: usize = 64 << 10;

static ZEROS: [u8; 4 << 10] = [0; 4 << 10];

/// What is encoded ahead takes no more of the budget at a time than one of so many parts.
const SPARE_PART: u64 = 16;

pub(super) struct ChunkEncoder<'a> {
    plan: &'a Plan<'a>,
    /// So many encode one chunk together.
    threads: usize,
    /// The first chunk of zeros: the others are most likely the same, and there may be very many.
    zeros: OnceLock<ZeroChunk>,
}

/// A chunk of zeros and its digest, and what they were made of.
struct ZeroChunk {
    settings: ChunkSettings,
    plain: usize,
    encoded: Vec<u8>,
}

/// Where in a worker's space a chunk and its digest lie: so many bytes from the start.
pub(super) struct EncodedChunk {
    len: usize,
}

/// What chunks take while they are encoded.
#[derive(Default)]
struct EncodeNeeds {
    /// Of the chunk and its digest.
    out: u64,
    scratch: u64,
}

impl EncodeNeeds {
    fn each(&self) -> u64 {
        self.out.saturating_add(self.scratch)
    }
}

impl<'a> ChunkEncoder<'a> {
    pub(super) fn new(plan: &'a Plan<'a>) -> Self {
        ChunkEncoder {
            plan,
            threads: 1,
            zeros: OnceLock::new(),
        }
    }

    /// One for each chunk at a time: as many as there are cores, jobs, and memory for. Cores that are left help with the
    /// blocks of each, if there is memory for that.
    pub(super) fn spaces(&mut self, jobs: usize, budget: &Arc<Budget>) -> Result<Vec<Workspace>> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let mut needed = self.needed()?;
        let affordable = budget.limit() / 2 / needed.each().max(1);
        let affordable = usize::try_from(affordable).unwrap_or(cores);
        let most = cores.min(jobs).min(affordable).max(1);
        let (mut hold, chunks) = match self.helped(cores / most, most, budget)? {
            Some((more, hold)) => {
                needed = more;
                (hold, most)
            }
            None => memory_for(budget, needed.each(), most),
        };
        let space = |_| {
            let charge = hold.split(needed.each());
            Workspace::new(needed.out, needed.scratch, charge, needed.out)
        };
        (0..chunks).map(space).collect()
    }

    /// What `most` chunks take that so many threads each work on, if there is something for them to do and memory for it.
    fn helped(
        &mut self,
        threads: usize,
        most: usize,
        budget: &Arc<Budget>,
    ) -> Result<Option<(EncodeNeeds, Hold)>> {
        if threads < 2 {
            return Ok(None);
        }
        self.threads = threads;
        let needed = self.needed()?;
        let all = needed.each().saturating_mul(most as u64);
        let hold = match all <= budget.limit() / 2 {
            true => budget.try_reserve(all),
            false => None,
        };
        if hold.is_none() {
            self.threads = 1;
        }
        Ok(hold.map(|hold| (needed, hold)))
    }

    /// One, if there is memory for it, so much that nobody would miss it.
    pub(super) fn space_now(&self, budget: &Arc<Budget>) -> Result<Option<Workspace>> {
        let needed = self.needed()?;
        let each = needed.each();
        let space = |hold| Workspace::new(needed.out, needed.scratch, hold, needed.out);
        if each > budget.limit() / SPARE_PART {
            return Ok(None);
        }
        budget.try_reserve(each).map(space).transpose()
    }

    fn needed(&self) -> Result<EncodeNeeds> {
        let mut most = EncodeNeeds::default();
        let digest = self.plan.file.header.checksum.digest_len() as u64;
        let mut before = None;
        for number in self.plan.dirty.iter() {
            let plain = self.plan.new.plain(number);
            let len = plain.end - plain.start;
            let stored = self.stored(number)?;
            let decode = lent_for(&*self.plan.changed.shown, plain)?;
            let like = (stored.map(|chunk| chunk.header), len, decode);
            // Most chunks are like the one before, and there may be millions.
            if before != Some(like) {
                let settings = self.settings(stored)?;
                let nbytes = size(len)?;
                let chunk = ChunkPlan::new(&settings, nbytes).map_err(failed)?;
                let encode = settings
                    .scratch_within(nbytes, self.threads)
                    .map_err(failed)? as u64;
                let highest = ChunkPlan::new(&settings.highest(), nbytes).map_err(failed)?;
                let out = chunk.most().max(highest.most()) as u64;
                most.out = most.out.max(out.max(place_of(stored)) + digest);
                let scratch = room(len).saturating_add(decode.max(room(encode)));
                most.scratch = most.scratch.max(scratch);
                before = Some(like);
            }
        }
        Ok(most)
    }

    /// Encodes a chunk to the start of a space.
    pub(super) fn encode(&self, number: u64, space: &mut Workspace) -> Result<EncodedChunk> {
        let plain = self.plan.new.plain(number);
        let (out, mut scratch) = space.parts();
        if let Some(ahead) = self.ahead(number, &plain, out) {
            return Ok(ahead);
        }
        let stored = self.stored(number)?;
        let settings = self.settings(stored)?;
        let bytes = scratch.take(plain.end - plain.start)?;
        let memory = DecodeMemory::Lent(scratch.lend());
        read_into(&*self.plan.changed.shown, plain.start, bytes, memory)?;
        let nbytes = bytes.len();
        let place = stored.filter(|_| self.stays(number));
        let are_zeros = place.is_none() && are_zeros(bytes);
        if let Some(known) = are_zeros
            .then(|| self.known_zeros(&settings, nbytes))
            .flatten()
        {
            out[..known.len()].copy_from_slice(known);
            return Ok(EncodedChunk { len: known.len() });
        }
        let work = settings
            .scratch_within(nbytes, self.threads)
            .map_err(failed)?;
        let work = scratch.take(work as u64)?;
        let threads = self.threads;
        let len = Encoder::lend(|encoder| match place {
            None => encoder.chunk(&settings, bytes, out, work, threads),
            Some(_) => {
                let place = place_of(place) as usize;
                match encoder.chunk_within(&settings, bytes, &mut out[..place], work, threads)? {
                    true => Ok(place),
                    false => encoder.chunk(&settings.highest(), bytes, out, work, threads),
                }
            }
        });
        let len = len.map_err(failed)?;
        let digest = self.plan.file.header.checksum.digest(&out[..len]);
        let digest = digest.as_bytes();
        out[len..][..digest.len()].copy_from_slice(digest);
        let len = len + digest.len();
        if are_zeros && len <= LONGEST_ZEROS {
            let encoded = fallible::copy(&out[..len], "cannot keep a chunk of zeros")?;
            let _ = self.zeros.set(ZeroChunk {
                settings,
                plain: nbytes,
                encoded,
            });
        }
        Ok(EncodedChunk { len })
    }

    fn known_zeros(&self, settings: &ChunkSettings, plain: usize) -> Option<&[u8]> {
        let zeros = self.zeros.get()?;
        let is_same = zeros.plain == plain && zeros.settings == *settings;
        is_same.then_some(&zeros.encoded[..])
    }

    /// The chunk and its digest, if it was encoded ahead, and not for a place that it has to fit.
    fn ahead(&self, number: u64, plain: &Range<u64>, out: &mut [u8]) -> Option<EncodedChunk> {
        let ahead = self.plan.changed.ahead.as_ref()?;
        if self.stays(number) {
            return None;
        }
        let mut len = None;
        ahead.take(plain, &mut |bytes| {
            if let Some(place) = out.get_mut(..bytes.len()) {
                place.copy_from_slice(bytes);
                len = Some(bytes.len());
            }
        });
        len.map(|len| EncodedChunk { len })
    }

    pub(super) fn bytes<'s>(
        &self,
        space: &'s mut Workspace,
        encoded: &EncodedChunk,
    ) -> Result<&'s [u8]> {
        let (out, _) = space.parts();
        out.get(..encoded.len)
            .ok_or_else(|| Error::Bug("a chunk is longer than its space".into()))
    }

    /// Whether a chunk is best encoded to what it takes now.
    fn stays(&self, number: u64) -> bool {
        self.plan.way == CommitWay::InPlace && self.plan.keeps_its_place(number)
    }

    /// The chunk as it is stored, if it is there.
    fn stored(&self, number: u64) -> Result<Option<FoundChunk>> {
        match number < self.plan.old.chunks {
            true => self.plan.stored(number).map(Some),
            false => Ok(None),
        }
    }

    /// Those of the chunk, or of the last one, if only of a chunk of nothing; what the real program takes if there is none.
    fn settings(&self, stored: Option<FoundChunk>) -> Result<ChunkSettings> {
        let like = match (stored, self.plan.old.chunks.checked_sub(1)) {
            (Some(stored), _) => Some(stored),
            (None, Some(last)) => Some(self.plan.stored(last)?),
            (None, None) => None,
        };
        let typesize = self.plan.file.header.typesize.max(1);
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

    /// Stored bytes that tell more of how the chunk was written: of zlib alone there are any.
    fn first_bytes(&self, chunk: &FoundChunk) -> Result<Vec<u8>> {
        let header = &chunk.header;
        if header.codec() != Codec::Zlib || header.memcpyed() {
            return Ok(Vec::new());
        }
        let streams = u64::from(header.bstarts_range().end) + 8;
        let len = streams.min(header.ctbytes().into()).min(FIRST);
        let mut first = fallible::zeros(len, "cannot look at a chunk")?;
        self.plan.file.data.source.fetch_one(chunk.at, &mut first)?;
        Ok(first)
    }
}

/// Memory for `most` chunks at a time if there is as much, at least for one. Never waited for: what is staged takes memory that is
/// only given back by this commit, when the disk is full.
fn memory_for(budget: &Arc<Budget>, each: u64, most: usize) -> (Hold, usize) {
    let all = budget.try_reserve(each.saturating_mul(most as u64));
    let one = |hold| (hold, 1);
    match all {
        Some(hold) => (hold, most),
        None => one(budget
            .try_reserve(each)
            .unwrap_or_else(|| budget.keep_built(each))),
    }
}

fn are_zeros(bytes: &[u8]) -> bool {
    let mut parts = bytes.chunks(ZEROS.len());
    parts.all(|part| part == &ZEROS[..part.len()])
}

fn place_of(stored: Option<FoundChunk>) -> u64 {
    stored.map_or(0, |chunk| u64::from(ChunkHeader::ctbytes(&chunk.header)))
}

fn size(len: u64) -> Result<usize> {
    usize::try_from(len).map_err(|_| no_memory("cannot encode a chunk"))
}

pub(super) fn failed(e: EncodeError) -> Error {
    match e {
        EncodeError::NoContext => no_memory("cannot encode a chunk"),
        other => Error::Bug(format!("cannot encode a chunk: {other}")),
    }
}
