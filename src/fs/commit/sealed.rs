//! How a file that a commit changes in place is recognised, from the seal of the log until the
//! commit has come to its end.
//!
//! Its size and time meanwhile were never recorded, and a committer that may write a file need not
//! be able to set its time. The bytes that the commit leaves alone stay as they were, and each
//! sector of those that it changes is the old one or the new one: samples of both are taken before
//! anything is changed ([`seal`]), and compared after a crash ([`can_be`]). All of it is looked at
//! wherever the file may begin. Used by [`super::in_place`] and [`super::recovery_state`].

use std::ops::Range;

use super::fingerprint::{SECTOR, beginnings, fingerprint, read_filled};
use super::grown::has_grown;
use super::recovery_state::{is_like, path_of};
use super::redo::STEP;
use crate::error::Result;
use crate::range_set::RangeSet;
use crate::source::{Source, Stat, Timestamp};
use crate::stage::log::{Patch, RangeSample, SealedFile};
use crate::stage::{BaseFile, LogOf, LogState};

/// Samples of changed bytes, at most, beside those where the file may begin.
const SAMPLES: usize = 16;

/// A file that is about to be changed.
pub(super) struct Sealing<'a> {
    pub(super) number: u32,
    pub(super) name: &'a str,
    pub(super) old: &'a dyn Source,
    /// In order, none of which overlap.
    pub(super) patches: &'a [Patch],
    pub(super) len: u64,
    /// None: it cannot be set.
    pub(super) mtime: Option<Timestamp>,
}

