//! Entries of sparse blocks in no order, which have to be sorted to be read.

use super::*;

/// Every sixteenth cell has an entry in [`write_without_order`].
pub(super) fn cell_without_order(place: u64) -> u8 {
    match place % 16 {
        0 => place as u8 | 1,
        _ => 0,
    }
}

/// A matrix of `2^rows` x `2^cols` cells of one byte, in a COO block whose entries have no order.
pub(super) fn write_without_order(path: &Path, rows: u32, cols: u32) {
    use std::io::Write;
    let (height, width) = (1u32 << rows, 1u32 << cols);
    let mut file = std::io::BufWriter::new(File::create(path).unwrap());
    let sizes = [height, 0, width, 0].map(u32::to_le_bytes);
    let head = [&[1, 1][..], sizes.as_flattened(), &[1], &[0; 16]].concat();
    file.write_all(&head).unwrap();
    let block = [height, width].map(u32::to_le_bytes);
    file.write_all(block.as_flattened()).unwrap();
    file.write_all(&[3, 1]).unwrap();
    let entries = 1u64 << (rows + cols - 4);
    file.write_all(&(entries as u32).to_le_bytes()).unwrap();
    for n in 0..entries {
        let place = n.wrapping_mul(0x9e37_79b1) % entries * 16;
        let entry = [(place >> cols) as u32, place as u32 % width].map(u32::to_le_bytes);
        file.write_all(entry.as_flattened()).unwrap();
        file.write_all(&[cell_without_order(place)]).unwrap();
    }
    file.into_inner().unwrap();
}

/// Sorted entries of a block are kept for the reads that follow, in memory that is charged.
#[test]
fn entries_in_no_order_are_read_within_the_bound() {
    use std::os::unix::fs::FileExt;
    let source = scratch_directory();
    write_without_order(&source.path().join("x.dbdf"), 13, 14);
    let mounted = Mounted::new(source.path(), &["cache=16M"]);
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let path = mounted.join("x.dbdf/values");
            scope.spawn(move || {
                let file = open_direct(&path).unwrap();
                let mut buffer = memmap2::MmapMut::map_anon(4096).unwrap();
                for step in 0..3u64 {
                    let at = ((step * 4 + reader) % 8) << 24;
                    file.read_exact_at(&mut buffer, at).unwrap();
                    let expected: Vec<u8> = (at..).take(4096).map(cell_without_order).collect();
                    assert_same(&path, &buffer, &expected);
                }
            });
        }
    });
    assert_bounded(&mounted, 0);
}
