//! Which chunk holds a byte, and where that chunk lies in the file.
//!
//! Sizes come from the file's header by arithmetic or, where it does not know them, from a walk. Places
//! come from the offsets table as long as it agrees with the chunks it leads to. When it does not, the
//! whole file is walked once: a walk that arrives proves the table wrong, one that breaks leaves the table
//! standing and the chunk bad. A table that is impossible in itself is not asked at all.
//! Used by [`super::data`] and [`super::check`].

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use super::layout::{CHUNK_HEADER, Layout};
use super::segment::{RawHeader, SEGMENT, Segment};
use super::table;
use super::walk::{Walk, cut_short, unsound};
use crate::codec::blosc::ChunkHeader;
use crate::error::{Error, Fault, Result};
use crate::source::Source;

/// Segments kept: some readers at different places.
const KEPT: NonZeroUsize = NonZeroUsize::new(8).unwrap();

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
    /// The table is there and nothing speaks against it.
    table: AtomicBool,
    segments: Mutex<LruCache<(By, u64), Arc<Segment>>>,
}

/// Where a segment comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum By {
    Table,
    Walk,
}

/// What the table leads to.
enum Lookup {
    Chunk(Chunk),
    /// The chunk found is not what the table promises: one of them is wrong.
    Doubtful(Fault),
    /// The table is impossible.
    Impossible,
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
        let walk = Walk::new(layout, sizes.is_none());
        // After a walk for the sizes nothing is left to ask the table.
        let table = AtomicBool::new(layout.offsets.is_some() && sizes.is_some());
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
        let segments = Mutex::new(LruCache::new(KEPT));
        Ok((
            Chunks {
                source,
                layout,
                sizes,
                walk,
                table,
                segments,
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
        for (number, slot) in (index * SEGMENT..).zip(&segment.slots) {
            let header = slot.header().map(ChunkHeader::parse);
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
        match self.segment(By::Walk, index)? {
            Some(segment) => Ok((segment, plain)),
            None => Err(self.walk.why_missing(index * SEGMENT).into()),
        }
    }

    /// Finds a chunk. Whether it is as long as the file's header says is not asked here.
    pub(super) fn get(&self, number: u64) -> Result<Chunk> {
        if self.table.load(Ordering::Relaxed) {
            match self.by_table(number)? {
                Lookup::Chunk(chunk) => return Ok(chunk),
                Lookup::Doubtful(fault) => {
                    if !self.walk.is_sound(&*self.source)? {
                        return Err(fault.block(number).into());
                    }
                }
                Lookup::Impossible => {}
            }
            self.table.store(false, Ordering::Relaxed);
        }
        self.by_walk(number)
            .map_err(|e| e.map_fault(|fault| fault.block(number)))
    }

    fn by_table(&self, number: u64) -> Result<Lookup> {
        let Some(segment) = self.segment(By::Table, number / SEGMENT)? else {
            return Ok(Lookup::Impossible);
        };
        let index = (number % SEGMENT) as usize;
        let Some(slot) = segment.slots.get(index) else {
            return Ok(Lookup::Impossible);
        };
        if !self.layout.has_header(slot.at) {
            return Ok(Lookup::Doubtful(cut_short(
                slot.at,
                CHUNK_HEADER,
                &self.layout,
            )));
        }
        let raw = segment.header(index, &self.layout, &*self.source)?;
        let chunk = match self.chunk(number, slot.at, &raw) {
            Ok(chunk) => chunk,
            Err(Error::Fault(fault)) => return Ok(Lookup::Doubtful(*fault)),
            Err(other) => return Err(other),
        };
        let end = chunk.stored().end + self.layout.digest;
        Ok(match slot.next {
            Some(next) if next != end => Lookup::Doubtful(
                Fault::new("the chunk does not end where the next one begins")
                    .bytes(chunk.stored())
                    .expected(format_args!("the next chunk at {end}"))
                    .found(next),
            ),
            _ => Lookup::Chunk(chunk),
        })
    }

    fn by_walk(&self, number: u64) -> Result<Chunk> {
        let segment = self.segment(By::Walk, number / SEGMENT)?;
        let slot = segment
            .as_ref()
            .and_then(|s| s.slots.get((number % SEGMENT) as usize));
        match slot.and_then(|slot| Some((slot.at, slot.header()?))) {
            Some((at, raw)) => self.chunk(number, at, raw),
            None => Err(self.walk.why_missing(number).into()),
        }
    }

    /// What the header at `at` says, if it is sound and the chunk and its digest are in the file.
    fn chunk(&self, number: u64, at: u64, raw: &RawHeader) -> Result<Chunk> {
        let header = ChunkHeader::parse(raw).map_err(|e| unsound(at, &e))?;
        let needed = u64::from(header.ctbytes()) + self.layout.digest;
        if at
            .checked_add(needed)
            .is_none_or(|end| end > self.layout.len)
        {
            return Err(cut_short(at, needed, &self.layout).into());
        }
        Ok(Chunk { number, at, header })
    }

    /// A segment, from those kept if it is there. `None`: the table is impossible, or the walk ended
    /// before.
    fn segment(&self, by: By, index: u64) -> Result<Option<Arc<Segment>>> {
        let kept = || self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(segment) = kept().get(&(by, index)) {
            return Ok(Some(Arc::clone(segment)));
        }
        let segment = match by {
            By::Table => table::segment(&*self.source, &self.layout, index)?,
            By::Walk => self.walk.segment(&*self.source, index)?,
        };
        let segment = segment.map(Arc::new);
        if let Some(segment) = &segment {
            kept().put((by, index), Arc::clone(segment));
        }
        Ok(segment)
    }
}
