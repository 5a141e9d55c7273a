//! Files in memory: one that is read as a source, and a tree of them.
//!
//! [`BytesSource`] is for code that has the bytes of a file. [`MemoryStore`] is a store without a
//! file system under it: for tests, which show by it that what reads containers needs none.

#[cfg(test)]
mod far;
mod store;

pub use store::MemoryStore;

#[cfg(test)]
pub(crate) use far::{FarRequests, FarSource};

use std::sync::Arc;

use super::{Fetch, ObjectTag, Source, SourceIdentity};
use crate::error::{Error, Result};

pub struct BytesSource {
    bytes: Arc<Vec<u8>>,
    tag: ObjectTag,
}

impl BytesSource {
    pub fn new(bytes: Vec<u8>) -> BytesSource {
        BytesSource {
            bytes: Arc::new(bytes),
            tag: ObjectTag::default(),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn from(&self, offset: u64) -> &[u8] {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        self.bytes.get(at..).unwrap_or_default()
    }
}

impl Source for BytesSource {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn identity(&self) -> SourceIdentity {
        SourceIdentity::of_object(self.tag, self.len())
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        let beyond = || Error::io("read beyond the end", std::io::ErrorKind::UnexpectedEof);
        ranges.iter_mut().try_for_each(|range| {
            let bytes = self.from(range.offset).get(..range.buf.len());
            range.buf.copy_from_slice(bytes.ok_or_else(beyond)?);
            Ok(())
        })
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let bytes = self.from(offset);
        let n = bytes.len().min(buf.len());
        buf[..n].copy_from_slice(&bytes[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_where_its_bytes_do() {
        let source = BytesSource::new(b"0123456789".to_vec());
        let mut buf = [0; 4];
        source.fetch_one(6, &mut buf).unwrap();
        assert_eq!(&buf, b"6789");
        assert!(
            source.fetch_one(7, &mut buf).is_err() && source.fetch_one(u64::MAX, &mut buf).is_err()
        );
        assert_eq!(
            (source.read(8, &mut buf).unwrap(), &buf[..2]),
            (2, &b"89"[..])
        );
        assert_eq!(source.read(11, &mut buf).unwrap(), 0);
    }
}
