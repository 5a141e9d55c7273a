//! Walks over the header's bytes, which are read in growing windows: a header may be longer than
//! what was read of it.
//!
//! Every count is compared with the bytes that the file has left before anything is made of it.
//! Numbers are big-endian. Used by `header`.

use super::kind::ClassicVersion;
use crate::error::{Error, Fault};

/// Why a walk ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The window ends before this byte of the file.
    More(u64),
    Fault(Box<Fault>),
    /// There is no memory for what it says.
    Refused(Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault.into())
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Refused(error)
    }
}

pub(super) type Parsed<T> = std::result::Result<T, Stop>;

pub(super) struct Cursor<'a> {
    /// The file from its first byte.
    window: &'a [u8],
    at: usize,
    file_len: u64,
    pub(super) version: ClassicVersion,
}

impl<'a> Cursor<'a> {
    /// Starts at byte `at` of the file, of which `window` is the beginning.
    pub(super) fn new(window: &'a [u8], at: usize, file_len: u64, version: ClassicVersion) -> Self {
        Cursor {
            window,
            at,
            file_len,
            version,
        }
    }

    pub(super) fn at(&self) -> u64 {
        self.at as u64
    }

    /// The next `n` bytes.
    pub(super) fn take(&mut self, n: u64) -> Parsed<&'a [u8]> {
        let end = self.at().saturating_add(n);
        if end > self.file_len {
            let fault = Fault::new("the header goes on after the end of the file");
            let fault = fault.bytes(self.at()..end);
            return Err(fault
                .expected(format!("at most {}", self.file_len))
                .found(end)
                .into());
        }
        let bytes = usize::try_from(end)
            .ok()
            .and_then(|end| self.window.get(self.at..end));
        let bytes = bytes.ok_or(Stop::More(end))?;
        self.at += bytes.len();
        Ok(bytes)
    }

    /// The next `n` bytes and what fills them up to a multiple of four. The filling should be
    /// zeros, but is not in the files of some writers; nothing depends on it.
    pub(super) fn padded(&mut self, n: u64) -> Parsed<&'a [u8]> {
        let bytes = self.take(n)?;
        self.take(n.wrapping_neg() % 4)?;
        Ok(bytes)
    }

    pub(super) fn word(&mut self) -> Parsed<u32> {
        let mut word = [0; 4];
        word.copy_from_slice(self.take(4)?);
        Ok(u32::from_be_bytes(word))
    }

    pub(super) fn long(&mut self) -> Parsed<u64> {
        let mut long = [0; 8];
        long.copy_from_slice(self.take(8)?);
        Ok(u64::from_be_bytes(long))
    }

    /// A count, size or number: 8 bytes in CDF-5, 4 before.
    pub(super) fn size(&mut self) -> Parsed<u64> {
        if self.version.has_long_sizes() {
            self.long()
        } else {
            self.word().map(u64::from)
        }
    }

    /// A place in the file: 4 bytes in CDF-1, 8 since.
    pub(super) fn offset(&mut self) -> Parsed<u64> {
        if self.version.has_long_offsets() {
            self.long()
        } else {
            self.word().map(u64::from)
        }
    }

    /// A number of things of at least `smallest` bytes each, which the file must have room for.
    pub(super) fn count(&mut self, smallest: u64, what: &str) -> Parsed<u64> {
        let start = self.at();
        let count = self.size()?;
        let most = (self.file_len - self.at()) / smallest;
        if count > most {
            let fault = Fault::new(format!(
                "the header has more {what} than the file has room for"
            ));
            let fault = fault.bytes(start..self.at());
            return Err(fault
                .expected(format!("at most {most}"))
                .found(count)
                .into());
        }
        Ok(count)
    }

    /// A name, which ends at its first NUL: some writers count the NULs behind it as well, and the
    /// NetCDF library reads names as C strings.
    pub(super) fn name(&mut self) -> Parsed<&'a [u8]> {
        let len = self.count(1, "bytes in a name")?;
        let name = self.padded(len)?;
        let end = memchr::memchr(0, name).unwrap_or(name.len());
        Ok(&name[..end])
    }
}
