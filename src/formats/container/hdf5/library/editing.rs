//! A file as libhdf5 changes it: extents, places for chunks, compact values, attributes, texts
//! ([`texts`]); and as it makes a new one ([`making`], [`scales`]).
//!
//! Nothing is written to any file: [`super::driver`] keeps what the library writes. After the first
//! error nothing more may be asked of the library, not even to close the file: damaged files have
//! been seen to crash it there. The worker ends then. Used by `worker::serve`.

mod making;
mod scales;
mod texts;

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_void};

use hdf5_sys::h5d::{H5Dget_offset, H5Dget_space, H5Dset_extent, H5Dwrite, H5Dwrite_chunk};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5s::{H5S_ALL, H5S_class_t, H5S_seloper_t, H5Screate, H5Sselect_elements};
use hdf5_sys::h5t::{H5T_class_t, H5Tdetect_class};

use super::dataset::LibraryDataset;
use super::driver::{self, FileBytes, NOTHING, SharedFile};
use super::identifier::{Identifier, Outcome, check};
use super::space::{count, grid};
use super::{LibraryFile, OpenedFor, new_value, stand_in, walk};
use crate::container::hdf5::edit::{EditReply, EditStep, FinishedEdit, NewValue, StoredChunk};
use crate::container::hdf5::made::NewFileForm;
pub(super) use making::IN_ORDER;
use texts::TextsOf;

/// Largest element that a dataset is allocated with, in bytes.
const ELEMENT_MOST: usize = 64 << 20;

/// The library writes a fill value to so many bytes at most, all of which are dropped.
const FILLED_MOST: u64 = 1 << 30;

/// A file that is being changed.
pub(crate) struct FileEdit {
    file: LibraryFile,
    /// By their tokens.
    datasets: HashMap<u64, EditedDataset>,
    /// Of a new file: the order is kept in which things are made.
    is_ordered: bool,
    /// The dataset that texts are being put into.
    texts: Option<(TextsOf, Identifier)>,
    /// The dimensions that each scale belongs to: token of the dataset, and which of its
    /// dimensions.
    references: BTreeMap<Vec<u8>, Vec<(u64, u32)>>,
}

struct EditedDataset {
    opened: LibraryDataset,
    /// Elements along each dimension of it and of its chunks.
    dims: Vec<u64>,
    chunk: Vec<u64>,
}

impl FileEdit {
    pub(crate) fn open(bytes: Box<dyn FileBytes>) -> Outcome<FileEdit> {
        Ok(FileEdit::of(LibraryFile::open_for(
            bytes,
            OpenedFor::Editing,
        )?))
    }

    /// Begins a new file, over no bytes.
    pub(crate) fn create(bytes: Box<dyn FileBytes>, form: NewFileForm) -> Outcome<FileEdit> {
        Ok(FileEdit {
            is_ordered: form.is_ordered,
            ..FileEdit::of(LibraryFile::open_for(bytes, OpenedFor::Making(form))?)
        })
    }

    fn of(file: LibraryFile) -> FileEdit {
        FileEdit {
            file,
            datasets: HashMap::new(),
            is_ordered: false,
            texts: None,
            references: BTreeMap::new(),
        }
    }

    /// Carries out a step; not [`EditStep::Finish`], which ends it all.
    pub(crate) fn step(&mut self, step: EditStep) -> Outcome<EditReply> {
        let _lock = hdf5_sys::LOCK.lock();
        let done = match step {
            EditStep::Room(room) => self.offer_room(room),
            EditStep::Extent { token, dims } => self.set_extent(token, dims),
            EditStep::Chunks { token, chunks } => self.place_chunks(token, &chunks),
            EditStep::Allocate { token } => self.allocate(token),
            EditStep::Compact { token, bytes } => self.put_compact(token, &bytes),
            EditStep::Texts { token, runs, texts } => {
                let put = self.put_texts(TextsOf::Token(token), &runs, &texts);
                put.map(|()| EditReply::Done)
            }
            EditStep::Attribute {
                object,
                name,
                value,
            } => self.put_attribute(object, name, &value),
            EditStep::Make(steps) => self.make(steps),
            EditStep::Finish => Err("the end is no step".into()),
        };
        done.map_err(|why| self.deeper(why))
    }

    /// Closes the file, and tells what the library has made of it.
    pub(crate) fn finish(self) -> Outcome<FinishedEdit> {
        let _lock = hdf5_sys::LOCK.lock();
        let FileEdit {
            file,
            datasets,
            texts,
            ..
        } = self;
        drop((datasets, texts));
        let driven = file.close()?;
        let mut driven = driver::lock(&driven);
        if let Some(why) = driven.failure.take() {
            return Err(why);
        }
        let end = driven.end();
        let written = std::mem::take(&mut driven.written);
        Ok(FinishedEdit {
            patches: written.into_pieces(end),
            end,
            indices: driven.take_noted(),
            is_last: stand_in::is_any(),
        })
    }

