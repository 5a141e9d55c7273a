//! Global heap collections: where HDF5 keeps the values of variable-length elements.
//!
//! An element is a length (4 bytes), the address of a collection and the number of an object in it
//! (4 bytes). A collection has a header, `GCOL`, version 1, 3 reserved bytes and its size, and then
//! objects: number and references (2 bytes each), 4 reserved bytes, size, and the data; header and
//! data are padded to multiples of 8, and object 0 is the free space at the end (HDF5 File Format
//! Specification, III.E). All numbers are little-endian and untrusted. Used by [`super`].
//!
//! A collection may lie in a metadata cache image ([`image`]), and nowhere else.

mod image;

use std::ops::Range;
use std::sync::Arc;

use crate::container::hdf5::index::FileIndex;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::source::{Source, StoredRanges};
use image::ImagedParts;

const SIGNATURE: [u8; 4] = *b"GCOL";

/// Collections of up to this size are read whole; HDF5 makes them of 4 KiB, or as large as one
/// object.
const WHOLE: u64 = 256 << 10;

/// What is read at once to begin with, and of larger collections.
const WINDOW: u64 = 4 << 10;

/// Header of an object, with a length of the usual size.
const OBJECT: u64 = 16;

/// Numbers of objects have 16 bits.
const OBJECTS_MOST: usize = 65_535;

/// The global heap of a file.
pub(crate) struct Heap {
    source: Arc<dyn Source>,
    base: u64,
    offset_size: usize,
    length_size: usize,
    /// Collections that lie elsewhere than where elements say.
    moved: ImagedParts,
}

/// An element: where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reference {
    /// In bytes; 0 for the empty string, which may be nowhere.
    pub(crate) length: u32,
    /// Address of the collection in the source.
    pub(crate) collection: u64,
    pub(crate) object: u32,
}

impl Reference {
    /// Bytes that the value takes in its collection: the object's header, and the data.
    pub(crate) fn room(self) -> u64 {
        u64::from(self.length).next_multiple_of(8) + OBJECT
    }
}

/// A string that is wanted: address of its collection, number of its object, where its bytes go,
/// and how many they are. In scratch memory, which gives out numbers.
pub(crate) type HeapPlace = [u64; 4];

/// Added to the number of bytes once they are there.
const FOUND: u64 = 1 << 63;

impl Heap {
    pub(crate) fn new(
        source: Arc<dyn Source>,
        index: &FileIndex,
        budget: &Arc<Budget>,
    ) -> Result<Heap> {
        let size = |size: u8, what: &str| -> Result<usize> {
            match size {
                2 | 4 | 8 => Ok(usize::from(size)),
                other => {
                    let fault = Fault::new(format!("{what} in the file have an odd size"));
                    Err(fault.found(other).into())
                }
            }
        };
        let mut heap = Heap {
            source,
            base: index.base,
            offset_size: size(index.offset_size, "addresses")?,
            length_size: size(index.length_size, "lengths")?,
            moved: ImagedParts::default(),
        };
        if let Some(image) = index.cache_image {
            heap.moved = heap.collections_in(image, budget)?;
        }
        Ok(heap)
    }

    /// Bytes of an element.
    pub(crate) fn element_size(&self) -> usize {
        4 + self.offset_size + 4
    }

    pub(crate) fn source_len(&self) -> u64 {
        self.source.len()
    }

    /// Reads an element, which has [`Heap::element_size`] bytes.
    pub(crate) fn reference(&self, element: &[u8]) -> Reference {
        let (length, rest) = element.split_at(4);
        let (address, object) = rest.split_at(self.offset_size);
        let address = number(address);
        let undefined = u64::MAX >> (64 - 8 * self.offset_size);
        if address == 0 || address == undefined {
            return Reference::default();
        }
        Reference {
            length: number(length) as u32,
            collection: self.base.saturating_add(address),
            object: number(object) as u32,
        }
    }

