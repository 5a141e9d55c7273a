//! Strings in a heap that is put together by hand.

use std::sync::Arc;

use super::*;
use crate::array::Order;
use crate::array::nested::NestedBlocks;
use crate::array::uncached::read_all;
use crate::container::hdf5::chunk_table::ChunkTable;
use crate::container::hdf5::dataset::{self, OpenedDataset};
use crate::container::hdf5::index::{self, StorageLayout};
use crate::container::hdf5::sample::empty_index;
use crate::container::hdf5::strings::heap::tests::collection;
use crate::error::Error;
use crate::memory::budget::Budget;
use crate::memory::scratch::Region;
use crate::source::{BytesSource, Source};

/// Where the first collection lies.
const HEAP: u64 = 64;

fn element(length: u32, address: u64, object: u32) -> Vec<u8> {
    [
        &length.to_le_bytes()[..],
        &address.to_le_bytes(),
        &object.to_le_bytes(),
    ]
    .concat()
}

/// A contiguous dataset of these elements behind `heap`.
fn open(heap: &[u8], elements: &[Vec<u8>], dims: &[u64]) -> Result<Arc<dyn Array>> {
    open_filled(heap, elements, dims, None)
}

fn open_filled(
    heap: &[u8],
    elements: &[Vec<u8>],
    dims: &[u64],
    fill: Option<&[u8]>,
) -> Result<Arc<dyn Array>> {
    let mut file = vec![0; HEAP as usize];
    file.extend_from_slice(heap);
    let address = file.len() as u64;
    file.extend(elements.concat());
    let source: Arc<dyn Source> = Arc::new(BytesSource::new(file));
    let dataset = index::DatasetEntry {
        token: 0,
        element: StoredType::TEXT,
        dims: Some(dims.to_vec()),
        layout: StorageLayout::Contiguous {
            address: (!elements.is_empty()).then_some(address),
        },
        filters: vec![],
        fill: fill.map(<[u8]>::to_vec),
        attributes: vec![],
        stored_bytes: 16 * elements.len() as u64,
        text: None,
        details: Default::default(),
    };
    let nested = NestedBlocks::new(&Budget::by_default());
    match dataset::open(
        "names",
        &source,
        &empty_index(),
        &dataset,
        &nested,
        Arc::new(|_| Ok(ChunkTable::small(&[]))),
    )? {
        OpenedDataset::Array { array, .. } => Ok(array),
        OpenedDataset::NotShown(reason) => Err(Fault::new(reason).into()),
    }
}

#[test]
fn values_are_lines() {
    let first = collection(&[(1, b"one"), (2, b"zw\0ei")]);
    let second = HEAP + first.len() as u64;
    let heap = [first, collection(&[(1, b"three")])].concat();
    let elements = [
        element(5, second, 1),
        element(3, HEAP, 1),
        element(9, 0, 9),
        element(5, HEAP, 2),
        element(0, HEAP, 77),
        element(3, HEAP, 1),
    ];
    let array = open(&heap, &elements, &[2, 3]).unwrap();
    let info = array.info().unwrap();
    assert_eq!((info.shape, info.order), (vec![2, 3], Order::C));
    // Six elements, and four times a header and eight bytes of text.
    assert_eq!((info.dtype, info.stored_bytes), (Dtype::Text, 96 + 96));
    assert_eq!(read_all(&*array).unwrap(), b"three\none\n\nzw\0ei\n\none\n");
}

