//! The 16 bytes in front of every Blosc-1 chunk, checked as far as they can be alone.
//!
//! After [`ChunkHeader::parse`] the arithmetic on blocks cannot overflow and the table of block
//! starts lies within the chunk. Whether the sizes are true shows only in decoding, so a caller
//! asks [`ChunkHeader::plausible`] before it allocates `nbytes`.
//!
//! Source: Bloscpack/C-Blosc format, section 8.

use super::block::scratch_len;
use super::error::BloscError;
use std::ops::Range;

pub(super) const FORMAT_VERSION: u8 = 2;
pub(super) const CODEC_VERSION: u8 = 1;

const SHUFFLE: u8 = 0x01;
pub(super) const MEMCPYED: u8 = 0x02;
const BITSHUFFLE: u8 = 0x04;
const RESERVED: u8 = 0x08;
pub(super) const NOT_SPLIT: u8 = 0x10;
const CODEC_SHIFT: u32 = 5;

/// Blocks are split up to this many bytes per element ...
pub(super) const MAX_STREAMS: usize = 16;
/// ... and from this many elements per block on.
pub(super) const MIN_SPLIT_ELEMENTS: u32 = 128;

/// Compressor of a chunk's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Blosc's own, code 0.
    BloscLz,
    /// LZ4 and LZ4HC, code 1.
    Lz4,
    /// Snappy, code 2.
    Snappy,
    /// Deflate in zlib's form, code 3.
    Zlib,
    /// Zstandard, code 4.
    Zstd,
}

impl Codec {
    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::BloscLz,
            1 => Self::Lz4,
            2 => Self::Snappy,
            3 => Self::Zlib,
            4 => Self::Zstd,
            _ => return None,
        })
    }

    fn code(self) -> u8 {
        match self {
            Self::BloscLz => 0,
            Self::Lz4 => 1,
            Self::Snappy => 2,
            Self::Zlib => 3,
            Self::Zstd => 4,
        }
    }

    /// Every one.
    pub const ALL: [Self; 5] = [
        Self::BloscLz,
        Self::Lz4,
        Self::Snappy,
        Self::Zlib,
        Self::Zstd,
    ];

    /// As Blosc spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BloscLz => "blosclz",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    /// Plain bytes that one stored byte can stand for at most.
    ///
    /// LZ4 and BloscLZ lengthen a match by 255 a byte. Snappy copies 64 with three bytes. Deflate
    /// copies 258 with two bits. Zstandard fills a block of 128 KiB with four bytes (a block header
    /// and the byte to repeat); its other kinds of block need more.
    fn max_ratio(self) -> u64 {
        match self {
            Self::BloscLz | Self::Lz4 => 255,
            Self::Snappy => 22,
            Self::Zlib => 1032,
            Self::Zstd => (128 << 10) / 4,
        }
    }
}

/// Rearrangement of a block that is undone after its streams are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// The bytes are as the codec gives them.
    None,
    /// The bytes of the same place in all elements follow each other.
    Shuffle,
    /// The bits of the same place in all elements follow each other.
    Bitshuffle,
}

impl Filter {
    /// Byte shuffle does nothing to single bytes, and wins when both flags are set.
    fn from_flags(flags: u8, typesize: u8) -> Self {
        if flags & SHUFFLE != 0 && typesize > 1 {
            Self::Shuffle
        } else if flags & BITSHUFFLE != 0 {
            Self::Bitshuffle
        } else {
            Self::None
        }
    }
}

/// A checked chunk header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    typesize: u8,
    nbytes: u32,
    blocksize: u32,
    ctbytes: u32,
    codec: Codec,
    filter: Filter,
    shuffle_asked: bool,
    memcpyed: bool,
    split_allowed: bool,
}

impl ChunkHeader {
    /// Stored bytes of a header.
    pub const LEN: usize = 16;
    /// Largest plain size: 2^31 - 1 less this header.
    pub const MAX_PLAIN: u32 = 2_147_483_631;
    /// Largest size of a block.
    pub const MAX_BLOCK: u32 = 715_827_542;

