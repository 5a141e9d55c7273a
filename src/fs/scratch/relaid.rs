//! A stored file as it is when its log has been merged, without changing it: for those who only
//! read.
//!
//! A merge that has begun puts bytes that lie in its records, and a log is merged by a plan of
//! which the new chunks are made when they are read ([`super::logged`]); either way some pieces of
//! the file come from elsewhere.
//! Assumes that the file does not change meanwhile: the source says so if it does. Given by `cli`
//! to containers (`container::LogsInFiles`), which open files of scratch stores like any others;
//! used by [`super::file`] in a store that is only read.

use std::ffi::{OsStr, OsString};
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
use crate::source::{Fetch, PosixFile, Source, SourceIdentity, Stat};

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
    let hold = budget.keep(takes)?;
    let mut relaid = RelaidSource::new(Arc::clone(source), pieces, mark.end)?;
    relaid.hold = Some(hold);
    Ok(Some(Arc::new(relaid)))
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
    let mut relaid = RelaidSource::new(Arc::clone(source), plan.pieces, end)?;
    (relaid.logged, relaid.hold) = (Some(logged), Some(hold));
    Ok(Some(Arc::new(relaid)))
}

/// Bytes of a table that are made at once.
const TABLE_PART: u64 = 64 << 10;

/// A source of which pieces come from elsewhere.
struct RelaidSource {
    inner: Arc<dyn Source>,
    /// By where they go; none overlap.
    pieces: Vec<MergePiece>,
    len: u64,
    /// What makes those that are made when they are read.
    logged: Option<LoggedChunks>,
    /// The memory of all this.
    hold: Option<Hold>,
}

impl RelaidSource {
    fn new(inner: Arc<dyn Source>, mut pieces: Vec<MergePiece>, len: u64) -> Result<RelaidSource> {
        pieces.retain(|piece| piece.len() > 0);
        pieces.sort_by_key(MergePiece::to);
        let overlap = |two: &&[MergePiece]| two[0].to().saturating_add(two[0].len()) > two[1].to();
        if let Some(two) = pieces.windows(2).find(overlap) {
            let fault = Fault::new("pieces of a merge overlap");
            return Err(fault.found(two[1].to()).into());
        }
        Ok(RelaidSource {
            inner,
            pieces,
            len,
            logged: None,
            hold: None,
        })
    }

    /// Reads from one piece, or from between two of them: at least one byte, if the file has it.
    fn read_some(&self, at: u64, buf: &mut [u8]) -> Result<usize> {
        let next = self.pieces.partition_point(|piece| piece.to() <= at);
        let piece = next.checked_sub(1).and_then(|last| self.pieces.get(last));
        let within = piece.and_then(|piece| {
            let from = at - piece.to();
            let left = piece.len().checked_sub(from).filter(|left| *left > 0)?;
            Some((piece, from, left))
        });
        match within {
            Some((piece, from, left)) => {
                let n = left.min(buf.len() as u64) as usize;
                self.read_piece(piece, from, &mut buf[..n])
            }
            None => {
                let end = self.pieces.get(next).map_or(self.len, MergePiece::to);
                let n = end.saturating_sub(at).min(buf.len() as u64) as usize;
                self.inner.read(at, &mut buf[..n])
            }
        }
    }

    fn read_piece(&self, piece: &MergePiece, from: u64, buf: &mut [u8]) -> Result<usize> {
        let copied = |bytes: &[u8], buf: &mut [u8]| {
            let n = bytes.len().min(buf.len());
            buf[..n].copy_from_slice(&bytes[..n]);
            Ok(n)
        };
        match piece {
            MergePiece::New { bytes, .. } => copied(&bytes[from as usize..], buf),
            MergePiece::Repeated { bytes, .. } => {
                copied(&bytes[(from % bytes.len() as u64) as usize..], buf)
            }
            MergePiece::Made { number, .. } => match &self.logged {
                Some(logged) => logged.read(&*self.inner, *number, from, buf),
                None => Ok(0),
            },
            MergePiece::Table { .. } => {
                let len = (piece.len() - from).min(TABLE_PART).min(buf.len() as u64);
                let part = piece.table_part(from, len as usize)?;
                buf[..part.len()].copy_from_slice(&part);
                Ok(part.len())
            }
            MergePiece::Moved { from: stored, .. } => {
                self.inner.read(stored.saturating_add(from), buf)
            }
        }
    }
}

impl Source for RelaidSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> SourceIdentity {
        self.inner.identity()
    }

    fn stat(&self) -> Result<Stat> {
        self.inner.stat()
    }

    fn stat_opened(&self) -> Result<Stat> {
        self.inner.stat_opened()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        for range in ranges {
            let found = self.read(range.offset, range.buf)?;
            if found < range.buf.len() {
                let end = range.offset.saturating_add(range.buf.len() as u64);
                let fault = Fault::new("the stored bytes end early").bytes(range.offset..end);
                return Err(fault.expected(range.buf.len()).found(found).into());
            }
        }
        Ok(())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let n = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut done = 0;
        while done < n {
            match self.read_some(offset + done as u64, &mut buf[done..n])? {
                0 => break,
                some => done += some,
            }
        }
        Ok(done)
    }

    fn as_posix(&self) -> Option<&dyn PosixFile> {
        Some(self)
    }
}

impl PosixFile for RelaidSource {
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>> {
        self.inner.posix()?.xattr(name)
    }

    fn xattr_names(&self) -> Result<Vec<OsString>> {
        self.inner.posix()?.xattr_names()
    }
}
