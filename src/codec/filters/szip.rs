//! Szip (filter 4): the lossless Rice coder of CCSDS 121.0-B, as the szip library frames it.
//!
//! Client values: options, pixels per block, bits per pixel, pixels per scanline. A chunk begins
//! with its plain size (4 bytes, little-endian). Scanlines follow, each padded to whole blocks and,
//! with the nearest-neighbour option, coded as differences that start anew. Pixels of 32 and 64
//! bits are coded as bytes, shuffled over the whole chunk.
//!
//! A block begins with a number that says how it is coded: 0 few ones (runs of zero blocks, or
//! pairs of samples in one number), all ones raw samples, else sample / 2^k in unary and k bits.
//! The first sample of a scanline of differences is raw.

use super::FilterDescription;
use super::bits::BitReader;
use super::error::{FilterError, Unsupported};
use super::shuffle::unshuffle;
use super::tools::Tools;
use crate::memory::room;

const BIG_ENDIAN: u32 = 16;
const NEAREST_NEIGHBOUR: u32 = 32;

/// Limits of the szip library.
const MAX_BLOCK: usize = 64;
const MAX_LINE: usize = 4096;
/// A run of this many zero blocks means: up to the end of the segment.
const REST_OF_SEGMENT: u64 = 5;
/// Blocks of a segment.
const SEGMENT: usize = 64;
/// Largest number that codes a pair of samples.
const MAX_PAIR: u64 = 90;

/// The filter's client values, checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Szip {
    /// Samples per block.
    block: usize,
    /// Samples per scanline.
    line: usize,
    /// Bits per sample, at most 32.
    depth: u32,
    differences: bool,
    big_endian: bool,
    /// Bytes per pixel where they are coded one by one.
    shuffled: Option<usize>,
}

impl Szip {
    /// Plain bytes that a stored one can stand for at most: a segment of zero blocks takes nine
    /// bits.
    pub(super) const RATIO: u64 = (SEGMENT * MAX_BLOCK * 4) as u64;

    pub(super) fn new(filter: &FilterDescription) -> Result<Self, Unsupported> {
        let refuse = |what: &str| Err(Unsupported::new(filter.id, what));
        let [options, block, bits, line] = *filter.values.as_slice() else {
            return refuse("a number of client values other than 4");
        };
        let (block, line) = (block as usize, line as usize);
        if !(2..=MAX_BLOCK).contains(&block) || !block.is_multiple_of(2) {
            return refuse("a number of pixels per block that szip does not have");
        }
        if !(1..=MAX_LINE).contains(&line) {
            return refuse("a number of pixels per scanline that szip does not have");
        }
        let (depth, shuffled) = match bits {
            1..=24 => (bits, None),
            32 | 64 => (8, Some(bits as usize / 8)),
            _ => return refuse("a number of bits per pixel that szip does not have"),
        };
        Ok(Self {
            block,
            line,
            depth,
            differences: options & NEAREST_NEIGHBOUR != 0,
            big_endian: options & BIG_ENDIAN != 0,
            shuffled,
        })
    }

    /// Decodes into the front of `out`; returns the number of bytes written.
    pub(super) fn decode(
        &self,
        tools: &mut Tools,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<usize, FilterError> {
        let (size, rest) = stored
            .split_first_chunk()
            .ok_or_else(FilterError::truncated)?;
        let size = u32::from_le_bytes(*size) as usize;
        let most = out.len();
        let out = out
            .get_mut(..size)
            .ok_or_else(|| FilterError::too_long(most).found(size))?;
        let unit = self.shuffled.unwrap_or(self.sample_bytes());
        if !size.is_multiple_of(unit) {
            let fault = FilterError::new("the size is no multiple of the pixel's");
            return Err(fault.expected(unit).found(size));
        }
        let samples = tools.scratch.take_u32s(self.samples())?;
        match self.shuffled {
            None => self.decode_lines(rest, samples, out)?,
            Some(width) => {
                let planes = tools.take(size)?;
                self.decode_lines(rest, samples, planes)?;
                unshuffle(width, planes, out);
            }
        }
        Ok(size)
    }

    /// Memory to decode at most `plain` bytes.
    pub(super) fn scratch(&self, plain: usize) -> u64 {
        let planes = self.shuffled.map_or(0, |_| room(plain as u64));
        planes.saturating_add(room(4 * self.samples()))
    }

    /// Samples of a scanline, padded to whole blocks.
    fn samples(&self) -> u64 {
        self.line.next_multiple_of(self.block) as u64
    }

    fn sample_bytes(&self) -> usize {
        match self.depth {
            ..=8 => 1,
            9..=16 => 2,
            _ => 4,
        }
    }

    /// Decodes all scanlines, the last of which may be short.
    fn decode_lines(
        &self,
        stored: &[u8],
        samples: &mut [u32],
        out: &mut [u8],
    ) -> Result<(), FilterError> {
        let bytes = self.sample_bytes();
        let mut left = out.len() / bytes;
        let mut line = ScanLine {
            coding: self,
            bits: BitReader::new(stored),
            samples,
        };
        for out in out.chunks_mut(self.line * bytes) {
            let len = out.len() / bytes;
            // Padding is coded too, and must be passed over to reach the next line.
            let coded = if left > len { line.samples.len() } else { len };
            line.decode(coded)?;
            self.store(&line.samples[..len], out);
            left -= len;
        }
        Ok(())
    }

    /// Writes samples; bytes of a number as many as its bits need, 3 not being a size.
    fn store(&self, samples: &[u32], out: &mut [u8]) {
        let size = self.sample_bytes();
        for (sample, out) in samples.iter().zip(out.chunks_exact_mut(size)) {
            if self.big_endian {
                out.copy_from_slice(&sample.to_be_bytes()[4 - size..]);
            } else {
                out.copy_from_slice(&sample.to_le_bytes()[..size]);
            }
        }
    }
}

/// The scanline being decoded; `samples` is as long as its blocks together.
struct ScanLine<'a, 's> {
    coding: &'a Szip,
    bits: BitReader<'a>,
    samples: &'s mut [u32],
}

impl ScanLine<'_, '_> {
    /// Decodes blocks until `wanted` samples are there.
    fn decode(&mut self, wanted: usize) -> Result<(), FilterError> {
        let mut at = 0;
        while at < wanted {
            at += self.decode_block(at)?;
        }
        if self.coding.differences {
            add_up(self.coding.depth, &mut self.samples[..wanted]);
        }
        Ok(())
    }

