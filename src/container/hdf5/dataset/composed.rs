//! Virtual datasets over datasets of the same file: put together when they are read.
//!
//! A block is so many elements in a row. Each part that lies in it says which elements of its dataset
//! belong there; they are read block by block of that dataset, past the cache, whose key is the virtual
//! array's. What no part covers is fill values. Composed of other files are never followed. Used by
//! [`super::DatasetArray`].

mod hyperslab;

use std::collections::HashMap;
use std::sync::Arc;

use super::fill::Fill;
use super::{ChunkTables, DatasetArray};
use crate::array::uncached::{DecodeMemory, PlacedRange, gather};
use crate::array::{BlockId, Piece, even_pieces};
use crate::container::hdf5::element::Element;
use crate::container::hdf5::index::{self, FileIndex, StorageLayout, VirtualLayout};
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::Scratch;
use crate::source::Source;
use hyperslab::{Hyperslab, each_run};

/// Bytes of a block, unless an element is larger.
const BLOCK: u64 = 256 << 10;

/// Memory that an element of a block may cost beside it, if it lies alone.
const PER_ELEMENT: u64 = 96;

pub(super) struct Composed {
    parts: Vec<Mapping>,
    fill: Fill,
    /// Size of an element and of a block, as shown.
    element: u64,
    block: u64,
    bytes: u64,
    scratch: u64,
}

struct Mapping {
    dataset: Arc<DatasetArray>,
    here: Hyperslab,
    there: Hyperslab,
}

/// What is needed to open the datasets that the parts belong to.
pub(super) struct Opening<'a> {
    pub(super) source: &'a Arc<dyn Source>,
    pub(super) index: &'a FileIndex,
    pub(super) tables: &'a ChunkTables,
    pub(super) element: &'a Element,
}

impl Composed {
    /// `bytes`: of the whole array, as shown, with these dimensions.
    pub(super) fn new(
        opening: &Opening<'_>,
        dataset: &index::DatasetEntry,
        described: &VirtualLayout,
        dims: &[u64],
        bytes: u64,
    ) -> Result<Composed> {
        let described = described.parts.as_ref();
        let described = described.map_err(|why| not_put_together(why))?;
        let mut opened = HashMap::new();
        let mut parts = Vec::with_capacity(described.len());
        for part in described {
            // As the library has it: a dataset that is not there leaves its place to fill values.
            let Some(stored) = opening.index.find(&part.dataset) else {
                continue;
            };
            let there = stored.dims.as_deref().unwrap_or(&[0]);
            if there.contains(&0) {
                continue;
            }
            let mut here = Hyperslab::new(part.here.as_deref(), dims)?;
            let mut there = Hyperslab::new(part.there.as_deref(), there)?;
            pair(&mut here, &mut there)?;
            let dataset = match opened.get(&stored.token) {
                Some(opened) => Arc::clone(opened),
                None => opening.open(dataset, stored)?,
            };
            opened.insert(stored.token, Arc::clone(&dataset));
            parts.push(Mapping {
                dataset,
                here,
                there,
            });
        }
        let element = opening.element.shown;
        let block = (BLOCK / element).max(1) * element;
        let largest = opened.values().map(|dataset| dataset.largest()).max();
        Ok(Composed {
            parts,
            fill: Fill::new(dataset.fill.as_deref(), opening.element)?,
            element,
            block,
            bytes,
            scratch: largest
                .unwrap_or(0)
                .saturating_add(block / element * PER_ELEMENT),
        })
    }

    pub(super) fn blocks(&self) -> u64 {
        self.bytes.div_ceil(self.block)
    }

    pub(super) fn pieces(&self, range: std::ops::Range<u64>, out: &mut Vec<Piece>) {
        even_pieces(self.bytes, self.block, range, out);
    }

    pub(super) fn scratch(&self) -> u64 {
        self.scratch
    }

    pub(super) fn decode(
        &self,
        block: BlockId,
        out: &mut [u8],
        mut scratch: Scratch<'_>,
    ) -> Result<()> {
        let start = block.0.checked_mul(self.block / self.element);
        let Some(start) = start.filter(|_| block.0 < self.blocks()) else {
            return Err(Fault::new("there is no such block").block(block.0).into());
        };
        self.fill.put(0, out);
        let places = start..start + out.len() as u64 / self.element;
        for part in &self.parts {
            part.copy(&places, self.element, out, scratch.lend())
                .map_err(|e| e.map_fault(|fault| fault.block(block.0)))?;
        }
        Ok(())
    }
}

impl Mapping {
    /// Copies what lies at these places to `out`, which begins with the first.
    fn copy(
        &self,
        places: &std::ops::Range<u64>,
        element: u64,
        out: &mut [u8],
        scratch: Scratch<'_>,
    ) -> Result<()> {
        let span = self.here.span();
        if span.start >= places.end || span.end <= places.start {
            return Ok(());
        }
        let mut copies = Vec::new();
        each_run(&self.here, &self.there, places, &mut |here, there, len| {
            copies.push(PlacedRange {
                from: there * element..(there + len) * element,
                to: ((here - places.start) * element) as usize,
            });
        });
        gather(&*self.dataset, &copies, out, DecodeMemory::Lent(scratch))
    }
}

impl Opening<'_> {
    /// The dataset behind a part of `over`.
    fn open(
        &self,
        over: &index::DatasetEntry,
        stored: &index::DatasetEntry,
    ) -> Result<Arc<DatasetArray>> {
        if matches!(stored.layout, StorageLayout::Virtual(_)) {
            return Err(not_put_together("a part is virtual itself"));
        }
        if stored.element != over.element {
            return Err(not_put_together("a part has another type"));
        }
        let (element, tables) = (self.element.clone(), Arc::clone(self.tables));
        let dataset = DatasetArray::new("", self.source, self.index, stored, element, tables)?;
        Ok(Arc::new(dataset))
    }
}

