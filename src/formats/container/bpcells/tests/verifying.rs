//! What only a full check finds.

use super::*;

#[test]
fn shapes() {
    let dir = matrix(PACKED, 70000);
    dir.u32s("shape", &[1499, 4]);
    dir.put("row_names", "one\n");
    let container = dir.open();
    let found = verified(&container, "index");
    assert_eq!(found.len(), 0, "the largest row is 1498: {found:?}");
    assert_eq!(
        verified(&container, "idxptr"),
        ["a wrong number of entries: expected 5, found 4"]
    );
    assert_eq!(
        verified(&container, "row_names"),
        ["a wrong number of entries: expected 0 or 1499, found 1"]
    );
    dir.u32s("shape", &[1498, 3]);
    let found = verified(&dir.open(), "index");
    assert_eq!(found.len(), 2, "one for each block: {found:?}");
    assert!(
        found[0].starts_with("block 0: value 499 is out of range"),
        "{found:?}"
    );
    dir.u32s("shape", &[u32::MAX, 3]);
    assert_eq!(verified(&dir.open(), "index"), [""; 0]);
}