    /// Names what is fetched to begin with of the collection that a value lies in, which is all of
    /// most collections, and the value if it is longer.
    pub(crate) fn name(&self, value: Reference, needed: &mut StoredRanges) {
        let at = self.place_of(value.collection);
        let len = value.room().saturating_add(WINDOW).min(WHOLE);
        needed.name(&self.source, at..at.saturating_add(len));
    }

    /// Bytes of the window that [`Heap::copy`] reads through.
    pub(crate) fn window(&self) -> u64 {
        self.source.len().min(WHOLE)
    }

    /// Copies what is wanted of one collection to its places in `out`. `wanted` is in order of the
    /// objects; afterwards it holds what is of no use.
    pub(crate) fn copy(
        &self,
        wanted: &mut [HeapPlace],
        out: &mut [u8],
        window: &mut [u8],
    ) -> Result<()> {
        let Some(&[at, ..]) = wanted.first() else {
            return Ok(());
        };
        let (mut window, header) = self.collection(self.place_of(at), window)?;
        let (mut place, mut objects) = (header, 0);
        while let Some(object) = self.object(&mut window, place, objects)? {
            // Objects without data may be behind each other without end, but their numbers have 16
            // bits.
            (place, objects) = (object.start + object.len, objects + 1);
            place = place.next_multiple_of(8);
            let number = u64::from(object.number);
            let first = wanted.partition_point(|wanted| wanted[1] < number);
            for wanted in wanted[first..]
                .iter_mut()
                .take_while(|wanted| wanted[1] == number)
            {
                window.copy_object(&object, wanted, out)?;
            }
        }
        let missing = wanted.iter().find(|wanted| wanted[3] & FOUND == 0);
        missing.map_or(Ok(()), |[_, object, ..]| {
            let fault = Fault::new("the global heap has no such object").bytes(window.place());
            Err(fault.found(object).into())
        })
    }

    /// Reads the header of a collection; gives its length too.
    fn collection<'w>(&'w self, at: u64, bytes: &'w mut [u8]) -> Result<(HeapWindow<'w>, u64)> {
        let mut window = HeapWindow::new(&*self.source, at, bytes)?;
        let header = (8 + self.length_size as u64).next_multiple_of(8);
        let head = window.get(0, header)?;
        if head[..4] != SIGNATURE || head[4] != 1 {
            let fault = Fault::new("no collection of the global heap").bytes(at..at + header);
            let fault = fault.expected("GCOL, version 1");
            return Err(fault.found(head[..5].escape_ascii()).into());
        }
        let size = number(&head[8..8 + self.length_size]);
        if size < header
            || at
                .checked_add(size)
                .is_none_or(|end| end > self.source.len())
        {
            let fault = Fault::new("the size of a collection of the global heap is wrong");
            let fault = fault.bytes(at..at + header).found(size);
            let most = self.source.len() - at;
            return Err(fault.expected(format_args!("{header} to {most}")).into());
        }
        window.limit(size)?;
        Ok((window, header))
    }

    /// The object that begins at a place in a collection, `before` others being before it; none at
    /// its end.
    fn object(
        &self,
        window: &mut HeapWindow<'_>,
        at: u64,
        before: usize,
    ) -> Result<Option<HeapObject>> {
        let length = self.length_size;
        let object_header = (8 + length as u64).next_multiple_of(8);
        if at.saturating_add(object_header) > window.len {
            return Ok(None);
        }
        let head = window.get(at, object_header)?;
        let index = number(&head[..2]) as u16;
        let (start, len) = (at + object_header, number(&head[8..8 + length]));
        // The free space counts its own header.
        if index == 0 && len <= window.len - at {
            return Ok(None);
        }
        let end = start.checked_add(len).filter(|end| *end <= window.len);
        if end.is_none() || before >= OBJECTS_MOST {
            let fault = Fault::new("an object of the global heap lies outside of its collection");
            let fault = fault.bytes(window.at + at..window.at + start);
            return Err(fault.expected(window.len - start).found(len).into());
        }
        Ok(Some(HeapObject {
            number: index,
            start,
            len,
        }))
    }
}

