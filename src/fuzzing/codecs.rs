//! Decoders with any bytes, and encoders, whose bytes must come back.

use crate::codec::blosc::encode::{BlockSize, ChunkPlan, ChunkSettings, Compressor, Encoder};
use crate::codec::blosc::{ChunkHeader, Decoder, Filter};
use crate::codec::bp128::{self, Transform};
use crate::codec::filters::{FilterDescription, FilterError, Pipeline};
use crate::fuzz_input::{FuzzInput, no_bug};
use crate::memory::scratch::Region;

/// No more is decoded at once.
const MOST: usize = 4 << 20;

const TRANSFORMS: [Transform; 4] = [
    Transform::Plain,
    Transform::MinusOne,
    Transform::Delta,
    Transform::DeltaZigzag,
];

/// A chunk: as a whole, and block by block.
pub(super) fn blosc(data: &[u8]) {
    let Some(header) = data
        .first_chunk()
        .and_then(|head| ChunkHeader::parse(head).ok())
    else {
        return;
    };
    if header.nbytes() as usize > MOST || !header.plausible(data.len() as u64) {
        return;
    }
    let mut scratch = vec![0; header.scratch()];
    let mut whole = vec![1; header.nbytes() as usize];
    let mut decoder = Decoder::new();
    let decoded = decoder.decode_chunk(&header, data, &mut whole, &mut scratch);
    if decoded.is_err() || header.memcpyed() {
        return;
    }
    let table = header.bstarts_range();
    let starts = &data[table.start as usize..table.end as usize];
    for (block, start) in (0..).zip(starts.as_chunks::<4>().0) {
        let range = header.block_range(block);
        let range = range.start as usize..range.end as usize;
        let mut part = vec![2; range.len()];
        let stored = &data[u32::from_le_bytes(*start) as usize..];
        let decoded = decoder.decode_block(&header, block, stored, &mut part, &mut scratch);
        decoded.expect("a block of a chunk that was decoded");
        assert_eq!(part, whole[range]);
    }
}

/// Settings, and what is encoded with them.
pub(super) fn blosc_encode(data: &[u8]) {
    let mut input = FuzzInput(data);
    let compressor = Compressor::ALL[usize::from(input.u8()) % Compressor::ALL.len()];
    let filter = [Filter::None, Filter::Shuffle, Filter::Bitshuffle][usize::from(input.u8()) % 3];
    let settings = ChunkSettings {
        level: input.u8() % 10,
        utmost: input.u8() == 1,
        split: input.u8().is_multiple_of(2),
        block_size: match input.number::<3>() as u32 {
            0 => BlockSize::Rule,
            size => BlockSize::Explicit(size),
        },
        ..ChunkSettings::new(compressor, filter, input.u8())
    };
    // What is repeated, so that there is something to compress.
    let plain = input.0.repeat(1 + usize::from(input.u8()));
    let Ok(plan) = ChunkPlan::new(&settings, plain.len()) else {
        return;
    };
    let mut out = vec![0; plan.most()];
    let mut scratch = vec![0; plan.scratch_of(1)];
    let encoded = Encoder::new().chunk(&settings, &plain, &mut out, &mut scratch, 1);
    let len = encoded.expect("anything can be encoded");
    let chunk = &out[..len];
    let header = ChunkHeader::parse(chunk.first_chunk().expect("a header"));
    let header = header.expect("a header that was written");
    let mut scratch = vec![0; header.scratch()];
    let mut decoded = vec![0; header.nbytes() as usize];
    let done = Decoder::new().decode_chunk(&header, chunk, &mut decoded, &mut scratch);
    done.expect("a chunk that was encoded");
    assert_eq!(decoded, plain);
}

/// Packed integers, with and without vector instructions.
pub(super) fn bp128(data: &[u8]) {
    let mut input = FuzzInput(data);
    let transform = TRANSFORMS[usize::from(input.u8()) % 4];
    let cut = 4 * usize::from(input.u8() % 128);
    let mut idx = vec![input.u32()];
    for _ in 0..input.u8() % 32 {
        // Mostly as widths say, so that not all are refused.
        let step = match input.u8() {
            255 => input.u32(),
            step => 4 * u32::from(step % 33),
        };
        idx.push(idx[idx.len() - 1].wrapping_add(step));
    }
    let chunks = idx.len() - 1;
    let starts: Vec<u32> = match transform.has_starts() {
        true => (0..chunks).map(|_| input.u32()).collect(),
        false => Vec::new(),
    };
    let words = match bp128::check_index(&idx) {
        Ok(words) => input.bytes(4 * words as usize),
        Err(_) => input.0,
    };
    let len = (512 * chunks).saturating_sub(cut);
    let (mut one, mut other) = (vec![1; len], vec![2; len]);
    let fast = bp128::decode(transform, &idx, &starts, words, &mut one);
    let slow = bp128::decode_scalar(transform, &idx, &starts, words, &mut other);
    assert_eq!(fast, slow);
    if fast.is_ok() {
        assert_eq!(one, other);
    }
}

