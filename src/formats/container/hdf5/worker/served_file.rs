//! The bytes of a file as the worker gets at them: by a descriptor, or by asking the daemon.
//!
//! Used by [`super::serve`].

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use lru::LruCache;

use super::wire::{PAGE, ask_page};
use crate::container::hdf5::library::FileBytes;
use crate::sync::Mutex;

/// Pages that are kept of those that were asked for.
const PAGES: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// A file that came with its descriptor.
pub(super) struct OpenedBytes {
    file: File,
    len: u64,
}

impl OpenedBytes {
    pub(super) fn new(fd: OwnedFd, len: u64) -> OpenedBytes {
        let file = File::from(fd);
        OpenedBytes { file, len }
    }
}

impl FileBytes for OpenedBytes {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), String> {
        let read = self.file.read_exact_at(out, at);
        read.map_err(|e| format!("the file cannot be read: {e}"))
    }
}

/// A file whose bytes the daemon hands over.
pub(super) struct AskedBytes {
    socket: File,
    len: u64,
    pages: Mutex<LruCache<u64, Vec<u8>>>,
}

impl AskedBytes {
    pub(super) fn new(socket: File, len: u64) -> AskedBytes {
        AskedBytes {
            socket,
            len,
            pages: Mutex::new(LruCache::new(PAGES)),
        }
    }

    fn ask(&self, number: u64) -> Result<Vec<u8>, String> {
        let at = number * PAGE;
        let mut page = vec![0; PAGE.min(self.len.saturating_sub(at)) as usize];
        ask_page(&self.socket, at, &mut page).map_err(|e| e.to_string())?;
        Ok(page)
    }
}

impl FileBytes for AskedBytes {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), String> {
        let mut pages = self.pages.lock();
        let (mut at, mut rest) = (at, out);
        while !rest.is_empty() {
            let (number, skip) = (at / PAGE, (at % PAGE) as usize);
            let page = pages.try_get_or_insert(number, || self.ask(number))?;
            let part = page.get(skip..).unwrap_or_default();
            let n = part.len().min(rest.len());
            if n == 0 {
                return Err("the file ends early".into());
            }
            rest[..n].copy_from_slice(&part[..n]);
            rest = &mut rest[n..];
            at += n as u64;
        }
        Ok(())
    }
}
