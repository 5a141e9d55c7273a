//! Stores of a store that cannot be listed, as on the web, and of one that counts how often
//! something is looked for. Used by no other module.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Counts what is asked for by its name.
struct Counted {
    store: MemoryStore,
    looks: Arc<AtomicU64>,
}

impl Store for Counted {
    fn stat(&self, path: &Path) -> Result<Stat> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.store.stat(path)
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(Listed<'_>)) -> Result<()> {
        self.store.list(path, each)
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        self.store.head(path, buf)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.store.open(path)
    }

    fn is_far(&self) -> bool {
        false
    }

    fn display(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

/// A text of so many chunks, each of them "fill" unless it is stored.
fn text(shape: &str, chunks: &str) -> String {
    format!(
        r#"{{"zarr_format": 2, "shape": [{shape}], "chunks": [{chunks}], "dtype": "|O",
        "compressor": null, "filters": [{{"id": "vlen-utf8"}}], "order": "C",
        "fill_value": "fill", "dimension_separator": "/"}}"#
    )
}

#[test]
fn a_text_of_very_many_chunks_is_measured_without_a_look_for_each() {
    let value = b"\x01\0\0\0\x02\0\0\0ab".to_vec();
    let mut store = MemoryStore::new(Path::new(""));
    for (path, bytes) in [
        ("s.zarr/.zgroup", br#"{"zarr_format": 2}"#.to_vec()),
        ("s.zarr/x/.zarray", text("100000", "1").into_bytes()),
        ("s.zarr/x/70000", value.clone()),
        ("s.zarr/x/100001", value.clone()),
        ("s.zarr/y/.zarray", text("3000, 3", "1, 1").into_bytes()),
        ("s.zarr/y/7/1", value.clone()),
        ("s.zarr/y/2999/2", value),
    ] {
        store.put(Path::new(path), bytes);
    }
    let looks = Arc::default();
    let counted = Counted {
        store,
        looks: Arc::clone(&looks),
    };
    let store: Arc<dyn Store> = Arc::new(counted);
    let at = Path::new("s.zarr");
    let container = open_as(&super::Zarr, &store, at, Preferences::default()).unwrap();
    let [x, y] = ["x", "y"].map(|name| Arc::clone(container.array(name).unwrap()));
    let sizes = [&x, &y].map(|array| array.info().unwrap().bytes);
    assert_eq!(sizes, [100_000 * 5 - 2, 9000 * 5 - 4]);
    let looks = looks.load(Ordering::Relaxed);
    assert!(looks < 200, "{looks}");
    let shown = String::from_utf8(read_all(&*y).unwrap()).unwrap();
    let stored = shown.lines().enumerate().filter(|(_, line)| *line == "ab");
    assert!(stored.map(|(at, _)| at).eq([22, 8999]));
    assert_eq!(shown.lines().filter(|line| *line == "fill").count(), 8998);
}
