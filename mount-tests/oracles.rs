//! Real writers and a real reader: containers of random data written by the formats' own Python
//! libraries, read through the mount by NumPy, compared value by value.
//!
//! `oracle.py` writes and compares; here the mount is made. The seed is that of the run
//! ([`crate::harness::seeded`]) and stands in the output of a failure.

use std::path::Path;

use crate::harness::mounted::Mounted;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::scratch_directory;
use crate::harness::seeded::run_seed;

/// Writes with one of the libraries, mounts, and compares.
fn read_back(library: &str, options: &[&str]) {
    let seed = run_seed().to_string();
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
    script("oracle.py", write).success();
    let verified = arrayfs([Path::new("verify"), &source]);
    assert_eq!(verified.code(), Some(0), "seed {seed}: {verified:?}");
    let mounted = Mounted::new(&source, options);
    let compared = script(
        "oracle.py",
        [Path::new("compare"), &expected, mounted.path()],
    );
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

#[test]
fn numpy_reads_what_h5py_wrote() {
    read_back("h5py", &[]);
}

#[test]
fn numpy_reads_what_h5py_wrote_with_direct_io_and_a_small_cache() {
    read_back("h5py", &["direct_io,cache=1M"]);
}

#[test]
fn numpy_reads_what_netcdf_wrote_in_each_of_its_forms() {
    read_back("netcdf", &[]);
}

#[test]
fn numpy_reads_what_binsparse_wrote() {
    read_back("binsparse", &[]);
}

#[test]
fn numpy_reads_what_anndata_wrote() {
    read_back("anndata", &[]);
}

/// DAPHNE has no library; the writer is one of our own, after the format's description.
#[test]
fn numpy_reads_every_tiling_and_block_of_daphne() {
    read_back("daphne", &[]);
}

#[test]
fn numpy_reads_what_zarr_wrote() {
    read_back("zarr", &[]);
}
