//! How much a commit does. Used by all of `live`.

use std::time::Duration;

/// How much a commit may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// As much as a close may wait for.
    Usual,
    /// All of it, however long that takes.
    All,
}

impl Effort {
    /// What a mount that is about to end has time for.
    pub(super) fn in_a_hurry(self) -> Duration {
        match self {
            Effort::Usual => Duration::from_secs(10),
            Effort::All => Duration::ZERO,
        }
    }
}
