//! Sound matrices of every version.

use super::*;

#[test]
fn packed_and_unpacked_show_the_same() {
    // Two blocks and a last chunk that is cut.
    let n = 65536 + 1000;
    for version in [PACKED, UNPACKED] {
        let container = matrix(version, n).open();
        assert_eq!(container.faults.len(), 0, "{:?}", container.faults);
        let names = ["val", "index", "idxptr", "shape", "row_names", "col_names"];
        assert_eq!(shown(&container), names);
        assert_eq!(container.version, version);
        assert!(content(&container, "val") == le32(&values(n)));
        assert!(content(&container, "index") == le32(&rows(n)));
        let idxptr = [0, u64::from(n / 3), u64::from(n / 2), u64::from(n)];
        assert_eq!(content(&container, "idxptr"), le64(&idxptr));
        assert_eq!(content(&container, "shape"), le32(&[ROWS, 3]));
        assert_eq!(content(&container, "row_names"), b"");
        assert_eq!(content(&container, "col_names"), b"a\nb\nc\n");
        assert_eq!(text(&container, "storage_order"), b"col\n");
        assert_eq!(
            text(&container, "version"),
            format!("{version}\n").as_bytes()
        );
        for name in names {
            assert_eq!(verified(&container, name), [""; 0], "{name}");
        }
    }
}

#[test]
fn description() {
    let dir = matrix(PACKED, 70000);
    let container = dir.open();
    let info = array(&container, "index").info().unwrap();
    let part = |part: &str| dir.get(&format!("index_{part}")).len() as u64;
    let stored = part("data") + part("idx") + part("idx_offsets") + part("starts");
    assert_eq!(
        (info.stored_bytes, info.blocks, &*info.codec),
        (stored, 2, "bp128 d1z")
    );
    let info = array(&container, "col_names").info().unwrap();
    assert_eq!(
        (info.shape, info.bytes, info.dtype.name().as_ref()),
        (vec![3], 6, "str")
    );
    let attributes = serde_json::to_string(&container.attributes).unwrap();
    let expected = r#"{"kind":"matrix","storage_order":"col","rows":1500,"cols":3,"nnz":70000}"#;
    assert_eq!(attributes, expected);
}

#[test]
fn any_range_of_a_packed_array() {
    let container = matrix(PACKED, 70000).open();
    let expected = le32(&values(70000));
    for (from, to) in [
        (0, 1),
        (511, 513),
        (262140, 262150),
        (279999, 280000),
        (5, 5),
    ] {
        let part = read(array(&container, "val"), from..to).unwrap();
        assert_eq!(part, expected[from as usize..to as usize]);
    }
}

#[test]
fn version_1_has_narrow_pointers_and_no_offsets() {
    let dir = matrix("packed-uint-matrix-v1", 300);
    dir.u32s("idxptr", &[0, 100, 150, 300]);
    dir.remove("val_idx_offsets");
    dir.remove("index_idx_offsets");
    let container = dir.open();
    assert_eq!(container.faults.len(), 0, "{:?}", container.faults);
    assert_eq!(content(&container, "val"), le32(&values(300)));
    assert_eq!(content(&container, "idxptr"), le32(&[0, 100, 150, 300]));
    assert_eq!(
        array(&container, "idxptr").info().unwrap().dtype.name(),
        "uint32"
    );
}

#[test]
fn floats_are_plain_in_packed_matrices() {
    let dir = matrix("packed-double-matrix-v2", 4);
    let bits = le64(&[f64::NAN.to_bits() | 1, 1f64.to_bits(), 0, 1 << 63]);
    dir.put("val", [&b"DOUBLEv1"[..], &bits, b"tail"].concat());
    let container = dir.open();
    assert_eq!(content(&container, "val"), bits);
    assert_eq!(
        array(&container, "val").info().unwrap().dtype.name(),
        "float64"
    );
    assert_eq!(content(&container, "index"), le32(&rows(4)));
}

#[test]
fn row_major_swaps_the_roles() {
    let dir = matrix(PACKED, 300);
    dir.put("storage_order", "row\r\nmore");
    dir.u32s("shape", &[3, ROWS]);
    dir.put("col_names", "");
    let container = dir.open();
    assert_eq!(text(&container, "storage_order"), b"row\n");
    assert_eq!(verified(&container, "idxptr"), [""; 0]);
    assert_eq!(verified(&container, "index"), [""; 0]);
}

#[test]
fn packed_pointers() {
    // 70001 columns, so that a border between blocks is checked too.
    let dir = matrix("packed-uint-matrix-v9999", 300);
    let mut idxptr: Vec<u32> = (0..70002).map(|i: u32| (i / 2).min(300)).collect();
    dir.remove("idxptr");
    dir.u32s("shape", &[ROWS, 70001]);
    dir.put("col_names", "");
    dir.packed("idxptr", Transform::Delta, &idxptr);
    let container = dir.open();
    assert_eq!(container.faults.len(), 0, "{:?}", container.faults);
    assert!(content(&container, "idxptr") == le32(&idxptr));
    assert_eq!(content(&container, "val"), le32(&values(300)));
    assert_eq!(verified(&container, "idxptr"), [""; 0]);
    idxptr[65535] = 301;
    dir.packed("idxptr", Transform::Delta, &idxptr);
    let container = dir.open();
    let idxptr = array(&container, "idxptr");
    let error = read(idxptr, 70000 * 4..70001 * 4).unwrap_err().to_string();
    assert!(error.contains("block 1: entry 65536 is less"), "{error}");
    dir.put("storage_order", "diagonal\n");
    let names = ["val", "index", "idxptr", "storage_order"];
    let container = dir.open();
    assert!(names.iter().all(|name| faults(&container, name).len() == 1));
}

#[test]
fn empty_matrices() {
    for idxptr in [&[0u64][..], &[0, 0]] {
        let dir = matrix(PACKED, 0);
        dir.u32s("shape", &[5, 0]);
        dir.put("col_names", "");
        dir.u64s("idxptr", idxptr);
        let container = dir.open();
        assert_eq!(container.faults.len(), 0, "{:?}", container.faults);
        assert_eq!(content(&container, "val"), b"");
        assert_eq!(array(&container, "val").info().unwrap().blocks, 0);
        assert_eq!(verified(&container, "idxptr"), [""; 0]);
    }
}

/// The real reader looks at no more than it needs.
#[test]
fn more_is_stored_than_idxptr_asks_for() {
    let dir = matrix(PACKED, 1000);
    for offsets in [&[0, 9, 9][..], &[0, 10], &[0, 12, 12, 13], &[0, u64::MAX]] {
        dir.u64s("index_idx_offsets", offsets);
        let container = dir.open();
        assert_eq!(container.faults.len(), 0, "{:?}", container.faults);
        assert!(content(&container, "index") == le32(&rows(1000)));
        assert_eq!(verified(&container, "index"), [""; 0]);
    }
    for n in [999, 700, 128, 0] {
        dir.u64s("idxptr", &[0, 0, 0, n]);
        let container = dir.open();
        assert_eq!(container.faults.len(), 0, "{:?}", container.faults);
        assert!(content(&container, "val") == le32(&values(n as u32)));
    }
}
