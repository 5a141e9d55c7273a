//! Files that are only named like containers: what a download, a clone or a transfer as text has
//! put in their place.

use std::path::Path;

use crate::harness::mounted::Mounted;
use crate::harness::process::{Ran, arrayfs};
use crate::harness::scratch_directory;
use crate::harness::writers::Bloscpack;

const HTML: &[u8] = b"<!DOCTYPE html>\n<html><title>Log in</title></html>\n";
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n";

/// Name, content, and what is said of it.
const LOOKALIKES: [(&str, &[u8], &str); 8] = [
    ("login.h5", HTML, "looks like HTML"),
    ("pointer.nc", LFS, "Git LFS pointer"),
    ("packed.h5ad", b"\x1f\x8b\x08\0\0\0\0\0", "looks like gzip"),
    ("empty.hdf5", b"", "it is empty"),
    ("text.h5", b"\x89HDF\n\x1a\n\0\0\0\0\0", "text mode of FTP"),
    ("old.hdf5", b"\x0e\x03\x13\x01\0\0", "HDF4"),
    ("page.blp", HTML, "not a Bloscpack file: it looks like HTML"),
    ("empty.dbdf", b"", "not a DAPHNE file: it is empty"),
];

fn source() -> tempfile::TempDir {
    let source = scratch_directory();
    for (name, content, _) in LOOKALIKES {
        std::fs::write(source.path().join(name), content).unwrap();
    }
    Bloscpack::default().write(&source.path().join("good.blp"), b"0123456789");
    std::fs::write(source.path().join("page.html"), HTML).unwrap();
    source
}

fn command(name: &str, path: &Path) -> Ran {
    arrayfs([Path::new(name), path])
}

#[test]
fn verify_and_ls_name_them_and_end_with_1() {
    let source = source();
    for name in ["verify", "ls"] {
        let ran = command(name, source.path());
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        let said = format!("{}{}", ran.text(), ran.stderr);
        for (lookalike, _, what) in LOOKALIKES {
            let path = source.path().join(lookalike).display().to_string();
            let mut lines = said.lines().filter(|line| line.contains(&path));
            assert!(lines.any(|line| line.contains(what)), "{lookalike}: {said}");
        }
        assert!(!said.contains("page.html"), "{said}");
    }
}

#[test]
fn a_command_that_is_given_one_says_what_it_is() {
    let source = source();
    for (name, _, what) in &LOOKALIKES[..6] {
        for command_name in ["verify", "ls", "info", "show"] {
            let ran = command(command_name, &source.path().join(name));
            ran.failed_saying(1, &[name, what]);
        }
    }
}

#[test]
fn a_mount_shows_files_and_damaged_containers_and_logs_what_they_look_like() {
    let (source, logs) = (source(), scratch_directory());
    let log = logs.path().join("log");
    let mounted = Mounted::new(source.path(), &["rw", &format!("log={}", log.display())]);
    for (name, content, what) in LOOKALIKES {
        match name.ends_with(".blp") || name.ends_with(".dbdf") {
            true => {
                let error = std::fs::read_to_string(mounted.join(name).join("error.txt"));
                assert!(error.unwrap().contains(what), "{name}");
            }
            false => assert_eq!(std::fs::read(mounted.join(name)).unwrap(), content),
        }
    }
    // A program that writes its own file there is not disturbed, nor is one that only begins.
    std::fs::write(mounted.join("new.h5"), HTML).unwrap();
    assert_eq!(std::fs::read(mounted.join("new.h5")).unwrap(), HTML);
    let logged = std::fs::read_to_string(&log).unwrap();
    for (name, content, what) in &LOOKALIKES[..6] {
        let mut lines = logged.lines().filter(|line| line.contains(name));
        let is_told = lines.any(|line| line.contains(" WARN ") && line.contains(what));
        assert_eq!(is_told, !content.is_empty(), "{name}: {logged}");
    }
    assert!(!logged.contains("new.h5"), "{logged}");
}
