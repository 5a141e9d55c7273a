//! The bytes of a file, laid out as a scratch mount would leave them: chunks back to back behind a
//! table as new as a merge makes it (`super::super::merge`).
//!
//! What encodes best is found out anew every few MiB, as a mount does with what it flushes. Chunks
//! are read and encoded by several threads and written in order, so memory is a chunk or two for
//! each of them, however long the file is; holes are not read. Assumes that nobody changes the file
//! meanwhile, which the caller looks at afterwards. Used by [`super::exchange`].

use std::ops::Range;

use super::super::base::{ENTRY, MOST_CHUNKS, StoredChunks};
use super::super::encode::{
    ChunkEncoder, ChunkSlack, EncodeOptions, EncodeSpace, are_zeros, encoded_zeros,
};
use super::super::merge::{has_hole, table_entries};
use super::super::places::ChunkPlaces;
use super::super::tail::put_all;
use super::{SpaceOfThread, Told, spaces};
use crate::container::bloscpack::layout::HEADER;
use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::memory::fallible;
use crate::pipeline;
use crate::source::Source;

const DOING: &str = "cannot pack a file";

/// Plain bytes for which one choice of codec, filter and element size is made.
const ALIKE: u64 = 16 << 20;

/// Bytes that the choice looks at.
const SAMPLE: u64 = 64 << 10;

/// Stored bytes that are written at once.
const TOGETHER: usize = 1 << 20;

/// The disk begins to write so much as soon as it is there.
const WRITEBACK: u64 = 8 << 20;

/// Writes the stored form of a file into an empty one, and says how long that is. `told`: so many
/// plain bytes more are done.
pub(super) fn pack(
    plain: &dyn Source,
    into: &dyn DiskFile,
    options: &EncodeOptions,
    threads: usize,
    told: Told<'_>,
) -> Result<u64> {
    let mut packing = FilePacking::begin(plain, into, options, threads)?;
    let mut next = 0;
    while next < packing.count {
        let holes = packing.holes_from(next);
        let end = match holes {
            0 => packing.encode_from(next, told)?,
            _ => {
                packing.put_zeros(holes)?;
                told(holes.saturating_mul(packing.size));
                next + holes
            }
        };
        next = end;
    }
    packing.finish()
}

struct FilePacking<'a> {
    plain: &'a dyn Source,
    into: &'a dyn DiskFile,
    options: &'a EncodeOptions,
    threads: usize,
    /// Plain bytes of the file, of a chunk; and chunks.
    len: u64,
    size: u64,
    count: u64,
    is_sparse: bool,
    stored: StoredChunks,
    has_typesize: bool,
    /// Where the next chunk goes.
    next: u64,
    /// Chunks that are not written yet: they end where the next one goes.
    waiting: Vec<u8>,
    /// Where the bytes begin that the disk has not begun to write.
    unbegun: u64,
}

impl<'a> FilePacking<'a> {
    fn begin(
        plain: &'a dyn Source,
        into: &'a dyn DiskFile,
        options: &'a EncodeOptions,
        threads: usize,
    ) -> Result<FilePacking<'a>> {
        let (len, size) = (plain.len(), u64::from(options.chunk_size.max(1)));
        let count = len.div_ceil(size).max(1);
        if count > MOST_CHUNKS {
            let what = format!("it has more than {MOST_CHUNKS} chunks; take larger ones");
            return Err(Error::Invalid(what));
        }
        let mut stored = StoredChunks::none(options.form());
        stored.entries = table_entries(count);
        let first = HEADER + stored.entries * ENTRY;
        stored.places = ChunkPlaces::from(first);
        stored.last = (len - (count - 1) * size) as u32;
        let blocks = plain.stat()?.blocks;
        Ok(FilePacking {
            plain,
            into,
            options,
            threads,
            len,
            size,
            count,
            is_sparse: blocks.saturating_mul(512) < len,
            stored,
            has_typesize: false,
            next: first,
            waiting: Vec::new(),
            unbegun: first,
        })
    }

    /// Whole chunks from this one on of which nothing is stored.
    fn holes_from(&self, number: u64) -> u64 {
        let at = number * self.size;
        if !self.is_sparse || at >= self.len {
            return 0;
        }
        let found = self.plain.posix().and_then(|file| file.seek(at, false));
        let data = match found {
            Ok(data) => data.min(self.len),
            Err(Error::BeyondTheEnd) => self.len,
            Err(_) => at,
        };
        // The last one counts if it is whole.
        (data / self.size).saturating_sub(number)
    }

    /// Encodes chunks from this one on with one choice, and says which one is the next.
    fn encode_from(&mut self, first: u64, told: Told<'_>) -> Result<u64> {
        let end = first
            .saturating_add((ALIKE / self.size).max(1))
            .min(self.count);
        let encoder = self.choose(first..end)?;
        if !self.has_typesize {
            self.stored.typesize = encoder.typesize();
            self.has_typesize = true;
        }
        let (plain, size, len, count) = (self.plain, self.size, self.len, self.count);
        let read = |number: u64, space: &mut SpaceOfThread<EncodeSpace>| {
            let at = number * size;
            let wanted = (len - at).min(size);
            fallible::lengthen(&mut space.plain, wanted as usize, DOING)?;
            read_whole(plain, at, &mut space.plain)
        };
        let jobs = (end - first) as usize;
        pipeline::in_order(
            spaces(self.threads, jobs, self.size),
            jobs,
            |space, job| {
                read(first + job as u64, space)?;
                let slack = match first + job as u64 + 1 < count {
                    true => ChunkSlack::Spare,
                    false => ChunkSlack::None,
                };
                encoder.encode(&space.plain, slack, &mut space.own)
            },
            |_, space, stored| {
                told(space.plain.len() as u64);
                self.put(space.own.encoded(stored))
            },
        )?;
        Ok(end)
    }

    /// What is best for the middle of these chunks, or for another of them if that is zeros.
    fn choose(&self, chunks: Range<u64>) -> Result<ChunkEncoder> {
        let middle = chunks.start + (chunks.end - chunks.start) / 2;
        let mut sample = Vec::new();
        for number in [middle, chunks.start, chunks.end - 1] {
            let at = number * self.size;
            let has = (self.len - at).min(self.size);
            let wanted = has.min(SAMPLE);
            sample = fallible::zeros(wanted, DOING)?;
            read_whole(self.plain, at + (has - wanted) / 2 / 16 * 16, &mut sample)?;
            if !are_zeros(&sample) {
                break;
            }
        }
        let checksum = self.options.checksum;
        Ok(ChunkEncoder::choose(&sample, self.options, checksum))
    }

    fn put_zeros(&mut self, count: u64) -> Result<()> {
        let zeros = encoded_zeros(self.size as usize, self.options.checksum)?;
        (0..count).try_for_each(|_| self.put(&zeros))
    }

    fn put(&mut self, chunk: &[u8]) -> Result<()> {
        self.waiting
            .try_reserve(chunk.len())
            .map_err(|_| crate::memory::no_memory(DOING))?;
        self.waiting.extend_from_slice(chunk);
        self.next += chunk.len() as u64;
        self.stored.places.push(chunk.len() as u32)?;
        match self.waiting.len() >= TOGETHER {
            true => self.write_waiting(),
            false => Ok(()),
        }
    }

    fn write_waiting(&mut self) -> Result<()> {
        let at = self.next - self.waiting.len() as u64;
        put_all(self.into, at, &self.waiting)?;
        self.waiting.clear();
        if self.next - self.unbegun >= WRITEBACK {
            self.into.begin_writeback(self.unbegun..self.next);
            self.unbegun = self.next;
        }
        Ok(())
    }

    /// Header and table; of a small file all of it with one write.
    fn finish(mut self) -> Result<u64> {
        let places = &self.stored.places;
        let table = match has_hole(self.stored.entries) {
            true => places.count() * ENTRY + HEADER,
            false => self.stored.entries * ENTRY + HEADER,
        };
        let mut head = fallible::room_for(table as usize + self.waiting.len(), DOING)?;
        head.extend_from_slice(&self.stored.header());
        head.extend(places.starts(0..self.count).flat_map(u64::to_le_bytes));
        head.resize(table as usize, 0xff);
        let is_small = self.next - self.waiting.len() as u64 == self.stored.first();
        if is_small && table == self.stored.first() {
            head.append(&mut self.waiting);
        } else {
            self.write_waiting()?;
        }
        put_all(self.into, 0, &head)?;
        Ok(self.next)
    }
}

