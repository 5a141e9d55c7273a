//! The one array of a Bloscpack file: `data`.
//!
//! The way of a read: [`chunks`](super::chunks) says which chunk holds a byte and where it lies,
//! [`cut`] which of its blocks are wanted, [`decode`] reads and decodes those, once [`digest`] has
//! seen the chunk to be whole. A block is numbered by the place of its first byte in the array, so
//! no count of chunks or blocks can make numbers collide.

mod cut;
mod decode;
mod digest;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::chunks::{ChunkExtent, ChunkFinder, ChunkSizes, FoundChunk, parse};
use super::faults::implausible;
use super::layout;
use super::metadata::numpy::Numpy;
use super::sections::Sections;
use super::verify;
use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece};
use crate::codec::blosc::{ChunkHeader, Filter};
use crate::codec::checksum::Checksum;
use crate::error::{Error, Fault, Result};
use crate::memory::Arena;
use crate::source::{Source, StoredRanges};
use cut::ChunkCut;
use decode::{ChunkDecoder, WantedBlocks};

/// Largest chunk that is checked when a file is opened, because it holds no bytes.
const SMALL_NOTHING: u64 = 4 << 10;

pub(super) struct PackedBytes {
    pub(super) source: Arc<dyn Source>,
    pub(super) chunks: ChunkFinder,
    pub(super) decoder: ChunkDecoder,
    /// What the metadata say, if it fits the data.
    numpy: Option<Numpy>,
    /// The first chunk's header, for what holds of all; if it is sound.
    first: Option<ChunkHeader>,
    /// The source is a file of a scratch store, read through its log.
    is_in_log: bool,
}

impl PackedBytes {
    pub(super) fn new(
        (source, is_in_log): (Arc<dyn Source>, bool),
        chunks: ChunkFinder,
        checksum: Checksum,
    ) -> Result<Self> {
        let decoder = ChunkDecoder::new(Arc::clone(&source), checksum);
        let first = first_header(&*source, chunks.sections())?;
        Ok(PackedBytes {
            source,
            chunks,
            decoder,
            numpy: None,
            first,
            is_in_log,
        })
    }

    /// Whether a scratch mount that was killed has left it: then anything may stand in spare
    /// entries of the table until the store is mounted again.
    pub(super) fn is_left(&self) -> Result<bool> {
        Ok(self.is_in_log || layout::is_left(&*self.source)?)
    }

    pub(super) fn with_numpy(self, numpy: Option<Numpy>) -> Self {
        PackedBytes { numpy, ..self }
    }

    pub(super) fn codec(&self) -> Option<&'static str> {
        self.first.map(|header| header.codec().name())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.chunks.sizes().bytes()
    }

    /// A chunk that is all that is expected of it but, perhaps, its contents.
    pub(super) fn chunk(&self, extent: &ChunkExtent) -> Result<FoundChunk> {
        let chunk = self.chunks.find(extent.number)?;
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

    /// The fault of a chunk of nothing at the end, which no read ever asks for. If it does hold
    /// bytes, the file's header is wrong and the array too short.
    pub(super) fn fault_of_nothing(&self) -> Result<Option<Fault>> {
        let last = match self.chunks.sizes() {
            ChunkSizes::Even {
                last: 0,
                chunks: chunks @ 1..,
                ..
            } => chunks - 1,
            _ => return Ok(None),
        };
        // A chunk of nothing is its header; what claims more is left to the full check.
        let check = |chunk: FoundChunk| match chunk.stored() {
            stored if stored.end - stored.start > SMALL_NOTHING => Ok(()),
            _ => self.decoder.check(&chunk),
        };
        match self
            .chunk(&self.chunks.sizes().extent(last))
            .and_then(check)
        {
            Err(Error::Fault(fault)) => Ok(Some(*fault)),
            other => other.map(|()| None),
        }
    }

    /// Visits every block of a chunk. One that cannot be read has a single fault, however long it
    /// claims to be.
    pub(super) fn survey_chunk(
        &self,
        extent: &ChunkExtent,
        visit: &mut dyn FnMut(Piece),
    ) -> Result<()> {
        let (cut, end) = match self.chunk(extent) {
            Ok(chunk) => (ChunkCut::of(&chunk.header), extent.plain.end),
            Err(Error::Fault(_)) => (ChunkCut::unreadable(), ChunkCut::unreadable().end(extent)),
            Err(other) => return Err(other),
        };
        let mut pieces = Vec::new();
        cut.pieces(extent, extent.plain.start..end, &mut pieces);
        pieces.into_iter().for_each(visit);
        Ok(())
    }

    fn wanted(&self, block: BlockId) -> Result<(FoundChunk, WantedBlocks)> {
        let extent = self.chunks.extent_at(block.0)?;
        let chunk = self.chunk(&extent)?;
        let cut = ChunkCut::of(&chunk.header);
        let plain = cut.plain(&extent, block.0).ok_or_else(|| {
            Fault::new("no block begins at this byte")
                .block(chunk.number)
                .found(block.0)
        })?;
        let blocks = cut.blocks(&chunk.header, &plain);
        Ok((chunk, WantedBlocks { plain, blocks }))
    }
}

impl Array for PackedBytes {
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
            let cut = match self.chunk(&extent) {
                Ok(chunk) => ChunkCut::of(&chunk.header),
                // The good chunks beside it shall be read; decoding this one returns the fault.
                Err(Error::Fault(_)) => ChunkCut::unreadable(),
                Err(other) => return Err(other),
            };
            let stop = extent.plain.end.min(end);
            cut.pieces(&extent, at..stop, out);
            at = stop;
        }
        Ok(())
    }

    fn places_known(&self, range: &Range<u64>) -> bool {
        self.chunks.remembers(range)
    }

    fn stored_places(&self, range: &Range<u64>, needed: &mut StoredRanges) -> Result<()> {
        self.chunks.name(range, needed)
    }

    fn stored(&self, piece: &Piece, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        match piece.block() {
            Some(block) => {
                let (chunk, wanted) = self.wanted(block)?;
                self.decoder.stored(&chunk, &wanted, round, needed)
            }
            None => Ok(false),
        }
    }

    /// A block that is not found takes none: decoding it returns the fault.
    fn scratch(&self, block: BlockId) -> u64 {
        let wanted = self.wanted(block);
        wanted.map_or(0, |(chunk, wanted)| {
            self.decoder.scratch(&chunk.header, &wanted)
        })
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        let (chunk, wanted) = self.wanted(block)?;
        let len = wanted.plain.end - wanted.plain.start;
        if out.len() as u64 != len {
            let fault = Fault::new("the block has another length").block(chunk.number);
            return Err(fault.expected(len).found(out.len()).into());
        }
        self.decoder.decode(&chunk, &wanted, out, scratch)
    }

    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        verify::survey(self, visit)
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        verify::verify(self, report)
    }
}

/// The first chunk lies where the sections end, whatever the table says.
fn first_header(source: &dyn Source, sections: &Sections) -> Result<Option<ChunkHeader>> {
    if sections.chunks == Some(0) || !sections.has_header(sections.first) {
        return Ok(None);
    }
    let mut raw = [0; ChunkHeader::LEN];
    source.fetch_one(sections.first, &mut raw)?;
    Ok(parse(&raw).ok())
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
