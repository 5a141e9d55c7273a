//! Which chunk holds a byte, and where that chunk lies in the file.
//!
//! Sizes come from the file's header by arithmetic or, where it does not know them, from a walk
//! over all chunks. Where a chunk begins is a function of the file alone, whatever was read before:
//!
//! 1. Its entry in the offsets table is *believed* if three chunks agree: a sound header of the
//!    right plain size is at the entry, the chunk of the entry before it ends there, and it ends
//!    itself at the next entry, where such a header is as well. (The first chunk begins where the
//!    sections end, the last one ends in the file.)
//! 2. Else it is found from the nearest believed chunk before it, at most [`FAR_BACK`] chunks away,
//!    or from the first one, by going from header to header ([`step`]). That is how every real
//!    reader goes.
//! 3. Where that and the table lead to different chunks, each of which the next one behind it fits,
//!    the file is walked from its first chunk ([`walk`]). So it is without a table.
//!
//! So a wrong entry harms nothing where the headers are sound. What this does not see, and only
//! `verify` does: a run of entries of *other* chunks in their order, as behind a chunk that the
//! table leaves out. Within the run three neighbours agree, so all of it but its first chunk is
//! shown as the table has it, and so is what is found from there: chunks right behind the run
//! without a believed entry of their own. And behind a damaged length, which leads nowhere, an
//! entry is believed if the next one agrees. docs/formats.md says the same; `tests/lies.rs` asserts
//! it.
//!
//! Used by [`super::read`] and [`super::verify`].

mod headers;
mod offsets;
mod remembered;
mod sizes;
mod step;
mod walk;

use std::ops::Range;
use std::sync::Arc;

use super::faults::{cut_short, elsewhere, unsound};
use super::sections::Sections;
use crate::codec::blosc::ChunkHeader;
use crate::error::{Fault, Result};
use crate::memory::budget::Budget;
use crate::source::{Source, StoredRanges};
use crate::sync::{Mutex, MutexGuard};

pub(super) use headers::parse;
pub(super) use offsets::{UNKNOWN, read_entries};
pub(super) use sizes::{ChunkExtent, ChunkSizes};
pub(super) use step::{WalkEnd, Whereabouts};

use headers::{HeadersAtHand, LastHeaders};
use offsets::OffsetsTable;
use remembered::Remembered;
use step::{ChunkRules, HeaderPlace, Standing, Stepper, WalkStep};
use walk::HeaderWalk;

/// How far before a chunk a believed one is looked for.
const FAR_BACK: u64 = 512;

/// Chunks that are believed at once: far fewer than are remembered, or the first of many small ones
/// would be forgotten before they are asked for, and each of them would be looked at again for
/// every one.
const AT_ONCE: u64 = 256;

/// Chunks of a range are asked for with their headers up to this size, or that of the range.
const NAMED: u64 = 4 << 20;

/// A chunk with a good header, wholly within the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundChunk {
    pub(super) number: u64,
    pub(super) at: u64,
    pub(super) header: ChunkHeader,
}

pub(super) struct ChunkFinder {
    source: Arc<dyn Source>,
    rules: ChunkRules,
    sizes: ChunkSizes,
    /// Only of a file whose header knows the sizes: else there is nothing to check it by.
    table: Option<OffsetsTable>,
    walk: HeaderWalk,
    last_headers: Mutex<LastHeaders>,
    remembered: Mutex<Remembered>,
}

impl FoundChunk {
    /// Its stored bytes, without the digest.
    pub(super) fn stored(&self) -> Range<u64> {
        self.at..self.at + u64::from(self.header.ctbytes())
    }
}

impl ChunkFinder {
    /// `sizes`: what the file's header says; without it the file is walked now. The fault says that
    /// the walk broke off, so that the sizes end there.
    pub(super) fn new(
        source: Arc<dyn Source>,
        sections: Sections,
        sizes: Option<ChunkSizes>,
        budget: &Arc<Budget>,
    ) -> Result<(Self, Option<Fault>)> {
        let rules = ChunkRules { sections, sizes };
        let mut finder = ChunkFinder {
            source,
            rules,
            sizes: sizes.unwrap_or(ChunkSizes::Walked {
                bytes: 0,
                chunks: 0,
            }),
            table: sizes.and_then(|_| OffsetsTable::of(&sections)),
            walk: HeaderWalk::new(&rules, budget),
            last_headers: Mutex::default(),
            remembered: Mutex::default(),
        };
        if sizes.is_some() {
            return Ok((finder, None));
        }
        let WalkEnd {
            chunks,
            plain,
            fault,
        } = finder.walk_to_end()?;
        if plain > i64::MAX as u64 {
            let fault = Fault::new("the decoded size is too large");
            return Err(fault.expected("at most 2^63 - 1 bytes").found(plain).into());
        }
        finder.sizes = ChunkSizes::Walked {
            bytes: plain,
            chunks,
        };
        Ok((finder, fault))
    }

