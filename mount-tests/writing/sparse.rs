//! Space that is allocated, given back and not there: fallocate, holes, copies of ranges.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{FallocateFlags, copy_file_range, fallocate, seek};
use rustix::io::Errno;

use crate::harness::place::{Place, scenarios};
use crate::harness::reads::{assert_content, assert_same};
use crate::harness::seeded::Seeded;
use crate::harness::wait_until;
use crate::harness::writers::Bloscpack;

scenarios![
    everywhere
    space_is_allocated_with_and_without_a_length,
    zeroing_writes_zeros,
    ranges_are_copied,
    fallocate_refuses_what_it_should;
    but
    a_punched_hole_gives_its_space_back,
    holes_are_found,
];

const MIB: u64 = 1 << 20;

fn create(place: &Place, name: &str) -> File {
    let mut options = File::options();
    let options = options.read(true).write(true).create_new(true);
    options.open(place.join(name)).unwrap()
}

/// Length, and whether there is space for so many bytes.
fn stored(place: &Place, name: &str, space: u64) -> (u64, bool) {
    let metadata = place.stored(name).metadata().unwrap();
    (metadata.len(), metadata.blocks() * 512 >= space)
}

fn space_is_allocated_with_and_without_a_length(place: &Place) {
    let file = create(place, "file");
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, MIB).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
    assert_eq!(stored(place, "file", MIB), (0, true));
    fallocate(&file, FallocateFlags::empty(), MIB, MIB).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2 * MIB);
    assert_eq!(stored(place, "file", 2 * MIB), (2 * MIB, true));
    assert!(file.metadata().unwrap().blocks() * 512 >= 2 * MIB);
    assert_content(&place.join("file"), &vec![0; 2 << 20]);
}

fn a_punched_hole_gives_its_space_back(place: &Place) {
    let file = create(place, "file");
    let mut expected = Seeded::new(1).noise(4 << 20);
    file.write_all_at(&expected, 0).unwrap();
    file.sync_all().unwrap();
    let before = place.stored("file").metadata().unwrap().blocks();
    // Read before, so that the kernel holds the pages.
    assert_content(&place.join("file"), &expected);
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for (at, len) in [(MIB, 2 * MIB), (100, 5), (4000, 200), (4 * MIB - 10, 4096)] {
        fallocate(&file, flags, at, len).unwrap();
        let end = ((at + len) as usize).min(expected.len());
        expected[at as usize..end].fill(0);
        assert_content(&place.join("file"), &expected);
        assert_content(&place.stored("file"), &expected);
    }
    let after = place.stored("file").metadata().unwrap().blocks();
    assert!(
        after * 512 + MIB < before * 512,
        "{before} and {after} blocks"
    );
}

fn zeroing_writes_zeros(place: &Place) {
    let file = create(place, "file");
    file.write_all_at(&[7; 10_000], 0).unwrap();
    let zero = FallocateFlags::ZERO_RANGE;
    if fallocate(&file, zero, 100, 300) == Err(Errno::OPNOTSUPP) {
        return eprintln!("not tested, the file system cannot zero ranges");
    }
    fallocate(&file, zero | FallocateFlags::KEEP_SIZE, 9000, 5000).unwrap();
    let mut expected = vec![7; 10_000];
    expected[100..400].fill(0);
    expected[9000..].fill(0);
    assert_content(&place.join("file"), &expected);
    fallocate(&file, zero, 9500, 5000).unwrap();
    expected.resize(14_500, 0);
    assert_content(&place.join("file"), &expected);
    assert_content(&place.stored("file"), &expected);
}

