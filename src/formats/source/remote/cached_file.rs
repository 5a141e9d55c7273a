//! One object in the cache on the disk: a sparse file of its blocks, each with a checksum.
//!
//! A header says which version of which object it is; behind it stands a slot for each block, and
//! then the blocks at their places. A slot is written after its block, and a block is believed only
//! if its checksum is that of its slot: so several processes write without locks, and whatever a
//! crash or another program leaves costs a request, and nothing else. Used by
//! [`super::disk_cache`].

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

use crc_fast::{CrcAlgorithm, checksum};

use super::body::Body;

/// Bytes that have a checksum.
pub(super) const BLOCK: u64 = 64 << 10;

const MAGIC: &[u8; 8] = b"arrayfs\x01";
/// Magic, name and length of the object, and their checksum.
const HEADER: usize = 8 + NAME + 8 + 4;
/// Slots begin behind it.
const SLOTS: u64 = 4096;
/// Of a slot: the checksum of the block, and that of its number and this checksum.
const SLOT: usize = 8;

pub(super) const NAME: usize = 32;

/// What tells an object and its version from all others.
pub(super) type CachedName = [u8; NAME];

pub(super) struct CachedFile {
    file: File,
    name: CachedName,
    size: u64,
}

fn crc(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn header(name: &CachedName, size: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let (told, sum) = header.split_at_mut(HEADER - 4);
    let parts = MAGIC.iter().chain(name).copied();
    let all = parts.chain(size.to_le_bytes());
    told.iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
    sum.copy_from_slice(&crc(told).to_le_bytes());
    header
}

impl CachedFile {
    /// One that was found; none if it is of something else, or has only been begun.
    pub(super) fn found(file: File, name: &CachedName, size: u64) -> Option<CachedFile> {
        let mut known = [0; HEADER];
        file.read_exact_at(&mut known, 0).ok()?;
        let name = *name;
        (known == header(&name, size)).then_some(CachedFile { file, name, size })
    }

    pub(super) fn begin(file: File, name: &CachedName, size: u64) -> io::Result<CachedFile> {
        file.set_len(data_start(size).saturating_add(size))?;
        file.write_all_at(&header(name, size), 0)?;
        Ok(CachedFile {
            file,
            name: *name,
            size,
        })
    }

    /// Whether it is still in the directory.
    pub(super) fn has_name(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.nlink() > 0)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Bytes of the object; none if one of their blocks is not there.
    pub(super) fn read(&self, range: &Range<u64>) -> Option<Body> {
        let blocks = self.blocks(range)?;
        let slots = self.slots(&blocks)?;
        let whole = blocks.start * BLOCK..(blocks.end * BLOCK).min(self.size);
        let len = usize::try_from(whole.end - whole.start).ok()?;
        let mut bytes = Body::with_room(len)?;
        bytes.resize(len, 0);
        let at = data_start(self.size).checked_add(whole.start)?;
        self.file.read_exact_at(&mut bytes, at).ok()?;
        for ((number, slot), block) in blocks.zip(slots).zip(bytes.chunks(BLOCK as usize)) {
            if slot != self.slot(number, crc(block)) {
                return None;
            }
        }
        bytes.truncate((range.end - whole.start) as usize);
        bytes.drain(..(range.start - whole.start) as usize);
        Some(bytes)
    }

    /// Puts whole blocks: the range begins with one, and ends with one or with the object.
    pub(super) fn put(&self, range: &Range<u64>, bytes: &[u8]) -> io::Result<()> {
        let bad = || io::Error::from(io::ErrorKind::InvalidInput);
        let is_whole = range.start.is_multiple_of(BLOCK)
            && (range.end.is_multiple_of(BLOCK) || range.end == self.size);
        let blocks = self.blocks(range).filter(|_| is_whole).ok_or_else(bad)?;
        let at = data_start(self.size)
            .checked_add(range.start)
            .ok_or_else(bad)?;
        self.file.write_all_at(bytes, at)?;
        let mut slots = Vec::new();
        for (number, block) in blocks.clone().zip(bytes.chunks(BLOCK as usize)) {
            slots.extend(self.slot(number, crc(block)));
        }
        self.file
            .write_all_at(&slots, SLOTS + blocks.start * SLOT as u64)
    }

    fn blocks(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let fits = range.start < range.end && range.end <= self.size;
        fits.then(|| range.start / BLOCK..range.end.div_ceil(BLOCK))
    }

    fn slots(&self, blocks: &Range<u64>) -> Option<Vec<[u8; SLOT]>> {
        let count = usize::try_from(blocks.end - blocks.start).ok()?;
        let mut bytes = vec![0; count.checked_mul(SLOT)?];
        let at = SLOTS + blocks.start * SLOT as u64;
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes.as_chunks::<SLOT>().0.to_vec())
    }

    /// Zeros, which a hole has, are no slot: the second half is of the object's name, too.
    fn slot(&self, number: u64, crc_of_block: u32) -> [u8; SLOT] {
        let mut told = [0; NAME + 12];
        let parts = self.name.iter().copied();
        let all = parts
            .chain(number.to_le_bytes())
            .chain(crc_of_block.to_le_bytes());
        told.iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
        let mut slot = [0; SLOT];
        slot[..4].copy_from_slice(&crc_of_block.to_le_bytes());
        slot[4..].copy_from_slice(&crc(&told).to_le_bytes());
        slot
    }
}

