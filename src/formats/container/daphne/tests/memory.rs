//! Memory: what is kept is charged and bounded, a file that asks for more is refused, and nothing
//! that is shown depends on how much there is.

use super::encoder::*;
use super::large::spread;
use crate::array::uncached::{read, read_all};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

fn assert_no_memory<T>(refused: Result<T>) {
    match refused.map(drop) {
        Err(Error::Io { cause, .. }) => assert_eq!(cause.raw_os_error(), Some(libc::ENOMEM)),
        other => panic!("not refused for want of memory: {other:?}"),
    }
}

#[test]
fn entries_without_an_order_are_shown_with_little_memory_and_with_none_to_spare() {
    let (height, width) = (2000, 1000);
    let (body, expected) = spread(3, height, width);
    let file = File::new(&[header(1, height, width, &[8]), body].concat());
    for limit in [1 << 20, 4 << 20, 64 << 20] {
        for taken in [false, true] {
            let budget = Budget::new(limit);
            let container = file.open_within(&budget).unwrap();
            let _others = taken.then(|| budget.reserve(limit));
            assert!(all(&container, "values") == expected, "{limit} {taken}");
            assert!(budget.kept() <= limit / 8, "{} are kept", budget.kept());
            drop(container);
            assert_eq!(budget.kept(), 0);
        }
    }
}

#[test]
fn what_was_learnt_is_given_up_when_others_need_the_memory() {
    let (height, width) = (2000, 1000);
    let (body, expected) = spread(3, height, width);
    let limit = 8 << 20;
    let budget = Budget::new(limit);
    let file = File::new(&[header(1, height, width, &[8]), body].concat());
    let container = file.open_within(&budget).unwrap();
    let values = array(&container, "values");
    assert!(read(values, 0..1000).unwrap() == expected[..1000]);
    let index_cache = budget.used();
    assert!(index_cache > 100_000, "{index_cache}");
    let _others = budget.try_reserve(limit - (32 << 10)).unwrap();
    assert!(budget.used() <= limit);
    assert!(read(values, 9000..10_000).unwrap() == expected[9000..10_000]);
}

/// 25 bytes in the file for a block of one row of nothing.
fn many_blocks(blocks: u64) -> Vec<u8> {
    let mut content = header(1, blocks, 1, &[1]);
    for row in 0..blocks {
        content.extend(block_head(row, 0, 1, 1, 0));
    }
    content
}

#[test]
fn a_table_that_does_not_fit_is_refused_when_the_file_is_opened() {
    let file = File::new(&many_blocks(50_000));
    let large = Budget::new(64 << 20);
    let container = file.open_within(&large).unwrap();
    assert_eq!(read_all(array(&container, "values")).unwrap(), [0; 50_000]);
    let small = Budget::new(2 << 20);
    assert_no_memory(file.open_within(&small));
    assert_eq!(small.used(), 0);
}

#[test]
fn columns_and_labels_that_do_not_fit_are_refused() {
    let label = [b'x'; 1000];
    let head = |columns: usize| {
        let labels = vec![&label[..]; columns];
        File::new(&frame_header(0, &vec![1; columns], &labels))
    };
    let budget = Budget::new(1 << 20);
    assert!(head(10).open_within(&budget).is_ok());
    assert_no_memory(head(1000).open_within(&budget));
    assert_eq!(budget.used(), 0);
}

/// Below a row of narrow blocks lies one that is too large to be walked through.
#[test]
fn narrow_blocks_do_not_make_wide_ones_narrow() {
    let (rows, cols) = (u64::from(u32::MAX), 5000);
    let mut content = header(1, rows, cols, &[1]);
    for col in 0..cols {
        content.extend(block_head(0, col, 1, 1, 0));
    }
    content.extend(block_head(1, 0, u32::MAX - 1, cols as u32, 0));
    let container = File::new(&content).open();
    let mut pieces = Vec::new();
    let values = array(&container, "values");
    values.pieces(0..rows * cols, &mut pieces).unwrap();
    assert_eq!(pieces.len(), 1);
    assert_eq!(read(values, 4990..5010).unwrap(), [0; 20]);
}

/// More blocks side by side than are found at once.
#[test]
fn thousands_of_blocks_in_one_row_are_shown() {
    let (rows, cols) = (3, 5000);
    let mut content = header(1, rows, cols, &[1]);
    for col in 0..cols {
        let rect = Rect {
            rows: 0..rows,
            cols: col..col + 1,
            kind: [0, 1, 2, 3][col as usize % 4],
            code: 1,
            reversed: false,
        };
        content.extend(block(&rect, &|row, col| Some((row + col % 200) as i64)));
    }
    let container = File::new(&content).open();
    let cell = |row: u64, col: u64| match col % 4 {
        0 => 0,
        _ => (row + col % 200) as u8,
    };
    let expected: Vec<u8> = (0..rows)
        .flat_map(|row| (0..cols).map(move |col| cell(row, col)))
        .collect();
    assert_eq!(all(&container, "values"), expected);
    let values = array(&container, "values");
    assert_eq!(read(values, 4000..6100).unwrap(), expected[4000..6100]);
    assert!(verify(&container).is_empty());
}
