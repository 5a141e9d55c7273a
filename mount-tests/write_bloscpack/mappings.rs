//! Shared mappings of arrays: what is written to them is shown, synced and committed.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memmap2::MmapMut;

use super::{assert_stored, both_ways, container, either_way};
use crate::harness::place::Place;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, assert_same};
use crate::harness::seeded::Seeded;

both_ways![
    what_is_written_to_a_mapping_is_committed_when_it_ends,
    a_mapping_goes_on_while_others_commit,
];
either_way![
    a_synced_mapping_is_shown_past_the_page_cache,
    who_only_writes_and_who_maps_see_each_other,
    numpy_writes_through_mappings,
];

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

fn map(file: &File) -> MmapMut {
    // SAFETY: nobody makes the file shorter.
    unsafe { MmapMut::map_mut(file) }.unwrap()
}

/// The handle is closed long before the mapping ends.
fn what_is_written_to_a_mapping_is_committed_when_it_ends(place: &Place) {
    let mut expected = Seeded::new(1).rising(300_001);
    container(place, "x.blp", &expected);
    let path = &place.join("x.blp/data");
    for round in 0..3u8 {
        let file = open(path);
        let mut mapped = map(&file);
        drop(file);
        for at in [0, 70_000, 299_990] {
            mapped[at..at + 10].fill(round + 1);
            expected[at..at + 10].fill(round + 1);
        }
        assert_content(path, &expected);
        drop(mapped);
        assert_content(path, &expected);
        assert_stored(&place.stored("x.blp"), &expected);
    }
}

fn a_mapping_goes_on_while_others_commit(place: &Place) {
    let mut expected = Seeded::new(2).rising(200_000);
    container(place, "x.blp", &expected);
    let path = &place.join("x.blp/data");
    let mut mapped = map(&open(path));
    let mut random = Seeded::new(3);
    for round in 0..20u8 {
        let at = random.below(199_000);
        mapped[at..at + 500].fill(round);
        expected[at..at + 500].fill(round);
        if round % 3 == 0 {
            mapped.flush().unwrap();
        }
        let other = random.below(199_000);
        let writer = open(path);
        writer.write_all_at(b"by a handle", other as u64).unwrap();
        expected[other..other + 11].copy_from_slice(b"by a handle");
        drop(writer);
        assert_same(path, &mapped, &expected);
        assert_content(path, &expected);
    }
    drop(mapped);
    assert_stored(&place.stored("x.blp"), &expected);
}

/// A handle that only writes goes past the page cache, which the mapping has changed and not
/// written.
fn who_only_writes_and_who_maps_see_each_other(place: &Place) {
    let mut expected = Seeded::new(4).rising(100_000);
    container(place, "x.blp", &expected);
    let path = &place.join("x.blp/data");
    // The first open of it goes past the page cache.
    let writer = OpenOptions::new().write(true).open(path).unwrap();
    let mut mapped = map(&open(path));
    let mut random = Seeded::new(5);
    for round in 0..200u8 {
        let at = random.below(99_000);
        mapped[at..at + 10].fill(round);
        expected[at..at + 10].fill(round);
        // Often in the same page, and sometimes the same bytes.
        let near = at.saturating_sub(random.below(30)) + random.below(40);
        writer
            .write_all_at(&[round ^ 0x80; 700], near as u64)
            .unwrap();
        expected[near..near + 700].fill(round ^ 0x80);
        assert_same(path, &mapped, &expected);
        // Out of another mapping of the same pages.
        let from = random.below(90_000);
        writer.write_all_at(&mapped[from..from + 5000], 20).unwrap();
        expected.copy_within(from..from + 5000, 20);
        assert_same(path, &mapped, &expected);
    }
    drop((mapped, writer));
    let mut appending = OpenOptions::new();
    let mut appending = appending.append(true).open(path).unwrap();
    for part in 0..20u8 {
        appending.write_all(&[part; 999]).unwrap();
        expected.extend([part; 999]);
        assert_content(path, &expected);
    }
    drop(appending);
    assert_stored(&place.stored("x.blp"), &expected);
}

fn a_synced_mapping_is_shown_past_the_page_cache(place: &Place) {
    let mut expected = Seeded::new(4).rising(100_000);
    container(place, "x.blp", &expected);
    let path = &place.join("x.blp/data");
    let mut mapped = map(&open(path));
    for at in [5, 50_000, 99_999] {
        mapped[at] ^= 0xff;
        expected[at] ^= 0xff;
        mapped.flush().unwrap();
        let found = crate::harness::reads::read_direct(path, 0, expected.len()).unwrap();
        assert_same(path, &found, &expected);
    }
    drop(mapped);
    assert_stored(&place.stored("x.blp"), &expected);
}

fn numpy_writes_through_mappings(place: &Place) {
    container(place, "x.blp", &[0; 80_000]);
    let path = &place.join("x.blp/data");
    let numbers = |first: i64, count: i64| -> Vec<u8> {
        (first..first + count).flat_map(i64::to_le_bytes).collect()
    };
    // `w+` makes the file anew, with another length.
    for (mode, first, count) in [
        ("r+", 100, 10_000),
        ("w+", 7, 25_000),
        ("w+", 9, 10),
        ("r+", 1, 10),
    ] {
        let (first_text, count_text) = (first.to_string(), count.to_string());
        let arguments = [
            "memmap",
            mode,
            path.to_str().unwrap(),
            &first_text,
            &count_text,
        ];
        script("oracle_bloscpack.py", arguments).success();
        assert_content(path, &numbers(first, count));
        assert_stored(&place.stored("x.blp"), &numbers(first, count));
    }
}
