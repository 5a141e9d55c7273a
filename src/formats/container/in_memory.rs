//! Containers out of a store that is no directory: nothing above [`crate::source`] may need one.
//!
//! Every container of the golden corpora gives the same from memory as from its files, whether it
//! is sound or not, and the digests that are known of it. Used by no other module: tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::walked::{LONGEST, corpora_in, open, walk};
use crate::array::uncached::read_all;
use crate::container::inside::join;
use crate::source::Store;
use crate::source::local::LocalStore;
use crate::source::memory::MemoryStore;

/// Those beside the mounted tests, and the whole of them where they lie.
pub(super) fn corpora() -> Vec<PathBuf> {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR"));
    let at = [
        clone.join("../../mount-tests/golden"),
        clone.join("../../../shared/golden"),
        clone.join("../../../shared/golden-zarr"),
    ];
    at.iter().flat_map(|at| corpora_in(at)).collect()
}

pub(super) fn cases(corpus: &Path) -> Vec<Value> {
    let manifest = std::fs::read(corpus.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    manifest["cases"].as_array().unwrap().clone()
}

/// Puts a file, or all files of a directory, into a store.
pub(super) fn put(store: &mut MemoryStore, root: &Path, path: &Path) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            put(store, root, &entry.unwrap().path());
        }
    } else {
        store.put(
            path.strip_prefix(root).unwrap(),
            std::fs::read(path).unwrap(),
        );
    }
}

fn told(outcome: Option<&crate::error::Result<u64>>) -> String {
    match outcome {
        Some(Ok(hash)) => format!("{hash:016x}"),
        Some(Err(e)) => e.to_string(),
        None => "nothing".into(),
    }
}

/// What is known of the arrays of a sound case and not so.
fn unlike_known(
    case: &Value,
    (store, name): (&Arc<dyn Store>, &Path),
    complain: &mut dyn FnMut(String),
) {
    let container = match open(store, name) {
        Ok(Some(container)) => container,
        other => return complain(format!("{:?}", other.err().map(|e| e.to_string()))),
    };
    let arrays = container.all_arrays();
    let group = case["group"].as_str().unwrap_or_default().trim_matches('/');
    for (list, group) in [("arrays", group), ("datasets", "")] {
        for array in case[list].as_array().into_iter().flatten() {
            let name = [&array["name"], &array["path"]];
            let name = name.into_iter().find_map(Value::as_str).unwrap();
            let path = join(group, name.trim_start_matches('/'));
            let Some(known) = array["sha256"].as_str() else {
                continue;
            };
            let found = arrays.iter().find(|located| located.path() == path);
            let found = found.map(|located| read_all(&*located.array).map(Sha256::digest));
            match found {
                Some(Ok(digest)) if format!("{digest:x}") == known => {}
                Some(Err(e)) => complain(format!("{path}: {e}")),
                _ => complain(format!("{path}: other bytes, or none")),
            }
        }
    }
}

#[test]
fn golden_containers_give_the_same_from_memory() {
    let mut complaints = Vec::new();
    let mut count = 0;
    for corpus in corpora() {
        let sources = corpus.join("sources");
        let local: Arc<dyn Store> = Arc::new(LocalStore::open(&sources, &sources).unwrap());
        for case in cases(&corpus) {
            let path = corpus.join(case["source"].as_str().unwrap());
            let name = path.strip_prefix(&sources).unwrap();
            let mut memory = MemoryStore::new(&sources);
            put(&mut memory, &sources, &path);
            let sidecar = path.with_added_extension("meta");
            if sidecar.exists() {
                put(&mut memory, &sources, &sidecar);
            }
            let memory: Arc<dyn Store> = Arc::new(memory);
            let (from_files, from_memory) =
                (walk(&local, name, LONGEST), walk(&memory, name, LONGEST));
            let mut complain = |said: String| complaints.push(format!("{}: {said}", case["id"]));
            for what in from_files.keys().chain(from_memory.keys()) {
                let (one, other) = (told(from_files.get(what)), told(from_memory.get(what)));
                if one != other {
                    complain(format!("{what}: {other} from memory, {one} from files"));
                }
            }
            if case["expect"] == "ok" && case["optional"] != true {
                unlike_known(&case, (&memory, name), &mut complain);
            }
            count += 1;
        }
    }
    assert!(count > 200, "{count} cases");
    assert!(
        complaints.is_empty(),
        "{}: {complaints:#?}",
        complaints.len()
    );
}
