//! Files as the DAPHNE program writes them, and how the two forms are told apart.

use super::encoder::*;
use crate::array::uncached::{read, read_all};
use crate::container::Container;

/// A matrix of the program: both codes, one block over everything.
fn matrix(data: u8, rows: u64, cols: u64, code: u8, body: &[u8]) -> Vec<u8> {
    let head = header(data, rows, cols, &[code]);
    let block = block_head(0, 0, rows as u32, cols as u32, data);
    [&head[..], &block, &[code], body].concat()
}

fn words(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn dialect(container: &Container) -> &str {
    assert!(container.faults.is_empty(), "{:?}", container.faults);
    container.attributes["dialect"].as_str().unwrap()
}

#[test]
fn dense_matrices_are_told_apart_by_their_length() {
    // 25 zeros of 4 bytes, or 25 of one byte and three blocks of nothing.
    let container = File::new(&matrix(1, 5, 5, 1, &[0; 100])).open();
    assert_eq!(dialect(&container), "daphne");
    assert_eq!(all(&container, "values"), [0; 100]);
    let container = File::new(&matrix(1, 5, 5, 1, &[9; 25])).open();
    assert_eq!(dialect(&container), "spec");
    assert_eq!(
        array(&container, "values").info().unwrap().dtype.name(),
        "uint8"
    );
}

#[test]
fn a_sidecar_settles_what_the_file_cannot() {
    let nothing = matrix(1, 0, 4, 7, &[]);
    assert_eq!(dialect(&File::new(&nothing).open()), "spec");
    let float = File::new(&nothing).sidecar("{\"numCols\":4,\"valueType\":\"f64\"}");
    assert_eq!(dialect(&float.open()), "daphne");
    let bad = File::new(&nothing).sidecar("{\"valueType\":");
    assert_eq!(dialect(&bad.open()), "spec");
    // Cut to a quarter, u32 of the one form look like u8 of the other.
    let quarter = matrix(1, 4, 4, 3, &[1; 16]);
    assert_eq!(dialect(&File::new(&quarter).open()), "daphne");
    let meant = File::new(&quarter).sidecar("{\"valueType\":\"ui32\"}");
    assert!(meant.open().faults[0].what.contains("longer than the rest"));
}

#[test]
fn three_arrays_are_shown_where_they_lie() {
    let body = [words(&[3, 0, 1, 1, 3]), words(&[4, 0, 2]), vec![7, 8, 9]].concat();
    let container = File::new(&matrix(2, 3, 5, 3, &body)).open();
    assert_eq!(dialect(&container), "daphne");
    assert_eq!(all(&container, "row_offsets"), words(&[0, 1, 1, 3]));
    assert_eq!(all(&container, "col_idxs"), words(&[4, 0, 2]));
    assert_eq!(all(&container, "values"), [7, 8, 9]);
    assert!(verify(&container).is_empty());
}

#[test]
fn a_wrong_index_harms_only_reads_that_touch_it() {
    let body = [words(&[3, 0, 2, 1, 3]), words(&[4, 0, 5]), vec![7, 8, 9]].concat();
    let container = File::new(&matrix(2, 3, 5, 3, &body)).open();
    assert_eq!(dialect(&container), "daphne");
    let cols = array(&container, "col_idxs");
    assert_eq!(read(cols, 0..16).unwrap(), words(&[4, 0]));
    assert!(read(cols, 15..17).is_err() && read(cols, 20..22).is_err());
    let offsets = array(&container, "row_offsets");
    assert_eq!(read(offsets, 0..16).unwrap(), words(&[0, 2]));
    assert!(read(offsets, 16..17).is_err() && read(offsets, 10..24).is_err());
    assert_eq!(verify(&container).len(), 2);
}

#[test]
fn rows_of_2022_are_shown_as_stored() {
    let mut body = words(&[3]);
    for row in [&[(4u64, 7u8)][..], &[], &[(2, 8), (0, 9)]] {
        body.extend((row.len() as u64).to_le_bytes());
        for (col, value) in row {
            body.extend(col.to_le_bytes());
            body.push(*value);
        }
    }
    let mut content = matrix(2, 3, 5, 3, &body);
    let container = File::new(&content).open();
    assert_eq!(dialect(&container), "daphne-2022");
    assert_eq!(all(&container, "row_offsets"), words(&[0, 1, 1, 3]));
    assert_eq!(all(&container, "col_idxs"), words(&[4, 2, 0]));
    assert_eq!(all(&container, "values"), [7, 8, 9]);
    assert!(verify(&container).is_empty());
    content[53] = 2;
    assert!(!verify(&File::new(&content).open()).is_empty());
}

#[test]
fn entries_without_a_row_are_no_form_of_the_program() {
    let body = [words(&[3]), vec![0; 3 * 9]].concat();
    let container = File::new(&matrix(2, 0, 5, 3, &body)).open();
    assert!(container.arrays.is_empty());
    assert!(!verify(&container).is_empty());
}

#[test]
fn a_frame_is_records_without_labels() {
    let head = frame_header(3, &[0, 6], &[b"\x10\x20", b"?"]);
    let mut body = vec![0; 16];
    for row in 0..3u8 {
        body.push(row);
        body.extend(f32::from(row).to_le_bytes());
    }
    let container = File::new(&[head, body].concat()).open();
    assert_eq!(dialect(&container), "daphne");
    assert_eq!(all(&container, "columns/col_0"), [0, 1, 2]);
    let floats: Vec<u8> = (0..3u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    assert_eq!(all(&container, "columns/col_1"), floats);
    assert_eq!(read_all(&*container.lines[0]).unwrap(), b"col_0\ncol_1\n");
    assert!(verify(&container).is_empty());
}
