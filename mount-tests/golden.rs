//! The golden corpora: every array of every good container with its known hash, every damaged one
//! refused where it is damaged and nowhere else.
//!
//! Beside these tests lies a part of each corpus that shows each of its corners once; the whole
//! lies beside the clone where the project is developed, and nowhere else. `harness::judge` judges
//! a case.

use std::path::{Path, PathBuf};

use crate::harness::golden;
use crate::harness::judge::{Case, Judge, cases};
use crate::harness::mounted::Mounted;

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

fn check_if_there(format: &str) {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/golden")
        .join(format);
    if whole.join("manifest.json").exists() {
        check(&whole);
    } else {
        eprintln!("not tested: {} is not here", whole.display());
    }
}

fn check(corpus: &Path) {
    let cases = cases(corpus);
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
