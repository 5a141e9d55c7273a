//! Where the directory of a zip file lies: its end record, and that of files of more than 4 GiB.
//!
//! Taken strictly: the directory ends where the end records begin, so nothing is read as one that
//! is not. Used by [`super`].

use crate::error::{Fault, Result};
use crate::memory::fallible;
use crate::source::Source;

const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";

const END_LEN: usize = 22;
const LOCATOR_LEN: usize = 20;
const END_64_LEN: usize = 56;
const COMMENT_MOST: usize = 65535;

/// The bytes of the directory, and how many entries it is said to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectoryPlace {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) entries: u64,
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().map_or(0, u16::from_le_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().map_or(0, u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().map_or(0, u64::from_le_bytes)
}

/// Finds the directory. A comment may look like an end record, so the first one from the end on
/// that fits is it.
pub(super) fn find(source: &dyn Source) -> Result<DirectoryPlace> {
    let len = source.len();
    let tail_len = len.min((END_LEN + COMMENT_MOST + LOCATOR_LEN + END_64_LEN) as u64);
    let mut tail = fallible::zeros(tail_len, "cannot read the end of a zip file")?;
    let tail_at = len - tail_len;
    source.fetch_one(tail_at, &mut tail)?;
    let mut broken = None;
    for at in (0..tail.len().saturating_sub(END_LEN - 1)).rev() {
        let record = &tail[at..];
        let fits = || usize::from(u16_at(record, 20)) == record.len() - END_LEN;
        if !record.starts_with(&END) || !fits() {
            continue;
        }
        match place(source, &tail, (tail_at, at)) {
            Ok(place) => return Ok(place),
            Err(e) => broken = broken.or(Some(e)),
        }
    }
    let none = || Fault::new("the zip file has no end record: it was cut off").into();
    Err(broken.unwrap_or_else(none))
}

/// What an end record says, if the directory is there.
fn place(source: &dyn Source, tail: &[u8], (tail_at, at): (u64, usize)) -> Result<DirectoryPlace> {
    let record = &tail[at..];
    let (mut entries, mut size) = (u64::from(u16_at(record, 10)), u64::from(u32_at(record, 12)));
    let mut start = u64::from(u32_at(record, 16));
    let mut end = tail_at + at as u64;
    let locator = at
        .checked_sub(LOCATOR_LEN)
        .and_then(|from| tail.get(from..at));
    if let Some(locator) = locator.filter(|locator| locator.starts_with(&LOCATOR_64)) {
        let at_64 = u64_at(locator, 8);
        let mut record = [0; END_64_LEN];
        if at_64
            .checked_add(END_64_LEN as u64)
            .is_none_or(|end_64| end_64 > end)
        {
            return Err(misplaced(at_64).into());
        }
        source.fetch_one(at_64, &mut record)?;
        if !record.starts_with(&END_64) {
            return Err(misplaced(at_64).into());
        }
        (entries, size) = (u64_at(&record, 32), u64_at(&record, 40));
        (start, end) = (u64_at(&record, 48), at_64);
    }
    if start.checked_add(size) != Some(end) {
        return Err(misplaced(start).expected(end.saturating_sub(size)).into());
    }
    Ok(DirectoryPlace {
        start,
        end,
        entries,
    })
}

fn misplaced(at: u64) -> Fault {
    Fault::new("the directory of the zip file is not where its end record says").found(at)
}
