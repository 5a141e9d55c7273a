//! Datasets put together by hand: every layout, and what a hostile index may claim.

mod filters;

use super::*;
use crate::array::uncached::{read, read_all};
use crate::container::hdf5::chunk_table::ChunkTable;
use crate::container::hdf5::index::{ChunkEntry, FilterEntry, VirtualLayout};
use crate::container::hdf5::sample::empty_index;
use crate::container::stored::StoredType;
use crate::memory::budget::Budget;
use crate::source::BytesSource;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SHUFFLE: u32 = 2;
pub(super) const GZIP: u32 = 1;

fn int16(order: &str) -> StoredType {
    StoredType::called(&format!("H5T_STD_I16{order}"))
}

pub(super) fn big_endian() -> StoredType {
    int16("BE")
}

fn dataset(dims: &[u64], layout: StorageLayout) -> index::DatasetEntry {
    index::DatasetEntry {
        token: 77,
        element: int16("LE"),
        dims: Some(dims.to_vec()),
        layout,
        filters: vec![],
        fill: None,
        attributes: vec![],
        stored_bytes: 1,
        text: None,
        details: Default::default(),
    }
}

pub(super) fn chunked(
    dims: &[u64],
    chunk: &[u64],
    table: Option<Vec<ChunkEntry>>,
) -> index::DatasetEntry {
    let layout = StorageLayout::Chunked {
        chunk: chunk.to_vec(),
        first_most: 0,
        early: false,
        plain_edges: false,
        applied: u32::MAX,
        table,
    };
    dataset(dims, layout)
}

pub(super) fn filter(id: u32) -> FilterEntry {
    let values = vec![2];
    FilterEntry { id, values }
}

pub(super) fn chunk(number: u64, address: u64, size: u64) -> ChunkEntry {
    ChunkEntry {
        number,
        address,
        size,
        mask: 0,
    }
}

fn opened(
    file: &[u8],
    dataset: &index::DatasetEntry,
    tables: ChunkTables,
) -> Result<OpenedDataset> {
    let source: Arc<dyn Source> = Arc::new(BytesSource::new(file.to_vec()));
    let nested = NestedBlocks::new(&Budget::by_default());
    super::open("x", &source, &empty_index(), dataset, &nested, tables)
}

/// Opens a dataset whose table is in the index.
pub(super) fn open(file: &[u8], dataset: &index::DatasetEntry) -> Arc<dyn Array> {
    match opened(file, dataset, Arc::new(|_| panic!("the table is there"))) {
        Ok(OpenedDataset::Array {
            array,
            trouble: None,
            ..
        }) => array,
        Ok(OpenedDataset::Array { trouble, .. }) => panic!("{trouble:?}"),
        Ok(OpenedDataset::NotShown(reason)) => panic!("{reason}"),
        Err(error) => panic!("{error}"),
    }
}

fn refused(dataset: &index::DatasetEntry) -> String {
    let opened = opened(&[], dataset, Arc::new(|_| Ok(ChunkTable::small(&[]))));
    opened.err().map(|error| error.to_string()).unwrap()
}

pub(super) fn fault(array: &dyn Array, range: Range<u64>) -> String {
    read(array, range).unwrap_err().to_string()
}

/// What a survey visits: blocks, and direct bytes.
pub(super) fn survey(array: &dyn Array) -> (Vec<u64>, Vec<(u64, u64)>) {
    let (mut blocks, mut direct) = (Vec::new(), Vec::new());
    let surveyed = array.survey(&mut |piece| match piece {
        Piece::Block {
            id,
            block_len,
            skip,
            take,
        } => {
            assert_eq!((skip, take), (0, block_len));
            blocks.push(id.0);
        }
        Piece::Direct { at, take } => direct.push((at, take)),
    });
    surveyed.unwrap();
    (blocks, direct)
}

pub(super) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut stored = vec![0; compressor.zlib_compress_bound(plain.len())];
    let len = compressor.zlib_compress(plain, &mut stored).unwrap();
    stored.truncate(len);
    stored
}

fn shuffled(plain: &[u8]) -> Vec<u8> {
    let half = |skip| plain.iter().skip(skip).step_by(2);
    half(0).chain(half(1)).copied().collect()
}

