//! Sources that change underneath: the next open shows the new content at once, a reader of the old
//! one never gets a mixture, and nothing that happens to a source ends the daemon.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::reads::{assert_content, assert_same, open_direct};
use crate::harness::seeded::Seeded;
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{scratch_directory, wait_until};

/// A source with `x.blp`, mounted.
struct Changing {
    source: TempDir,
    mounted: Mounted,
}

impl Changing {
    fn new(plain: &[u8]) -> Self {
        let source = scratch_directory();
        kind().write(&source.path().join("x.blp"), plain);
        let mounted = Mounted::new(source.path(), &["cache=4M"]);
        Changing { source, mounted }
    }

    fn stored(&self) -> PathBuf {
        self.source.path().join("x.blp")
    }

    fn data(&self) -> PathBuf {
        self.mounted.join("x.blp/data")
    }

    /// As careful writers do it: a new file, renamed over the old one.
    fn replace(&self, plain: &[u8]) {
        let new = self.source.path().join("x.new");
        kind().write(&new, plain);
        std::fs::rename(new, self.stored()).unwrap();
    }
}

fn kind() -> Bloscpack {
    Bloscpack {
        chunk_size: 40_000,
        ..Bloscpack::default()
    }
}

/// Content number `n`: the same byte throughout, so that a mixture of two shows.
fn content(n: usize, len: usize) -> Vec<u8> {
    vec![n as u8; len]
}

/// Writes into the same file. Clocks of file systems tick coarsely: as long as the time of change
/// is the one from before, nobody could see a change of the same size, so it is written again.
fn overwrite(path: &Path, bytes: &[u8]) {
    let before = path.metadata().unwrap().modified().unwrap();
    wait_until("the time of change has moved on", || {
        std::fs::write(path, bytes).unwrap();
        path.metadata().unwrap().modified().unwrap() != before
    });
}

/// What a reader of a changed container may meet instead of its bytes.
fn assert_is_fair(e: &io::Error) {
    assert!(
        matches!(e.raw_os_error(), Some(libc::EIO | libc::ESTALE)),
        "{e}"
    );
}

#[test]
fn a_container_replaced_by_rename_is_shown_at_once() {
    let changing = Changing::new(&content(0, 90_000));
    for n in 1..150 {
        assert_content(
            &changing.data(),
            &content(n - 1, 90_000 + (n - 1) % 3 * 1000),
        );
        changing.replace(&content(n, 90_000 + n % 3 * 1000));
        let mut file = File::open(changing.data()).unwrap();
        let len = file.metadata().unwrap().len();
        assert_eq!(len, (90_000 + n % 3 * 1000) as u64, "size of content {n}");
        let mut found = Vec::new();
        file.read_to_end(&mut found).unwrap();
        assert_same(changing.data(), &found, &content(n, len as usize));
    }
    changing.mounted.assert_alive();
}

#[test]
fn a_container_overwritten_with_the_same_size_is_shown_at_once() {
    let changing = Changing::new(&content(0, 90_000));
    for n in 1..30 {
        assert_content(&changing.data(), &content(n - 1, 90_000));
        overwrite(&changing.stored(), &kind().pack(&content(n, 90_000)));
        assert_content(&changing.data(), &content(n, 90_000));
    }
}

#[test]
fn a_container_overwritten_with_another_size_is_shown_at_once() {
    let changing = Changing::new(&content(0, 0));
    for n in 1..30 {
        let len = n * 7919 % 100_000;
        overwrite(&changing.stored(), &kind().pack(&content(n, len)));
        assert_content(&changing.data(), &content(n, len));
        let view = std::fs::read(changing.mounted.join("x.blp/views/data.npy")).unwrap();
        assert_same(
            "views/data.npy",
            &view[view.len() - len..],
            &content(n, len),
        );
    }
}

#[test]
fn a_mapping_of_a_replaced_container_keeps_the_old_content() {
    let changing = Changing::new(&content(1, 90_000));
    // SAFETY: the mapped file is an array of the version that was opened; it never changes.
    let map = unsafe { memmap2::Mmap::map(&File::open(changing.data()).unwrap()) }.unwrap();
    assert_eq!(map[0], 1);
    changing.replace(&content(2, 90_000));
    assert_content(&changing.data(), &content(2, 90_000));
    assert_same(changing.data(), &map, &content(1, 90_000));
}

