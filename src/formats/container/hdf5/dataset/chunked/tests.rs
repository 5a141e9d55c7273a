//! Tables that are refused, and chunks that are stored short. The oracle of the latter is h5py, in
//! `mount-tests/`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::array::Array;
use crate::array::uncached::read;
use crate::container::hdf5::dataset::tests::{
    self, GZIP, big_endian, chunk, fault, filter, gzip, open, survey,
};
use crate::container::stored::StoredType;
use crate::memory::no_memory;
use crate::memory::scratch::Region;
use crate::source::BytesSource;

fn chunked(tables: ChunkTables) -> Chunked {
    let source: Arc<dyn Source> = Arc::new(BytesSource::new(vec![]));
    let dataset = index::DatasetEntry {
        token: 0,
        element: StoredType::opaque(1),
        dims: Some(vec![10]),
        layout: StorageLayout::Chunked {
            chunk: vec![4],
            first_most: 0,
            early: false,
            plain_edges: false,
            applied: u32::MAX,
            table: None,
        },
        filters: vec![],
        fill: None,
        attributes: vec![],
        stored_bytes: 0,
        text: None,
        details: Default::default(),
    };
    let element = Element::of(&dataset.element).unwrap();
    let fill = Fill::default();
    Chunked::new(&source, &dataset, &[10], element, fill, tables).unwrap()
}

#[test]
fn a_refused_table_is_asked_for_again_only_when_the_fault_may_have_passed() {
    let hour = Duration::from_secs(3600);
    let fault = |passing| {
        let fault = Fault::new("no table today");
        Error::from(Fault { passing, ..fault })
    };
    for (error, times) in [
        (fault(None), 1),
        (fault(Some(hour)), 1),
        (fault(Some(Duration::ZERO)), 3),
        (no_memory("no room today"), 1),
    ] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let array = chunked(Arc::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Err(error.clone())
        }));
        for _ in 0..3 {
            assert!(array.each_piece(0..1, &mut |_| Ok(())).is_err());
        }
        assert_eq!(asked.load(Ordering::Relaxed), times);
    }
}

