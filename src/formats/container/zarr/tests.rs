//! Stores of a store that cannot be listed, as on the web. Used by no other module.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::array::uncached::read_all;
use crate::container::{Container, Preferences, open_as};
use crate::error::{Error, Result};
use crate::source::memory::MemoryStore;
use crate::source::{Listed, Source, Stat, Store};

/// Files that are asked for by their names alone.
struct Unlisted(MemoryStore);

impl Store for Unlisted {
    fn stat(&self, path: &Path) -> Result<Stat> {
        self.0.stat(path)
    }

    fn list(&self, _path: &Path, _each: &mut dyn FnMut(Listed<'_>)) -> Result<()> {
        Err(Error::io("cannot list", rustix::io::Errno::ACCESS))
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        self.0.head(path, buf)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        self.0.open(path)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn display(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

fn opened(documents: &[(&str, &str)]) -> Result<Container> {
    let mut store = MemoryStore::new(Path::new(""));
    for (path, text) in documents {
        store.put(Path::new(path), text.as_bytes().to_vec());
    }
    let store: Arc<dyn Store> = Arc::new(Unlisted(store.far()));
    open_as(
        &super::Zarr,
        &store,
        Path::new("s.zarr"),
        Preferences::default(),
    )
}

const ARRAY: &str = r#"{"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|u1",
    "compressor": null, "filters": null, "order": "C", "fill_value": 7}"#;

#[test]
fn consolidated_metadata_name_what_cannot_be_listed() {
    let metadata = r#"{"zarr_consolidated_format": 1, "metadata": {
        ".zgroup": {"zarr_format": 2}, "g/.zgroup": {"zarr_format": 2}, "g/x/.zarray": {},
        "i/y/.zarray": {}, "i/gone/.zarray": {}}}"#;
    let container = opened(&[
        ("s.zarr/.zgroup", r#"{"zarr_format": 2}"#),
        ("s.zarr/.zmetadata", metadata),
        ("s.zarr/g/.zgroup", r#"{"zarr_format": 2}"#),
        ("s.zarr/g/x/.zarray", ARRAY),
        ("s.zarr/i/y/.zarray", ARRAY),
        ("s.zarr/i/y/0", "ab"),
    ]);
    let container = container.unwrap();
    let read = |name: &str| read_all(&**container.array(name).unwrap()).unwrap();
    assert_eq!((read("g/x"), read("i/y")), (vec![7, 7], b"ab".to_vec()));
    assert_eq!(container.arrays.len(), 2);
    assert!(container.faults.is_empty(), "{:?}", container.faults);
}

#[test]
fn without_them_it_cannot_be_read() {
    let container = opened(&[("s.zarr/.zgroup", r#"{"zarr_format": 2}"#)]);
    assert!(container.is_err_and(|e| e.is_permission_denied()));
}
