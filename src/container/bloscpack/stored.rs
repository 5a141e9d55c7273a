//! From a chunk's stored bytes to plain ones: the digest once, then only the blocks that are wanted.
//!
//! The first touch of a chunk reads it whole and checks its digest; later ones read the entries of the
//! table of block starts that they need and those blocks. Which chunks are known good is kept in one bit
//! each, in groups that exist where something was read. Buffers and decoders belong to the thread.
//! Used by [`super::data`] and [`super::check`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::chunks::Chunk;
use super::header::hex;
use super::layout::CHUNK_HEADER;
use super::memory::{refused, room, zeros};
use crate::codec::blosc::{BloscError, ChunkHeader, Decoder, Filter};
use crate::codec::checksum::{Checksum, Digest};
use crate::error::{Error, Fault, Result};
use crate::source::{Fetch, Source};

/// Chunks up to this size are read at once on the first touch; larger ones are hashed piece by piece.
const WHOLE: u64 = 4 << 20;
/// Size of such a piece.
const PIECE: usize = 1 << 20;
/// Chunks up to this size are always read whole: one read instead of two.
const SMALL: u64 = 32 << 10;
/// Plain size from which a block's buffers are not kept for the next.
const HUGE: usize = 4 << 20;

/// Locks that keep threads from checking the same chunk at once.
const GATES: usize = 16;

pub(super) struct Stored {
    source: Arc<dyn Source>,
    checksum: Checksum,
    /// A bit for each chunk whose digest was seen to be right, 512 to a group.
    good: Mutex<HashMap<u64, [u64; 8]>>,
    /// The last chunks found bad: a large one is not hashed again for each of its blocks.
    bad: Mutex<LruCache<u64, Fault>>,
    gates: [Mutex<()>; GATES],
}

/// Bad chunks remembered.
const BAD: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// What a thread keeps from decode to decode.
#[derive(Default)]
struct Work {
    stored: Vec<u8>,
    decoder: Decoder,
}

thread_local! {
    static WORK: RefCell<Work> = RefCell::default();
}

/// The wanted part of a chunk.
pub(super) struct Part {
    /// Plain bytes within the chunk ...
    pub(super) plain: Range<u64>,
    /// ... and the Blosc blocks that hold exactly these; of no meaning if the chunk is memcpyed.
    pub(super) blocks: Range<u32>,
}

impl Stored {
    pub(super) fn new(source: Arc<dyn Source>, checksum: Checksum) -> Self {
        let gates = std::array::from_fn(|_| Mutex::default());
        let bad = Mutex::new(LruCache::new(BAD));
        Stored {
            source,
            checksum,
            good: Mutex::default(),
            bad,
            gates,
        }
    }

    /// Decodes a part of a chunk.
    pub(super) fn decode(&self, chunk: &Chunk, part: &Part, out: &mut [u8]) -> Result<()> {
        if out.len() >= HUGE {
            return self.decode_with(&mut Work::default(), chunk, part, out);
        }
        WORK.with_borrow_mut(|work| {
            let outcome = self.decode_with(work, chunk, part, out);
            if work.stored.len() > WHOLE as usize + 64 {
                work.stored = Vec::new();
            }
            outcome
        })
    }

    fn decode_with(
        &self,
        work: &mut Work,
        chunk: &Chunk,
        part: &Part,
        out: &mut [u8],
    ) -> Result<()> {
        if self.check_with(&mut work.stored, chunk)? {
            return decode_whole(work, chunk, part, out);
        }
        if chunk.header.memcpyed() {
            return self
                .source
                .fetch_one(chunk.at + CHUNK_HEADER + part.plain.start, out);
        }
        let stored = u64::from(chunk.header.ctbytes());
        if stored <= SMALL {
            self.source
                .fetch_one(chunk.at, room(&mut work.stored, stored as usize)?)?;
            return decode_whole(work, chunk, part, out);
        }
        let starts = self.read_starts(chunk, &part.blocks)?;
        let spans = spans(chunk, &part.blocks, &starts)?;
        let places = self.read_spans(&mut work.stored, chunk, &spans)?;
        let Work { stored, decoder } = work;
        decode_blocks(decoder, chunk, &part.blocks, &places, stored, out)
    }

    /// Checks the digest of a chunk, unless that has been done.
    pub(super) fn check(&self, chunk: &Chunk) -> Result<()> {
        self.check_with(&mut Vec::new(), chunk).map(|_| ())
    }

