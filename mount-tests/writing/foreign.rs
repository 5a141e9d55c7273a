//! The source changes underneath a writable mount: readers that have a file open follow, the next
//! open is right, and what is open here goes on.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::harness::place::{Place, scenarios};
use crate::harness::reads::assert_content;
use crate::harness::seeded::Seeded;
use crate::harness::wait_until;

scenarios![
    a_reader_follows_what_others_append,
    a_rewrite_of_the_same_length_shows_at_the_next_open,
    what_is_written_here_is_kept_when_others_write_elsewhere,
    names_that_others_make_and_remove_show,
    handles_outlive_what_others_do_to_names,
    both_sides_append,
    a_file_that_others_cut_is_short_here,
    a_file_has_its_length_at_the_next_open,
];

fn write_in_source(place: &Place, name: &str, content: &[u8]) {
    let path = place.stored(name);
    let before = path
        .metadata()
        .ok()
        .and_then(|metadata| metadata.modified().ok());
    // Clocks of file systems tick coarsely; as long as the time is the same nobody could see a
    // change.
    wait_until("the time of change has moved on", || {
        std::fs::write(&path, content).unwrap();
        path.metadata().unwrap().modified().ok() != before
    });
}

fn append_in_source(place: &Place, name: &str, content: &[u8]) {
    let mut file = OpenOptions::new()
        .append(true)
        .open(place.stored(name))
        .unwrap();
    file.write_all(content).unwrap();
}

/// Whatever the size says is there can be read, and none of it is zeros.
fn a_reader_follows_what_others_append(place: &Place) {
    std::fs::write(place.join("log"), "start\n").unwrap();
    let reader = File::open(place.join("log")).unwrap();
    let mut expected = b"start\n".to_vec();
    let mut random = Seeded::new(1);
    for round in 0..8 {
        // Lengths that end within a page, so that a page that is held grows.
        let line = [b'a' + round, b'\n'].repeat(1 + random.below(3000));
        append_in_source(place, "log", &line);
        expected.extend(&line);
        wait_until("the reader sees the whole line", || {
            let size = reader.metadata().unwrap().len() as usize;
            let mut found = vec![0; size];
            reader.read_exact_at(&mut found, 0).unwrap();
            assert_eq!(found, expected[..size], "round {round}");
            size == expected.len()
        });
    }
}

fn a_rewrite_of_the_same_length_shows_at_the_next_open(place: &Place) {
    let mine = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(place.join("file"));
    let mine = mine.unwrap();
    for round in 0..20u8 {
        let (own, theirs) = (vec![round; 10_000], vec![round + 100; 10_000]);
        mine.write_all_at(&own, 0).unwrap();
        assert_content(&place.join("file"), &own);
        assert_content(&place.stored("file"), &own);
        write_in_source(place, "file", &theirs);
        assert_content(&place.join("file"), &theirs);
    }
}

/// Two halves of one file, the one written here, the other one there.
fn what_is_written_here_is_kept_when_others_write_elsewhere(place: &Place) {
    const HALF: u64 = 50_000;
    let mine = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(place.join("file"));
    let mine = mine.unwrap();
    let theirs = OpenOptions::new()
        .write(true)
        .open(place.stored("file"))
        .unwrap();
    let mut random = Seeded::new(2);
    let mut expected = vec![0; 2 * HALF as usize];
    mine.set_len(2 * HALF).unwrap();
    for _ in 0..50 {
        for (file, from) in [(&mine, 0), (&theirs, HALF)] {
            let (at, bytes) = (from + random.below(49_000) as u64, random.noise(1000));
            file.write_all_at(&bytes, at).unwrap();
            expected[at as usize..][..1000].copy_from_slice(&bytes);
        }
        assert_content(&place.stored("file"), &expected);
    }
    wait_until("the mount shows both", || {
        std::fs::read(place.join("file")).unwrap() == expected
    });
}

