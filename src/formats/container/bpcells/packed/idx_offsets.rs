//! `*_idx_offsets`: how an index of 32-bit word counts reaches past 2^32 words (docs/formats.md).
//!
//! The index entries of numbers `offsets[i]..offsets[i + 1]` count modulo 2^32 and get `i * 2^32`
//! words added. Version 1 has no such array and reads as if it held `[0, 2^64 - 1]`. Used by
//! [`super`], and by `write`.

use crate::container::bpcells::fields::{Fields, Number};
use crate::error::{Fault, Result};

/// Words after which an index entry starts again from 0.
pub(crate) const WRAP: u64 = 1 << 32;
/// Every entry but two stands for 16 GiB of words, so this is far beyond any file; it bounds
/// memory.
const MOST: u64 = 4096;

pub(crate) struct Offsets {
    firsts: Vec<u64>,
    wrap: u64,
}

impl Offsets {
    /// What version 1 is read with.
    pub(crate) fn none() -> Self {
        Offsets {
            firsts: vec![0, u64::MAX],
            wrap: WRAP,
        }
    }

    /// Reads and checks the array; `entries` is the length of the index that is needed.
    pub(crate) fn open(
        fields: &dyn Fields,
        name: &str,
        entries: u64,
        wrap: u64,
    ) -> Result<(Self, u64)> {
        let field = fields.field(name, Number::U64)?;
        let locate = |fault| field.locate(fault, 0..field.len().saturating_mul(8));
        if field.len() < 2 || field.len() > MOST {
            let fault = Fault::new("a wrong number of entries")
                .expected(format_args!("2 to {MOST}"))
                .found(field.len());
            return Err(locate(fault).into());
        }
        let mut bytes = vec![0; 8 * field.len() as usize];
        field.read(0, &mut bytes)?;
        let offsets: Vec<u64> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|&b| u64::from_le_bytes(b))
            .collect();
        check(&offsets, entries).map_err(|e| e.map_fault(locate))?;
        let offsets = Offsets {
            firsts: offsets,
            wrap,
        };
        Ok((offsets, field.stored_bytes()))
    }

    /// Word position that index entry `entry`, stored as `low`, stands for.
    pub(crate) fn position(&self, entry: u64, low: u32) -> Option<u64> {
        position(&self.firsts, entry, low.into(), self.wrap)
    }
}

/// First 0, never decreasing, last behind the index entries that are needed. It may be further
/// behind: the real reader looks at no more than it needs, so there may be more of the index, and
/// of this array.
fn check(offsets: &[u64], entries: u64) -> Result<()> {
    let (first, last) = (offsets.first().copied(), offsets.last().copied());
    if let Some(first) = first.filter(|&first| first != 0) {
        return Err(Fault::new("the first entry is wrong")
            .expected(0)
            .found(first)
            .into());
    }
    if let Some(pair) = offsets.windows(2).find(|pair| pair[0] > pair[1]) {
        let fault = Fault::new("the entries decrease").found(pair[1]);
        return Err(fault.expected(format_args!("at least {}", pair[0])).into());
    }
    if let Some(last) = last.filter(|&last| last < entries) {
        let fault = Fault::new("the last entry is less than the length of idx").found(last);
        return Err(fault.expected(format_args!("at least {entries}")).into());
    }
    Ok(())
}

/// The rule itself, with 2^32 as a parameter so that it can be tested without 16 GiB of words.
fn position(offsets: &[u64], entry: u64, low: u64, wrap: u64) -> Option<u64> {
    let segment = offsets
        .partition_point(|&first| first <= entry)
        .checked_sub(1)?;
    if segment + 1 >= offsets.len() {
        return None;
    }
    (segment as u64).checked_mul(wrap)?.checked_add(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The writer's rule: each time the count passes a multiple of `wrap`, the number of the entry.
    fn write(positions: &[u64], wrap: u64) -> Vec<u64> {
        let mut offsets = vec![0];
        for (entry, position) in positions.iter().enumerate() {
            while position / wrap >= offsets.len() as u64 {
                offsets.push(entry as u64);
            }
        }
        offsets.push(positions.len() as u64);
        offsets
    }

    proptest! {
        #[test]
        fn positions_come_back(
            steps in proptest::collection::vec(0u64..=128, 0..200),
            wrap in 1u64..2000,
        ) {
            let mut positions = vec![0];
            for step in steps {
                positions.push(positions.last().unwrap() + step);
            }
            let offsets = write(&positions, wrap);
            prop_assert!(check(&offsets, positions.len() as u64).is_ok());
            for (entry, &at) in positions.iter().enumerate() {
                prop_assert_eq!(position(&offsets, entry as u64, at % wrap, wrap), Some(at));
            }
            prop_assert_eq!(position(&offsets, positions.len() as u64, 0, wrap), None);
        }

        #[test]
        fn hostile_offsets_do_no_harm(
            offsets in proptest::collection::vec(any::<u64>(), 0..6),
            entry in any::<u64>(),
        ) {
            position(&offsets, entry, u64::from(u32::MAX), u64::MAX);
        }
    }

    #[test]
    fn rules() {
        assert!(check(&[0, 3], 3).is_ok());
        assert!(check(&[0, 2, 2, 3], 3).is_ok());
        assert!(check(&[1, 3], 3).is_err());
        assert!(check(&[0, 2], 3).is_err());
        assert!(check(&[0, 4], 3).is_ok(), "more of the index");
        assert!(check(&[0, 3, 3], 3).is_ok(), "nothing in the last part");
        assert!(check(&[0, u64::MAX], 3).is_ok(), "as version 1 is read");
        assert!(check(&[0, 5, 3], 3).is_err());
        assert_eq!(Offsets::none().position(1 << 40, 7), Some(7));
    }
}
