//! A dataset as it is stored: type, shape, layout, filters, fill value. Its elements are not read.

use std::ffi::{c_char, c_uint, c_void};
use std::ptr;

use hdf5_sys::h5::HADDR_UNDEF;
use hdf5_sys::h5d::{
    H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS, H5D_alloc_time_t, H5D_fill_time_t, H5D_fill_value_t,
    H5D_layout_t, H5D_space_status_t, H5Dget_create_plist, H5Dget_offset, H5Dget_space,
    H5Dget_space_status, H5Dget_type, H5Dread,
};
use hdf5_sys::h5p::{
    H5P_DEFAULT, H5Pfill_value_defined, H5Pget_alloc_time, H5Pget_chunk, H5Pget_chunk_opts,
    H5Pget_external, H5Pget_external_count, H5Pget_fill_time, H5Pget_fill_value, H5Pget_filter2,
    H5Pget_layout, H5Pget_nfilters,
};
use hdf5_sys::h5s::H5S_ALL;
use hdf5_sys::h5z::H5Z_FLAG_OPTIONAL;

use super::chunks::{self, INLINE_MOST};
use super::elements::Elements;
use super::identifier::{Identifier, Outcome, asked, check};
use super::links::until_nul;
use super::parts;
use super::space::{count, dims, grid, largest};
use super::text;
use super::types;
use crate::codec::filters::has_decoder;
use crate::container::hdf5::chunk_table::PackedChunks;
use crate::container::hdf5::element::type_name;
use crate::container::hdf5::index::{DatasetEntry, FilterEntry, StorageLayout, TEXT_MOST};
use crate::container::stored::StoredType;

/// A compact dataset lies in its object header, whose messages have at most 65,535 bytes.
const COMPACT_MOST: u64 = 65_536;
/// Largest fill value in bytes.
const FILL_MOST: usize = 1 << 20;
/// Largest number of client values of one filter.
const FILTER_VALUES_MOST: usize = 65_536;
/// Longest name of a filter that is told, in bytes.
const FILTER_NAME_MOST: usize = 256;
/// Largest rank: a limit of libhdf5.
const RANK_MOST: usize = 32;
/// Longest name of another file that is passed on.
const NAME_MOST: usize = 4096;
/// Most names of other files that are passed on.
const FILES_MOST: usize = 16;

/// An opened dataset and what describes it.
pub(super) struct LibraryDataset {
    dataset: Identifier,
    element: Identifier,
    space: Identifier,
    properties: Identifier,
}

impl LibraryDataset {
    pub(super) fn new(dataset: Identifier) -> Outcome<LibraryDataset> {
        // SAFETY: the handle is a dataset.
        let element = Identifier::new(unsafe { H5Dget_type(dataset.id()) })?;
        // SAFETY: as above.
        let space = Identifier::new(unsafe { H5Dget_space(dataset.id()) })?;
        // SAFETY: as above.
        let properties = Identifier::new(unsafe { H5Dget_create_plist(dataset.id()) })?;
        Ok(LibraryDataset {
            dataset,
            element,
            space,
            properties,
        })
    }

    pub(super) fn handle(&self) -> &Identifier {
        &self.dataset
    }

    pub(super) fn properties(&self) -> &Identifier {
        &self.properties
    }

    pub(super) fn element(&self) -> &Identifier {
        &self.element
    }

    /// Bytes of an element as it is stored.
    pub(super) fn element_size(&self) -> u64 {
        types::size(&self.element) as u64
    }

    pub(super) fn dims(&self) -> Outcome<Option<Vec<u64>>> {
        dims(&self.space)
    }

    /// Everything but attributes and text.
    pub(super) fn describe(&self, token: u64) -> Outcome<DatasetEntry> {
        let element = types::describe(&self.element)?;
        let dims = dims(&self.space)?;
        let filters = self.filters()?.into_iter();
        let (filters, named): (Vec<_>, Vec<_>) = filters.unzip();
        let most = match dims.as_deref() {
            Some([_, ..]) => largest(&self.space)?,
            _ => Vec::new(),
        };
        let first_most = most.first().copied().unwrap_or(0);
        let mut layout = self.layout(&element, dims.as_deref(), (&filters, first_most))?;
        let stored_bytes = self.stored_bytes(&layout);
        let fill = self.never_written(&element)?;
        if let Err(size) = fill {
            layout = StorageLayout::Unknown(format!("a fill value of {size} bytes"));
        }
        Ok(DatasetEntry {
            details: self.details(&element, most, named)?,
            token,
            stored_bytes,
            fill: fill.unwrap_or_default(),
            filters,
            attributes: Vec::new(),
            text: None,
            element,
            dims,
            layout,
        })
    }