#[test]
fn what_was_never_written_shows_the_fill_value() {
    let shown = |elements: &[Vec<u8>], fill: Option<&[u8]>| {
        read_all(&*open_filled(&collection(&[(1, b"one")]), elements, &[2], fill).unwrap())
    };
    let filled: Option<&[u8]> = Some(b"N/A");
    assert_eq!(shown(&[], filled).unwrap(), b"N/A\nN/A\n");
    assert_eq!(shown(&[], Some(b"caf\xe9")).unwrap(), b"caf\xe9\ncaf\xe9\n");
    assert_eq!(shown(&[], None).unwrap(), b"\n\n");
    // What is stored as empty is empty.
    let stored = [element(3, HEAP, 1), element(0, 0, 0)];
    assert_eq!(shown(&stored, filled).unwrap(), b"one\n\n");
    // A file may say by itself what stands for the fill value, and nothing that leads nowhere.
    let odd = [element(3, HEAP, 1), element(3, u64::MAX, 0)];
    assert_eq!(shown(&odd, filled).unwrap(), b"one\nN/A\n");
    let nowhere = [element(3, HEAP, 1), element(9, u64::MAX - 1, 0)];
    assert!(shown(&nowhere, filled).is_err());
}

#[test]
fn blocks_are_cut_by_count_and_by_bytes() {
    let long = vec![b'x'; 100_000];
    let heap = collection(&[(1, &long), (2, b"s")]);
    let mut elements = vec![element(1, HEAP, 2); 5000];
    elements.extend(vec![element(100_000, HEAP, 1); 5]);
    let array = open(&heap, &elements, &[5005]).unwrap();
    let mut blocks = Vec::new();
    let bytes = array.info().unwrap().bytes;
    array.pieces(0..bytes, &mut blocks).unwrap();
    let lens: Vec<u64> = blocks.iter().map(Piece::take).collect();
    assert_eq!(lens, [8192, 904 * 2 + 200_002, 200_002, 100_001]);
    let expected = [b"s\n".repeat(5000), [&long[..], b"\n"].concat().repeat(5)].concat();
    assert_eq!(read_all(&*array).unwrap(), expected);
}

#[test]
fn no_strings_are_no_bytes() {
    let array = open(&[], &[], &[0]).unwrap();
    assert_eq!(array.info().unwrap().bytes, 0);
    assert_eq!(read_all(&*array).unwrap(), b"");
}

#[test]
fn a_string_that_is_not_in_the_heap_is_a_fault_of_its_block() {
    let heap = collection(&[(1, b"one")]);
    for bad in [
        element(3, HEAP, 2),
        element(4, HEAP, 1),
        element(3, HEAP + 8, 1),
    ] {
        let mut elements = vec![element(3, HEAP, 1); 4096];
        elements.push(bad);
        let array = open(&heap, &elements, &[4097]).unwrap();
        let mut block = vec![0; 4 * 4096];
        let mut region = Region::default();
        let scratch = region.scratch(array.scratch(BlockId(0))).unwrap();
        array.decode(BlockId(0), &mut block, scratch).unwrap();
        assert!(block.chunks(4).all(|line| line == b"one\n"));
        assert!(
            read_all(&*array)
                .unwrap_err()
                .to_string()
                .starts_with("block 1: ")
        );
    }
}

#[test]
fn claims_that_the_file_cannot_keep_are_faults() {
    let heap = collection(&[(1, b"one")]);
    let array = open(&heap, &[element(1 << 30, HEAP, 1)], &[1]).unwrap();
    assert!(array.info().unwrap_err().to_string().contains("too long"));
    // The file may well be sound: nothing need be stored of them.
    let most = open(&heap, &[], &[1 << 47]).err().unwrap();
    assert!(matches!(&most, Error::NotShown(_)), "{most}");
    assert!(most.to_string().contains("more than can be shown"));
    let array = open(&heap, &[element(3, HEAP, 1)], &[2]).unwrap();
    assert!(
        array
            .info()
            .unwrap_err()
            .to_string()
            .contains("beyond the end")
    );
}

#[test]
fn blocks_that_do_not_exist_are_faults() {
    let array = open(&collection(&[(1, b"one")]), &[element(3, HEAP, 1)], &[1]).unwrap();
    array.info().unwrap();
    for block in [1, u64::MAX] {
        assert!(
            array
                .decode(BlockId(block), &mut [0; 4], Arena::none())
                .is_err()
        );
    }
    assert!(
        array
            .decode(BlockId(0), &mut [0; 5], Arena::none())
            .is_err()
    );
}
