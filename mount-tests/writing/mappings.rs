//! Shared mappings of files that others change in the source, and what seeks and listings say of
//! files whose mappings are dirty.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use memmap2::{Mmap, MmapMut};
use rustix::fs::{SeekFrom, seek};

use crate::harness::place::{Place, scenarios};
use crate::harness::{wait_until, within_patience};

scenarios![
    everywhere
    a_mapping_reaches_what_others_append,
    no_hole_is_told_where_a_mapping_has_bytes,
    many_files_with_dirty_mappings_change_at_once,
];

const PAGE: usize = 4096;

fn read_write(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).unwrap()
}

/// As far as the size says: a page behind what the kernel holds for the end would be SIGBUS.
fn a_mapping_reaches_what_others_append(place: &Place) {
    std::fs::write(place.stored("file"), [b'a'; PAGE]).unwrap();
    let file = read_write(&place.join("file"));
    let mut page = [0; PAGE];
    file.read_exact_at(&mut page, 0).unwrap();
    for round in 1..4 {
        let more = File::options().write(true).open(place.stored("file"));
        let at = (round * PAGE) as u64;
        more.unwrap()
            .write_all_at(&[b'a' + round as u8; PAGE], at)
            .unwrap();
        let len = (round + 1) * PAGE;
        wait_until("the file has grown", || {
            file.metadata().unwrap().len() == len as u64
        });
        // SAFETY: nobody makes the file shorter while it is mapped.
        let map = unsafe { Mmap::map(&file) }.unwrap();
        assert_eq!(map.len(), len);
        assert_eq!(map[len - 1], b'a' + round as u8);
    }
}

/// A copy that leaves holes out must not leave out bytes that the kernel has not written yet.
fn no_hole_is_told_where_a_mapping_has_bytes(place: &Place) {
    const AT: usize = 500_000;
    let file = read_write(&place.join("sparse"));
    file.set_len(1 << 20).unwrap();
    // SAFETY: nobody makes the file shorter while it is mapped.
    let mut map = unsafe { MmapMut::map_mut(&file) }.unwrap();
    map[AT] = 1;
    let reader = File::open(place.join("sparse")).unwrap();
    let data = seek(&reader, SeekFrom::Data(0)).unwrap();
    let hole = seek(&reader, SeekFrom::Hole(data)).unwrap();
    assert!(data <= AT as u64 && hole > AT as u64, "{data} {hole}");
}

/// More than there are threads to serve them, and each has pages that must be written out before
/// they are dropped.
fn many_files_with_dirty_mappings_change_at_once(place: &Place) {
    const FILES: usize = 150;
    let dirty = |number: usize| {
        let file = read_write(&place.join(format!("file-{number}")));
        file.set_len(16 * PAGE as u64).unwrap();
        // SAFETY: nobody makes the file shorter while it is mapped.
        let mut map = unsafe { MmapMut::map_mut(&file) }.unwrap();
        (0..16).for_each(|page| map[page * PAGE] = 7);
        (file, map)
    };
    let files: Vec<(File, MmapMut)> = (0..FILES).map(dirty).collect();
    for number in 0..FILES {
        let path = place.stored(format!("file-{number}"));
        let theirs = File::options().write(true).open(path).unwrap();
        theirs.write_all_at(b"x", 16 * PAGE as u64 + 9).unwrap();
    }
    let looking: Vec<_> = files
        .into_iter()
        .map(|(file, map)| {
            move || {
                wait_until("the file has grown", || {
                    file.metadata().unwrap().len() == 16 * PAGE as u64 + 10
                });
                assert!((0..16).all(|page| map[page * PAGE] == 7));
            }
        })
        .collect();
    within_patience("everybody knows", move || {
        let threads: Vec<_> = looking.into_iter().map(std::thread::spawn).collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}
