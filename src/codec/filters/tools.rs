//! What decoding a chunk works with: contexts of the libraries, and memory beside its output.

use crate::contexts::Contexts;
use crate::error::Result;
use crate::memory::Arena;

/// Lent for one chunk, and by a filter for a part of it.
pub(crate) struct Tools<'t> {
    pub(crate) contexts: &'t mut Contexts,
    pub(crate) scratch: Arena<'t>,
}

impl<'t> Tools<'t> {
    /// For one of several decodes: what it takes is free again afterwards.
    pub(crate) fn lend(&mut self) -> Tools<'_> {
        Tools {
            contexts: self.contexts,
            scratch: self.scratch.lend(),
        }
    }

    /// `len` bytes of arbitrary content.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'t mut [u8]> {
        self.scratch.take(len as u64)
    }
}
