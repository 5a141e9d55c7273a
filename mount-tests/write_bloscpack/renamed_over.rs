//! Files that take the place of an array, and commits that change what follows from arrays: no page
//! of the old content is left when the request has been answered, for a reader, and for a program
//! that maps the array and changes a byte.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapMut;

use super::container;
use crate::harness::place::{Place, open_directory};
use crate::harness::reads::{assert_content, assert_same, read_direct, xattr};
use crate::harness::seeded::Seeded;
use crate::harness::writers::Matrix;

const ROUNDS: usize = 60;

/// Of the arrays: some pages.
const LEN: usize = 80_000;

fn map(path: &Path) -> MmapMut {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(path).unwrap();
    // SAFETY: nobody makes the file shorter.
    unsafe { MmapMut::map_mut(&file) }.unwrap()
}

/// Reads the array again and again, so that the kernel always has pages of it.
fn read_on(path: &Path, until: &AtomicBool) {
    let (file, mut found) = (File::open(path).unwrap(), vec![0; LEN]);
    while !until.load(Ordering::Acquire) {
        file.read_exact_at(&mut found, 0).unwrap();
    }
}

/// One byte is changed through a mapping that is made after the rename; in every second round, one
/// was changed before it.
fn replace_and_change(place: &Place, path: &Path, random: &mut Seeded) {
    let new = &place.join("new");
    for round in 0..ROUNDS {
        let mut expected = random.noise(LEN);
        std::fs::write(new, &expected).unwrap();
        let mut old = map(path);
        if round % 2 == 0 {
            old[random.below(LEN)] ^= 0xff;
        }
        std::fs::rename(new, path).unwrap();
        let mut mapped = map(path);
        let at = random.below(LEN);
        mapped[at] ^= 0xff;
        expected[at] ^= 0xff;
        mapped.flush().unwrap();
        drop((mapped, old));
        assert_content(path, &expected);
        let told = read_direct(path, 0, LEN).unwrap();
        assert_same(path, &told, &expected);
    }
}

fn no_old_page_comes_back(place: &Place, path: &Path) {
    let (done, random) = (AtomicBool::new(false), &mut Seeded::new(1));
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| read_on(path, &done));
        let replaced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            replace_and_change(place, path, random)
        }));
        done.store(true, Ordering::Release);
        reader.join().unwrap();
        replaced.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn no_page_of_a_replaced_array_of_a_file_comes_back() {
    for way in ["commit=replace", "commit=inplace"] {
        let place = Place::mounted(&[way]);
        container(&place, "x.blp", &vec![1; LEN]);
        no_old_page_comes_back(&place, &place.join("x.blp/data"));
    }
}

#[test]
fn no_page_of_a_replaced_array_of_a_directory_comes_back() {
    let source = open_directory();
    Matrix::random(1, LEN / 4).write_packed(&source.path().join("m"));
    let place = Place::over(source, &[]);
    no_old_page_comes_back(&place, &place.join("m/val"));
}

/// An array that can be written, and the directory that its container lies in.
fn with_array(check: impl Fn(&Place, &Path)) {
    let place = Place::mounted(&[]);
    container(&place, "x.blp", &vec![1; LEN]);
    check(&place, &place.join("x.blp/data"));
    let source = open_directory();
    Matrix::random(1, LEN / 4).write_packed(&source.path().join("m"));
    let place = Place::over(source, &[]);
    check(&place, &place.join("m/val"));
}

/// The file is still open when it takes the array's place: the array's name leads to the array at
/// once, for writers, readers, and commands that go by the name.
#[test]
fn the_name_leads_to_the_array_while_the_file_is_still_open() {
    with_array(|place, path| {
        let mut expected = Seeded::new(2).noise(LEN);
        let new = place.join("new");
        std::fs::write(&new, &expected).unwrap();
        let held = OpenOptions::new().read(true).write(true).open(&new);
        std::fs::rename(&new, path).unwrap();
        let written = OpenOptions::new().write(true).open(path).unwrap();
        written.write_all_at(b"written by name", 5000).unwrap();
        drop(written);
        expected[5000..5015].copy_from_slice(b"written by name");
        assert_content(path, &expected);
        drop(held);
        assert_content(path, &expected);
        assert_same(path, &read_direct(path, 0, LEN).unwrap(), &expected);
    });
}

