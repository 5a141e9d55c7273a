//! Where the sections of a Bloscpack file lie, checked against the file's length.
//!
//! Nothing is allocated by a size that has not passed here. Used when a file is opened, and by
//! everything that finds chunks.

use crate::codec::blosc::ChunkHeader;
use crate::container::bloscpack::header::{self, FileHeader};
use crate::error::{Fault, Result};

/// Stored bytes of an entry of the offsets section.
pub(super) const ENTRY: u64 = 8;

/// Stored bytes of the smallest chunk: its header.
pub(super) const CHUNK_HEADER: u64 = ChunkHeader::LEN as u64;

#[derive(Debug, Clone, Copy)]
pub(super) struct Sections {
    /// Where the offsets section begins, if there is one. Then `chunks` is known.
    pub(super) offsets: Option<u64>,
    /// Where the first chunk begins.
    pub(super) first: u64,
    /// Number of chunks, if the header knows it.
    pub(super) chunks: Option<u64>,
    /// Spare entries behind those of the chunks.
    pub(super) spare: u64,
    /// Stored bytes of a digest.
    pub(super) digest: u64,
    /// Length of the file.
    pub(super) len: u64,
}

impl Sections {
    /// `after_metadata`: where the metadata section ends, or the header if there is none.
    pub(super) fn new(header: &FileHeader, after_metadata: u64, len: u64) -> Result<Self> {
        let mut sections = Sections {
            offsets: None,
            first: after_metadata,
            chunks: header.nchunks,
            spare: 0,
            digest: header.checksum.digest_len() as u64,
            len,
        };
        if header.has_offsets {
            sections.add_offsets(header)?;
        }
        sections.check_chunks()?;
        Ok(sections)
    }

    fn add_offsets(&mut self, header: &FileHeader) -> Result<()> {
        let entries = header
            .nchunks
            .unwrap_or(0)
            .saturating_add(header.max_app_chunks);
        let end = entries
            .checked_mul(ENTRY)
            .and_then(|bytes| bytes.checked_add(self.first));
        match end {
            Some(end) if end <= self.len => {
                self.offsets = Some(self.first);
                self.spare = header.max_app_chunks;
                self.first = end;
                Ok(())
            }
            _ => Err(Fault::new("the offsets section does not fit into the file")
                .bytes(self.first.min(self.len)..self.len)
                .expected(format_args!("room for {entries} entries of {ENTRY} bytes"))
                .found(format_args!(
                    "{} bytes",
                    self.len.saturating_sub(self.first)
                ))
                .into()),
        }
    }

    /// The chunks may be damaged, but their number must be possible.
    fn check_chunks(&self) -> Result<()> {
        let Some(chunks) = self.chunks else {
            return Ok(());
        };
        let room = self.len.saturating_sub(self.first);
        match chunks.checked_mul(self.least_chunk()) {
            Some(needed) if needed <= room => Ok(()),
            _ => Err(Fault::new("the chunks do not fit into the file")
                .bytes(self.first.min(self.len)..self.len)
                .expected(format_args!(
                    "{chunks} chunks of at least {} bytes",
                    self.least_chunk()
                ))
                .found(format_args!("{room} bytes"))
                .into()),
        }
    }

    /// Stored bytes of the smallest chunk and its digest.
    pub(super) fn least_chunk(&self) -> u64 {
        CHUNK_HEADER + self.digest
    }

    /// Whether a chunk's header could be at `at`.
    pub(super) fn has_header(&self, at: u64) -> bool {
        let end = at.checked_add(CHUNK_HEADER);
        at >= self.first && end.is_some_and(|end| end <= self.len)
    }
}

/// A file shorter than its header.
pub(super) fn short_header(len: u64) -> Fault {
    Fault::new("the header is cut short")
        .bytes(0..len)
        .expected(format_args!("{} bytes", header::LEN))
        .found(format_args!("{len} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::bloscpack::tests::files;

    fn sections(options: u8, nchunks: i64, spare: i64, len: u64) -> Result<Sections> {
        let header =
            FileHeader::parse(&files::header(options, 1, 100, 100, nchunks, spare)).unwrap();
        Sections::new(&header, 32, len)
    }

    #[test]
    fn sections_follow_each_other() {
        let found = sections(1, 4, 10, 1000).unwrap();
        assert_eq!(
            (found.offsets, found.first, found.spare),
            (Some(32), 32 + 14 * 8, 10)
        );
        let found = sections(0, 4, 10, 1000).unwrap();
        assert_eq!((found.offsets, found.first, found.spare), (None, 32, 0));
    }

    #[test]
    fn claims_are_checked_against_the_file() {
        assert!(
            sections(1, 4, 1 << 60, 1000)
                .unwrap_err()
                .to_string()
                .contains("offsets")
        );
        assert!(
            sections(1, 1 << 62, 0, 1000)
                .unwrap_err()
                .to_string()
                .contains("offsets")
        );
        assert!(
            sections(1, 4, 0, 63)
                .unwrap_err()
                .to_string()
                .contains("offsets")
        );
        assert!(
            sections(0, 1 << 62, 0, 1000)
                .unwrap_err()
                .to_string()
                .contains("chunks")
        );
        assert!(
            sections(0, 4, 0, 32 + 4 * 20 - 1)
                .unwrap_err()
                .to_string()
                .contains("chunks")
        );
        assert!(sections(0, 4, 0, 32 + 4 * 20).is_ok());
        assert!(
            sections(0, 1, 0, 20)
                .unwrap_err()
                .to_string()
                .contains("chunks")
        );
    }
}
