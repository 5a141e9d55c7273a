//! What stands where nothing was ever written: the fill value in its shown form, or zeros.
//!
//! Arithmetic alone. Used by formats whose chunks may be missing.

use crate::error::Result;
use crate::memory::fallible;

#[derive(Clone, Default)]
pub struct Fill {
    /// One element as shown; none for zeros.
    shown: Option<Box<[u8]>>,
}

impl Fill {
    /// `shown`: one element as it is shown.
    pub fn new(shown: &[u8]) -> Result<Fill> {
        if shown.iter().all(|&byte| byte == 0) {
            return Ok(Fill::default());
        }
        // No larger than the value that is here.
        let shown = fallible::copy(shown, "cannot hold a fill value")?;
        Ok(Fill {
            shown: Some(shown.into()),
        })
    }

    /// Whether it is nothing but zeros.
    pub fn is_zeros(&self) -> bool {
        self.shown.is_none()
    }

    /// Fills `out`, which begins at byte `at` of the array or of a chunk.
    pub fn put(&self, at: u64, out: &mut [u8]) {
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_value_repeats_from_any_byte_on(
            value in prop::collection::vec(0u8..9, 1..7),
            at in 0u64..50,
            len in 0usize..60,
        ) {
            let mut out = vec![0xaa; len];
            Fill::new(&value).unwrap().put(at, &mut out);
            for (i, byte) in out.iter().enumerate() {
                prop_assert_eq!(*byte, value[(at as usize + i) % value.len()]);
            }
        }
    }
}
