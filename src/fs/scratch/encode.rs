//! How chunks are encoded: as it turns out best on a sample of what was written.
//!
//! Arrays of numbers shrink most when their bytes or bits are sorted by significance first, which
//! needs to know how large a number is; nobody says so, so it is tried. LZ4 is taken where it comes
//! near Zstandard, which is slower. Chunks that would not get smaller are stored as they are, after
//! a test of a few kilobytes, and zeros are Zstandard whatever was asked for: 128 KiB of them take
//! some 40 bytes. Used by all that makes chunks.

use std::sync::atomic::{AtomicBool, Ordering};

use super::base::StoredForm;
use crate::codec::blosc::encode::{
    BlockSize, ChunkPlan, ChunkSettings, Compressor, EncodeError, Encoder,
};
use crate::codec::blosc::{ChunkHeader, Codec, Filter};
use crate::codec::checksum::Checksum;
use crate::error::{Error, Result};
use crate::memory::fallible;
use crate::processors::processors;

/// What the mount's options say of how files are stored; what they don't is found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodeOptions {
    pub compressor: Option<Compressor>,
    /// 0 to 9, as Blosc counts them.
    pub level: Option<u8>,
    pub typesize: Option<u8>,
    /// Plain bytes of a chunk.
    pub chunk_size: u32,
    pub checksum: Checksum,
    /// A merge that would move more bytes waits.
    pub most_moved: u64,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        EncodeOptions {
            compressor: None,
            level: None,
            typesize: None,
            chunk_size: 128 << 10,
            checksum: Checksum::Adler32,
            most_moved: 256 << 20,
        }
    }
}

impl EncodeOptions {
    /// Of files that are written anew.
    pub(super) fn form(&self) -> StoredForm {
        StoredForm {
            chunk_size: self.chunk_size.max(1),
            checksum: self.checksum,
        }
    }
}

const DOING: &str = "cannot encode a chunk";

/// Where a chunk's header has the chunk's length.
const CTBYTES: std::ops::Range<usize> = 12..16;

/// Bytes that are tried.
const SAMPLE: usize = 16 << 10;

/// Of which so many are looked at to see whether a chunk gets smaller at all.
const PROBE: usize = 4 << 10;

/// Slack is never zeros: those are what a crash leaves of bytes that did not reach the disk.
const SLACK: u8 = 0x55;

/// What less than this is made of is not worth finding out.
const TRIED_FROM: usize = 1 << 10;

/// Zstandard is taken if it leaves at most so much of what LZ4 does.
const CLEARLY_LESS: f64 = 0.85;

const LZ4_LEVEL: u8 = 5;
const ZSTD_LEVEL: u8 = 2;

/// Element sizes and filters that are tried.
const TRIED: [(u8, Filter); 9] = [
    (1, Filter::None),
    (2, Filter::Shuffle),
    (4, Filter::Shuffle),
    (8, Filter::Shuffle),
    (16, Filter::Shuffle),
    (2, Filter::Bitshuffle),
    (4, Filter::Bitshuffle),
    (8, Filter::Bitshuffle),
    (16, Filter::Bitshuffle),
];

/// Whether a chunk gets some slack when it is stored first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkSlack {
    /// The last chunk of a file grows anyway, and one that is stored again has its place.
    None,
    /// So much that what is written over a part of it mostly fits: then others need not move.
    Spare,
}

/// The part of a chunk's length that is spare.
const SPARE_PART: usize = 256;

/// Encodes chunks with what was chosen.
pub(super) struct ChunkEncoder {
    settings: ChunkSettings,
    checksum: Checksum,
    /// The chunk before got smaller: the next one most likely does.
    has_shrunk: AtomicBool,
}

/// Memory for encoding, used again for the next chunk.
#[derive(Default)]
pub(super) struct EncodeSpace {
    out: Vec<u8>,
    scratch: Vec<u8>,
}

impl ChunkEncoder {
    /// For bytes like these.
    pub(super) fn choose(sample: &[u8], options: &EncodeOptions, checksum: Checksum) -> Self {
        let settings = match sample_of(sample) {
            sample if sample.len() >= TRIED_FROM => best_for(sample, options),
            _ => settings(Compressor::Zstd, (1, Filter::None), options),
        };
        ChunkEncoder {
            settings,
            checksum,
            has_shrunk: AtomicBool::new(false),
        }
    }

