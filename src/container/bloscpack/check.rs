//! What a full check sees and reading every block does not: entries of the offsets section, and chunks
//! that hold no bytes.
//!
//! Missing and damaged chunks that hold bytes are found by whoever decodes every block; damage that keeps
//! sizes from being known has been told when the file was opened.

use super::chunks::Sizes;
use super::data::Data;
use super::segment::{SEGMENT, Segment};
use super::table;
use crate::codec::blosc::ChunkHeader;
use crate::error::{Error, Fault, Result};

/// Wrong entries told one by one; the rest are counted.
const TOLD: u64 = 20;

/// Entry of a chunk whose place the writer did not, or not yet, fill in.
const UNKNOWN: i64 = -1;

pub(super) fn verify(data: &Data, report: &mut dyn FnMut(Fault)) -> Result<()> {
    check_offsets(data, report)?;
    match data.chunks.sizes() {
        Sizes::Even {
            chunk_size: 0,
            chunks,
            ..
        } => (0..chunks).try_for_each(|number| check_empty(data, number, report)),
        Sizes::Even {
            last: 0,
            chunks: chunks @ 1..,
            ..
        } => check_empty(data, chunks - 1, report),
        Sizes::Even { .. } => Ok(()),
        Sizes::Walked { .. } => check_empties_walked(data, report),
    }
}

/// An empty chunk has a header and a digest like any other.
fn check_empty(data: &Data, number: u64, report: &mut dyn FnMut(Fault)) -> Result<()> {
    let chunk = data.chunk(&data.chunks.even_extent(number));
    tell(chunk.and_then(|chunk| data.stored.check(&chunk)), report)
}

fn check_empties_walked(data: &Data, report: &mut dyn FnMut(Fault)) -> Result<()> {
    let mut index = 0;
    while let Some(segment) = data.chunks.walk().segment(&*data.source, index)? {
        for (number, slot) in (index * SEGMENT..).zip(&segment.slots) {
            let header = slot.header().and_then(|raw| ChunkHeader::parse(raw).ok());
            if header.is_some_and(|header| header.nbytes() == 0) {
                let chunk = data.chunks.get(number);
                tell(chunk.and_then(|chunk| data.stored.check(&chunk)), report)?;
            }
        }
        index += 1;
    }
    Ok(())
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
        let mut index = 0;
        while let Some(segment) = data.chunks.walk().segment(&*data.source, index)? {
            check_segment(data, &segment, index, &mut wrong)?;
            index += 1;
        }
    }
    let mut from = chunks;
    let end = chunks + layout.spare;
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

/// Behind a damaged header the walk may have lost its way, and says nothing about the table.
fn check_segment(data: &Data, segment: &Segment, index: u64, wrong: &mut Wrong<'_>) -> Result<()> {
    let from = index * SEGMENT;
    let entries = table::entries(
        &*data.source,
        wrong.section,
        from,
        segment.slots.len() as u64,
    )?;
    let last_sure = data.chunks.walk().first_damaged().unwrap_or(u64::MAX);
    for ((number, slot), entry) in (from..=last_sure).zip(&segment.slots).zip(entries) {
        wrong.check(number, slot.at as i64, entry);
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
