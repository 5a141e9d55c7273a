//! Arrays that are opened to be written anew, as shells do it: a descriptor is closed before the
//! program writes to its copy. What is stored changes when there is something new, or in the end.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::Command;

use super::{assert_stored, container, either_way, stored};
use crate::harness::place::Place;
use crate::harness::process::{nobody_starts, run};
use crate::harness::reads::assert_content;

either_way![
    a_descriptor_that_is_closed_before_anything_is_written_commits_nothing,
    what_is_emptied_and_closed_is_empty,
    a_shell_s_redirection_is_told_of_errors,
];

const LEN: usize = 150_000;

/// Opens an array as `>` does.
fn opened_anew(place: &Place) -> File {
    let mut options = OpenOptions::new();
    let options = options.write(true).truncate(true);
    options.open(place.join("x.blp/data")).unwrap()
}

fn a_descriptor_that_is_closed_before_anything_is_written_commits_nothing(place: &Place) {
    let (before, after) = (vec![1; LEN], vec![2; LEN / 2]);
    container(place, "x.blp", &before);
    let nobody_starts = nobody_starts();
    let opened = opened_anew(place);
    let mut copy = opened.try_clone().unwrap();
    drop(opened);
    assert_eq!(place.join("x.blp/data").metadata().unwrap().len(), 0);
    drop(nobody_starts);
    // No program could have been started above, for that would have closed its own copy.
    assert_eq!(stored(&place.stored("x.blp")).unwrap(), before);
    copy.write_all(&after).unwrap();
    drop(copy);
    assert_stored(&place.stored("x.blp"), &after);
    assert_content(&place.join("x.blp/data"), &after);
}

fn what_is_emptied_and_closed_is_empty(place: &Place) {
    container(place, "x.blp", &[1; LEN]);
    drop(opened_anew(place));
    assert_stored(&place.stored("x.blp"), &[]);
}

/// Of a length that the array cannot have.
fn a_shell_s_redirection_is_told_of_errors(place: &Place) {
    let golden = crate::harness::golden("bloscpack/sources/np-3d.blp");
    std::fs::copy(golden, place.stored("x.blp")).unwrap();
    let mut shell = Command::new("sh");
    // dd reports an error of its close.
    shell
        .arg("-c")
        .arg("printf abc | dd status=none > x.blp/data");
    let ran = run(shell.current_dir(place.path()));
    assert_eq!(ran.code(), Some(1), "{}", ran.stderr);
    assert_eq!(super::hidden(&place.stored("x.blp")), 1, "it is staged");
}