#[test]
fn contiguous_bytes_are_read_in_place() {
    let file: Vec<u8> = (0..60).collect();
    let at = |address| StorageLayout::Contiguous { address };
    let array = open(&file, &dataset(&[5, 4], at(Some(20))));
    assert_eq!(read_all(&*array).unwrap(), &file[20..60]);
    assert_eq!(read(&*array, 3..7).unwrap(), &file[23..27]);
    assert_eq!(survey(&*array), (vec![], vec![(0, 40)]));
    let truncated = open(&file[..50], &dataset(&[5, 4], at(Some(20))));
    assert_eq!(read(&*truncated, 0..30).unwrap(), &file[20..50]);
    let beyond = "bytes 49..51: the stored bytes lie beyond the end of the file";
    assert!(fault(&*truncated, 29..31).starts_with(beyond));
    let far = open(&file, &dataset(&[5], at(Some(u64::MAX - 2))));
    assert!(fault(&*far, 0..10).contains("beyond the end"));
}

#[test]
fn what_was_never_written_is_the_fill_value() {
    let mut never = dataset(&[3], StorageLayout::Contiguous { address: None });
    assert_eq!(read_all(&*open(&[], &never)).unwrap(), [0; 6]);
    never.element = int16("BE");
    never.fill = Some(vec![1, 2]);
    let array = open(&[], &never);
    assert_eq!(read(&*array, 1..6).unwrap(), [1, 2, 1, 2, 1]);
    assert_eq!(survey(&*array), (vec![], vec![]));
    // As libhdf5 has it behind a user block.
    never.layout = StorageLayout::Contiguous { address: Some(511) };
    never.stored_bytes = 0;
    assert_eq!(read_all(&*open(&[], &never)).unwrap(), [2, 1, 2, 1, 2, 1]);
    never.fill = Some(vec![1]);
    assert!(refused(&never).contains("fill value"));
}

#[test]
fn compact_bytes_are_in_the_index() {
    let mut compact = dataset(&[2], StorageLayout::Compact(vec![1, 2, 3, 4]));
    compact.element = int16("BE");
    let array = open(&[], &compact);
    assert_eq!(array.info().unwrap().codec, "compact");
    assert_eq!(read_all(&*array).unwrap(), [2, 1, 4, 3]);
    assert!(refused(&dataset(&[3], StorageLayout::Compact(vec![0; 5]))).contains("too short"));
}

#[test]
fn datasets_without_elements_have_no_bytes() {
    let mut null = dataset(&[], StorageLayout::Compact(vec![]));
    null.dims = None;
    assert_eq!(open(&[], &null).info().unwrap().shape, [0]);
    let empty = open(&[], &chunked(&[u64::MAX, 0, u64::MAX], &[0], None));
    assert_eq!(empty.info().unwrap().bytes, 0);
    assert!(read_all(&*empty).unwrap().is_empty());
    assert!(empty.read_direct(0, &mut [0]).is_err());
}

#[test]
fn a_scalar_has_no_dimensions() {
    let array = open(
        &[5, 6],
        &dataset(&[], StorageLayout::Contiguous { address: Some(0) }),
    );
    assert_eq!(array.info().unwrap().shape, [0; 0]);
    assert_eq!(read_all(&*array).unwrap(), [5, 6]);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let none = || StorageLayout::Contiguous { address: None };
    assert!(refused(&dataset(&[u64::MAX, 2], none())).contains("more than any file"));
    assert!(refused(&dataset(&[1 << 62], none())).contains("more than any file"));
    for bad in [&[0, 1][..], &[4], &[1 << 31, 2]] {
        assert!(refused(&chunked(&[10, 10], bad, None)).contains("chunks of"));
    }
}

#[test]
fn unreadable_layouts_are_described() {
    let external = StorageLayout::External(vec![b"a.raw".to_vec(), b"b.raw".to_vec()]);
    let over = |file: &[u8]| {
        StorageLayout::Virtual(VirtualLayout {
            files: vec![file.to_vec()],
            parts: Err("for a reason".into()),
            open_ended: false,
            ends: vec![],
        })
    };
    let (other, here) = (over(b"c.h5"), over(b"."));
    let unknown = StorageLayout::Unknown("strange".into());
    for (layout, what) in [
        (external, "(a.raw, b.raw)"),
        (other, "(in c.h5)"),
        (here, "(in this file), not put together: for a reason"),
        (unknown, "strange"),
    ] {
        let opened = opened(
            &[],
            &dataset(&[3], layout),
            Arc::new(|_| Ok(ChunkTable::small(&[]))),
        );
        let Ok(OpenedDataset::Array {
            array,
            trouble: Some(why),
            ..
        }) = opened
        else {
            panic!("no trouble");
        };
        assert!(
            matches!(&why, Error::NotShown(not) if not.why.contains(what)),
            "{why}"
        );
        assert_eq!(array.info().unwrap().shape, [3]);
        assert!(fault(&*array, 0..1).contains(what));
        assert!(array.survey(&mut |_| {}).is_err());
    }
}

