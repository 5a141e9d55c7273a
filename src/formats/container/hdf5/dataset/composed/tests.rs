//! Virtual datasets over datasets that are put together by hand.

use super::*;
use crate::array::nested::NestedBlocks;
use crate::array::uncached::{read, read_all};
use crate::container::hdf5::chunk_table::ChunkTable;
use crate::container::hdf5::index::{self as ix, GroupEntry, LinkEntry, LinkTarget, Stripe};
use crate::container::hdf5::sample::empty_index;
use crate::container::stored::StoredType;
use crate::memory::budget::Budget;
use crate::source::BytesSource;

fn dataset(token: u64, dims: &[u64], layout: StorageLayout) -> ix::DatasetEntry {
    ix::DatasetEntry {
        token,
        element: StoredType::opaque(2),
        dims: Some(dims.to_vec()),
        layout,
        filters: vec![],
        fill: Some(b"--".to_vec()),
        attributes: vec![],
        stored_bytes: 1,
        text: None,
        details: Default::default(),
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
        soft: None,
        age: None,
    };
    open_among((0..over.len() as u32).map(link).collect(), over, parts)
}

/// Opens a virtual dataset of a file with these links in the root.
fn open_among(
    links: Vec<LinkEntry>,
    over: &[ix::DatasetEntry],
    parts: Vec<ix::VirtualPart>,
) -> Result<Arc<dyn Array>> {
    let mut index = empty_index();
    index.datasets = over.to_vec();
    index.groups.push(GroupEntry {
        token: 0,
        parent: 0,
        name: vec![],
        attributes: vec![],
        links,
    });
    let described = VirtualLayout {
        files: vec![b".".to_vec()],
        parts: Ok(parts),
        open_ended: false,
        ends: vec![],
    };
    let dataset = dataset(99, &[3, 4], StorageLayout::Virtual(described));
    let source: Arc<dyn Source> = Arc::new(BytesSource::new((b'a'..=b'z').collect()));
    let tables: ChunkTables = Arc::new(|_| Ok(ChunkTable::small(&[])));
    let nested = NestedBlocks::new(&Budget::by_default());
    match super::super::open("v", &source, &index, &dataset, &nested, tables)? {
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
    other.element = StoredType::opaque(3);
    assert!(refused(other, whole()).contains("another type"));
    let nested = StorageLayout::Virtual(VirtualLayout {
        files: vec![],
        parts: Ok(vec![]),
        open_ended: false,
        ends: vec![],
    });
    assert!(refused(dataset(1, &[4], nested), whole()).contains("virtual itself"));
}

#[test]
fn only_what_leads_nowhere_is_fill_values() {
    let row = [[0, 1, 1, 1], [0, 1, 1, 4]];
    let reason = || String::from("strange");
    let external = || LinkTarget::External {
        file: b"other.h5".to_vec(),
        path: b"/d".to_vec(),
    };
    let through = |target: LinkTarget, path: &str| {
        let link = LinkEntry {
            name: b"s".to_vec(),
            target,
            soft: None,
            age: None,
        };
        open_among(vec![link], &[], vec![part(path, &row, None)])
    };
    for path in ["s", "s/d"] {
        for target in [external(), LinkTarget::NotFollowed { reason: reason() }] {
            let opened = through(target, path).err();
            assert!(
                matches!(&opened, Some(Error::NotShown(not)) if not.why.contains("another file")),
                "{opened:?}"
            );
        }
        let unknown = through(LinkTarget::Unknown { reason: reason() }, path).err();
        assert!(matches!(unknown, Some(Error::Fault(_))), "{unknown:?}");
        let path_of = LinkTarget::Dangling {
            path: b"/no".to_vec(),
        };
        assert_eq!(
            read_all(&*through(path_of, path).unwrap()).unwrap(),
            [b'-'; 24]
        );
    }
}

#[test]
fn a_virtual_part_of_no_elements_is_not_left_to_fill_values() {
    let nested = StorageLayout::Virtual(VirtualLayout {
        files: vec![b"other.h5".to_vec()],
        parts: Err("for a reason".into()),
        open_ended: true,
        ends: vec![],
    });
    let row = [[0, 1, 1, 1], [0, 1, 1, 4]];
    let opened = open(&[dataset(1, &[0, 4], nested)], vec![part("d0", &row, None)]);
    let why = opened.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(why.contains("virtual itself"), "{why}");
}

#[test]
fn where_a_virtual_dataset_ends_is_known_if_its_last_part_is() {
    let mut index = empty_index();
    let link = |(name, target): (&str, LinkTarget)| LinkEntry {
        name: name.into(),
        target,
        soft: None,
        age: None,
    };
    let away = LinkTarget::External {
        file: b"other.h5".to_vec(),
        path: b"x".to_vec(),
    };
    let [reason, damage] = ["class 99", "bad header"].map(String::from);
    let links = [
        ("away", away),
        ("d", LinkTarget::Dataset(0)),
        ("foreign", LinkTarget::NotFollowed { reason }),
        ("lost", LinkTarget::Unknown { reason: damage }),
        ("v", LinkTarget::Dataset(1)),
    ];
    index.groups.push(GroupEntry {
        token: 0,
        parent: 0,
        name: vec![],
        attributes: vec![],
        links: links.into_iter().map(link).collect(),
    });
    let described = |end: &str| VirtualLayout {
        files: vec![b".".to_vec()],
        parts: Ok(vec![]),
        open_ended: false,
        ends: vec![b"d".to_vec(), end.into()],
    };
    let inner = StorageLayout::Virtual(described("d"));
    index.datasets = vec![contiguous(1, &[3], 0), dataset(2, &[3], inner)];
    let known = |end: &str| no_known_end(&index, &described(end));
    for end in ["d", "/d", "nothing", "d/x"] {
        assert_eq!(known(end).unwrap(), None, "{end}");
    }
    let lost = |why: &str| Some(format!("{why}, so where it ends is not known"));
    assert_eq!(known("away").unwrap(), lost("a part leads to another file"));
    assert_eq!(known("v").unwrap(), lost(VIRTUAL_ITSELF));
    let foreign = "a part leads to another file or cannot be followed: class 99";
    assert_eq!(known("foreign").unwrap(), lost(foreign));
    assert!(matches!(known("lost"), Err(Error::Fault(_))));
}
