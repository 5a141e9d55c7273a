//! Room in the file: chunks that get other sizes again and again.

use std::ffi::OsStr;
use std::path::Path;

use crate::harness::depth::rounds;
use crate::harness::place::Place;
use crate::harness::python::script;
use crate::harness::seeded::run_seed;

/// Commits in one mount, and mounts with one commit each; in a sample and in the whole.
const COMMITS: (u64, u64) = (200, 1000);
const MOUNTS: (u64, u64) = (20, 1000);
/// The same where what one mount frees is lost to the next, as it is to libhdf5: the bound is that
/// of so many commits.
const MOUNTS_EACH: (u64, u64) = (5, 20);

fn room<const N: usize>(arguments: [&OsStr; N]) {
    script("write_hdf5/room.py", arguments).success();
}

fn made(place: &Place, kind: &str) {
    let path = place.stored("x.h5");
    room(["make".as_ref(), path.as_os_str(), kind.as_ref()]);
}

fn change(place: &Place, seed: u64, times: u64) {
    let (mounted, seed, times) = (place.join("x.h5/x"), seed.to_string(), times.to_string());
    room([
        "change".as_ref(),
        mounted.as_os_str(),
        seed.as_ref(),
        times.as_ref(),
    ]);
}

/// At most so many times its live bytes, and 256 KiB.
fn assert_at_most(place: &Place, times: &str) {
    let (path, mounted) = (place.stored("x.h5"), place.join("x.h5/x"));
    room([
        "assert".as_ref(),
        path.as_os_str(),
        mounted.as_os_str(),
        times.as_ref(),
    ]);
    script(
        "write_hdf5/scenario.py",
        [Path::new("shown"), &path, Path::new("x")],
    )
    .success();
}

fn in_one_mount(options: &[&str], kind: &str, times: &str) {
    let place = Place::mounted(options);
    made(&place, kind);
    change(&place, run_seed(), rounds(COMMITS));
    assert_at_most(&place, times);
}

#[test]
fn commits_of_one_mount_use_what_they_freed() {
    in_one_mount(&["commit=inplace"], "plain", "2");
}

#[test]
fn files_that_are_replaced_use_what_was_freed() {
    in_one_mount(&["commit=replace"], "plain", "2");
}

#[test]
fn paged_files_stay_within_bounds() {
    in_one_mount(&["commit=inplace"], "paged", "5");
}

#[test]
fn files_that_know_their_free_space_stay_within_bounds() {
    in_one_mount(&["commit=inplace"], "persisted", "5");
}

/// What was freed is known to nobody.
fn in_many_mounts(kind: &str, commit: &str, mounts: u64) {
    let mut place = Place::mounted(&[commit]);
    made(&place, kind);
    for round in 0..mounts {
        change(&place, run_seed() + round, 1);
        place.mount_again_with(&[commit]);
    }
    assert_at_most(&place, "5");
}

#[test]
fn mounts_with_one_commit_each_stay_within_bounds() {
    in_many_mounts("plain", "commit=auto", rounds(MOUNTS));
}

/// Their last filters take no zeros behind what they have made, so that no chunk has room to grow
/// in its place.
#[test]
fn so_do_those_of_files_whose_chunks_are_exactly_as_long_as_they_are() {
    for kind in ["fletcher32", "zstd", "lzf"] {
        for commit in ["commit=replace", "commit=inplace"] {
            in_many_mounts(kind, commit, rounds(MOUNTS_EACH));
        }
    }
}

#[test]
fn chunks_that_are_exactly_as_long_as_they_are_use_what_was_freed() {
    for kind in ["fletcher32", "zstd", "lzf"] {
        in_one_mount(&["commit=inplace"], kind, "2");
    }
}
