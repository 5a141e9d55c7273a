//! Pieces of a merge: bytes that are put in a stored file, or that move in it.
//!
//! Laid out by [`super::merge`]; put by [`super::redo`], read in their places
//! by [`super::relaid`].

use std::ops::Range;
use std::sync::Arc;

use super::base::ENTRY;
use super::places::ChunkPlaces;
use crate::error::Result;
use crate::memory::fallible;

/// Bytes that are put, or that move.
#[derive(Debug, Clone)]
pub(super) enum MergePiece {
    New {
        to: u64,
        bytes: Vec<u8>,
    },
    Moved {
        from: u64,
        to: u64,
        len: u64,
    },
    /// So many times the same bytes: chunks of zeros.
    Repeated {
        to: u64,
        bytes: Arc<Vec<u8>>,
        count: u64,
    },
    /// A chunk that is made when it is read.
    Made {
        to: u64,
        number: u64,
        len: u64,
    },
    /// Entries of the table: of these chunks, and so many that say nothing.
    Table {
        to: u64,
        places: ChunkPlaces,
        chunks: Range<u64>,
        unused: u64,
    },
}

impl MergePiece {
    pub(super) fn to(&self) -> u64 {
        match self {
            MergePiece::New { to, .. }
            | MergePiece::Moved { to, .. }
            | MergePiece::Repeated { to, .. }
            | MergePiece::Made { to, .. }
            | MergePiece::Table { to, .. } => *to,
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            MergePiece::New { bytes, .. } => bytes.len() as u64,
            MergePiece::Moved { len, .. } | MergePiece::Made { len, .. } => *len,
            MergePiece::Repeated { bytes, count, .. } => bytes.len() as u64 * count,
            MergePiece::Table { chunks, unused, .. } => {
                (chunks.end - chunks.start + unused) * ENTRY
            }
        }
    }

    /// Gives the bytes of one that does not move, in order and in parts of some size.
    pub(super) fn parts(
        &self,
        most: usize,
        mut each: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        match self {
            MergePiece::Moved { .. } | MergePiece::Made { .. } => Ok(()),
            MergePiece::New { to, bytes } => {
                let mut at = *to;
                bytes.chunks(most).try_for_each(|part| {
                    each(at, part)?;
                    at += part.len() as u64;
                    Ok(())
                })
            }
            MergePiece::Repeated { to, bytes, count } => {
                let at_once = (most / bytes.len().max(1)).max(1) as u64;
                let many = bytes.repeat(at_once.min(*count) as usize);
                let mut done = 0;
                while done < *count {
                    let n = at_once.min(*count - done);
                    let part = &many[..n as usize * bytes.len()];
                    each(*to + done * bytes.len() as u64, part)?;
                    done += n;
                }
                Ok(())
            }
            MergePiece::Table { to, .. } => {
                let (mut at, len) = (0, self.len());
                while at < len {
                    let part = self.table_part(at, most.min((len - at) as usize))?;
                    each(*to + at, &part)?;
                    at += part.len() as u64;
                }
                Ok(())
            }
        }
    }

    /// So many bytes of a table, from an offset in the piece on.
    pub(super) fn table_part(&self, from: u64, len: usize) -> Result<Vec<u8>> {
        let MergePiece::Table { places, chunks, .. } = self else {
            return Ok(Vec::new());
        };
        let (first, skip) = (from / ENTRY, (from % ENTRY) as usize);
        let entries = (skip + len).div_ceil(ENTRY as usize);
        let mut bytes = fallible::room_for(entries * ENTRY as usize, "cannot store a table")?;
        let first = chunks.start.saturating_add(first).min(chunks.end);
        let known = places.starts(first..chunks.end).take(entries);
        bytes.extend(known.flat_map(u64::to_le_bytes));
        bytes.resize(entries * ENTRY as usize, 0xff);
        bytes.truncate(skip + len);
        Ok(bytes.split_off(skip))
    }
}
