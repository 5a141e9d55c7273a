//! Header and sections of a Bloscpack file for those who lay out its chunks themselves.
//!
//! A scratch store keeps each of its files as one Bloscpack file, which it changes in place; it
//! knows where chunks lie, and needs from here what a header says and where the metadata end.
//! Assumes that nobody changes the file meanwhile: it is read without asking whether it is still
//! the same. Used by `scratch`.

use super::metadata::{self, numpy::Numpy};
use super::sections::short_header;
use crate::codec::blosc::ChunkHeader;
use crate::error::{Error, Result};
use crate::source::{Fetch, Source, SourceIdentity};

pub use super::header::FileHeader;

/// Stored bytes of the header.
pub const HEADER: u64 = super::header::LEN as u64;

/// What a file says before its chunks.
pub struct FileStart {
    pub header: FileHeader,
    /// Where its metadata end: there its offsets begin, if it has any.
    pub table: u64,
    /// Its metadata say which NumPy array its bytes are: of a file of another length they are
    /// wrong.
    pub describes_array: bool,
}

/// What a file of `len` bytes says at its start.
pub fn read(source: &dyn Source, len: u64) -> Result<FileStart> {
    let mut bytes = [0; super::header::LEN + metadata::HEADER];
    let found = source.read(0, &mut bytes)?;
    let (header, behind) = bytes.split_at(super::header::LEN);
    let Some(header) = header.first_chunk().filter(|_| found as u64 >= HEADER) else {
        return Err(short_header(found as u64).into());
    };
    let header = FileHeader::parse(header)?;
    if !header.has_metadata {
        return Ok(FileStart {
            header,
            table: HEADER,
            describes_array: false,
        });
    }
    let behind = behind
        .first_chunk()
        .copied()
        .filter(|_| found == bytes.len());
    let as_it_is = AsItIs { source, len };
    let metadata = metadata::read(&as_it_is, behind.as_ref())?;
    let said = metadata.said.as_ref();
    let numpy = said.and_then(|said| Numpy::from_metadata(&said.value, 0));
    Ok(FileStart {
        header,
        table: metadata.end,
        describes_array: numpy.is_some(),
    })
}

/// How the mark begins that a scratch mount leaves at the end of its files, with its version, and
/// how a record of a log does: docs/formats.md, "Names in a scratch store".
pub const MARK: &[u8; 8] = b"AFSmark\x01";
pub const RECORD: &[u8; 2] = b"\x7a\xa5";

/// Bytes of a mark; that which says its kind, and the kinds of files that have a log, are amid a
/// change, or at rest: nothing lies behind their chunks.
pub const MARK_LEN: usize = 40;
pub const MARK_KIND: usize = 32;
pub const OF_LOG: u8 = 1;
pub const OF_REDO: u8 = 2;
pub const AT_REST: u8 = 3;

/// Whether a scratch mount may have been writing to a file when it was killed.
pub fn is_left(source: &dyn Source) -> Result<bool> {
    let mut mark = [0; MARK_LEN];
    let Some(at) = source.len().checked_sub(MARK_LEN as u64) else {
        return Ok(false);
    };
    source.fetch_one(at, &mut mark)?;
    let is_synced = mark[MARK_KIND] == AT_REST && mark[8..16] == [0; 8];
    Ok(mark[..8] == MARK[..] && !is_synced)
}

/// Whether a file of a scratch store has something that is not in its chunks yet, or may have: what
/// another version has left. A crash may have cost the mark alone: then records lie behind the last
/// chunk.
pub fn has_log(source: &dyn Source) -> Result<bool> {
    let mut mark = [0; MARK_LEN];
    let Some(at) = source.len().checked_sub(MARK_LEN as u64) else {
        return Ok(false);
    };
    source.fetch_one(at, &mut mark)?;
    let is_known = mark[..8] == MARK[..];
    if mark[..7] == MARK[..7] && !is_known {
        return Ok(true);
    }
    let kind = Some(mark[MARK_KIND]).filter(|_| is_known);
    let start = match (kind, mark[8..16].first_chunk()) {
        (Some(OF_REDO), _) => return Ok(true),
        (Some(OF_LOG), Some(start)) => Some(u64::from_le_bytes(*start)),
        _ => end_of_chunks(source)?,
    };
    let mut record = [0; RECORD.len()];
    let found = start.map_or(Ok(0), |start| source.read(start, &mut record))?;
    Ok(found == record.len() && record == *RECORD)
}

/// Where the last chunk ends by the table and its header; none if they do not say.
fn end_of_chunks(source: &dyn Source) -> Result<Option<u64>> {
    let FileStart { header, table, .. } = match read(source, source.len()) {
        Ok(found) => found,
        Err(Error::Fault(_)) => return Ok(None),
        Err(e) => return Err(e),
    };
    let last = header.nchunks.filter(|_| header.has_offsets);
    let entry = last.and_then(|chunks| table.checked_add(chunks.checked_sub(1)?.checked_mul(8)?));
    let (mut at, mut chunk) = ([0; 8], [0; ChunkHeader::LEN]);
    let Some(entry) = entry.filter(|entry| *entry < source.len()) else {
        return Ok(None);
    };
    if source.read(entry, &mut at)? < at.len() {
        return Ok(None);
    }
    let at = u64::from_le_bytes(at);
    if at >= source.len() || source.read(at, &mut chunk)? < chunk.len() {
        return Ok(None);
    }
    let Ok(chunk) = ChunkHeader::parse(&chunk) else {
        return Ok(None);
    };
    let stored = u64::from(chunk.ctbytes()).saturating_add(header.checksum.digest_len() as u64);
    Ok(at.checked_add(stored).filter(|end| *end < source.len()))
}

/// A file that is read whatever became of it.
struct AsItIs<'a> {
    source: &'a dyn Source,
    len: u64,
}

impl Source for AsItIs<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> SourceIdentity {
        self.source.identity()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        ranges.iter_mut().try_for_each(|range| {
            let found = self.source.read(range.offset, range.buf)?;
            match found == range.buf.len() {
                true => Ok(()),
                false => Err(short_header(range.offset.saturating_add(found as u64)).into()),
            }
        })
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.source.read(offset, buf)
    }
}