/// Lends what the array asks for, for a block.
fn with_scratch<T>(array: &dyn Array, block: u64, work: impl FnOnce(Arena<'_>) -> T) -> T {
    let mut region = Region::default();
    work(region.scratch(array.scratch(BlockId(block))).unwrap())
}

/// Reads every byte by itself: what is there, or none.
fn each_byte(array: &dyn Array) -> Vec<Option<u8>> {
    let bytes = array.info().unwrap().bytes;
    let byte = |at| {
        read(array, at..at + 1)
            .ok()
            .and_then(|byte| byte.first().copied())
    };
    // The first look finds out what is missing.
    (0..bytes).for_each(|at| {
        byte(at);
    });
    (0..bytes).map(byte).collect()
}

/// 5 by 5 elements of 2 bytes in chunks of 3 by 3, each of which has its first `len` bytes.
fn squares(len: usize, write: impl Fn(&[u8]) -> Vec<u8>) -> (Vec<u8>, index::DatasetEntry) {
    let (mut file, mut table) = (Vec::new(), Vec::new());
    for number in 0..4 {
        let plain: Vec<u8> = (0..18).map(|i| 20 * number + i).collect();
        let stored = write(&plain[..len]);
        table.push(chunk(
            u64::from(number),
            file.len() as u64,
            stored.len() as u64,
        ));
        file.extend(stored);
    }
    (file, tests::chunked(&[5, 5], &[3, 3], Some(table)))
}

/// Every byte of [`squares`], if its chunks have their first `len` bytes.
fn shown_squares(len: u64) -> Vec<Option<u8>> {
    let byte = |at: u64| {
        let (row, column) = (at / 10, at % 10);
        let number = row / 3 * 2 + column / 6;
        let within = row % 3 * 6 + column % 6;
        (within < len).then_some((20 * number + within) as u8)
    };
    (0..50).map(byte).collect()
}

#[test]
fn what_a_short_chunk_has_is_shown_and_nothing_else() {
    for len in [1, 2, 4, 6, 7, 9, 10, 12, 15, 16, 17, 18] {
        let (file, of) = squares(len, <[u8]>::to_vec);
        let mut filtered = squares(len, gzip);
        filtered.1.filters = vec![filter(GZIP)];
        for (file, of) in [(file, of), filtered] {
            let array = open(&file, &of);
            // An element is shown whole or not at all, where it is converted; here it is not.
            assert_eq!(each_byte(&*array), shown_squares(len as u64), "{len}");
        }
    }
}

#[test]
fn a_chunk_may_lack_what_lies_outside_of_the_array() {
    // As NetCDF's parallel writers and others do: the last rows alone.
    for len in [16, 17] {
        let (file, mut of) = squares(len, gzip);
        of.filters = vec![filter(GZIP)];
        let array = open(&file, &of);
        // Of the first chunk all bytes belong to the array, of the last those of 2 by 2 elements:
        // 10 bytes.
        let mut last = [0xaa; 18];
        with_scratch(&*array, 3, |scratch| {
            array.decode(BlockId(3), &mut last, scratch)
        })
        .unwrap();
        assert_eq!(last[..10], [60, 61, 62, 63, 64, 65, 66, 67, 68, 69]);
        assert_eq!(last[len..], [0, 0][..18 - len]);
        let mut first = [0xaa; 18];
        let error = with_scratch(&*array, 0, |scratch| {
            array.decode(BlockId(0), &mut first, scratch)
        });
        let error = error.unwrap_err().to_string();
        let what = format!(
            "the chunk ends before the bytes that it is to hold: expected at least 18 bytes, found {len}"
        );
        assert!(
            error.starts_with("block 0: bytes 0..") && error.ends_with(&what),
            "{error}"
        );
    }
}

#[test]
fn a_survey_tells_a_short_chunk_each_time() {
    let (file, mut of) = squares(12, gzip);
    of.filters = vec![filter(GZIP)];
    let array = open(&file, &of);
    // Short chunks are found out only by decoding.
    assert_eq!(survey(&*array), (vec![0, 1, 2, 3], vec![]));
    for _ in 0..2 {
        each_byte(&*array);
        let missing = vec![(20, 1), (26, 1)];
        assert_eq!(survey(&*array), (vec![0, 1, 2, 3], missing));
    }
    assert!(fault(&*array, 20..21).starts_with("block 0: "));
    let (file, of) = squares(12, <[u8]>::to_vec);
    assert_eq!(
        survey(&*open(&file, &of)),
        (vec![0, 1, 2, 3], vec![(20, 1), (26, 1)])
    );
}

#[test]
fn elements_that_are_converted_are_shown_whole() {
    let (file, mut of) = squares(9, gzip);
    of.filters = vec![filter(GZIP)];
    of.element = big_endian();
    let array = open(&file, &of);
    let found = each_byte(&*array);
    assert_eq!(found[..3], [Some(1), Some(0), Some(3)]);
    // Rows of the first chunk: 3 elements, 1 and a half, none.
    assert_eq!(found[10..16], [Some(7), Some(6), None, None, None, None]);
}

#[test]
fn long_runs_of_a_short_chunk_are_read_in_place() {
    let len = 40_000u64;
    let file: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
    let of = tests::chunked(
        &[40_000],
        &[20_000],
        Some(vec![chunk(0, 0, 30_000), chunk(1, 0, len)]),
    );
    let array = open(&file, &of);
    assert_eq!(read(&*array, 0..30_000).unwrap(), &file[..30_000]);
    assert_eq!(read(&*array, 40_000..80_000).unwrap(), file);
    assert!(fault(&*array, 30_000..30_001).contains("found 30000"));
    assert!(fault(&*array, 29_990..30_010).contains("found 30000"));
    let direct = vec![(30_000, 1), (40_000, 40_000)];
    assert_eq!(survey(&*array), (vec![], direct));
}
