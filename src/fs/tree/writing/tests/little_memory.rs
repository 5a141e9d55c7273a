//! What is written where there is less memory than a step of its commit takes: most of it is staged
//! in the log alone, and merged from there with what is stored.

use std::path::Path;
use std::sync::Arc;

use super::{NOBODY, Tree};
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::disk::Putting;
use crate::disk::local::LocalDisk;
use crate::source::local::LocalStore;
use crate::tree::Settings;

/// A quarter of what the bands of a DAPHNE file are told in, and less than a column.
const MEMORY: u64 = 256 << 10;

const ROWS: usize = 300_000;

/// Bytes of one write, which the memory has room for.
const WRITTEN: usize = 16 << 10;

/// A frame in the specification's form: two columns of bytes, in one dense block.
fn frame(columns: [&[u8]; 2]) -> Vec<u8> {
    let rows = columns[0].len();
    let mut out = vec![1, 3];
    out.extend([rows as u64, 2].map(u64::to_le_bytes).concat());
    out.extend([1; 2]);
    out.extend(b"ab".map(|label| [1, 0, label]).concat());
    out.extend([0; 16]);
    out.extend([rows as u32, 2].map(u32::to_le_bytes).concat());
    out.extend([1, 1]);
    out.extend((0..rows).flat_map(|row| columns.map(|column| column[row])));
    out
}

fn numbered(seed: usize) -> Vec<u8> {
    let byte = |row: usize| (row.wrapping_mul(seed) >> 7) as u8;
    (0..ROWS).map(byte).collect()
}

fn tree_with_little_memory(source: &Path) -> Tree {
    let store = Arc::new(LocalStore::open(source, source).unwrap());
    let disk = Arc::new(LocalDisk::new(Arc::clone(&store)));
    let (cache, workers) = (BlockCache::new(MEMORY), ReadAheadWorkers::new(1).unwrap());
    let (root, settings) = (Path::new(""), Settings::default());
    let tree = Tree::new(store, Some(disk), root, cache, workers, settings);
    tree.unwrap().0
}

#[test]
fn bands_larger_than_the_memory_are_merged_from_the_log() {
    let source = tempfile::tempdir().unwrap();
    let file = source.path().join("x.dbdf");
    let [stays, before, written] = [31, 77, 1_000_003].map(numbered);
    std::fs::write(&file, frame([&stays, &before])).unwrap();
    let tree = tree_with_little_memory(source.path());
    let (inode, handle) = tree.written("x.dbdf/columns/b", false).unwrap();
    // The last rows stay.
    let end = ROWS - 1000;
    for (number, part) in written[..end].chunks(WRITTEN).enumerate() {
        let (at, how) = ((number * WRITTEN) as u64, Putting::default());
        let n = tree
            .contents
            .write(inode, handle, at, part, how, NOBODY)
            .unwrap();
        assert_eq!(n, part.len());
    }
    let log = source.path().join(".x.dbdf.arrayfs-stage");
    let logged = log.metadata().unwrap().len();
    assert!(
        logged > end as u64 - MEMORY,
        "{logged} bytes are in the log"
    );
    tree.closing.close(handle).unwrap();
    tree.closing.release(handle);
    let mut expected = before;
    expected[..end].copy_from_slice(&written[..end]);
    assert!(std::fs::read(&file).unwrap() == frame([&stays, &expected]));
    assert!(!log.exists());
}