    /// The string that the dataset is, if it is a single one.
    pub(super) fn text(&self, described: &DatasetEntry) -> Outcome<Option<Vec<u8>>> {
        let string = matches!(described.element, StoredType::Text { .. });
        let one = described.dims.as_deref().and_then(count) == Some(1);
        let elsewhere = matches!(
            described.layout,
            StorageLayout::External(_) | StorageLayout::Virtual(_)
        );
        if !string || !one || elsewhere {
            return Ok(None);
        }
        let strings = text::read(self, &self.element, &self.space, 1, TEXT_MOST)?;
        Ok(strings.and_then(|mut read| read.texts.pop()))
    }

    /// Elements along each dimension of the dataset and of its chunks, if it is chunked.
    pub(super) fn chunking(&self) -> Outcome<(Vec<u64>, Vec<u64>)> {
        let dims = dims(&self.space)?.ok_or("the dataset has no elements")?;
        match self.layout_class() {
            H5D_layout_t::H5D_CHUNKED => Ok((dims, self.chunk()?)),
            _ => Err("the dataset is not chunked".into()),
        }
    }

    fn layout(
        &self,
        element: &StoredType,
        dims: Option<&[u64]>,
        (filters, first_most): (&[FilterEntry], u64),
    ) -> Outcome<StorageLayout> {
        Ok(match self.layout_class() {
            H5D_layout_t::H5D_COMPACT => self.compact(element, dims)?,
            H5D_layout_t::H5D_CONTIGUOUS => self.contiguous()?,
            H5D_layout_t::H5D_CHUNKED => self.chunked(dims, (filters, first_most))?,
            H5D_layout_t::H5D_VIRTUAL => {
                StorageLayout::Virtual(parts::describe(&self.properties, dims.unwrap_or_default())?)
            }
            _ => StorageLayout::Unknown("a layout that is not known".into()),
        })
    }

    fn compact(&self, element: &StoredType, dims: Option<&[u64]>) -> Outcome<StorageLayout> {
        let Some(elements) = dims.and_then(count) else {
            return Ok(StorageLayout::Compact(Vec::new()));
        };
        if element.is_text() {
            return self.texts(elements);
        }
        if !element.is_plain() {
            let name = type_name(element);
            return Ok(StorageLayout::Unknown(format!("compact storage of {name}")));
        }
        let bytes = elements.checked_mul(self.element_size());
        let bytes = bytes.filter(|n| *n <= COMPACT_MOST);
        let Some(bytes) = bytes else {
            return Err("compact storage of too many bytes".into());
        };
        let mut stored = vec![0; bytes as usize];
        if bytes > 0 {
            // SAFETY: there is room for all elements in the stored type.
            unsafe { self.read(&self.element, stored.as_mut_ptr().cast())? };
        }
        Ok(StorageLayout::Compact(stored))
    }

    /// Strings of variable length; an element takes 8 bytes or more of the object header.
    fn texts(&self, elements: u64) -> Outcome<StorageLayout> {
        let count = usize::try_from(elements).ok();
        let few = count.filter(|_| elements <= COMPACT_MOST / 8);
        let Some(count) = few else {
            return Err("compact storage of too many strings".into());
        };
        let texts = text::read(self, &self.element, &self.space, count, TEXT_MOST)?;
        Ok(match texts {
            Some(read) => {
                let has_feeds = read.texts.iter().any(|text| text.contains(&b'\n'));
                let lengths = read.texts.iter().map(|text| text.len() as u32);
                let lengths = lengths.filter(|_| has_feeds).collect();
                let texts = read.texts.into_iter();
                let lines = texts.flat_map(|text| text.into_iter().chain([b'\n']));
                StorageLayout::Texts(lines.collect(), lengths)
            }
            None => StorageLayout::Unknown(format!("strings of more than {TEXT_MOST} bytes")),
        })
    }

