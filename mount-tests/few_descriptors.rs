//! Commands on more containers than a process may have files open.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, Ran, arrayfs, nobody_starts, run, send};
use crate::harness::scratch_directory;
use crate::harness::writers::{Bloscpack, Matrix};

/// Each of the matrices takes about ten descriptors.
const FILES: usize = 150;
const MATRICES: usize = 10;
const DESCRIPTORS: usize = 100;

fn source() -> TempDir {
    let source = scratch_directory();
    for number in 0..FILES {
        Bloscpack::default().write(&source.path().join(name(number)), &[1; 800]);
    }
    for number in 0..MATRICES {
        let matrix = Matrix::random(number as u64, 100);
        matrix.write_packed(&source.path().join(format!("m{number}")));
    }
    source
}

fn name(number: usize) -> String {
    format!("{number:03}.blp")
}

/// With hardly any descriptors.
fn with_few(arguments: &[&str], path: &Path) -> Ran {
    let script = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, ARRAYFS]).args(arguments);
    run(command.arg(path)).success()
}

#[test]
fn listing_and_checking_keep_few_files_open() {
    let source = source();
    let path = source.path();
    let lines = with_few(&["ls"], path).text().lines().count();
    let of_matrices = MATRICES * 6;
    assert_eq!(lines, FILES + of_matrices);
    let all = with_few(&["ls", "--json"], path);
    let all: Vec<serde_json::Value> = serde_json::from_slice(&all.stdout).unwrap();
    assert_eq!(all.len(), FILES + MATRICES);
    let long = with_few(&["ls", "-l"], path).text().lines().count();
    assert_eq!(long, 2 * FILES + MATRICES + of_matrices);
    assert!(with_few(&["verify"], path).text().contains("sound"));
    let none = with_few(&["stage", "ls"], path).text();
    assert!(none.contains("nothing staged"), "{none}");
}

/// Writes to every file, and kills the daemon before any of it is committed.
fn leave_staged(source: &Path) {
    let mounted = Mounted::new(source, &["rw"]);
    let write = |number| -> File {
        let path = mounted.join(name(number)).join("data");
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&[2; 8], 80).unwrap();
        file.sync_all().unwrap();
        file
    };
    // A program that is started closes its copies of the handles, which commits.
    let nobody = nobody_starts();
    let written: Vec<File> = (0..FILES).map(write).collect();
    send(mounted.daemon(), Signal::KILL);
    drop(nobody);
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    drop(written);
}

#[test]
fn what_is_staged_is_settled_with_few_files_open() {
    let source = source();
    let path = source.path();
    leave_staged(path);
    let listed = with_few(&["stage", "ls"], path).text();
    assert_eq!(listed.lines().count(), FILES, "{listed}");
    let committed = with_few(&["stage", "commit"], path).text();
    assert_eq!(committed.lines().count(), FILES, "{committed}");
    let stored = arrayfs([
        "cat".as_ref(),
        path.join(name(FILES - 1)).as_os_str(),
        "data".as_ref(),
    ]);
    assert_eq!(
        &stored.success().stdout[72..96],
        [[1; 8], [2; 8], [1; 8]].as_flattened()
    );
    leave_staged(path);
    let discarded = with_few(&["stage", "discard"], path).text();
    assert_eq!(discarded.lines().count(), FILES, "{discarded}");
}
