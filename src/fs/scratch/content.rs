//! The bytes of a file as programs see them: chunks that have changed above those that are stored.
//!
//! A chunk that is written to is held whole, decoded if need be; one that neither has changed nor
//! is stored is zeros. What is held may be shorter than the chunk: the rest is zeros, too, so a
//! file that is made longer costs nothing. Changes that no log has yet are remembered as one range
//! for each chunk, and lengths as the smallest since: whoever replays the log cuts the file to that
//! first. Knows neither locks nor files; chunks are decoded by whom [`ReadChunk`] asks. Used by
//! [`super::file`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::base::{StoredChunks, StoredForm};
use super::bytes::HeldBytes;
use crate::error::Result;
use crate::memory::fallible;

const DOING: &str = "cannot hold a chunk";

/// Bytes of memory that a held chunk takes beside its own.
const BESIDE: u64 = 160;

/// Fills the buffer with plain bytes of a stored chunk, from an offset in it on.
pub(super) type ReadChunk<'a> = &'a dyn Fn(&StoredChunks, u64, usize, &mut [u8]) -> Result<()>;

/// A chunk that has changed.
#[derive(Clone)]
pub(super) struct HeldChunk {
    pub(super) bytes: Arc<HeldBytes>,
    /// Another one after each change.
    pub(super) edition: u64,
    /// What of it no log has.
    pub(super) unlogged: Range<usize>,
    /// What of it is not as it is stored.
    pub(super) changed: Range<usize>,
}

impl HeldChunk {
    /// Bytes of memory.
    fn takes(&self) -> u64 {
        self.bytes.takes() + BESIDE
    }
}

pub(super) struct FileContent {
    pub(super) stored: StoredChunks,
    /// Of the chunks that are held. That of the stored ones, unless none of these is wanted.
    form: StoredForm,
    /// What that becomes when the file is cut to nothing.
    fresh: StoredForm,
    /// So many of the stored chunks still hold the file's bytes.
    pub(super) valid: u64,
    /// The smallest value of that since a flush took its snapshot.
    pub(super) cut: u64,
    pub(super) len: u64,
    held: BTreeMap<u64, HeldChunk>,
    held_bytes: u64,
    /// The length that the log leaves, and the smallest one since.
    pub(super) logged_len: u64,
    pub(super) least_len: u64,
    editions: u64,
}

/// A part of a byte range that lies in one chunk.
struct ChunkPart {
    number: u64,
    in_chunk: Range<usize>,
    in_range: Range<usize>,
}

impl FileContent {
    /// `fresh`: of chunks of a file that is written anew.
    pub(super) fn new(stored: StoredChunks, fresh: StoredForm) -> FileContent {
        let len = stored.len();
        FileContent {
            form: stored.form,
            fresh,
            valid: stored.chunks(),
            cut: u64::MAX,
            len,
            held: BTreeMap::new(),
            held_bytes: 0,
            logged_len: len,
            least_len: len,
            editions: 0,
            stored,
        }
    }

    pub(super) fn chunk_size(&self) -> u64 {
        u64::from(self.form.chunk_size)
    }

    pub(super) fn form(&self) -> StoredForm {
        self.form
    }

    /// None of what is stored is part of it any more.
    pub(super) fn is_written_anew(&self) -> bool {
        self.valid == 0 && self.stored.chunks() > 0
    }

    /// Chunks that the file has by its length; an empty one has one of nothing.
    pub(super) fn chunks(&self) -> u64 {
        self.len.div_ceil(self.chunk_size()).max(1)
    }

    /// Chunks that the file has at most when so many bytes are written.
    pub(super) fn more_chunks(&self, bytes: u64) -> u64 {
        let stored = self.stored.chunks().max(self.chunks());
        stored.saturating_add(bytes.div_ceil(self.chunk_size()))
    }

    /// Plain bytes of a chunk by the file's length.
    pub(super) fn plain(&self, number: u64) -> usize {
        let start = number.saturating_mul(self.chunk_size());
        self.len.saturating_sub(start).min(self.chunk_size()) as usize
    }

