//! How a chunk is to be written, and what a stored chunk shows of how it was written.
//!
//! A chunk does not store the level it was written at. But C-Blosc's block size depends on it, and
//! zlib streams carry a hint, so most levels can be ruled out; of those left, the one nearest to
//! the programs' default is taken. A block size that the rule gives at no level was asked for, and
//! is kept as it is.
//!
//! Used by formats that rewrite chunks. Source: Bloscpack/C-Blosc format, sections 8 and 10.

use super::super::header::{ChunkHeader, Codec, Filter, MAX_STREAMS, MIN_SPLIT_ELEMENTS};
use super::error::EncodeError;
use super::plan::{ChunkPlan, MIN_CODED};

/// The programs' level when none is given.
const DEFAULT_LEVEL: u8 = 7;
const MAX_LEVEL: u8 = 9;

/// Chunks of less are one block, whatever the level.
pub const SMALLEST_BLOCK: u32 = 32 << 10;
/// What a stream of a split block has at most ...
const LARGEST_PLANE: u32 = 256 << 10;
/// ... and the limits of such a block.
const SPLIT_BLOCK: (u32, u32) = (64 << 10, 1 << 20);

/// What makes the streams. Two of them make streams of one codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    /// Blosc's own.
    BloscLz,
    /// LZ4, the fast one; higher levels look at more places.
    Lz4,
    /// LZ4 with a thorough search, decoded like any LZ4.
    Lz4Hc,
    /// Snappy, which has no levels.
    Snappy,
    /// Deflate in zlib's form.
    Zlib,
    /// Zstandard.
    Zstd,
}

impl Compressor {
    /// Each of them.
    pub const ALL: [Self; 6] = [
        Self::BloscLz,
        Self::Lz4,
        Self::Lz4Hc,
        Self::Snappy,
        Self::Zlib,
        Self::Zstd,
    ];

    /// What its streams are decoded with.
    pub fn codec(self) -> Codec {
        match self {
            Self::BloscLz => Codec::BloscLz,
            Self::Lz4 | Self::Lz4Hc => Codec::Lz4,
            Self::Snappy => Codec::Snappy,
            Self::Zlib => Codec::Zlib,
            Self::Zstd => Codec::Zstd,
        }
    }

    /// Those that may have made streams of a codec, the likelier one first.
    fn of_codec(codec: Codec) -> &'static [Self] {
        match codec {
            Codec::BloscLz => &[Self::BloscLz],
            Codec::Lz4 => &[Self::Lz4, Self::Lz4Hc],
            Codec::Snappy => &[Self::Snappy],
            Codec::Zlib => &[Self::Zlib],
            Codec::Zstd => &[Self::Zstd],
        }
    }

    /// The slow ones, which get blocks of twice the size.
    fn is_thorough(self) -> bool {
        matches!(self, Self::Lz4Hc | Self::Zlib | Self::Zstd)
    }

    /// C-Blosc's choice, which old readers rely on.
    fn splits_by_default(self) -> bool {
        self != Self::Zstd
    }
}

/// Where the size of blocks comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockSize {
    /// C-Blosc's rule, from the compressor, the level and the size of the chunk.
    Rule,
    /// As many bytes, whole elements of them.
    Explicit(u32),
}

/// How a chunk is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSettings {
    /// What makes the streams.
    pub compressor: Compressor,
    /// 0 (as it is) to 9.
    pub level: u8,
    /// Beyond level 9, for a compressor that can.
    pub utmost: bool,
    /// What is done to a block before.
    pub filter: Filter,
    /// Bytes per element; 0 counts as 1.
    pub typesize: u8,
    /// How large blocks are.
    pub block_size: BlockSize,
    /// Whether a block becomes a stream per byte of the element, where the format allows it.
    pub split: bool,
}

impl ChunkSettings {
    /// What the programs use for elements of this size.
    pub fn new(compressor: Compressor, filter: Filter, typesize: u8) -> Self {
        Self {
            compressor,
            level: DEFAULT_LEVEL,
            utmost: false,
            filter,
            typesize,
            block_size: BlockSize::Rule,
            split: compressor.splits_by_default(),
        }
    }

    /// Those that a stored chunk was written with, as far as it shows.
    ///
    /// `first` are stored bytes from the start of the chunk, as many as there are at hand: those of
    /// the first block show more about zlib.
    pub fn of_chunk(header: &ChunkHeader, first: &[u8]) -> Self {
        let compressors = Compressor::of_codec(header.codec());
        let mut found = Self {
            typesize: header.typesize(),
            filter: header.filter_asked(),
            ..Self::new(compressors[0], Filter::None, 1)
        };
        if found.can_split(header.blocksize()) {
            found.split = header.split_allowed();
        }
        let hint = zlib_hint(header, first);
        for &compressor in compressors {
            found.compressor = compressor;
            if let Some(level) = found.level_of_block_size(header, hint) {
                found.level = level;
                return found;
            }
        }
        found.compressor = compressors[0];
        // A chunk that is too small to be coded shows nothing of the blocks of larger ones.
        if header.nbytes() >= MIN_CODED {
            found.block_size = BlockSize::Explicit(header.blocksize());
        }
        found.level =
            nearest_to_default(|level| hint.is_none_or(|hint| zlib_flevel(level) == hint))
                .unwrap_or(DEFAULT_LEVEL);
        found
    }

