//! Archives of programs that leave out holes: `tar -S` reads nothing of a file without blocks, and
//! stores it as one hole. So every file that has bytes has a block, wherever these are: not stored
//! yet, staged, in a mapping, made up, or filled without being stored.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use memmap2::MmapMut;

use crate::harness::mounted::Mounted;
use crate::harness::place::{Place, scenarios};
use crate::harness::process::run;
use crate::harness::python::Written;
use crate::harness::reads::{assert_same, walk};
use crate::harness::seeded::Seeded;
use crate::harness::tools::tools;
use crate::harness::{golden, scratch_directory};

scenarios![
    everywhere
    what_is_still_open_was_just_closed_or_is_mapped_is_archived,
    a_hole_stays_one,
];

/// What `tar -S` stores of a file.
#[track_caller]
fn archived(file: &Path) -> Vec<u8> {
    let directory = scratch_directory();
    let archive = directory.path().join("archive.tar");
    let (above, name) = (file.parent().unwrap(), file.file_name().unwrap());
    let mut pack = Command::new("tar");
    pack.arg("-C").arg(above).arg("-Scf").arg(&archive);
    run(pack.arg(name)).success();
    let mut unpack = Command::new("tar");
    unpack.arg("-C").arg(directory.path()).arg("-xf");
    run(unpack.arg(&archive)).success();
    std::fs::read(directory.path().join(name)).unwrap()
}

#[track_caller]
fn assert_archived(file: &Path, content: &[u8]) {
    assert_same(file, &archived(file), content);
}

fn what_is_still_open_was_just_closed_or_is_mapped_is_archived(place: &Place) {
    if !tools(&["tar"]) {
        return;
    }
    let mut random = Seeded::new(11);
    for (name, len) in [("short", 5), ("page", 4096), ("long", 700_000)] {
        let (content, path) = (random.noise(len), place.join(name));
        let open = File::create_new(&path).unwrap();
        open.write_all_at(&content, 0).unwrap();
        assert_archived(&path, &content);
        drop(open);
        assert_archived(&path, &content);
    }
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true);
    let file = options.open(place.join("mapped")).unwrap();
    file.set_len(300_000).unwrap();
    // The kernel has its bytes, and nobody else.
    // SAFETY: nobody makes the file shorter.
    let mut mapping = unsafe { MmapMut::map_mut(&file) }.unwrap();
    let content = random.noise(300_000);
    mapping.copy_from_slice(&content);
    assert_archived(&place.join("mapped"), &content);
}

fn a_hole_stays_one(place: &Place) {
    if !tools(&["tar"]) {
        return;
    }
    let path = place.join("hole");
    File::create_new(&path).unwrap().set_len(3 << 20).unwrap();
    assert!(path.metadata().unwrap().blocks() < 100);
    assert_archived(&path, &vec![0; 3 << 20]);
}

#[test]
fn what_containers_show_and_do_not_store_is_archived() {
    if !tools(&["tar"]) {
        return;
    }
    let written = Written::new("storage");
    let mounted = Mounted::new(written.source(), &["rw"]);
    let container = mounted.join("storage.h5");
    // Filled without being stored.
    for (name, fill) in [("never", 9u16), ("never-contiguous", 11)] {
        let content = fill.to_le_bytes().repeat(7000);
        assert_archived(&container.join(name), &content);
    }
    for name in ["arrays.json", "views/gzip.npy", "views/never.npy"] {
        let path = container.join(name);
        let content = std::fs::read(&path).unwrap();
        assert!(content.iter().any(|byte| *byte != 0), "{name}");
        assert_archived(&path, &content);
    }
    // Staged, and not committed before the close; then mapped.
    let path = container.join("never");
    let file = OpenOptions::new().read(true).write(true).open(&path);
    let file = file.unwrap();
    let mut content = 9u16.to_le_bytes().repeat(7000);
    file.write_all_at(&[5; 1000], 3000).unwrap();
    content[3000..4000].fill(5);
    assert_archived(&path, &content);
    // SAFETY: nobody makes the file shorter.
    let mut mapping = unsafe { MmapMut::map_mut(&file) }.unwrap();
    mapping[8000..9000].fill(6);
    content[8000..9000].fill(6);
    assert_archived(&path, &content);
    assert_archived(&container.join("views/never.npy"), &{
        let view = std::fs::read(container.join("views/never.npy")).unwrap();
        assert!(view.ends_with(&content[9000..]));
        view
    });
}

/// Every format's containers, with their views, and what lies beside them.
#[test]
fn whatever_has_bytes_has_a_block() {
    let mounted = Mounted::new(golden(""), &["ro", "views"]);
    let (files, failures) = walk(mounted.path());
    assert!(failures.is_empty() && files.len() > 1000, "{failures:?}");
    for file in files {
        let found = file.symlink_metadata().unwrap();
        assert!(found.blocks() > 0 || found.len() == 0, "{}", file.display());
    }
}