    /// Checks everything that the 16 bytes alone can show wrong.
    pub fn parse(bytes: &[u8; 16]) -> Result<Self, BloscError> {
        let (flags, typesize) = (bytes[2], bytes[3]);
        let codec = check_kind(bytes[0], bytes[1], flags, typesize)?;
        let field = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let header = Self {
            typesize,
            nbytes: field(4),
            blocksize: field(8),
            ctbytes: field(12),
            codec,
            filter: Filter::from_flags(flags, typesize),
            shuffle_asked: flags & SHUFFLE != 0,
            memcpyed: flags & MEMCPYED != 0,
            split_allowed: flags & NOT_SPLIT == 0,
        };
        header.check_sizes()?;
        Ok(header)
    }

    fn check_sizes(&self) -> Result<(), BloscError> {
        if self.nbytes > Self::MAX_PLAIN {
            return Err(BloscError::PlainSize {
                found: self.nbytes,
                limit: Self::MAX_PLAIN,
            });
        }
        // An empty chunk has no blocks; its block size (1, from all known writers) means nothing.
        let limit = self.nbytes.min(Self::MAX_BLOCK);
        if self.nbytes > 0 && !(1..=limit).contains(&self.blocksize) {
            return Err(BloscError::BlockSize {
                found: self.blocksize,
                limit,
            });
        }
        let expected = u64::from(self.nbytes) + Self::LEN as u64;
        if self.memcpyed && u64::from(self.ctbytes) != expected {
            return Err(BloscError::MemcpyedSize {
                found: self.ctbytes,
                expected,
            });
        }
        let least = Self::LEN as u64 + 4 * u64::from(self.table_len());
        if u64::from(self.ctbytes) < least {
            return Err(BloscError::StoredSize {
                found: self.ctbytes,
                least,
            });
        }
        Ok(())
    }

    /// Bytes per element, at least 1.
    pub fn typesize(&self) -> u8 {
        self.typesize
    }

    /// Plain bytes of the chunk.
    pub fn nbytes(&self) -> u32 {
        self.nbytes
    }

    /// Plain bytes of every block but the last.
    pub fn blocksize(&self) -> u32 {
        self.blocksize
    }

    /// Stored bytes of the chunk, this header included.
    pub fn ctbytes(&self) -> u32 {
        self.ctbytes
    }

    /// Compressor of its streams.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// What is undone after its streams are decoded.
    pub fn filter(&self) -> Filter {
        self.filter
    }

    /// The filter that its writer was asked to use, which may do nothing to such elements.
    pub(super) fn filter_asked(&self) -> Filter {
        match self.filter {
            Filter::None if self.shuffle_asked => Filter::Shuffle,
            filter => filter,
        }
    }

    /// Whether blocks are split that can be.
    pub(super) fn split_allowed(&self) -> bool {
        self.split_allowed
    }

    /// Bytes of scratch memory that decoding any of its blocks takes.
    pub fn scratch(&self) -> usize {
        scratch_len(self)
    }

    /// The plain bytes follow the header as they are: no table, no codec, no filter.
    pub fn memcpyed(&self) -> bool {
        self.memcpyed
    }

    /// Number of blocks; a memcpyed chunk counts as blocks of raw bytes after the header.
    pub fn blocks(&self) -> u32 {
        match self.nbytes {
            0 => 0,
            nbytes => nbytes.div_ceil(self.blocksize),
        }
    }

    /// Plain bytes of block `i` within the chunk; empty beyond the last block.
    pub fn block_range(&self, i: u32) -> Range<u32> {
        let bound = |i: u64| (i * u64::from(self.blocksize)).min(u64::from(self.nbytes)) as u32;
        bound(u64::from(i))..bound(u64::from(i) + 1)
    }

