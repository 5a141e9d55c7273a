//! A stored file as it is when its log has been merged, without changing it: for those who only
//! read.
//!
//! A merge that has begun puts bytes that lie in its records, and a log is merged by a plan of
//! which the new chunks are made when they are read ([`super::logged`]); either way some pieces of
//! the file come from elsewhere.
//! Assumes that the file does not change meanwhile: the source says so if it does. Given by `cli`
//! to containers (`container::LogsInFiles`), which open files of scratch stores like any others;
//! used by [`super::file`] in a store that is only read.

use std::ops::Range;
use std::sync::Arc;

use super::base::StoredChunks;
use super::encode::{EncodeOptions, encoded_zeros};
use super::logged::LoggedChunks;
use super::merge::MergePlan;
use super::overlay::LogOverlay;
use super::pieces::MergePiece;
use super::tail::{self, RecordKind};
use crate::container::bloscpack::layout;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::fallible;
use crate::source::{PatchedSource, Source, SourcePatches};

/// A file with what its log says, or a merge that has begun; none if it has neither. What that
/// takes in memory is charged to the budget.
pub fn read_through_log(
    source: &Arc<dyn Source>,
    budget: &Arc<Budget>,
) -> Result<Option<Arc<dyn Source>>> {
    if !layout::has_log(&**source)? {
        return Ok(None);
    }
    // What a merge has begun has all that the log had.
    if let Some(finished) = finished(source, source.len(), budget)? {
        return Ok(Some(finished));
    }
    match merged(source, budget) {
        // What is wrong is found, and told better, by the reader of the format.
        Err(Error::Fault(_)) => Ok(None),
        merged => merged,
    }
}

/// The file after a merge that has begun; none if it is under none.
pub(super) fn finished(
    source: &Arc<dyn Source>,
    len: u64,
    budget: &Arc<Budget>,
) -> Result<Option<Arc<dyn Source>>> {
    let Some(mark) = tail::pending_merge(&**source, len)? else {
        return Ok(None);
    };
    let (start, fingerprint) = (mark.start, mark.fingerprint);
    let mut pieces = Vec::new();
    tail::records(&**source, start, fingerprint, |record| {
        let piece = MergePiece::Moved {
            from: record.carried_at,
            to: record.at,
            len: record.len,
        };
        match record.kind {
            RecordKind::Redo => fallible::push(&mut pieces, piece, "cannot read a merge"),
            _ => Ok(()),
        }
    })?;
    let takes = (pieces.capacity() * size_of::<MergePiece>()) as u64;
    let relaid = RelaidPieces {
        pieces,
        logged: None,
        _hold: budget.keep(takes)?,
    };
    relaid.over(source, mark.end).map(Some)
}

/// The file with its log merged; none if it has none.
fn merged(source: &Arc<dyn Source>, budget: &Arc<Budget>) -> Result<Option<Arc<dyn Source>>> {
    let fresh = EncodeOptions::default().form();
    let stored = match StoredChunks::read(&**source, source.len(), fresh.chunk_size) {
        Err(Error::NotShown(_)) => return Ok(None),
        stored => stored?,
    };
    let Some(overlay) = LogOverlay::read(&**source, &stored, budget)? else {
        return Ok(None);
    };
    let logged = LoggedChunks::new(stored, overlay, fresh);
    let hold = budget.keep(logged.takes())?;
    let base = logged.base();
    let size = base.form.chunk_size as usize;
    let order = logged.order(encoded_zeros(size, base.form.checksum)?)?;
    let plan = MergePlan::new(&base, order)?;
    let end = plan.stored.end();
    let relaid = RelaidPieces {
        pieces: plan.pieces,
        logged: Some(logged),
        _hold: hold,
    };
    relaid.over(source, end).map(Some)
}

/// Bytes of a table that are made at once.
const TABLE_PART: usize = 64 << 10;

/// Pieces of a file that come from elsewhere.
struct RelaidPieces {
    /// By where they go; none overlap.
    pieces: Vec<MergePiece>,
    /// What makes those that are made when they are read.
    logged: Option<LoggedChunks>,
    /// The memory of all this.
    _hold: Hold,
}

impl RelaidPieces {
    fn over(mut self, file: &Arc<dyn Source>, len: u64) -> Result<Arc<dyn Source>> {
        self.pieces.retain(|piece| piece.len() > 0);
        self.pieces.sort_by_key(MergePiece::to);
        let overlap = |two: &&[MergePiece]| two[0].to().saturating_add(two[0].len()) > two[1].to();
        if let Some(two) = self.pieces.windows(2).find(overlap) {
            let fault = Fault::new("pieces of a merge overlap");
            return Err(fault.found(two[1].to()).into());
        }
        Ok(Arc::new(PatchedSource::new(Arc::clone(file), self, len)))
    }
}

impl SourcePatches for RelaidPieces {
    type Piece = MergePiece;

    fn pieces(&self) -> &[MergePiece] {
        &self.pieces
    }

    fn place(piece: &MergePiece) -> Range<u64> {
        piece.to()..piece.to().saturating_add(piece.len())
    }

    fn read(
        &self,
        piece: &MergePiece,
        below: &dyn Source,
        from: u64,
        out: &mut [u8],
    ) -> Result<usize> {
        let copied = |bytes: &[u8], out: &mut [u8]| {
            let n = bytes.len().min(out.len());
            out[..n].copy_from_slice(&bytes[..n]);
            Ok(n)
        };
        match piece {
            MergePiece::New { bytes, .. } => copied(&bytes[from as usize..], out),
            MergePiece::Repeated { bytes, .. } => {
                copied(&bytes[(from % bytes.len() as u64) as usize..], out)
            }
            MergePiece::Made { number, .. } => match &self.logged {
                Some(logged) => logged.read(below, *number, from, out),
                None => Ok(0),
            },
            MergePiece::Table { .. } => {
                let len = out.len().min(TABLE_PART);
                copied(&piece.table_part(from, len)?, out)
            }
            MergePiece::Moved { from: stored, .. } => {
                below.fetch_one(stored.saturating_add(from), out)?;
                Ok(out.len())
            }
        }
    }
}
