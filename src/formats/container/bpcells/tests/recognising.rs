//! Which directories are containers.

use super::*;

fn damage(dir: &Dir) -> Option<String> {
    dir.recognised()
        .expect("a container")
        .damage
        .map(|fault| fault.to_string())
}

#[test]
fn by_version() {
    for version in ["packed-uint-matrix-v2", "packed-uint-matrix-v2\r\n"] {
        assert_eq!(damage(&Dir::new(version)), None);
    }
    assert!(
        damage(&Dir::new("packed-uint-matrix-v3\n"))
            .unwrap()
            .contains("unknown version")
    );
    assert!(
        damage(&Dir::new("packed-uint-matrix-v2\nx\n"))
            .unwrap()
            .contains("one line")
    );
    assert!(Dir::new("1.0\n").recognised().is_none());
}

#[test]
fn without_version() {
    for dir in [matrix(PACKED, 10), fragment_store(true, 200)] {
        dir.remove("version");
        assert!(damage(&dir).unwrap().contains("no version file"));
        dir.put("version", "1.2.3\n");
        assert!(damage(&dir).unwrap().contains("not one of BPCells"));
        let container = dir.open();
        assert_eq!((container.arrays.len(), container.faults.len()), (0, 1));
    }
}

#[test]
fn an_ordinary_directory_is_none() {
    let dir = Dir::new("");
    dir.put("idxptr", "not of BPCells");
    dir.put("storage_order", "col\n");
    assert!(dir.recognised().is_none());
    dir.u64s("idxptr", &[0]);
    dir.remove("storage_order");
    assert!(dir.recognised().is_none());
    dir.remove("version");
    fs::create_dir(dir.0.path().join("version")).unwrap();
    assert!(dir.recognised().is_none());
}