    /// Bytes that are held.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    pub(super) fn held(&self) -> &BTreeMap<u64, HeldChunk> {
        &self.held
    }

    pub(super) fn held_mut(&mut self) -> impl Iterator<Item = &mut HeldChunk> {
        self.held.values_mut()
    }

    /// Holds a chunk no longer if it has not changed since it was of this edition.
    pub(super) fn let_go(&mut self, number: u64, edition: u64) {
        if self
            .held
            .get(&number)
            .is_some_and(|held| held.edition == edition)
        {
            self.held.remove(&number).into_iter().for_each(|held| {
                self.held_bytes -= held.takes();
            });
        }
    }

    fn parts(&self, offset: u64, len: usize) -> impl Iterator<Item = ChunkPart> + use<> {
        let (size, mut done) = (self.chunk_size(), 0);
        std::iter::from_fn(move || {
            let at = offset.checked_add(done as u64).filter(|_| done < len)?;
            let start = (at % size) as usize;
            let n = (size as usize - start).min(len - done);
            let part = ChunkPart {
                number: at / size,
                in_chunk: start..start + n,
                in_range: done..done + n,
            };
            done += n;
            Some(part)
        })
    }

    /// Reads at most so many bytes: less only at the end.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8], stored: ReadChunk<'_>) -> Result<usize> {
        let n = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        for part in self.parts(offset, n) {
            self.read_part(&part, &mut buf[part.in_range.clone()], stored)?;
        }
        Ok(n)
    }

    fn read_part(&self, part: &ChunkPart, out: &mut [u8], stored: ReadChunk<'_>) -> Result<()> {
        let Range { start, end } = part.in_chunk;
        let known = match self.held.get(&part.number) {
            Some(held) => {
                let found = held
                    .bytes
                    .get(start..end.min(held.bytes.len()))
                    .unwrap_or(&[]);
                out[..found.len()].copy_from_slice(found);
                found.len()
            }
            None if part.number < self.valid => {
                let n = self.stored.plain(part.number).clamp(start, end) - start;
                if n > 0 {
                    stored(&self.stored, part.number, start, &mut out[..n])?;
                }
                n
            }
            None => 0,
        };
        out[known..].fill(0);
        Ok(())
    }

    /// Whether a chunk can be changed without being decoded.
    fn is_replaced(&self, part: &ChunkPart) -> bool {
        let has = match part.number < self.valid {
            true => self.stored.plain(part.number),
            false => 0,
        };
        part.in_chunk.start == 0 && part.in_chunk.end >= has
    }

    /// Has a chunk held. `anew`: none of its bytes is wanted.
    fn hold(&mut self, number: u64, anew: bool, stored: ReadChunk<'_>) -> Result<&mut HeldChunk> {
        self.editions += 1;
        let edition = self.editions;
        if !self.held.contains_key(&number) {
            let has = match number < self.valid && !anew {
                true => self.stored.plain(number),
                false => 0,
            };
            let mut bytes = fallible::zeros(has as u64, DOING)?;
            if has > 0 {
                stored(&self.stored, number, 0, &mut bytes)?;
            }
            self.held_bytes += has as u64 + BESIDE;
            self.held.insert(
                number,
                HeldChunk {
                    bytes: Arc::new(HeldBytes::of(bytes)),
                    edition,
                    unlogged: 0..0,
                    changed: 0..0,
                },
            );
        }
        match self.held.get_mut(&number) {
            Some(held) => {
                held.edition = edition;
                Ok(held)
            }
            None => Err(crate::error::Error::Bug("a chunk is not held".into())),
        }
    }

    /// Changes a chunk that is held, or is to be.
    fn alter(
        &mut self,
        number: u64,
        anew: bool,
        stored: ReadChunk<'_>,
        change: impl FnOnce(&mut HeldChunk) -> Result<()>,
    ) -> Result<()> {
        let held = self.hold(number, anew, stored)?;
        let before = held.takes();
        let changed = change(held);
        let now = held.takes();
        self.held_bytes = self.held_bytes + now - before;
        changed
    }

    /// Writes at an offset, which may lie behind the end.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], stored: ReadChunk<'_>) -> Result<()> {
        for part in self.parts(offset, bytes.len()) {
            let anew = self.is_replaced(&part);
            let size = self.chunk_size() as usize;
            self.alter(part.number, anew, stored, |held| {
                put_into(held, &part.in_chunk, &bytes[part.in_range.clone()], size)
            })?;
            self.len = self.len.max(offset + part.in_range.end as u64);
        }
        Ok(())
    }

    /// Writes a whole chunk of which the encoded form is known, too.
    pub(super) fn write_encoded(
        &mut self,
        number: u64,
        bytes: &[u8],
        encoded: Vec<u8>,
        stored: ReadChunk<'_>,
    ) -> Result<()> {
        self.write(number.saturating_mul(self.chunk_size()), bytes, stored)?;
        self.alter(number, true, stored, |held| {
            if held.bytes.len() == bytes.len() {
                Arc::make_mut(&mut held.bytes).keep_encoded(encoded);
            }
            Ok(())
        })
    }

    /// Makes a range zeros, as far as the file goes.
    pub(super) fn zero(&mut self, range: Range<u64>, stored: ReadChunk<'_>) -> Result<()> {
        let end = range.end.min(self.len);
        let mut at = range.start;
        while at < end {
            let number = at / self.chunk_size();
            let start = (at % self.chunk_size()) as usize;
            let plain = self.plain(number);
            let stop = plain.min(start + (end - at).min(self.chunk_size()) as usize);
            let whole = start == 0 && stop == plain;
            if number >= self.valid && !self.held.contains_key(&number) {
                let next = self.held.range(number..).next().map(|(next, _)| *next);
                let next = next.unwrap_or(u64::MAX).saturating_mul(self.chunk_size());
                at = next.min(end);
                continue;
            }
            self.alter(number, whole, stored, |held| {
                let bytes = Arc::make_mut(&mut held.bytes);
                match whole {
                    true => *bytes = HeldBytes::default(),
                    false => {
                        let stop = stop.min(bytes.len());
                        bytes[start.min(stop)..stop].fill(0);
                    }
                }
                note(&mut held.unlogged, start..stop);
                note(&mut held.changed, start..stop);
                Ok(())
            })?;
            at += (stop - start).max(1) as u64;
        }
        Ok(())
    }

    /// Changes the length.
    pub(super) fn set_len(&mut self, len: u64, stored: ReadChunk<'_>) -> Result<()> {
        if len < self.len {
            let size = self.chunk_size() as usize;
            let (number, keeps) = (len / self.chunk_size(), (len % self.chunk_size()) as usize);
            if keeps > 0 && (self.held.contains_key(&number) || number < self.valid) {
                self.alter(number, false, stored, |held| {
                    note(&mut held.changed, keeps..size);
                    Arc::make_mut(&mut held.bytes).truncate(keeps);
                    Ok(())
                })?;
            }
            let first_gone = len.div_ceil(self.chunk_size());
            let gone = self.held.split_off(&first_gone);
            let gone: u64 = gone.values().map(HeldChunk::takes).sum();
            self.held_bytes -= gone;
            self.valid = self.valid.min(first_gone);
            self.cut = self.cut.min(first_gone);
            self.least_len = self.least_len.min(len);
        }
        if self.valid == 0 && self.held.is_empty() {
            self.form = self.fresh;
        }
        self.len = len;
        Ok(())
    }

    /// Whether what is stored is not what programs see.
    pub(super) fn differs(&self) -> bool {
        let stored = &self.stored;
        !self.held.is_empty() || self.len != stored.len() || self.valid < stored.chunks()
    }

    /// Whether a log has less than programs see.
    pub(super) fn is_unlogged(&self) -> bool {
        let lengths = self.len != self.logged_len || self.least_len < self.logged_len;
        lengths || self.held.values().any(|held| !held.unlogged.is_empty())
    }
}