/// As on other file systems a name says nothing of a descriptor: what is written to the file that
/// has become the array is the array's, through a mapping too.
#[test]
fn descriptors_of_the_file_write_to_the_array_that_it_has_become() {
    with_array(|place, path| {
        let mut expected = Seeded::new(3).noise(LEN);
        let new = place.join("new");
        std::fs::write(&new, &expected).unwrap();
        let held = OpenOptions::new().read(true).write(true).open(&new);
        let (held, mut mapped) = (held.unwrap(), map(&new));
        std::fs::rename(&new, path).unwrap();
        // Other programs have pages of the array by now.
        assert_content(path, &expected);
        held.write_all_at(b"after", 70_000).unwrap();
        let mut read = [0; 5];
        File::open(path)
            .unwrap()
            .read_exact_at(&mut read, 70_000)
            .unwrap();
        assert_eq!(&read, b"after");
        mapped[9_000] ^= 0xff;
        mapped.flush().unwrap();
        held.sync_all().unwrap();
        assert_eq!(held.metadata().unwrap().len(), LEN as u64);
        drop((held, mapped));
        expected[70_000..70_005].copy_from_slice(b"after");
        expected[9_000] ^= 0xff;
        assert_same(path, &read_direct(path, 0, LEN).unwrap(), &expected);
        assert_content(path, &expected);
    });
}

/// The other name of the file keeps the file with what its descriptors write, and the array's leads
/// to the array.
#[test]
fn a_file_of_two_names_is_kept_under_the_other() {
    with_array(|place, path| {
        let old = Seeded::new(4).noise(LEN);
        let (new, other) = (place.join("new"), place.join("other"));
        std::fs::write(&new, &old).unwrap();
        std::fs::hard_link(&new, &other).unwrap();
        let held = OpenOptions::new().write(true).open(&other).unwrap();
        std::fs::rename(&new, path).unwrap();
        let written = OpenOptions::new().write(true).open(path).unwrap();
        written.write_all_at(b"array", 0).unwrap();
        drop(written);
        held.write_all_at(b"other", 0).unwrap();
        drop(held);
        assert_content(&other, &[b"other", &old[5..]].concat());
        assert_content(path, &[b"array", &old[5..]].concat());
        std::fs::write(&other, b"the file").unwrap();
        assert_content(&other, b"the file");
        assert_content(path, &[b"array", &old[5..]].concat());
    });
}

/// Handles from before and new ones show what follows from an array as soon as the close that
/// commits the array has returned.
#[test]
fn what_follows_from_an_array_is_shown_when_the_close_returns() {
    const FRAGMENTS: usize = 5000;
    let place = Place::mounted(&[]);
    let directory = place.join("f.bpcells");
    let write = |name: &str, bytes: &[u8]| std::fs::write(directory.join(name), bytes).unwrap();
    let numbers = |number: u32| number.to_le_bytes().repeat(FRAGMENTS);
    std::fs::create_dir(&directory).unwrap();
    write("version", b"packed-fragments-v2\n");
    write("cell", &numbers(0));
    write("start", &numbers(1));
    write("end", &numbers(2));
    let pointers = [0u64, FRAGMENTS as u64];
    write("chr_ptr", &pointers.map(u64::to_le_bytes).concat());
    write("cell_names", b"one\n");
    write("chr_names", b"one\n");
    File::open(&directory).unwrap().sync_all().unwrap();
    let path = &directory.join("end_max");
    let held = File::open(path).unwrap();
    let mut before = std::fs::read(path).unwrap();
    for round in 3..3 + ROUNDS as u32 {
        let mut options = OpenOptions::new();
        let end = options.write(true).open(directory.join("end")).unwrap();
        end.write_all_at(&numbers(round), 0).unwrap();
        drop(end);
        assert_eq!(xattr(&directory, "user.arrayfs.state").unwrap(), "clean");
        let mut shown = vec![0; before.len()];
        held.read_exact_at(&mut shown, 0).unwrap();
        let told = read_direct(path, 0, before.len()).unwrap();
        assert_ne!(told, before);
        assert_same(path, &shown, &told);
        before = told;
    }
}
