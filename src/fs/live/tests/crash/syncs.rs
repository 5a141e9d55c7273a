//! How often a close waits for the disk.

use std::path::Path;
use std::sync::Arc;

use super::datasets;
use super::scenarios::noise;
use super::session::Session;
use super::subject::{FILE, MATRIX, Subject};
use crate::commit::Preference;
use crate::disk::recording::{Change, Of, Sharing};

fn session(subject: &'static Subject, sample: &'static str) -> Arc<Session> {
    let of = (subject, sample);
    Session::on(of, Preference::InPlace, libc::EIO, Sharing::Unknown)
}

/// What has been waited for since so many changes: a file with its name, a name, or a file.
fn waited(session: &Session, since: usize) -> Vec<&'static str> {
    let changes = session.disk.changes();
    let kinds = changes[since..].iter().filter_map(|change| match change {
        Change::SyncNamed(..) => Some("file with its name"),
        Change::Sync(Of::Named(path), _) if path == Path::new("") => Some("names"),
        Change::Sync(..) => Some("file"),
        _ => None,
    });
    kinds.collect()
}

#[test]
fn a_small_commit_in_place_waits_for_the_disk_twice() {
    let session = session(&FILE, "chunk-127.blp");
    for bytes in [vec![7; 40], noise(240)] {
        let before = session.disk.changes().len();
        let file = session.open();
        session.write(file, 304, &bytes);
        session.close(file);
        assert_eq!(waited(&session, before), ["file with its name", "file"]);
    }
}

/// Chunks behind the last one, and such that have outgrown their places.
#[test]
fn few_bytes_that_a_commit_in_place_puts_behind_the_end_cost_no_wait_of_their_own() {
    for (subject, sample, at_end) in [
        (&FILE, "chunk-127.blp", true),
        (&datasets::FILE, "earliest.h5", true),
        (&datasets::FILE, "latest.h5", false),
    ] {
        let waited = waited_for_growth((subject, sample, at_end), 24);
        assert_eq!(waited, ["file with its name", "file"], "{sample}");
    }
}

/// They are written once: the log says that the file grows, they are on the disk, it is sealed, and
/// then the rest is written.
#[test]
fn many_bytes_that_a_commit_in_place_puts_behind_the_end_cost_two_waits() {
    let all = ["file with its name", "file", "file", "file"];
    let waited = waited_for_growth((&datasets::FILE, "earliest.h5", true), 240);
    assert_eq!(waited, all);
    // Other formats do not lock their files.
    let waited = waited_for_growth((&FILE, "chunk-127.blp", true), 240);
    assert_eq!(waited, ["file with its name", "file"]);
}

/// What a commit waits for that makes the file longer: of so many new bytes, at the end of the
/// array or over it.
fn waited_for_growth(
    (subject, sample, at_end): (&'static Subject, &'static str, bool),
    bytes: usize,
) -> Vec<&'static str> {
    let session = session(subject, sample);
    let len = || {
        let file = session.directory.path().join(subject.first_file);
        file.metadata().unwrap().len()
    };
    let (before, len_before) = (session.disk.changes().len(), len());
    let file = session.open();
    let at = if at_end { session.first[0].len() } else { 0 };
    session.write(file, at as u64, &noise(bytes));
    session.close(file);
    assert!(len() > len_before, "{sample}: nothing is behind the end");
    waited(&session, before)
}

#[test]
fn what_has_been_synced_before_a_commit_in_place_has_its_log() {
    let session = session(&FILE, "chunk-127.blp");
    let file = session.open();
    session.write(file, 304, &[7; 40]);
    session.sync(file);
    let before = session.disk.changes().len();
    session.close(file);
    assert_eq!(waited(&session, before), ["file", "file"]);
}

#[test]
fn a_commit_in_place_of_several_files_waits_for_each_of_them_once() {
    let session = session(&MATRIX, "m-unpacked-uint");
    let files = [0, 1].map(|array| session.open_array(array));
    session.write(files[0], 0, &[0; 4]);
    session.write(files[1], 4, &2u32.to_le_bytes());
    let before = session.disk.changes().len();
    session.close(files[0]);
    let first = ["file with its name", "file", "file"];
    assert_eq!(waited(&session, before), first);
    let before = session.disk.changes().len();
    session.set_len(files[1], session.first[1].len() as u64);
    session.write(files[1], 4, &3u32.to_le_bytes());
    session.close(files[1]);
    assert_eq!(waited(&session, before), ["file with its name", "file"]);
}

#[test]
fn a_small_commit_of_a_new_file_waits_four_times() {
    let session = Session::new("chunk-127.blp", Preference::Replace, libc::EIO);
    let file = session.open();
    session.write(file, 304, &[7; 40]);
    session.close(file);
    let waited = waited(&session, 0);
    assert_eq!(waited, ["file with its name", "file", "file", "names"]);
}
