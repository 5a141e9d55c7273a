//! copy_file_range(2): whole chunks of another file of the mount go over as they are stored.
//!
//! They are decoded on the way, which checks them, and programs may read or change them at once;
//! what is not changed is not encoded again. All else is copied as bytes. Uses [`super::writing`];
//! used by [`super::handles`].

use std::ops::Range;
use std::sync::Arc;

use super::base::read_all;
use super::file::ScratchFile;
use super::writing::ScratchWriting;
use crate::disk::Caller;
use crate::error::Result;
use crate::memory::fallible;
use crate::source::Source;

const DOING: &str = "cannot copy";

/// Plain bytes that are copied at once.
const STEP: u64 = 1 << 20;

/// A chunk, and how it is stored.
struct CopiedChunk {
    plain: Vec<u8>,
    encoded: Vec<u8>,
}

/// Copies a range; says how many bytes, fewer at the end of the other file.
pub(super) fn copy(
    writing: &ScratchWriting,
    from: &dyn Source,
    range: Range<u64>,
    to: u64,
    caller: Caller,
) -> Result<usize> {
    let len = range.end.saturating_sub(range.start);
    let size = writing.file.read().chunk_size();
    let other = writing.files.find(from.id());
    let other = other.filter(|other| fits(&writing.file, other));
    let mut done = 0;
    while done < len {
        let (at, into) = (range.start + done, to + done);
        let is_whole = at % size == 0 && into % size == 0 && len - done >= size;
        let chunk = match &other {
            Some(other) if is_whole => stored_chunk(other, at / size)?,
            _ => None,
        };
        let copied = match chunk {
            Some(chunk) => {
                let end = into.checked_add(size);
                writing.write((end, chunk.plain.len()), caller, |content, read| {
                    content.write_encoded(into / size, &chunk.plain, chunk.encoded, read)
                })?;
                size
            }
            None => {
                let next = size - into % size;
                let n = match is_whole || other.is_none() {
                    true => STEP,
                    false => next,
                };
                copy_bytes(writing, from, at..at + n.min(len - done), into, caller)?
            }
        };
        if copied == 0 {
            break;
        }
        done += copied;
    }
    Ok(usize::try_from(done).unwrap_or(usize::MAX))
}

/// Whether chunks of one file may be those of another.
fn fits(one: &Arc<ScratchFile>, other: &Arc<ScratchFile>) -> bool {
    if Arc::ptr_eq(one, other) {
        return false;
    }
    let form = other.read().stored.form;
    one.read().form() == form
}

/// A full chunk, if what is stored of it is what programs see, and shorter than that.
fn stored_chunk(of: &ScratchFile, number: u64) -> Result<Option<CopiedChunk>> {
    let content = of.read();
    let stored = &content.stored;
    let size = stored.form.chunk_size as usize;
    let is_as_stored = number < content.valid && !content.held().contains_key(&number);
    let slot = stored.slot(number).filter(|_| is_as_stored);
    let is_full = stored.plain(number) == size && content.plain(number) == size;
    let Some((at, len)) = slot.filter(|(_, len)| is_full && *len < size as u64) else {
        return Ok(None);
    };
    let mut plain = fallible::zeros(size as u64, DOING)?;
    let decoded = stored.decode(&*of.reader, number, &mut plain);
    decoded.map_err(|e| e.of_container(&of.path))?;
    let mut encoded = fallible::zeros(len, DOING)?;
    read_all(&*of.reader, at, &mut encoded)?;
    Ok(Some(CopiedChunk { plain, encoded }))
}

fn copy_bytes(
    writing: &ScratchWriting,
    from: &dyn Source,
    range: Range<u64>,
    to: u64,
    caller: Caller,
) -> Result<u64> {
    let mut buf = fallible::zeros(range.end - range.start, DOING)?;
    let found = from.read(range.start, &mut buf)?;
    let end = to.checked_add(found as u64);
    writing.write((end, found), caller, |content, read| {
        content.write(to, &buf[..found], read)
    })?;
    Ok(found as u64)
}
