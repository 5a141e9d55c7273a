//! Collections in a metadata cache image: what the library had in memory when it closed the file,
//! left in one piece, to be taken from there at the next opening.
//!
//! An image is `MDCI`, version 0, flags, its own length, and the number of entries (4 bytes). An
//! entry is its type, flags, ring and age (a byte each), three counts of other entries that it must
//! be written before or after (2 bytes each), its rank (4 bytes), its address and its size, the
//! addresses of as many parents as the third count says, and its bytes (HDF5 2.0, `H5Cimage.c`; the
//! published format has no section for it). All numbers are little-endian and untrusted. Used by
//! [`super`].

use std::sync::Arc;

use super::{Heap, number};
use crate::container::hdf5::index::CacheImage;
use crate::error::{Fault, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::no_memory;

const SIGNATURE: [u8; 4] = *b"MDCI";

/// The type of an entry that is a collection.
const COLLECTION: u8 = 4;

/// Where an entry has the number of its parents.
const PARENTS: usize = 8;

/// Parts that there is room for at first.
const PARTS_LEAST: usize = 64;

/// Bytes of an entry before its address.
const ENTRY: usize = 14;

/// A collection in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ImagedPart {
    /// The address that elements have of it.
    pub(super) address: u64,
    /// Where it lies.
    pub(super) at: u64,
}

/// Those of an image, by their addresses.
#[derive(Default)]
pub(super) struct ImagedParts {
    parts: Vec<ImagedPart>,
    /// For as many as there is room.
    charge: Option<Hold>,
}

impl ImagedParts {
    fn push(&mut self, part: ImagedPart, budget: &Arc<Budget>) -> Result<()> {
        if self.parts.len() == self.parts.capacity() {
            let more = self.parts.len().max(PARTS_LEAST);
            let all = self.parts.len().saturating_add(more);
            let bytes = all.saturating_mul(size_of::<ImagedPart>());
            self.charge = Some(budget.keep(bytes as u64)?);
            let reserved = self.parts.try_reserve_exact(more);
            reserved.map_err(|_| no_memory("cannot read a metadata cache image"))?;
        }
        self.parts.push(part);
        Ok(())
    }
}

impl Heap {
    /// Where a collection lies that belongs to an address.
    pub(super) fn place_of(&self, address: u64) -> u64 {
        let moved = &self.moved.parts;
        let found = moved.binary_search_by_key(&address, |part| part.address);
        found.map_or(address, |found| moved[found].at)
    }