    /// Decodes the block at sample `at`, or a run of them; returns the number of samples.
    fn decode_block(&mut self, at: usize) -> Result<usize, FilterError> {
        let id_bits = match self.coding.depth {
            ..=8 => 3,
            9..=16 => 4,
            _ => 5,
        };
        let id = self.bits.take(id_bits)?;
        let first = self.coding.differences && at == 0;
        if id == 0 {
            return self.decode_low(at, first);
        }
        let end = at + self.coding.block;
        if id == (1 << id_bits) - 1 {
            for sample in &mut self.samples[at..end] {
                *sample = self.bits.take(self.coding.depth)? as u32;
            }
        } else {
            let from = self.reference(at, first)?;
            self.decode_split(from..end, id as u32 - 1)?;
        }
        Ok(self.coding.block)
    }

    /// Reads the raw sample if one stands here; returns where the coded ones begin.
    fn reference(&mut self, at: usize, first: bool) -> Result<usize, FilterError> {
        if first {
            self.samples[at] = self.bits.take(self.coding.depth)? as u32;
        }
        Ok(at + usize::from(first))
    }

    /// High parts of all samples, then `k` low bits of each.
    fn decode_split(&mut self, range: std::ops::Range<usize>, k: u32) -> Result<(), FilterError> {
        let limit = u64::from(self.limit());
        let samples = &mut self.samples[range];
        for sample in &mut *samples {
            // Cut to 32 bits so that the shift loses nothing; the limit is lower anyway.
            *sample = self.bits.unary()?.min(u64::from(u32::MAX)) as u32;
        }
        for sample in samples {
            let whole = u64::from(*sample) << k | self.bits.take(k)?;
            if whole > limit {
                let fault = FilterError::new("a sample has more bits than its pixel");
                return Err(fault.expected(self.coding.depth));
            }
            *sample = whole as u32;
        }
        Ok(())
    }

    /// A run of blocks of zeros, or one block of pairs.
    fn decode_low(&mut self, at: usize, first: bool) -> Result<usize, FilterError> {
        let pairs = self.bits.take(1)? == 1;
        let from = self.reference(at, first)?;
        if pairs {
            self.decode_pairs(at, from)?;
            return Ok(self.coding.block);
        }
        let len = self.zero_blocks(at)? * self.coding.block;
        self.samples[from..at + len].fill(0);
        Ok(len)
    }

    /// Number of blocks in the run of zero blocks at sample `at`; they are within the scanline.
    fn zero_blocks(&mut self, at: usize) -> Result<usize, FilterError> {
        let block = at / self.coding.block;
        let left = self.samples.len() / self.coding.block - block;
        let run = match self.bits.unary()? + 1 {
            REST_OF_SEGMENT => return Ok(left.min(SEGMENT - block % SEGMENT)),
            run if run > REST_OF_SEGMENT => run - 1,
            run => run,
        };
        match usize::try_from(run) {
            Ok(run) if run <= left => Ok(run),
            _ => Err(FilterError::new("a run of zero blocks leaves the scanline")
                .expected(format_args!("at most {left}"))
                .found(run)),
        }
    }

    /// Two samples `a`, `b` as the number `(a + b) (a + b + 1) / 2 + b`, from sample `from` on.
    fn decode_pairs(&mut self, at: usize, from: usize) -> Result<(), FilterError> {
        let limit = self.limit();
        for i in (at..at + self.coding.block).step_by(2) {
            let number = self.bits.unary()?;
            if number > MAX_PAIR {
                return Err(FilterError::new("a pair of samples is out of range").found(number));
            }
            let mut sum = 0;
            while (sum + 1) * (sum + 2) / 2 <= number as u32 {
                sum += 1;
            }
            let second = number as u32 - sum * (sum + 1) / 2;
            if i >= from {
                self.samples[i] = (sum - second).min(limit);
            }
            self.samples[i + 1] = second.min(limit);
        }
        Ok(())
    }

    fn limit(&self) -> u32 {
        u32::MAX >> (32 - self.coding.depth)
    }
}

/// Turns a reference and mapped differences into samples.
///
/// Differences of either sign that both keep within the sample's range take turns, 0, -1, 1, -2 and
/// so on; larger ones can have one sign only.
fn add_up(depth: u32, samples: &mut [u32]) {
    let Some((first, rest)) = samples.split_first_mut() else {
        return;
    };
    let (limit, middle) = (u32::MAX >> (32 - depth), 1 << (depth - 1));
    let mut last = *first;
    for sample in rest {
        let mapped = *sample;
        let (half, upper) = (mapped.div_ceil(2), last >= middle);
        let room = if upper { limit - last } else { last };
        last = match (half <= room, mapped & 1 == 1) {
            (true, true) => last - half,
            (true, false) => last + half,
            (false, _) if upper => limit - mapped,
            (false, _) => mapped,
        };
        *sample = last;
    }
}