#[test]
fn filtered_chunks_are_decoded_and_missing_ones_made_up() {
    // 3 by 4 in chunks of 2 by 3: the first and the last are stored, the last sticks out.
    let first: Vec<u8> = (0..12).collect();
    let last: Vec<u8> = (20..32).collect();
    let (a, b) = (gzip(&shuffled(&first)), shuffled(&last));
    let mut masked = chunk(3, a.len() as u64, b.len() as u64);
    masked.mask = 2;
    let table = vec![chunk(0, 0, a.len() as u64), masked];
    let mut of = chunked(&[3, 4], &[2, 3], Some(table));
    of.filters = vec![filter(SHUFFLE), filter(GZIP)];
    of.fill = Some(vec![7, 8]);
    let array = open(&[a, b].concat(), &of);
    let shown = [
        [0, 1, 2, 3, 4, 5, 7, 8],
        [6, 7, 8, 9, 10, 11, 7, 8],
        [7, 8, 7, 8, 7, 8, 20, 21],
    ];
    assert_eq!(read_all(&*array).unwrap(), shown.concat());
    let info = array.info().unwrap();
    assert_eq!((info.codec.as_ref(), info.blocks), ("shuffle+gzip", 4));
    assert_eq!(survey(&*array), (vec![0, 3], vec![]));
    let mut missing = [0; 12];
    array
        .decode(BlockId(1), &mut missing, Arena::none())
        .unwrap();
    assert_eq!(missing, [7, 8].repeat(6)[..]);
    assert!(
        array
            .decode(BlockId(0), &mut [0; 11], Arena::none())
            .is_err()
    );
    assert!(array.scratch(BlockId(0)) > 0);
}

#[test]
fn long_runs_of_unfiltered_chunks_are_read_in_place() {
    let len = 10_000u64;
    let file: Vec<u8> = (0..4 * len).map(|n| (n / 7) as u8).collect();
    let table = vec![chunk(0, 0, 2 * len), chunk(1, 2 * len, 2 * len)];
    let mut of = chunked(&[2 * len - 1], &[len], Some(table));
    of.element = int16("BE");
    let array = open(&file, &of);
    let mut pieces = Vec::new();
    array.pieces(0..4 * len - 2, &mut pieces).unwrap();
    let whole = Piece::Direct {
        at: 0,
        take: 4 * len - 2,
    };
    assert_eq!(pieces, [whole]);
    let mut expected = file.clone();
    expected.chunks_exact_mut(2).for_each(<[u8]>::reverse);
    assert_eq!(
        read_all(&*array).unwrap(),
        &expected[..4 * len as usize - 2]
    );
    assert_eq!(
        read(&*array, 19_997..20_003).unwrap(),
        &expected[19_997..20_003]
    );
    assert_eq!(
        survey(&*array),
        (vec![], vec![(0, 2 * len), (2 * len, 2 * len - 2)])
    );
}

#[test]
fn a_bad_chunk_costs_no_other() {
    let file = [gzip(&[1; 8]), vec![0xff; 8]].concat();
    let end = file.len() as u64;
    let table = vec![
        chunk(0, 0, end - 8),
        chunk(1, end - 4, 5),
        chunk(2, u64::MAX - 1, 5),
        chunk(3, 0, 0),
        chunk(4, 0, u64::MAX),
        chunk(5, end - 8, 8),
    ];
    let mut of = chunked(&[28], &[4], Some(table));
    of.filters = vec![filter(GZIP)];
    let array = open(&file, &of);
    assert_eq!(read(&*array, 0..8).unwrap(), [1; 8]);
    assert_eq!(read(&*array, 48..56).unwrap(), [0; 8]);
    for (block, what) in [
        (1, "beyond the end"),
        (2, "beyond the end"),
        (3, "too short"),
        (4, "beyond the end"),
        (5, "gzip"),
    ] {
        let found = fault(&*array, 8 * block..8 * block + 1);
        assert!(
            found.starts_with(&format!("block {block}: bytes ")),
            "{found}"
        );
        assert!(found.contains(what), "{found}");
        assert!(
            array
                .decode(BlockId(block), &mut [0; 8], Arena::none())
                .is_err()
        );
    }
    assert_eq!(
        survey(&*array),
        (vec![0, 5], vec![(8, 1), (16, 1), (24, 1), (32, 1)])
    );
}

