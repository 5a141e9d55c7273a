//! A log goes by the name of its container: none is left behind by a container that gets another
//! name, and one that somebody else has left at that name costs nobody what he writes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use super::{assert_stored, container, either_way, hidden};
use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::{arrayfs, nobody_starts, send};
use crate::harness::reads::assert_content;
use crate::harness::writers::Bloscpack;
use crate::harness::{scratch_directory, wait_until};

either_way![
    what_was_taken_back_does_not_return_with_the_old_name,
    another_container_under_the_old_name_is_written,
    a_container_that_is_being_written_gets_another_name,
    what_is_written_to_a_container_that_was_replaced_is_nobody_s,
];

const LEN: usize = 68_886;

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

/// Something is synced, and taken back: nothing is staged, and there is a log.
fn written_and_taken_back(file: &File) {
    file.write_all_at(b"behind the end", LEN as u64 + 100)
        .unwrap();
    file.sync_all().unwrap();
    file.set_len(LEN as u64).unwrap();
}

fn what_was_taken_back_does_not_return_with_the_old_name(place: &Place) {
    let mut expected = vec![1; LEN];
    container(place, "a.blp", &expected);
    let nobody_starts = nobody_starts();
    let file = open(&place.join("a.blp/data"));
    written_and_taken_back(&file);
    std::fs::rename(place.join("a.blp"), place.join("b.blp")).unwrap();
    assert_eq!(hidden(&place.stored("b.blp")), 0, "a log is left behind");
    assert_content(&place.join("b.blp/data"), &expected);
    std::fs::rename(place.join("b.blp"), place.join("a.blp")).unwrap();
    file.write_all_at(b"later", 7).unwrap();
    expected[7..12].copy_from_slice(b"later");
    file.sync_all().unwrap();
    drop((file, nobody_starts));
    assert_content(&place.join("a.blp/data"), &expected);
    assert_stored(&place.stored("a.blp"), &expected);
}

fn another_container_under_the_old_name_is_written(place: &Place) {
    let mut expected = vec![1; LEN];
    container(place, "a.blp", &expected);
    let nobody_starts = nobody_starts();
    let file = open(&place.join("a.blp/data"));
    written_and_taken_back(&file);
    std::fs::rename(place.join("a.blp"), place.join("b.blp")).unwrap();
    container(place, "c.blp", &expected);
    std::fs::rename(place.join("c.blp"), place.join("a.blp")).unwrap();
    let other = open(&place.join("a.blp/data"));
    other.write_all_at(b"other", 7).unwrap();
    other.sync_all().unwrap();
    drop((file, other, nobody_starts));
    assert_stored(&place.stored("b.blp"), &expected);
    expected[7..12].copy_from_slice(b"other");
    assert_stored(&place.stored("a.blp"), &expected);
}

/// Has something synced and a daemon killed. Returns the log.
fn left_by_a_kill(source: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let mounted = Mounted::new(source, &["rw"]);
    let nobody_starts = nobody_starts();
    let file = open(&mounted.join(name).join("data"));
    file.write_all_at(bytes, 10).unwrap();
    file.sync_all().unwrap();
    send(mounted.daemon(), Signal::KILL);
    drop(nobody_starts);
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    drop(file);
    source.join(format!(".{name}.arrayfs-stage"))
}

fn stage(command: &str, path: &Path) -> String {
    let ran = arrayfs(["stage".as_ref(), command.as_ref(), path.as_os_str()]);
    ran.success().text()
}

/// A move of a container in the source leaves its log behind.
#[test]
fn an_orphan_is_told_and_costs_nobody_what_he_writes() {
    let directory = scratch_directory();
    let source = directory.path();
    let place = |name: &str| source.join(name);
    let plain = vec![1; LEN];
    let write = |name: &str| Bloscpack::default().write(&place(name), &plain);
    write("a.blp");
    let log = left_by_a_kill(source, "a.blp", b"old");
    std::fs::rename(place("a.blp"), place("b.blp")).unwrap();
    let told = stage("ls", source);
    assert!(
        told.contains(".a.blp.arrayfs-stage") && told.contains("a.blp, which is not there"),
        "{told}"
    );
    arrayfs(["stage".as_ref(), "commit".as_ref(), source.as_os_str()])
        .failed_saying(1, &["a.blp is not there"]);
    let before = std::fs::read(&log).unwrap();
    // Another one, under that name.
    write("a.blp");
    let mounted = Mounted::new(source, &["rw"]);
    let nobody_starts = nobody_starts();
    let file = open(&mounted.join("a.blp/data"));
    file.write_all_at(b"new", 20).unwrap();
    file.sync_all().unwrap();
    let status = mounted.status();
    let staged = &status["staged"][0];
    assert_eq!(staged["log"], ".a.blp.arrayfs-stage-2", "{status}");
    assert!(
        staged["beside"]
            .as_str()
            .unwrap()
            .contains(".a.blp.arrayfs-stage "),
        "{status}"
    );
    drop((file, nobody_starts));
    let mut expected = plain.clone();
    expected[20..23].copy_from_slice(b"new");
    wait_until("it is committed", || hidden(&place("a.blp")) == 1);
    assert_content(&mounted.join("a.blp/data"), &expected);
    drop(mounted);
    assert_content(&log, &before);
    assert!(stage("ls", source).contains("of another version"));
    stage("discard", source);
    assert!(!log.exists());
    assert_eq!(stage("ls", source).trim(), "nothing staged");
}