fn note(unlogged: &mut Range<usize>, more: Range<usize>) {
    *unlogged = match unlogged.len() {
        0 => more,
        _ => unlogged.start.min(more.start)..unlogged.end.max(more.end),
    };
}

fn put_into(held: &mut HeldChunk, at: &Range<usize>, from: &[u8], size: usize) -> Result<()> {
    let bytes = Arc::make_mut(&mut held.bytes);
    if bytes.len() < at.end {
        if bytes.is_empty() {
            *bytes = HeldBytes::with_capacity(size.min(2 * at.end));
        }
        // A chunk that is filled piece by piece is not moved each time.
        let more = (at.end.saturating_mul(2))
            .min(size)
            .saturating_sub(bytes.len());
        let had = bytes.try_reserve(more);
        had.map_err(|_| crate::memory::no_memory(DOING))?;
        let start = at.start.max(bytes.len());
        bytes.resize(start, 0);
    }
    let (over, behind) = from.split_at(from.len().min(bytes.len() - at.start));
    bytes[at.start..at.start + over.len()].copy_from_slice(over);
    bytes.extend_from_slice(behind);
    note(&mut held.unlogged, at.clone());
    note(&mut held.changed, at.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::checksum::Checksum;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Vec<u8>),
        Zero(u64, u64),
        Len(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = proptest::collection::vec(1u8.., 0..40);
        let step = prop_oneof![
            (0u64..60, bytes).prop_map(|(at, bytes)| Step::Write(at, bytes)),
            (0u64..60, 0u64..40).prop_map(|(at, len)| Step::Zero(at, len)),
            (0u64..80).prop_map(Step::Len),
        ];
        proptest::collection::vec(step, 0..20)
    }

    /// Ten bytes of nines in chunks of four.
    fn stored() -> FileContent {
        let form = |chunk_size| StoredForm {
            chunk_size,
            checksum: Checksum::None,
        };
        let mut stored = StoredChunks::none(form(4));
        for len in [8, 10, 10] {
            stored.places.push(len).unwrap();
        }
        stored.last = 2;
        FileContent::new(stored, form(3))
    }

    proptest! {
        #[test]
        fn it_is_what_a_plain_file_would_be(steps in steps(), at in 0u64..90, len in 0usize..90) {
            let nines: ReadChunk<'_> = &|stored, number, at, out| {
                assert!(!out.is_empty() && at + out.len() <= stored.plain(number));
                out.fill(9);
                Ok(())
            };
            let (mut file, mut model) = (stored(), vec![9u8; 10]);
            for step in steps {
                match step {
                    Step::Write(at, bytes) => {
                        if !bytes.is_empty() {
                            let end = at as usize + bytes.len();
                            model.resize(model.len().max(end), 0);
                            model[at as usize..end].copy_from_slice(&bytes);
                        }
                        file.write(at, &bytes, nines).unwrap();
                    }
                    Step::Zero(at, len) => {
                        let end = model.len().min((at + len) as usize);
                        model[(at as usize).min(end)..end].fill(0);
                        file.zero(at..at + len, nines).unwrap();
                    }
                    Step::Len(len) => {
                        model.resize(len as usize, 0);
                        file.set_len(len, nines).unwrap();
                    }
                }
                let held: u64 = file.held().values().map(HeldChunk::takes).sum();
                prop_assert_eq!(file.held_bytes(), held);
            }
            prop_assert_eq!(file.len, model.len() as u64);
            let mut found = vec![7; len];
            let n = file.read(at, &mut found, nines).unwrap();
            let expected = model.get(at as usize..).unwrap_or(&[]);
            prop_assert_eq!(&found[..n], &expected[..expected.len().min(len)]);
        }
    }
}
