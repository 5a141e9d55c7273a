//! The golden corpora: every array of every good container with its known hash, every damaged one
//! refused where it is damaged and nowhere else.
//!
//! Beside these tests lies a part of each corpus that shows each of its corners once; the whole
//! lies beside the clone where the project is developed, and nowhere else. `harness::judge` judges
//! a case.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::judge::{Case, Judge, cases};
use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, run};
use crate::harness::reads::{names, xattr};
use crate::harness::{golden, other_corpora, python, scratch_directory};

#[test]
fn bpcells_containers_of_the_clone_decode_or_are_refused_as_known() {
    check(&golden("bpcells"));
}

#[test]
fn bloscpack_files_of_the_clone_decode_or_are_refused_as_known() {
    check(&golden("bloscpack"));
}

#[test]
fn binsparse_groups_of_the_clone_decode_or_are_refused_as_known() {
    check(&golden("binsparse"));
}

#[test]
fn daphne_files_of_the_clone_decode_or_are_refused_as_known() {
    check(&golden("daphne"));
}

/// A further format needs a directory and no test.
#[test]
fn containers_of_other_formats_decode_or_are_refused_as_known() {
    for format in other_corpora() {
        check(&golden(&format));
    }
}

#[test]
fn bpcells_containers_of_the_whole_corpus_decode_or_are_refused_as_known() {
    check_if_there("bpcells");
}

#[test]
fn bloscpack_files_of_the_whole_corpus_decode_or_are_refused_as_known() {
    check_if_there("bloscpack");
}

#[test]
fn binsparse_groups_of_the_whole_corpus_decode_or_are_refused_as_known() {
    check_if_there("binsparse");
}

#[test]
fn daphne_files_of_the_whole_corpus_decode_or_are_refused_as_known() {
    check_if_there("daphne");
}

#[test]
fn zarr_stores_of_the_whole_corpus_decode_or_are_refused_as_known() {
    check_if_in("golden-zarr", "zarr");
}

fn check_if_there(format: &str) {
    check_if_in("golden", format);
}

fn check_if_in(corpora: &str, format: &str) {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared")
        .join(corpora)
        .join(format);
    if whole.join("manifest.json").exists() {
        check(&whole);
    } else {
        eprintln!("not tested: {} is not here", whole.display());
    }
}

/// Cases that the corpus calls damaged and that are whole by now: nothing is guessed from the names
/// of arrays, so without a descriptor they are arrays of HDF5.
const PLAIN_ARRAYS: &[&str] = &["bad-no-descriptor"];

#[test]
fn arrays_that_are_called_like_those_of_binsparse_are_no_container_of_it() {
    let file = golden("binsparse/sources/bad-no-descriptor.h5");
    let classic = scratch_directory();
    let classic = classic.path().join("plain.nc");
    let write = "import sys, netCDF4
with netCDF4.Dataset(sys.argv[1], 'w', format='NETCDF3_CLASSIC') as file:
    for name in ('values', 'indices_1', 'pointers_to_1'):
        file.createDimension(name, 3)
        file.createVariable(name, 'i4', (name,))[:] = [0, 1, 2]
";
    let mut python = Command::new(python::interpreter());
    run(python.args(["-c", write]).arg(&classic)).success();
    for (path, format) in [(&file, "hdf5"), (&classic, "netcdf")] {
        let verified = arrayfs([Path::new("verify"), path]).success();
        assert_eq!(verified.stderr, "", "{}", path.display());
        let mounted = Mounted::new(path, &[]);
        assert_eq!(
            xattr(mounted.path(), "user.arrayfs.format").unwrap(),
            format
        );
        assert_eq!(
            names(mounted.path()),
            ["arrays.json", "indices_1", "pointers_to_1", "values"]
        );
    }
}

fn check(corpus: &Path) {
    let mut cases = cases(corpus);
    cases.retain(|case| !PLAIN_ARRAYS.contains(&&*case.id));
    assert!(cases.len() > 50, "a corpus of {} cases", cases.len());
    let mounted = Mounted::new(corpus.join("sources"), &["ro"]);
    let mut failures = Vec::new();
    for case in &cases {
        let complaints = judge(case, corpus, mounted.path());
        failures.extend(complaints.iter().map(|said| format!("{}: {said}", case.id)));
    }
    mounted.assert_alive();
    let (n, all) = (failures.len(), failures.join("\n"));
    assert!(failures.is_empty(), "{n} faults:\n{all}");
}

fn judge(case: &Case, corpus: &Path, mountpoint: &Path) -> Vec<String> {
    let shown: PathBuf = mountpoint.join(case.source.strip_prefix("sources").unwrap());
    Judge::new(case, &corpus.join(&case.source), shown).judge()
}
