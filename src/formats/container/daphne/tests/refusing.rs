//! Files that break a rule: refused when opened, or where the damage is touched and nowhere else.

use super::encoder::*;
use crate::array::uncached::read;
use crate::container::{Candidate, Dialect, Preferences, Verdict};
use crate::container::{Format, daphne::Daphne};
use crate::source::FileKind;
use std::path::Path;

/// A 4 x 3 matrix of i32 with these blocks.
fn matrix(data: u8, blocks: &[Vec<u8>]) -> File {
    File::new(&[header(data, 4, 3, &[7]), blocks.concat()].concat())
}

fn rect(rows: std::ops::Range<u64>, cols: std::ops::Range<u64>, kind: u8) -> Rect {
    Rect {
        rows,
        cols,
        kind,
        code: 7,
        reversed: false,
    }
}

fn filled(rect: &Rect) -> Vec<u8> {
    block(rect, &|row, col| Some((row * 3 + col) as i64))
}

fn refused(file: &File) -> String {
    let container = file.open();
    assert!(container.arrays.is_empty());
    container.faults.first().expect("a fault").to_string()
}

#[test]
fn a_file_is_recognised_by_its_name() {
    let file = File::new(b"");
    let store = file.store();
    let verdict = |name: &str, kind| {
        let candidate = Candidate::new(&*store, Path::new(name), kind, Preferences::default());
        matches!(Daphne.recognise(&candidate).unwrap(), Verdict::Yes)
    };
    assert!(verdict("x.dbdf", FileKind::File) && verdict(".dbdf", FileKind::File));
    assert!(!verdict("x.dbdf.meta", FileKind::File) && !verdict("x.dbdf", FileKind::Directory));
}

#[test]
fn blocks_must_partition_the_object() {
    let whole = rect(0..4, 0..3, 1);
    let upper = filled(&rect(0..2, 0..3, 1));
    assert!(refused(&matrix(1, &[])).contains("in no block"));
    assert!(refused(&matrix(1, std::slice::from_ref(&upper))).contains("in no block"));
    assert!(refused(&matrix(1, &[filled(&whole), upper.clone()])).contains("same cells"));
    // An overlap and a gap of one size.
    let shifted = filled(&rect(1..3, 0..3, 1));
    assert!(refused(&matrix(1, &[upper.clone(), shifted])).contains("same cells"));
    let outside = block_head(3, 0, 2, 3, 0);
    assert!(refused(&matrix(1, &[upper, outside])).contains("outside"));
    let wraps = block_head(u64::MAX, 0, 2, 3, 0);
    assert!(refused(&matrix(1, &[wraps])).contains("outside"));
    let nothing = block_head(0, 0, 0, 3, 0);
    assert!(refused(&matrix(1, &[filled(&whole), nothing])).contains("no rows"));
}

#[test]
fn every_truncation_is_refused() {
    for kind in 1..=3 {
        let content = [header(2, 4, 3, &[7]), filled(&rect(0..4, 0..3, kind))].concat();
        assert!(verify(&File::new(&content).open()).is_empty());
        for len in 0..content.len() {
            refused(&File::new(&content[..len]));
        }
        refused(&File::new(&[&content[..], b"\0"].concat()));
    }
}

/// Blocks of two rows each, the second one damaged at `at` within it.
fn damaged(data: u8, kind: u8, at: usize, bytes: &[u8]) -> File {
    let mut second = filled(&rect(2..4, 0..3, kind));
    second[at..at + bytes.len()].copy_from_slice(bytes);
    matrix(data, &[filled(&rect(0..2, 0..3, kind)), second])
}

#[test]
fn damage_within_a_block_harms_only_its_own_cells() {
    let row = 34;
    let cases = [
        // A count, a column outside, a column that comes twice; of COO: a row, a column, a place.
        (2, row, 2u32, "number of entries"),
        (2, row, 4, "too many entries"),
        (2, row + 4, 3, "outside"),
        (2, row + 4, 1, "at one place"),
        (3, 30, 2, "outside"),
        (3, 34, 3, "outside"),
        (3, 34, 2, "at one place"),
    ];
    for (kind, at, bytes, what) in cases {
        for data in 1..=2 {
            let container = damaged(data, kind, at, &bytes.to_le_bytes()).open();
            assert!(container.faults.is_empty(), "{:?}", container.faults);
            let values = array(&container, "values");
            let good: Vec<u8> = (0..6i32).flat_map(i32::to_le_bytes).collect();
            assert_eq!(read(values, 0..24).unwrap(), good);
            let fault = fault(&container, "values");
            assert_eq!(fault.block, Some(1), "{fault}");
            let faults = verify(&container);
            assert!(!faults.is_empty(), "{kind} {at}");
            // A count that is too small makes the bytes after it another thing.
            if what != "number of entries" {
                assert!(fault.to_string().contains(what), "{fault}");
            }
        }
    }
}

