//! One step from a chunk to the next, as every real reader goes: a chunk's header says where it
//! ends, and there the next one begins.
//!
//! A step is *certain* if a sound header of the right plain size is found there, or if the offsets
//! table says the same. If neither, the length or the next header is damaged. Then the table may
//! lead on to a chunk that fits its next one; without one the walk goes on where the length leads,
//! in doubt, until it is lost. Nothing is shown of a chunk whose own header is unsound, so doubt
//! costs errors and no wrong bytes. A file whose header does not know the sizes has nothing to
//! recognise a chunk by, and no such way out. Used by [`super::ChunkFinder`] from a chunk that is
//! believed, by [`super::walk`] from the first one.

use super::headers::{HeadersAtHand, RawHeader, parse};
use super::offsets::OffsetsTable;
use super::sizes::ChunkSizes;
use crate::container::bloscpack::faults::{cut_short, implausible, unsound};
use crate::container::bloscpack::sections::{CHUNK_HEADER, Sections};
use crate::error::{Fault, Result};
use crate::source::Source;

/// Chunks in a row that may be lost before the walk gives up: a sparse file may claim billions.
const MOST_LOST: u64 = 4096;

/// What a chunk of a file must be like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkRules {
    pub(crate) sections: Sections,
    /// What the file's header knows of the sizes.
    pub(super) sizes: Option<ChunkSizes>,
}

/// Where a walk stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// The next chunk.
    pub(super) number: u64,
    /// Where it begins; none if that is lost.
    at: Option<u64>,
    /// The last chunk that is certain, this one or one before it.
    certain: CertainChunk,
    /// Plain bytes of all chunks before; only if the walk is one for sizes.
    pub(super) plain: u64,
}

/// Where a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    At(HeaderPlace),
    /// Nothing leads to it, behind one that is damaged.
    Lost(CertainChunk),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeaderPlace {
    pub(crate) at: u64,
    pub(crate) raw: RawHeader,
    /// Where the next chunk begins, if that is not where this one's header says.
    pub(crate) next: Option<u64>,
    /// If this one is in doubt: the last chunk before it that is not.
    pub(super) doubted_behind: Option<CertainChunk>,
}

/// A chunk, and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CertainChunk {
    number: u64,
    at: u64,
}

pub(super) enum WalkStep {
    Chunk(Whereabouts),
    End(WalkEnd),
}

/// Where a walk ended: behind the last chunk, or where it broke off.
#[derive(Debug, Clone)]
pub(crate) struct WalkEnd {
    pub(crate) chunks: u64,
    /// Plain bytes of those chunks; only if the walk is one for sizes.
    pub(super) plain: u64,
    pub(super) fault: Option<Fault>,
}

/// Takes steps through a file.
pub(super) struct Stepper<'a> {
    source: &'a dyn Source,
    rules: &'a ChunkRules,
    table: Option<&'a OffsetsTable>,
    headers: HeadersAtHand<'a>,
}

impl ChunkRules {
    pub(super) fn start(&self) -> Standing {
        Standing::at_certain(0, self.sections.first)
    }

    /// Where a chunk and its digest end, if that is possible. `ctbytes` counts even where the rest
    /// of the header is damaged.
    pub(super) fn end_of(&self, at: u64, raw: &RawHeader) -> Option<u64> {
        let stored = u64::from(u32::from_le_bytes([raw[12], raw[13], raw[14], raw[15]]));
        let end = at.checked_add(stored)?.checked_add(self.sections.digest)?;
        (stored >= CHUNK_HEADER && end <= self.sections.len).then_some(end)
    }

    pub(super) fn is_behind_last(&self, number: u64) -> bool {
        self.sections.chunks == Some(number)
    }

    /// Where the chunk at `at` ends, if its header is sound and that of chunk `number`, by its
    /// plain bytes.
    pub(super) fn sound_end(&self, at: u64, raw: &RawHeader, number: u64) -> Option<u64> {
        let header = parse(raw).ok()?;
        let end = self.end_of(at, raw)?;
        (u64::from(header.nbytes()) == self.sizes?.of(number)).then_some(end)
    }
}

