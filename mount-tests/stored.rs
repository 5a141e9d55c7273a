//! `views/stored`: the bytes of a container that is one file.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::harness::mounted::Mounted;
use crate::harness::process::nobody_starts;
use crate::harness::python::Written;
use crate::harness::reads::assert_same;
use crate::harness::{copy_directory, golden, scratch_directory, wait_until};

const MATRIX: &str = "m-unpacked-double-col";

#[test]
fn it_has_the_bytes_of_the_file_and_is_listed_among_views() {
    let written = Written::new("groups");
    let source = written.source();
    std::fs::copy(golden("bloscpack/sources/np-3d.blp"), source.join("x.blp")).unwrap();
    copy_directory(&golden("bpcells/sources").join(MATRIX), &source.join("m"));
    let mounted = Mounted::new(&source, &[]);
    for name in ["groups.h5", "x.blp"] {
        let stored = std::fs::read(source.join(name)).unwrap();
        let path = mounted.join(name).join("views/stored");
        assert_same(&path, &std::fs::read(&path).unwrap(), &stored);
        let found = path.metadata().unwrap();
        assert_eq!(found.len(), stored.len() as u64);
        assert_eq!(found.blocks(), (stored.len() as u64).div_ceil(512));
        let listed = std::fs::read_dir(mounted.join(name).join("views")).unwrap();
        let mut names = listed.map(|entry| entry.unwrap().file_name());
        assert!(names.any(|name| name == "stored"), "{name}");
        let write = OpenOptions::new().write(true).open(&path);
        assert!(write.is_err(), "{name}");
    }
    let missing = File::open(mounted.join("m/views/stored")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn it_follows_what_is_stored_and_not_what_is_staged() {
    let source = scratch_directory();
    let container = source.path().join("x.blp");
    std::fs::copy(golden("bloscpack/sources/np-3d.blp"), &container).unwrap();
    let mounted = Mounted::new(source.path(), &["rw"]);
    let path = mounted.join("x.blp/views/stored");
    let before = std::fs::read(&path).unwrap();
    assert_same(&path, &before, &std::fs::read(&container).unwrap());
    for round in 1..4u8 {
        let nobody_starts = nobody_starts();
        let stored = std::fs::read(&container).unwrap();
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .open(mounted.join("x.blp/data"))
            .unwrap();
        file.write_all_at(&[round; 100], 0).unwrap();
        assert_same(&path, &std::fs::read(&path).unwrap(), &stored);
        drop((file, nobody_starts));
        wait_until("it is what is stored now", || {
            let now = std::fs::read(&container).unwrap();
            now != stored && std::fs::read(&path).is_ok_and(|found| found == now)
        });
    }
}