fn not_put_together(why: &str) -> Error {
    NotShown::new(format!("not put together: {why}")).into()
}

/// Makes both sides equally long: one without end ends with the other.
fn pair(here: &mut Hyperslab, there: &mut Hyperslab) -> Result<()> {
    let len = here.len().min(there.len());
    for side in [&mut *here, &mut *there] {
        if side.len() != len && !side.end_after(len) {
            let fault = Fault::new("a part of a virtual dataset has another size than its place");
            return Err(fault.expected(len).found(side.len()).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::array::nested::NestedBlocks;
    use crate::array::uncached::{read, read_all};
    use crate::container::hdf5::index::{
        self as ix, Datatype, GroupEntry, LinkEntry, LinkTarget, Stripe,
    };
    use crate::container::hdf5::sample::{Bytes, empty_index};
    use crate::memory::budget::Budget;

    fn dataset(token: u64, dims: &[u64], layout: StorageLayout) -> ix::DatasetEntry {
        ix::DatasetEntry {
            token,
            element: Datatype::Opaque { size: 2 },
            dims: Some(dims.to_vec()),
            layout,
            filters: vec![],
            fill: Some(b"--".to_vec()),
            attributes: vec![],
            stored_bytes: 1,
            text: None,
        }
    }

    fn contiguous(token: u64, dims: &[u64], address: u64) -> ix::DatasetEntry {
        let address = Some(address);
        dataset(token, dims, StorageLayout::Contiguous { address })
    }

    fn part(name: &str, here: &[[u64; 4]], there: Option<&[[u64; 4]]>) -> ix::VirtualPart {
        let stripes = |of: &[[u64; 4]]| {
            let stripe = |[start, stride, count, block]: &[u64; 4]| Stripe {
                start: *start,
                stride: *stride,
                count: *count,
                block: *block,
            };
            of.iter().map(stripe).collect()
        };
        ix::VirtualPart {
            dataset: name.into(),
            here: Some(stripes(here)),
            there: there.map(stripes),
        }
    }

    /// A virtual dataset of 3 rows and 4 columns over `/d0`, `/d1` and so on.
    fn open(over: &[ix::DatasetEntry], parts: Vec<ix::VirtualPart>) -> Result<Arc<dyn Array>> {
        let link = |number| LinkEntry {
            name: format!("d{number}").into_bytes(),
            target: LinkTarget::Dataset(number),
        };
        let mut index = empty_index();
        index.datasets = over.to_vec();
        index.groups.push(GroupEntry {
            parent: 0,
            name: vec![],
            attributes: vec![],
            links: (0..over.len() as u32).map(link).collect(),
        });
        let described = VirtualLayout {
            files: vec![b".".to_vec()],
            parts: Ok(parts),
            open_ended: false,
        };
        let dataset = dataset(99, &[3, 4], StorageLayout::Virtual(described));
        let source: Arc<dyn Source> = Arc::new(Bytes((b'a'..=b'z').collect()));
        let tables: ChunkTables = Arc::new(|_| Ok(vec![]));
        let nested = NestedBlocks::new(&Budget::by_default());
        match super::super::open_with("v", &source, &index, &dataset, &nested, tables)? {
            super::super::OpenedDataset::Array {
                trouble: Some(why), ..
            } => Err(why),
            super::super::OpenedDataset::Array { array, .. } => Ok(array),
            super::super::OpenedDataset::NotShown(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn parts_lie_over_each_other_on_fill_values() {
        let over = [contiguous(1, &[4], 0), contiguous(2, &[2, 2], 10)];
        let parts = vec![
            part("d0", &[[0, 1, 1, 1], [0, 1, 1, 4]], None),
            part("/./d1", &[[1, 1, 2, 1], [0, 2, 2, 1]], None),
            part("d0", &[[0, 1, 1, 1], [1, 1, 1, 1]], Some(&[[3, 1, 1, 1]])),
            part("gone", &[[2, 1, 1, 1], [0, 1, 1, 4]], None),
        ];
        let array = open(&over, parts).unwrap();
        let expected = b"abghefghkl--mn--op--qr--";
        assert_eq!(read_all(&*array).unwrap(), expected);
        assert_eq!(read(&*array, 3..17).unwrap(), &expected[3..17]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let row = [[0, 1, 1, 1], [0, 1, 1, 4]];
        let refused = |over: ix::DatasetEntry, parts| {
            let opened = open(&[over], parts);
            opened.err().map(|e| e.to_string()).unwrap_or_default()
        };
        let whole = || vec![part("d0", &row, None)];
        assert!(refused(contiguous(1, &[5], 0), whole()).contains("another size"));
        let beyond = vec![part("d0", &[[3, 1, 1, 1], [0, 1, 1, 4]], None)];
        assert!(refused(contiguous(1, &[4], 0), beyond).contains("outside"));
        let mut other = contiguous(1, &[4], 0);
        other.element = Datatype::Opaque { size: 3 };
        assert!(refused(other, whole()).contains("another type"));
        let nested = StorageLayout::Virtual(VirtualLayout {
            files: vec![],
            parts: Ok(vec![]),
            open_ended: false,
        });
        assert!(refused(dataset(1, &[4], nested), whole()).contains("virtual itself"));
    }
}