#[test]
fn an_orphan_can_be_brought_back_or_thrown_away() {
    let directory = scratch_directory();
    let place = |name: &str| directory.path().join(name);
    let mut plain = vec![1; LEN];
    Bloscpack::default().write(&place("a.blp"), &plain);
    let log = left_by_a_kill(directory.path(), "a.blp", b"old");
    std::fs::rename(place("a.blp"), place("b.blp")).unwrap();
    std::fs::rename(place("b.blp"), place("a.blp")).unwrap();
    stage("commit", directory.path());
    plain[10..13].copy_from_slice(b"old");
    assert_content_of(&place("a.blp"), &plain);
    assert!(!log.exists());
    let log = left_by_a_kill(directory.path(), "a.blp", b"again");
    std::fs::remove_file(place("a.blp")).unwrap();
    stage("discard", &log);
    assert!(!log.exists());
}

#[track_caller]
fn assert_content_of(container: &Path, expected: &[u8]) {
    let told = arrayfs(["cat".as_ref(), container.as_os_str(), "data".as_ref()]).success();
    assert!(told.stdout == expected);
}

/// What somebody else has put where the log is to be stays his; what is staged survives all the
/// same.
#[test]
fn a_foreign_file_at_the_name_of_the_log_costs_nothing() {
    let directory = scratch_directory();
    let place = |name: &str| directory.path().join(name);
    let mut plain = vec![1; LEN];
    Bloscpack::default().write(&place("a.blp"), &plain);
    let log = place(".a.blp.arrayfs-stage");
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .mode(0o644)
        .open(&log)
        .unwrap();
    std::fs::write(&log, "not a log").unwrap();
    assert_eq!(left_by_a_kill(directory.path(), "a.blp", b"mine"), log);
    assert!(place(".a.blp.arrayfs-stage-2").exists());
    plain[10..14].copy_from_slice(b"mine");
    assert_content_of(&place("a.blp"), &plain);
    let told = arrayfs([
        "stage".as_ref(),
        "ls".as_ref(),
        directory.path().as_os_str(),
    ]);
    assert!(told.text().contains("a.blp  4 B"), "{told:?}");
    assert!(told.stderr.contains(".a.blp.arrayfs-stage"), "{told:?}");
    drop(Mounted::new(directory.path(), &["rw"]));
    let mounted = Mounted::new(directory.path(), &["rw"]);
    assert_content(&mounted.join("a.blp/data"), &plain);
    drop(mounted);
    assert_content(&log, b"not a log");
    assert_eq!(hidden(&place("a.blp")), 1);
}

/// Its writer goes on, and all of it is there in the end.
fn a_container_that_is_being_written_gets_another_name(place: &Place) {
    let mut expected = vec![1; LEN];
    container(place, "a.blp", &expected);
    let nobody_starts = nobody_starts();
    let file = open(&place.join("a.blp/data"));
    let over = AtomicBool::new(false);
    let written = std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut at = 0;
            while !over.load(Ordering::Relaxed) {
                file.write_all_at(&[2], at % LEN as u64).unwrap();
                at += 1;
            }
            at
        });
        for (from, to) in [("a.blp", "b.blp"), ("b.blp", "a.blp")].repeat(10) {
            std::fs::rename(place.join(from), place.join(to)).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    let changed = written.min(LEN as u64) as usize;
    expected[..changed].fill(2);
    drop((file, nobody_starts));
    assert_content(&place.join("a.blp/data"), &expected);
    assert_stored(&place.stored("a.blp"), &expected);
}

/// As with a file that has no name any more: that is no error, and nothing is left to report.
fn what_is_written_to_a_container_that_was_replaced_is_nobody_s(place: &Place) {
    container(place, "x.blp", &vec![1; LEN]);
    container(place, "other.blp", &vec![3; LEN]);
    let nobody_starts = nobody_starts();
    let file = open(&place.join("x.blp/data"));
    file.write_all_at(b"staged", 7).unwrap();
    std::fs::rename(place.join("other.blp"), place.join("x.blp")).unwrap();
    file.write_all_at(b"later", 9).unwrap();
    file.sync_all().unwrap();
    drop((file, nobody_starts));
    assert_content(&place.join("x.blp/data"), &vec![3; LEN]);
    assert_stored(&place.stored("x.blp"), &vec![3; LEN]);
    let listed = arrayfs(["stage".as_ref(), "ls".as_ref(), place.path().as_os_str()]).success();
    assert!(
        listed.text().contains("nothing staged"),
        "{}",
        listed.text()
    );
}
