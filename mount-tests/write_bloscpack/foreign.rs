//! Another process changes or replaces the container while something is staged: it is not
//! overwritten, and a sync or close returns the error.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use super::{assert_stored, both_ways, container, hidden};
use crate::harness::place::Place;
use crate::harness::process::{Ran, arrayfs, nobody_starts};
use crate::harness::reads::assert_content;
use crate::harness::wait_until;
use crate::harness::writers::Bloscpack;

both_ways![
    a_container_that_was_replaced_is_not_overwritten,
    a_container_that_was_rewritten_is_not_overwritten,
    a_container_that_was_removed_does_not_come_back,
    what_is_staged_is_applied_to_what_others_have_made,
    what_is_staged_is_not_applied_to_arrays_of_other_lengths,
    what_others_do_while_nothing_is_staged_is_taken_up,
    a_container_that_was_renamed_takes_what_was_staged_along,
];

fn open(place: &Place, name: &str) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true);
    options.open(place.join(name).join("data")).unwrap()
}

fn errno<T>(done: io::Result<T>) -> Option<i32> {
    done.err().and_then(|e| e.raw_os_error())
}

fn a_container_that_was_replaced_is_not_overwritten(place: &Place) {
    container(place, "x.blp", &[1; 100_000]);
    let nobody_starts = nobody_starts();
    let file = open(place, "x.blp");
    file.write_all_at(b"staged", 10).unwrap();
    file.sync_all().unwrap();
    Bloscpack::default().write(&place.stored("new"), b"theirs");
    std::fs::rename(place.stored("new"), place.stored("x.blp")).unwrap();
    assert_eq!(errno(file.sync_all()), Some(libc::ESTALE));
    drop((file, nobody_starts));
    wait_until("theirs is shown", || {
        std::fs::read(place.join("x.blp/data")).is_ok_and(|found| found == b"theirs")
    });
    assert_content(&place.stored("x.blp"), &theirs());
}

/// The whole file of somebody else.
fn theirs() -> Vec<u8> {
    Bloscpack::default().pack(b"theirs")
}

fn a_container_that_was_rewritten_is_not_overwritten(place: &Place) {
    container(place, "x.blp", &[1; 100_000]);
    let nobody_starts = nobody_starts();
    let file = open(place, "x.blp");
    file.write_all_at(b"staged", 10).unwrap();
    // Within the same tick of the clock nobody could see a change.
    let modified = || {
        place
            .stored("x.blp")
            .metadata()
            .unwrap()
            .modified()
            .unwrap()
    };
    let before = modified();
    wait_until("the time has moved on", || {
        Bloscpack::default().write(&place.stored("x.blp"), b"theirs");
        modified() != before
    });
    assert_eq!(errno(file.sync_all()), Some(libc::ESTALE));
    drop((file, nobody_starts));
    assert_content(&place.stored("x.blp"), &theirs());
}

/// Writes and syncs something, then replaces the container by one with this content.
fn replaced_while_staged(place: &Place, theirs: &[u8]) -> File {
    container(place, "x.blp", &[1; 100_000]);
    let _nobody_starts = nobody_starts();
    let file = open(place, "x.blp");
    file.write_all_at(b"staged", 10).unwrap();
    file.sync_all().unwrap();
    Bloscpack::default().write(&place.stored("new"), theirs);
    std::fs::rename(place.stored("new"), place.stored("x.blp")).unwrap();
    assert_eq!(errno(file.sync_all()), Some(libc::ESTALE));
    file
}

fn stage(command: &str, place: &Place) -> Ran {
    arrayfs(["stage", command, place.join("x.blp").to_str().unwrap()])
}

