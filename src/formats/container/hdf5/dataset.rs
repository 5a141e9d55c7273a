//! A dataset as an array: claims checked once, bytes fetched with ranged reads, decoded in our
//! threads.
//!
//! What the index says comes from an untrusted file. Here the shape is checked and the kind of
//! storage chosen: [`unchunked`] for what lies in one piece (contiguous, compact, never written),
//! [`chunked`], [`composed`] for what is made of other datasets. A dataset that cannot be read but
//! described is an array whose bytes are a fault. Datasets of variable-length strings go to
//! [`super::strings`]. Used by `assemble`.

mod changed;
pub(super) mod chunked;
mod composed;
mod fill;
mod unchunked;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::chunk_table::ChunkTable;
use super::element::Element;
use super::index::{self, FileIndex, StorageLayout, VirtualLayout};
use super::strings::compact::compact_strings;
use super::strings::heap::Heap;
use super::strings::{self, Strings};
use crate::array::dtype::Dtype;
use crate::array::grid::product;
use crate::array::nested::NestedBlocks;
use crate::array::{Array, BlockId, Info, Order, Piece, Unfiltered};
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::Arena;
use crate::source::{Source, StoredRanges};
pub(super) use changed::ChangedStorage;
use chunked::Chunked;
use composed::{Composed, Opening};
use unchunked::Unchunked;

/// What has become of a dataset.
pub(super) enum OpenedDataset {
    /// `trouble`: it is described, but reading it, or some of it, gives this error.
    Array {
        array: Arc<dyn Array>,
        /// The array as a dataset, if its elements have one size.
        dataset: Option<Arc<DatasetArray>>,
        trouble: Option<Error>,
    },
    /// Its elements cannot be shown; why.
    NotShown(String),
}

/// Asks for the chunk table of the dataset with a token.
pub(super) type ChunkTables = Arc<dyn Fn(u64) -> Result<ChunkTable> + Send + Sync>;

/// Opens a dataset of `index`, which is `source`'s, as an array of this name. Does not read.
pub(super) fn open(
    name: &str,
    source: &Arc<dyn Source>,
    index: &FileIndex,
    dataset: &index::DatasetEntry,
    nested: &Arc<NestedBlocks>,
    tables: ChunkTables,
) -> Result<OpenedDataset> {
    if let StorageLayout::Virtual(described) = &dataset.layout
        && let Some(why) = without_end(index, described)?
    {
        return Ok(OpenedDataset::NotShown(why));
    }
    if let StorageLayout::Texts(lines, lengths) = &dataset.layout {
        let shape = dataset.dims.as_deref().unwrap_or(&[0]);
        let array = compact_strings(name, shape, lines, dataset.stored_bytes)?;
        return Ok(OpenedDataset::Array {
            array: Arc::new(array.with_lengths(lengths)),
            dataset: None,
            trouble: None,
        });
    }
    if dataset.element.is_text() {
        let opened = strings(name, (source, index, dataset), nested, tables)?;
        return Ok(match opened {
            Ok((strings, trouble)) => OpenedDataset::Array {
                array: Arc::new(strings),
                dataset: None,
                trouble,
            },
            Err(why) => OpenedDataset::NotShown(why),
        });
    }
    let element = match Element::of(&dataset.element) {
        Ok(element) => element,
        Err(reason) => return Ok(OpenedDataset::NotShown(reason)),
    };
    let element = (element, dataset.fill.as_deref());
    let array = Arc::new(DatasetArray::new(
        name, source, index, dataset, element, tables,
    )?);
    let trouble = array.trouble();
    Ok(OpenedDataset::Array {
        dataset: Some(Arc::clone(&array)),
        array,
        trouble,
    })
}