    pub(super) fn sizes(&self) -> ChunkSizes {
        self.sizes
    }

    pub(super) fn sections(&self) -> &Sections {
        &self.rules.sections
    }

    /// The chunk that holds byte `plain` of the array.
    pub(super) fn extent_at(&self, plain: u64) -> Result<ChunkExtent> {
        if plain >= self.sizes.bytes() {
            return Err(Fault::new("no chunk holds this byte").found(plain).into());
        }
        match self.sizes.extent_at(plain) {
            Some(extent) => Ok(extent),
            None => self.walked_extent(plain),
        }
    }

    fn walked_extent(&self, plain: u64) -> Result<ChunkExtent> {
        if let Some(extent) = self.lock().extent_at(plain) {
            return Ok(extent);
        }
        let nowhere = || Fault::new("no chunk holds this byte").found(plain);
        let mut standing = self.walk.mark_of_plain(plain).ok_or_else(nowhere)?;
        let mut stepper = self.stepper();
        while standing.plain <= plain {
            let before = standing;
            let WalkStep::Chunk(found) = stepper.step(&mut standing)? else {
                return Err(nowhere().into());
            };
            let extent = extent_between(&before, &standing);
            self.lock().remember(extent.clone(), found);
            if extent.plain.contains(&plain) {
                return Ok(extent);
            }
        }
        Err(nowhere().into())
    }

    /// Names what finding the chunks of a range of the array fetches, by the table, which may be
    /// wrong: their headers and those of their neighbours, and what lies between if that is little.
    pub(super) fn name(&self, plain: &Range<u64>, needed: &mut StoredRanges) -> Result<()> {
        let chunk_at = |at: u64| Some(self.sizes.extent_at(at)?.number);
        let ends = chunk_at(plain.start).zip(chunk_at(plain.end.saturating_sub(1)));
        let (Some(table), Some((first, last))) = (&self.table, ends) else {
            return Ok(());
        };
        let [before, at, _] = table.around(&*self.source, first)?;
        let [_, last, next] = table.around(&*self.source, last)?;
        let behind = next.or(last);
        if let (Some(at), Some(behind)) = (at, behind)
            && behind
                .checked_sub(at)
                .is_some_and(|len| len <= NAMED.max(plain.end - plain.start))
        {
            needed.name(&self.source, at..behind.saturating_add(headers::WINDOW));
        }
        for at in [before, at, last, next].into_iter().flatten() {
            needed.name(&self.source, at..at.saturating_add(ChunkHeader::LEN as u64));
        }
        Ok(())
    }

    /// Finds a chunk. Whether it is as long as the file's header says is not asked here.
    pub(super) fn find(&self, number: u64) -> Result<FoundChunk> {
        let place = match self.locate(number)? {
            Whereabouts::At(place) => place,
            Whereabouts::Lost(certain) => return Err(certain.lost(number).into()),
        };
        let chunk = self.chunk(number, &place);
        chunk.map_err(|error| error.map_fault(|fault| fault.block(number)))
    }

    /// What the header says, if it is sound and the chunk and its digest are in the file.
    fn chunk(&self, number: u64, place: &HeaderPlace) -> Result<FoundChunk> {
        let at = place.at;
        let header = parse(&place.raw).map_err(|e| unsound(at, &e))?;
        let needed = u64::from(header.ctbytes()) + self.rules.sections.digest;
        if at
            .checked_add(needed)
            .is_none_or(|end| end > self.rules.sections.len)
        {
            return Err(cut_short(at, needed, &self.rules.sections).into());
        }
        let chunk = FoundChunk { number, at, header };
        match place.next {
            Some(next) => Err(elsewhere(&chunk, next, &self.rules.sections).into()),
            None => Ok(chunk),
        }
    }

