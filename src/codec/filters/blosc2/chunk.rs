//! A Blosc2 chunk: 32-byte header, starts of blocks, and per block one stream or one per byte.
//!
//! A stream is its length and so many bytes; of length 0 it is all zeros, negative with a token it
//! is all one byte, and as long as it is plain it is stored raw. A header can also say that the
//! whole chunk is one value.

use super::undo::Blosc2Filters;
use crate::blosc::{blosclz, lz4};
use crate::contexts::Contexts;
use crate::filters::error::FilterError;
use crate::filters::libraries;
use crate::filters::tools::Tools;

/// Latest format version known; 3 is the first with this header.
const VERSIONS: std::ops::RangeInclusive<u8> = 3..=5;

const SHUFFLE_AND_BITSHUFFLE: u8 = 0x05;
const MEMCPYED: u8 = 0x02;
const NOT_SPLIT: u8 = 0x10;
const CODEC_SHIFT: u32 = 5;

const DICTIONARY: u8 = 0x01;
const LAZY: u8 = 0x08;
const INSTRUMENTED: u8 = 0x80;

/// The first 32 bytes, checked as far as they can be alone.
pub(super) struct Blosc2Header {
    typesize: usize,
    pub(super) nbytes: usize,
    /// Plain bytes of every block but the last; at least 1.
    pub(super) blocksize: usize,
    cbytes: usize,
    flags: u8,
    flags2: u8,
    filters: Blosc2Filters,
}

impl Blosc2Header {
    const LEN: usize = 32;

    /// Whether the header is that of Blosc2, by both shuffle flags being set.
    pub(super) fn is_extended(stored: &[u8]) -> bool {
        stored
            .get(2)
            .is_some_and(|flags| flags & SHUFFLE_AND_BITSHUFFLE == SHUFFLE_AND_BITSHUFFLE)
    }

    fn parse(stored: &[u8]) -> Result<Self, FilterError> {
        let bytes = stored
            .first_chunk::<{ Self::LEN }>()
            .ok_or_else(FilterError::truncated)?;
        if !Self::is_extended(stored) || !VERSIONS.contains(&bytes[0]) {
            let fault = FilterError::new("the chunk has an unknown format version");
            return Err(fault.expected("3 to 5").found(bytes[0]));
        }
        let field = |at: usize| {
            let value =
                i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            usize::try_from(value).map_err(|_| FilterError::new("a size is negative").found(value))
        };
        let header = Self {
            typesize: usize::from(bytes[3]),
            nbytes: field(4)?,
            blocksize: field(8)?,
            cbytes: field(12)?,
            flags: bytes[2],
            flags2: bytes[31],
            filters: Blosc2Filters::new(bytes)?,
        };
        header.check(stored.len())?;
        Ok(header)
    }

    fn check(&self, stored: usize) -> Result<(), FilterError> {
        let refuse = |what: &str| Err(FilterError::new(what));
        if self.typesize == 0 {
            return refuse("the chunk has elements of 0 bytes");
        }
        if self.blocksize == 0 || self.nbytes > 0 && self.blocksize > self.nbytes {
            return refuse("the chunk's blocks do not fit it");
        }
        if self.cbytes > stored || self.cbytes < Self::LEN {
            let fault = FilterError::new("the chunk claims an impossible number of stored bytes");
            return Err(fault
                .expected(format_args!("32 to {stored}"))
                .found(self.cbytes));
        }
        match self.flags2 {
            flags if flags & DICTIONARY != 0 => refuse("dictionaries are not supported"),
            flags if flags & INSTRUMENTED != 0 => refuse("the chunk holds measurements"),
            flags if flags & LAZY != 0 && self.special_code() == 0 => refuse("the chunk is lazy"),
            _ => Ok(()),
        }
    }

    fn special_code(&self) -> u8 {
        self.flags2 >> 4 & 7
    }
}

/// A value that fills a whole chunk.
pub(super) enum Special<'a> {
    Bytes(&'a [u8]),
    Nan4,
    Nan8,
}

impl Special<'_> {
    /// The value that the highest byte of an offset in the index stands for.
    pub(super) fn of_index(code: u8, typesize: usize) -> Result<Self, FilterError> {
        match code {
            code if code & 0b101 != 0 => Ok(Self::Bytes(&[0])),
            code if code & 0b010 != 0 => Self::nan(typesize),
            _ => Err(FilterError::new("a chunk of an unknown value")),
        }
    }

    fn nan(typesize: usize) -> Result<Self, FilterError> {
        match typesize {
            4 => Ok(Self::Nan4),
            8 => Ok(Self::Nan8),
            _ => Err(FilterError::new("a chunk of NaNs of no float's size").found(typesize)),
        }
    }

    /// Repeats the value; what was never written is zeros.
    pub(super) fn fill(&self, out: &mut [u8]) -> Result<(), FilterError> {
        match self {
            Self::Bytes([byte]) => out.fill(*byte),
            Self::Bytes(value) => repeat(value, out)?,
            Self::Nan4 => repeat(&f32::NAN.to_le_bytes(), out)?,
            Self::Nan8 => repeat(&f64::NAN.to_le_bytes(), out)?,
        }
        Ok(())
    }
}

fn repeat(value: &[u8], out: &mut [u8]) -> Result<(), FilterError> {
    if value.is_empty() || !out.len().is_multiple_of(value.len()) {
        return Err(FilterError::new("the chunk is no multiple of its value"));
    }
    out.chunks_exact_mut(value.len())
        .for_each(|item| item.copy_from_slice(value));
    Ok(())
}