/// Opens a dataset of strings of variable length that do not lie in its object header, and says
/// what is wrong with some of them; or why they cannot be shown.
pub(super) fn strings(
    name: &str,
    (source, index, dataset): (&Arc<dyn Source>, &FileIndex, &index::DatasetEntry),
    nested: &Arc<NestedBlocks>,
    tables: ChunkTables,
) -> Result<std::result::Result<(Strings, Option<Error>), String>> {
    let heap = Heap::new(Arc::clone(source), index, nested.budget())?;
    let element = strings::element(&heap)?;
    let fill = strings::filling(heap.element_size(), dataset.fill.as_deref());
    let element = (element, fill.as_deref());
    let elements = DatasetArray::new(name, source, index, dataset, element, tables)?;
    let trouble = elements.trouble();
    // What is not read cannot be counted, so there is no size to describe.
    if let Some(Error::NotShown(not)) = &trouble {
        return Ok(Err(not.why.clone()));
    }
    let fill = dataset.fill.clone().unwrap_or_default();
    let strings = Strings::new(name, heap, fill, nested.array(Arc::new(elements)))?;
    Ok(Ok((strings, trouble)))
}

/// Why it is not known where a virtual dataset ends, if it is not.
fn without_end(index: &FileIndex, described: &VirtualLayout) -> Result<Option<String>> {
    if described.open_ended {
        let over = file_names(&described.files);
        return Ok(Some(format!(
            "a virtual dataset over parts of others (in {over}), never followed: where it ends is not known"
        )));
    }
    let why = composed::no_known_end(index, described)?;
    Ok(why.map(|why| {
        format!("a virtual dataset over parts of others (in this file), not put together: {why}")
    }))
}

/// About what is known of a dataset beside it where it can be written.
const WRITTEN: u64 = 768;

/// A dataset whose elements have one size.
pub(super) struct DatasetArray {
    name: String,
    dtype: Dtype,
    /// Further dimensions of the element included.
    shape: Vec<u64>,
    /// As shown.
    bytes: u64,
    stored_bytes: u64,
    storage: Storage,
}

enum Storage {
    Unchunked(Unchunked),
    Chunked(Box<Chunked>),
    Composed(Box<Composed>),
    Unreadable(Error),
}

impl DatasetArray {
    /// `fill`: the element that what was never written is; none: zeros.
    fn new(
        name: &str,
        source: &Arc<dyn Source>,
        index: &FileIndex,
        dataset: &index::DatasetEntry,
        (element, fill): (Element, Option<&[u8]>),
        tables: ChunkTables,
    ) -> Result<DatasetArray> {
        let dims = dataset.dims.clone().unwrap_or_else(|| vec![0]);
        let bytes = size(&dims, element.shown)?;
        size(&dims, element.stored)?;
        let dtype = element.dtype.clone();
        let shape = [&dims[..], &element.dims].concat();
        let storage = match bytes {
            0 => Storage::Unchunked(Unchunked::empty(&dataset.layout)),
            _ => storage(source, index, dataset, &dims, (element, fill), tables)?,
        };
        Ok(DatasetArray {
            name: name.to_owned(),
            dtype,
            shape,
            bytes,
            stored_bytes: dataset.stored_bytes,
            storage,
        })
    }

    /// Its chunks, if it has any.
    pub(super) fn chunked(&self) -> Option<&Chunked> {
        match &self.storage {
            Storage::Chunked(chunked) => Some(chunked),
            Storage::Unchunked(_) | Storage::Composed(_) | Storage::Unreadable(_) => None,
        }
    }

    /// What it stores, if that lies in its object header.
    pub(super) fn compact(&self) -> Option<&[u8]> {
        match &self.storage {
            Storage::Unchunked(whole) => whole.compact(),
            Storage::Chunked(_) | Storage::Composed(_) | Storage::Unreadable(_) => None,
        }
    }

    /// Why its bytes cannot be read, or some of them.
    fn trouble(&self) -> Option<Error> {
        match &self.storage {
            Storage::Unreadable(why) => Some(why.clone()),
            Storage::Chunked(chunked) => chunked.trouble(),
            Storage::Composed(composed) => composed.trouble(),
            Storage::Unchunked(_) => None,
        }
    }