    fn locate(&self, number: u64) -> Result<Whereabouts> {
        if let Some(found) = self.lock().places.get(&number) {
            return Ok(*found);
        }
        if let Some(place) = self.believe(number)? {
            return Ok(Whereabouts::At(place));
        }
        let start = self.start_near(number)?;
        let mut stepper = self.stepper();
        if let Some(start) = start
            && let Some(found) = self.walk_near(&mut stepper, start, number)?
        {
            return Ok(found);
        }
        let Some(mut standing) = self.walk.mark_before(&mut stepper, number)? else {
            return Err(self.walk_to_end()?.why_missing(number).into());
        };
        loop {
            let (at, found) = self.step(&mut stepper, &mut standing, number)?;
            // Of those on the way the table may be believed.
            if at == number || self.table.is_none() {
                self.lock().put(at, found);
            }
            if at == number {
                return Ok(found);
            }
        }
    }

    /// The place of a chunk by the table, if it is believed. Chunks behind it whose headers were
    /// read along are remembered too.
    fn believe(&self, number: u64) -> Result<Option<HeaderPlace>> {
        let Some(table) = &self.table else {
            return Ok(None);
        };
        let around = table.around(&*self.source, number)?;
        if !self.may_be(number, &around) {
            return Ok(None);
        }
        let mut headers = self.headers();
        let places: Vec<u64> = around.into_iter().flatten().collect();
        headers.read_together(&places)?;
        let believed = self.believed(table, &mut headers, number)?;
        let (mut next, mut found) = (number, believed);
        while let Some(place) = found {
            self.lock().put(next, Whereabouts::At(place));
            next += 1;
            let known = self.lock().places.contains(&next);
            let more = next - number < AT_ONCE && !known;
            found = match more && self.at_hand_behind(&headers, &place) {
                true => self.believed(table, &mut headers, next)?,
                false => None,
            };
        }
        Ok(believed)
    }

    /// Whether the headers of the two chunks behind one were read along with it.
    fn at_hand_behind(&self, headers: &HeadersAtHand<'_>, place: &HeaderPlace) -> bool {
        let next = self.rules.end_of(place.at, &place.raw);
        let behind = next.and_then(|at| self.rules.end_of(at, &headers.at_hand(at)?));
        behind.is_some_and(|at| headers.at_hand(at).is_some())
    }

    /// Whether entries could be those of a chunk and its neighbours, by themselves.
    fn may_be(&self, number: u64, around: &[Option<u64>; 3]) -> bool {
        let least = self.rules.sections.least_chunk();
        let room = |before: u64, at: u64| before.checked_add(least).is_some_and(|end| end <= at);
        match *around {
            _ if number >= self.sizes.chunks() => false,
            [None, Some(_), _] if number > 0 => false,
            [before, Some(at), next] => {
                let last = self.rules.is_behind_last(number + 1);
                before.is_none_or(|before| room(before, at))
                    && next.map_or(last, |next| room(at, next))
            }
            _ => false,
        }
    }

    /// A chunk at its entry, if its neighbours agree.
    fn believed(
        &self,
        table: &OffsetsTable,
        headers: &mut HeadersAtHand<'_>,
        number: u64,
    ) -> Result<Option<HeaderPlace>> {
        let around = table.around(&*self.source, number)?;
        let [before, Some(at), next] = around else {
            return Ok(None);
        };
        if !self.may_be(number, &around) {
            return Ok(None);
        }
        let mut sound_end = |number: u64, at: u64| -> Result<Option<u64>> {
            let raw = headers.read(at)?;
            Ok(raw.and_then(|raw| self.rules.sound_end(at, &raw, number)))
        };
        let Some(end) = sound_end(number, at)? else {
            return Ok(None);
        };
        if let Some(before) = before
            && sound_end(number - 1, before)? != Some(at)
        {
            return Ok(None);
        }
        if let Some(next) = next
            && (end != next || sound_end(number + 1, next)?.is_none())
        {
            return Ok(None);
        }
        let raw = headers.read(at)?;
        Ok(raw.map(|raw| HeaderPlace {
            at,
            raw,
            next: None,
            doubted_behind: None,
        }))
    }