    /// Stored bytes, within the chunk, of the table of block starts; empty if memcpyed.
    pub fn bstarts_range(&self) -> Range<u32> {
        let start = Self::LEN as u32;
        start..start + 4 * self.table_len()
    }

    /// Entries in the table of block starts. Not yet known to fit when called from the checks.
    fn table_len(&self) -> u32 {
        if self.memcpyed { 0 } else { self.blocks() }
    }

    /// Whether `stored` bytes of this codec could decode to `nbytes` at all.
    ///
    /// Guards allocation by a claimed size. It takes blocks not to share stored bytes, as no writer
    /// lets them.
    pub fn plausible(&self, stored: u64) -> bool {
        let ratio = if self.memcpyed {
            1
        } else {
            self.codec.max_ratio()
        };
        u64::from(self.nbytes) <= stored.saturating_mul(ratio)
    }

    /// Number of streams that block `i` is cut into: one, or one per byte of the element.
    pub(super) fn streams(&self, i: u32) -> usize {
        let typesize = u32::from(self.typesize);
        let full = self.block_range(i).len() == self.blocksize as usize;
        let split = self.split_allowed
            && full
            && usize::from(self.typesize) <= MAX_STREAMS
            && self.blocksize / typesize >= MIN_SPLIT_ELEMENTS;
        if split { usize::from(self.typesize) } else { 1 }
    }
}

/// The flags of a codec and a filter.
pub(super) fn flags(codec: Codec, filter: Filter) -> u8 {
    let filter = match filter {
        Filter::None => 0,
        Filter::Shuffle => SHUFFLE,
        Filter::Bitshuffle => BITSHUFFLE,
    };
    filter | codec.code() << CODEC_SHIFT
}