#[test]
fn a_value_that_does_not_fit_is_a_fault_of_its_block() {
    for kind in 1..=3 {
        for data in 1..=2 {
            let narrow = |rows, number: i64| {
                let rect = Rect {
                    code: 8,
                    ..rect(rows, 0..3, kind)
                };
                block(&rect, &move |_, _| Some(number))
            };
            let container = matrix(data, &[narrow(0..2, 7), narrow(2..4, 1 << 31)]).open();
            let fault = fault(&container, "values");
            assert_eq!(fault.block, Some(1));
            assert!(
                fault.to_string().contains("does not fit the type si32"),
                "{fault}"
            );
            assert_eq!(
                read(array(&container, "values"), 0..24).unwrap(),
                [7, 0, 0, 0].repeat(6)
            );
            assert!(!verify(&container).is_empty());
        }
    }
}

#[test]
fn a_block_over_columns_is_converted_for_each() {
    let head = frame_header(2, &[1, 10], &[b"a", b"b"]);
    for kind in 1..=3 {
        let rect = Rect {
            code: 8,
            ..rect(0..2, 0..2, kind)
        };
        let content = [
            head.clone(),
            block(&rect, &|_, col| Some(col as i64 * 255 + 1)),
        ]
        .concat();
        let container = File::new(&content).open();
        assert_eq!(all(&container, "columns/a"), [1, 1]);
        assert_eq!(all(&container, "columns/b"), 256f64.to_le_bytes().repeat(2));
        assert!(verify(&container).is_empty());
        let content = [head.clone(), block(&rect, &|_, col| Some(256 - col as i64))].concat();
        let container = File::new(&content).open();
        assert_eq!(all(&container, "columns/b"), 255f64.to_le_bytes().repeat(2));
        assert!(fault(&container, "columns/a").to_string().contains("ui8"));
        assert_eq!(verify(&container).len(), 1);
    }
}

#[test]
fn claims_that_nothing_backs_are_refused() {
    let huge = u64::MAX;
    for (rows, cols) in [(1 << 60, 16), (1 << 32, 1 << 32), (huge, huge), (huge, 1)] {
        for data in 1..=2 {
            refused(&File::new(&header(data, rows, cols, &[10])));
        }
    }
    assert!(refused(&File::new(&header(3, 1, 1 << 60, &[1; 40]))).contains("columns"));
    let mut sparse = block_head(0, 0, 4, 3, 2);
    sparse.push(7);
    sparse.extend((u64::MAX).to_le_bytes());
    assert!(refused(&matrix(1, &[sparse])).contains("more entries"));
}

#[test]
fn a_form_that_is_asked_for_is_the_only_one_tried() {
    let file = matrix(1, &[filled(&rect(0..4, 0..3, 1))]);
    assert!(file.open_as(Dialect::Spec).faults.is_empty());
    assert!(!file.open_as(Dialect::Daphne).faults.is_empty());
}

#[test]
fn counts_that_the_head_denies_are_found_in_every_block() {
    let nothing = |rows, cols| block(&rect(rows, cols, 2), &|_, _| None);
    let (left, right) = (
        nothing(0..4, 0..1),
        [nothing(0..2, 1..3), nothing(2..4, 1..3)],
    );
    let mut content = [&header(2, 4, 3, &[7]), &left[..], &right.concat()].concat();
    assert!(verify(&File::new(&content).open()).is_empty());
    let last = content.len() - 4;
    content[last] = 1;
    let faults = verify(&File::new(&content).open());
    assert_eq!(faults.len(), 1);
    assert!(faults[0].to_string().contains("block 2"), "{}", faults[0]);
}

#[test]
fn a_full_check_says_which_cell_of_a_dense_block_does_not_fit_its_column() {
    // Two columns of one type, one of the block's own, one of a third.
    let (rows, codes) = (5u64, [1, 1, 10, 2]);
    let head = frame_header(rows, &codes, &[b"a", b"b", b"c", b"d"]);
    for wrong in (0..rows * 4).filter(|cell| cell % 4 != 2) {
        let mut content = head.clone();
        content.extend(block_head(0, 0, rows as u32, 4, 1));
        content.push(10);
        for cell in 0..rows * 4 {
            let number = if cell == wrong { 0.5 } else { cell as f64 };
            content.extend(number.to_le_bytes());
        }
        let faults = verify(&File::new(&content).open());
        let place = format!("row {}, column {} of the block", wrong / 4, wrong % 4);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].to_string().contains(&place), "{}", faults[0]);
    }
}
