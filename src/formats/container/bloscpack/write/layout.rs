//! How many chunks a file of another length has, and where its sections lie: arithmetic alone.
//!
//! Chunks keep their size, and spare entries of the offsets section are used up before everything
//! has to move, as the real program appends. Used by [`super::recipe`].

use std::ops::Range;

use crate::array::chunking::EvenChunks;
use crate::container::bloscpack::header::FileHeader;
use crate::container::bloscpack::sections::ENTRY;

/// Plain bytes of a chunk by default: what the real program takes.
pub(super) const DEFAULT_CHUNK: u64 = 1 << 20;

/// Spare entries for each chunk in a new offsets section, as the real program has them.
pub(super) const SPARE_EACH: u64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileLayout {
    pub(super) chunk_size: u64,
    /// Plain bytes of the last chunk.
    pub(super) last: u64,
    /// At least one: a file of nothing has a chunk of nothing.
    pub(super) chunks: u64,
    pub(super) spare: u64,
    /// Where the offsets section begins, or would.
    pub(super) offsets: u64,
    /// Where the first chunk begins.
    pub(super) first: u64,
}

impl FileLayout {
    /// Of a file, by its header; `offsets`: where the part before the offsets section ends.
    pub(super) fn of(header: &FileHeader, offsets: u64) -> FileLayout {
        let size = |bytes: Option<u32>| u64::from(bytes.unwrap_or(0));
        let chunks = header.nchunks.unwrap_or(0);
        FileLayout {
            chunk_size: size(header.chunk_size),
            last: size(header.last_chunk),
            chunks,
            spare: header.max_app_chunks,
            offsets,
            first: 0,
        }
        .placed(header.has_offsets, offsets)
    }

    /// The layout of the file with another length; `typesize`: bytes that are best kept in one
    /// chunk.
    pub(super) fn resized(
        &self,
        len: u64,
        offsets: u64,
        has_offsets: bool,
        typesize: u64,
    ) -> FileLayout {
        if len == self.len() {
            return self.placed(has_offsets, offsets);
        }
        let chunk_size = self.chunk_size_for(len, typesize);
        let chunks = len.div_ceil(chunk_size.max(1)).max(1);
        let entries = self.chunks.saturating_add(self.spare);
        let spare = match has_offsets {
            true if chunks > entries => chunks.saturating_mul(SPARE_EACH),
            true => entries - chunks,
            false => self.spare,
        };
        let last = len - (chunks - 1) * chunk_size;
        FileLayout {
            chunk_size,
            last,
            chunks,
            spare,
            ..*self
        }
        .placed(has_offsets, offsets)
    }

    pub(super) fn placed(self, has_offsets: bool, offsets: u64) -> FileLayout {
        let entries = match has_offsets {
            true => self.chunks.saturating_add(self.spare),
            false => 0,
        };
        FileLayout {
            offsets,
            first: offsets.saturating_add(entries.saturating_mul(ENTRY)),
            ..self
        }
    }

    /// The chunk size of a file with one chunk was cut to what there was to write.
    fn chunk_size_for(&self, len: u64, typesize: u64) -> u64 {
        if self.chunks > 1 || self.chunk_size >= DEFAULT_CHUNK || len <= self.chunk_size {
            return self.chunk_size;
        }
        let whole = DEFAULT_CHUNK - DEFAULT_CHUNK % typesize.max(1);
        whole.max(typesize)
    }

    /// Plain bytes of all chunks.
    pub(super) fn len(&self) -> u64 {
        match self.chunks {
            0 => 0,
            chunks => self.chunk_size * (chunks - 1) + self.last,
        }
    }

    /// Which bytes of the array lie in which chunks.
    pub(super) fn chunking(&self) -> EvenChunks {
        EvenChunks::counted(self.chunk_size, self.len(), self.chunks)
    }

    /// The part of the array that a chunk holds.
    pub(super) fn plain(&self, chunk: u64) -> Range<u64> {
        self.chunking().range(chunk..chunk + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(chunk_size: u64, chunks: u64, last: u64, spare: u64) -> FileLayout {
        let layout = FileLayout {
            chunk_size,
            last,
            chunks,
            spare,
            offsets: 0,
            first: 0,
        };
        layout.placed(true, 100)
    }

    #[test]
    fn spare_entries_are_used_up_before_anything_moves() {
        let two = layout(1000, 2, 10, 5);
        let seven = two.resized(6001, 100, true, 1);
        assert_eq!((seven.chunks, seven.last, seven.spare), (7, 1, 0));
        assert_eq!(seven.first, two.first);
        let eight = two.resized(7001, 100, true, 1);
        assert_eq!((eight.chunks, eight.spare), (8, 80));
        assert_eq!(eight.first, 100 + 8 * 88);
        let one = two.resized(3, 100, true, 1);
        assert_eq!((one.chunks, one.last, one.spare), (1, 3, 6));
        let none = two.resized(0, 100, true, 1);
        assert_eq!((none.chunks, none.last, none.first), (1, 0, two.first));
    }

    #[test]
    fn a_chunk_size_that_was_cut_is_cut_no_more() {
        let small = layout(24, 1, 24, 10);
        assert_eq!(small.resized(24, 100, true, 3).chunk_size, 24);
        assert_eq!(small.resized(20, 100, true, 3).chunk_size, 24);
        let grown = small.resized(25, 100, true, 3);
        assert_eq!((grown.chunk_size, grown.chunks), ((1 << 20) - 1, 1));
        let empty = layout(0, 1, 0, 10).resized(3 << 20, 100, true, 1);
        assert_eq!((empty.chunks, empty.last), (3, 1 << 20));
    }

    proptest! {
        #[test]
        fn chunks_hold_every_byte_once(
            chunk_size in 0u64..50, chunks in 1u64..9, last in 0u64..50, spare in 0u64..9, len in 0u64..3000,
        ) {
            // Chunks of nothing but the only one are no file that is offered for writing.
            let chunks = if chunk_size == 0 { 1 } else { chunks };
            let old = layout(chunk_size, chunks, last.min(chunk_size), spare);
            let new = old.resized(len, 100, true, 1);
            prop_assert_eq!(new.len(), len);
            let mut at = 0;
            for chunk in 0..new.chunks {
                let plain = new.plain(chunk);
                prop_assert_eq!(plain.start, at);
                prop_assert!(plain.end - plain.start <= new.chunk_size);
                prop_assert_eq!(new.chunking().of(&plain).contains(&chunk), !plain.is_empty());
                at = plain.end;
            }
            prop_assert_eq!(at, len);
        }
    }
}
