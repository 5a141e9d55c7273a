//! The offsets section: 64-bit places of the chunks, for access without walking there.
//!
//! No known reader uses it, so nothing keeps writers honest: an entry is believed only if it could be
//! right beside its neighbours, and again when the chunk it leads to is as long as they say
//! ([`super::chunks`]). Entries of -1 are what an interrupted writer leaves.

use super::layout::{ENTRY, Layout};
use super::segment::{SEGMENT, Segment, Slot};
use crate::error::Result;
use crate::source::Source;

/// Entries `from..from + count` of the section at `section`.
pub(super) fn entries(
    source: &dyn Source,
    section: u64,
    from: u64,
    count: u64,
) -> Result<Vec<i64>> {
    let mut bytes = vec![0; (count * ENTRY) as usize];
    source.fetch_one(section + from * ENTRY, &mut bytes)?;
    let (entries, _) = bytes.as_chunks::<8>();
    Ok(entries
        .iter()
        .map(|entry| i64::from_le_bytes(*entry))
        .collect())
}

/// A segment as the table tells it; `None` if the table cannot be right.
pub(super) fn segment(source: &dyn Source, layout: &Layout, index: u64) -> Result<Option<Segment>> {
    let (Some(section), Some(chunks)) = (layout.offsets, layout.chunks) else {
        return Ok(None);
    };
    let from = index * SEGMENT;
    // One more than the segment has: where its last chunk ends.
    let count = (SEGMENT + 1).min(chunks.saturating_sub(from));
    let entries = entries(source, section, from, count)?;
    let Some(places) = places(&entries, from, layout) else {
        return Ok(None);
    };
    let here = places.len().min(SEGMENT as usize);
    let slot = |i: usize| Slot::new(places[i], places.get(i + 1).copied());
    Ok(Some(Segment {
        slots: (0..here).map(slot).collect(),
    }))
}

/// The entries as places: the first chunk's is known, all others leave room for those before them.
fn places(entries: &[i64], from: u64, layout: &Layout) -> Option<Vec<u64>> {
    let mut least = from
        .checked_mul(layout.least_chunk())?
        .checked_add(layout.first)?;
    let mut places = Vec::with_capacity(entries.len());
    for (number, &entry) in (from..).zip(entries) {
        let place = u64::try_from(entry).ok()?;
        if place < least || number == 0 && place != layout.first {
            return None;
        }
        least = place.checked_add(layout.least_chunk())?;
        places.push(place);
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::blosc::ChunkHeader;

    #[test]
    fn entries_must_be_possible() {
        let layout = Layout {
            offsets: Some(32),
            first: 100,
            chunks: Some(4),
            spare: 0,
            digest: 4,
            len: 1000,
        };
        let least = ChunkHeader::LEN as i64 + 4;
        assert!(places(&[100, 200, 300, 400], 0, &layout).is_some());
        assert!(places(&[100, 100 + least], 0, &layout).is_some());
        assert!(
            places(&[100, 99 + least], 0, &layout).is_none(),
            "no room for chunk 0"
        );
        assert!(
            places(&[101, 200], 0, &layout).is_none(),
            "the first place is known"
        );
        assert!(places(&[100, 300, 200], 0, &layout).is_none());
        assert!(places(&[-1, -1], 0, &layout).is_none());
        assert!(places(&[100, -7], 0, &layout).is_none());
        assert!(places(&[100, i64::MAX, i64::MAX], 0, &layout).is_none());
        assert!(places(&[100 + 512 * least], 512, &layout).is_some());
        assert!(places(&[99 + 512 * least], 512, &layout).is_none());
        assert!(
            places(&[100, 5000], 0, &layout).is_some(),
            "a truncated file has a true table"
        );
    }
}
