//! Files whose decoded size, entries or blocks are many: bounded work for what is read.

use super::encoder::*;
use crate::array::{Array, Piece};

fn pieces(array: &dyn Array, range: std::ops::Range<u64>) -> Vec<Piece> {
    let mut out = Vec::new();
    array.pieces(range, &mut out).unwrap();
    out
}

#[test]
fn empty_blocks_cost_nothing_however_large() {
    let (rows, half) = (u64::from(u32::MAX), 1u32 << 27);
    let mut content = header(1, rows, 1 << 28, &[5]);
    content.extend(block_head(0, 0, u32::MAX, half, 0));
    content.extend(block_head(0, u64::from(half), u32::MAX, half, 0));
    let container = File::new(&content).open();
    let values = array(&container, "values");
    let bytes = values.info().unwrap().bytes;
    assert_eq!(bytes, rows << 28);
    let direct = [Piece::Direct {
        at: 5,
        take: bytes - 5,
    }];
    assert_eq!(pieces(values, 5..bytes), direct);
    assert_eq!(read(values, bytes - 9..bytes).unwrap(), [0; 9]);
    assert!(verify(&container).is_empty());
}

#[test]
fn a_sparse_block_of_many_cells_is_cut_into_small_tiles() {
    for kind in [2, 3] {
        let (height, width) = (1000u32, u32::MAX);
        let mut content = header(1, height.into(), width.into(), &[1]);
        content.extend(block_head(0, 0, height, width, kind));
        content.push(1);
        let place = 3_000_000_000u32;
        if kind == 2 {
            content.extend(1u64.to_le_bytes());
            content.extend([0; 4].repeat(999));
            content.extend(1u32.to_le_bytes());
        } else {
            content.extend(1u32.to_le_bytes());
            content.extend(999u32.to_le_bytes());
        }
        content.extend(place.to_le_bytes());
        content.push(77);
        let container = File::new(&content).open();
        let values = array(&container, "values");
        let at = 999 * u64::from(width) + u64::from(place);
        let expected = [&[0; 100][..], &[77], &[0; 99]].concat();
        assert_eq!(read(values, at - 100..at + 100).unwrap(), expected);
        for piece in pieces(values, at - 100..at + 100) {
            assert!(matches!(piece, Piece::Block { block_len, .. } if block_len <= 1 << 20));
        }
        assert!(verify(&container).is_empty());
    }
}

