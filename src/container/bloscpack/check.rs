//! The full check: every chunk that can be found is surveyed, and what reading every block does not see is
//! checked: entries of the offsets section, chunks that hold no bytes, and chunks that are lost.
//!
//! Lost chunks are told in runs, as a file may claim millions. Damage that keeps sizes from being known has
//! been told when the file was opened.

use std::sync::Arc;

use super::chunks::{Extent, Sizes};
use super::data::Data;
use super::segment::{self, Place, SEGMENT, Segment};
use super::table;
use crate::array::Piece;
use crate::error::{Error, Fault, Result};

/// Wrong entries told one by one; the rest are counted.
const TOLD: u64 = 20;

/// Spare entries looked at: a sparse file may claim billions. As many as 1.6 million chunks have.
const MOST_SPARE: u64 = 1 << 24;

/// Entry of a chunk whose place the writer did not, or not yet, fill in.
const UNKNOWN: i64 = -1;

pub(super) fn verify(data: &Data, report: &mut dyn FnMut(Fault)) -> Result<()> {
    check_offsets(data, report)?;
    let mut lost = LostRun::default();
    each_segment(data, &mut |index, segment| {
        for (number, place) in (index * SEGMENT..).zip(&segment.places) {
            match place {
                Place::At(_) => lost.end(report),
                Place::Lost(at) => lost.add(number, number, || at.fault(number)),
            }
            if is_empty(data, number, place) {
                tell(check_empty(data, number), report)?;
            }
        }
        Ok(())
    })?;
    let end = data.chunks.walk().end(&*data.source)?;
    let chunks = data.chunks.sizes().chunks();
    if end.chunks < chunks {
        let fault = || data.chunks.walk().why_missing(end.chunks);
        lost.add(end.chunks, chunks - 1, fault);
    }
    lost.end(report);
    Ok(())
}

/// Visits the blocks of every chunk that has a place. One that cannot be read is visited once.
pub(super) fn survey(data: &Data, visit: &mut dyn FnMut(Piece)) -> Result<()> {
    let bytes = data.bytes();
    let mut at = 0;
    each_segment(data, &mut |index, segment| {
        for (number, place) in (index * SEGMENT..).zip(&segment.places) {
            let extent = match data.chunks.sizes() {
                Sizes::Even { .. } => data.chunks.even_extent(number),
                Sizes::Walked { .. } => walked(place, number, at),
            };
            at = extent.plain.end;
            if place.slot().is_some() && extent.plain.start < bytes {
                data.survey_chunk(&extent, visit)?;
            }
        }
        Ok(())
    })
}

/// The extent of a chunk that begins at `start` and says its size itself.
fn walked(place: &Place, number: u64, start: u64) -> Extent {
    let len = plain_len(place).unwrap_or(0);
    Extent {
        number,
        plain: start..start.saturating_add(len),
    }
}

/// Plain bytes, if the chunk's header was read and is sound.
fn plain_len(place: &Place) -> Option<u64> {
    let header = segment::parse(place.slot()?.header()?).ok()?;
    Some(u64::from(header.nbytes()))
}

type Visit<'a> = &'a mut dyn FnMut(u64, &Segment) -> Result<()>;

/// Goes over the segments as far as the walk goes.
fn each_segment(data: &Data, visit: Visit<'_>) -> Result<()> {
    let segment = |index| -> Result<Option<Arc<Segment>>> {
        data.chunks.walk().segment(&*data.source, index)
    };
    let mut index = 0;
    while let Some(segment) = segment(index)? {
        visit(index, &segment)?;
        index += 1;
    }
    Ok(())
}

/// Whether a chunk that is there should hold no bytes. It has a header and a digest like any other.
fn is_empty(data: &Data, number: u64, place: &Place) -> bool {
    let plain = data.chunks.even_extent(number).plain;
    let len = match data.chunks.sizes() {
        Sizes::Even { .. } => Some(plain.end - plain.start),
        Sizes::Walked { .. } => plain_len(place),
    };
    place.slot().is_some() && len == Some(0)
}

fn check_empty(data: &Data, number: u64) -> Result<()> {
    let chunk = match data.chunks.sizes() {
        Sizes::Even { .. } => data.chunk(&data.chunks.even_extent(number))?,
        Sizes::Walked { .. } => data.chunks.get(number)?,
    };
    data.stored.check(&chunk)
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

/// Compares every entry with the walk, as far as it goes: the real reader goes by the walk alone.
fn check_offsets(data: &Data, report: &mut dyn FnMut(Fault)) -> Result<()> {
    let layout = data.chunks.layout();
    let (Some(section), Some(chunks)) = (layout.offsets, layout.chunks) else {
        return Ok(());
    };
    let mut wrong = Wrong {
        section,
        count: 0,
        report,
    };
    if !is_unfinished(data, section, chunks)? {
        each_segment(data, &mut |index, segment| {
            check_segment(data, segment, index, &mut wrong)
        })?;
    }
    let mut from = chunks;
    let end = chunks + layout.spare.min(MOST_SPARE);
    while from < end {
        let entries = table::entries(&*data.source, section, from, (end - from).min(SEGMENT))?;
        for (number, entry) in (from..).zip(&entries) {
            wrong.check(number, UNKNOWN, *entry);
        }
        from += entries.len() as u64;
    }
    wrong.finish();
    Ok(())
}

/// Whether no entry was ever filled in, which is legal.
fn is_unfinished(data: &Data, section: u64, chunks: u64) -> Result<bool> {
    let mut from = 0;
    while from < chunks {
        let count = (chunks - from).min(SEGMENT);
        let entries = table::entries(&*data.source, section, from, count)?;
        if entries.iter().any(|&entry| entry != UNKNOWN) {
            return Ok(false);
        }
        from += count;
    }
    Ok(true)
}

/// Where the walk has lost its way, it says nothing about the table.
fn check_segment(data: &Data, segment: &Segment, index: u64, wrong: &mut Wrong<'_>) -> Result<()> {
    let from = index * SEGMENT;
    let count = segment.places.len() as u64;
    let entries = table::entries(&*data.source, wrong.section, from, count)?;
    for ((number, place), entry) in (from..).zip(&segment.places).zip(entries) {
        if let Some(slot) = place.slot() {
            wrong.check(number, slot.at as i64, entry);
        }
    }
    Ok(())
}

/// Entries that are not what they must be.
struct Wrong<'a> {
    section: u64,
    count: u64,
    report: &'a mut dyn FnMut(Fault),
}

impl Wrong<'_> {
    fn check(&mut self, number: u64, expected: i64, found: i64) {
        if expected == found {
            return;
        }
        self.count += 1;
        if self.count <= TOLD {
            let at = self.section + number * 8;
            let fault = Fault::new("wrong entry in the offsets section");
            let fault = fault.block(number).bytes(at..at + 8);
            (self.report)(fault.expected(expected).found(found));
        }
    }

    fn finish(self) {
        if let more @ 1.. = self.count.saturating_sub(TOLD) {
            (self.report)(Fault::new(format!(
                "{more} more wrong entries in the offsets section"
            )));
        }
    }
}