    pub(super) fn typesize(&self) -> u8 {
        self.settings.typesize
    }

    /// Leaves a chunk with its digest behind it at the start of the space; says how long they are.
    pub(super) fn encode(
        &self,
        plain: &[u8],
        mut slack: ChunkSlack,
        space: &mut EncodeSpace,
    ) -> Result<usize> {
        let mut settings = self.settings;
        if are_zeros(plain) {
            (settings, slack) = (zeros(), ChunkSlack::None);
        } else if !self.has_shrunk.load(Ordering::Relaxed) && !shrinks(&settings, plain, space) {
            settings.level = 0;
        }
        let len = encode(&settings, plain, self.checksum, slack, space)?;
        let has_shrunk = len < plain.len() - plain.len() / 64;
        self.has_shrunk.store(has_shrunk, Ordering::Relaxed);
        Ok(len)
    }
}

impl EncodeSpace {
    /// One for each thread that can encode some of so many chunks.
    pub(super) fn for_threads(chunks: usize) -> Vec<EncodeSpace> {
        let spaces = std::iter::repeat_with(EncodeSpace::default);
        spaces.take(processors().min(chunks).max(1)).collect()
    }

    /// Has a chunk that is encoded already, as if it had just been; says its length.
    pub(super) fn take(&mut self, encoded: &[u8]) -> Result<usize> {
        fallible::lengthen(&mut self.out, encoded.len(), DOING)?;
        self.out[..encoded.len()].copy_from_slice(encoded);
        Ok(encoded.len())
    }

    /// What was encoded last, and something behind it.
    pub(super) fn encoded_with(&mut self, len: usize, more: &[u8]) -> Result<&[u8]> {
        fallible::lengthen(&mut self.out, len + more.len(), DOING)?;
        self.out[len..][..more.len()].copy_from_slice(more);
        Ok(&self.out[..len + more.len()])
    }

    /// What was encoded last.
    pub(super) fn encoded(&self, len: usize) -> &[u8] {
        self.out.get(..len).unwrap_or(&[])
    }
}

/// So many zeros, with the digest behind them.
pub(super) fn encoded_zeros(len: usize, checksum: Checksum) -> Result<Vec<u8>> {
    let plain = fallible::zeros(len as u64, "cannot encode zeros")?;
    encoded_as(&zeros(), &plain, checksum)
}

/// A chunk that is stored as it is, with its digest.
pub(super) fn encoded_plain(plain: &[u8], checksum: Checksum) -> Result<Vec<u8>> {
    let level = 0;
    encoded_as(&ChunkSettings { level, ..zeros() }, plain, checksum)
}

fn encoded_as(settings: &ChunkSettings, plain: &[u8], checksum: Checksum) -> Result<Vec<u8>> {
    let mut space = EncodeSpace::default();
    let len = encode(settings, plain, checksum, ChunkSlack::None, &mut space)?;
    fallible::copy(&space.out[..len], DOING)
}

/// Makes an encoded chunk so long, digest included; false if it is one that cannot be.
pub(super) fn pad(encoded: &mut Vec<u8>, len: usize, checksum: Checksum) -> Result<bool> {
    if encoded.len() == len {
        return Ok(true);
    }
    let header = encoded.first_chunk().map(ChunkHeader::parse);
    let is_coded = matches!(header, Some(Ok(header)) if !header.memcpyed());
    let chunk = len.checked_sub(checksum.digest_len());
    let Some(chunk) = chunk.filter(|_| is_coded && encoded.len() < len) else {
        return Ok(false);
    };
    let own = encoded.len() - checksum.digest_len();
    encoded.truncate(own);
    fallible::lengthen(encoded, chunk, DOING)?;
    encoded[own..].fill(SLACK);
    let Ok(ctbytes) = u32::try_from(chunk) else {
        return Ok(false);
    };
    encoded[CTBYTES].copy_from_slice(&ctbytes.to_le_bytes());
    let digest = checksum.digest(encoded);
    encoded.extend_from_slice(digest.as_bytes());
    Ok(true)
}