    /// Visits the pieces of a range, in order; it lies within the array and is not empty.
    fn each_piece(
        &self,
        range: Range<u64>,
        visit: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        match &self.storage {
            Storage::Unchunked(whole) => whole.each_piece(self.bytes, range, visit),
            Storage::Chunked(chunked) => chunked.each_piece(range, visit),
            Storage::Composed(composed) => each_block(self.bytes, composed.block(), range, visit),
            Storage::Unreadable(why) => Err(why.clone()),
        }
    }
}

/// Visits the pieces of an array of `bytes` in blocks of `block_len`, the last of which may be
/// shorter.
fn each_block(
    bytes: u64,
    block_len: u64,
    range: Range<u64>,
    visit: &mut dyn FnMut(Piece) -> Result<()>,
) -> Result<()> {
    let mut at = range.start;
    while at < range.end.min(bytes) {
        let (id, skip) = (BlockId(at / block_len), at % block_len);
        let block_len = block_len.min(bytes - (at - skip));
        let take = (block_len - skip).min(range.end - at);
        visit(Piece::Block {
            id,
            block_len,
            skip,
            take,
        })?;
        at += take;
    }
    Ok(())
}

fn direct_of(range: Range<u64>) -> Piece {
    let (at, take) = (range.start, range.end - range.start);
    Piece::Direct { at, take }
}

/// Bytes of an array: no more than a file that shows it can have. HDF5's own datasets may have
/// more, of which little is stored.
fn size(dims: &[u64], element: u64) -> Result<u64> {
    let bytes = product(dims, element).filter(|n| *n <= i64::MAX as u64);
    bytes.ok_or_else(|| {
        NotShown::new(format!(
            "{dims:?} elements of {element} bytes are more than any file can have ({} bytes)",
            i64::MAX
        ))
        .into()
    })
}

/// How the bytes of a dataset that has some are read.
fn storage(
    source: &Arc<dyn Source>,
    index: &FileIndex,
    dataset: &index::DatasetEntry,
    dims: &[u64],
    (element, fill): (Element, Option<&[u8]>),
    tables: ChunkTables,
) -> Result<Storage> {
    let unreadable = match &dataset.layout {
        StorageLayout::External(names) => {
            format!(
                "raw data in other files ({}); never opened",
                file_names(names)
            )
        }
        StorageLayout::Virtual(described) => {
            let opening = Opening {
                source,
                index,
                tables: &tables,
                element: &element,
                fill,
            };
            let bytes = size(dims, element.shown)?;
            return virtual_storage(
                Composed::new(&opening, dataset, described, dims, bytes),
                described,
            );
        }
        StorageLayout::Unknown(reason) => format!("cannot be read: {reason}"),
        StorageLayout::Texts(..) => {
            return Err(Error::Bug("strings were taken for other elements".into()));
        }
        StorageLayout::Chunked { .. } => {
            let fill = fill::of_stored(fill, &element)?;
            let chunked = Chunked::new(source, dataset, dims, element, fill, tables)?;
            return Ok(Storage::Chunked(Box::new(chunked)));
        }
        StorageLayout::Compact(_) | StorageLayout::Contiguous { .. } => {
            let fill = fill::of_stored(fill, &element)?;
            let stored = size(dims, element.stored)?;
            return Ok(Storage::Unchunked(Unchunked::new(
                source,
                dataset,
                stored,
                element.cast,
                fill,
            )?));
        }
    };
    Ok(Storage::Unreadable(NotShown::new(unreadable).into()))
}

/// Of a virtual dataset, put together from parts of others.
fn virtual_storage(parts: Result<Composed>, described: &VirtualLayout) -> Result<Storage> {
    let named = |fault: Fault| Fault {
        what: format!("a virtual dataset: {}", fault.what),
        ..fault
    };
    match parts {
        Ok(parts) => Ok(Storage::Composed(Box::new(parts))),
        Err(Error::NotShown(why)) => {
            let over = file_names(&described.files);
            let why = format!("a virtual dataset over parts of others (in {over}), {why}");
            Ok(Storage::Unreadable(NotShown::new(why).into()))
        }
        Err(fault @ Error::Fault(_)) => Ok(Storage::Unreadable(fault.map_fault(named))),
        Err(other) => Err(other),
    }
}