#[test]
fn offsets_of_empty_rows_are_made_up() {
    let rows = 1u64 << 58;
    let mut content = header(2, rows, 1, &[1]);
    let mut at = 0;
    let step = u64::from(u32::MAX);
    // One entry in the last row; the other rows are few blocks only by their number of rows.
    for _ in 0..3 {
        content.extend(block_head(at, 0, u32::MAX, 1, 0));
        at += step;
    }
    content[2..10].copy_from_slice(&(at + 1).to_le_bytes());
    content.extend(block_head(at, 0, 1, 1, 1));
    content.extend([1, 9]);
    let container = File::new(&content).open();
    let offsets = array(&container, "row_offsets");
    let bytes = offsets.info().unwrap().bytes;
    assert_eq!(bytes, (at + 2) * 8);
    assert_eq!(pieces(offsets, 0..bytes).len(), 3);
    assert_eq!(
        read(offsets, bytes - 16..bytes).unwrap(),
        [&[0; 8][..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat()
    );
    assert_eq!(all(&container, "values"), [9]);
}

/// Entries of a matrix with a long row, in one block or in two side by side.
#[test]
fn a_long_row_out_of_order_is_shown_in_order() {
    let width = 200_000u64;
    for middle in [width, width / 3] {
        for kind in [1, 2, 3] {
            let mut content = header(2, 2, width, &[8]);
            for cols in [0..middle, middle..width] {
                let rect = Rect {
                    rows: 0..2,
                    cols,
                    kind,
                    code: 3,
                    reversed: true,
                };
                if rect.cols.end > rect.cols.start {
                    content.extend(block(&rect, &|row, col| {
                        Some((1 + row * width + col) as i64)
                    }));
                }
            }
            let container = File::new(&content).open();
            let expected: Vec<u8> = (1..=2 * width).flat_map(u64::to_le_bytes).collect();
            let cols: Vec<u8> = (0..2 * width)
                .flat_map(|n| (n % width).to_le_bytes())
                .collect();
            assert!(all(&container, "values") == expected, "{kind} {middle}");
            assert!(all(&container, "col_idxs") == cols, "{kind} {middle}");
            let offsets: Vec<u8> = [0, width, 2 * width]
                .iter()
                .flat_map(|n| n.to_le_bytes())
                .collect();
            assert_eq!(all(&container, "row_offsets"), offsets);
        }
    }
}

#[test]
fn blocks_of_many_entries_are_walked_from_marks() {
    let (rows, cols) = (3000, 50);
    for kind in [2, 3] {
        for reversed in [false, true] {
            let rect = Rect {
                rows: 0..rows,
                cols: 0..cols,
                kind,
                code: 7,
                reversed,
            };
            let cell = |row: u64, col: u64| {
                (!(row * 7 + col).is_multiple_of(3)).then_some((row + col) as i64)
            };
            let body = block(&rect, &cell);
            let dense = File::new(&[header(1, rows, cols, &[8]), body.clone()].concat()).open();
            let expected: Vec<u8> = (0..rows)
                .flat_map(|row| {
                    (0..cols).flat_map(move |col| cell(row, col).unwrap_or(0).to_le_bytes())
                })
                .collect();
            assert!(all(&dense, "values") == expected);
            assert!(verify(&dense).is_empty());
            let compressed = File::new(&[header(2, rows, cols, &[8]), body].concat()).open();
            let kept: Vec<u8> = (0..rows)
                .flat_map(|row| (0..cols).filter_map(move |col| cell(row, col)))
                .flat_map(i64::to_le_bytes)
                .collect();
            assert!(all(&compressed, "values") == kept);
            assert!(verify(&compressed).is_empty());
        }
    }
}

#[test]
fn wide_runs_of_dense_blocks_are_read_straight() {
    let (rows, cols) = (20, 2000);
    let mut content = header(1, rows, cols, &[8]);
    for cols in [0..900, 900..2000] {
        let rect = Rect {
            rows: 0..rows,
            cols,
            kind: 1,
            code: 8,
            reversed: false,
        };
        content.extend(block(&rect, &|row, col| Some((row * 2000 + col) as i64)));
    }
    let container = File::new(&content).open();
    let values = array(&container, "values");
    let bytes = values.info().unwrap().bytes;
    assert_eq!(
        pieces(values, 0..bytes),
        [Piece::Direct { at: 0, take: bytes }]
    );
    let expected: Vec<u8> = (0..rows * cols).flat_map(u64::to_le_bytes).collect();
    assert!(all(&container, "values") == expected);
    assert_eq!(read(values, 7195..7211).unwrap(), &expected[7195..7211]);
    assert!(verify(&container).is_empty());
}

#[test]
fn many_labels_are_read_from_the_file() {
    let columns = 30_000;
    let names: Vec<String> = (0..columns).map(|n| format!("{n:040}")).collect();
    let labels: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    let mut content = frame_header(1, &vec![1; columns], &labels);
    content.extend(block_head(0, 0, 1, columns as u32, 0));
    let container = File::new(&content).open();
    let expected = names.join("\n") + "\n";
    assert!(all(&container, "labels") == expected.as_bytes());
    let labels = array(&container, "labels");
    let middle = 600_000..600_100;
    assert_eq!(
        read(labels, middle.start..middle.end).unwrap(),
        &expected.as_bytes()[600_000..600_100]
    );
}