fn check_kind(version: u8, codec: u8, flags: u8, typesize: u8) -> Result<Codec, BloscError> {
    if version != FORMAT_VERSION {
        return Err(BloscError::FormatVersion { found: version });
    }
    if codec != CODEC_VERSION {
        return Err(BloscError::CodecVersion { found: codec });
    }
    if flags & RESERVED != 0 {
        return Err(BloscError::ReservedFlag { flags });
    }
    if typesize == 0 {
        return Err(BloscError::ZeroTypesize);
    }
    let code = flags >> CODEC_SHIFT;
    Codec::from_code(code).ok_or(BloscError::UnknownCodec { code })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_PLAIN: u32 = ChunkHeader::MAX_PLAIN;
    const MAX_BLOCK: u32 = ChunkHeader::MAX_BLOCK;

    /// lz4, shuffled, split; 1000 float64 in two blocks, of which the second is short.
    const GOOD: [u8; 16] = [2, 1, 0x21, 8, 0x40, 0x1f, 0, 0, 0, 0x10, 0, 0, 0, 2, 0, 0];
    /// What every writer makes of empty input.
    const EMPTY: [u8; 16] = [2, 1, 0x13, 8, 0, 0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0];

    fn with(at: usize, value: &[u8]) -> Result<ChunkHeader, BloscError> {
        let mut bytes = GOOD;
        bytes[at..at + value.len()].copy_from_slice(value);
        ChunkHeader::parse(&bytes)
    }

    #[test]
    fn good_header_describes_its_blocks() {
        let header = ChunkHeader::parse(&GOOD).unwrap();
        assert_eq!(
            (header.codec(), header.filter()),
            (Codec::Lz4, Filter::Shuffle)
        );
        assert_eq!((header.blocks(), header.bstarts_range()), (2, 16..24));
        assert_eq!(
            (header.block_range(0), header.block_range(1)),
            (0..4096, 4096..8000)
        );
        assert!(header.block_range(2).is_empty() && header.block_range(u32::MAX).is_empty());
        assert_eq!(
            (header.streams(0), header.streams(1)),
            (8, 1),
            "a short last block is whole"
        );
    }

    #[test]
    fn every_field_is_checked() {
        use BloscError as E;
        assert_eq!(with(0, &[3]), Err(E::FormatVersion { found: 3 }));
        assert_eq!(with(1, &[2]), Err(E::CodecVersion { found: 2 }));
        assert_eq!(with(2, &[0x29]), Err(E::ReservedFlag { flags: 0x29 }));
        assert_eq!(with(2, &[0xa1]), Err(E::UnknownCodec { code: 5 }));
        assert_eq!(with(3, &[0]), Err(E::ZeroTypesize));
        let large = 2_147_483_632u32;
        let limit = MAX_PLAIN;
        assert_eq!(
            with(4, &large.to_le_bytes()),
            Err(E::PlainSize {
                found: large,
                limit
            })
        );
        let too_small = 4095u32;
        let claimed = E::BlockSize {
            found: 4096,
            limit: too_small,
        };
        assert_eq!(with(4, &too_small.to_le_bytes()), Err(claimed));
        assert_eq!(
            with(8, &[0; 4]),
            Err(E::BlockSize {
                found: 0,
                limit: 8000
            })
        );
        assert_eq!(
            with(12, &[23, 0]),
            Err(E::StoredSize {
                found: 23,
                least: 24
            })
        );
        assert_eq!(
            with(2, &[0x23]),
            Err(E::MemcpyedSize {
                found: 512,
                expected: 8016
            })
        );
    }

    #[test]
    fn blocks_have_their_own_limit() {
        let mut bytes = GOOD;
        bytes[4..8].copy_from_slice(&MAX_PLAIN.to_le_bytes());
        bytes[8..12].copy_from_slice(&(MAX_BLOCK + 1).to_le_bytes());
        let error = BloscError::BlockSize {
            found: MAX_BLOCK + 1,
            limit: MAX_BLOCK,
        };
        assert_eq!(ChunkHeader::parse(&bytes), Err(error));
        bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
        let least = 16 + 4 * u64::from(MAX_PLAIN);
        assert_eq!(
            ChunkHeader::parse(&bytes),
            Err(BloscError::StoredSize { found: 512, least })
        );
    }

    #[test]
    fn empty_chunk_has_no_blocks() {
        let header = ChunkHeader::parse(&EMPTY).unwrap();
        assert_eq!((header.blocks(), header.bstarts_range()), (0, 16..16));
        assert!(header.block_range(0).is_empty() && header.plausible(0));
        let mut short = EMPTY;
        short[12] = 15;
        assert!(ChunkHeader::parse(&short).is_err());
    }

    #[test]
    fn filter_flags_combine() {
        let filter = |flags, typesize| Filter::from_flags(flags, typesize);
        assert_eq!(filter(0x05, 4), Filter::Shuffle, "byte shuffle wins");
        assert_eq!(
            filter(0x05, 1),
            Filter::Bitshuffle,
            "but means nothing for single bytes"
        );
        assert_eq!(filter(0x01, 1), Filter::None);
        assert_eq!(filter(0x04, 1), Filter::Bitshuffle);
    }

    #[test]
    fn split_conditions() {
        assert_eq!(with(2, &[0x31]).unwrap().streams(0), 1, "flag 0x10");
        assert_eq!(with(3, &[16]).unwrap().streams(0), 16);
        assert_eq!(
            with(3, &[17]).unwrap().streams(0),
            1,
            "too many bytes per element"
        );
        assert_eq!(with(8, &1024u32.to_le_bytes()).unwrap().streams(0), 8);
        assert_eq!(
            with(8, &1016u32.to_le_bytes()).unwrap().streams(0),
            1,
            "127 elements"
        );
    }

    #[test]
    fn plausible_by_codec() {
        for (flags, least) in [(0x01, 32), (0x21, 32), (0x41, 364), (0x61, 8), (0x81, 1)] {
            let header = with(2, &[flags]).unwrap();
            assert!(
                header.plausible(least) && !header.plausible(least - 1),
                "{flags:#x}"
            );
        }
    }
}
