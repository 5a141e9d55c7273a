//! What the tests of datasets, strings and heaps put files together with.

use super::index::FileIndex;
use crate::error::{Error, Result};
use crate::source::{Fetch, FileId, FileIdentity, Source, Timestamp};

/// A source in memory; reading beyond its end is an error of the caller.
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Source for Bytes {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn identity(&self) -> FileIdentity {
        FileIdentity {
            id: FileId::default(),
            size: self.len(),
            mtime: Timestamp::default(),
        }
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        for range in ranges {
            let at = range.offset as usize;
            let bytes = self
                .0
                .get(at..)
                .and_then(|rest| rest.get(..range.buf.len()));
            let beyond = || Error::io("read beyond the end", std::io::ErrorKind::UnexpectedEof);
            range.buf.copy_from_slice(bytes.ok_or_else(beyond)?);
        }
        Ok(())
    }

    fn read(&self, _offset: u64, _buf: &mut [u8]) -> Result<usize> {
        Err(Error::Unsupported)
    }
}

/// Of a file without anything in it, with 8-byte addresses and lengths.
pub(super) fn empty_index() -> FileIndex {
    FileIndex {
        superblock: 0,
        offset_size: 8,
        length_size: 8,
        base: 0,
        groups: vec![],
        datasets: vec![],
        problems: vec![],
        left_out: vec![],
    }
}
