//! The codecs of an array in a row, undone from the last to the first.
//!
//! What one leaves to the next lies in one of two buffers that take turns; the last one undone
//! writes to the output. How large the buffers are is known from the codecs and the chunk's size.

use super::{ChunkCodec, compressed, lzma, numbers, sums};
use crate::contexts::Contexts;
use crate::filters::FilterError;
use crate::filters::tools::Tools;
use crate::memory::{Arena, room};

/// What a compressor may add to what it cannot compress.
const GROWTH: usize = 4 << 10;

/// How many bytes there are between two codecs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Exactly(usize),
    AtMost(usize),
}

impl Length {
    pub fn most(self) -> usize {
        match self {
            Length::Exactly(n) | Length::AtMost(n) => n,
        }
    }

    pub(super) fn map(self, change: impl FnOnce(usize) -> usize) -> Length {
        match self {
            Length::Exactly(n) => Length::Exactly(change(n)),
            Length::AtMost(n) => Length::AtMost(change(n)),
        }
    }

    pub(super) fn compressed(self) -> Length {
        let n = self.most();
        Length::AtMost(n.saturating_add(n / 8).saturating_add(GROWTH))
    }
}

/// A codec, and how many bytes it leaves when it is undone.
#[derive(Debug, Clone)]
struct ChainStep {
    codec: ChunkCodec,
    leaves: Length,
}

/// The codecs of an array's chunks.
#[derive(Debug, Clone)]
pub struct Chain {
    /// In order of writing.
    steps: Vec<ChainStep>,
    plain: Length,
    stored: Length,
}

impl Chain {
    /// `codecs`: in order of writing; `plain`: bytes of a chunk.
    pub fn new(codecs: Vec<ChunkCodec>, plain: Length) -> Chain {
        let mut stored = plain;
        let step = |codec: ChunkCodec| {
            let leaves = stored;
            stored = codec.encoded(leaves);
            ChainStep { codec, leaves }
        };
        let steps = codecs.into_iter().map(step).collect();
        Chain {
            steps,
            plain,
            stored,
        }
    }

    /// Whether chunks are stored as they are.
    pub fn is_plain(&self) -> bool {
        self.steps.is_empty()
    }

    /// Bytes of a chunk.
    pub fn plain(&self) -> Length {
        self.plain
    }

    /// Bytes of a stored chunk; more than there may be are too many.
    pub fn stored(&self) -> Length {
        self.stored
    }

    /// Whether a chunk can have as many bytes as it has to, if it is stored in so many.
    pub fn is_plausible(&self, stored: u64) -> bool {
        let most = self
            .undone()
            .fold(stored, |bytes, step| step.codec.most(bytes));
        match self.plain {
            Length::Exactly(n) => most >= n as u64,
            Length::AtMost(_) => true,
        }
    }

    pub fn codecs(&self) -> impl Iterator<Item = &ChunkCodec> {
        self.steps.iter().map(|step| &step.codec)
    }

    /// In order of undoing.
    fn undone(&self) -> impl Iterator<Item = &ChainStep> {
        self.steps.iter().rev()
    }

    /// How many steps write to the buffers: all but views, and but for one undone last of all.
    fn between(&self) -> usize {
        let writing = self.undone().filter(|step| !step.is_view()).count();
        let to_output = self.steps.first().is_some_and(|step| !step.is_view());
        writing - usize::from(to_output)
    }

    fn buffers(&self) -> [usize; 2] {
        let mut sizes = [0; 2];
        let writing = self.undone().filter(|step| !step.is_view());
        for (i, step) in writing.take(self.between()).enumerate() {
            sizes[i % 2] = step.leaves.most().max(sizes[i % 2]);
        }
        sizes
    }

    /// Memory that decoding a chunk takes beside its stored bytes and the output.
    pub fn scratch(&self) -> u64 {
        let own = self
            .undone()
            .map(|step| compressed::scratch(&step.codec, step.leaves.most()));
        let [first, second] = self.buffers().map(|size| room(size as u64));
        let own = own.max().unwrap_or(0);
        own.saturating_add(first).saturating_add(second)
    }

    /// Decodes a stored chunk into the front of `out`, which has room for the most bytes that a
    /// chunk may have; returns the number of bytes.
    pub fn decode(
        &self,
        stored: &[u8],
        out: &mut [u8],
        mut scratch: Arena<'_>,
    ) -> Result<usize, FilterError> {
        let [first, second] = self.buffers();
        let buffers = [scratch.take(first as u64)?, scratch.take(second as u64)?];
        Contexts::lend(|contexts| {
            let tools = Tools { contexts, scratch };
            self.undo(tools, buffers, stored, out)
        })
    }

    fn undo(
        &self,
        mut tools: Tools,
        [mut spare, mut held]: [&mut [u8]; 2],
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<usize, FilterError> {
        // The bytes so far are a part of `held`, once there are any there, or of `stored`.
        let (mut in_held, mut part) = (false, 0..stored.len());
        let mut between = self.between();
        for step in self.undone() {
            let named = |error: FilterError| error.of(step.codec.name());
            let input = match in_held {
                true => &held[part.clone()],
                false => &stored[part.clone()],
            };
            if let ChunkCodec::Sum { sum, at_start } = step.codec {
                let inner = sums::check(sum, at_start, input).map_err(named)?;
                part = part.start + inner.start..part.start + inner.end;
                step.check(part.len()).map_err(named)?;
            } else if between == 0 {
                let room = step.leaves.most().min(out.len());
                return step
                    .decode(&mut tools, input, &mut out[..room])
                    .map_err(named);
            } else {
                let room = &mut spare[..step.leaves.most()];
                let len = step.decode(&mut tools, input, room).map_err(named)?;
                std::mem::swap(&mut held, &mut spare);
                (in_held, between, part) = (true, between - 1, 0..len);
            }
        }
        let plain = match in_held {
            true => &held[part],
            false => &stored[part],
        };
        let most = out.len();
        let to = out.get_mut(..plain.len());
        to.ok_or_else(|| FilterError::too_long(most).found(plain.len()))?
            .copy_from_slice(plain);
        self.check_plain(plain.len())?;
        Ok(plain.len())
    }

    /// Where no codec has looked at it.
    fn check_plain(&self, len: usize) -> Result<(), FilterError> {
        check(self.plain, len)
    }
}

impl ChainStep {
    /// It leaves a part of what it gets.
    fn is_view(&self) -> bool {
        matches!(self.codec, ChunkCodec::Sum { .. })
    }

    fn check(&self, len: usize) -> Result<(), FilterError> {
        check(self.leaves, len)
    }

    /// Decodes into the front of `out`; returns the number of bytes.
    fn decode(
        &self,
        tools: &mut Tools,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<usize, FilterError> {
        let mut tools = tools.lend();
        let len = match &self.codec {
            ChunkCodec::Blosc
            | ChunkCodec::Gzip
            | ChunkCodec::Zlib
            | ChunkCodec::Zstd
            | ChunkCodec::Lz4
            | ChunkCodec::Bz2
            | ChunkCodec::Pcodec(_) => compressed::decode(&self.codec, &mut tools, stored, out)?,
            ChunkCodec::Lzma(form) => lzma::decode(form, stored, out)?,
            _ => numbers::decode(&self.codec, stored, out)?,
        };
        self.check(len)?;
        Ok(len)
    }
}

/// Whether so many bytes are as many as there have to be.
fn check(length: Length, found: usize) -> Result<(), FilterError> {
    match length {
        Length::Exactly(n) if n != found => Err(FilterError::new("the chunk has another length")
            .expected(n)
            .found(found)),
        _ => Ok(()),
    }
}