/// A chunk that decodes block by block.
pub(super) struct Blosc2Chunk<'a> {
    pub(super) header: Blosc2Header,
    bytes: &'a [u8],
}

impl<'a> Blosc2Chunk<'a> {
    pub(super) fn parse(stored: &'a [u8]) -> Result<Self, FilterError> {
        let header = Blosc2Header::parse(stored)?;
        let bytes = &stored[..header.cbytes];
        Ok(Self { header, bytes })
    }

    pub(super) fn blocks(&self) -> usize {
        self.header.nbytes.div_ceil(self.header.blocksize)
    }

    /// The value that the whole chunk consists of, if it does.
    pub(super) fn special(&self) -> Result<Option<Special<'a>>, FilterError> {
        let typesize = self.header.typesize;
        Ok(Some(match self.header.special_code() {
            0 => return Ok(None),
            1 | 4 => Special::Bytes(&[0]),
            2 => Special::nan(typesize)?,
            3 => {
                let value = self
                    .bytes
                    .get(Blosc2Header::LEN..Blosc2Header::LEN + typesize);
                Special::Bytes(value.ok_or_else(FilterError::truncated)?)
            }
            code => return Err(FilterError::new("a chunk of an unknown value").found(code)),
        }))
    }

    /// Whether blocks are decoded with the help of the first one.
    pub(super) fn needs_first(&self) -> bool {
        self.header.filters.delta
    }

    /// Decodes block `i` into `out`, which must have its length.
    ///
    /// `first` begins with the first block, decoded; it is not there for that block itself.
    pub(super) fn decode_block(
        &self,
        mut tools: Tools,
        i: usize,
        first: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<(), FilterError> {
        if self.header.flags & MEMCPYED != 0 {
            let from = Blosc2Header::LEN + i * self.header.blocksize;
            let raw = self
                .bytes
                .get(from..from + out.len())
                .ok_or_else(FilterError::truncated)?;
            out.copy_from_slice(raw);
            return Ok(());
        }
        let filters = &self.header.filters;
        if filters.is_empty() {
            self.decode_streams(tools.contexts, i, out)?;
        } else {
            let planes = tools.take(out.len())?;
            self.decode_streams(tools.contexts, i, planes)?;
            filters.undo(tools, self.header.typesize, planes, out)?;
        }
        if filters.delta {
            super::undo::undo_delta(self.header.typesize, first, out);
        }
        Ok(())
    }

    /// Decodes the streams of block `i`, one behind the other.
    fn decode_streams(
        &self,
        contexts: &mut Contexts,
        i: usize,
        out: &mut [u8],
    ) -> Result<(), FilterError> {
        let start = self
            .bytes
            .get(Blosc2Header::LEN + 4 * i..)
            .and_then(<[u8]>::first_chunk);
        let start = i32::from_le_bytes(*start.ok_or_else(FilterError::truncated)?);
        let rest = usize::try_from(start)
            .ok()
            .and_then(|start| self.bytes.get(start..));
        let mut rest =
            rest.ok_or_else(|| FilterError::new("a block starts outside").found(start))?;
        let split = self.header.flags & NOT_SPLIT == 0 && out.len() == self.header.blocksize;
        let streams = if split { self.header.typesize } else { 1 };
        if !out.len().is_multiple_of(streams) {
            let fault = FilterError::new("a block does not divide into its streams");
            return Err(fault.expected(streams).found(out.len()));
        }
        for plain in out.chunks_exact_mut(out.len() / streams) {
            self.decode_stream(contexts, &mut rest, plain)?;
        }
        Ok(())
    }

    fn decode_stream(
        &self,
        contexts: &mut Contexts,
        rest: &mut &[u8],
        plain: &mut [u8],
    ) -> Result<(), FilterError> {
        let (len, behind) = rest
            .split_first_chunk()
            .ok_or_else(FilterError::truncated)?;
        let len = i32::from_le_bytes(*len);
        *rest = behind;
        match usize::try_from(len) {
            Ok(0) => plain.fill(0),
            Ok(len) => {
                let (bytes, behind) = rest
                    .split_at_checked(len)
                    .ok_or_else(FilterError::truncated)?;
                *rest = behind;
                self.decode_codec(contexts, bytes, plain)?;
            }
            Err(_) => {
                let (token, behind) = rest.split_first().ok_or_else(FilterError::truncated)?;
                *rest = behind;
                match u8::try_from(-i64::from(len)) {
                    Ok(byte) if token & 1 == 1 => plain.fill(byte),
                    _ => return Err(FilterError::new("a stream of unknown form").found(len)),
                }
            }
        }
        Ok(())
    }

    fn decode_codec(
        &self,
        contexts: &mut Contexts,
        bytes: &[u8],
        plain: &mut [u8],
    ) -> Result<(), FilterError> {
        if bytes.len() == plain.len() {
            plain.copy_from_slice(bytes);
            return Ok(());
        }
        let written = match self.header.flags >> CODEC_SHIFT {
            0 => blosclz::decode(bytes, plain).map(|()| plain.len())?,
            1 => lz4::decode(bytes, plain).map(|()| plain.len())?,
            3 => libraries::deflate(contexts, bytes, plain)?,
            4 => libraries::zstd(contexts, bytes, plain)?,
            code => return Err(FilterError::new("the codec is not supported").found(code)),
        };
        match written == plain.len() {
            true => Ok(()),
            false => Err(FilterError::new("a stream decodes to too few bytes")
                .expected(plain.len())
                .found(written)),
        }
    }
}
