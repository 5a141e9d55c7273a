//! How a command ends that fails: what its user reads, and the exit status. Used by all commands.

use std::fmt;

/// Why a command failed, in words for its user: what, where, and what to do.
#[derive(Debug)]
pub struct Failure {
    /// Empty if everything has been said already.
    pub(super) message: String,
    /// The exit status of the program.
    pub(super) status: u8,
}

pub(super) type CommandResult = Result<(), Failure>;

impl Failure {
    pub(super) fn new(message: impl fmt::Display) -> Self {
        Failure {
            message: crate::error::without_numbers(&message.to_string()),
            status: 1,
        }
    }

    pub(super) fn usage(message: impl fmt::Display) -> Self {
        Failure {
            message: message.to_string(),
            status: 2,
        }
    }

    /// Everything has been said already.
    pub(super) fn silent() -> Self {
        Failure {
            message: String::new(),
            status: 1,
        }
    }
}

impl From<crate::error::Error> for Failure {
    fn from(e: crate::error::Error) -> Self {
        Failure::new(e)
    }
}