    /// The same; true if `stored` then begins with the whole chunk.
    fn check_with(&self, stored: &mut Vec<u8>, chunk: &Chunk) -> Result<bool> {
        if self.checksum == Checksum::None || self.is_good(chunk.number) {
            return Ok(false);
        }
        let _alone = lock(&self.gates[(chunk.number % GATES as u64) as usize]);
        if self.is_good(chunk.number) {
            return Ok(false);
        }
        if let Some(fault) = lock(&self.bad).get(&chunk.number) {
            return Err(fault.clone().into());
        }
        let (found, digest) = self.digests(stored, chunk)?;
        if found.as_bytes() != digest {
            let fault = Fault::new(format!("{} mismatch", self.checksum.name()))
                .block(chunk.number)
                .bytes(chunk.stored())
                .expected(hex(&digest))
                .found(hex(found.as_bytes()));
            lock(&self.bad).put(chunk.number, fault.clone());
            return Err(fault.into());
        }
        self.set_good(chunk.number);
        Ok(u64::from(chunk.header.ctbytes()) <= WHOLE)
    }

    /// The digest that a chunk has and the one that it should have.
    fn digests(&self, stored: &mut Vec<u8>, chunk: &Chunk) -> Result<(Digest, Vec<u8>)> {
        let (len, digest_len) = (chunk.header.ctbytes() as usize, self.checksum.digest_len());
        if len as u64 <= WHOLE {
            let both = room(stored, len + digest_len)?;
            self.source.fetch_one(chunk.at, both)?;
            let (whole, digest) = both.split_at(len);
            return Ok((self.checksum.digest(whole), digest.to_vec()));
        }
        let mut digest = vec![0; digest_len];
        self.source.fetch_one(chunk.stored().end, &mut digest)?;
        Ok((self.hash(stored, chunk.stored())?, digest))
    }

    /// Hashes stored bytes without holding them.
    fn hash(&self, buf: &mut Vec<u8>, bytes: Range<u64>) -> Result<Digest> {
        let mut hasher = self.checksum.hasher();
        let mut at = bytes.start;
        while at < bytes.end {
            let piece = room(buf, (bytes.end - at).min(PIECE as u64) as usize)?;
            self.source.fetch_one(at, piece)?;
            hasher.update(piece);
            at += piece.len() as u64;
        }
        Ok(hasher.finish())
    }

    fn is_good(&self, number: u64) -> bool {
        lock(&self.good).get(&(number / 512)).is_some_and(|group| {
            let bit = (number % 512) as usize;
            group[bit / 64] & 1 << (bit % 64) != 0
        })
    }

    fn set_good(&self, number: u64) {
        let mut good = lock(&self.good);
        let group = good.entry(number / 512).or_default();
        let bit = (number % 512) as usize;
        group[bit / 64] |= 1 << (bit % 64);
    }

    /// The starts of some blocks, and of the one behind them if there is one.
    fn read_starts(&self, chunk: &Chunk, blocks: &Range<u32>) -> Result<Vec<u32>> {
        let table = table_of(chunk, blocks);
        let mut bytes = zeros(table.len())?;
        self.source
            .fetch_one(chunk.at + table.start as u64, &mut bytes)?;
        Ok(read_u32s(&bytes))
    }

    /// Reads the spans of a chunk: all at once if they lie together. Yields where each is in `stored`.
    fn read_spans(
        &self,
        stored: &mut Vec<u8>,
        chunk: &Chunk,
        spans: &[Range<usize>],
    ) -> Result<Vec<Range<usize>>> {
        let low = spans.iter().map(|span| span.start).min().unwrap_or(0);
        let high = spans.iter().map(|span| span.end).max().unwrap_or(0);
        let sum: usize = spans.iter().map(Range::len).sum();
        if high - low <= sum {
            self.source
                .fetch_one(chunk.at + low as u64, room(stored, high - low)?)?;
            return Ok(spans
                .iter()
                .map(|span| span.start - low..span.end - low)
                .collect());
        }
        let mut rest = room(stored, sum)?;
        let (mut ranges, mut places, mut place) = (Vec::new(), Vec::new(), 0);
        for span in spans {
            let (buf, behind) = rest.split_at_mut(span.len());
            ranges.push(Fetch {
                offset: chunk.at + span.start as u64,
                buf,
            });
            places.push(place..place + span.len());
            place += span.len();
            rest = behind;
        }
        self.source.fetch(&mut ranges)?;
        Ok(places)
    }
}

/// Memory for decoding a block of `plain` bytes of a chunk, beside its output.
pub(super) fn scratch(header: &ChunkHeader, plain: u64) -> u64 {
    let whole = u64::from(header.ctbytes());
    let stored = if whole <= WHOLE {
        whole
    } else {
        whole.min(most_stored(plain as usize) as u64)
    };
    // What the filter is undone from, and bit shuffle's tile.
    stored
        + match header.filter() {
            Filter::None => 0,
            Filter::Shuffle => plain + GAPS,
            Filter::Bitshuffle => 2 * plain + GAPS,
        }
}

