//! Why a chunk cannot be encoded: never the bytes, which may be any, but their number or the
//! memory.

use std::fmt;

/// A chunk that was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// More plain bytes than one chunk can hold.
    TooLarge { found: usize, limit: usize },
    /// A library could not get its working memory.
    NoContext,
    /// The caller's mistake: the plain bytes are not as many as the plan says.
    BlockLength { found: usize, expected: usize },
    /// The caller's mistake.
    ScratchSize { found: usize, expected: usize },
    /// The caller's mistake: less room than the chunk may need.
    OutputSize { found: usize, expected: usize },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { found, limit } => {
                write!(
                    f,
                    "{found} bytes are too many for a chunk, which holds {limit}"
                )
            }
            Self::NoContext => write!(f, "the compressor could not get its working memory"),
            Self::BlockLength { found, expected } => {
                write!(f, "{found} bytes were given where the plan has {expected}")
            }
            Self::ScratchSize { found, expected } => {
                write!(
                    f,
                    "encoding takes {expected} bytes of scratch and got {found}"
                )
            }
            Self::OutputSize { found, expected } => {
                write!(
                    f,
                    "the chunk may take {expected} bytes and got room for {found}"
                )
            }
        }
    }
}

impl std::error::Error for EncodeError {}