/// Where the blocks begin: behind the slots, at a block of the file system.
fn data_start(size: u64) -> u64 {
    let slots = size.div_ceil(BLOCK).saturating_mul(SLOT as u64);
    SLOTS.saturating_add(slots).next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file() -> File {
        tempfile::tempfile().unwrap()
    }

    fn bytes(range: &Range<u64>) -> Vec<u8> {
        range.clone().map(|at| (at / 3) as u8).collect()
    }

    proptest! {
        #[test]
        fn what_was_put_is_read_and_nothing_else(
            size in 1u64..5 * BLOCK,
            puts in proptest::collection::vec((0u64..5, 1u64..3), 0..4),
            (start, len) in (0u64..5 * BLOCK, 1u64..2 * BLOCK),
        ) {
            let cached = CachedFile::begin(file(), &[7; NAME], size).unwrap();
            let mut there = crate::range_set::RangeSet::default();
            for (block, count) in puts {
                let range = block * BLOCK..((block + count) * BLOCK).min(size);
                if range.start < range.end {
                    cached.put(&range, &bytes(&range)).unwrap();
                    there.insert(range);
                }
            }
            let range = start..start + len;
            let wanted = range.end <= size && there.contains(&range);
            let whole = range.start / BLOCK * BLOCK..(range.end.div_ceil(BLOCK) * BLOCK).min(size);
            let wanted = wanted && there.contains(&whole);
            prop_assert_eq!(cached.read(&range), wanted.then(|| bytes(&range).into()));
        }

        #[test]
        fn a_turned_bit_costs_the_block(at in 0u64..3 * BLOCK + 5000, bit in 0u8..8) {
            let size = 3 * BLOCK;
            let cached = CachedFile::begin(file(), &[7; NAME], size).unwrap();
            cached.put(&(0..size), &bytes(&(0..size))).unwrap();
            let mut byte = [0];
            if cached.file.read_at(&mut byte, at).unwrap() == 1 {
                cached.file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
            }
            for number in 0..3 {
                let range = number * BLOCK..(number + 1) * BLOCK;
                let read = cached.read(&range);
                prop_assert!(read.is_none_or(|read| *read == bytes(&range)));
            }
        }
    }

    #[test]
    fn another_object_s_file_is_none() {
        let begun = CachedFile::begin(file(), &[7; NAME], 10).unwrap();
        let again = || begun.file.try_clone().unwrap();
        assert!(CachedFile::found(again(), &[7; NAME], 10).is_some());
        assert!(CachedFile::found(again(), &[8; NAME], 10).is_none());
        assert!(CachedFile::found(again(), &[7; NAME], 11).is_none());
        assert!(CachedFile::found(file(), &[7; NAME], 10).is_none());
    }
}