    /// What went wrong below the library, if anything did.
    fn deeper(&self, why: String) -> String {
        let driven = driver::lock(&self.file.driven);
        driven.failure.clone().unwrap_or(why)
    }

    fn offer_room(&self, room: Vec<(u64, u64)>) -> Outcome<EditReply> {
        let is_managed = self.file.keeps_lists_of_room()?;
        if !is_managed {
            let ranges = room
                .into_iter()
                .filter_map(|(at, len)| Some(at..at.checked_add(len)?));
            driver::lock(&self.file.driven).room = ranges.collect();
        }
        Ok(EditReply::Managed(is_managed))
    }

    fn dataset(&mut self, token: u64) -> Outcome<&mut EditedDataset> {
        if !self.datasets.contains_key(&token) {
            let opened = LibraryDataset::new(walk::open(&self.file.file, token)?)?;
            let (dims, chunk) = opened.chunking()?;
            let dataset = EditedDataset {
                opened,
                dims,
                chunk,
            };
            self.datasets.insert(token, dataset);
        }
        let dataset = self.datasets.get_mut(&token);
        dataset.ok_or_else(|| "the dataset has gone".into())
    }

    fn set_extent(&mut self, token: u64, dims: Vec<u64>) -> Outcome<EditReply> {
        let dataset = self.dataset(token)?;
        if dims.len() != dataset.dims.len() {
            return Err("the dataset has another number of dimensions".into());
        }
        let chunk_bytes = dataset.opened.element_size().saturating_mul(
            count(&dataset.chunk).ok_or("the chunks are larger than can be counted")?,
        );
        for (filter, _) in dataset.opened.filters()? {
            stand_in::provide(filter.id, chunk_bytes)?;
        }
        let handle = dataset.opened.handle().id();
        // SAFETY: the handle is a chunked dataset of so many dimensions.
        check(unsafe { H5Dset_extent(handle, dims.as_ptr()) })?;
        dataset.dims = dims;
        Ok(EditReply::Done)
    }

    fn place_chunks(&mut self, token: u64, chunks: &[StoredChunk]) -> Outcome<EditReply> {
        let driven = self.file.driven.clone();
        let dataset = self.dataset(token)?;
        // It is open: what is read from here on is the index of its chunks.
        driver::lock(&driven).notes = true;
        let placed = dataset.place_chunks(chunks, &driven);
        driver::lock(&driven).notes = false;
        placed.map(EditReply::Places)
    }

    /// Gives a contiguous dataset a place, which it gets when something is written to it.
    fn allocate(&mut self, token: u64) -> Outcome<EditReply> {
        let opened = LibraryDataset::new(walk::open(&self.file.file, token)?)?;
        driver::lock(&self.file.driven).drops_raw = true;
        let written = match is_written_whole(&opened)? {
            true => write_all(&opened),
            false => write_first(&opened),
        };
        driver::lock(&self.file.driven).drops_raw = false;
        written?;
        // SAFETY: the handle is a contiguous dataset, which has a place now.
        let place = unsafe { H5Dget_offset(opened.handle().id()) };
        Ok(EditReply::Places(vec![place]))
    }

    fn put_compact(&mut self, token: u64, bytes: &[u8]) -> Outcome<EditReply> {
        let opened = LibraryDataset::new(walk::open(&self.file.file, token)?)?;
        let elements = opened.dims()?.as_deref().and_then(count);
        let expected = elements.and_then(|n| n.checked_mul(opened.element_size()));
        if expected != Some(bytes.len() as u64) {
            return Err("the compact dataset has another size".into());
        }
        let (to, all) = ((opened.handle(), opened.element()), (H5S_ALL, H5S_ALL));
        // SAFETY: there are all elements of the dataset, of its own type.
        unsafe { write(to, all, bytes.as_ptr().cast())? };
        Ok(EditReply::Done)
    }

    fn put_attribute(
        &mut self,
        object: u64,
        name: Vec<u8>,
        value: &NewValue,
    ) -> Outcome<EditReply> {
        let name = CString::new(name).map_err(|e| e.to_string())?;
        let object = walk::open(&self.file.file, object)?;
        new_value::put(&object, &name, value)?;
        Ok(EditReply::Done)
    }
}

