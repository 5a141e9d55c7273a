//! The chunks of a stored file that its log changes, made when they are read, for those who only
//! read.
//!
//! They are made as Bloscpack stores what does not shrink, so that their length is known before.
//! One is kept, for a reader comes for it in parts; nothing else of what a log claims takes memory.
//! Assumes that the file does not change meanwhile. Used by [`super::relaid`].

use std::ops::Range;
use std::sync::Arc;

use super::base::{StoredChunks, StoredForm, read_all};
use super::encode::encoded_plain;
use super::merge::{MergeOrder, NewChunk};
use super::overlay::LogOverlay;
use super::pieces::MergePiece;
use crate::codec::blosc::ChunkHeader;
use crate::error::Result;
use crate::memory::fallible;
use crate::source::Source;
use crate::sync::Mutex;

const DOING: &str = "cannot read through a log";

/// A file with a log.
pub(super) struct LoggedChunks {
    stored: StoredChunks,
    overlay: LogOverlay,
    form: StoredForm,
    /// So many of the stored chunks still hold bytes of the file.
    valid: u64,
    /// The chunk that was made last.
    made: Mutex<Option<(u64, Arc<Vec<u8>>)>>,
}

impl LoggedChunks {
    /// `fresh`: how chunks are cut of which none is wanted any more that is stored.
    pub(super) fn new(stored: StoredChunks, overlay: LogOverlay, fresh: StoredForm) -> Self {
        let form = match overlay.least_len {
            0 => fresh,
            _ => stored.form,
        };
        let size = u64::from(form.chunk_size);
        LoggedChunks {
            valid: match overlay.least_len {
                0 => 0,
                least => least.div_ceil(size).min(stored.chunks()),
            },
            stored,
            overlay,
            form,
            made: Mutex::default(),
        }
    }

    /// Bytes of memory that it takes beside what the log says, with a chunk, and with what all of
    /// it is laid out by: each chunk that is touched may be a piece, and move the one behind it.
    pub(super) fn takes(&self) -> u64 {
        const TOUCHED: u64 = 64 + 3 * size_of::<MergePiece>() as u64;
        let chunk = self.form.most_stored().saturating_mul(2);
        let beside = self.stored.places.takes().saturating_add(chunk);
        beside.saturating_add(self.touched().saturating_mul(TOUCHED))
    }

    /// Chunks that the log changes, counted once for each part of it.
    fn touched(&self) -> u64 {
        let size = self.size();
        let parts = self.overlay.parts(0..self.overlay.len);
        let touched = parts.map(|(part, extent)| match extent.from {
            Some(_) => part.end.div_ceil(size) - part.start / size,
            // Whole ones are told in one.
            None => 3,
        });
        // And the two at the ends.
        touched.fold(2, u64::saturating_add)
    }

    fn size(&self) -> u64 {
        self.form.chunk_size.into()
    }

    /// What is laid out anew: what is stored, or nothing of it.
    pub(super) fn base(&self) -> StoredChunks {
        match self.valid {
            0 => StoredChunks::none(self.form),
            _ => self.stored.clone(),
        }
    }

    /// What becomes of the file.
    pub(super) fn order(&self, zeros: Vec<u8>) -> Result<MergeOrder> {
        let (size, len) = (self.size(), self.overlay.len);
        let all = len.div_ceil(size).max(1);
        let mut order = MergeOrder {
            len,
            valid: self.valid.min(all),
            encoded: Default::default(),
            patches: Default::default(),
            zeroed: Vec::new(),
            zeros: Arc::new(zeros),
            typesize: self.stored.typesize,
            drops_metadata: self.stored.describes_array && len != self.stored.len(),
            is_for_readers: true,
        };
        for (part, extent) in self.overlay.parts(0..len) {
            let whole = part.start.div_ceil(size)..part.end / size;
            match extent.from.is_none() && !whole.is_empty() {
                true => {
                    order.zeroed.push(whole.clone());
                    self.note(&mut order, part.start..whole.start * size);
                    self.note(&mut order, whole.end * size..part.end);
                }
                false => self.note(&mut order, part),
            }
        }
        // Chunks of another length, and what was cut off and is zeros now.
        let ends = [order.valid.checked_sub(1), Some(all - 1)];
        for number in ends.into_iter().flatten() {
            let had = match number < order.valid {
                true => self.stored.plain(number) as u64,
                false => size,
            };
            let is_cut = number < order.valid && self.overlay.least_len < (number * size + had);
            if is_cut || self.plain(number) as u64 != had {
                order
                    .encoded
                    .insert(number, NewChunk::Plain(self.plain_stored(number)));
            }
        }
        Ok(order)
    }

    fn note(&self, order: &mut MergeOrder, part: Range<u64>) {
        if part.is_empty() {
            return;
        }
        for number in part.start / self.size()..part.end.div_ceil(self.size()) {
            order
                .encoded
                .insert(number, NewChunk::Plain(self.plain_stored(number)));
        }
    }

    /// Plain bytes of a chunk, by the file's length.
    fn plain(&self, number: u64) -> usize {
        let start = number.saturating_mul(self.size());
        self.overlay.len.saturating_sub(start).min(self.size()) as usize
    }

    fn plain_stored(&self, number: u64) -> u64 {
        let beside = ChunkHeader::LEN + self.form.checksum.digest_len();
        (self.plain(number) + beside) as u64
    }

    /// Bytes of a made chunk as it would be stored, from an offset on: at least one.
    pub(super) fn read(
        &self,
        source: &dyn Source,
        number: u64,
        from: u64,
        buf: &mut [u8],
    ) -> Result<usize> {
        let known = self.made.lock().clone();
        let made = match known.filter(|(known, _)| *known == number) {
            Some((_, made)) => made,
            None => {
                let made = Arc::new(self.make(source, number)?);
                let mut last = self.made.lock();
                *last = Some((number, Arc::clone(&made)));
                made
            }
        };
        let found = made.get(from as usize..).unwrap_or(&[]);
        let n = found.len().min(buf.len());
        buf[..n].copy_from_slice(&found[..n]);
        Ok(n)
    }

    fn make(&self, source: &dyn Source, number: u64) -> Result<Vec<u8>> {
        let start = number * self.size();
        let mut plain = fallible::zeros(self.form.chunk_size.into(), DOING)?;
        if number < self.valid {
            let had = self.stored.plain(number);
            self.stored.decode(source, number, &mut plain[..had])?;
            let kept = self
                .overlay
                .least_len
                .saturating_sub(start)
                .min(self.size());
            plain[kept as usize..].fill(0);
        }
        let len = self.plain(number);
        for (part, extent) in self.overlay.parts(start..start + len as u64) {
            let into = &mut plain[(part.start - start) as usize..(part.end - start) as usize];
            match extent.from {
                Some(from) => read_all(source, from, into)?,
                None => into.fill(0),
            }
        }
        encoded_plain(&plain[..len], self.form.checksum)
    }
}
