//! A file as it would be with pieces over its bytes, before anything is written.
//!
//! What lies over it, and where that comes from, [`SourcePatches`] say: bytes of a log, pieces of a
//! merge, what libhdf5 would write. Its identity is that of the file below, which says so if it
//! changes meanwhile. Used by `container::hdf5`, `commit` and `scratch`.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::sync::Arc;

use super::{Fetch, PosixFile, Source, SourceIdentity, Stat};
use crate::error::{Fault, Result};

/// What lies over a file.
pub trait SourcePatches: Send + Sync {
    type Piece;

    /// In order, none empty; they do not overlap.
    fn pieces(&self) -> &[Self::Piece];

    fn place(piece: &Self::Piece) -> Range<u64>;

    /// Reads from byte `from` of a piece on, which it has: at least one byte.
    fn read(
        &self,
        piece: &Self::Piece,
        below: &dyn Source,
        from: u64,
        out: &mut [u8],
    ) -> Result<usize>;

    /// Fills in what no piece has.
    fn between(&self, below: &dyn Source, at: u64, out: &mut [u8]) -> Result<()> {
        below.fetch_one(at, out)
    }
}

pub struct PatchedSource<P> {
    below: Arc<dyn Source>,
    patches: P,
    len: u64,
}

impl<P: SourcePatches> PatchedSource<P> {
    pub fn new(below: Arc<dyn Source>, patches: P, len: u64) -> PatchedSource<P> {
        PatchedSource {
            below,
            patches,
            len,
        }
    }

    pub fn patches(&self) -> &P {
        &self.patches
    }

    /// Reads from one piece, or from between two of them.
    fn read_some(&self, at: u64, out: &mut [u8]) -> Result<usize> {
        let pieces = self.patches.pieces();
        let next = pieces.partition_point(|piece| P::place(piece).end <= at);
        let place = pieces.get(next).map(P::place);
        let end = |end: u64| end.saturating_sub(at).min(out.len() as u64) as usize;
        match (pieces.get(next), place) {
            (Some(piece), Some(place)) if place.start <= at => {
                let n = end(place.end);
                self.patches
                    .read(piece, &*self.below, at - place.start, &mut out[..n])
            }
            (_, place) => {
                let n = end(place.map_or(u64::MAX, |place| place.start));
                self.patches.between(&*self.below, at, &mut out[..n])?;
                Ok(n)
            }
        }
    }

    fn fill(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at.saturating_add(out.len() as u64);
        let early = |found| {
            Fault::new("the stored bytes end early")
                .bytes(at..end)
                .found(found)
        };
        if end > self.len {
            return Err(early(self.len).into());
        }
        let mut done = 0;
        while done < out.len() {
            match self.read_some(at + done as u64, &mut out[done..])? {
                0 => return Err(early(at + done as u64).into()),
                some => done += some,
            }
        }
        Ok(())
    }
}

impl<P: SourcePatches> Source for PatchedSource<P> {
    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> SourceIdentity {
        self.below.identity()
    }

    fn stat(&self) -> Result<Stat> {
        self.below.stat()
    }

    fn stat_opened(&self) -> Result<Stat> {
        self.below.stat_opened()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        let mut ranges = ranges.iter_mut();
        ranges.try_for_each(|range| self.fill(range.offset, range.buf))
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let n = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        self.fill(offset.min(self.len), &mut buf[..n]).map(|()| n)
    }

    fn as_posix(&self) -> Option<&dyn PosixFile> {
        self.below.as_posix().map(|_| self as &dyn PosixFile)
    }
}

/// Where its holes are, and its descriptor, are not those of the file below.
impl<P: SourcePatches> PosixFile for PatchedSource<P> {
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>> {
        self.below.posix()?.xattr(name)
    }

    fn xattr_names(&self) -> Result<Vec<OsString>> {
        self.below.posix()?.xattr_names()
    }
}
