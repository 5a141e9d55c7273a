//! Which chunk holds a byte, and where that chunk lies in the file.
//!
//! Sizes come from the file's header by arithmetic or, where it does not know them, from a walk. Places
//! come from the walk alone ([`super::walk`]), which goes no further than has been asked for.
//! Used by [`super::data`] and [`super::check`].

use std::ops::Range;
use std::sync::Arc;

use super::layout::{Layout, cut_short};
use super::segment::{self, RawHeader, SEGMENT, Segment, Slot};
use super::steps::unsound;
use super::walk::Walk;
use crate::codec::blosc::ChunkHeader;
use crate::error::{Fault, Result};
use crate::source::Source;

/// Plain bytes of the chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sizes {
    /// `chunk_size` each, `last` for the last.
    Even {
        chunk_size: u64,
        last: u64,
        chunks: u64,
    },
    /// What each chunk's header says, as found by the walk.
    Walked { bytes: u64, chunks: u64 },
}

/// The part of the array that a chunk holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) number: u64,
    pub(super) plain: Range<u64>,
}

/// A chunk with a good header, wholly within the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) number: u64,
    pub(super) at: u64,
    pub(super) header: ChunkHeader,
}

pub(super) struct Chunks {
    source: Arc<dyn Source>,
    layout: Layout,
    sizes: Sizes,
    walk: Walk,
}

impl Sizes {
    pub(super) fn bytes(&self) -> u64 {
        match *self {
            Sizes::Even { chunks: 0, .. } => 0,
            // Checked to fit by the header.
            Sizes::Even {
                chunk_size,
                last,
                chunks,
            } => chunk_size * (chunks - 1) + last,
            Sizes::Walked { bytes, .. } => bytes,
        }
    }

    pub(super) fn chunks(&self) -> u64 {
        match *self {
            Sizes::Even { chunks, .. } | Sizes::Walked { chunks, .. } => chunks,
        }
    }
}

impl Chunk {
    /// Its stored bytes, without the digest.
    pub(super) fn stored(&self) -> Range<u64> {
        self.at..self.at + u64::from(self.header.ctbytes())
    }
}

impl Chunks {
    /// `sizes`: what the header says; without it the file is walked now. The fault tells that the walk
    /// broke off, so that the sizes end there.
    pub(super) fn new(
        source: Arc<dyn Source>,
        layout: Layout,
        sizes: Option<Sizes>,
    ) -> Result<(Self, Option<Fault>)> {
        let walk = Walk::new(layout, sizes);
        let (sizes, fault) = match sizes {
            Some(sizes) => (sizes, None),
            None => {
                let end = walk.end(&*source)?;
                if end.plain > i64::MAX as u64 {
                    let fault = Fault::new("the decoded size is too large");
                    return Err(fault
                        .expected("at most 2^63 - 1 bytes")
                        .found(end.plain)
                        .into());
                }
                (
                    Sizes::Walked {
                        bytes: end.plain,
                        chunks: end.chunks,
                    },
                    end.fault,
                )
            }
        };
        Ok((
            Chunks {
                source,
                layout,
                sizes,
                walk,
            },
            fault,
        ))
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.sizes
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn walk(&self) -> &Walk {
        &self.walk
    }

    /// The chunk that holds byte `plain` of the array.
    pub(super) fn extent_at(&self, plain: u64) -> Result<Extent> {
        if plain >= self.sizes.bytes() {
            return Err(Fault::new("no chunk holds this byte").found(plain).into());
        }
        match self.sizes {
            // There are bytes, so with a chunk size of 0 they are all in the last chunk.
            Sizes::Even {
                chunk_size, chunks, ..
            } => {
                let number = plain
                    .checked_div(chunk_size)
                    .unwrap_or(chunks)
                    .min(chunks - 1);
                Ok(self.even_extent(number))
            }
            Sizes::Walked { .. } => self.walked_extent(plain),
        }
    }

    /// The extent of chunk `number`, of a file whose header knows the sizes.
    pub(super) fn even_extent(&self, number: u64) -> Extent {
        let Sizes::Even {
            chunk_size,
            last,
            chunks,
        } = self.sizes
        else {
            return Extent {
                number,
                plain: 0..0,
            };
        };
        let start = number * chunk_size;
        let len = if number + 1 == chunks {
            last
        } else {
            chunk_size
        };
        Extent {
            number,
            plain: start..start + len,
        }
    }

    fn walked_extent(&self, plain: u64) -> Result<Extent> {
        let index = self.walk.segment_of(plain);
        let (segment, start) = self.walked_segment(index)?;
        let mut start = start;
        for (number, place) in (index * SEGMENT..).zip(&segment.places) {
            let header = place.slot().and_then(Slot::header).map(segment::parse);
            let end = start + header.map_or(0, |h| h.map_or(0, |h| u64::from(h.nbytes())));
            if plain < end {
                return Ok(Extent {
                    number,
                    plain: start..end,
                });
            }
            start = end;
        }
        Err(Fault::new("no chunk holds this byte").found(plain).into())
    }

    /// A segment of the walk and the plain offset where it begins.
    fn walked_segment(&self, index: u64) -> Result<(Arc<Segment>, u64)> {
        let plain = self.walk.mark(index).map_or(0, |mark| mark.plain);
        match self.walk.segment(&*self.source, index)? {
            Some(segment) => Ok((segment, plain)),
            None => Err(self.walk.why_missing(index * SEGMENT).into()),
        }
    }

    /// Finds a chunk. Whether it is as long as the file's header says is not asked here.
    pub(super) fn get(&self, number: u64) -> Result<Chunk> {
        let found = self.walk.find(&*self.source, number).and_then(|found| {
            let chunk = self.chunk(number, found.at, &found.header)?;
            match found.next {
                Some(next) => Err(elsewhere(&chunk, next, &self.layout).into()),
                None => Ok(chunk),
            }
        });
        found.map_err(|e| e.map_fault(|fault| fault.block(number)))
    }

    /// What the header at `at` says, if it is sound and the chunk and its digest are in the file.
    fn chunk(&self, number: u64, at: u64, raw: &RawHeader) -> Result<Chunk> {
        let header = segment::parse(raw).map_err(|e| unsound(at, &e))?;
        let needed = u64::from(header.ctbytes()) + self.layout.digest;
        if at
            .checked_add(needed)
            .is_none_or(|end| end > self.layout.len)
        {
            return Err(cut_short(at, needed, &self.layout).into());
        }
        Ok(Chunk { number, at, header })
    }
}

/// The chunks behind this one do not begin where it says that it ends.
pub(super) fn elsewhere(chunk: &Chunk, next: u64, layout: &Layout) -> Fault {
    let end = chunk.stored().end + layout.digest;
    Fault::new("the chunk does not end where the next one begins")
        .block(chunk.number)
        .bytes(chunk.stored())
        .expected(format_args!("the next chunk at {end}"))
        .found(next)
}
