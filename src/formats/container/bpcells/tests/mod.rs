//! Whole containers, written by hand into a scratch directory: what is shown, and every fault.

mod fragments;
mod matrices;
mod recognising;
mod refusing;
mod texts;
mod verifying;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::BpCells;
use crate::array::Array;
use crate::array::uncached::{read, read_all};
use crate::codec::bp128::{self, Transform};
use crate::container::Format as _;
use crate::container::{Candidate, Container, OpenRequest, Preferences, Recognised, recognise};
use crate::error::Fault;
use crate::memory::budget::Budget;
use crate::source::local::LocalStore;
use crate::source::{FileKind, Store};

/// A container directory to be.
struct Dir(TempDir);

impl Dir {
    fn new(version: &str) -> Self {
        let dir = Dir(tempfile::tempdir().unwrap());
        dir.put("version", version);
        dir
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.0.path().join(name), content).unwrap();
    }

    fn get(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join(name)).unwrap()
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.0.path().join(name)).unwrap();
    }

    fn truncate(&self, name: &str, len: usize) {
        self.put(name, &self.get(name)[..len]);
    }

    fn u32s(&self, name: &str, values: &[u32]) {
        self.put(name, [&b"UINT32v1"[..], &le32(values)].concat());
    }

    fn u64s(&self, name: &str, values: &[u64]) {
        self.put(name, [&b"UINT64v1"[..], &le64(values)].concat());
    }

    /// A packed stream of the second version.
    fn packed(&self, name: &str, transform: Transform, values: &[u32]) {
        let encoded = bp128::encoded::encoded(transform, values);
        self.put(
            &format!("{name}_data"),
            [&b"UINT32v1"[..], &encoded.words].concat(),
        );
        self.u32s(&format!("{name}_idx"), &encoded.idx);
        self.u64s(
            &format!("{name}_idx_offsets"),
            &[0, encoded.idx.len() as u64],
        );
        if transform.has_starts() {
            self.u32s(&format!("{name}_starts"), &encoded.starts);
        }
    }

    fn recognised(&self) -> Option<Recognised> {
        let store = LocalStore::open(self.0.path(), self.0.path()).unwrap();
        recognise(&Candidate::new(
            &store,
            Path::new(""),
            FileKind::Directory,
            Preferences::default(),
        ))
        .unwrap()
    }

    fn open(&self) -> Container {
        self.open_with(&Budget::by_default())
    }

    fn open_with(&self, budget: &Arc<Budget>) -> Container {
        let store: Arc<dyn Store> =
            Arc::new(LocalStore::open(self.0.path(), self.0.path()).unwrap());
        self.recognised()
            .expect("a container")
            .open(&store, Path::new(""), budget)
            .unwrap()
    }
}

/// Opens a directory so that it can be written.
pub(super) fn opened_to_write(path: &Path) -> Container {
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(path, path).unwrap());
    let request = OpenRequest {
        store: &store,
        path: Path::new(""),
        preferences: Preferences::default(),
        budget: &Budget::by_default(),
        left: &Default::default(),
    };
    BpCells.open(&request).unwrap()
}

fn le32(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn le64(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn array<'a>(container: &'a Container, name: &str) -> &'a dyn Array {
    let found = container.arrays.iter().find(|array| array.name() == name);
    found
        .unwrap_or_else(|| panic!("{name} is not shown: {:?}", container.faults))
        .as_ref()
}

fn content(container: &Container, name: &str) -> Vec<u8> {
    read_all(array(container, name)).unwrap()
}

fn shown(container: &Container) -> Vec<&str> {
    container.arrays.iter().map(|array| array.name()).collect()
}

/// A text, which can be written if the container is sound.
fn text(container: &Container, name: &str) -> Vec<u8> {
    let texts = container.texts.iter().find(|text| text.name == name);
    let lines = container.lines.iter().find(|lines| lines.name() == name);
    match (texts, lines) {
        (Some(text), None) => text.content.to_vec(),
        (None, Some(lines)) => read_all(&**lines).unwrap(),
        _ => panic!("{name} is not shown once"),
    }
}

