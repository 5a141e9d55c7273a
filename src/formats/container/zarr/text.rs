//! Strings of variable length, and bytes of such, shown as text: each value and a line feed, in C
//! order.
//!
//! Chunks hold as many values as they have elements, whatever their lengths, so the shown size
//! takes one pass over all of them, made when it is first asked for. A block is what lies between
//! two boundaries of chunks along the first dimension. Used by [`super::assemble`].

mod chunk;
mod layout;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::array::{ArrayPlace, STORED_MOST, name_places, places};
use super::current::ReadChunks;
use super::document::ArrayDocument;
use super::plan::DecodePlan;
use crate::array::dtype::Dtype;
use crate::array::own_feeds::{FoundFeeds, OwnFeeds};
use crate::array::{Array, BlockId, Info, Order, Piece, uneven_pieces};
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::{Arena, fallible, room};
use crate::source::StoredRanges;
use chunk::{TextChunks, TextValue};
use layout::TextBands;

/// TextBands whose chunks are asked for at once of what is far away.
const EXPECTED: u64 = 64;

/// Most bytes of text, and most values.
const MOST: u64 = 1 << 34;

/// Most chunks that are gone through to find out how long a text is.
const CHUNKS_MOST: u64 = 1 << 25;

/// Of more chunks than that, those that are stored are listed: most will be missing, or a look for
/// each would take long anyway.
const LISTED_FROM: u64 = 4096;

/// Most of them that lie beside each other along the further dimensions.
const IN_BAND_MOST: u64 = 1 << 14;

pub(super) struct ZarrText {
    name: String,
    shape: Vec<u64>,
    codec: String,
    stored: u64,
    bands: TextBands,
    chunks: TextChunks,
    budget: Arc<Budget>,
    starts: OnceLock<BandStarts>,
    feeds: OnceLock<FoundFeeds>,
}

/// First shown byte of each band, and the end.
struct BandStarts {
    starts: Vec<u64>,
    _charge: Hold,
}

impl ZarrText {
    pub(super) fn new(name: &str, document: ArrayDocument, at: &ArrayPlace) -> Result<ZarrText> {
        let outer = document.outer_chunk().to_vec();
        let shape = document.shape;
        let DecodePlan {
            shards,
            chunk,
            chain,
            order,
            name: codec,
        } = document.plan;
        let places = places(at, &shape, (document.keys, &outer), (shards, &chunk))?;
        let budget = at.nested.budget();
        let bands = TextBands::new(&shape, &chunk, &order);
        let in_band = bands.chunks() / bands.count().max(1);
        let chunks_most = match at.members.is_far() {
            true => STORED_MOST,
            false => CHUNKS_MOST,
        };
        if bands.values() > MOST || bands.chunks() > chunks_most || in_band > IN_BAND_MOST {
            let why = format!("more text than can be shown: {MOST} values, {chunks_most} chunks");
            return Err(NotShown::new(why).into());
        }
        Ok(ZarrText {
            name: name.to_owned(),
            chunks: TextChunks::new(places, chain, document.fill, budget),
            bands,
            shape,
            codec,
            stored: at.stored(),
            budget: Arc::clone(budget),
            starts: OnceLock::new(),
            feeds: OnceLock::new(),
        })
    }

    /// Two readers may go through the chunks at once; both find the same.
    fn starts(&self) -> Result<&[u64]> {
        if self.starts.get().is_none() {
            let _ = self.starts.set(self.measure()?);
        }
        let starts = self.starts.get().map(|starts| &starts.starts[..]);
        starts.ok_or_else(|| Fault::new("the values were not measured").into())
    }

    fn measure(&self) -> Result<BandStarts> {
        let count = self.bands.count();
        let places = self.chunks.places();
        if self.bands.chunks() > LISTED_FROM {
            places.list()?;
        }
        let charge = self.budget.keep((count + 1).saturating_mul(8))?;
        let count = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let mut starts = fallible::room_for(count, "cannot measure a text")?;
        let mut at = 0u64;
        for band in 0..self.bands.count() {
            if band % EXPECTED == 0 {
                self.expect(band..band.saturating_add(EXPECTED).min(self.bands.count()));
            }
            starts.push(at);
            if !places.has_row(band) {
                let values = self.bands.values_of(band);
                at = at.saturating_add(self.chunks.missing_bytes(values));
                check_length(at)?;
                continue;
            }
            for place in self.bands.places(band) {
                let walk = self.bands.walk(&place);
                at = at.saturating_add(self.chunks.shown_bytes(&place, walk)?);
            }
            check_length(at)?;
        }
        starts.push(at);
        Ok(BandStarts {
            starts,
            _charge: charge,
        })
    }

    /// Has what some bands are made of fetched at once, if it is far away. What cannot be is told
    /// by who reads it.
    fn expect(&self, bands: Range<u64>) {
        let mut needed = StoredRanges::default();
        if bands
            .filter(|band| self.chunks.places().has_row(*band))
            .map(|band| self.name(band, &mut needed))
            .all(|named| named.is_ok())
        {
            needed.hand_over();
        }
    }