fn names_that_others_make_and_remove_show(place: &Place) {
    std::fs::create_dir(place.join("d")).unwrap();
    for round in 0..5 {
        let name = format!("d/file-{round}");
        // A name that was not there shows at once, also after it has been looked for.
        assert!(!place.join(&name).exists());
        std::fs::write(place.stored(&name), "theirs").unwrap();
        assert_content(&place.join(&name), b"theirs");
        std::fs::write(place.join(&name), "mine").unwrap();
        assert_content(&place.stored(&name), b"mine");
    }
    std::fs::remove_file(place.stored("d/file-0")).unwrap();
    wait_until("it is gone", || !place.join("d/file-0").exists());
    std::fs::write(place.join("d/file-0"), "again").unwrap();
    assert_content(&place.stored("d/file-0"), b"again");
    std::fs::rename(place.stored("d"), place.stored("e")).unwrap();
    wait_until("the directory has its new name", || {
        !place.join("d").exists() && place.join("e/file-1").exists()
    });
    std::fs::write(place.join("e/new"), "new").unwrap();
    assert_content(&place.stored("e/new"), b"new");
    let names = std::fs::read_dir(place.join("e")).unwrap().count();
    assert_eq!(names, 6);
}

fn handles_outlive_what_others_do_to_names(place: &Place) {
    std::fs::create_dir(place.join("d")).unwrap();
    let open = |name: &str| {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        options.open(place.join(name)).unwrap()
    };
    let (moved, removed, replaced) = (open("d/moved"), open("d/removed"), open("replaced"));
    std::fs::rename(place.stored("d"), place.stored("e")).unwrap();
    std::fs::remove_file(place.stored("e/removed")).unwrap();
    std::fs::write(place.stored("new"), "new").unwrap();
    std::fs::rename(place.stored("new"), place.stored("replaced")).unwrap();
    let mut found = [0; 6];
    for file in [&moved, &removed, &replaced] {
        file.write_all_at(b"handle", 0).unwrap();
        file.set_len(6).unwrap();
        file.sync_all().unwrap();
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"handle");
        assert_eq!(file.metadata().unwrap().len(), 6);
    }
    assert_content(&place.stored("e/moved"), b"handle");
    assert_content(&place.join("e/moved"), b"handle");
    assert_content(&place.stored("replaced"), b"new");
    wait_until("the new one is shown", || {
        std::fs::read(place.join("replaced")).unwrap() == b"new"
    });
    wait_until("links are counted", || {
        removed.metadata().unwrap().nlink() == 0
    });
}

/// `O_APPEND` goes to the end that the file has, not to the one that somebody remembers.
fn both_sides_append(place: &Place) {
    let mut mine = OpenOptions::new()
        .append(true)
        .create_new(true)
        .open(place.join("log"))
        .unwrap();
    let mut expected = Vec::new();
    for round in 0..100 {
        let (here, there) = (format!("here {round}\n"), format!("there {round}\n"));
        mine.write_all(here.as_bytes()).unwrap();
        append_in_source(place, "log", there.as_bytes());
        expected.extend(here.bytes().chain(there.bytes()));
    }
    assert_content(&place.stored("log"), &expected);
    assert_content(&place.join("log"), &expected);
}

fn a_file_that_others_cut_is_short_here(place: &Place) {
    let content = Seeded::new(3).noise(100_000);
    std::fs::write(place.join("file"), &content).unwrap();
    let reader = File::open(place.join("file")).unwrap();
    reader.read_exact_at(&mut vec![0; 100_000], 0).unwrap();
    cut(&place.stored("file"), 12_345);
    assert_content(&place.join("file"), &content[..12_345]);
    wait_until("the reader sees it", || {
        reader.metadata().unwrap().len() == 12_345
    });
    cut(&place.stored("file"), 50_000);
    let expected = [&content[..12_345], &[0; 50_000 - 12_345]].concat();
    assert_content(&place.join("file"), &expected);
}

/// Although the kernel believes a size for a while: with a writer, whose reads and writes the
/// daemon serves, and without.
fn a_file_has_its_length_at_the_next_open(place: &Place) {
    let content = Seeded::new(4).noise(100_000);
    for writer in [false, true] {
        let path = place.join("file");
        std::fs::write(&path, &content).unwrap();
        let _writer = writer.then(|| OpenOptions::new().write(true).open(&path).unwrap());
        let reader = File::open(&path).unwrap();
        for len in [100_000, 12_345, 50_000, 7, 100_000] {
            cut(&place.stored("file"), len);
            assert_eq!(std::fs::read(&path).unwrap().len() as u64, len);
            let opened = File::open(&path).unwrap();
            assert_eq!(opened.metadata().unwrap().len(), len);
            reader.metadata().unwrap();
        }
    }
}

fn cut(path: &Path, len: u64) {
    OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(len)
        .unwrap();
}
