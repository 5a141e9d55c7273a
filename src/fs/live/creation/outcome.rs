//! What packing a new container comes to. Used by [`super::pack`], and by who asks for it.

use crate::error::Error;

/// What is done with new containers of which something is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InUse {
    /// They stay new.
    Spared,
    /// They are packed: the handles are taken to write no more.
    Ignored,
}

/// The outcome of packing a new container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PackOutcome {
    /// It is new no more.
    Packed,
    /// Nothing has been put into it.
    Empty,
    /// Not all of it is there yet; says what is missing.
    Unfilled(String),
}

/// Whether the error says that it is in use, or has been given up: it is tried again.
pub(super) fn is_busy(e: &Error) -> bool {
    match e {
        Error::Io { cause, .. } => cause.raw_os_error() == Some(libc::EBUSY),
        _ => matches!(e, Error::Unwanted),
    }
}
