//! Which values may be written: of an enumeration, those that it names.
//!
//! Beside the [`super::Cast`], so that reading knows nothing of it: what is stored is shown, named
//! or not. Values are compared as they are shown. Made by [`super`]; used for what is written.

use std::ops::Range;
use std::sync::Arc;

/// What shown units may hold; a unit is a part of an element that comes once or repeated, as for a
/// cast.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::container::hdf5) struct AllowedValues {
    /// Bytes of a unit, not 0.
    unit: usize,
    allowed: Allowed,
}

#[derive(Debug, Clone, PartialEq)]
enum Allowed {
    Any,
    /// Little-endian numbers, in rising order.
    Named(Arc<[u64]>),
    /// Members of a compound that may not hold any value, and where they are shown.
    Members(Arc<[(Range<usize>, AllowedValues)]>),
}

impl AllowedValues {
    pub(super) fn any() -> AllowedValues {
        let allowed = Allowed::Any;
        AllowedValues { unit: 1, allowed }
    }

    /// Numbers of `size` bytes, 1 to 8.
    pub(super) fn named(size: usize, mut values: Vec<u64>) -> AllowedValues {
        values.sort_unstable();
        values.dedup();
        AllowedValues {
            unit: size,
            allowed: Allowed::Named(values.into()),
        }
    }

    /// Members of a compound that is shown in `size` bytes, each within these.
    pub(super) fn members(
        size: usize,
        members: Vec<(Range<usize>, AllowedValues)>,
    ) -> AllowedValues {
        let members = members.into_iter().filter(|(_, values)| !values.is_any());
        let members: Arc<[_]> = members.collect();
        if members.is_empty() {
            return AllowedValues::any();
        }
        AllowedValues {
            unit: size,
            allowed: Allowed::Members(members),
        }
    }

    /// Whether nothing is refused.
    pub(in crate::container::hdf5) fn is_any(&self) -> bool {
        matches!(self.allowed, Allowed::Any)
    }

    /// Bytes of a shown unit.
    pub(in crate::container::hdf5) fn unit(&self) -> usize {
        self.unit
    }

    /// Fails with the number of the first unit, of all whole ones in `shown`, with a value that may
    /// not be.
    pub(in crate::container::hdf5) fn check(&self, shown: &[u8]) -> Result<(), usize> {
        let refused = match &self.allowed {
            Allowed::Any => None,
            Allowed::Named(values) => {
                let mut units = shown.chunks_exact(self.unit);
                units.position(|unit| values.binary_search(&number(unit)).is_err())
            }
            Allowed::Members(members) => shown.chunks_exact(self.unit).position(|unit| {
                let mut members = members.iter();
                members.any(|(place, values)| values.check(&unit[place.clone()]).is_err())
            }),
        };
        refused.map_or(Ok(()), Err)
    }
}

/// A shown number of up to eight bytes.
pub(super) fn number(shown: &[u8]) -> u64 {
    let bytes = shown.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
