//! Where the headers of a file's objects lie, as far as its index says so: values are never put
//! there, whatever the file says of where its chunks are.
//!
//! That is not all of its metadata, and a file that lies may still lose itself. Used by
//! [`super::edit_recipe`].

use std::ops::Range;

use crate::container::hdf5::index::FileIndex;
use crate::error::{Fault, Result};

/// No header, nor a superblock, is shorter.
const SHORTEST: u64 = 16;

/// In order.
#[derive(Default)]
pub(super) struct ObjectHeaders(Vec<u64>);

impl ObjectHeaders {
    pub(super) fn of(index: &FileIndex) -> ObjectHeaders {
        let groups = index.groups.iter().map(|group| group.token);
        let datasets = index.datasets.iter().map(|dataset| dataset.token);
        let types = index.types.iter().map(|committed| committed.token);
        // The superblock is where addresses count from.
        let all = groups.chain(datasets).chain(types).chain([0]);
        let mut places: Vec<u64> = all.map(|at| index.base.saturating_add(at)).collect();
        places.sort_unstable();
        ObjectHeaders(places)
    }

    /// Nothing of them lies in a range.
    pub(super) fn check(&self, range: &Range<u64>) -> Result<()> {
        let before = self.0.partition_point(|at| *at < range.end);
        let last = before.checked_sub(1).and_then(|last| self.0.get(last));
        match last.filter(|at| at.saturating_add(SHORTEST) > range.start) {
            None => Ok(()),
            Some(at) => {
                let fault = Fault::new("writing would change the header of an object of the file");
                Err(fault.bytes(range.clone()).found(*at).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_a_header_is_refused() {
        let headers = ObjectHeaders(vec![0, 96, 800]);
        let good = |range| headers.check(&range).is_ok();
        assert!(good(16..96) && good(112..800) && good(816..1 << 40));
        assert!(!good(15..20) && !good(90..97) && !good(111..112) && !good(700..900));
        assert!(ObjectHeaders::default().check(&(0..8)).is_ok());
    }
}
