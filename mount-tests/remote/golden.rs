//! The golden corpora in a store: the same judgement as of local files, of a mount and of `verify`.

use std::path::Path;

use super::{command, mount};
use crate::harness::golden;
use crate::harness::judge::{Judge, cases};
use crate::harness::object_server::ObjectServer;

/// What is another thing in a store: it has no links, no modes and no empty directories.
const ELSEWHERE: &[&str] = &["bad-no-descriptor"];

fn check(corpus: &Path) {
    let cases = cases(corpus);
    let server = ObjectServer::of(&corpus.join("sources"), "c/");
    let mounted = mount(&server, "c", &[]);
    let mut complaints = Vec::new();
    for case in cases.iter().filter(|case| !ELSEWHERE.contains(&&*case.id)) {
        let below = case.source.strip_prefix("sources").unwrap();
        let url = server.url(&format!("c/{}", below.display()));
        let verified = command(&server, &["verify", &url]);
        let judge = Judge::by(case, verified, mounted.join(below));
        complaints.extend(
            judge
                .judge()
                .iter()
                .map(|said| format!("{}: {said}", case.id)),
        );
    }
    mounted.assert_alive();
    let (n, all) = (complaints.len(), complaints.join("\n"));
    assert!(complaints.is_empty(), "{n} faults:\n{all}");
}

/// Takes minutes, and is for a night: `ARRAYFS_TEST_WHOLE`.
#[test]
fn the_whole_corpora_in_a_store_decode_or_are_refused_as_known() {
    if std::env::var_os("ARRAYFS_TEST_WHOLE").is_none() {
        return;
    }
    for format in ["bpcells", "bloscpack", "binsparse", "daphne"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden");
        let whole = root.join(format);
        match whole.join("manifest.json").exists() {
            true => check(&whole),
            false => eprintln!("not tested: {} is not here", whole.display()),
        }
    }
}

#[test]
fn bpcells_containers_in_a_store_decode_or_are_refused_as_known() {
    check(&golden("bpcells"));
}

#[test]
fn bloscpack_files_in_a_store_decode_or_are_refused_as_known() {
    check(&golden("bloscpack"));
}

#[test]
fn binsparse_groups_in_a_store_decode_or_are_refused_as_known() {
    check(&golden("binsparse"));
}

#[test]
fn daphne_files_in_a_store_decode_or_are_refused_as_known() {
    check(&golden("daphne"));
}