/// The seal of a file. `logged`: reads from the log the bytes that are going to be written.
pub(super) fn seal(
    of: &Sealing<'_>,
    logged: &dyn Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<SealedFile> {
    let changed = of.patches.iter().map(Patch::range);
    let stays = of.old.len().min(of.len);
    Ok(SealedFile {
        file: of.number,
        name: of.name.to_owned(),
        mtime: of.mtime.map(|mtime| (mtime.secs, mtime.nanos)),
        untouched: fingerprint(of.old, &changed.collect(), stays)?,
        samples: samples(of, logged)?,
    })
}

fn samples(
    of: &Sealing<'_>,
    logged: &dyn Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<Vec<RangeSample>> {
    // How long the file is in between says nothing of the bytes behind both of its ends.
    let stays = of.old.len().min(of.len);
    let there = of.patches.partition_point(|patch| patch.at < stays);
    let there = &of.patches[..there];
    let step = there.len().div_ceil(SAMPLES).max(1);
    let spread = there.iter().step_by(step).map(|patch| {
        // The rest of the sector in which it begins: the disk writes a sector at once.
        let range = patch.range();
        let sector = (range.start / SECTOR + 1).saturating_mul(SECTOR);
        (range.start..sector.min(range.end).min(stays), Some(patch))
    });
    let beginnings = beginnings(stays).flat_map(|place| parts(place, there));
    let each = spread.chain(beginnings);
    each.map(|(range, patch)| sample(of.old, range, patch, logged))
        .collect()
}

/// A range cut into what patches put there, and what none of them does.
fn parts(range: Range<u64>, patches: &[Patch]) -> Vec<(Range<u64>, Option<&Patch>)> {
    let first = patches.partition_point(|patch| patch.range().end <= range.start);
    let within = patches[first..].iter();
    let (mut parts, mut at) = (Vec::new(), range.start);
    for patch in within.take_while(|patch| patch.at < range.end) {
        let put = patch.at.max(at)..patch.range().end.min(range.end);
        parts.push((at..put.start, None));
        at = put.end;
        parts.push((put, Some(patch)));
    }
    parts.push((at..range.end, None));
    parts.retain(|(range, _)| !range.is_empty());
    parts
}

/// Of bytes in one sector.
fn sample(
    old: &dyn Source,
    range: Range<u64>,
    patch: Option<&Patch>,
    logged: &dyn Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<RangeSample> {
    let mut buf = [0; SECTOR as usize];
    let bytes = &mut buf[..(range.end - range.start) as usize];
    read_filled(old, range.start, bytes)?;
    let old = crc32fast::hash(bytes);
    if let Some(patch) = patch {
        logged(patch.logged.start + (range.start - patch.at), bytes)?;
    }
    Ok(RangeSample {
        offset: range.start,
        len: bytes.len() as u16,
        old,
        new: crc32fast::hash(bytes),
    })
}

/// Whether a file of a sealed commit can be the one that it changes: as it was before, as it is
/// after, or anything between.
pub(super) fn can_be(of: &LogOf<'_>, state: &LogState, sealed: &SealedFile) -> Result<bool> {
    let now = found(of, sealed)?;
    match (state.base().file(&sealed.name), now) {
        (Some(base), Some(now)) => is_changed(of, &now, (state, sealed, base)),
        (Some(_), None) => Ok(false),
        (None, Some(now)) => is_being_made(of, &now, (state, sealed)),
        (None, None) => Ok(true),
    }
}

fn found(of: &LogOf<'_>, sealed: &SealedFile) -> Result<Option<Stat>> {
    match of.store.stat(&path_of(of, &sealed.name)) {
        Err(e) if e.is_not_found() => Ok(None),
        found => found.map(Some),
    }
}

fn is_changed(
    of: &LogOf<'_>,
    now: &Stat,
    (state, sealed, base): (&LogState, &SealedFile, &BaseFile),
) -> Result<bool> {
    let patches = state.patches_of(sealed);
    if !has_grown(of, now, (state, &sealed.name), patches)? {
        return Ok(false);
    }
    // Its size and time are no sign that it is done: they may reach the disk before the bytes.
    let seems_done = sealed.mtime.is_some_and(|(secs, nanos)| {
        let mtime = Timestamp { secs, nanos };
        is_like(now, state.file_length(sealed), mtime)
    });
    let is_base = is_like(now, base.size, base.mtime());
    Ok(is_base || seems_done || is_half_done(of, now, (state, sealed, base))?)
}

/// Whether a file that was not there can be the one that the commit makes: bytes of it that have
/// not been written are zeros.
fn is_being_made(
    of: &LogOf<'_>,
    now: &Stat,
    (state, sealed): (&LogState, &SealedFile),
) -> Result<bool> {
    if now.size > state.file_length(sealed) {
        return Ok(false);
    }
    all_patches(of, state, sealed, |at, stored, logged| {
        let mut parts = sectors(at, stored).zip(sectors(at, logged));
        parts.all(|(stored, logged)| has_begun(stored, logged))
    })
}

/// Bytes of a file by the sectors in which they lie.
fn sectors(at: u64, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let first = (SECTOR - at % SECTOR).min(bytes.len() as u64);
    let (first, others) = bytes.split_at(first as usize);
    std::iter::once(first).chain(others.chunks(SECTOR as usize))
}

/// Whether a sector has the beginning of its new bytes, or all or nothing of them, and zeros
/// behind.
fn has_begun(stored: &[u8], logged: &[u8]) -> bool {
    let last = stored.iter().rposition(|byte| *byte != 0);
    let end = last.map_or(0, |last| last + 1);
    stored[..end] == logged[..end]
}

/// Whether a file of a sealed commit is what the commit makes of it: nothing is left to be done to
/// it, though its bytes need not have reached the disk.
pub(super) fn is_done(of: &LogOf<'_>, state: &LogState, sealed: &SealedFile) -> Result<bool> {
    let Some(now) = found(of, sealed)? else {
        return Ok(false);
    };
    let mtime = match sealed.mtime {
        Some((secs, nanos)) => Timestamp { secs, nanos },
        None => now.mtime,
    };
    if !is_like(&now, state.file_length(sealed), mtime) {
        return Ok(false);
    }
    all_patches(of, state, sealed, |_, stored, logged| stored == logged)
}

/// Whether something holds of all that is put into a file: at an offset, of the bytes that it has
/// there now and those of the log.
fn all_patches(
    of: &LogOf<'_>,
    state: &LogState,
    sealed: &SealedFile,
    holds: impl Fn(u64, &[u8], &[u8]) -> bool,
) -> Result<bool> {
    let source = of.store.open(&path_of(of, &sealed.name))?;
    let (mut stored, mut logged) = (Vec::new(), Vec::new());
    for patch in state.patches_of(sealed) {
        let mut at = patch.at;
        while at < patch.range().end {
            let n = STEP.min(patch.range().end - at) as usize;
            stored.resize(n, 0);
            logged.resize(n, 0);
            read_filled(&*source, at, &mut stored)?;
            state.read_logged(patch.logged.start + (at - patch.at), &mut logged)?;
            if !holds(at, &stored, &logged) {
                return Ok(false);
            }
            at += n as u64;
        }
    }
    Ok(true)
}

/// Whether the file can be the old one with a part of the changes.
fn is_half_done(
    of: &LogOf<'_>,
    now: &Stat,
    (state, sealed, base): (&LogState, &SealedFile, &BaseFile),
) -> Result<bool> {
    let (size, new) = (now.size, state.file_length(sealed));
    let patches: RangeSet = state.patches_of(sealed).iter().map(Patch::range).collect();
    let highest = patches.iter().map(|range| range.end).max().unwrap_or(0);
    if size < base.size.min(new) || size > highest.max(base.size).max(new) {
        return Ok(false);
    }
    let source = of.store.open(&path_of(of, &base.name))?;
    let untouched = fingerprint(&*source, &patches, base.size.min(new))?;
    Ok(untouched == sealed.untouched && are_old_or_new(&*source, &sealed.samples)?)
}

fn are_old_or_new(source: &dyn Source, samples: &[RangeSample]) -> Result<bool> {
    let mut buf = Vec::new();
    for sample in samples {
        buf.resize(sample.len.into(), 0);
        read_filled(source, sample.offset, &mut buf)?;
        let found = crc32fast::hash(&buf);
        if found != sample.old && found != sample.new {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_cut_by_what_is_put_there() {
        let patch = |range: Range<u64>| Patch {
            at: range.start,
            logged: 0..range.end - range.start,
        };
        let patches = [0..10, 500..520, 520..600, 1000..1030].map(patch);
        let of = |range: Range<u64>| -> Vec<(Range<u64>, bool)> {
            let parts = parts(range, &patches).into_iter();
            parts
                .map(|(range, patch)| (range, patch.is_some()))
                .collect()
        };
        let cut = [
            (512..520, true),
            (520..600, true),
            (600..1000, false),
            (1000..1024, true),
        ];
        assert_eq!(of(512..1024), cut);
        assert_eq!(of(0..512)[..2], [(0..10, true), (10..500, false)]);
        assert_eq!(of(2048..2060), [(2048..2060, false)]);
    }

    #[test]
    fn a_file_that_is_being_made_has_parts_of_what_it_is_to_hold() {
        let logged: Vec<u8> = (1..=200).cycle().take(1400).collect();
        let at = 1000;
        let parts = |stored: &[u8]| {
            let mut parts = sectors(at, stored).zip(sectors(at, &logged));
            parts.all(|(stored, logged)| has_begun(stored, logged))
        };
        let with = |zeros: Range<usize>| {
            let mut stored = logged.clone();
            stored[zeros].fill(0);
            stored
        };
        // 24 bytes of the first sector, then 512, 512, 352.
        assert!(parts(&logged) && parts(&with(0..1400)));
        assert!(parts(&with(0..24)) && parts(&with(24..536)) && parts(&with(700..1048)));
        assert!(!parts(&with(24..100)));
        let mut other = with(24..536);
        other[30] = 9;
        assert!(!parts(&other));
    }
}
