//! Real writers and a real reader: containers of fresh random data written by pip's bpcells and
//! bloscpack, read through the mount by NumPy, compared value by value.
//!
//! `oracle.py` writes and compares; here its Python is found and the mount is made. The seed is another
//! one every time and stands in the output of a failure.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::harness::mounted::Mounted;
use crate::harness::process::{Ran, arrayfs, run};
use crate::harness::scratch_directory;

const PYTHON: &str = "ARRAYFS_PYTHON";

/// A Python that has numpy, scipy, bpcells and bloscpack.
fn python() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os(PYTHON).map(PathBuf::from);
    let installed = package.join("target/venv/bin/python");
    let candidates = named
        .into_iter()
        .chain([installed])
        .filter(|python| python.exists());
    let imports = ["-c", "import numpy, scipy, blosc, bpcells"];
    let able = |python: &PathBuf| run(Command::new(python).args(imports)).code() == Some(0);
    candidates.into_iter().find(able).unwrap_or_else(|| {
        panic!(
            "no Python with bpcells and bloscpack is found: scripts/test.sh installs one in \
             target/venv; or name one in {PYTHON}"
        )
    })
}

fn oracle(python: &Path, arguments: &[&Path]) -> Ran {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("mount-tests/oracle.py");
    run(Command::new(python).arg(script).args(arguments))
}

/// Writes with one of the libraries, mounts, and compares.
fn read_back(library: &str, options: &[&str]) {
    let python = python();
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let seed = since.subsec_nanos().to_string();
    let directory = scratch_directory();
    let (source, expected) = (
        directory.path().join("source"),
        directory.path().join("expected"),
    );
    let write = [
        Path::new("write"),
        Path::new(library),
        Path::new(&seed),
        &source,
        &expected,
    ];
    oracle(&python, &write).success();
    let verified = arrayfs([Path::new("verify"), &source]);
    assert_eq!(verified.code(), Some(0), "seed {seed}: {verified:?}");
    let mounted = Mounted::new(&source, options);
    let compared = oracle(&python, &[Path::new("compare"), &expected, mounted.path()]);
    assert_eq!(
        compared.code(),
        Some(0),
        "seed {seed}: {}{}",
        compared.text(),
        compared.stderr
    );
    let arrays: usize = compared
        .text()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(arrays >= 50, "{arrays} arrays were compared");
}

#[test]
fn numpy_reads_what_bpcells_wrote() {
    read_back("bpcells", &[]);
}

#[test]
fn numpy_reads_what_bloscpack_wrote() {
    read_back("bloscpack", &[]);
}

#[test]
fn numpy_reads_what_bloscpack_wrote_with_direct_io_and_a_small_cache() {
    read_back("bloscpack", &["direct_io,cache=1M"]);
}