    fn contiguous(&self) -> Outcome<StorageLayout> {
        // SAFETY: the handle is a dataset creation property list.
        let files = check(unsafe { H5Pget_external_count(self.properties.id()) })?;
        if files > 0 {
            return Ok(StorageLayout::External(self.external_files(files)?));
        }
        // Behind a user block the library gives the undefined address as a defined one, so what it
        // says of the space decides; not its size, which a file may deny and the library does not
        // need.
        let unknown = H5D_space_status_t::H5D_SPACE_STATUS_ERROR;
        let status = asked(&self.dataset, unknown, H5Dget_space_status)?;
        if status == H5D_space_status_t::H5D_SPACE_STATUS_NOT_ALLOCATED {
            return Ok(StorageLayout::Contiguous { address: None });
        }
        // SAFETY: the handle is a dataset.
        let address = unsafe { H5Dget_offset(self.dataset.id()) };
        Ok(StorageLayout::Contiguous {
            address: (address != HADDR_UNDEF).then_some(address),
        })
    }

    /// `first_most`: how long the first dimension may become.
    fn chunked(
        &self,
        dims: Option<&[u64]>,
        (filters, first_most): (&[FilterEntry], u64),
    ) -> Outcome<StorageLayout> {
        let chunk = self.chunk()?;
        let options: c_uint = asked(&self.properties, 0, H5Pget_chunk_opts)?;
        let few = dims
            .and_then(|dims| grid(dims, &chunk))
            .and_then(|grid| count(&grid))
            .is_some_and(|chunks| chunks <= INLINE_MOST);
        let plain_edges = options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS != 0;
        let all_known = filters
            .iter()
            .all(|filter| has_decoder(&filter.described()));
        // An index that cannot be read says so when the array is opened and asks for it.
        let packed = match dims {
            Some(dims) if few || !all_known => chunks::table(&self.dataset, dims, &chunk).ok(),
            _ => None,
        };
        let packed = packed.as_deref().map(PackedChunks);
        let applied = match (packed, dims) {
            (Some(packed), Some(dims)) if !all_known => {
                chunks::applied(packed, dims, &chunk, plain_edges)
            }
            _ => u32::MAX,
        };
        let table = packed.filter(|_| few);
        Ok(StorageLayout::Chunked {
            chunk,
            first_most,
            early: self.allocation_time()? == H5D_alloc_time_t::H5D_ALLOC_TIME_EARLY,
            plain_edges,
            applied,
            table: table.map(|packed| packed.iter().collect()),
        })
    }

    fn chunk(&self) -> Outcome<Vec<u64>> {
        let mut chunk = [0; RANK_MOST];
        let (most, at) = (RANK_MOST as i32, chunk.as_mut_ptr());
        // SAFETY: the handle is a dataset creation property list; `chunk` has room for `most`.
        let rank = check(unsafe { H5Pget_chunk(self.properties.id(), most, at) })?;
        let chunk = chunk.get(..rank).ok_or("chunks of too many dimensions")?;
        Ok(chunk.to_vec())
    }

    fn stored_bytes(&self, layout: &StorageLayout) -> u64 {
        match layout {
            StorageLayout::Compact(stored) | StorageLayout::Texts(stored, _) => stored.len() as u64,
            StorageLayout::Chunked {
                table: Some(table), ..
            } => table.iter().fold(0, |sum, c| sum.saturating_add(c.size)),
            StorageLayout::External(_) | StorageLayout::Virtual(_) => 0,
            _ => chunks::stored_bytes(&self.dataset),
        }
    }

    /// The filters; of each its name, and whether it may be left out.
    pub(super) fn filters(&self) -> Outcome<Vec<(FilterEntry, (String, bool))>> {
        // SAFETY: the handle is a dataset creation property list.
        let filters = check(unsafe { H5Pget_nfilters(self.properties.id()) })?;
        (0..filters).map(|at| self.filter(at, 32)).collect()
    }

