//! Zarr stores that are more than the golden corpora tell: they change underneath, their files are
//! links, and nobody goes through their chunks.

mod changes;
mod hostile;
mod links;
mod stored;

use std::path::{Path, PathBuf};

/// A store of one array, written here: version 3, int32, chunks of `CHUNK` elements, unencoded.
pub const CHUNK: usize = 4;

/// A group without members.
pub fn write_group(at: &Path) {
    std::fs::create_dir_all(at).unwrap();
    let group = r#"{"zarr_format": 3, "node_type": "group", "attributes": {}}"#;
    std::fs::write(at.join("zarr.json"), group).unwrap();
}

/// The document of an array of so many elements, which are `fill` where nothing is stored.
pub fn write_document(at: &Path, len: usize, fill: i32) {
    std::fs::create_dir_all(at.join("c")).unwrap();
    let document = format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [{len}], "data_type": "int32",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{CHUNK}]}}}},
        "chunk_key_encoding": {{"name": "default"}}, "fill_value": {fill}, "attributes": {{}},
        "codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}]}}"#
    );
    replace(&at.join("zarr.json"), document.as_bytes());
}

/// As zarr-python writes: a new file, renamed over the old one.
pub fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("partial");
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, path).unwrap();
}

pub fn chunk_path(array: &Path, number: usize) -> PathBuf {
    array.join(format!("c/{number}"))
}

/// Writes a chunk of the same element throughout.
pub fn write_chunk(array: &Path, number: usize, value: i32) {
    replace(&chunk_path(array, number), &bytes(&[value; CHUNK]));
}

pub fn bytes(values: &[i32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}
