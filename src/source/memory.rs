//! A file in memory, for code that has the bytes of a file and reads them as one.

use super::{Fetch, FileId, FileIdentity, Source, Timestamp};
use crate::error::{Error, Result};

pub struct BytesSource(Vec<u8>);

impl BytesSource {
    pub fn new(bytes: Vec<u8>) -> BytesSource {
        BytesSource(bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn from(&self, offset: u64) -> &[u8] {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        self.0.get(at..).unwrap_or_default()
    }
}

impl Source for BytesSource {
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