fn holes_are_found(place: &Place) {
    let file = create(place, "file");
    file.write_all_at(&[1; 65536], MIB).unwrap();
    file.set_len(3 * MIB).unwrap();
    file.sync_all().unwrap();
    // While it is open for writing a mounted one reports none, and it hears of the end of that
    // after the close.
    drop(file);
    let mut file = File::open(place.join("file")).unwrap();
    wait_until("its holes are told", || {
        seek(&file, rustix::fs::SeekFrom::Hole(0)) == Ok(0)
    });
    let end = MIB + 65536;
    for (whence, expected) in [
        (rustix::fs::SeekFrom::Hole(0), Ok(0)),
        (rustix::fs::SeekFrom::Data(0), Ok(MIB)),
        (rustix::fs::SeekFrom::Data(MIB + 5), Ok(MIB + 5)),
        (rustix::fs::SeekFrom::Hole(MIB), Ok(end)),
        (rustix::fs::SeekFrom::Data(end), Err(Errno::NXIO)),
        (rustix::fs::SeekFrom::Hole(2 * MIB), Ok(2 * MIB)),
        (rustix::fs::SeekFrom::Hole(3 * MIB), Err(Errno::NXIO)),
    ] {
        assert_eq!(seek(&file, whence), expected, "{whence:?}");
    }
    assert_eq!(file.seek(SeekFrom::End(-5)).unwrap(), 3 * MIB - 5);
}

fn ranges_are_copied(place: &Place) {
    let (from, to) = (create(place, "from"), create(place, "to"));
    let content = Seeded::new(2).noise(300_000);
    from.write_all_at(&content, 0).unwrap();
    to.write_all_at(&[9; 1000], 0).unwrap();
    let copied = copy(&from, 10, &to, 500, content.len());
    assert_eq!(copied, content.len() - 10, "to the end");
    let expected = [&[9; 500][..], &content[10..]].concat();
    assert_content(&place.join("to"), &expected);
    assert_content(&place.stored("to"), &expected);
    // Within one file.
    assert_eq!(copy(&from, 0, &from, 290_000, 20_000), 20_000);
    let mut found = vec![0; 20_000];
    from.read_exact_at(&mut found, 290_000).unwrap();
    assert_same("from", &found, &content[..20_000]);
    let mut at = (0, 10);
    let overlapping = copy_file_range(&from, Some(&mut at.0), &from, Some(&mut at.1), 100);
    assert_eq!(overlapping, Err(Errno::INVAL));
    let to_be_read = File::open(place.join("to")).unwrap();
    assert_eq!(
        copy_file_range(&from, None, to_be_read, None, 100),
        Err(Errno::BADF)
    );
}

/// Calls until nothing more is copied.
fn copy(from: &File, mut at: u64, to: &File, mut to_at: u64, mut len: usize) -> usize {
    let mut copied = 0;
    while len > 0 {
        match copy_file_range(from, Some(&mut at), to, Some(&mut to_at), len).unwrap() {
            0 => break,
            n => (copied, len) = (copied + n, len - n),
        }
    }
    copied
}

fn fallocate_refuses_what_it_should(place: &Place) {
    let file = create(place, "file");
    let nothing = FallocateFlags::empty();
    assert_eq!(fallocate(&file, nothing, 0, 0), Err(Errno::INVAL));
    let to_be_read = File::open(place.join("file")).unwrap();
    assert_eq!(fallocate(to_be_read, nothing, 0, 10), Err(Errno::BADF));
    let far = fallocate(&file, FallocateFlags::KEEP_SIZE, i64::MAX as u64 - 10, 5);
    assert_eq!(far, Err(Errno::FBIG));
    assert_eq!(file.metadata().unwrap().len(), 0);
    if place.is_mounted() {
        let collapse = FallocateFlags::COLLAPSE_RANGE;
        assert_eq!(fallocate(&file, collapse, 0, 4096), Err(Errno::OPNOTSUPP));
    }
}

#[test]
fn ranges_of_arrays_are_copied_into_files() {
    let place = Place::mounted(&[]);
    let content = Seeded::new(3).rising(500_000);
    Bloscpack::default().write(&place.stored("x.blp"), &content);
    let from = File::open(place.join("x.blp/data")).unwrap();
    let to = create(&place, "file");
    assert_eq!(
        copy(&from, 1000, &to, 5, content.len()),
        content.len() - 1000
    );
    let expected = [&[0; 5], &content[1000..]].concat();
    assert_content(&place.join("file"), &expected);
    assert_content(&place.stored("file"), &expected);
    let len = content.len() as u64;
    assert_eq!(seek(&from, rustix::fs::SeekFrom::Hole(5)), Ok(len));
    assert_eq!(seek(&from, rustix::fs::SeekFrom::Data(5)), Ok(5));
}