/// For messages. A file names itself by a dot.
fn file_names(names: &[Vec<u8>]) -> String {
    let shown = |name: &Vec<u8>| match &name[..] {
        b"." => "this file".into(),
        name => String::from_utf8_lossy(name).into_owned(),
    };
    names.iter().map(shown).collect::<Vec<_>>().join(", ")
}

impl Array for DatasetArray {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let (blocks, codec) = match &self.storage {
            Storage::Unchunked(whole) => (whole.blocks(self.bytes), whole.codec().into()),
            Storage::Chunked(chunked) => (chunked.chunks(), chunked.codec()),
            Storage::Composed(composed) => (composed.blocks(), Cow::Borrowed("virtual")),
            Storage::Unreadable(_) => (0, Cow::Borrowed("none")),
        };
        Ok(Info {
            dtype: self.dtype.clone(),
            shape: self.shape.clone(),
            order: Order::C,
            bytes: self.bytes,
            stored_bytes: self.stored_bytes,
            blocks,
            codec,
        })
    }

    fn weight(&self) -> u64 {
        let storage = match &self.storage {
            Storage::Unchunked(whole) => whole.weight(),
            Storage::Chunked(chunked) => chunked.weight(),
            Storage::Composed(composed) => composed.weight(),
            Storage::Unreadable(_) => 256,
        };
        // Members of a compound are listed for the conversion as well.
        let element = 4 * self.dtype.name().len();
        storage + WRITTEN + (size_of::<DatasetArray>() + self.name.len() + element) as u64
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let range = range.start..range.end.min(self.bytes);
        if range.start >= range.end {
            return Ok(());
        }
        self.each_piece(range, &mut |piece| {
            out.push(piece);
            Ok(())
        })
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        match &self.storage {
            Storage::Chunked(chunked) => chunked.has_table(),
            Storage::Unchunked(_) | Storage::Composed(_) | Storage::Unreadable(_) => true,
        }
    }

    fn stored(&self, piece: &Piece, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        match &self.storage {
            Storage::Unchunked(whole) => whole.name(piece, needed),
            Storage::Chunked(chunked) => chunked.name(piece, needed)?,
            Storage::Composed(composed) => return composed.stored(piece, round, needed),
            Storage::Unreadable(_) => {}
        }
        Ok(false)
    }

    fn scratch(&self, block: BlockId) -> u64 {
        match &self.storage {
            Storage::Unchunked(whole) => whole.scratch(),
            Storage::Chunked(chunked) => chunked.scratch(block.0),
            Storage::Composed(composed) => composed.scratch(block),
            Storage::Unreadable(_) => 0,
        }
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        match &self.storage {
            Storage::Unchunked(whole) => whole.decode(block.0, out, scratch),
            Storage::Chunked(chunked) => chunked.decode(block.0, out, scratch),
            Storage::Composed(composed) => composed.decode(block, out, scratch),
            Storage::Unreadable(why) => Err(why.clone()),
        }
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        match &self.storage {
            Storage::Unchunked(whole) => whole.read(at, out),
            Storage::Chunked(chunked) => chunked.read_direct(at, out),
            Storage::Composed(_) => Err(Fault::new("a virtual dataset is put together").into()),
            Storage::Unreadable(why) => Err(why.clone()),
        }
    }

    fn unfiltered(&self, are_counted: bool) -> Result<Unfiltered> {
        match &self.storage {
            Storage::Chunked(chunked) => chunked.unfiltered(are_counted),
            _ => Ok(Unfiltered::default()),
        }
    }

    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        match &self.storage {
            Storage::Unchunked(whole) => whole.survey(self.bytes, visit),
            Storage::Chunked(chunked) => chunked.survey(visit),
            // Nothing is stored in it; its parts are surveyed where they are.
            Storage::Composed(_) => Ok(()),
            Storage::Unreadable(why) => Err(why.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
