//! How a file is known that a commit changes in place, from the seal of its log until the commit has come to its end.
//!
//! Its size and time meanwhile are of no moment that was written down, and who may write a file need not be able to set its
//! time. What the commit leaves alone stays as it was, and of what it changes each sector is the old one or the new one: samples
//! of both are taken before anything is changed ([`seal`]), and compared after a crash ([`can_be`]). Used by
//! [`super::in_place`] and [`super::standing`].

use std::ops::Range;

use super::fingerprint::{fingerprint, read_filled};
use super::in_place::Patch;
use super::standing::{is_like, path_of};
use crate::error::Result;
use crate::source::{Source, Stat, Timestamp};
use crate::stage::log::{FoundRedo, RangeSample, SealedFile};
use crate::stage::{BaseFile, LogOf, LogState};

/// What a disk writes as a whole.
const SECTOR: u64 = 512;

/// Samples of what is changed, at most.
const SAMPLES: usize = 16;

/// A file that is about to be changed.
pub(super) struct Sealing<'a> {
    pub(super) number: u32,
    pub(super) name: &'a str,
    pub(super) old: &'a dyn Source,
    pub(super) patches: &'a [Patch],
    pub(super) len: u64,
    /// None: it cannot be set.
    pub(super) mtime: Option<Timestamp>,
}

/// What the log is to say of a file. `logged`: reads what is going to be written, from the log.
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
        untouched: fingerprint(of.old, changed.collect(), stays)?,
        samples: samples(of, logged)?,
    })
}

fn samples(
    of: &Sealing<'_>,
    logged: &dyn Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<Vec<RangeSample>> {
    // How long the file is in between says nothing of the bytes behind both of its ends.
    let stays = of.old.len().min(of.len);
    let mut apart = apart(of.patches);
    apart.retain(|patch| patch.at < stays);
    let step = apart.len().div_ceil(SAMPLES).max(1);
    let mut samples = Vec::new();
    for patch in apart.into_iter().step_by(step) {
        // The rest of the sector in which it begins: that is written at once, whoever writes it.
        let range = patch.range();
        let sector = (range.start / SECTOR + 1).saturating_mul(SECTOR);
        let end = sector.min(range.end).min(stays);
        let mut buf = [0; SECTOR as usize];
        let bytes = &mut buf[..(end - range.start) as usize];
        read_filled(of.old, range.start, bytes)?;
        let old = crc32fast::hash(bytes);
        logged(patch.logged.start, bytes)?;
        samples.push(RangeSample {
            offset: range.start,
            len: bytes.len() as u16,
            old,
            new: crc32fast::hash(bytes),
        });
    }
    Ok(samples)
}

/// Patches that no other one overlaps: what is told twice is neither old nor new in between.
fn apart(patches: &[Patch]) -> Vec<&Patch> {
    let mut sorted: Vec<&Patch> = patches.iter().collect();
    sorted.sort_unstable_by_key(|patch| patch.at);
    let mut before = 0;
    let mut apart = Vec::new();
    for (number, patch) in sorted.iter().enumerate() {
        let next = sorted.get(number + 1).map_or(u64::MAX, |next| next.at);
        let range = patch.range();
        if range.start >= before && range.end <= next {
            apart.push(*patch);
        }
        before = before.max(range.end);
    }
    apart
}

/// Whether a file of a sealed commit can be the one that it changes: as it was before, as it is after, or anything between.
pub(super) fn can_be(of: &LogOf<'_>, state: &LogState, sealed: &SealedFile) -> Result<bool> {
    let Some(base) = state.base().file(&sealed.name) else {
        return Ok(false);
    };
    let now = of.store.stat(&path_of(of, &base.name))?;
    // Its size and time are no sign that it is done: they may reach the disk before the bytes.
    let seems_done = sealed.mtime.is_some_and(|(secs, nanos)| {
        let mtime = Timestamp { secs, nanos };
        is_like(&now, final_len(state, sealed, base), mtime)
    });
    let is_base = is_like(&now, base.size, base.mtime());
    Ok(is_base || seems_done || is_half_done(of, &now, (state, sealed, base))?)
}

/// How long the file is to be.
pub(super) fn final_len(state: &LogState, sealed: &SealedFile, base: &BaseFile) -> u64 {
    state.file_length(sealed).unwrap_or(base.size)
}

/// Whether the file can be the old one with a part of the changes.
fn is_half_done(
    of: &LogOf<'_>,
    now: &Stat,
    (state, sealed, base): (&LogState, &SealedFile, &BaseFile),
) -> Result<bool> {
    let (size, new) = (now.identity.size, final_len(state, sealed, base));
    let range = |redo: &FoundRedo| redo.offset..redo.offset.saturating_add(redo.len);
    let patches: Vec<Range<u64>> = state.redo_of(sealed).map(range).collect();
    let highest = patches.iter().map(|range| range.end).max().unwrap_or(0);
    if size < base.size.min(new) || size > highest.max(base.size).max(new) {
        return Ok(false);
    }
    let source = of.store.open(&path_of(of, &base.name))?;
    let untouched = fingerprint(&*source, patches, base.size.min(new))?;
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

    fn patch(at: u64, len: u64) -> Patch {
        Patch { at, logged: 0..len }
    }

    #[test]
    fn samples_are_of_what_is_told_once() {
        let told = [
            patch(40, 10),
            patch(0, 20),
            patch(10, 5),
            patch(50, 4),
            patch(52, 1),
        ];
        let starts: Vec<u64> = apart(&told).iter().map(|patch| patch.at).collect();
        assert_eq!(starts, [40]);
        assert!(apart(&[]).is_empty());
    }
}
