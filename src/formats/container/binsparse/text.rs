//! `binsparse.json` as an array: where a container can be written, its descriptor can be, too.
//!
//! It is shown from memory, as it was read when the container was opened. Used by the formats
//! around this one.

use std::sync::Arc;

use super::{LONGEST, TEXT};
use crate::container::writable::Change;
use crate::error::{Error, Result};

pub(crate) struct DescriptorText(pub(crate) Arc<Vec<u8>>);

impl DescriptorText {
    /// Refuses a descriptor that would be too long.
    pub(crate) fn permits(change: Change) -> Result<()> {
        let bytes = match change {
            Change::Write { offset, len } => offset.saturating_add(len),
            Change::SetLen(len) | Change::Truncate(len) => len,
        };
        match bytes > LONGEST as u64 {
            true => Err(Error::Invalid(format!(
                "{TEXT} has at most {LONGEST} bytes"
            ))),
            false => Ok(()),
        }
    }
}

impl AsRef<[u8]> for DescriptorText {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
