//! What the tests of datasets, strings and heaps put files together with.

use super::index::FileIndex;

/// Of a file without anything in it, with 8-byte addresses and lengths.
pub(super) fn empty_index() -> FileIndex {
    FileIndex {
        superblock: 0,
        offset_size: 8,
        length_size: 8,
        base: 0,
        cache_image: None,
        groups: vec![],
        datasets: vec![],
        types: vec![],
        problems: vec![],
        left_out: vec![],
    }
}
