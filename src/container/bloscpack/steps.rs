//! One step from a chunk to the next, with the offsets table as a hint.
//!
//! A chunk's header says where it ends, and there the next one begins: that is what every real reader goes
//! by. Where the table says the same, nothing more is read. Where it does not, the header found at the
//! end decides: if it looks like one, the table is wrong. If it does not, or this chunk's own header is
//! damaged, the length of this chunk is in doubt. Then the table may lead on to a chunk that fits its
//! neighbours, but nowhere past a chunk that it leaves out ([`super::gap`]).
//! A file whose header does not know the sizes has nothing to recognise a chunk by, and no such way out.
//! Used by [`super::walk`].

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::chunks::Sizes;
use super::gap::{self, Budget};
use super::layout::{CHUNK_HEADER, Layout, cut_short};
use super::segment::{self, Lost, Place, RawHeader, SEGMENT, Slot, Window};
use super::table::Hints;
use crate::codec::blosc::ChunkHeader;
use crate::error::{Fault, Result};
use crate::source::Source;

/// Chunks in a row that may be lost before the walk gives up: a sparse file may claim billions.
const MOST_LOST: u64 = 4096;

/// Chunks found again behind damage, of one file: each takes memory.
const MOST_DECISIONS: usize = 1 << 16;

/// Of the six bytes that are the same in all headers, those that make a damaged one known.
const ENOUGH: usize = 5;

pub(super) struct Steps {
    pub(super) layout: Layout,
    /// What the file's header knows of the sizes.
    sizes: Option<Sizes>,
    decisions: Mutex<Decisions>,
}

/// What the walk knows before a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Where the chunk begins, or the last one that is known ...
    pub(super) at: u64,
    /// ... and so many chunks before it.
    missing: u64,
    /// Plain bytes of all chunks before; sound if the walk is one for sizes.
    pub(super) plain: u64,
}

impl Mark {
    /// The mark of the next chunk, which begins there, if that is known.
    fn before(self, next: Option<u64>) -> Mark {
        match next {
            Some(at) => Mark {
                at,
                missing: 0,
                ..self
            },
            None => Mark {
                missing: self.missing + 1,
                ..self
            },
        }
    }
}

/// A walk under way within one segment.
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) mark: Mark,
    pub(super) hints: Hints,
    window: Window,
}

pub(super) enum Step {
    Chunk(Place),
    End,
    Broken(Fault),
}

/// Where chunks behind damaged ones begin. Decided once: looking again would take its time again.
#[derive(Default)]
struct Decisions {
    places: BTreeMap<u64, u64>,
    /// What is to be said of the chunks up to this one has been said.
    upto: Option<u64>,
    budget: Budget,
}

impl Steps {
    pub(super) fn new(layout: Layout, sizes: Option<Sizes>) -> Self {
        Steps {
            layout,
            sizes,
            decisions: Mutex::default(),
        }
    }

    pub(super) fn first(&self) -> Mark {
        Mark {
            at: self.layout.first,
            missing: 0,
            plain: 0,
        }
    }

    /// Begins at a segment, or goes on to it.
    pub(super) fn run(&self, source: &dyn Source, index: u64, mark: Mark) -> Result<Run> {
        let hints = match self.sizes {
            Some(_) => Hints::read(source, &self.layout, index)?,
            None => Hints::default(),
        };
        Ok(Run {
            number: index * SEGMENT,
            mark,
            hints,
            window: Window::new(),
        })
    }

    /// The next chunk of the segment.
    pub(super) fn step(&self, source: &dyn Source, run: &mut Run) -> Result<Step> {
        let mark = run.mark;
        match self.layout.chunks {
            Some(chunks) if chunks == run.number => return Ok(Step::End),
            None if mark.at == self.layout.len => return Ok(Step::End),
            _ => {}
        }
        if mark.missing > 0 {
            return self.lost(source, run);
        }
        if !self.layout.has_header(mark.at) {
            return Ok(Step::Broken(cut_short(mark.at, CHUNK_HEADER, &self.layout)));
        }
        let raw = run.window.header(source, &self.layout, mark.at)?;
        match self.sizes {
            Some(_) => self.guided(source, run, raw),
            None => Ok(self.sized(run, raw)),
        }
    }

