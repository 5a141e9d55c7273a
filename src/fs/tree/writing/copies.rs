//! Copies within the mount that a program leaves to the system (copy_file_range(2)).
//!
//! Files are copied by the source's file system, what containers show by reading it here, so that
//! none of its bytes go through the kernel. Used by [`super`].

use super::super::Tree;
use super::super::inode::InodeId;
use super::super::open_file::{HandleId, OpenFile};
use crate::disk::{Caller, DiskFile, Putting};
use crate::error::{Error, Result};
use crate::live::shown::open_entry::PageCache;

/// Bytes that are read at once, and most of a request: its program cannot be interrupted before.
const PART: u64 = 256 << 10;
const MOST: u64 = 16 << 20;

impl Tree {
    /// Copies a range of one open file to another, as far as the source can. Into arrays the
    /// program writes what it reads.
    pub fn copy_range(
        &self,
        from: (HandleId, u64),
        to: (InodeId, HandleId, u64),
        len: u64,
        caller: Caller,
    ) -> Result<usize> {
        let (source, open) = (
            self.fs.open_files.get(from.0)?,
            self.fs.open_files.get(to.1)?,
        );
        if open.array_writer().is_some() {
            return Err(Error::Unsupported);
        }
        let (file, of) = open.written().ok_or(Error::NotOpenForWriting)?;
        let range = from.1..from.1.saturating_add(len);
        let at = to.2;
        self.change(to.0, of, file, || match source.source() {
            Some(source) => file.copy(source, range, at, caller),
            None => self.copy_shown((&source, range.start), (file, at), len, caller),
        })
    }

    /// What a container shows, as far as a request goes.
    fn copy_shown(
        &self,
        (source, from): (&OpenFile, u64),
        (file, to): (&dyn DiskFile, u64),
        len: u64,
        caller: Caller,
    ) -> Result<usize> {
        let (most, mut done) = (len.min(MOST), 0);
        while done < most {
            let (at, len) = (from.saturating_add(done), PART.min(most - done) as usize);
            let put = |bytes: Result<&[u8]>| {
                let bytes = bytes?;
                let at = to.saturating_add(done);
                let put = file.put(at, bytes, Putting::default(), caller)?;
                Ok((put, put < bytes.len()))
            };
            let pages = PageCache::Bypassed;
            match source.read(&self.workers, at, len, pages, put) {
                // The next request finds out why.
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
                Ok((n, is_full)) => {
                    done += n as u64;
                    if n == 0 || is_full {
                        break;
                    }
                }
            }
        }
        Ok(done as usize)
    }
}
