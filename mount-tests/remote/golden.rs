//! The golden corpora in a store: the same judgement as of local files, of a mount and of `verify`.

use std::path::{Path, PathBuf};

use super::{command, mount};
use crate::harness::golden;
use crate::harness::judge::{Judge, cases};
use crate::harness::mounted::Mounted;
use crate::harness::object_server::ObjectServer;
use crate::harness::process::Ran;

/// What is another thing in a store: it has no links, no modes and no empty directories, and the
/// directory of an array is not listed.
const ELSEWHERE: &[&str] = &[
    "bad-no-descriptor",
    "bad-2-array-in-array",
    "bad-3-array-in-array",
];

fn check(corpus: &Path) {
    let server = ObjectServer::of(&corpus.join("sources"), "c/");
    let mounted = mount(&server, "c", &[]);
    judge(corpus, &mounted, &|below| {
        let url = server.url(&format!("c/{}", below.display()));
        command(&server, &["verify", &url])
    });
}

/// Judges what is mounted of a corpus, and what `verify` says of what lies in it.
pub(super) fn judge(corpus: &Path, mounted: &Mounted, verify: &dyn Fn(&Path) -> Ran) {
    let (cases, mut complaints) = (cases(corpus), Vec::new());
    for case in cases.iter().filter(|case| !ELSEWHERE.contains(&&*case.id)) {
        let below = case.source.strip_prefix("sources").unwrap();
        let judge = Judge::by(case, verify(below), mounted.join(below));
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
    whole_corpora().iter().for_each(|corpus| check(corpus));
}

/// Those that are here.
pub(super) fn whole_corpora() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden");
    let formats = ["bpcells", "bloscpack", "binsparse", "daphne"];
    let corpora = formats.map(|format| root.join(format)).into_iter();
    corpora
        .chain([root.join("../golden-zarr/zarr")])
        .filter(|corpus| corpus.join("manifest.json").exists())
        .collect()
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

#[test]
fn zarr_stores_in_a_store_decode_or_are_refused_as_known() {
    check(&golden("zarr"));
}