    /// A chunk without a place.
    fn lost(&self, source: &dyn Source, run: &mut Run) -> Result<Step> {
        let Mark { at, missing, .. } = run.mark;
        let lost = Lost {
            behind: run.number - missing,
            at,
        };
        if run.hints.is_empty() || missing > MOST_LOST {
            return Ok(Step::Broken(lost.fault(run.number)));
        }
        run.number += 1;
        let by_table = self.by_table(source, run)?;
        let next = self.decide(source, run.number, at, missing, [by_table, None])?;
        run.mark = run.mark.before(next);
        Ok(Step::Chunk(Place::Lost(lost)))
    }

    /// A step of which the table has a say.
    fn guided(&self, source: &dyn Source, run: &mut Run, raw: RawHeader) -> Result<Step> {
        let at = run.mark.at;
        run.number += 1;
        let by_header = self.end_of(at, &raw);
        let next = match by_header {
            Some(end) if self.is_agreed(run, end) => by_header,
            _ if self.is_behind_last(run.number) => None,
            _ => self.dispute(source, run, &raw, by_header)?,
        };
        run.mark = run.mark.before(next);
        let elsewhere = next.filter(|_| by_header.is_some() && by_header != next);
        Ok(Step::Chunk(Place::At(Slot::with_header(
            at, raw, elsewhere,
        ))))
    }

    /// Where chunk `run.number` begins, if the one before it and the table do not agree.
    fn dispute(
        &self,
        source: &dyn Source,
        run: &mut Run,
        raw: &RawHeader,
        by_header: Option<u64>,
    ) -> Result<Option<u64>> {
        let from = run.mark.at;
        let by_header = match by_header {
            Some(end) if self.is_right(source, run, end)? => by_header,
            _ => None,
        };
        let by_table = self.by_table(source, run)?;
        match by_header {
            // A chunk within this one: nobody can say which of the two is meant.
            Some(end) if segment::parse(raw).is_ok() => {
                let within = by_table.is_some_and(|at| from < at && at < end);
                Ok((!within).then_some(end))
            }
            _ => self.decide(source, run.number, from, 0, [by_header, by_table]),
        }
    }

    /// A step that learns the sizes: a chunk that does not tell its own ends the walk.
    fn sized(&self, run: &mut Run, raw: RawHeader) -> Step {
        let at = run.mark.at;
        let header = match segment::parse(&raw) {
            Ok(header) => header,
            Err(e) => return Step::Broken(unsound(at, &e).block(run.number)),
        };
        if let Some(fault) = implausible(at, &header) {
            return Step::Broken(fault.block(run.number));
        }
        let Some(next) = self.end_of(at, &raw) else {
            let needed = u64::from(header.ctbytes()) + self.layout.digest;
            return Step::Broken(cut_short(at, needed, &self.layout).block(run.number));
        };
        run.number += 1;
        run.mark = Mark {
            at: next,
            missing: 0,
            plain: run.mark.plain.saturating_add(u64::from(header.nbytes())),
        };
        Step::Chunk(Place::At(Slot::with_header(at, raw, None)))
    }

    /// Where a chunk and its digest end, if that is possible. `ctbytes` counts even where the rest of the
    /// header is damaged.
    fn end_of(&self, at: u64, raw: &RawHeader) -> Option<u64> {
        let stored = u64::from(u32::from_le_bytes([raw[12], raw[13], raw[14], raw[15]]));
        let end = at.checked_add(stored)?.checked_add(self.layout.digest)?;
        (stored >= CHUNK_HEADER && end <= self.layout.len).then_some(end)
    }

    fn is_behind_last(&self, number: u64) -> bool {
        self.layout.chunks == Some(number)
    }

    /// Whether the chunk before ends where chunk `run.number` begins by the table, or the last one anywhere.
    fn is_agreed(&self, run: &Run, end: u64) -> bool {
        self.is_behind_last(run.number) || run.hints.place(run.number) == Some(end)
    }

    /// Whether what is at `at`, where the chunk before ends, can be taken for chunk `run.number`.
    fn is_right(&self, source: &dyn Source, run: &mut Run, at: u64) -> Result<bool> {
        let number = run.number;
        let Some(raw) = self.raw(source, run, at)? else {
            return Ok(false);
        };
        if self.is_chunk(at, &raw, number) || self.resembles(&raw, number) {
            return Ok(true);
        }
        // Not itself a header, but if it leads to one it was.
        let Some(next) = self.end_of(at, &raw) else {
            return Ok(false);
        };
        if self.is_behind_last(number + 1) {
            return Ok(segment::parse(&raw).is_ok());
        }
        Ok(run.hints.place(number + 1) == Some(next)
            || self
                .raw(source, run, next)?
                .is_some_and(|raw| self.is_chunk(next, &raw, number + 1)))
    }