    /// The nearest chunk before this one whose place is known, if there is one near.
    fn start_near(&self, number: u64) -> Result<Option<Standing>> {
        let nearest = number.saturating_sub(FAR_BACK);
        for before in (nearest..number).rev() {
            let known = self.lock().places.get(&before).copied();
            let known = match known {
                Some(known) => Some(known),
                None => self.believe(before)?.map(Whereabouts::At),
            };
            if let Some(known) = known {
                return Ok(Some(Standing::at(before, &known)));
            }
        }
        Ok((nearest == 0).then(|| self.rules.start()))
    }

    /// Goes from a chunk whose place is known to one near behind it; `None` where the table has a
    /// run of chunks of its own, elsewhere: then only the walk from the first chunk tells which of
    /// the two it is.
    fn walk_near(
        &self,
        stepper: &mut Stepper<'_>,
        mut standing: Standing,
        number: u64,
    ) -> Result<Option<Whereabouts>> {
        let start = standing.number;
        loop {
            let (at, found) = self.step(stepper, &mut standing, number)?;
            if let Whereabouts::At(place) = found
                && at > start
                && stepper
                    .linked_by_table(at)?
                    .is_some_and(|by_table| by_table != place.at)
            {
                return Ok(None);
            }
            self.lock().put(at, found);
            if at == number {
                return Ok(Some(found));
            }
        }
    }

    /// One step, and the number of the chunk stepped over; a fault if it is the end before chunk
    /// `wanted`.
    fn step(
        &self,
        stepper: &mut Stepper<'_>,
        standing: &mut Standing,
        wanted: u64,
    ) -> Result<(u64, Whereabouts)> {
        let at = standing.number;
        match stepper.step(standing)? {
            WalkStep::Chunk(found) => Ok((at, found)),
            WalkStep::End(end) => Err(end.why_missing(wanted).into()),
        }
    }

    /// Visits every chunk as the walk finds it, with the part of the array that it holds: the truth
    /// that the offsets table is checked against.
    pub(super) fn each_chunk(
        &self,
        visit: &mut dyn FnMut(&ChunkExtent, &Whereabouts) -> Result<()>,
    ) -> Result<WalkEnd> {
        let mut stepper = self.stepper();
        let mut standing = self.rules.start();
        loop {
            let before = standing;
            let found = match stepper.step(&mut standing)? {
                WalkStep::Chunk(found) => found,
                WalkStep::End(end) => return Ok(end),
            };
            let extent = match self.sizes {
                ChunkSizes::Even { .. } => self.sizes.extent(before.number),
                ChunkSizes::Walked { .. } => extent_between(&before, &standing),
            };
            visit(&extent, &found)?;
        }
    }

    fn walk_to_end(&self) -> Result<WalkEnd> {
        self.walk.end(&mut self.stepper())
    }

    fn stepper(&self) -> Stepper<'_> {
        Stepper::new(
            &*self.source,
            &self.rules,
            self.table.as_ref(),
            self.headers(),
        )
    }

    fn headers(&self) -> HeadersAtHand<'_> {
        HeadersAtHand::new(&*self.source, &self.rules.sections, &self.last_headers)
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock()
    }
}

/// The extent of the chunk that a walk for sizes has stepped over.
fn extent_between(before: &Standing, behind: &Standing) -> ChunkExtent {
    ChunkExtent {
        number: before.number,
        plain: before.plain..behind.plain,
    }
}

#[cfg(test)]
mod tests {
    use super::remembered::REMEMBERED;
    use super::*;
    use crate::container::bloscpack::tests::files::{self, File, Stored};
    use crate::container::bloscpack::{even_sizes, read_headers};

    /// More headers of such small chunks lie in what is read at once than are remembered.
    #[test]
    fn the_chunk_behind_a_believed_one_is_remembered_however_small_chunks_are() {
        let chunks = vec![files::chunk(&[7], 1); 3 * REMEMBERED];
        let stored = Stored::new(&File::of_chunks(chunks, 1).without_checksum().bytes());
        let source = stored.source();
        let (header, _) = read_headers(&*source).unwrap();
        let sections = Sections::new(
            &header,
            crate::container::bloscpack::header::LEN as u64,
            source.len(),
        )
        .unwrap();
        let (sizes, budget) = (even_sizes(&header).unwrap(), Budget::by_default());
        let (finder, _) = ChunkFinder::new(source, sections, sizes, &budget).unwrap();
        for number in [0, 10, 2000] {
            finder.find(number).unwrap();
            assert!(finder.lock().places.contains(&(number + 1)), "{number}");
        }
    }
}