/// Whether the library is told that all of a dataset is written: after one element it would write
/// the fill value to all others, and take hours where there are very many.
fn is_written_whole(dataset: &LibraryDataset) -> Outcome<bool> {
    let elements = dataset.dims()?.as_deref().and_then(count).unwrap_or(0);
    let bytes = elements.saturating_mul(dataset.element_size());
    // What leads elsewhere is converted, and so read.
    let mut leads = false;
    for class in [H5T_class_t::H5T_REFERENCE, H5T_class_t::H5T_VLEN] {
        // SAFETY: the handle is a datatype.
        leads |= check(unsafe { H5Tdetect_class(dataset.element().id(), class) })? > 0;
    }
    Ok(bytes > FILLED_MOST && !leads)
}

/// The driver reads nothing of what is written, and the library has nothing to convert.
fn write_all(dataset: &LibraryDataset) -> Outcome<()> {
    let (to, all) = ((dataset.handle(), dataset.element()), (H5S_ALL, H5S_ALL));
    // SAFETY: values of the dataset's own type, which have no pointers, go to the driver as they
    // are: it drops them unread.
    unsafe { write(to, all, NOTHING) }
}

fn write_first(dataset: &LibraryDataset) -> Outcome<()> {
    let size = usize::try_from(dataset.element_size()).unwrap_or(usize::MAX);
    if size > ELEMENT_MOST {
        return Err(format!("elements of {size} bytes"));
    }
    let element = vec![0u8; size];
    let handle = dataset.handle().id();
    // SAFETY: the handle is a dataset.
    let space = Identifier::new(unsafe { H5Dget_space(handle) })?;
    // SAFETY: a class of the library's.
    let one = Identifier::new(unsafe { H5Screate(H5S_class_t::H5S_SCALAR) })?;
    // More dimensions than any dataset has.
    let origin = [0u64; 64];
    let select = H5S_seloper_t::H5S_SELECT_SET;
    if dataset.dims()?.is_some_and(|dims| !dims.is_empty()) {
        // SAFETY: one place of as many coordinates as the space has dimensions.
        check(unsafe { H5Sselect_elements(space.id(), select, 1, origin.as_ptr()) })?;
    }
    let to = (dataset.handle(), dataset.element());
    // SAFETY: there is one element of the dataset's own type.
    unsafe { write(to, (one.id(), space.id()), element.as_ptr().cast()) }
}

/// Writes to a dataset, in its own type.
///
/// # Safety
/// At `from` are as many elements of this type as `here` selects, or the driver reads nothing of
/// them.
unsafe fn write(
    (dataset, element): (&Identifier, &Identifier),
    (here, there): (hid_t, hid_t),
    from: *const c_void,
) -> Outcome<()> {
    let (to, element) = (dataset.id(), element.id());
    // SAFETY: as the caller says.
    check(unsafe { H5Dwrite(to, element, here, there, H5P_DEFAULT, from) }).map(drop)
}

impl EditedDataset {
    fn place_chunks(&self, chunks: &[StoredChunk], driven: &SharedFile) -> Outcome<Vec<u64>> {
        let mut places = Vec::new();
        for chunk in chunks {
            let offset = self.offset(chunk.number)?;
            // With another length between them the masks are set.
            if chunk.remask {
                let longer = chunk.len.saturating_add(1);
                let place = self.place_chunk(&offset, (longer, chunk.mask), driven)?;
                driver::lock(driven).written.unplace(place, longer);
            }
            places.push(self.place_chunk(&offset, (chunk.len, chunk.mask), driven)?);
        }
        Ok(places)
    }

    /// Where a chunk of this length and mask goes.
    fn place_chunk(
        &self,
        offset: &[u64],
        (len, mask): (u64, u32),
        driven: &SharedFile,
    ) -> Outcome<u64> {
        let size = usize::try_from(len).map_err(|e| e.to_string())?;
        driver::lock(driven).await_chunk(len);
        let (handle, at) = (self.opened.handle().id(), offset.as_ptr());
        // SAFETY: the handle is a chunked dataset of as many dimensions as `offset` has; the driver
        // notes where the chunk goes and reads nothing of it.
        check(unsafe { H5Dwrite_chunk(handle, H5P_DEFAULT, mask, at, size, NOTHING) })?;
        let place = driver::lock(driven).take_placed();
        place.ok_or_else(|| "a chunk got no place".into())
    }

    /// The first element of a chunk.
    fn offset(&self, mut number: u64) -> Outcome<Vec<u64>> {
        let grid = grid(&self.dims, &self.chunk).ok_or("the chunks do not fit the dataset")?;
        let mut offset = vec![0; grid.len()];
        let axes = offset.iter_mut().zip(grid.iter().zip(&self.chunk));
        for (at, (chunks, len)) in axes.rev() {
            *at = number % (*chunks).max(1) * len;
            number /= (*chunks).max(1);
        }
        match number {
            0 => Ok(offset),
            _ => Err("the dataset has no such chunk".into()),
        }
    }
}
