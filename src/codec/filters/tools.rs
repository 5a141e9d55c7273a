//! What decoding a chunk works with: contexts of the libraries, and memory beside its output.

use crate::contexts::Contexts;
use crate::error::Result;
use crate::memory::Arena;

/// Lent for one chunk, and by a filter for a part of it.
pub(super) struct Tools<'t> {
    pub(super) contexts: &'t mut Contexts,
    pub(super) scratch: Arena<'t>,
}

impl<'t> Tools<'t> {
    /// For one of several decodes: what it takes is free again afterwards.
    pub(super) fn lend(&mut self) -> Tools<'_> {
        Tools {
            contexts: self.contexts,
            scratch: self.scratch.lend(),
        }
    }

    /// `len` bytes of arbitrary content.
    pub(super) fn take(&mut self, len: usize) -> Result<&'t mut [u8]> {
        self.scratch.take(len as u64)
    }
}