fn what_is_staged_is_applied_to_what_others_have_made(place: &Place) {
    let file = replaced_while_staged(place, &[2; 100_000]);
    stage("commit", place).failed_saying(1, &["x.blp", "busy"]);
    drop(file);
    let mut expected = vec![2; 100_000];
    expected[10..16].copy_from_slice(b"staged");
    // The kernel lets go of the file some time after it was closed.
    wait_until("it is applied", || stage("commit", place).code() == Some(0));
    assert_content(&place.join("x.blp/data"), &expected);
    assert_stored(&place.stored("x.blp"), &expected);
    assert_eq!(hidden(&place.stored("x.blp")), 0);
    open(place, "x.blp").write_all_at(b"more", 3).unwrap();
    expected[3..7].copy_from_slice(b"more");
    assert_content(&place.join("x.blp/data"), &expected);
}

fn what_is_staged_is_not_applied_to_arrays_of_other_lengths(place: &Place) {
    drop(replaced_while_staged(place, &[2; 100_001]));
    wait_until("the reason is told", || {
        let ran = stage("commit", place);
        ran.code() == Some(1) && ran.stderr.contains("are not as long")
    });
    assert!(stage("ls", place).success().text().contains("x.blp"));
    assert_content(
        &place.stored("x.blp"),
        &Bloscpack::default().pack(&[2; 100_001]),
    );
    stage("discard", place).success();
    open(place, "x.blp").write_all_at(b"more", 3).unwrap();
    let mut expected = vec![2; 100_001];
    expected[3..7].copy_from_slice(b"more");
    assert_content(&place.join("x.blp/data"), &expected);
}

fn a_container_that_was_removed_does_not_come_back(place: &Place) {
    container(place, "x.blp", &[1; 100_000]);
    let nobody_starts = nobody_starts();
    let file = open(place, "x.blp");
    file.write_all_at(b"staged", 10).unwrap();
    std::fs::remove_file(place.stored("x.blp")).unwrap();
    let told = errno(file.sync_all());
    assert!(
        matches!(told, Some(libc::ESTALE | libc::ENOENT)),
        "{told:?}"
    );
    drop((file, nobody_starts));
    assert!(!place.stored("x.blp").exists());
    wait_until("it is gone", || !place.join("x.blp").exists());
}

fn what_others_do_while_nothing_is_staged_is_taken_up(place: &Place) {
    container(place, "x.blp", &[1; 100_000]);
    let mut expected = vec![1; 100_000];
    for round in 0..4u8 {
        let file = open(place, "x.blp");
        file.write_all_at(&[round; 10], 500).unwrap();
        expected[500..510].fill(round);
        drop(file);
        assert_stored(&place.stored("x.blp"), &expected);
        expected = vec![round + 100; 100_000 + usize::from(round)];
        container(place, "new.blp", &expected);
        std::fs::rename(place.stored("new.blp"), place.stored("x.blp")).unwrap();
        wait_until("theirs is shown", || {
            std::fs::read(place.join("x.blp/data")).is_ok_and(|found| found == expected)
        });
    }
}

/// Through the mount, and behind its back.
fn a_container_that_was_renamed_takes_what_was_staged_along(place: &Place) {
    container(place, "x.blp", &[1; 100_000]);
    let mut expected = vec![1; 100_000];
    let nobody_starts = nobody_starts();
    let file = open(place, "x.blp");
    file.write_all_at(b"staged", 10).unwrap();
    expected[10..16].copy_from_slice(b"staged");
    file.sync_all().unwrap();
    std::fs::create_dir(place.join("d")).unwrap();
    std::fs::rename(place.join("x.blp"), place.join("d/y.blp")).unwrap();
    assert_content(&place.join("d/y.blp/data"), &expected);
    file.write_all_at(b"later", 50_000).unwrap();
    expected[50_000..50_005].copy_from_slice(b"later");
    file.sync_all().unwrap();
    drop((file, nobody_starts));
    assert_stored(&place.stored("d/y.blp"), &expected);
    assert_content(&place.join("d/y.blp/data"), &expected);
    let left = |path: &str| std::fs::read_dir(place.stored(path)).unwrap().count();
    wait_until("nothing is left", || (left(""), left("d")) == (1, 1));
}
