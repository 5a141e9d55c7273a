//! The one array of a Bloscpack file: `data`.
//!
//! Joins where chunks lie ([`super::chunks`]), how they are cut ([`super::units`]) and how they are decoded
//! ([`super::stored`]). A block is numbered by the place of its first byte in the array, so no count of
//! chunks or blocks can make numbers collide.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::check;
use super::chunks::{Chunk, Chunks, Extent, Sizes};
use super::layout::Layout;
use super::numpy::Numpy;
use super::segment;
use super::steps::implausible;
use super::stored::{self, Part, Stored};
use super::units::Units;
use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece};
use crate::codec::blosc::{ChunkHeader, Filter};
use crate::codec::checksum::Checksum;
use crate::error::{Error, Fault, Result};
use crate::memory::Scratch;
use crate::source::Source;

/// Decoding that takes less than this beside its output is not charged for it.
const FREE_SCRATCH: u64 = 1 << 20;

/// Largest chunk that is checked when a file is opened, because it holds no bytes.
const SMALL_NOTHING: u64 = 4 << 10;

pub(super) struct Data {
    pub(super) source: Arc<dyn Source>,
    pub(super) chunks: Chunks,
    pub(super) stored: Stored,
    /// What the metadata say, if it fits the data.
    numpy: Option<Numpy>,
    /// The first chunk's header, for what it tells about all; if it is sound.
    first: Option<ChunkHeader>,
}

impl Data {
    pub(super) fn new(source: Arc<dyn Source>, chunks: Chunks, checksum: Checksum) -> Result<Self> {
        let stored = Stored::new(Arc::clone(&source), checksum);
        let first = first_header(&*source, chunks.layout())?;
        Ok(Data {
            source,
            chunks,
            stored,
            numpy: None,
            first,
        })
    }

    pub(super) fn with_numpy(self, numpy: Option<Numpy>) -> Self {
        Data { numpy, ..self }
    }

    pub(super) fn codec(&self) -> Option<&'static str> {
        self.first.map(|header| header.codec().name())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.chunks.sizes().bytes()
    }

    /// A chunk that is all that is expected of it but, perhaps, its contents.
    pub(super) fn chunk(&self, extent: &Extent) -> Result<Chunk> {
        let chunk = self.chunks.get(extent.number)?;
        let expected = extent.plain.end - extent.plain.start;
        if u64::from(chunk.header.nbytes()) != expected {
            let fault = Fault::new("the chunk holds another number of bytes than the file says");
            let fault = fault.block(chunk.number).bytes(chunk.stored());
            return Err(fault.expected(expected).found(chunk.header.nbytes()).into());
        }
        match implausible(chunk.at, &chunk.header) {
            Some(fault) => Err(fault.block(chunk.number).into()),
            None => Ok(chunk),
        }
    }

    /// The fault of a chunk of nothing at the end, which nobody will ever ask for. If it does hold bytes, the
    /// file's header is wrong and the array too short.
    pub(super) fn fault_of_nothing(&self) -> Result<Option<Fault>> {
        let last = match self.chunks.sizes() {
            Sizes::Even {
                last: 0,
                chunks: chunks @ 1..,
                ..
            } => chunks - 1,
            _ => return Ok(None),
        };
        // A chunk of nothing is its header; what claims more is left to the full check.
        let check = |chunk: Chunk| match chunk.stored() {
            stored if stored.end - stored.start > SMALL_NOTHING => Ok(()),
            _ => self.stored.check(&chunk),
        };
        match self.chunk(&self.chunks.even_extent(last)).and_then(check) {
            Err(Error::Fault(fault)) => Ok(Some(*fault)),
            other => other.map(|()| None),
        }
    }

    /// Visits every block of a chunk. One that cannot be read has a single fault, however long it claims to be.
    pub(super) fn survey_chunk(&self, extent: &Extent, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        let (units, end) = match self.chunk(extent) {
            Ok(chunk) => (Units::of(&chunk.header), extent.plain.end),
            Err(Error::Fault(_)) => (Units::unreadable(), Units::unreadable().end(extent)),
            Err(other) => return Err(other),
        };
        let mut pieces = Vec::new();
        units.pieces(extent, extent.plain.start..end, &mut pieces);
        pieces.into_iter().for_each(visit);
        Ok(())
    }

    fn find(&self, block: BlockId) -> Result<(Chunk, Part)> {
        let extent = self.chunks.extent_at(block.0)?;
        let chunk = self.chunk(&extent)?;
        let units = Units::of(&chunk.header);
        let plain = units.plain(&extent, block.0).ok_or_else(|| {
            Fault::new("no block begins at this byte")
                .block(chunk.number)
                .found(block.0)
        })?;
        let blocks = units.blocks(&chunk.header, &plain);
        Ok((chunk, Part { plain, blocks }))
    }
}

impl Array for Data {
    fn name(&self) -> &str {
        "data"
    }

    fn info(&self) -> Result<Info> {
        let bytes = self.bytes();
        let (dtype, shape, order) = match &self.numpy {
            Some(numpy) => (numpy.dtype.clone(), numpy.shape.clone(), numpy.order),
            None => (Dtype::U8, vec![bytes], Order::C),
        };
        Ok(Info {
            dtype,
            shape,
            order,
            bytes,
            stored_bytes: self.source.len(),
            blocks: self.chunks.sizes().chunks(),
            codec: self
                .first
                .map_or(Cow::Borrowed("blosc"), |header| codec_name(&header).into()),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let end = range.end.min(self.bytes());
        let mut at = range.start;
        while at < end {
            let extent = self.chunks.extent_at(at)?;
            let units = match self.chunk(&extent) {
                Ok(chunk) => Units::of(&chunk.header),
                // The good chunks beside it shall be read; decoding this one tells the fault.
                Err(Error::Fault(_)) => Units::unreadable(),
                Err(other) => return Err(other),
            };
            let stop = extent.plain.end.min(end);
            units.pieces(&extent, at..stop, out);
            at = stop;
        }
        Ok(())
    }

    fn scratch(&self, block: BlockId) -> u64 {
        let scratch = self.find(block).map_or(0, |(chunk, part)| {
            stored::scratch(&chunk.header, part.plain.end - part.plain.start)
        });
        if scratch > FREE_SCRATCH { scratch } else { 0 }
    }

    fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Scratch<'_>) -> Result<()> {
        let (chunk, part) = self.find(block)?;
        let len = part.plain.end - part.plain.start;
        if out.len() as u64 != len {
            let fault = Fault::new("the block has another length").block(chunk.number);
            return Err(fault.expected(len).found(out.len()).into());
        }
        let decoded = self.stored.decode(&chunk, &part, out);
        stored::give_back(&chunk.header, len);
        decoded
    }

    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        check::survey(self, visit)
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        check::verify(self, report)
    }
}

/// The first chunk lies where the layout says, whatever the table does.
fn first_header(source: &dyn Source, layout: &Layout) -> Result<Option<ChunkHeader>> {
    if layout.chunks == Some(0) || !layout.has_header(layout.first) {
        return Ok(None);
    }
    let mut raw = [0; ChunkHeader::LEN];
    source.fetch_one(layout.first, &mut raw)?;
    Ok(segment::parse(&raw).ok())
}

/// `blosc lz4 shuffle`.
fn codec_name(header: &ChunkHeader) -> String {
    let filter = match header.filter() {
        Filter::None => "",
        Filter::Shuffle => " shuffle",
        Filter::Bitshuffle => " bitshuffle",
    };
    format!("blosc {}{filter}", header.codec().name())
}
