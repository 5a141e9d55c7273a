//! How a file is known that a commit changes in place, from the seal of its log until the commit has come to its end.
//!
//! Its size and time meanwhile are of no moment that was written down, and who may write a file need not be able to set its
//! time. What the commit leaves alone stays as it was, and of what it changes each sector is the old one or the new one: samples
//! of both are taken before anything is changed ([`seal`]), and compared after a crash ([`can_be`]). Used by
//! [`super::in_place`] and [`super::standing`].

use std::ops::Range;

use super::fingerprint::{fingerprint, read_filled};
use super::redo::STEP;
use super::standing::{is_like, path_of};
use crate::error::Result;
use crate::source::{Source, Stat, Timestamp};
use crate::stage::log::{Patch, RangeSample, SealedFile};
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
    /// In order, none of which overlap.
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
    let there = of.patches.partition_point(|patch| patch.at < stays);
    let there = &of.patches[..there];
    let step = there.len().div_ceil(SAMPLES).max(1);
    let mut samples = Vec::new();
    for patch in there.iter().step_by(step) {
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

/// Whether a file of a sealed commit is what the commit makes of it: nothing is left to be done to it, though what has been
/// done need not have reached the disk.
pub(super) fn is_done(of: &LogOf<'_>, state: &LogState, sealed: &SealedFile) -> Result<bool> {
    let Some(base) = state.base().file(&sealed.name) else {
        return Ok(false);
    };
    let path = path_of(of, &base.name);
    let (now, len) = (of.store.stat(&path)?, final_len(state, sealed, base));
    let mtime = match sealed.mtime {
        Some((secs, nanos)) => Timestamp { secs, nanos },
        None => now.identity.mtime,
    };
    if !is_like(&now, len, mtime) {
        return Ok(false);
    }
    let source = of.store.open(&path)?;
    let (mut stored, mut logged) = (Vec::new(), Vec::new());
    for patch in state.patches_of(sealed) {
        let mut at = patch.at;
        while at < patch.range().end {
            let n = STEP.min(patch.range().end - at) as usize;
            stored.resize(n, 0);
            logged.resize(n, 0);
            read_filled(&*source, at, &mut stored)?;
            state.read_logged(patch.logged.start + (at - patch.at), &mut logged)?;
            if stored != logged {
                return Ok(false);
            }
            at += n as u64;
        }
    }
    Ok(true)
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
    let patches: Vec<Range<u64>> = state.patches_of(sealed).iter().map(Patch::range).collect();
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
