//! Commands and mounts of more containers than a process may have files open.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, Ran, arrayfs, nobody_starts, run, send};
use crate::harness::reads::{open_direct, read_direct};
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{scratch_directory, wait_until};

/// Each of the matrices takes about ten descriptors.
const FILES: usize = 150;
const MATRICES: usize = 10;
const DESCRIPTORS: usize = 100;

/// Of a daemon, which has about sixteen for itself.
const OF_DAEMON: usize = 40;

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
    // With a line above and one below.
    assert_eq!(long, 2 * FILES + MATRICES + of_matrices + 2);
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

/// A mount whose daemon has hardly any descriptors.
struct MountedWithFew {
    mounted: Mounted,
    _mountpoint: TempDir,
}

fn mounted_with_few(source: &Path) -> MountedWithFew {
    let mountpoint = scratch_directory();
    let script = format!("ulimit -n {OF_DAEMON}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, ARRAYFS, "mount"]);
    command.args(["-o", "rw,slow_commit=600000"]);
    run(command.args([source, mountpoint.path()])).success();
    MountedWithFew {
        mounted: Mounted::adopt(mountpoint.path()),
        _mountpoint: mountpoint,
    }
}

/// Six Bloscpack files and six matrices, and of each the path of an array in it.
fn twelve() -> (TempDir, Vec<PathBuf>) {
    let (source, mut arrays) = (scratch_directory(), Vec::new());
    for number in 0..6 {
        Bloscpack::default().write(&source.path().join(name(number)), &[1; 800]);
        arrays.push(PathBuf::from(name(number)).join("data"));
        let matrix = format!("m{number}");
        Matrix::random(number as u64, 100).write_packed(&source.path().join(&matrix));
        arrays.push(PathBuf::from(matrix).join("val"));
    }
    (source, arrays)
}

const WRITTEN: [u8; 8] = [3, 0, 0, 0, 4, 0, 0, 0];

fn open(path: &Path) -> File {
    let open = OpenOptions::new().read(true).write(true).open(path);
    open.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Whether the source has what was written at this offset, and nothing beside its containers.
fn assert_committed(source: &Path, arrays: &[PathBuf], offset: usize) {
    for array in arrays {
        let container = source.join(array.parent().unwrap());
        let name = array.file_name().unwrap();
        let told = arrayfs(["cat".as_ref(), container.as_os_str(), name]);
        let found = &told.success().stdout[offset..][..8];
        assert_eq!(found, WRITTEN, "{}", array.display());
    }
    let verified = arrayfs(["verify".as_ref(), source.as_os_str()]);
    assert!(verified.success().text().contains("sound"));
    let listed = arrayfs(["stage".as_ref(), "ls".as_ref(), source.as_os_str()]);
    assert!(listed.success().text().contains("nothing staged"));
}

#[test]
fn what_is_staged_of_many_containers_is_committed_by_a_daemon_with_few_descriptors() {
    let (source, arrays) = twelve();
    let place = mounted_with_few(source.path());
    let mounted = &place.mounted;
    // A program that is started closes its copies of the handles, which commits.
    let nobody = nobody_starts();
    let files: Vec<File> = arrays
        .iter()
        .map(|path| open(&mounted.join(path)))
        .collect();
    for (file, path) in files.iter().zip(&arrays) {
        file.write_all_at(&WRITTEN, 80).unwrap();
        file.sync_all()
            .unwrap_or_else(|e| panic!("fsync of {}: {e}", path.display()));
        file.write_all_at(&WRITTEN, 200).unwrap();
    }
    let staged = mounted.status()["staged"].as_array().unwrap().len();
    assert_eq!(staged, arrays.len(), "the test stages nothing");
    for (file, path) in files.iter().zip(&arrays) {
        let mut found = [0; 8];
        file.read_exact_at(&mut found, 200).unwrap();
        assert_eq!(found, WRITTEN, "{}", path.display());
    }
    drop(files);
    drop(nobody);
    wait_until("everything is committed", || {
        mounted.status()["staged"].as_array().unwrap().is_empty()
    });
    assert_committed(source.path(), &arrays, 80);
    assert_committed(source.path(), &arrays, 200);
    drop(place);
    assert_committed(source.path(), &arrays, 200);
}

/// What is staged lies in the log alone, which is closed by the time that it is read.
#[test]
fn a_killed_daemon_with_few_descriptors_loses_nothing_that_was_synced() {
    let (source, arrays) = twelve();
    let MountedWithFew {
        mounted,
        _mountpoint,
    } = mounted_with_few(source.path());
    let nobody = nobody_starts();
    let files: Vec<File> = arrays
        .iter()
        .map(|path| open(&mounted.join(path)))
        .collect();
    for file in files.iter().chain(&files) {
        file.write_all_at(&WRITTEN, 80).unwrap();
        file.sync_all().unwrap();
    }
    send(mounted.daemon(), Signal::KILL);
    drop(nobody);
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    drop(files);
    drop(mounted_with_few(source.path()));
    let committed = with_few(&["stage", "commit"], source.path()).text();
    assert_eq!(committed.lines().count(), arrays.len(), "{committed}");
    assert_committed(source.path(), &arrays, 80);
}

/// The files of what they read are closed and opened again all the time, and commits put others at
/// their places.
#[test]
fn readers_find_the_old_or_the_new_bytes_whatever_is_closed_meanwhile() {
    let (source, arrays) = twelve();
    let place = mounted_with_few(source.path());
    let mounted = &place.mounted;
    let write = |round: u8| {
        for path in &arrays {
            let file = open(&mounted.join(path));
            let bytes = [[round, 0, 0, 0]; 2].concat();
            file.write_all_at(&bytes, 80).unwrap();
        }
    };
    write(1);
    let ended = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for half in arrays.chunks(arrays.len() / 2) {
            let (ended, mounted) = (&ended, &mounted);
            threads.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    for path in half {
                        let found = read_direct(&mounted.join(path), 80, 8);
                        let found = found.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                        assert_eq!(found[..4], found[4..], "{}", path.display());
                    }
                }
            });
        }
        (2..=10).for_each(write);
        ended.store(true, Ordering::Relaxed);
    });
}

/// Each read opens a closed file again, wherever the directory above lies by then.
#[test]
fn files_are_opened_again_while_a_directory_above_is_moved() {
    const MOVES: usize = 500;
    let source = scratch_directory();
    let above = ["here", "there"].map(|name| source.path().join(name));
    std::fs::create_dir(&above[0]).unwrap();
    let names = (0..OF_DAEMON).map(name);
    let names: Vec<String> = names.collect();
    for name in &names {
        Bloscpack::default().write(&above[0].join(name), &[1; 800]);
    }
    let place = mounted_with_few(source.path());
    let moved = ["here", "there"].map(|name| place.mounted.join(name));
    let open = |name| open_direct(&moved[0].join(name).join("views/stored")).unwrap();
    let files: Vec<File> = names.iter().map(open).collect();
    let ended = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 0..MOVES {
                let (from, to) = (&moved[round % 2], &moved[(round + 1) % 2]);
                if let Err(e) = std::fs::rename(from, to) {
                    ended.store(true, Ordering::Relaxed);
                    panic!("{e}");
                }
            }
            ended.store(true, Ordering::Relaxed);
        });
        while !ended.load(Ordering::Relaxed) {
            for (file, name) in files.iter().zip(&names) {
                let mut head = [0; 4];
                file.read_exact_at(&mut head, 0)
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!(&head, b"blpk", "{name}");
            }
        }
    });
}