    fn raw(&self, source: &dyn Source, run: &mut Run, at: u64) -> Result<Option<RawHeader>> {
        if !self.layout.has_header(at) {
            return Ok(None);
        }
        run.window.header(source, &self.layout, at).map(Some)
    }

    /// Whether the header is sound and that of chunk `number`, by its plain bytes.
    fn is_chunk(&self, at: u64, raw: &RawHeader, number: u64) -> bool {
        let header = segment::parse(raw).ok();
        header.is_some_and(|header| header.nbytes() == self.nbytes(number))
            && self.end_of(at, raw).is_some()
    }

    /// Whether the header is that of chunk `number`, but for some damage.
    fn resembles(&self, raw: &RawHeader, number: u64) -> bool {
        let [a, b, c, d] = self.nbytes(number).to_le_bytes();
        let same = [raw[0], raw[1], raw[4], raw[5], raw[6], raw[7]];
        let same = same.iter().zip([2, 1, a, b, c, d]);
        same.filter(|&(found, expected)| *found == expected).count() >= ENOUGH
    }

    /// Plain bytes that a chunk should have; 0 if that is not known.
    fn nbytes(&self, number: u64) -> u32 {
        let Some(Sizes::Even {
            chunk_size,
            last,
            chunks,
        }) = self.sizes
        else {
            return 0;
        };
        let nbytes = if number + 1 == chunks {
            last
        } else {
            chunk_size
        };
        u32::try_from(nbytes).unwrap_or(0)
    }

    /// Where chunk `run.number` is by the table, if it is one there and the next behind it.
    fn by_table(&self, source: &dyn Source, run: &mut Run) -> Result<Option<u64>> {
        let number = run.number;
        let Some(at) = run.hints.place(number) else {
            return Ok(None);
        };
        let Some(raw) = self.raw(source, run, at)? else {
            return Ok(None);
        };
        let end = self.end_of(at, &raw);
        let Some(end) = end.filter(|_| self.is_chunk(at, &raw, number)) else {
            return Ok(None);
        };
        if self.is_behind_last(number + 1) || run.hints.place(number + 1) == Some(end) {
            return Ok(Some(at));
        }
        let next = self.raw(source, run, end)?;
        let fits = next.is_some_and(|raw| self.is_chunk(end, &raw, number + 1));
        Ok(fits.then_some(at))
    }

    /// The first candidate for the place of a chunk that leaves no other one out. The last chunk with a place
    /// begins at `from`, with a length that is in doubt, and `missing` ones are lost behind it.
    fn decide(
        &self,
        source: &dyn Source,
        number: u64,
        from: u64,
        missing: u64,
        candidates: [Option<u64>; 2],
    ) -> Result<Option<u64>> {
        let decisions = self.decisions.lock();
        let mut decisions = decisions.unwrap_or_else(PoisonError::into_inner);
        if decisions.upto.is_some_and(|upto| number <= upto) {
            return Ok(decisions.places.get(&number).copied());
        }
        let least = self.layout.least_chunk().saturating_mul(missing + 1);
        let is_header = |raw: &RawHeader| self.resembles(raw, 0);
        let budget = &mut decisions.budget;
        let mut decided = None;
        for at in candidates.into_iter().flatten() {
            // A chunk in the gap must be one of those missing.
            if at >= from.saturating_add(least)
                && gap::holds_at_most(source, budget, from + 1..at, missing, &is_header)?
            {
                decided = Some(at);
                break;
            }
        }
        decisions.upto = Some(number);
        decided = decided.filter(|_| decisions.places.len() < MOST_DECISIONS);
        if let Some(at) = decided {
            decisions.places.insert(number, at);
        }
        Ok(decided)
    }
}

pub(super) fn unsound(at: u64, error: &impl std::fmt::Display) -> Fault {
    Fault::new(error.to_string()).bytes(at..at.saturating_add(CHUNK_HEADER))
}

/// The guard before any memory is taken for a chunk's claimed size.
pub(super) fn implausible(at: u64, header: &ChunkHeader) -> Option<Fault> {
    let stored = u64::from(header.ctbytes());
    let codec = header.codec().name();
    (!header.plausible(stored)).then(|| {
        Fault::new("the chunk claims more than it can hold")
            .bytes(at..at.saturating_add(stored))
            .expected(format_args!("what {stored} bytes of {codec} can give"))
            .found(format_args!("{} bytes", header.nbytes()))
    })
}
