//! Whether variables lie over each other, which no writer means: one of them cannot be what it
//! should be.
//!
//! A header may give any place to any variable. Time O(n log n). Used by `super`.

use super::layout::Placement;

/// Each variable that lies over one before it, and that one; by their numbers among `places`.
pub(super) fn find(places: &[(usize, &Placement)]) -> Vec<(usize, usize)> {
    let (records, fixed): (Vec<_>, Vec<_>) = places
        .iter()
        .filter(|(_, place)| place.bytes() > 0)
        .partition(|(_, place)| place.runs > 1);
    let mut parts: Vec<Occupied> = fixed.iter().map(|(n, place)| (*place).part(*n)).collect();
    // The records together are one stretch, in which only the first is looked at.
    parts.extend(stretch(&records));
    let mut found = neighbours(parts);
    let first = |(n, place): &(usize, &Placement)| Occupied {
        number: *n,
        start: place.begin.into(),
        end: u128::from(place.begin) + u128::from(place.run),
    };
    found.extend(neighbours(records.iter().map(first).collect()));
    let last = records.iter().max_by_key(|(_, place)| place.begin);
    if let (Some(all), Some((number, place))) = (stretch(&records), last)
        && first(&(*number, *place)).end - all.start > u128::from(place.stride)
    {
        found.push((*number, all.number));
    }
    found
}

/// Bytes of the file that belong to a variable.
struct Occupied {
    number: usize,
    start: u128,
    end: u128,
}

impl Placement {
    fn part(&self, number: usize) -> Occupied {
        Occupied {
            number,
            start: self.begin.into(),
            end: self.end(),
        }
    }
}

/// From the first record of the first to the last of the last.
fn stretch(records: &[(usize, &Placement)]) -> Option<Occupied> {
    let (number, first) = records.iter().min_by_key(|(_, place)| place.begin)?;
    let end = records.iter().map(|(_, place)| place.end()).max()?;
    let part = first.part(*number);
    Some(Occupied { end, ..part })
}

fn neighbours(mut parts: Vec<Occupied>) -> Vec<(usize, usize)> {
    parts.sort_by_key(|part| part.start);
    let mut found = Vec::new();
    let mut reach: Option<Occupied> = None;
    for part in parts {
        match &reach {
            Some(before) if before.end > part.start => found.push((part.number, before.number)),
            _ => {}
        }
        if reach.as_ref().is_none_or(|before| before.end < part.end) {
            reach = Some(part);
        }
    }
    found
}
