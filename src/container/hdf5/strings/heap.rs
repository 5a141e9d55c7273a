//! Global heap collections: where HDF5 keeps the values of variable-length elements.
//!
//! An element is a length (4 bytes), the address of a collection and the number of an object in it
//! (4 bytes). A collection has a header, `GCOL`, version 1, 3 reserved bytes and its size, and then objects:
//! number and references (2 bytes each), 4 reserved bytes, size, and the data; header and data are padded
//! to multiples of 8, and object 0 is the free space at the end (HDF5 File Format Specification, III.E).
//! All numbers are little-endian and untrusted. Used by [`super`].

use std::sync::Arc;

use crate::container::hdf5::index::FileIndex;
use crate::error::{Fault, Result};
use crate::source::Source;

const SIGNATURE: [u8; 4] = *b"GCOL";

/// Collections of up to this size are read whole; HDF5 makes them of 4 KiB, or as large as one object.
const WHOLE: u64 = 256 << 10;

/// What is read at once to begin with, and of larger collections.
const WINDOW: u64 = 4 << 10;

/// Numbers of objects have 16 bits.
const OBJECTS_MOST: usize = 65_535;

/// The global heap of a file.
pub(in crate::container::hdf5) struct Heap {
    source: Arc<dyn Source>,
    base: u64,
    offset_size: usize,
    length_size: usize,
}

/// An element: where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::container::hdf5) struct Reference {
    /// In bytes; 0 for the empty string, which may be nowhere.
    pub(in crate::container::hdf5) length: u32,
    /// Address of the collection in the source.
    pub(in crate::container::hdf5) collection: u64,
    pub(in crate::container::hdf5) object: u32,
}

impl Heap {
    pub(in crate::container::hdf5) fn new(
        source: Arc<dyn Source>,
        index: &FileIndex,
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
        Ok(Heap {
            source,
            base: index.base,
            offset_size: size(index.offset_size, "addresses")?,
            length_size: size(index.length_size, "lengths")?,
        })
    }

    /// Bytes of an element.
    pub(in crate::container::hdf5) fn element_size(&self) -> usize {
        4 + self.offset_size + 4
    }

    pub(in crate::container::hdf5) fn source_len(&self) -> u64 {
        self.source.len()
    }

    /// Reads an element, which has [`Heap::element_size`] bytes.
    pub(in crate::container::hdf5) fn reference(&self, element: &[u8]) -> Reference {
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

    /// Reads the header of a collection and where its objects lie.
    pub(in crate::container::hdf5) fn collection(&self, at: u64) -> Result<Collection> {
        let mut window = HeapWindow::new(Arc::clone(&self.source), at)?;
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
        let objects = self.objects(&mut window, header)?;
        Ok(Collection { window, objects })
    }

    /// The objects of a collection, by number.
    fn objects(&self, window: &mut HeapWindow, header: u64) -> Result<Vec<HeapObject>> {
        let length = self.length_size;
        let object_header = (8 + length as u64).next_multiple_of(8);
        let mut objects: Vec<HeapObject> = Vec::new();
        let mut at = header;
        while at + object_header <= window.len {
            let head = window.get(at, object_header)?;
            let index = number(&head[..2]) as u16;
            let (start, len) = (at + object_header, number(&head[8..8 + length]));
            // The free space counts its own header.
            if index == 0 && len <= window.len - at {
                break;
            }
            let end = start.checked_add(len).filter(|end| *end <= window.len);
            let (Some(end), true) = (end, objects.len() < OBJECTS_MOST) else {
                let fault =
                    Fault::new("an object of the global heap lies outside of its collection");
                let place = window.at + at..window.at + start;
                return Err(fault
                    .bytes(place)
                    .expected(window.len - start)
                    .found(len)
                    .into());
            };
            objects.push(HeapObject {
                number: index,
                start,
                len,
            });
            at = end.next_multiple_of(8);
        }
        objects.sort_by_key(|object| object.number);
        match objects
            .windows(2)
            .find(|pair| pair[0].number == pair[1].number)
        {
            None => Ok(objects),
            Some(pair) => {
                let fault = Fault::new("a collection of the global heap has an object twice");
                let fault = fault.bytes(window.at..window.at + window.len);
                Err(fault.found(pair[0].number).into())
            }
        }
    }
}

/// A collection of the heap: its objects, and its bytes or some of them.
pub(in crate::container::hdf5) struct Collection {
    window: HeapWindow,
    objects: Vec<HeapObject>,
}

struct HeapObject {
    number: u16,
    /// Data, counted from the collection's start.
    start: u64,
    len: u64,
}

impl Collection {
    /// Copies the beginning of an object, as long as `out`.
    pub(in crate::container::hdf5) fn copy(&self, object: u32, out: &mut [u8]) -> Result<()> {
        let Collection { window, objects } = self;
        let place = window.at..window.at + window.len;
        let found = objects.binary_search_by_key(&object, |object| u32::from(object.number));
        let Some(found) = found.ok().and_then(|at| objects.get(at)) else {
            let fault = Fault::new("the global heap has no such object").bytes(place);
            return Err(fault.found(object).into());
        };
        if found.len < out.len() as u64 {
            let fault = Fault::new("a string is longer than its object in the global heap");
            return Err(fault
                .bytes(place)
                .expected(found.len)
                .found(out.len())
                .into());
        }
        match window.held(found.start, out.len() as u64) {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            None => window.source.fetch_one(window.at + found.start, out),
        }
    }
}

/// Bytes of a collection: all, or those around the last header that was read.
struct HeapWindow {
    source: Arc<dyn Source>,
    /// Where the collection begins, and its size as far as it is known.
    at: u64,
    len: u64,
    /// Place of `bytes` in the collection.
    start: u64,
    bytes: Vec<u8>,
}

impl HeapWindow {
    fn new(source: Arc<dyn Source>, at: u64) -> Result<HeapWindow> {
        let len = source.len().saturating_sub(at);
        let mut window = HeapWindow {
            source,
            at,
            len,
            start: 0,
            bytes: Vec::new(),
        };
        window.move_to(0, WINDOW)?;
        Ok(window)
    }

    /// Sets the size of the collection; reads it whole if it is small.
    fn limit(&mut self, len: u64) -> Result<()> {
        self.len = len;
        if len <= WHOLE && len > self.bytes.len() as u64 {
            self.move_to(0, WHOLE)?;
        }
        Ok(())
    }

    fn move_to(&mut self, start: u64, most: u64) -> Result<()> {
        let len = self.len.saturating_sub(start).min(most);
        self.start = start;
        self.bytes.resize(len as usize, 0);
        self.source
            .fetch_one(self.at.saturating_add(start), &mut self.bytes)
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
        self.bytes.get(from..)?.get(..usize::try_from(len).ok()?)
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
pub(in crate::container::hdf5) mod tests;
