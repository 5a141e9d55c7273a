//! Damaged matrices: which array is refused or which block fails, and what is said.

use super::*;

/// Opens a packed matrix after `damage`.
fn damaged(damage: impl FnOnce(&Dir)) -> Container {
    let dir = matrix(PACKED, 1000);
    damage(&dir);
    dir.open()
}

#[test]
fn missing_files() {
    let of = |name: &str| damaged(|dir| dir.remove(name));
    refused(
        &of("index_starts"),
        &["index"],
        "index_starts: the file is missing",
    );
    refused(
        &of("val_idx_offsets"),
        &["val"],
        "val_idx_offsets: the file is missing",
    );
    refused(&of("row_names"), &["row_names"], "missing");
    refused(&of("shape"), &["shape"], "missing");
    refused(
        &of("idxptr"),
        &["val", "index", "idxptr"],
        "idxptr cannot be trusted",
    );
    let container = of("storage_order");
    assert_eq!(container.arrays.len(), 6);
    assert_eq!(faults(&container, "storage_order").len(), 1);
}

#[test]
fn not_a_file() {
    let container = damaged(|dir| {
        dir.remove("val_data");
        std::os::unix::fs::symlink("index_data", dir.0.path().join("val_data")).unwrap();
    });
    refused(&container, &["val"], "not a regular file");
    let container = damaged(|dir| {
        dir.remove("val_idx");
        fs::create_dir(dir.0.path().join("val_idx")).unwrap();
    });
    refused(&container, &["val"], "not a regular file");
}

#[test]
fn headers() {
    let container = damaged(|dir| dir.put("index_data", "FLOATSv1"));
    refused(&container, &["index"], "expected UINT32v1, found FLOATSv1");
    let container = damaged(|dir| dir.put("val_idx", "TNIU1v23"));
    refused(&container, &["val"], "big-endian");
    let container = damaged(|dir| dir.put("val_idx", "UINT"));
    refused(&container, &["val"], "too short for its header");
}

#[test]
fn short_files() {
    let container = damaged(|dir| dir.truncate("val_data", dir.get("val_data").len() - 1));
    refused(&container, &["val"], "past the end of the data");
    let container = damaged(|dir| dir.truncate("val_idx", 8 + 8 * 4));
    refused(
        &container,
        &["val"],
        "too short: expected 9 values, found 8",
    );
    let container = damaged(|dir| dir.truncate("index_starts", 8 + 7 * 4));
    refused(
        &container,
        &["index"],
        "too short: expected 8 values, found 7",
    );
    let container = damaged(|dir| dir.u32s("shape", &[1]));
    refused(&container, &["shape"], "expected 2 values, found 1");
    let container = damaged(|dir| dir.u64s("idxptr", &[]));
    // The pointers themselves are sound, but say nothing.
    refused(&container, &["val", "index"], "idxptr cannot be trusted");
}

#[test]
fn claims_are_not_believed() {
    for nnz in [1 << 50, u64::MAX, u64::MAX / 4, 1 << 62] {
        for version in [PACKED, UNPACKED] {
            let dir = matrix(version, 1000);
            dir.u64s("idxptr", &[0, 0, 0, nnz]);
            let container = dir.open();
            refused(&container, &["val", "index"], "");
            assert_eq!(content(&container, "idxptr"), le64(&[0, 0, 0, nnz]));
        }
    }
}

#[test]
fn offsets() {
    for (offsets, reason) in [
        (&[0, 8][..], "the last entry is less than the length of idx"),
        (&[1, 9], "the first entry is wrong"),
        (&[0], "a wrong number of entries"),
        (&[0, 9, 8], "the entries decrease"),
    ] {
        refused(
            &damaged(|dir| dir.u64s("val_idx_offsets", offsets)),
            &["val"],
            reason,
        );
    }
}

#[test]
fn longer_files_are_not_wrong() {
    let dir = matrix(PACKED, 1000);
    for name in ["val_data", "val_idx", "index_starts", "shape", "idxptr"] {
        let extra = if name == "idxptr" {
            &[9][..]
        } else {
            &[9; 700]
        };
        dir.put(name, [&dir.get(name), extra].concat());
    }
    let container = dir.open();
    assert_eq!(container.faults.len(), 0, "{:?}", container.faults);
    assert_eq!(content(&container, "val"), le32(&values(1000)));
}

/// Changes an entry of the index in the second of two blocks.
fn with_index_entry(entry: usize, change: impl Fn(u32) -> u32) -> Container {
    let dir = matrix(PACKED, 70000);
    let mut idx = dir.get("index_idx");
    let at = 8 + 4 * entry;
    let value = u32::from_le_bytes(idx[at..at + 4].try_into().unwrap());
    idx[at..at + 4].copy_from_slice(&change(value).to_le_bytes());
    dir.put("index_idx", idx);
    dir.open()
}

#[test]
fn a_bad_index_entry_spoils_its_block_only() {
    let changes: [fn(u32) -> u32; 4] = [|v| v + 1, |v| v - 200, |v| v + 132, |_| u32::MAX];
    for change in changes {
        let container = with_index_entry(520, change);
        assert_eq!(container.faults.len(), 0);
        let index = array(&container, "index");
        assert!(read(index, 0..262144).unwrap() == le32(&rows(65536)));
        let error = read(index, 262144..262148).unwrap_err().to_string();
        assert!(error.starts_with("block 1: index_idx: bytes "), "{error}");
        assert!(error.contains("the index step of chunk 5"), "{error}");
    }
}

#[test]
fn the_first_index_entry() {
    let container = with_index_entry(0, |_| 4);
    let found = verified(&container, "index");
    assert_eq!(
        found,
        ["index_idx: bytes 8..12: the first index entry is wrong: expected 0, found 4"]
    );
}

#[test]
fn pointers_that_decrease() {
    let dir = matrix(UNPACKED, 1000);
    dir.u64s("idxptr", &[0, 400, 300, 1000]);
    let container = dir.open();
    let error = read(array(&container, "idxptr"), 0..8)
        .unwrap_err()
        .to_string();
    let expected = "block 0: idxptr: bytes 24..32: entry 2 is less than the one before: \
        expected at least 400, found 300";
    assert_eq!(error, expected);
    assert_eq!(content(&container, "val"), le32(&values(1000)));
}

/// Sparse files that claim much: refused before anything is read of them.
#[test]
fn sparse_files() {
    let grow = |dir: &Dir, name: &str, len: u64| {
        let path = dir.0.path().join(name);
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(len).unwrap();
    };
    let container = damaged(|dir| grow(dir, "row_names", 1 << 35));
    refused(&container, &["row_names"], "too long for names");
    let container = damaged(|dir| grow(dir, "val_idx_offsets", 1 << 40));
    refused(
        &container,
        &["val"],
        "a wrong number of entries: expected 2 to 4096",
    );
    let dir = fragment_store(true, 1000);
    grow(&dir, "chr_ptr", 1 << 40);
    let container = dir.open();
    assert!(
        container
            .faults
            .iter()
            .any(|fault| fault.what.contains("not a begin and an end"))
    );
    grow(&dir, "chr_ptr", (1 << 40) + 8);
    let container = dir.open();
    assert!(
        container
            .faults
            .iter()
            .any(|fault| fault.what == "too many chromosomes")
    );
}
