//! Virtual datasets over datasets that are put together by hand.

use super::*;
use crate::array::nested::NestedBlocks;
use crate::array::uncached::{read, read_all};
use crate::container::hdf5::chunk_table::ChunkTable;
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
    let tables: ChunkTables = Arc::new(|_| Ok(ChunkTable::small(&[])));
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
