//! What can be wrong with a filter pipeline: an unknown filter, a chunk that does not decode.
//!
//! Decoders raise a [`FilterError`] without a name; [`super::Pipeline`] adds that of the filter.

use crate::blosc::{BloscError, StreamError};
use crate::error::Error;
use std::fmt;

/// A filter that cannot be decoded, found before any chunk is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    pub id: u32,
    pub reason: String,
    /// There is no decoder; otherwise its client values are none that it can have.
    pub is_unknown: bool,
}

impl Unsupported {
    /// A filter with client values that it cannot have.
    pub(super) fn new(id: u32, reason: impl Into<String>) -> Self {
        Self {
            id,
            reason: reason.into(),
            is_unknown: false,
        }
    }

    /// A filter without a decoder here.
    pub(super) fn unknown(id: u32, reason: impl Into<String>) -> Self {
        Self {
            is_unknown: true,
            ..Self::new(id, reason)
        }
    }

    /// The filter's name, if it has one.
    pub(super) fn name(&self) -> Option<&'static str> {
        known_name(self.id)
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "filter {} ({name}): {}", self.id, self.reason),
            None => write!(f, "filter {}: {}", self.id, self.reason),
        }
    }
}

impl std::error::Error for Unsupported {}

/// Names of registered filters, decoded here or not.
fn known_name(id: u32) -> Option<&'static str> {
    Some(match id {
        1 => "gzip",
        2 => "shuffle",
        3 => "fletcher32",
        4 => "szip",
        5 => "nbit",
        6 => "scaleoffset",
        307 => "bzip2",
        32000 => "lzf",
        32001 => "blosc",
        32004 => "lz4",
        32008 => "bitshuffle",
        32013 => "zfp",
        32015 => "zstd",
        32017 => "sz",
        32024 => "sz3",
        32026 => "blosc2",
        32028 => "sperr",
        _ => return None,
    })
}

/// Why a stored chunk is not decoded.
#[derive(Debug)]
pub enum FilterError {
    /// The stored bytes cannot be right.
    Damage(Box<Undecodable>),
    /// They were not looked at to the end: there was no memory.
    Failed(Error),
}

/// What is wrong with stored bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Name of the filter; empty where the fault is that of the chunk as a whole.
    pub filter: &'static str,
    pub what: String,
    pub expected: Option<String>,
    pub found: Option<String>,
}

impl FilterError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::Damage(Box::new(Undecodable {
            filter: "",
            what: what.into(),
            expected: None,
            found: None,
        }))
    }

    pub(crate) fn expected(self, expected: impl fmt::Display) -> Self {
        self.with(|damage| damage.expected = Some(expected.to_string()))
    }

    pub(crate) fn found(self, found: impl fmt::Display) -> Self {
        self.with(|damage| damage.found = Some(found.to_string()))
    }

    /// The stored bytes stop before the decoder has what it needs.
    pub(crate) fn truncated() -> Self {
        Self::new("the stored bytes end too early")
    }

    /// More comes out than the chunk can hold.
    pub(crate) fn too_long(room: usize) -> Self {
        Self::new("it decodes to too many bytes").expected(format_args!("at most {room}"))
    }

    pub(crate) fn of(self, filter: &'static str) -> Self {
        self.with(|damage| damage.filter = filter)
    }

    fn with(mut self, change: impl FnOnce(&mut Undecodable)) -> Self {
        if let Self::Damage(damage) = &mut self {
            change(damage);
        }
        self
    }
}

impl From<Error> for FilterError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StreamError> for FilterError {
    fn from(error: StreamError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<BloscError> for FilterError {
    fn from(error: BloscError) -> Self {
        Self::new(error.to_string())
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage(damage) => damage.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.filter.is_empty() {
            write!(f, "{}: ", self.filter)?;
        }
        write!(f, "{}", self.what)?;
        match (&self.expected, &self.found) {
            (Some(e), Some(found)) => write!(f, ": expected {e}, found {found}"),
            (Some(e), None) => write!(f, ": expected {e}"),
            (None, Some(found)) => write!(f, ": found {found}"),
            (None, None) => Ok(()),
        }
    }
}

impl std::error::Error for FilterError {}