    /// The level at which the rule gives the chunk's block size.
    fn level_of_block_size(&self, header: &ChunkHeader, hint: Option<u8>) -> Option<u8> {
        let gives = |level| {
            let at = Self { level, ..*self };
            // Level 0 stores chunks as they are.
            (level > 0 || header.memcpyed()) && at.block_size(header.nbytes()) == header.blocksize()
        };
        let hinted = |level| hint.is_none_or(|hint| zlib_flevel(level) == hint);
        nearest_to_default(|level| gives(level) && hinted(level)).or(nearest_to_default(gives))
    }

    /// The smallest chunks that the same reader decodes, for one that outgrew its place.
    pub fn highest(&self) -> Self {
        let compressor = match self.compressor {
            Compressor::Lz4 => Compressor::Lz4Hc,
            other => other,
        };
        Self {
            compressor,
            level: MAX_LEVEL,
            utmost: true,
            ..*self
        }
    }

    /// Bytes of scratch that [`super::Encoder::chunk_within`] takes for `nbytes` on so many
    /// threads.
    pub fn scratch_within(&self, nbytes: usize, threads: usize) -> Result<usize, EncodeError> {
        let usual = ChunkPlan::new(self, nbytes)?.scratch_of(threads);
        Ok(usual.max(ChunkPlan::new(&self.highest(), nbytes)?.scratch_of(threads)))
    }

    /// Plain bytes of every block but the last, of a chunk of `nbytes`: what C-Blosc 1.21 takes.
    pub fn block_size(&self, nbytes: u32) -> u32 {
        let typesize = u32::from(self.typesize.max(1));
        if nbytes < typesize {
            return 1;
        }
        let size = match self.block_size {
            BlockSize::Explicit(size) => size.max(1),
            BlockSize::Rule => self.ruled_size(nbytes),
        };
        let size = size.min(nbytes).min(ChunkHeader::MAX_BLOCK);
        if size > typesize {
            size - size % typesize
        } else {
            size
        }
    }

    fn ruled_size(&self, nbytes: u32) -> u32 {
        let size = match nbytes {
            SMALLEST_BLOCK.. => self.size_at_level(),
            _ => nbytes,
        };
        if self.level == 0 || !self.splits(size) {
            return size;
        }
        let (least, most) = SPLIT_BLOCK;
        let typesize = u32::from(self.typesize.max(1));
        (size.min(LARGEST_PLANE) * typesize).clamp(least, most)
    }

    /// Before planes are taken into account.
    fn size_at_level(&self) -> u32 {
        let thorough = self.compressor.is_thorough();
        let base = SMALLEST_BLOCK << u32::from(thorough);
        match self.level {
            0 => base / 4,
            1 => base / 2,
            2 => base,
            3 => base * 2,
            4 | 5 => base * 4,
            9.. if thorough => base * 16,
            _ => base * 8,
        }
    }

    /// Whether full blocks of this size have a stream per byte of the element.
    pub(super) fn splits(&self, blocksize: u32) -> bool {
        self.split && self.can_split(blocksize)
    }

    fn can_split(&self, blocksize: u32) -> bool {
        let typesize = u32::from(self.typesize.max(1));
        typesize as usize <= MAX_STREAMS && blocksize / typesize >= MIN_SPLIT_ELEMENTS
    }
}

/// Of the levels that may be, the one nearest to what the programs take by default.
fn nearest_to_default(may_be: impl Fn(u8) -> bool) -> Option<u8> {
    let levels = (0..=MAX_LEVEL).filter(|level| may_be(*level));
    levels.min_by_key(|level| level.abs_diff(DEFAULT_LEVEL))
}

/// What zlib notes in a stream about the level it was made at.
pub(super) fn zlib_flevel(level: u8) -> u8 {
    match level {
        0 | 1 => 0,
        2..=5 => 1,
        6 => 2,
        _ => 3,
    }
}

/// That note, of the first stream that has one: those stored raw have none.
fn zlib_hint(header: &ChunkHeader, first: &[u8]) -> Option<u8> {
    if header.codec() != Codec::Zlib || header.memcpyed() || header.nbytes() == 0 {
        return None;
    }
    let mut at = number(first, header.bstarts_range().start as usize)?;
    let plain = header.block_range(0).len() / header.streams(0);
    for _ in 0..header.streams(0) {
        let len = number(first, at)?;
        if len > 1 && len != plain {
            return first.get(at.checked_add(5)?).map(|flags| flags >> 6);
        }
        at = at.checked_add(4)?.checked_add(len)?;
    }
    None
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*four) as usize)
}
