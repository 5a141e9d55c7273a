//! What is stored in one piece, element behind element: contiguous and compact datasets, and those
//! never written.
//!
//! Also the way from such bytes to shown ones, which unfiltered chunks share. Any range may be
//! asked for; where elements are converted, the ones around it are read in steps. Used by
//! [`super`].

use std::ops::Range;
use std::sync::Arc;

use super::{direct_of, each_block};
use crate::array::Piece;
use crate::array::fill::Fill;
use crate::container::hdf5::element::cast::Cast;
use crate::container::hdf5::index::{DatasetEntry, StorageLayout};
use crate::error::{Error, Fault, Result};
use crate::memory::{Arena, room};
use crate::source::{Source, StoredRanges};

/// Bytes converted at a time, on the stack.
const STEP: usize = 16 << 10;

/// Bytes of a block, unless a unit is larger.
const BLOCK: u64 = 256 << 10;

/// Bytes visited at a time.
const SURVEY_STEP: u64 = 8 << 20;

pub(super) struct Unchunked {
    place: RawData,
    cast: Cast,
}

enum RawData {
    /// In the source, from this address on.
    At(Arc<dyn Source>, u64),
    /// In the object header; at least as many as the elements take.
    Compact(Box<[u8]>),
    /// Nowhere.
    Unwritten(Fill),
    /// There are no elements.
    Empty { compact: bool },
}

impl Unchunked {
    /// Bytes that it takes beside itself.
    pub(super) fn weight(&self) -> u64 {
        match &self.place {
            RawData::Compact(stored) => stored.len() as u64,
            RawData::At(..) | RawData::Unwritten(_) | RawData::Empty { .. } => 0,
        }
    }

    pub(super) fn empty(layout: &StorageLayout) -> Unchunked {
        let compact = matches!(layout, StorageLayout::Compact(_));
        Unchunked {
            place: RawData::Empty { compact },
            cast: Cast::same(),
        }
    }

    /// `stored`: bytes of all elements. The end of a contiguous dataset is checked when it is read:
    /// what lies before the end of a truncated file is good.
    pub(super) fn new(
        source: &Arc<dyn Source>,
        dataset: &DatasetEntry,
        stored: u64,
        cast: Cast,
        fill: Fill,
    ) -> Result<Unchunked> {
        let place = match &dataset.layout {
            StorageLayout::Compact(bytes) if (bytes.len() as u64) < stored => {
                let fault = Fault::new("compact data are too short");
                return Err(fault.expected(stored).found(bytes.len()).into());
            }
            StorageLayout::Compact(bytes) => RawData::Compact(bytes.as_slice().into()),
            // Behind a user block, libhdf5 gives an address even to what was never written.
            StorageLayout::Contiguous {
                address: Some(address),
            } if dataset.stored_bytes > 0 => RawData::At(Arc::clone(source), *address),
            _ => RawData::Unwritten(fill),
        };
        Ok(Unchunked { place, cast })
    }

    /// These elements in another file, if they do not lie in the object header.
    pub(super) fn of_file(&self, source: &Arc<dyn Source>) -> Option<Unchunked> {
        let RawData::At(_, address) = &self.place else {
            return None;
        };
        Some(Unchunked {
            place: RawData::At(Arc::clone(source), *address),
            cast: self.cast.clone(),
        })
    }

    pub(super) fn compact(&self) -> Option<&[u8]> {
        match &self.place {
            RawData::Compact(bytes) => Some(bytes),
            RawData::At(..) | RawData::Unwritten(_) | RawData::Empty { .. } => None,
        }
    }

    pub(super) fn codec(&self) -> &'static str {
        match self.place {
            RawData::Compact(_) | RawData::Empty { compact: true } => "compact",
            _ => "none",
        }
    }

    /// Shown bytes from `at` on, within the dataset.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        match &self.place {
            RawData::At(..) | RawData::Compact(_) => {
                read(&self.cast, at, out, &mut |at, out| self.fetch(at, out))
            }
            RawData::Unwritten(fill) => {
                fill.put(at, out);
                Ok(())
            }
            RawData::Empty { .. } => Err(Fault::new("the dataset has no elements").into()),
        }
    }

    /// Visits what is stored of `bytes` shown ones.
    pub(super) fn survey(&self, bytes: u64, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        match (&self.place, self.is_direct()) {
            (RawData::Unwritten(_) | RawData::Empty { .. }, _) => Ok(()),
            (_, true) => {
                steps(0, bytes, visit);
                Ok(())
            }
            (_, false) => self.each_piece(bytes, 0..bytes, &mut |piece| {
                visit(piece);
                Ok(())
            }),
        }
    }

    /// Large units are converted in memory of their own: whole ones, in blocks.
    fn is_direct(&self) -> bool {
        let converts = matches!(self.place, RawData::At(..) | RawData::Compact(_));
        !converts || reads_in_place(&self.cast)
    }

    /// Shown bytes of a block.
    fn block(&self) -> u64 {
        let unit = self.cast.to() as u64;
        (BLOCK / unit).max(1) * unit
    }

    /// Visits the pieces of a range; the whole has `bytes`.
    pub(super) fn each_piece(
        &self,
        bytes: u64,
        range: Range<u64>,
        visit: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        match self.is_direct() {
            true => visit(direct_of(range)),
            false => each_block(bytes, self.block(), range, visit),
        }
    }

    pub(super) fn blocks(&self, bytes: u64) -> u64 {
        match self.is_direct() {
            true => u64::from(bytes > 0),
            false => bytes.div_ceil(self.block()),
        }
    }

    /// Memory that [`Unchunked::decode`] takes for a block.
    pub(super) fn scratch(&self) -> u64 {
        match self.is_direct() || self.cast.in_place() {
            true => 0,
            false => room(self.stored(self.block())),
        }
    }

    /// Converts a block, which `out` has the size of.
    pub(super) fn decode(&self, block: u64, out: &mut [u8], mut scratch: Arena<'_>) -> Result<()> {
        let at = block.saturating_mul(self.block());
        if self.is_direct() {
            let fault = Fault::new("a dataset without chunks has no blocks");
            return Err(fault.block(block).into());
        }
        if self.cast.in_place() {
            self.fetch(self.stored(at), out)?;
            self.cast.apply(out);
            return Ok(());
        }
        let stored = scratch.take(self.stored(out.len() as u64))?;
        self.fetch(self.stored(at), stored)?;
        self.cast.run(stored, out);
        Ok(())
    }

    /// Names what decoding a block, or reading direct bytes, fetches.
    pub(super) fn name(&self, piece: &Piece, needed: &mut StoredRanges) {
        let RawData::At(source, address) = &self.place else {
            return;
        };
        let shown = match *piece {
            Piece::Block { id, block_len, .. } => {
                let at = id.0.saturating_mul(self.block());
                at..at.saturating_add(block_len)
            }
            Piece::Direct { at, take } => at..at.saturating_add(take),
        };
        let stored = around(&self.cast, &shown);
        let place = |at: u64| address.saturating_add(at);
        needed.name(source, place(stored.start)..place(stored.end));
    }

    /// Stored bytes of the units that so many shown bytes are.
    fn stored(&self, shown: u64) -> u64 {
        let units = shown / self.cast.to() as u64;
        units.saturating_mul(self.cast.from() as u64)
    }

    /// Stored bytes from `at` on.
    fn fetch(&self, at: u64, out: &mut [u8]) -> Result<()> {
        match &self.place {
            RawData::At(source, address) => fetch(&**source, *address, at, out),
            RawData::Compact(bytes) => copy(bytes, at, out),
            _ => Err(Fault::new("nothing is stored of the dataset").into()),
        }
    }
}