/// Integers that are packed and unpacked.
pub(super) fn bp128_encode(data: &[u8]) {
    let mut input = FuzzInput(data);
    let transform = TRANSFORMS[usize::from(input.u8()) % 4];
    let values = input.bytes(input.0.len() / 4 * 4);
    let chunks = values.len().div_ceil(512);
    let room = bp128::most_words(values.len()).expect("a few bytes");
    let encode = |encode: EncodeRun| {
        let (mut idx, mut words) = (vec![0; chunks + 1], vec![0; room]);
        let mut starts = vec![0; if transform.has_starts() { chunks } else { 0 }];
        let len = encode(transform, values, &mut idx, &mut starts, &mut words);
        words.truncate(len.expect("anything can be packed"));
        (idx, starts, words)
    };
    let fast = encode(bp128::encode);
    assert_eq!(fast, encode(bp128::encode_scalar));
    let (idx, starts, words) = fast;
    let mut out = vec![0; values.len()];
    let decoded = bp128::decode(transform, &idx, &starts, &words, &mut out);
    decoded.expect("what was packed");
    assert_eq!(out, values);
}

type EncodeRun =
    fn(Transform, &[u8], &mut [u32], &mut [u32], &mut [u8]) -> Result<usize, bp128::Bp128Error>;

/// The numbers of filters that have a decoder, and one that has none.
const FILTERS: [u32; 14] = [
    1, 2, 3, 4, 5, 6, 307, 32000, 32001, 32004, 32008, 32015, 32026, 99,
];

/// Up to four filters with their values, and the plain size of a chunk.
fn pipeline(input: &mut FuzzInput<'_>) -> (Option<Pipeline>, usize) {
    let count = input.u8() % 5;
    let filters: Vec<FilterDescription> = (0..count)
        .map(|_| FilterDescription {
            id: FILTERS[usize::from(input.u8()) % FILTERS.len()],
            values: (0..input.u8() % 24).map(|_| input.u32()).collect(),
        })
        .collect();
    let bytes = input.number::<3>() as usize % MOST;
    let pipeline = Pipeline::new(&filters, bytes).ok();
    let usable = pipeline.filter(|pipeline| pipeline.unusable(0).is_none());
    // No more than a mount would charge for so small a chunk.
    let usable = usable.filter(|pipeline| pipeline.scratch(0) <= 32 << 20);
    (usable, bytes)
}

/// A stored chunk of HDF5.
pub(super) fn filters(data: &[u8]) {
    let mut input = FuzzInput(data);
    let mask = u32::from(input.u8()) & 7;
    let (Some(pipeline), bytes) = pipeline(&mut input) else {
        return;
    };
    let mut region = Region::default();
    let scratch = region.scratch(pipeline.scratch(mask)).expect("memory");
    let mut out = vec![0; bytes];
    let decoded: Result<usize, FilterError> = pipeline.decode(mask, input.0, &mut out, scratch);
    if let Ok(len) = decoded {
        assert!(len <= bytes && len as u64 <= pipeline.most(input.0.len() as u64));
    }
}

/// A chunk of HDF5 that is stored and read again.
pub(super) fn filters_encode(data: &[u8]) {
    let mut input = FuzzInput(data);
    let (Some(pipeline), bytes) = pipeline(&mut input) else {
        return;
    };
    // Encoders are slow, bzip2's above all.
    if bytes > 64 << 10 {
        return;
    }
    let encoder = pipeline.encoder();
    if encoder.scratch() > 64 << 20 || encoder.most() > 2 * MOST as u64 {
        return;
    }
    let plain: Vec<u8> = input.0.iter().copied().cycle().take(bytes).collect();
    let plain = if plain.is_empty() {
        vec![0; bytes]
    } else {
        plain
    };
    let mut region = Region::default();
    let mut out = vec![0; encoder.most() as usize];
    let scratch = region.scratch(encoder.scratch()).expect("memory");
    let Some(chunk) = no_bug(encoder.encode(&plain, &mut out, scratch)) else {
        return;
    };
    let scratch = region
        .scratch(pipeline.scratch(chunk.mask))
        .expect("memory");
    let mut decoded = vec![0; bytes];
    let stored = &out[..chunk.len];
    let len = pipeline.decode(chunk.mask, stored, &mut decoded, scratch);
    assert_eq!(len.expect("a chunk that was encoded"), bytes);
    if pipeline.keeps_every_bit(chunk.mask) {
        assert!(decoded == plain);
    }
}