struct HeapObject {
    number: u16,
    /// Data, counted from the collection's start.
    start: u64,
    len: u64,
}

/// Bytes of a collection: all, or those around the last header that was read.
struct HeapWindow<'w> {
    source: &'w dyn Source,
    /// Where the collection begins, and its size as far as it is known.
    at: u64,
    len: u64,
    /// Place of the bytes in the collection, and how many there are.
    start: u64,
    filled: usize,
    bytes: &'w mut [u8],
}

impl<'w> HeapWindow<'w> {
    fn new(source: &'w dyn Source, at: u64, bytes: &'w mut [u8]) -> Result<Self> {
        let len = source.len().saturating_sub(at);
        let mut window = HeapWindow {
            source,
            at,
            len,
            start: 0,
            filled: 0,
            bytes,
        };
        window.move_to(0, WINDOW)?;
        Ok(window)
    }

    /// Where the collection lies.
    fn place(&self) -> Range<u64> {
        self.at..self.at.saturating_add(self.len)
    }

    /// Sets the size of the collection; reads it whole if it is small.
    fn limit(&mut self, len: u64) -> Result<()> {
        self.len = len;
        if len <= WHOLE && len > self.filled as u64 {
            self.move_to(0, WHOLE)?;
        }
        Ok(())
    }

    fn move_to(&mut self, start: u64, most: u64) -> Result<()> {
        let len = self.len.saturating_sub(start).min(most);
        (self.start, self.filled) = (start, self.bytes.len().min(len as usize));
        let at = self.at.saturating_add(start);
        self.source.fetch_one(at, &mut self.bytes[..self.filled])
    }

    /// `len` bytes from `at` on; `len` is at most that of a header.
    fn get(&mut self, at: u64, len: u64) -> Result<&[u8]> {
        if self.held(at, len).is_none() {
            self.move_to(at, WINDOW)?;
        }
        let end = self.at.saturating_add(at).saturating_add(len);
        let place = self.at.saturating_add(at)..end;
        let most = self.source.len();
        self.held(at, len).ok_or_else(|| {
            Fault::new("a collection of the global heap lies beyond the end of the file")
                .bytes(place)
                .expected(format_args!("at most {most}"))
                .into()
        })
    }

    fn held(&self, at: u64, len: u64) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let held = self.bytes.get(..self.filled)?;
        held.get(from..)?.get(..usize::try_from(len).ok()?)
    }

    /// Copies the beginning of an object, as much as is wanted, and notes that it was found.
    fn copy_object(
        &self,
        object: &HeapObject,
        wanted: &mut HeapPlace,
        out: &mut [u8],
    ) -> Result<()> {
        let [_, _, to, len] = *wanted;
        if len & FOUND != 0 {
            let fault = Fault::new("a collection of the global heap has an object twice");
            return Err(fault.bytes(self.place()).found(object.number).into());
        }
        if object.len < len {
            let fault = Fault::new("a string is longer than its object in the global heap");
            let fault = fault.bytes(self.place()).expected(object.len);
            return Err(fault.found(len).into());
        }
        wanted[3] |= FOUND;
        let room = out.len();
        let out = out
            .get_mut(to as usize..)
            .and_then(|out| out.get_mut(..len as usize));
        let outside = || Error::Bug(format!("{len} bytes do not fit at {to} of {room}"));
        let out = out.ok_or_else(outside)?;
        match self.held(object.start, len) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => self.source.fetch_one(self.at + object.start, out)?,
        }
        Ok(())
    }
}

/// A little-endian number of at most 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    let n = bytes.len().min(8);
    wide[..n].copy_from_slice(&bytes[..n]);
    u64::from_le_bytes(wide)
}

#[cfg(test)]
pub(crate) mod tests;