/// Lengthens an encoded chunk that is smaller than its bytes; says the length.
fn with_slack(out: &mut [u8], len: usize, plain: usize) -> usize {
    // As long as its bytes a chunk is one that is stored as it is.
    let longer = (len + len / SPARE_PART).min(plain - 1);
    match u32::try_from(longer) {
        Ok(ctbytes) if longer > len => {
            out[len..longer].fill(SLACK);
            out[CTBYTES].copy_from_slice(&ctbytes.to_le_bytes());
            longer
        }
        _ => len,
    }
}

pub(super) fn are_zeros(bytes: &[u8]) -> bool {
    static ZEROS: [u8; 4 << 10] = [0; 4 << 10];
    let mut parts = bytes.chunks(ZEROS.len());
    parts.all(|part| part == &ZEROS[..part.len()])
}

fn zeros() -> ChunkSettings {
    ChunkSettings {
        level: 1,
        block_size: BlockSize::Explicit(ChunkHeader::MAX_PLAIN),
        ..ChunkSettings::new(Compressor::Zstd, Filter::None, 1)
    }
}

/// From the middle: files often begin with something else than what fills them.
fn sample_of(bytes: &[u8]) -> &[u8] {
    let start = bytes.len().saturating_sub(SAMPLE) / 2 / 16 * 16;
    let end = bytes.len().min(start + SAMPLE);
    &bytes[start..end]
}

fn settings(
    compressor: Compressor,
    (typesize, filter): (u8, Filter),
    options: &EncodeOptions,
) -> ChunkSettings {
    let usual = match compressor {
        Compressor::Zstd => ZSTD_LEVEL,
        _ => LZ4_LEVEL,
    };
    let filter = match options.typesize {
        Some(1) => Filter::None,
        _ => filter,
    };
    let mut settings = ChunkSettings {
        level: options.level.unwrap_or(usual),
        ..ChunkSettings::new(compressor, filter, options.typesize.unwrap_or(typesize))
    };
    if compressor.codec() == Codec::Zstd {
        settings.block_size = BlockSize::Explicit(options.chunk_size);
    }
    settings
}

fn best_for(sample: &[u8], options: &EncodeOptions) -> ChunkSettings {
    let fast = options.compressor.unwrap_or(Compressor::Lz4);
    let of = |compressor| move |tried: &(u8, Filter)| settings(compressor, *tried, options);
    let mut space = EncodeSpace::default();
    let mut shortest = |found: &mut dyn Iterator<Item = ChunkSettings>| {
        let sized = found.map(|settings| (encoded_len(&settings, sample, &mut space), settings));
        sized.min_by_key(|(len, _)| *len)
    };
    let tried = match is_text(sample) {
        true => &TRIED[..1],
        false => &TRIED[..],
    };
    let Some((len, best)) = shortest(&mut tried.iter().map(of(fast))) else {
        return settings(fast, TRIED[0], options);
    };
    if options.compressor.is_some() {
        return best;
    }
    let dense = [
        (best.typesize, best.filter),
        (best.typesize, Filter::Shuffle),
        TRIED[0],
    ];
    match shortest(&mut dense.iter().map(of(Compressor::Zstd))) {
        Some((dense, settings)) if (dense as f64) < len as f64 * CLEARLY_LESS => settings,
        _ => best,
    }
}

/// Text has no numbers whose bytes could be sorted.
fn is_text(sample: &[u8]) -> bool {
    let odd = sample
        .iter()
        .filter(|b| **b < 9 || (14..32).contains(*b))
        .count();
    odd * 200 < sample.len()
}

fn encoded_len(settings: &ChunkSettings, plain: &[u8], space: &mut EncodeSpace) -> usize {
    let encoded = encode(settings, plain, Checksum::None, ChunkSlack::None, space);
    encoded.unwrap_or(usize::MAX)
}

/// Whether a part of a chunk gets smaller, so that it is worth while to try all of it.
fn shrinks(settings: &ChunkSettings, plain: &[u8], space: &mut EncodeSpace) -> bool {
    if plain.len() < 4 * PROBE {
        return true;
    }
    let middle = plain.len() / 2 / 16 * 16;
    [0, middle].into_iter().any(|at| {
        let probe = &plain[at..at + PROBE];
        encoded_len(settings, probe, space) < PROBE - PROBE / 64
    })
}