#[test]
fn chunks_that_claim_too_much_are_never_decoded() {
    let claim = 1 << 30;
    let mut of = chunked(&[claim], &[claim], Some(vec![chunk(0, 0, 100)]));
    of.filters = vec![filter(GZIP)];
    let array = open(&[0; 100], &of);
    assert!(fault(&*array, 0..1).contains("too short for what it is to hold"));
}

#[test]
fn the_table_is_asked_for_once_it_is_needed() {
    let asked = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&asked);
    let tables: ChunkTables = Arc::new(move |token| {
        assert_eq!(token, 77);
        match counter.fetch_add(1, Ordering::Relaxed) {
            0 => Err(Fault::new("not now").passing(Duration::ZERO).into()),
            _ => Ok(ChunkTable::small(&[chunk(0, 0, 4)])),
        }
    });
    let of = chunked(&[2], &[2], None);
    let Ok(OpenedDataset::Array { array, .. }) = opened(&[1, 2, 3, 4], &of, tables) else {
        panic!("not opened");
    };
    array.info().unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    assert_eq!(fault(&*array, 0..4), "not now");
    assert_eq!(read_all(&*array).unwrap(), [1, 2, 3, 4]);
    assert_eq!(read_all(&*array).unwrap(), [1, 2, 3, 4]);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    assert!(refused(&chunked(&[2], &[2], Some(vec![chunk(1, 0, 4)]))).contains("outside"));
}

proptest! {
    /// Unfiltered chunks of a compound with a gap and a swapped member, some of them missing.
    #[test]
    fn any_range_is_what_was_stored(
        axes in prop::collection::vec((1u64..7, 1u64..5), 1..4),
        missing in prop::collection::vec(any::<bool>(), 40),
        (a, b) in (0u64..2000, 0u64..2000),
    ) {
        let (dims, chunk_dims): (Vec<u64>, Vec<u64>) = axes.into_iter().unzip();
        let counts: Vec<u64> = dims.iter().zip(&chunk_dims).map(|(n, c)| n.div_ceil(*c)).collect();
        let (chunks, each): (u64, u64) = (counts.iter().product(), chunk_dims.iter().product());
        let file: Vec<u8> = (0..chunks * each * 5).map(|n| (n * 31 % 251) as u8).collect();
        let stored = (0..chunks).filter(|n| !missing[*n as usize % missing.len()]);
        let table = stored.map(|n| chunk(n, n * each * 5, each * 5)).collect();
        let mut of = chunked(&dims, &chunk_dims, Some(table));
        let members = vec![
            ("a".into(), 0, int16("BE")),
            ("b".into(), 4, StoredType::opaque(1)),
        ];
        of.element = StoredType::Compound { size: 5, members };
        of.fill = Some(vec![1, 2, 3, 4, 5]);
        let array = open(&file, &of);
        let mut expected = Vec::new();
        for element in 0..dims.iter().product() {
            let (mut rest, mut number, mut within) = (element, 0, 0);
            let (mut stride, mut step) = (1, 1);
            for axis in (0..dims.len()).rev() {
                let at = rest % dims[axis];
                rest /= dims[axis];
                number += at / chunk_dims[axis] * stride;
                within += at % chunk_dims[axis] * step;
                (stride, step) = (stride * counts[axis], step * chunk_dims[axis]);
            }
            let at = ((number * each + within) * 5) as usize;
            let stored = match missing[number as usize % missing.len()] {
                true => &[1, 2, 3, 4, 5],
                false => &file[at..at + 5],
            };
            expected.extend([stored[1], stored[0], stored[4]]);
        }
        let bytes = expected.len() as u64;
        prop_assert_eq!(array.info().unwrap().bytes, bytes);
        let (a, b) = (a.min(b).min(bytes), a.max(b).min(bytes));
        prop_assert_eq!(read(&*array, a..b).unwrap(), &expected[a as usize..b as usize]);
        let mut direct = vec![0; (b - a) as usize];
        array.read_direct(a, &mut direct).unwrap();
        prop_assert_eq!(&direct[..], &expected[a as usize..b as usize]);
    }
}