    /// Names what a band is made of.
    fn name(&self, band: u64, needed: &mut StoredRanges) -> Result<()> {
        let (places, chunks) = (self.bands.places(band), self.chunks.places());
        let numbers = places
            .iter()
            .filter_map(|place| chunks.number(place))
            .collect();
        let mut before = StoredRanges::default();
        name_places(chunks, numbers, &mut before)?;
        before.hand_over();
        for place in places {
            if let Some(located) = chunks.locate(&place)? {
                needed.name(&located.source, located.range);
            }
        }
        Ok(())
    }

    /// Visits the values of a band, in the order in which they are stored, each with its number
    /// among those that are shown of the band.
    fn each_value(
        &self,
        band: u64,
        visit: &mut dyn FnMut(u64, TextValue<'_>) -> Result<()>,
    ) -> Result<()> {
        for place in self.bands.places(band) {
            let walk = self.bands.walk(&place);
            self.chunks.read(&place, walk, visit)?;
        }
        Ok(())
    }

    /// Notes where each value of a band ends, from `ends` on; without that, they are written one
    /// behind the other.
    fn write(&self, band: u64, ends: Option<&mut [u64]>, out: &mut [u8]) -> Result<()> {
        let len = out.len();
        let changed = || {
            let fault = Fault::new("the values are not as long as when they were measured");
            Error::from(fault.expected(len))
        };
        let Some(ends) = ends else {
            let mut at = 0;
            let written = self.each_value(band, &mut |_, value| put(out, &mut at, value));
            written?;
            return match at == out.len() {
                true => Ok(()),
                false => Err(changed()),
            };
        };
        self.each_value(band, &mut |number, value| {
            if let Some(end) = ends.get_mut(number as usize) {
                *end = value.len() + 1;
            }
            Ok(())
        })?;
        let mut at = 0u64;
        for end in &mut *ends {
            at = at.saturating_add(*end);
            *end = at;
        }
        if at != out.len() as u64 {
            return Err(changed());
        }
        self.each_value(band, &mut |number, value| {
            let end = ends.get(number as usize).copied().unwrap_or(u64::MAX);
            let mut at = end.saturating_sub(value.len() + 1) as usize;
            put(out, &mut at, value)
        })
    }
}

impl ReadChunks for ZarrText {
    fn are_unchanged(&self) -> Result<bool> {
        self.chunks.places().are_unchanged()
    }
}

/// A text that is too long is found out before all of it is measured.
fn check_length(bytes: u64) -> Result<()> {
    if bytes > MOST {
        let why = format!("more text than can be shown: {MOST} bytes");
        return Err(NotShown::new(why).into());
    }
    Ok(())
}

/// Writes a value and its line feed.
fn put(out: &mut [u8], at: &mut usize, value: TextValue<'_>) -> Result<()> {
    let end = at.saturating_add(value.bytes.len());
    let place = out.get_mut(*at..end.saturating_add(1));
    let place = place.and_then(<[u8]>::split_last_mut);
    let (feed, place) =
        place.ok_or_else(|| Fault::new("the values are longer than when they were measured"))?;
    place.copy_from_slice(value.bytes);
    *feed = b'\n';
    *at = end + 1;
    Ok(())
}

impl Array for ZarrText {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        Ok(Info {
            dtype: Dtype::Text,
            shape: self.shape.clone(),
            order: Order::C,
            bytes: self.starts()?.last().copied().unwrap_or(0),
            stored_bytes: self.stored,
            blocks: self.bands.count(),
            codec: self.codec.clone().into(),
        })
    }

    /// Does not measure the values: only a question for their size does.
    fn check_structure(&self) -> Result<()> {
        Ok(())
    }

    fn value_lengths(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
        for band in 0..self.bands.count() {
            let count = usize::try_from(self.bands.values_of(band)).unwrap_or(usize::MAX);
            let mut lengths: Vec<u64> = Vec::new();
            fallible::lengthen(&mut lengths, count, "cannot measure a text")?;
            self.each_value(band, &mut |number, value| {
                if let Some(length) = lengths.get_mut(number as usize) {
                    *length = value.len();
                }
                Ok(())
            })?;
            lengths.into_iter().try_for_each(&mut *visit)?;
        }
        Ok(true)
    }

    fn own_feeds(&self, most: u64) -> Result<Option<Arc<[OwnFeeds]>>> {
        FoundFeeds::known(&self.feeds, self, most, &self.budget)
    }

    fn weight(&self) -> u64 {
        4 << 10
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        uneven_pieces(self.starts()?, range, out);
        Ok(())
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        if let Some(block) = piece.block() {
            self.name(block.0, needed)?;
        }
        Ok(false)
    }

    fn scratch(&self, block: BlockId) -> u64 {
        match self.bands.is_in_order() {
            true => 0,
            false => room(self.bands.values_of(block.0).saturating_mul(8)),
        }
    }

    fn decode(&self, block: BlockId, out: &mut [u8], mut scratch: Arena<'_>) -> Result<()> {
        let ends = match self.bands.is_in_order() {
            true => None,
            false => Some(scratch.take_u64s(self.bands.values_of(block.0))?),
        };
        let written = self.write(block.0, ends, out);
        written.map_err(|e| e.map_fault(|fault| fault.block(block.0)))
    }
}