impl CertainChunk {
    /// Of a chunk that is lost behind this one.
    pub(crate) fn lost(&self, number: u64) -> Fault {
        let what = format!(
            "lost: chunk {} before it does not lead to the next one",
            self.number
        );
        Fault::new(what)
            .block(number)
            .bytes(self.at..self.at.saturating_add(CHUNK_HEADER))
    }
}

impl WalkEnd {
    /// Why a chunk was not reached.
    pub(crate) fn why_missing(&self, number: u64) -> Fault {
        match self.fault.clone() {
            Some(fault) if self.chunks == number => fault,
            Some(fault) => Fault {
                what: format!("lost behind chunk {}: {}", self.chunks, fault.what),
                block: Some(number),
                ..fault
            },
            None => Fault::new("there is no such chunk").block(number),
        }
    }
}

impl Standing {
    fn end(&self, fault: Option<Fault>) -> WalkStep {
        WalkStep::End(WalkEnd {
            chunks: self.number,
            plain: self.plain,
            fault: fault.map(|fault| fault.block(self.number)),
        })
    }

    pub(super) fn at_certain(number: u64, at: u64) -> Standing {
        Standing {
            number,
            at: Some(at),
            certain: CertainChunk { number, at },
            plain: 0,
        }
    }

    /// At a chunk that has been looked for before.
    pub(super) fn at(number: u64, found: &Whereabouts) -> Standing {
        let (at, certain) = match found {
            Whereabouts::At(place) => (Some(place.at), place.doubted_behind),
            Whereabouts::Lost(certain) => (None, Some(*certain)),
        };
        let certain = certain.or(at.map(|at| CertainChunk { number, at }));
        Standing {
            number,
            at,
            certain: certain.unwrap_or_default(),
            plain: 0,
        }
    }

    fn doubted_behind(&self) -> Option<CertainChunk> {
        (self.certain.number != self.number).then_some(self.certain)
    }
}

impl<'a> Stepper<'a> {
    pub(super) fn new(
        source: &'a dyn Source,
        rules: &'a ChunkRules,
        table: Option<&'a OffsetsTable>,
        headers: HeadersAtHand<'a>,
    ) -> Self {
        Stepper {
            source,
            rules,
            table,
            headers,
        }
    }

    /// The chunk before which the walk stands; then it stands before the next.
    pub(super) fn step(&mut self, standing: &mut Standing) -> Result<WalkStep> {
        let sections = &self.rules.sections;
        match sections.chunks {
            Some(chunks) if chunks == standing.number => return Ok(standing.end(None)),
            None if standing.at == Some(sections.len) => return Ok(standing.end(None)),
            _ => {}
        }
        let Some(at) = standing.at else {
            return self.lost(standing);
        };
        let Some(raw) = self.headers.read(at)? else {
            let fault = cut_short(at, CHUNK_HEADER, sections);
            return Ok(standing.end(Some(fault)));
        };
        match self.rules.sizes {
            Some(_) => self.guided(standing, at, raw),
            None => Ok(self.sized(standing, at, raw)),
        }
    }

    /// A chunk without a place.
    fn lost(&mut self, standing: &mut Standing) -> Result<WalkStep> {
        let Standing {
            number, certain, ..
        } = *standing;
        if self.table.is_none() || number - certain.number > MOST_LOST {
            return Ok(standing.end(Some(certain.lost(number))));
        }
        *standing = match self.led_by_table(number + 1, &certain)? {
            Some(place) => Standing::at_certain(number + 1, place),
            None => Standing {
                number: number + 1,
                ..*standing
            },
        };
        Ok(WalkStep::Chunk(Whereabouts::Lost(certain)))
    }

