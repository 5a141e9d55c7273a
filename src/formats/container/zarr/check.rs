//! What only a full check of a store sees. Used by [`super::assemble`].

use std::sync::Arc;

use super::members::Members;
use crate::container::{Check, TellFault};
use crate::error::Result;
use crate::memory::budget::Budget;

/// Rules of what the members lie in.
pub(super) struct StoreCheck {
    pub(super) members: Arc<dyn Members>,
}

impl Check for StoreCheck {
    fn check(&self, _budget: &Arc<Budget>, report: TellFault<'_>) -> Result<()> {
        self.members.verify(report)
    }
}
