//! Files whose decoded size, entries or blocks are many: bounded work for what is read.

use super::encoder::*;
use crate::array::uncached::{read, read_all};
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
fn many_labels_are_one_to_a_line() {
    let columns = 30_000;
    let names: Vec<String> = (0..columns).map(|n| format!("{n:040}")).collect();
    let labels: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    let mut content = frame_header(1, &vec![1; columns], &labels);
    content.extend(block_head(0, 0, 1, columns as u32, 0));
    let container = File::new(&content).open();
    let expected = names.join("\n") + "\n";
    let labels = &*container.lines[0];
    assert!(read_all(labels).unwrap() == expected.as_bytes());
    let middle = 600_000..600_100;
    assert_eq!(
        read(labels, middle.start..middle.end).unwrap(),
        &expected.as_bytes()[600_000..600_100]
    );
}

/// Entries spread over many tiles, so that each tile would look through all of them.
pub(super) fn spread(kind: u8, height: u64, width: u64) -> (Vec<u8>, Vec<u8>) {
    let cells = height * width;
    let mut order: Vec<u64> = (0..cells / 10).collect();
    // A permutation without a pattern along rows.
    order.sort_unstable_by_key(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
    let mut content = block_head(0, 0, height as u32, width as u32, kind);
    content.push(8);
    let mut expected = vec![0; cells as usize * 8];
    let rows: Vec<_> = match kind {
        2 => (0..height).map(|row| row..row + 1).collect(),
        _ => std::iter::once(0..height).collect(),
    };
    let count = order.len() as u64;
    content.extend(&count.to_le_bytes()[..if kind == 2 { 8 } else { 4 }]);
    for rows in rows {
        let own: Vec<u64> = order
            .iter()
            .map(|n| n * 10)
            .filter(|place| rows.contains(&(place / width)))
            .collect();
        if kind == 2 {
            content.extend((own.len() as u32).to_le_bytes());
        }
        for place in own {
            if kind == 3 {
                content.extend(((place / width) as u32).to_le_bytes());
            }
            content.extend(((place % width) as u32).to_le_bytes());
            content.extend((place + 1).to_le_bytes());
            expected[place as usize * 8..][..8].copy_from_slice(&(place + 1).to_le_bytes());
        }
    }
    (content, expected)
}

#[test]
fn entries_without_an_order_are_sorted_slab_by_slab() {
    for (kind, height, width) in [(3, 2000, 1000), (3, 1, 2_000_000), (2, 2, 1_000_000)] {
        let (body, expected) = spread(kind, height, width);
        let dense = File::new(&[header(1, height, width, &[8]), body.clone()].concat()).open();
        assert!(all(&dense, "values") == expected, "{kind} {height}");
        assert!(verify(&dense).is_empty());
        let compressed = File::new(&[header(2, height, width, &[8]), body].concat()).open();
        let kept: Vec<u8> = (0..height * width)
            .step_by(10)
            .flat_map(|place| (place + 1).to_le_bytes())
            .collect();
        assert!(all(&compressed, "values") == kept, "{kind} {height}");
        assert!(verify(&compressed).is_empty());
    }
}

#[test]
fn a_place_that_comes_twice_among_many_harms_its_tile() {
    let (height, width) = (2000, 1000);
    let (mut body, expected) = spread(3, height, width);
    // The last entry repeats the place of the one before.
    let end = body.len();
    let before: [u8; 8] = body[end - 32..end - 24].try_into().unwrap();
    body[end - 16..end - 8].copy_from_slice(&before);
    let number = |at: usize| u64::from(u32::from_le_bytes(before[at..at + 4].try_into().unwrap()));
    let place = number(0) * width + number(4);
    let container = File::new(&[header(1, height, width, &[8]), body].concat()).open();
    let values = array(&container, "values");
    assert!(read(values, place * 8..place * 8 + 8).is_err());
    let far = if place > height * width / 2 {
        0
    } else {
        height * width / 2
    };
    let far = far * 8..far * 8 + 80_000;
    let found = read(values, far.clone()).unwrap();
    assert!(found == expected[far.start as usize..far.end as usize]);
    assert_eq!(verify(&container).len(), 1);
}

#[test]
fn damage_in_a_wide_row_harms_only_that_row() {
    let (height, width) = (2, 1_000_000);
    let (mut body, expected) = spread(2, height, width);
    let last = body.len() - 12;
    body[last..last + 4].fill(0xff);
    let container = File::new(&[header(1, height, width, &[8]), body].concat()).open();
    let values = array(&container, "values");
    let row = width * 8;
    assert!(read(values, 0..row).unwrap() == expected[..row as usize]);
    assert!(read(values, row..row + 8).is_err());
}
