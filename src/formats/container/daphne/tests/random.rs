//! Random objects in random partitions, against what the cells were made from.

use std::ops::Range;

use proptest::prelude::*;

use super::encoder::*;
use crate::array::uncached::read;
use crate::container::daphne::tests::encoder::Rect;

/// The number of a cell, by a simple hash: mostly nothing, else a small number that every type can
/// hold, and now and then a stored zero.
fn number(seed: u64, row: u64, col: u64, dense: u64) -> Option<i64> {
    let mixed = (seed ^ row.wrapping_mul(0x9e37_79b9) ^ col.wrapping_mul(0x85eb_ca6b_0001))
        .wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed >> 33) % 1000;
    (mixed % 10 < dense).then_some((mixed / 10) as i64)
}

fn entry(rects: &[Rect], seed: u64, dense: u64, row: u64, col: u64) -> Option<i64> {
    let rect = rects
        .iter()
        .find(|r| r.rows.contains(&row) && r.cols.contains(&col));
    let rect = rect.expect("the rectangles are a partition");
    match rect.kind {
        0 => None,
        // What a dense block holds of zeros is no entry.
        1 => number(seed, row, col, dense).filter(|&n| n != 0),
        _ => number(seed, row, col, dense),
    }
}

fn file(head: Vec<u8>, rects: &[Rect], seed: u64, dense: u64, backwards: bool) -> File {
    let mut blocks: Vec<Vec<u8>> = rects
        .iter()
        .map(|rect| block(rect, &|row, col| number(seed, row, col, dense)))
        .collect();
    if backwards {
        blocks.reverse();
    }
    File::new(&[head, blocks.concat()].concat())
}

fn check_ranges(
    container: &crate::container::Container,
    name: &str,
    expected: &[u8],
    cuts: &[u16],
) {
    let array = array(container, name);
    assert_eq!(array.info().unwrap().bytes, expected.len() as u64, "{name}");
    let len = expected.len() as u64;
    for pair in cuts.windows(2).chain([&[0, u16::MAX][..]]) {
        let place = |cut: u16| u64::from(cut) * len / u64::from(u16::MAX);
        let range: Range<u64> = place(pair[0].min(pair[1]))..place(pair[0].max(pair[1]));
        let got = read(array, range.clone()).unwrap();
        assert!(
            got == expected[range.start as usize..range.end as usize],
            "{name} {range:?}"
        );
    }
}

proptest! {
    #[test]
    fn a_dense_matrix_shows_every_cell(
        rows in 1u64..40, cols in 1u64..40, code in 1u8..=10, seed in any::<u64>(), dense in 0u64..11,
        cuts in proptest::collection::vec(any::<u16>(), 1..30),
        ranges in proptest::collection::vec(any::<u16>(), 0..6),
    ) {
        let rects = partition(0..rows, 0..cols, &cuts);
        let made = file(header(1, rows, cols, &[code]), &rects, seed, dense, seed % 2 == 0);
        let container = made.open();
        prop_assert!(container.faults.is_empty(), "{:?}", container.faults);
        let cells = (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c)));
        let expected: Vec<u8> = cells
            .flat_map(|(r, c)| value(code, entry(&rects, seed, dense, r, c).unwrap_or(0)))
            .collect();
        check_ranges(&container, "values", &expected, &ranges);
        let faults = verify(&container);
        prop_assert!(faults.is_empty(), "{:?}", faults);
    }

    #[test]
    fn a_compressed_matrix_shows_every_entry_in_order(
        rows in 1u64..40, cols in 1u64..40, code in 1u8..=10, seed in any::<u64>(), dense in 0u64..11,
        cuts in proptest::collection::vec(any::<u16>(), 1..30),
        ranges in proptest::collection::vec(any::<u16>(), 0..6),
    ) {
        let rects = partition(0..rows, 0..cols, &cuts);
        let made = file(header(2, rows, cols, &[code]), &rects, seed, dense, seed % 2 == 0);
        let container = made.open();
        prop_assert!(container.faults.is_empty(), "{:?}", container.faults);
        let (mut values, mut indices, mut offsets) = (vec![], vec![], vec![0; 8]);
        for row in 0..rows {
            for col in 0..cols {
                if let Some(number) = entry(&rects, seed, dense, row, col) {
                    values.extend(value(code, number));
                    indices.extend(col.to_le_bytes());
                }
            }
            offsets.extend((indices.len() as u64 / 8).to_le_bytes());
        }
        check_ranges(&container, "values", &values, &ranges);
        check_ranges(&container, "col_idxs", &indices, &ranges);
        check_ranges(&container, "row_offsets", &offsets, &ranges);
        let faults = verify(&container);
        prop_assert!(faults.is_empty(), "{:?}", faults);
    }

    #[test]
    fn a_frame_shows_every_column(
        rows in 1u64..40, codes in proptest::collection::vec(1u8..=10, 1..12), seed in any::<u64>(),
        dense in 0u64..11,
        cuts in proptest::collection::vec(any::<u16>(), 1..30),
        ranges in proptest::collection::vec(any::<u16>(), 0..6),
    ) {
        let cols = codes.len() as u64;
        let names: Vec<String> = (0..cols).map(|col| format!("c{col}")).collect();
        let labels: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let rects = partition(0..rows, 0..cols, &cuts);
        let head = frame_header(rows, &codes, &labels);
        let container = file(head, &rects, seed, dense, seed % 2 == 0).open();
        prop_assert!(container.faults.is_empty(), "{:?}", container.faults);
        for (col, &code) in (0..).zip(&codes) {
            let cell = |row| value(code, entry(&rects, seed, dense, row, col).unwrap_or(0));
            let expected: Vec<u8> = (0..rows).flat_map(cell).collect();
            check_ranges(&container, &format!("columns/c{col}"), &expected, &ranges);
        }
        let faults = verify(&container);
        prop_assert!(faults.is_empty(), "{:?}", faults);
    }

    #[test]
    fn a_mutated_file_never_panics(
        data in 1u8..=3, seed in any::<u64>(),
        cuts in proptest::collection::vec(any::<u16>(), 1..12),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<u16>()),
    ) {
        let (rows, cols) = (9, 5);
        let head = match data {
            3 => frame_header(rows, &[1, 5, 8, 10, 9], &[b"a", b"b", b"", b"a", b"/"]),
            _ => header(data, rows, cols, &[7]),
        };
        let rects = partition(0..rows, 0..cols, &cuts);
        let blocks = rects.iter().map(|rect| block(rect, &|r, c| number(seed, r, c, 5)));
        let mut content = blocks.fold(head, |all, block| [all, block].concat());
        for (at, byte) in changes {
            let at = usize::from(at) % content.len();
            content[at] = byte;
        }
        content.truncate(cut.map_or(usize::MAX, |cut| usize::from(cut) % content.len()));
        let container = File::new(&content).open();
        for array in &container.arrays {
            if let Ok(info) = array.info() {
                let _ = read(&**array, 0..info.bytes.min(1 << 16));
            }
        }
        verify(&container);
    }
}
