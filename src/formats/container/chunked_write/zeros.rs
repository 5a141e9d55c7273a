//! The first batch of zeros as it was encoded: the others are most likely the same, and there may
//! be very many.
//!
//! One that does not become small is not kept: to copy it takes as long as to encode it again. Used
//! by [`super`].

use std::sync::OnceLock;

use crate::error::Result;
use crate::memory::fallible;
use crate::sync::{Mutex, MutexGuard};

/// A longer one is not kept.
const LONGEST: usize = 64 << 10;

static ZEROS: [u8; 4 << 10] = [0; 4 << 10];

pub(super) struct EncodedZeros<S> {
    known: OnceLock<ZeroBatch<S>>,
    first: Mutex<()>,
}

/// What was encoded, and from how many bytes.
struct ZeroBatch<S> {
    settings: S,
    plain: u64,
    encoded: Vec<u8>,
}

impl<S> Default for EncodedZeros<S> {
    fn default() -> Self {
        EncodedZeros {
            known: OnceLock::new(),
            first: Mutex::new(()),
        }
    }
}

impl<S: Copy + PartialEq> EncodedZeros<S> {
    /// So many zeros, if they have been encoded by these settings. Says the length.
    pub(super) fn copy_to(&self, settings: &S, plain: u64, out: &mut [u8]) -> Option<usize> {
        let known = self.known.get()?;
        let is_same = known.plain == plain && known.settings == *settings;
        let encoded = is_same.then_some(&known.encoded)?;
        out.get_mut(..encoded.len())?.copy_from_slice(encoded);
        Some(encoded.len())
    }

    /// Held while zeros are encoded for the first time, so that it is done once.
    pub(super) fn wait_for_first(&self) -> Option<MutexGuard<'_, ()>> {
        let unknown = self.known.get().is_none();
        unknown.then(|| self.first.lock())
    }

    pub(super) fn keep(&self, settings: &S, plain: u64, encoded: &[u8]) -> Result<()> {
        if encoded.len() <= LONGEST && self.known.get().is_none() {
            // Those of another thread are as good.
            let _ = self.known.set(ZeroBatch {
                settings: *settings,
                plain,
                encoded: fallible::copy(encoded, "cannot keep a chunk of zeros")?,
            });
        }
        Ok(())
    }
}

pub(super) fn are_zeros(bytes: &[u8]) -> bool {
    let mut parts = bytes.chunks(ZEROS.len());
    parts.all(|part| part == &ZEROS[..part.len()])
}