    /// The collections of an image, by their addresses.
    pub(super) fn collections_in(
        &self,
        image: CacheImage,
        budget: &Arc<Budget>,
    ) -> Result<ImagedParts> {
        let end = image.start.saturating_add(image.len);
        let broken = |what: &str| Fault::new(what).bytes(image.start..end);
        let mut head = [0; 6 + 8 + 4];
        let head = &mut head[..6 + self.length_size + 4];
        self.source.fetch_one(image.start, head)?;
        if head[..4] != SIGNATURE || head[4] != 0 {
            let fault = broken("no metadata cache image").expected("MDCI, version 0");
            return Err(fault.found(head[..5].escape_ascii()).into());
        }
        let entries = number(&head[6 + self.length_size..]);
        let (mut parts, mut at) = (ImagedParts::default(), image.start + head.len() as u64);
        for _ in 0..entries {
            let mut entry = [0; ENTRY + 8 + 8];
            let entry = &mut entry[..ENTRY + self.offset_size + self.length_size];
            self.source.fetch_one(at, entry)?;
            let (address, size) = entry[ENTRY..].split_at(self.offset_size);
            let parents = number(&entry[PARENTS..PARENTS + 2]) * self.offset_size as u64;
            let data = at + entry.len() as u64 + parents;
            let next = data.checked_add(number(size)).filter(|next| *next <= end);
            let outside = || broken("an entry of the metadata cache image lies outside of it");
            at = next.ok_or_else(outside)?;
            if entry[0] == COLLECTION {
                let address = self.base.saturating_add(number(address));
                let part = ImagedPart { address, at: data };
                parts.push(part, budget)?;
            }
        }
        parts.parts.sort_unstable_by_key(|part| part.address);
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{collection, copy};
    use super::*;
    use crate::container::hdf5::sample::empty_index;
    use crate::source::BytesSource;

    /// 8 other bytes, and an image of entries: type, address, bytes.
    fn imaged(entries: &[(u8, u64, &[u8])]) -> Vec<u8> {
        let mut body = (entries.len() as u32).to_le_bytes().to_vec();
        for (kind, address, bytes) in entries {
            body.extend_from_slice(&[*kind, 1, 1, 0]);
            // One parent.
            body.extend_from_slice(&[0, 0, 0, 0, 1, 0]);
            body.extend_from_slice(&[0xff; 4]);
            body.extend_from_slice(&address.to_le_bytes());
            body.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            body.extend_from_slice(&[0x5a; 8]);
            body.extend_from_slice(bytes);
        }
        let len = (6 + 8 + body.len() + 4) as u64;
        let head = [b"whateverMDCI\0\0", &len.to_le_bytes()[..]].concat();
        [&head[..], &body, b"sums"].concat()
    }

    fn heap(bytes: Vec<u8>, base: u64) -> Result<Heap> {
        heap_within(bytes, base, &Budget::new(1 << 20))
    }

    fn heap_within(bytes: Vec<u8>, base: u64, budget: &Arc<Budget>) -> Result<Heap> {
        let mut index = empty_index();
        let len = bytes.len() as u64 - 8;
        (index.base, index.cache_image) = (base, Some(CacheImage { start: 8, len }));
        Heap::new(Arc::new(BytesSource::new(bytes)), &index, budget)
    }

    #[test]
    fn collections_are_read_from_the_image() {
        let (one, two) = (collection(&[(1, b"one")]), collection(&[(1, b"two")]));
        let bytes = imaged(&[
            (5, 48, b"a group"),
            (COLLECTION, 9000, &two),
            (COLLECTION, 70, &one),
        ]);
        let heap = heap(bytes, 100).unwrap();
        let mut out = [0; 3];
        copy(&heap, 170, 1, &mut out).unwrap();
        assert_eq!(&out, b"one");
        copy(&heap, 9100, 1, &mut out).unwrap();
        assert_eq!(&out, b"two");
        assert!(copy(&heap, 148, 1, &mut out).is_err(), "no collection");
    }

    #[test]
    fn an_image_that_is_broken_is_a_fault_wherever_it_is() {
        let good = imaged(&[
            (COLLECTION, 70, &collection(&[(1, b"one")])),
            (5, 48, b"a group"),
        ]);
        for place in (8..13).chain([22, 50]) {
            let mut bytes = good.clone();
            bytes[place] ^= 0x40;
            assert!(heap(bytes, 0).is_err(), "{place}");
        }
        for len in 8..good.len() - 4 {
            assert!(heap(good[..len].to_vec(), 0).is_err(), "{len}");
        }
        for place in 8..good.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut bytes = good.clone();
                bytes[place] = byte;
                // Whatever it says, there is an end.
                let _ = heap(bytes, u64::MAX - 9);
            }
        }
    }

    #[test]
    fn what_is_kept_of_an_image_is_charged() {
        let one = collection(&[(1, b"one")]);
        let entries: Vec<_> = (0..1000).map(|n| (COLLECTION, 100 * n, &one[..])).collect();
        let bytes = imaged(&entries);
        let budget = Budget::new(1 << 20);
        let heap = heap_within(bytes.clone(), 0, &budget).unwrap();
        assert_eq!(budget.kept(), 1024 * size_of::<ImagedPart>() as u64);
        drop(heap);
        assert_eq!(budget.kept(), 0);
        assert!(heap_within(bytes, 0, &Budget::new(16 << 10)).is_err());
    }
}