/// Readers with handles of all ages, while the container is replaced again and again.
#[test]
fn a_reader_never_gets_a_mixture_of_two_contents() {
    const LEN: usize = 200_000;
    for in_place in [false, true] {
        let changing = Changing::new(&content(0, LEN));
        let (done, passes) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (changing, done, passes) = (&changing, &done, &passes);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let read = read_one_content(&changing.data(), reader, in_place);
                        passes.fetch_add(usize::from(read), Ordering::Relaxed);
                    }
                });
            }
            for n in 1..100 {
                let seen = passes.load(Ordering::Relaxed);
                match in_place {
                    true => {
                        std::fs::write(changing.stored(), kind().pack(&content(n, LEN))).unwrap()
                    }
                    false => changing.replace(&content(n, LEN)),
                }
                wait_until("somebody has read", || {
                    passes.load(Ordering::Relaxed) > seen
                });
            }
            done.store(true, Ordering::Relaxed);
        });
        changing.mounted.assert_alive();
    }
}

/// Reads through one handle, in pieces: one content, or an error. Says whether anything was read.
fn read_one_content(path: &Path, reader: u64, in_place: bool) -> bool {
    // Past the page cache as well: then every piece is asked of the daemon.
    let opened = if reader == 0 {
        File::open(path)
    } else {
        open_direct(path)
    };
    let file = match opened {
        Ok(file) => file,
        Err(e) => {
            // The kernel looks the path up once more, and the container may have changed once more;
            // in the middle of a write it may be none, or a damaged one.
            let stale = e.raw_os_error() == Some(libc::ESTALE);
            let half = [libc::EIO, libc::ENOENT, libc::ENOTDIR]
                .map(Some)
                .contains(&e.raw_os_error());
            assert!(stale || (in_place && half), "{}: {e}", path.display());
            return false;
        }
    };
    let mut random = Seeded::new(reader);
    let mut first = None;
    for _ in 0..40 {
        let mut piece = [0; 5000];
        match file.read_at(&mut piece, random.below(190_000) as u64) {
            Ok(n) => {
                let expected = *first.get_or_insert(piece[0]);
                assert!(piece[..n].iter().all(|&byte| byte == expected), "a mixture");
            }
            Err(e) => {
                assert_is_fair(&e);
                break;
            }
        }
    }
    first.is_some()
}

#[test]
fn a_matrix_whose_member_changes_is_another_matrix() {
    let source = scratch_directory();
    let counts = source.path().join("counts");
    let old = Matrix::random(1, 50_000);
    let new = Matrix {
        val: old.val.iter().map(|count| count + 1).collect(),
        ..old.clone()
    };
    old.write_packed(&counts);
    let mounted = Mounted::new(source.path(), &[]);
    let val = mounted.join("counts/val");
    let open = File::open(&val).unwrap();
    assert_content(&val, &old.arrays()[0].3);
    let prepared = source.path().join("prepared");
    new.write_packed(&prepared);
    for member in ["val_data", "val_idx"] {
        std::fs::rename(prepared.join(member), counts.join(member)).unwrap();
    }
    assert_content(&val, &new.arrays()[0].3);
    assert_content(&mounted.join("counts/index"), &new.arrays()[1].3);
    assert_old_or_refused(&open, &old.arrays()[0].3);
    // The whole directory at once.
    std::fs::rename(&counts, source.path().join("gone")).unwrap();
    old.write_packed(&counts);
    wait_until("the directory is the new one", || {
        std::fs::read(&val).is_ok()
    });
    assert_content(&val, &old.arrays()[0].3);
}

/// A handle from before a change goes on with what it opened, or says that it cannot.
fn assert_old_or_refused(mut open: &File, old: &[u8]) {
    open.seek(SeekFrom::Start(0)).unwrap();
    let mut found = Vec::new();
    let ended = open.read_to_end(&mut found);
    assert_same("old handle", &found, &old[..found.len()]);
    match ended {
        Ok(_) => assert_eq!(found.len(), old.len()),
        Err(e) => assert_is_fair(&e),
    }
}

/// Names and their kinds are believed for a second (`kernel::reply::TTL`), hence the waiting here.
#[test]
fn a_container_becomes_an_ordinary_file_and_back() {
    let source = scratch_directory();
    let stored = source.path().join("x.dat");
    kind().write(&stored, b"an array");
    let mounted = Mounted::new(source.path(), &[]);
    let (shown, data) = (mounted.join("x.dat"), mounted.join("x.dat/data"));
    let is = |path: &Path, content: &[u8]| std::fs::read(path).is_ok_and(|found| found == content);
    for round in 0..3 {
        assert!(is(&data, b"an array"), "round {round}");
        let text = format!("just text, {round}");
        overwrite(&stored, text.as_bytes());
        wait_until("the text is shown", || is(&shown, text.as_bytes()));
        assert!(shown.symlink_metadata().unwrap().is_file());
        overwrite(&stored, &kind().pack(b"an array"));
        wait_until("the array is shown", || is(&data, b"an array"));
    }
    std::fs::remove_file(&stored).unwrap();
    wait_until("it is gone", || !shown.exists());
}