    fn filter(&self, at: usize, room: usize) -> Outcome<(FilterEntry, (String, bool))> {
        let (mut values, mut name) = (vec![0; room], vec![0; FILTER_NAME_MOST]);
        let (mut flags, mut found) = (0, room);
        let (list, number, none) = (self.properties.id(), at as c_uint, ptr::null_mut());
        let (to, most) = (name.as_mut_ptr().cast::<c_char>(), FILTER_NAME_MOST);
        let at_values = values.as_mut_ptr();
        // SAFETY: there is room for `found` values, and for the name, which fits or is cut; nothing
        // else is asked for: in particular not whether the filter is available, which looks for
        // plugins.
        let id = unsafe {
            H5Pget_filter2(
                list, number, &mut flags, &mut found, at_values, most, to, none,
            )
        };
        let id = check(id)?;
        if found > room {
            if found > FILTER_VALUES_MOST || room > 32 {
                return Err(format!("filter {id} has {found} values"));
            }
            return self.filter(at, found);
        }
        values.truncate(found);
        let name = String::from_utf8_lossy(&until_nul(name)).into_owned();
        let id = id as u32;
        Ok((
            FilterEntry { id, values },
            (name, flags & H5Z_FLAG_OPTIONAL != 0),
        ))
    }

    /// What was never written, if it is something else than zeros or empty texts; or how many bytes
    /// of it there are, if they are too many.
    fn never_written(
        &self,
        element: &StoredType,
    ) -> Outcome<std::result::Result<Option<Vec<u8>>, usize>> {
        let size = types::size(&self.element);
        let fill = match self.shows_fill()? {
            true if element.is_text() => text::fill(&self.properties, &self.element)?,
            true if element.is_plain() && size > FILL_MOST => return Ok(Err(size)),
            true if element.is_plain() => self.fill(size)?,
            _ => Vec::new(),
        };
        Ok(match fill.len() {
            0 => Ok(None),
            1..=FILL_MOST => Ok(Some(fill)),
            more => Err(more),
        })
    }

    /// Where it is never stored, the library leaves a reader's buffer as it is, which readers hand
    /// over zeroed.
    fn shows_fill(&self) -> Outcome<bool> {
        let is_defined = self.fill_status()? == H5D_fill_value_t::H5D_FILL_VALUE_USER_DEFINED;
        Ok(is_defined && self.fill_time()? != H5D_fill_time_t::H5D_FILL_TIME_NEVER)
    }

    pub(super) fn fill_status(&self) -> Outcome<H5D_fill_value_t> {
        let none = H5D_fill_value_t::H5D_FILL_VALUE_UNDEFINED;
        asked(&self.properties, none, H5Pfill_value_defined)
    }

    pub(super) fn fill_time(&self) -> Outcome<H5D_fill_time_t> {
        let usual = H5D_fill_time_t::H5D_FILL_TIME_IFSET;
        asked(&self.properties, usual, H5Pget_fill_time)
    }

    pub(super) fn allocation_time(&self) -> Outcome<H5D_alloc_time_t> {
        let usual = H5D_alloc_time_t::H5D_ALLOC_TIME_DEFAULT;
        asked(&self.properties, usual, H5Pget_alloc_time)
    }

    pub(super) fn layout_class(&self) -> H5D_layout_t {
        // SAFETY: the handle is a dataset creation property list.
        unsafe { H5Pget_layout(self.properties.id()) }
    }

    /// One element, of `size` bytes.
    pub(super) fn fill(&self, size: usize) -> Outcome<Vec<u8>> {
        let mut fill = vec![0; size];
        let at = fill.as_mut_ptr().cast();
        // SAFETY: there is room for one element of the stored type.
        check(unsafe { H5Pget_fill_value(self.properties.id(), self.element.id(), at) })?;
        Ok(fill)
    }

    fn external_files(&self, files: usize) -> Outcome<Vec<Vec<u8>>> {
        let named = |at: usize| {
            let mut name: Vec<u8> = vec![0; NAME_MOST];
            let to = name.as_mut_ptr().cast::<c_char>();
            let (list, at, none) = (self.properties.id(), at as c_uint, ptr::null_mut());
            // SAFETY: the list has more than `at` files; the name fits or is cut.
            check(unsafe { H5Pget_external(list, at, NAME_MOST, to, none, ptr::null_mut()) })?;
            Ok(until_nul(name))
        };
        (0..files.min(FILES_MOST)).map(named).collect()
    }
}

impl Elements for LibraryDataset {
    unsafe fn read(&self, memory: &Identifier, into: *mut c_void) -> Outcome<()> {
        let (dataset, memory) = (self.dataset.id(), memory.id());
        // SAFETY: the caller has room for all elements of this type.
        check(unsafe { H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, into) }).map(drop)
    }
}
