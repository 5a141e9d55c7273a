//! What commands ask of a daemon, by a path in its mount or in its source: to commit, to discard,
//! to look again.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::process::{Ran, arrayfs};
use crate::harness::reads::{assert_same, xattr};
use crate::harness::{golden, scratch_directory, wait_until};

/// Whole rows of `float64` alone are stored.
fn numpy() -> (TempDir, Mounted, Vec<u8>) {
    let source = scratch_directory();
    let from = golden("bloscpack/sources/np-3d.blp");
    std::fs::copy(from, source.path().join("x.blp")).unwrap();
    let mounted = Mounted::new(source.path(), &["rw"]);
    let plain = std::fs::read(mounted.join("x.blp/data")).unwrap();
    (source, mounted, plain)
}

fn stage(what: &str, path: &Path) -> Ran {
    arrayfs(["stage".as_ref(), what.as_ref(), path.as_os_str()])
}

fn listed(path: &Path) -> Value {
    let told = arrayfs([
        "stage".as_ref(),
        "ls".as_ref(),
        "--json".as_ref(),
        path.as_os_str(),
    ]);
    serde_json::from_slice(&told.success().stdout).unwrap()
}

fn row(mounted: &Mounted, plain: &[u8]) -> usize {
    let shape = xattr(&mounted.join("x.blp/data"), "user.arrayfs.shape").unwrap();
    let shape: Vec<usize> = serde_json::from_str(&shape).unwrap();
    plain.len() / shape[0]
}

#[test]
fn stage_commits_what_a_mount_has_staged() {
    let (source, mounted, plain) = numpy();
    let row = row(&mounted, &plain);
    let stored = std::fs::read(source.path().join("x.blp")).unwrap();
    let mut expected = plain;
    let file = OpenOptions::new()
        .write(true)
        .open(mounted.join("x.blp/data"))
        .unwrap();
    file.write_all_at(b"more", expected.len() as u64).unwrap();
    for root in [mounted.path(), source.path()] {
        for path in [root.to_owned(), root.join("x.blp"), root.join("x.blp/data")] {
            let said = stage("commit", &path);
            let container = root.join("x.blp");
            said.failed_saying(1, &[container.to_str().unwrap(), "stays staged: ", "rows"]);
            let told = listed(&path);
            assert_eq!(told.as_array().unwrap().len(), 1, "{told}");
            assert_eq!(told[0]["path"], container.to_str().unwrap());
            let state = told[0]["state"].as_str().unwrap();
            assert!(
                state.starts_with("staged: ") && state.contains("rows"),
                "{state}"
            );
        }
    }
    assert!(std::fs::read(source.path().join("x.blp")).unwrap() == stored);
    expected.extend_from_slice(b"more");
    file.write_all_at(&vec![3; row - 4], expected.len() as u64)
        .unwrap();
    expected.resize(expected.len() + row - 4, 3);
    let said = stage("commit", &source.path().join("x.blp/data"))
        .success()
        .text();
    assert!(said.contains("x.blp: committed"), "{said}");
    assert!(std::fs::read(source.path().join("x.blp")).unwrap() != stored);
    assert_same(
        "data",
        &std::fs::read(mounted.join("x.blp/data")).unwrap(),
        &expected,
    );
    for path in [mounted.path(), source.path()] {
        assert!(
            stage("commit", path)
                .success()
                .text()
                .contains("nothing staged")
        );
        assert_eq!(listed(path), Value::Array(vec![]));
    }
    drop(file);
}

#[test]
fn stage_discards_what_a_mount_has_staged() {
    let (source, mounted, plain) = numpy();
    let data = mounted.join("x.blp/data");
    for path in [mounted.join("x.blp"), source.path().join("x.blp/data")] {
        let file = OpenOptions::new().write(true).open(&data).unwrap();
        file.write_all_at(b"changed", 0).unwrap();
        file.write_all_at(b"more", plain.len() as u64).unwrap();
        stage("discard", &path).failed_saying(1, &["open for writing"]);
        drop(file);
        wait_until("nobody has it open for writing", || {
            stage("discard", &path).code() == Some(0)
        });
        wait_until("what is stored is shown", || {
            std::fs::read(&data).unwrap() == plain
        });
        assert_eq!(data.metadata().unwrap().len(), plain.len() as u64);
        let state = xattr(&mounted.join("x.blp"), "user.arrayfs.state").unwrap();
        assert_eq!(state, "clean");
        assert!(
            stage("discard", &path)
                .success()
                .text()
                .contains("nothing staged")
        );
    }
    // It can be written as before.
    let file = OpenOptions::new().write(true).open(&data).unwrap();
    file.write_all_at(b"changed", 0).unwrap();
    drop(file);
    stage("commit", mounted.path()).success();
    let container = source.path().join("x.blp");
    let cat = ["cat".as_ref(), container.as_os_str(), "data".as_ref()];
    let stored = arrayfs(cat).success().stdout;
    assert_same("data", &stored, &[b"changed", &plain[7..]].concat());
}

#[test]
fn refresh_looks_again_into_what_was_written() {
    let source = scratch_directory();
    let mounted = Mounted::new(source.path(), &["rw"]);
    let bytes = std::fs::read(golden("bloscpack/sources/np-3d.blp")).unwrap();
    let refresh = |path: &Path| arrayfs([Path::new("refresh"), path]);
    std::fs::create_dir(mounted.join("deep")).unwrap();
    for (name, asked) in [
        ("one.bin", mounted.join("one.bin")),
        ("two.bin", source.path().join("two.bin")),
        ("deep/three.bin", mounted.join("deep")),
        ("deep/four.bin", mounted.path().to_owned()),
    ] {
        let path = mounted.join(name);
        let mut file = File::create(&path).unwrap();
        file.write_all(&bytes).unwrap();
        refresh(&path).failed_saying(1, &["open for writing"]);
        drop(file);
        assert!(path.is_file(), "{name}");
        wait_until("nobody has it open for writing", || {
            refresh(&asked).code() == Some(0)
        });
        wait_until("it is shown as a container", || path.join("data").is_file());
        assert_eq!(xattr(&path, "user.arrayfs.format").unwrap(), "bloscpack");
    }
    refresh(&mounted.join("none")).failed_saying(1, &["none"]);
    let elsewhere = scratch_directory();
    refresh(elsewhere.path()).failed_saying(1, &["in no arrayfs mount"]);
}