    /// A step of which the table has a say.
    fn guided(&mut self, standing: &mut Standing, at: u64, raw: RawHeader) -> Result<WalkStep> {
        let Standing {
            number, certain, ..
        } = *standing;
        let doubted_behind = standing.doubted_behind();
        let by_header = self.rules.end_of(at, &raw);
        let (next, is_certain) = match by_header {
            _ if self.rules.is_behind_last(number + 1) => (None, false),
            Some(end) if self.is_certain(number + 1, end)? => {
                // A chunk within this one: which of the two is meant cannot be found out.
                let within = self.sound_by_table(number + 1, at + 1..end)?;
                ((!within).then_some(end), !within)
            }
            _ => match self.led_by_table(number + 1, &certain)? {
                Some(place) => (Some(place), true),
                None => (
                    by_header.filter(|end| self.rules.sections.has_header(*end)),
                    false,
                ),
            },
        };
        *standing = match next {
            Some(place) if is_certain => Standing::at_certain(number + 1, place),
            at => Standing {
                number: number + 1,
                at,
                ..*standing
            },
        };
        Ok(WalkStep::Chunk(Whereabouts::At(HeaderPlace {
            at,
            raw,
            next: next.filter(|_| by_header.is_some() && by_header != next),
            doubted_behind,
        })))
    }

    /// Whether chunk `number` begins at `at`, where the one before it ends.
    fn is_certain(&mut self, number: u64, at: u64) -> Result<bool> {
        Ok(self.by_table(number)? == Some(at) || self.sound_end(number, at)?.is_some())
    }

    /// Where the table has chunk `number`, if its next entry and the chunk behind it agree, and
    /// there is room for those that lie between it and a chunk that is `certain`.
    fn led_by_table(&mut self, number: u64, certain: &CertainChunk) -> Result<Option<u64>> {
        let between = number.saturating_sub(certain.number);
        let least = self.rules.sections.least_chunk().saturating_mul(between);
        let linked = self.linked_by_table(number)?;
        Ok(linked.filter(|at| *at >= certain.at.saturating_add(least)))
    }

    /// Where the table has chunk `number`, if its next entry and the chunk behind it agree.
    pub(super) fn linked_by_table(&mut self, number: u64) -> Result<Option<u64>> {
        let Some(at) = self.by_table(number)? else {
            return Ok(None);
        };
        let Some(end) = self.sound_end(number, at)? else {
            return Ok(None);
        };
        if self.rules.is_behind_last(number + 1) {
            return Ok(Some(at));
        }
        let agreed = self.by_table(number + 1)? == Some(end);
        Ok((agreed && self.sound_end(number + 1, end)?.is_some()).then_some(at))
    }

    /// Whether the table has chunk `number` at a sound header within these bytes.
    fn sound_by_table(&mut self, number: u64, within: std::ops::Range<u64>) -> Result<bool> {
        match self.by_table(number)? {
            Some(at) if within.contains(&at) => Ok(self.sound_end(number, at)?.is_some()),
            _ => Ok(false),
        }
    }

    fn by_table(&self, number: u64) -> Result<Option<u64>> {
        match self.table {
            Some(table) => table.place(self.source, number),
            None => Ok(None),
        }
    }

    /// Where chunk `number` ends, if there is a sound header of it at `at`.
    fn sound_end(&mut self, number: u64, at: u64) -> Result<Option<u64>> {
        let raw = self.headers.read(at)?;
        Ok(raw.and_then(|raw| self.rules.sound_end(at, &raw, number)))
    }

    /// A step that learns the sizes: a chunk that does not hold its own ends the walk.
    fn sized(&self, standing: &mut Standing, at: u64, raw: RawHeader) -> WalkStep {
        let header = match parse(&raw) {
            Ok(header) => header,
            Err(e) => return standing.end(Some(unsound(at, &e))),
        };
        if let Some(fault) = implausible(at, &header) {
            return standing.end(Some(fault));
        }
        let Some(next) = self.rules.end_of(at, &raw) else {
            let needed = u64::from(header.ctbytes()) + self.rules.sections.digest;
            return standing.end(Some(cut_short(at, needed, &self.rules.sections)));
        };
        *standing = Standing {
            plain: standing.plain.saturating_add(u64::from(header.nbytes())),
            ..Standing::at_certain(standing.number + 1, next)
        };
        WalkStep::Chunk(Whereabouts::At(HeaderPlace {
            at,
            raw,
            next: None,
            doubted_behind: None,
        }))
    }
}
