//! What stands where nothing was ever written: the fill value in its shown form, or zeros.

use crate::container::hdf5::element::Element;
use crate::error::{Fault, Result};
use crate::memory::no_memory;

#[derive(Clone)]
pub(super) struct Fill {
    /// One element as shown; none for zeros.
    shown: Option<Box<[u8]>>,
}

impl Fill {
    /// `stored`: one element as stored; none for zeros.
    pub(super) fn new(stored: Option<&[u8]>, element: &Element) -> Result<Fill> {
        let Some(stored) = stored else {
            return Ok(Fill { shown: None });
        };
        if stored.len() as u64 != element.stored {
            let fault = Fault::new("the fill value has another length than the elements");
            return Err(fault.expected(element.stored).found(stored.len()).into());
        }
        // No larger than the value that is here.
        let mut shown = Vec::new();
        let reserved = shown.try_reserve_exact(element.shown as usize);
        reserved.map_err(|_| no_memory("cannot hold a fill value"))?;
        shown.resize(element.shown as usize, 0);
        element.cast.run(stored, &mut shown);
        let some = shown.iter().any(|&byte| byte != 0);
        Ok(Fill {
            shown: some.then(|| shown.into()),
        })
    }

    /// Fills `out`, which begins at byte `at` of the array or of a chunk.
    pub(super) fn put(&self, at: u64, out: &mut [u8]) {
        let Some(shown) = &self.shown else {
            return out.fill(0);
        };
        // The first element in two parts, then whole ones, each copy twice as long as the last.
        let skip = (at % shown.len() as u64) as usize;
        let first = (shown.len() - skip).min(out.len());
        out[..first].copy_from_slice(&shown[skip..skip + first]);
        let rest = &mut out[first..];
        let n = shown.len().min(rest.len());
        rest[..n].copy_from_slice(&shown[..n]);
        let mut done = n;
        while done < rest.len() {
            let n = done.min(rest.len() - done);
            let (from, to) = rest.split_at_mut(done);
            to[..n].copy_from_slice(&from[..n]);
            done += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::stored::StoredType;
    use proptest::prelude::*;

    #[test]
    fn a_fill_value_of_another_length_is_refused() {
        let element = Element::of(&StoredType::opaque(3)).unwrap();
        assert!(Fill::new(Some(&[1, 2]), &element).is_err());
        assert!(
            Fill::new(Some(&[0, 0, 0]), &element)
                .unwrap()
                .shown
                .is_none()
        );
    }

    proptest! {
        #[test]
        fn the_value_repeats_from_any_byte_on(
            value in prop::collection::vec(1u8..9, 1..7),
            at in 0u64..50,
            len in 0usize..60,
        ) {
            let element = Element::of(&StoredType::opaque(value.len() as u64)).unwrap();
            let mut out = vec![0xaa; len];
            Fill::new(Some(&value), &element).unwrap().put(at, &mut out);
            for (i, byte) in out.iter().enumerate() {
                prop_assert_eq!(*byte, value[(at as usize + i) % value.len()]);
            }
        }
    }
}
