//! Whether a zip file is one of a store: by a document among its members. Used by
//! [`super::super::super::recognise`].

use super::end;
use super::entry::{ENTRY_LEN, ZipEntry};
use crate::container::zarr::DOCUMENTS;
use crate::error::{Error, Result};
use crate::memory::fallible;
use crate::source::Source;

/// So much of the directory is looked at at once; no entry is longer.
const WINDOW: u64 = 256 << 10;

/// Whether a file begins as an archive does.
pub(in super::super::super) fn is_zip(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

/// Whether its directory, as far as it can be read, has a document of a store.
pub(in super::super::super) fn holds_store(source: &dyn Source) -> Result<bool> {
    let place = match end::find(source) {
        Ok(place) => place,
        Err(Error::Fault(_)) => return Ok(false),
        Err(e) => return Err(e),
    };
    let mut at = place.start;
    let mut window = Vec::new();
    while at < place.end {
        let len = WINDOW.min(place.end - at) as usize;
        fallible::lengthen(&mut window, len, "cannot read the directory of a zip file")?;
        source.fetch_one(at, &mut window[..len])?;
        let mut done = 0;
        while len - done >= ENTRY_LEN {
            let Ok(entry) = ZipEntry::parse(&window[done..len]) else {
                break;
            };
            if entry.key().is_some_and(is_document) && !entry.is_directory() {
                return Ok(true);
            }
            done += entry.len;
        }
        if done == 0 {
            return Ok(false);
        }
        at += done as u64;
    }
    Ok(false)
}

fn is_document(key: &[u8]) -> bool {
    let name = key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    DOCUMENTS.iter().any(|document| document.as_bytes() == name)
}
