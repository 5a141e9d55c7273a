//! What fuzzers have been through, once more: the corpora and the finds of `fuzz/`.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{TARGETS, run};

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// A corpus is a gzipped tar; its inputs by their names.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let packed = std::fs::read(fuzz().join(format!("corpus/{target}.tar.gz"))).unwrap();
    let mut plain = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&packed[..]);
    decoder.read_to_end(&mut plain).unwrap();
    let mut archive = tar::Archive::new(&plain[..]);
    let mut inputs = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if entry.header().entry_type().is_file() {
            inputs.push((name, bytes));
        }
    }
    inputs
}

fn finds(target: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(fuzz().join("finds").join(target)) else {
        return Vec::new();
    };
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.display().to_string(), std::fs::read(&path).unwrap())
    };
    entries.map(read).collect()
}

fn replay(targets: &[&str]) {
    for target in targets {
        let inputs = corpus(target);
        assert!(inputs.len() > 10, "{target}: {} inputs", inputs.len());
        for (name, data) in inputs.into_iter().chain(finds(target)) {
            let ended = std::panic::catch_unwind(|| run(target, &data));
            assert!(ended.is_ok(), "{target}: {name}");
        }
    }
}

#[test]
fn codecs_end() {
    replay(&["blosc", "blosc_encode", "bp128", "bp128_encode"]);
}

#[test]
fn filters_end() {
    replay(&["filters", "filters_encode"]);
}

#[test]
fn files_end() {
    replay(&["bloscpack", "netcdf", "daphne", "zarr_zip"]);
}

#[test]
fn directories_end() {
    replay(&["bpcells", "zarr"]);
}

#[test]
fn hdf5_files_end() {
    replay(&["hdf5"]);
}

#[test]
fn texts_end() {
    replay(&["literal", "description", "names", "command_line"]);
}

#[test]
fn logs_end() {
    replay(&["stage_log", "scratch_log", "convert_log"]);
}

/// Every target has a program, a corpus and a test above, and nothing has one that is no target.
#[test]
fn every_target_is_run() {
    let text = std::fs::read_to_string(fuzz().join("../src/fuzzing/replay.rs")).unwrap();
    let mut programs: Vec<String> = std::fs::read_dir(fuzz().join("fuzz_targets"))
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into()
        })
        .collect();
    programs.sort();
    let mut names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(programs, names);
    for name in names {
        assert!(
            text.contains(&format!("\"{name}\"")),
            "{name} is not replayed"
        );
    }
}
