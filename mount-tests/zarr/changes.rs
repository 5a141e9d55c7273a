//! Stores that others change: the next open shows what is stored by then, whichever file has
//! changed.

use std::os::unix::fs::FileExt;
use std::path::Path;

use tempfile::TempDir;

use super::{CHUNK, bytes, chunk_path, replace, write_chunk, write_document, write_group};
use crate::harness::mounted::Mounted;
use crate::harness::reads::names;
use crate::harness::{scratch_directory, wait_until};

/// A store `s.zarr` with an array `g/x` of three chunks, of which the last is missing.
fn store() -> (TempDir, Mounted) {
    let source = scratch_directory();
    let store = source.path().join("s.zarr");
    write_group(&store);
    write_group(&store.join("g"));
    let array = store.join("g/x");
    write_document(&array, 3 * CHUNK, 9);
    write_chunk(&array, 0, 1);
    write_chunk(&array, 1, 2);
    let mounted = Mounted::new(source.path(), &["ro"]);
    (source, mounted)
}

fn elements(chunks: &[i32]) -> Vec<u8> {
    let all = chunks.iter().flat_map(|value| [*value; CHUNK]);
    bytes(&all.collect::<Vec<_>>())
}

/// Names and attributes are believed for a second.
fn assert_comes_to_show(path: &Path, expected: &[u8]) {
    wait_until("the array shows what is stored", || {
        std::fs::read(path).is_ok_and(|found| found == expected)
    });
}

#[test]
fn a_chunk_that_is_replaced_is_shown_by_the_next_open() {
    let (source, mounted) = store();
    let (array, shown) = (source.path().join("s.zarr/g/x"), mounted.join("s.zarr/g/x"));
    assert_eq!(std::fs::read(&shown).unwrap(), elements(&[1, 2, 9]));
    write_chunk(&array, 1, 7);
    assert_comes_to_show(&shown, &elements(&[1, 7, 9]));
    std::fs::remove_file(chunk_path(&array, 0)).unwrap();
    assert_comes_to_show(&shown, &elements(&[9, 7, 9]));
}

#[test]
fn a_chunk_that_was_missing_is_shown_when_it_comes() {
    let (source, mounted) = store();
    let (array, shown) = (source.path().join("s.zarr/g/x"), mounted.join("s.zarr/g/x"));
    assert_eq!(std::fs::read(&shown).unwrap(), elements(&[1, 2, 9]));
    write_chunk(&array, 2, 3);
    assert_comes_to_show(&shown, &elements(&[1, 2, 3]));
}

#[test]
fn documents_below_the_root_make_another_version_as_well() {
    let (source, mounted) = store();
    let store = source.path().join("s.zarr");
    let shown = mounted.join("s.zarr/g/x");
    assert_eq!(std::fs::read(&shown).unwrap().len(), 12 * CHUNK);
    write_document(&store.join("g/x"), 4 * CHUNK, 5);
    assert_comes_to_show(&shown, &elements(&[1, 2, 5, 5]));
    // First the directory, then what makes it an array.
    std::fs::create_dir(store.join("g/later")).unwrap();
    // One that is listed just then may be another by the next call.
    let group = mounted.join("s.zarr/g");
    let listed = || std::fs::read_dir(&group)?.collect::<std::io::Result<Vec<_>>>();
    wait_until("it is listed", || listed().is_ok());
    write_document(&store.join("g/later"), CHUNK, 4);
    assert_comes_to_show(&mounted.join("s.zarr/g/later"), &elements(&[4]));
    std::fs::remove_dir_all(store.join("g/x")).unwrap();
    wait_until("the array has gone", || !shown.exists());
    wait_until("it is listed", || listed().is_ok());
    assert_eq!(names(&group), ["arrays.json", "later"]);
}

/// Reads past the page cache: chunks that nobody has looked for yet.
fn read_rest(file: &std::fs::File) -> std::io::Result<Vec<u8>> {
    let mut rest = vec![0; 2 * CHUNK * 4];
    file.read_exact_at(&mut rest, (CHUNK * 4) as u64)?;
    Ok(rest)
}

#[test]
fn chunks_of_a_store_that_is_moved_through_the_mount_are_found() {
    let source = scratch_directory();
    let array = source.path().join("s.zarr/x");
    write_group(&source.path().join("s.zarr"));
    write_document(&array, 3 * CHUNK, 9);
    write_chunk(&array, 1, 2);
    let mounted = Mounted::new(source.path(), &["rw", "direct_io"]);
    let file = std::fs::File::open(mounted.join("s.zarr/x")).unwrap();
    std::fs::rename(mounted.join("s.zarr"), mounted.join("t.zarr")).unwrap();
    assert_eq!(read_rest(&file).unwrap(), elements(&[2, 9]));
    let shown = std::fs::read(mounted.join("t.zarr/x")).unwrap();
    assert_eq!(shown, elements(&[9, 2, 9]));
}

#[test]
fn chunks_of_a_store_that_others_move_away_are_not_taken_for_missing() {
    let source = scratch_directory();
    let array = source.path().join("s.zarr/x");
    write_group(&source.path().join("s.zarr"));
    write_document(&array, 3 * CHUNK, 9);
    write_chunk(&array, 1, 2);
    let mounted = Mounted::new(source.path(), &["ro", "direct_io"]);
    let file = std::fs::File::open(mounted.join("s.zarr/x")).unwrap();
    std::fs::rename(source.path().join("s.zarr"), source.path().join("t.zarr")).unwrap();
    assert!(read_rest(&file).is_err());
    assert_comes_to_show(&mounted.join("t.zarr/x"), &elements(&[9, 2, 9]));
}

/// Of very many chunks those that are stored are listed, so nobody has looked for the others.
#[test]
fn a_chunk_of_a_long_text_is_shown_when_it_comes() {
    let source = scratch_directory();
    let array = source.path().join("s.zarr/x");
    write_group(&source.path().join("s.zarr"));
    std::fs::create_dir(&array).unwrap();
    let document = r#"{"zarr_format": 2, "shape": [10000], "chunks": [1], "dtype": "|O",
        "compressor": null, "filters": [{"id": "vlen-utf8"}], "order": "C", "fill_value": ""}"#;
    std::fs::write(array.join(".zarray"), document).unwrap();
    let mounted = Mounted::new(source.path(), &["ro"]);
    let shown = mounted.join("s.zarr/x");
    let mut expected = vec![b'\n'; 10_000];
    assert_eq!(std::fs::read(&shown).unwrap(), expected);
    replace(&array.join("9000"), b"\x01\0\0\0\x02\0\0\0ab");
    expected.splice(9000..9000, *b"ab");
    assert_comes_to_show(&shown, &expected);
    // One that is replaced, and a file that is no chunk.
    replace(&array.join("9000"), b"\x01\0\0\0\x02\0\0\0cd");
    std::fs::write(array.join("notes"), "").unwrap();
    expected.splice(9000..9002, *b"cd");
    assert_comes_to_show(&shown, &expected);
}
