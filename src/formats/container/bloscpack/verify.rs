//! The full check: every chunk that can be found is surveyed, and what reading every block does not
//! see is checked: entries of the offsets section, chunks that hold no bytes, and chunks that are
//! lost.
//!
//! It goes by the chunks' headers alone, from the first to the last: a table that leaves a chunk
//! out, which reads do not see, is reported here. Lost chunks are reported in runs, as a file may
//! claim millions. Damage that hides the sizes has been reported when the file was opened.

use super::chunks::{ChunkExtent, UNKNOWN, Whereabouts, read_entries};
use super::read::PackedBytes;
use super::sections::ENTRY;
use crate::array::Piece;
use crate::error::{Error, Fault, Result};

/// Wrong entries reported one by one; the rest are counted.
const TOLD: u64 = 20;

/// Entries read at once.
const ENTRIES: u64 = 512;

/// Spare entries looked at: a sparse file may claim billions. As many as 1.6 million chunks have.
const MOST_SPARE: u64 = 1 << 24;

pub(super) fn verify(data: &PackedBytes, report: &mut dyn FnMut(Fault)) -> Result<()> {
    let mut table = CheckedTable::new(data)?;
    let mut lost = LostRun::default();
    let end = data.chunks.each_chunk(&mut |extent, found| {
        match found {
            Whereabouts::At(place) => {
                lost.end(report);
                table.check(data, extent.number, place.at as i64, report)?;
            }
            Whereabouts::Lost(certain) => {
                lost.add(extent.number, extent.number, || certain.lost(extent.number));
            }
        }
        if is_empty(extent, found) {
            tell(check_empty(data, extent), report)?;
        }
        Ok(())
    })?;
    let chunks = data.chunks.sizes().chunks();
    if end.chunks < chunks {
        lost.add(end.chunks, chunks - 1, || end.why_missing(end.chunks));
    }
    lost.end(report);
    if !data.is_left()? {
        table.check_spare(data, report)?;
    }
    table.finish(report);
    Ok(())
}

/// Visits the blocks of every chunk that has a place. One that cannot be read is visited once.
pub(super) fn survey(data: &PackedBytes, visit: &mut dyn FnMut(Piece)) -> Result<()> {
    let bytes = data.bytes();
    let end = data.chunks.each_chunk(&mut |extent, found| match found {
        Whereabouts::At(_) if extent.plain.start < bytes => data.survey_chunk(extent, visit),
        _ => Ok(()),
    });
    end.map(|_| ())
}

/// Whether a chunk that is there should hold no bytes. It has a header and a digest like any other.
fn is_empty(extent: &ChunkExtent, found: &Whereabouts) -> bool {
    matches!(found, Whereabouts::At(_)) && extent.plain.is_empty()
}

fn check_empty(data: &PackedBytes, extent: &ChunkExtent) -> Result<()> {
    let chunk = data.chunk(extent)?;
    data.decoder.check(&chunk)
}

fn tell(outcome: Result<()>, report: &mut dyn FnMut(Fault)) -> Result<()> {
    match outcome {
        Err(Error::Fault(fault)) => {
            report(*fault);
            Ok(())
        }
        other => other,
    }
}

/// Chunks lost one behind the other.
#[derive(Default)]
struct LostRun {
    /// The fault of the first.
    fault: Option<(u64, Fault)>,
    last: u64,
}

impl LostRun {
    /// Adds the chunks `first..=last`, which follow those added before.
    fn add(&mut self, first: u64, last: u64, fault: impl FnOnce() -> Fault) {
        self.fault.get_or_insert_with(|| (first, fault()));
        self.last = last;
    }

    fn end(&mut self, report: &mut dyn FnMut(Fault)) {
        let Some((first, fault)) = self.fault.take() else {
            return;
        };
        let what = match self.last {
            last if last == first => fault.what.clone(),
            last => format!("chunks {first} to {last} cannot be read: {}", fault.what),
        };
        report(Fault { what, ..fault });
    }
}

/// The offsets section, compared with where the chunks lie.
#[derive(Default)]
struct CheckedTable {
    /// Where the section begins; none if there is none, or none of its entries was ever filled in,
    /// which is legal.
    section: Option<u64>,
    entries: Vec<i64>,
    /// Number of the first of them.
    first: u64,
    wrong: u64,
}

impl CheckedTable {
    fn new(data: &PackedBytes) -> Result<Self> {
        let sections = data.chunks.sections();
        let (Some(section), Some(chunks)) = (sections.offsets, sections.chunks) else {
            return Ok(CheckedTable::default());
        };
        let filled_in = !is_unfinished(data, section, chunks)?;
        Ok(CheckedTable {
            section: filled_in.then_some(section),
            ..CheckedTable::default()
        })
    }

    /// Entries are checked in their order.
    fn check(
        &mut self,
        data: &PackedBytes,
        number: u64,
        expected: i64,
        report: &mut dyn FnMut(Fault),
    ) -> Result<()> {
        let (Some(section), Some(chunks)) = (self.section, data.chunks.sections().chunks) else {
            return Ok(());
        };
        if number >= self.first + self.entries.len() as u64 {
            let count = chunks.saturating_sub(number).min(ENTRIES);
            self.entries = read_entries(&*data.source, section, number, count)?;
            self.first = number;
        }
        let index = number.checked_sub(self.first).map(|index| index as usize);
        if let Some(found) = index.and_then(|index| self.entries.get(index).copied()) {
            self.compare(section, number, expected, found, report);
        }
        Ok(())
    }

    /// Spare entries must be unknown, also in a section that was never filled in, or zeros, as a
    /// hole is read.
    fn check_spare(&mut self, data: &PackedBytes, report: &mut dyn FnMut(Fault)) -> Result<()> {
        let sections = data.chunks.sections();
        let (Some(section), Some(mut from)) = (sections.offsets, sections.chunks) else {
            return Ok(());
        };
        let end = from + sections.spare.min(MOST_SPARE);
        while from < end {
            let entries = read_entries(&*data.source, section, from, (end - from).min(ENTRIES))?;
            for (number, entry) in (from..).zip(&entries).filter(|(_, entry)| **entry != 0) {
                self.compare(section, number, UNKNOWN, *entry, report);
            }
            from += entries.len() as u64;
        }
        Ok(())
    }

    fn compare(
        &mut self,
        section: u64,
        number: u64,
        expected: i64,
        found: i64,
        report: &mut dyn FnMut(Fault),
    ) {
        if expected == found {
            return;
        }
        self.wrong += 1;
        if self.wrong <= TOLD {
            let at = section + number * ENTRY;
            let fault = Fault::new("wrong entry in the offsets section");
            let fault = fault.block(number).bytes(at..at + ENTRY);
            report(fault.expected(expected).found(found));
        }
    }

    fn finish(self, report: &mut dyn FnMut(Fault)) {
        if let more @ 1.. = self.wrong.saturating_sub(TOLD) {
            report(Fault::new(format!(
                "{more} more wrong entries in the offsets section"
            )));
        }
    }
}

/// Whether no entry was ever filled in.
fn is_unfinished(data: &PackedBytes, section: u64, chunks: u64) -> Result<bool> {
    let mut from = 0;
    while from < chunks {
        let count = (chunks - from).min(ENTRIES);
        let entries = read_entries(&*data.source, section, from, count)?;
        if entries.iter().any(|&entry| entry != UNKNOWN) {
            return Ok(false);
        }
        from += count;
    }
    Ok(true)
}
