//! Staged bytes of a [`super::Layer`] in memory: written over where they are, or appended to slabs.

use std::ops::Range;

use super::super::extents::{ExtentPlace, InSlab};
use super::super::slab::Slabs;
use super::super::written_array::WrittenArray;
use super::{ArrayChanges, LayerState, lost, no_array, release};
use crate::error::Result;

impl LayerState {
    /// How many bytes of a range are not in memory.
    pub(super) fn missing(&self, array: WrittenArray, range: &Range<u64>) -> Result<u64> {
        let array = self.array(array).ok_or_else(no_array)?;
        let (mut at, mut missing) = (range.start, range.end - range.start);
        while let Some((part, place)) = array.extents.next_staged(at..range.end) {
            at = part.end;
            if place.memory().is_some() {
                missing -= part.end - part.start;
            }
        }
        Ok(missing)
    }

    /// There is room.
    pub(super) fn write(&mut self, array: WrittenArray, at: u64, bytes: &[u8]) -> Result<()> {
        let LayerState { arrays, slabs, .. } = self;
        let array = arrays.get_mut(array.index()).ok_or_else(no_array)?;
        let range = at..at.saturating_add(bytes.len() as u64);
        let mut done = 0;
        while done < bytes.len() {
            let from = at + done as u64;
            let next = array.extents.next_staged(from..range.end);
            let rest = &bytes[done..];
            let n = match next {
                Some((part, place)) if part.start == from => {
                    let n = (part.end - part.start) as usize;
                    match place.memory() {
                        Some(place) => rewrite(array, slabs, part, place, &rest[..n])?,
                        // Bytes that are only in the log, or zeros, are replaced.
                        None => append(array, slabs, from, &rest[..n])?,
                    }
                }
                Some((part, _)) => {
                    append(array, slabs, from, &rest[..(part.start - from) as usize])?
                }
                None => append(array, slabs, from, rest)?,
            };
            done += n;
        }
        array.unlogged.insert(range);
        Ok(())
    }
}

/// Changes bytes of an extent where they are, and says how many.
fn rewrite(
    array: &mut ArrayChanges,
    slabs: &mut Slabs,
    part: Range<u64>,
    place: InSlab,
    bytes: &[u8],
) -> Result<usize> {
    let old = slabs.get_mut(place, bytes.len()).ok_or_else(lost)?;
    old.copy_from_slice(bytes);
    array
        .extents
        .relocate(part, |_, place| place.with_log(None));
    Ok(bytes.len())
}

/// Appends the first bytes to a slab, and says how many.
fn append(array: &mut ArrayChanges, slabs: &mut Slabs, at: u64, bytes: &[u8]) -> Result<usize> {
    let (place, n) = slabs.append(bytes).ok_or_else(lost)?;
    let place = ExtentPlace::in_memory(place);
    let mut dropped = |place: ExtentPlace, len| release(slabs, place, len);
    array.extents.put(at..at + n as u64, place, &mut dropped);
    Ok(n)
}