/// A file that is shorter by now has been changed.
fn read_whole(plain: &dyn Source, at: u64, into: &mut [u8]) -> Result<()> {
    match plain.read(at, into)? == into.len() {
        true => Ok(()),
        false => Err(Error::Invalid("it became shorter while it was read".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::disk::local::LocalDisk;
    use crate::disk::{Caller, Disk, Place};
    use crate::source::Store;
    use crate::source::local::LocalStore;

    const CHUNK: u32 = 4096;

    /// What the file `x` is packed to, and read again.
    fn packed(ground: &Path, threads: usize) -> (StoredChunks, Vec<u8>) {
        let store = Arc::new(LocalStore::open(ground, ground).unwrap());
        let disk = LocalDisk::new(Arc::clone(&store));
        let place = Place {
            directory: Path::new(""),
            id: store.stat(Path::new("")).unwrap().id,
            name: OsStr::new("out"),
        };
        let out = disk.create(place, 0o600, Caller::of(0, 0)).unwrap();
        let options = EncodeOptions {
            chunk_size: CHUNK,
            ..EncodeOptions::default()
        };
        let source = store.open(Path::new("x")).unwrap();
        let len = pack(&*source, &*out, &options, threads, &|_| {}).unwrap();
        let stored = std::fs::read(ground.join("out")).unwrap();
        assert_eq!(len, stored.len() as u64);
        let chunks = StoredChunks::read(out.source(), len, CHUNK).unwrap();
        let mut found = Vec::new();
        for number in 0..chunks.chunks() {
            let mut part = vec![0; chunks.plain(number)];
            chunks.decode(out.source(), number, &mut part).unwrap();
            found.extend(part);
        }
        (chunks, found)
    }

    #[test]
    fn any_length_is_what_it_was_with_spare_entries() {
        for len in [0, 1, 4095, 4096, 4097, 300_000] {
            let plain: Vec<u8> = (0..len).map(|at| (at / 7 % 251) as u8).collect();
            for threads in [1, 3] {
                let ground = tempfile::tempdir().unwrap();
                std::fs::write(ground.path().join("x"), &plain).unwrap();
                let (chunks, found) = packed(ground.path(), threads);
                assert!(found == plain, "{len}");
                assert_eq!(chunks.entries, table_entries(chunks.chunks()));
                assert_eq!(chunks.end(), chunks.places.end());
            }
        }
    }

    #[test]
    fn holes_are_stored_as_zeros() {
        let ground = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(ground.path().join("x")).unwrap();
        file.set_len((40 << 20) + 5).unwrap();
        file.write_all_at(b"data", 20 << 20).unwrap();
        let (chunks, found) = packed(ground.path(), 2);
        let mut expected = vec![0; (40 << 20) + 5];
        expected[20 << 20..(20 << 20) + 4].copy_from_slice(b"data");
        assert!(found == expected);
        let chunks = chunks.end() - chunks.first();
        assert!(chunks < 1 << 20, "{chunks}");
    }
}
