//! The offsets section: 64-bit places of the chunks, for access without walking there.
//!
//! No known reader uses it, so nothing keeps writers honest: an entry is a hint, believed where the
//! chunks themselves agree ([`super::steps`]). Entries of -1 are what an interrupted writer leaves.

use super::layout::{ENTRY, Layout};
use super::segment::{Place, SEGMENT, Segment, Slot};
use crate::error::Result;
use crate::source::Source;

/// Entries of the table around a segment, the two behind it included. None if there is no table.
#[derive(Default)]
pub(super) struct Hints {
    first: u64,
    entries: Vec<i64>,
}

impl Hints {
    pub(super) fn read(source: &dyn Source, layout: &Layout, index: u64) -> Result<Self> {
        let (Some(section), Some(chunks)) = (layout.offsets, layout.chunks) else {
            return Ok(Hints::default());
        };
        let first = index.saturating_mul(SEGMENT);
        let count = (SEGMENT + 2).min(chunks.saturating_sub(first));
        let entries = entries(source, section, first, count)?;
        Ok(Hints { first, entries })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where chunk `number` begins according to the table; none if the entry is no place.
    pub(super) fn place(&self, number: u64) -> Option<u64> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        u64::try_from(*self.entries.get(index)?).ok()
    }

    /// Whether the table says of these chunks, from the first one on, what the walk found.
    pub(super) fn agree(&self, places: &[Place]) -> bool {
        (self.first..).zip(places).all(|(number, place)| {
            let slot = place.slot().filter(|slot| slot.next.is_none());
            slot.is_some_and(|slot| self.place(number) == Some(slot.at))
        })
    }
}

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

/// A segment of `len` chunks that the walk has found as the table tells it.
pub(super) fn segment(
    source: &dyn Source,
    layout: &Layout,
    index: u64,
    len: u64,
) -> Result<Segment> {
    let hints = Hints::read(source, layout, index)?;
    let first = index.saturating_mul(SEGMENT);
    let slot = |number| hints.place(number).map(|at| Place::At(Slot::new(at)));
    Ok(Segment {
        places: (first..first.saturating_add(len)).map_while(slot).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_agree_only_with_the_same_places() {
        let hints = Hints {
            first: 512,
            entries: vec![100, 200, -1, 7],
        };
        let at = |at, next| Place::At(Slot::with_header(at, [0; 16], next));
        assert!(hints.agree(&[at(100, None), at(200, None)]));
        assert!(!hints.agree(&[at(100, None), at(201, None)]));
        assert!(!hints.agree(&[at(100, None), at(200, None), at(300, None)]));
        assert!(!hints.agree(&[at(100, Some(200)), at(200, None)]));
        assert_eq!((hints.place(511), hints.place(514)), (None, None));
        assert_eq!((hints.place(515), hints.place(516)), (Some(7), None));
    }
}