/// Visits a range of direct bytes, cut into steps.
pub(super) fn steps(start: u64, end: u64, visit: &mut dyn FnMut(Piece)) {
    let mut at = start;
    while at < end {
        let take = (end - at).min(SURVEY_STEP);
        visit(Piece::Direct { at, take });
        at += take;
    }
}

/// Fetches stored bytes from `address + at` on; a fault if the source ends before them.
pub(super) fn fetch(source: &dyn Source, address: u64, at: u64, out: &mut [u8]) -> Result<()> {
    let start = address.saturating_add(at);
    let end = start.saturating_add(out.len() as u64);
    if end > source.len() {
        return Err(beyond_the_end(start, end, source.len()).into());
    }
    source.fetch_one(start, out)
}

pub(super) fn beyond_the_end(start: u64, end: u64, len: u64) -> Fault {
    Fault::new("the stored bytes lie beyond the end of the file")
        .bytes(start..end)
        .expected(format_args!("at most {len}"))
}

fn copy(bytes: &[u8], at: u64, out: &mut [u8]) -> Result<()> {
    let from = usize::try_from(at).ok();
    let part = from.and_then(|at| bytes.get(at..)?.get(..out.len()));
    let short = || {
        Fault::new("compact data are too short")
            .expected(at)
            .found(bytes.len())
    };
    out.copy_from_slice(part.ok_or_else(short)?);
    Ok(())
}

/// Whether any range of shown bytes can be read without other memory than the stack's.
pub(super) fn reads_in_place(cast: &Cast) -> bool {
    cast.from().max(cast.to()) <= STEP
}

/// The stored bytes of the units that shown bytes lie in.
pub(super) fn around(cast: &Cast, shown: &Range<u64>) -> Range<u64> {
    let (from, to) = (cast.from() as u64, cast.to().max(1) as u64);
    let (first, end) = (shown.start / to, shown.end.div_ceil(to));
    first.saturating_mul(from)..end.saturating_mul(from)
}

/// Reads shown bytes from `at` on, whose stored ones `fetch` gives from any place on.
pub(super) fn read(
    cast: &Cast,
    at: u64,
    out: &mut [u8],
    fetch: &mut dyn FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let unit = cast.to();
    let whole = at.is_multiple_of(unit as u64) && out.len().is_multiple_of(unit);
    if whole && cast.in_place() {
        fetch(at, out)?;
        cast.apply(out);
        return Ok(());
    }
    if !reads_in_place(cast) {
        let too_large = format!("units of {unit} bytes are not converted on the stack");
        return Err(Error::Bug(too_large));
    }
    read_around(cast, at, out, fetch)
}

/// Reads shown bytes where units are cut or change their size.
fn read_around(
    cast: &Cast,
    at: u64,
    out: &mut [u8],
    fetch: &mut dyn FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let (from, to) = (cast.from(), cast.to());
    let most = STEP / from.max(to);
    let (mut stored, mut shown) = ([0; STEP], [0; STEP]);
    let mut unit = at / to as u64;
    let mut skip = (at % to as u64) as usize;
    let mut rest = out;
    while !rest.is_empty() {
        let units = (skip + rest.len()).div_ceil(to).min(most);
        let (stored, shown) = (&mut stored[..units * from], &mut shown[..units * to]);
        fetch(unit.saturating_mul(from as u64), stored)?;
        cast.run(stored, shown);
        let n = (shown.len() - skip).min(rest.len());
        rest[..n].copy_from_slice(&shown[skip..skip + n]);
        rest = &mut rest[n..];
        (unit, skip) = (unit + units as u64, 0);
    }
    Ok(())
}