fn encode(
    settings: &ChunkSettings,
    plain: &[u8],
    checksum: Checksum,
    slack: ChunkSlack,
    space: &mut EncodeSpace,
) -> Result<usize> {
    let failed = |e: EncodeError| Error::Bug(format!("{DOING}: {e}"));
    let plan = ChunkPlan::new(settings, plain.len()).map_err(failed)?;
    let EncodeSpace { out, scratch } = space;
    let most = plan.most() + plan.most() / SPARE_PART;
    fallible::lengthen(out, most + checksum.digest_len(), DOING)?;
    fallible::lengthen(scratch, plan.scratch_of(1), DOING)?;
    let len = Encoder::lend(|encoder| encoder.chunk(settings, plain, out, scratch, 1));
    let len = len.map_err(failed)?;
    let len = match slack {
        ChunkSlack::Spare if len < plain.len() => with_slack(out, len, plain.len()),
        _ => len,
    };
    let digest = checksum.digest(&out[..len]);
    let digest = digest.as_bytes();
    out[len..len + digest.len()].copy_from_slice(digest);
    Ok(len + digest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::blosc::Decoder;
    use proptest::prelude::*;

    fn plain_of(stored: &[u8], checksum: Checksum) -> Vec<u8> {
        let (chunk, digest) = stored.split_at(stored.len() - checksum.digest_len());
        assert_eq!(checksum.digest(chunk).as_bytes(), digest);
        let header = ChunkHeader::parse(chunk.first_chunk().unwrap()).unwrap();
        let mut out = vec![0; header.nbytes() as usize];
        let mut scratch = vec![0; header.scratch()];
        Decoder::new()
            .decode_chunk(&header, chunk, &mut out, &mut scratch)
            .unwrap();
        out
    }

    fn ramp() -> Vec<u8> {
        let number = |i: u32| f64::from(i) + f64::from(i.wrapping_mul(2_654_435_761) >> 20) * 1e-9;
        (0..16384).flat_map(|i| number(i).to_le_bytes()).collect()
    }

    #[test]
    fn numbers_text_noise_and_zeros_are_told_apart() {
        let options = EncodeOptions::default();
        let ratio = |plain: &[u8]| {
            let encoder = ChunkEncoder::choose(plain, &options, Checksum::Adler32);
            let mut space = EncodeSpace::default();
            let len = encoder.encode(plain, ChunkSlack::Spare, &mut space);
            let stored = space.encoded(len.unwrap());
            assert_eq!(plain_of(stored, Checksum::Adler32), plain);
            stored.len() as f64 / plain.len() as f64
        };
        assert!(ratio(&ramp()) < 0.4, "{}", ratio(&ramp()));
        let counts: Vec<u8> = (0..32768u32)
            .flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 30).to_le_bytes())
            .collect();
        assert!(ratio(&counts) < 0.15, "{}", ratio(&counts));
        assert!(ratio("let x = y;\n".repeat(5000).as_bytes()) < 0.01);
        let mut state = 1u64;
        let noise: Vec<u8> = (0..16384)
            .flat_map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 16).to_le_bytes()[..4].to_vec()
            })
            .collect();
        assert!((1.0..1.001).contains(&ratio(&noise)), "{}", ratio(&noise));
        assert!(ratio(&[0; 128 << 10]) < 0.001);
        assert!(encoded_zeros(1 << 20, Checksum::None).unwrap().len() < 200);
    }

    proptest! {
        #[test]
        fn padded_chunks_decode_alike(plain in proptest::collection::vec(0u8..4, 0..5000), more in 0usize..300) {
            let encoder = ChunkEncoder::choose(&plain, &EncodeOptions::default(), Checksum::Crc32);
            let mut space = EncodeSpace::default();
            let len = encoder.encode(&plain, ChunkSlack::None, &mut space).unwrap();
            let mut stored = space.encoded(len).to_vec();
            let len = stored.len() + more;
            if pad(&mut stored, len, Checksum::Crc32).unwrap() {
                prop_assert_eq!(stored.len(), len);
            }
            prop_assert_eq!(plain_of(&stored, Checksum::Crc32), plain);
        }
    }
}