#[test]
fn a_container_truncated_while_it_is_read_costs_errors_and_nothing_else() {
    let plain = Seeded::new(7).rising(2_000_000);
    let changing = Changing::new(&plain);
    let packed = std::fs::read(changing.stored()).unwrap();
    let (done, errors) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (changing, plain, done, errors) = (&changing, &plain, &done, &errors);
            scope.spawn(move || {
                let mut random = Seeded::new(reader);
                while !done.load(Ordering::Relaxed) {
                    if let Err(e) = read_somewhere(&changing.data(), plain, &mut random) {
                        errors.fetch_add(1, Ordering::Relaxed);
                        let gone = e.raw_os_error() == Some(libc::ENOENT);
                        // Cut to less than its header it is a damaged container without an array.
                        assert!(
                            gone || [Some(libc::EIO), Some(libc::ESTALE)]
                                .contains(&e.raw_os_error()),
                            "{e}"
                        );
                    }
                }
            });
        }
        let mut random = Seeded::new(8);
        for _ in 0..60 {
            let seen = errors.load(Ordering::Relaxed);
            let file = OpenOptions::new()
                .write(true)
                .open(changing.stored())
                .unwrap();
            file.set_len(random.below(packed.len()) as u64).unwrap();
            wait_until("a reader has met it", || {
                errors.load(Ordering::Relaxed) > seen
            });
            std::fs::write(changing.stored(), &packed).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    changing.mounted.assert_alive();
    overwrite(&changing.stored(), &packed);
    assert_content(&changing.data(), &plain);
}

/// Some reads through a new handle; what they give must be the array's.
fn read_somewhere(path: &Path, plain: &[u8], random: &mut Seeded) -> io::Result<()> {
    let file = open_direct(path)?;
    for _ in 0..20 {
        let at = random.below(plain.len() - 5000);
        let mut piece = [0; 5000];
        let n = file.read_at(&mut piece, at as u64)?;
        assert_same(path, &piece[..n], &plain[at..at + n]);
    }
    Ok(())
}

#[test]
fn an_ordinary_file_that_grows_is_read_to_its_new_end() {
    let source = scratch_directory();
    let stored = source.path().join("log");
    std::fs::write(&stored, "line 0\n").unwrap();
    let mounted = Mounted::new(source.path(), &[]);
    let mut followed = File::open(mounted.join("log")).unwrap();
    let (mut text, mut seen) = (String::from("line 0\n"), String::new());
    for n in 1..5 {
        let mut file = OpenOptions::new().append(true).open(&stored).unwrap();
        let line = format!("line {n}\n");
        file.write_all(line.as_bytes()).unwrap();
        text.push_str(&line);
        // The size is an attribute, believed for a second.
        wait_until("a new reader sees the line", || {
            std::fs::read_to_string(mounted.join("log")).unwrap() == text
        });
        wait_until("a follower sees the line", || {
            followed.read_to_string(&mut seen).unwrap();
            seen == text
        });
    }
    overwrite(&stored, b"LINE 0\n");
    wait_until("the new text is shown", || {
        std::fs::read(mounted.join("log")).unwrap() == b"LINE 0\n"
    });
}

/// A matrix without cells is the same in both forms of the format, but for the type of its values.
#[test]
fn a_file_beside_a_container_that_decides_how_it_is_read_is_part_of_it() {
    let source = scratch_directory();
    let stored = source.path().join("x.dbdf");
    let (rows, cols) = (0u64.to_le_bytes(), 3u64.to_le_bytes());
    let block = [&[0; 20][..], &[3, 0, 0, 0, 1, 1]].concat();
    std::fs::write(&stored, [&[1, 1], &rows[..], &cols, &[1], &block].concat()).unwrap();
    let sidecar = source.path().join("x.dbdf.meta");
    let replace = |value: &str| {
        let new = source.path().join("new");
        std::fs::write(&new, format!("{{\"valueType\":\"{value}\"}}")).unwrap();
        std::fs::rename(new, &sidecar).unwrap();
    };
    let mounted = Mounted::new(source.path(), &[]);
    let assert_dtype = |dtype: &str| {
        let text = std::fs::read_to_string(mounted.join("x.dbdf/arrays.json")).unwrap();
        let described: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(described["arrays"][0]["dtype"], dtype, "{text}");
    };
    for _ in 0..3 {
        assert_dtype("uint8");
        replace("si32");
        assert_dtype("int32");
        let shown = std::fs::read_to_string(mounted.join("x.dbdf.meta")).unwrap();
        assert_eq!(
            shown, "{\"valueType\":\"si32\"}",
            "the file is shown as it is"
        );
        replace("ui8");
        assert_dtype("uint8");
        replace("si32");
        assert_dtype("int32");
        std::fs::remove_file(&sidecar).unwrap();
    }
    assert_dtype("uint8");
}
