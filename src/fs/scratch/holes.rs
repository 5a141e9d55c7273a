//! Holes of a file: chunks of zeros.
//!
//! Stored zeros are told by their bytes, which are the same for all chunks of one length; many are
//! looked at with one read. A chunk that has become zeros and fills a larger place is data. Used by
//! [`super::handles`], for lseek(2).

use super::base::read_all;
use super::content::FileContent;
use super::encode::{are_zeros, encoded_zeros};
use super::file::ScratchFile;
use crate::error::{Error, Result};
use crate::memory::fallible;

/// Stored bytes that are looked at at once.
const WINDOW: u64 = 64 << 10;

/// The next data at or behind an offset, or the next hole; the end of the file is one.
pub(super) fn seek(file: &ScratchFile, offset: u64, hole: bool) -> Result<u64> {
    let content = file.read();
    if offset >= content.len {
        return Err(Error::BeyondTheEnd);
    }
    let size = content.chunk_size();
    let mut zeros = StoredZeros::of(file, &content)?;
    let mut number = offset / size;
    while number * size < content.len {
        if zeros.has(number)? == hole {
            return Ok(offset.max(number * size));
        }
        number += 1;
    }
    match hole {
        true => Ok(content.len),
        false => Err(Error::BeyondTheEnd),
    }
}

/// Tells zeros from data.
struct StoredZeros<'a> {
    file: &'a ScratchFile,
    content: &'a FileContent,
    /// A whole chunk of them, as it is stored.
    encoded: Vec<u8>,
    window: Vec<u8>,
    /// Where the window begins.
    at: u64,
}

impl<'a> StoredZeros<'a> {
    fn of(file: &'a ScratchFile, content: &'a FileContent) -> Result<Self> {
        let size = content.chunk_size() as usize;
        Ok(StoredZeros {
            file,
            content,
            encoded: match content.valid > 1 {
                true => encoded_zeros(size, content.stored.form.checksum)?,
                false => Vec::new(),
            },
            window: Vec::new(),
            at: 0,
        })
    }

    fn has(&mut self, number: u64) -> Result<bool> {
        if let Some(held) = self.content.held().get(&number) {
            return Ok(are_zeros(&held.bytes));
        }
        if number >= self.content.valid {
            return Ok(true);
        }
        let (at, len) = self.content.stored.slot(number).unwrap_or_default();
        let is_last = number + 1 == self.content.stored.chunks();
        if is_last {
            let plain = self.content.stored.plain(number);
            let encoded = encoded_zeros(plain, self.content.stored.form.checksum)?;
            return Ok(len == encoded.len() as u64 && self.stored(at, len)? == encoded);
        }
        if len != self.encoded.len() as u64 {
            return Ok(false);
        }
        let encoded = std::mem::take(&mut self.encoded);
        let is_same = self.stored(at, len).map(|stored| stored == encoded);
        self.encoded = encoded;
        is_same
    }

    fn stored(&mut self, at: u64, len: u64) -> Result<&[u8]> {
        let end = self.at + self.window.len() as u64;
        if at < self.at || at + len > end {
            let len = self
                .content
                .stored
                .end()
                .saturating_sub(at)
                .min(WINDOW.max(len));
            self.window = fallible::zeros(len, "cannot look for holes")?;
            self.at = at;
            read_all(&*self.file.reader, at, &mut self.window)?;
        }
        let start = (at - self.at) as usize;
        let found = self.window.get(start..start + len as usize);
        found.ok_or_else(|| Error::Bug("a chunk is not in its file".into()))
    }
}