/// The faults of one array.
fn faults<'a>(container: &'a Container, name: &str) -> Vec<&'a Fault> {
    container
        .faults
        .iter()
        .filter(|fault| fault.array.as_deref() == Some(name))
        .collect()
}

/// That `name` is refused for `reason`, and nothing else but `also`.
#[track_caller]
fn refused(container: &Container, names: &[&str], reason: &str) {
    for name in names {
        assert!(!shown(container).contains(name), "{name} is shown");
        assert_eq!(
            faults(container, name).len(),
            1,
            "{name}: {:?}",
            container.faults
        );
    }
    let all: Vec<String> = container.faults.iter().map(Fault::to_string).collect();
    assert_eq!(all.len(), names.len(), "{all:?}");
    assert!(all[0].contains(reason), "{all:?}");
}

/// What a full check finds in an array beside its blocks.
fn verified(container: &Container, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut tell = |fault: Fault| found.push(fault.array(name));
    array(container, name).verify(&mut tell).unwrap();
    for check in &container.checks {
        check.check(&Budget::by_default(), &mut tell).unwrap();
    }
    found.retain_mut(|fault| fault.array.take().as_deref() == Some(name));
    found.iter().map(Fault::to_string).collect()
}

fn values(n: u32) -> Vec<u32> {
    (0..n)
        .map(|i| i.wrapping_mul(2654435761) % 1000 + 1)
        .collect()
}

/// Row numbers, increasing within columns of up to 500 entries.
fn rows(n: u32) -> Vec<u32> {
    (0..n).map(|i| i % 500 * 3 + i % 2).collect()
}

const ROWS: u32 = 1500;

/// A sound matrix of `n` values in three columns.
fn matrix(version: &str, n: u32) -> Dir {
    let dir = Dir::new(&format!("{version}\n"));
    dir.put("storage_order", "col\n");
    dir.u32s("shape", &[ROWS, 3]);
    dir.put("row_names", "");
    dir.put("col_names", "a\nb\nc\n");
    dir.u64s(
        "idxptr",
        &[0, u64::from(n / 3), u64::from(n / 2), u64::from(n)],
    );
    if version.starts_with("packed") {
        dir.packed("val", Transform::MinusOne, &values(n));
        dir.packed("index", Transform::DeltaZigzag, &rows(n));
    } else {
        dir.u32s("val", &values(n));
        dir.u32s("index", &rows(n));
    }
    dir
}

const PACKED: &str = "packed-uint-matrix-v2";
const UNPACKED: &str = "unpacked-uint-matrix-v2";

/// Starts, ends and cells of `n` fragments, with one that wraps.
fn fragment_values(n: u32) -> [Vec<u32>; 3] {
    let start: Vec<u32> = (0..n).map(|i| i * 7).collect();
    let mut end: Vec<u32> = start.iter().map(|s| s + s % 90).collect();
    end[5] = 3;
    [start, end, (0..n).map(|i| i % 4).collect()]
}

/// Sound packed or unpacked fragments of two chromosomes, stored in reverse order, and an empty
/// one.
fn fragment_store(packed: bool, n: u32) -> Dir {
    let word = if packed { "packed" } else { "unpacked" };
    let dir = Dir::new(&format!("{word}-fragments-v2\n"));
    let [start, end, cell] = fragment_values(n);
    let n64 = u64::from(n);
    dir.u64s("chr_ptr", &[100, n64, 0, 100, n64, n64]);
    let maxima: Vec<u32> = end
        .chunks(128)
        .map(|run| *run.iter().max().unwrap())
        .collect();
    dir.u32s("end_max", &maxima);
    dir.put("cell_names", "A\nB\nC\nD\n");
    dir.put("chr_names", "chr1\nchr2\nchr3\n");
    if packed {
        let lengths: Vec<u32> = start
            .iter()
            .zip(&end)
            .map(|(s, e)| e.wrapping_sub(*s))
            .collect();
        dir.packed("cell", Transform::Plain, &cell);
        dir.packed("start", Transform::Delta, &start);
        dir.packed("end", Transform::Plain, &lengths);
    } else {
        dir.u32s("cell", &cell);
        dir.u32s("start", &start);
        dir.u32s("end", &end);
    }
    dir
}
