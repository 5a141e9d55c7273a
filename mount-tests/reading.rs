//! Every way to read gives the same bytes: in sequence, at random, mapped, in parallel, past the
//! page cache, with `-o direct_io`, over the end. For both formats, packed and stored, and for the
//! views.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use memmap2::Mmap;

use crate::harness::known::{KnownFile, KnownTree};
use crate::harness::mounted::Mounted;
use crate::harness::reads::{assert_content, assert_same, open_direct, read_direct};
use crate::harness::seeded::Seeded;

/// A known tree and its mount.
fn mounted(seed: u64, options: &[&str]) -> (Mounted, KnownTree) {
    let tree = KnownTree::new(seed);
    (Mounted::new(tree.source(), options), tree)
}

/// A range that may begin anywhere and reach over the end.
fn any_range(random: &mut Seeded, file: &KnownFile) -> (usize, usize) {
    let at = random.below(file.content.len() + 1);
    // Short and long ones alike.
    let most = 1 << random.below(19);
    (at, 1 + random.below(most))
}

fn expected(file: &KnownFile, at: usize, len: usize) -> &[u8] {
    let end = (at + len).min(file.content.len());
    &file.content[at.min(end)..end]
}

#[test]
fn reading_from_front_to_back_gives_every_byte() {
    let (mounted, tree) = mounted(1, &[]);
    for known in &tree.files {
        let path = mounted.join(&known.path);
        assert_eq!(
            path.metadata().unwrap().len(),
            known.content.len() as u64,
            "{path:?}"
        );
        assert_content(&path, &known.content);
        // Again from the kernel's cache, in odd steps.
        let mut file = File::open(&path).unwrap();
        let mut found = Vec::new();
        let mut step = [0; 7001];
        loop {
            match file.read(&mut step).unwrap() {
                0 => break,
                n => found.extend(&step[..n]),
            }
        }
        assert_same(&path, &found, &known.content);
    }
}

#[test]
fn reading_at_random_gives_what_lies_there() {
    let (mounted, tree) = mounted(2, &[]);
    let mut random = Seeded::new(2);
    for known in &tree.files {
        let path = mounted.join(&known.path);
        let file = File::open(&path).unwrap();
        for _ in 0..100 {
            let (at, len) = any_range(&mut random, known);
            assert_same(&path, &exactly(&file, at, len), expected(known, at, len));
        }
    }
}

/// Reads until `len` bytes or the end.
fn exactly(file: &File, at: usize, len: usize) -> Vec<u8> {
    let mut buffer = vec![0; len];
    let mut done = 0;
    while done < len {
        match file
            .read_at(&mut buffer[done..], (at + done) as u64)
            .unwrap()
        {
            0 => break,
            n => done += n,
        }
    }
    buffer.truncate(done);
    buffer
}

#[test]
fn reading_at_and_past_the_end_gives_nothing() {
    let (mounted, tree) = mounted(3, &[]);
    for known in &tree.files {
        let path = mounted.join(&known.path);
        let mut file = File::open(&path).unwrap();
        let end = known.content.len() as u64;
        let mut buffer = [1; 100];
        for past in [0, 1, 4096, 1 << 40] {
            assert_eq!(
                file.read_at(&mut buffer, end + past).unwrap(),
                0,
                "{path:?} + {past}"
            );
            assert_eq!(
                read_direct(&path, end + past, 100).unwrap(),
                b"",
                "{path:?} + {past}"
            );
        }
        let before = end.saturating_sub(3);
        assert_eq!(
            file.read_at(&mut buffer, before).unwrap() as u64,
            end - before
        );
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), end);
        assert_eq!(file.read(&mut buffer).unwrap(), 0);
    }
}

#[test]
fn a_mapped_array_holds_every_byte() {
    let (mounted, tree) = mounted(4, &[]);
    assert_mapped(&mounted, &tree, 4);
}

#[test]
fn with_direct_io_a_mapped_array_holds_every_byte_too() {
    let (mounted, tree) = mounted(5, &["direct_io"]);
    assert_mapped(&mounted, &tree, 5);
}

/// First single bytes here and there, as page faults in no order, then all of them.
fn assert_mapped(mounted: &Mounted, tree: &KnownTree, seed: u64) {
    let mut random = Seeded::new(seed);
    for known in tree.files.iter().filter(|known| !known.content.is_empty()) {
        let path = mounted.join(&known.path);
        // SAFETY: the mount is read-only and its source does not change while the mapping lives.
        let map = unsafe { Mmap::map(&File::open(&path).unwrap()) }.unwrap();
        for _ in 0..50 {
            let at = random.below(known.content.len());
            assert_eq!(map[at], known.content[at], "{} at {at}", path.display());
        }
        assert_same(&path, &map, &known.content);
    }
}

#[test]
fn reading_past_the_page_cache_gives_exactly_the_range() {
    let (mounted, tree) = mounted(6, &[]);
    let mut random = Seeded::new(6);
    for known in &tree.files {
        let path = mounted.join(&known.path);
        let whole = read_direct(&path, 0, known.content.len() + 1).unwrap();
        assert_same(&path, &whole, &known.content);
        for _ in 0..50 {
            let (at, len) = any_range(&mut random, known);
            let found = read_direct(&path, at as u64, len).unwrap();
            assert_same(&path, &found, expected(known, at, len));
        }
    }
}

#[test]
fn with_direct_io_every_way_of_reading_gives_the_same_bytes() {
    let (mounted, tree) = mounted(7, &["direct_io"]);
    let mut random = Seeded::new(7);
    for known in &tree.files {
        let path = mounted.join(&known.path);
        assert_content(&path, &known.content);
        let file = File::open(&path).unwrap();
        for _ in 0..50 {
            let (at, len) = any_range(&mut random, known);
            assert_same(&path, &exactly(&file, at, len), expected(known, at, len));
        }
    }
}

#[test]
fn many_readers_of_one_file_all_get_its_bytes() {
    let (mounted, tree) = mounted(8, &["cache=2M"]);
    for known in tree
        .files
        .iter()
        .filter(|known| known.content.len() > 1 << 19)
    {
        let path = mounted.join(&known.path);
        std::thread::scope(|scope| {
            for reader in 0..6 {
                let path = &path;
                scope.spawn(move || {
                    let mut random = Seeded::new(reader);
                    // Half of them past the page cache, so that the daemon is asked again and
                    // again.
                    let file = match reader % 2 {
                        0 => File::open(path).unwrap(),
                        _ => open_direct(path).unwrap(),
                    };
                    for _ in 0..30 {
                        let (at, len) = any_range(&mut random, known);
                        assert_same(path, &exactly(&file, at, len), expected(known, at, len));
                    }
                });
            }
        });
    }
}

#[test]
fn readers_of_many_files_at_once_each_get_theirs() {
    // A cache that holds a fraction of what is read: blocks come and go.
    let (mounted, tree) = mounted(9, &["cache=1M", "threads=3"]);
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let (mounted, tree) = (&mounted, &tree);
            scope.spawn(move || {
                let mut random = Seeded::new(100 + reader);
                for _ in 0..60 {
                    let known = &tree.files[random.below(tree.files.len())];
                    let path = mounted.join(&known.path);
                    let (at, len) = any_range(&mut random, known);
                    let found = read_direct(&path, at as u64, len).unwrap();
                    assert_same(&path, &found, expected(known, at, len));
                }
            });
        }
    });
    let cache = &mounted.status()["cache"];
    assert!(cache["used"].as_u64() <= cache["limit"].as_u64(), "{cache}");
    assert!(cache["decoded_bytes"].as_u64() > Some(0), "{cache}");
}