/// Room between and behind the planes of a shuffled block, at most.
const GAPS: u64 = 8 << 10;

/// Most that a thread keeps for its next decode, beside the budget.
const KEPT: u64 = 4 << 20;

/// Frees the buffers of a large decode: they were counted against the budget only while it ran.
pub(super) fn give_back(header: &ChunkHeader, plain: u64) {
    if scratch(header, plain) > KEPT {
        WORK.with_borrow_mut(|work| *work = Work::default());
    }
}

/// Decodes from a chunk that is wholly at the beginning of the buffer.
fn decode_whole(work: &mut Work, chunk: &Chunk, part: &Part, out: &mut [u8]) -> Result<()> {
    let Work { stored, decoder } = work;
    let whole = &stored[..chunk.header.ctbytes() as usize];
    if chunk.header.memcpyed() {
        let from = ChunkHeader::LEN + part.plain.start as usize;
        return match whole.get(from..from + out.len()) {
            Some(plain) => {
                out.copy_from_slice(plain);
                Ok(())
            }
            None => Err(Fault::new("the chunk is too short")
                .block(chunk.number)
                .into()),
        };
    }
    // The header's checks found room for the table.
    let starts = read_u32s(&whole[table_of(chunk, &part.blocks)]);
    let spans = spans(chunk, &part.blocks, &starts)?;
    decode_blocks(decoder, chunk, &part.blocks, &spans, whole, out)
}

/// Where in the chunk the starts of some blocks are, with that of the block behind them.
fn table_of(chunk: &Chunk, blocks: &Range<u32>) -> Range<usize> {
    let table = chunk.header.bstarts_range();
    let at = |block: u32| table.start as usize + 4 * block as usize;
    at(blocks.start)..at(blocks.end.saturating_add(1)).min(table.end as usize)
}

fn read_u32s(bytes: &[u8]) -> Vec<u32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers
        .iter()
        .map(|number| u32::from_le_bytes(*number))
        .collect()
}

/// Stored bytes that a block of `plain` bytes has at most, whatever its codec: streams that would grow
/// are stored raw, and Snappy's may be a sixth longer. Bounds what is read for one block.
fn most_stored(plain: usize) -> usize {
    2 * plain + 128
}

/// Stored bytes of each block, within the chunk: from its start on, at least to its end. Blocks may lie in
/// any order, so the next one is a bound only if it lies behind.
fn spans(chunk: &Chunk, blocks: &Range<u32>, starts: &[u32]) -> Result<Vec<Range<usize>>> {
    let header = &chunk.header;
    let (least, end) = (header.bstarts_range().end, header.ctbytes());
    let span = |(block, &start): (u32, &u32)| {
        if !(least..end).contains(&start) {
            return Err(
                Fault::new(format!("Blosc block {block} begins outside its chunk"))
                    .block(chunk.number)
                    .bytes(chunk.stored())
                    .expected(format_args!("{least} to {}", end - 1))
                    .found(start)
                    .into(),
            );
        }
        let plain = header.block_range(block).len();
        let most = (start as usize)
            .saturating_add(most_stored(plain))
            .min(end as usize);
        let next = starts.get((block - blocks.start) as usize + 1);
        let next = next
            .filter(|&&next| next > start)
            .map_or(most, |&next| next as usize);
        Ok(start as usize..most.min(next))
    };
    blocks.clone().zip(starts).map(span).collect()
}

/// Decodes blocks whose stored bytes are in `stored` at `places`.
fn decode_blocks(
    decoder: &mut Decoder,
    chunk: &Chunk,
    blocks: &Range<u32>,
    places: &[Range<usize>],
    stored: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let mut rest = out;
    for (block, place) in blocks.clone().zip(places) {
        let len = chunk.header.block_range(block).len().min(rest.len());
        let (part, behind) = rest.split_at_mut(len);
        decoder
            .decode_block(&chunk.header, block, &stored[place.clone()], part)
            .map_err(|e| failed(chunk, e))?;
        rest = behind;
    }
    if rest.is_empty() {
        return Ok(());
    }
    Err(Fault::new("the chunk has too few blocks")
        .block(chunk.number)
        .into())
}

/// Refused memory says nothing about the chunk.
fn failed(chunk: &Chunk, error: BloscError) -> Error {
    match error {
        BloscError::NoMemory { bytes } => refused(bytes),
        damage => Fault::new(damage.to_string())
            .block(chunk.number)
            .bytes(chunk.stored())
            .into(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
