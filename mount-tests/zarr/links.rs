//! Stores whose files are symbolic links: those that stay in the source are followed, others never.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::{CHUNK, bytes, chunk_path, write_chunk, write_document, write_group};
use crate::harness::mounted::Mounted;
use crate::harness::process::arrayfs;
use crate::harness::reads::{names, walk};
use crate::harness::scratch_directory;

/// Moves a file into the directory of objects, and leaves a link to it.
fn annex(source: &Path, file: &Path) {
    let objects = source.join(".objects");
    std::fs::create_dir_all(&objects).unwrap();
    let key = format!("key-{}", std::fs::read_dir(&objects).unwrap().count());
    std::fs::rename(file, objects.join(&key)).unwrap();
    let depth = file.strip_prefix(source).unwrap().components().count() - 1;
    symlink(format!("{}.objects/{key}", "../".repeat(depth)), file).unwrap();
}

#[test]
fn documents_and_chunks_that_are_kept_elsewhere_are_read() {
    let source = scratch_directory();
    let store = source.path().join("s.zarr");
    write_group(&store);
    let array = store.join("x");
    write_document(&array, 2 * CHUNK, 0);
    write_chunk(&array, 0, 1);
    write_chunk(&array, 1, 2);
    let (files, _) = walk(&store);
    assert_eq!(files.len(), 4);
    files.iter().for_each(|file| annex(source.path(), file));
    let mounted = Mounted::new(source.path(), &["ro"]);
    let values = [[1; CHUNK], [2; CHUNK]].concat();
    let found = std::fs::read(mounted.join("s.zarr/x")).unwrap();
    assert_eq!(found, bytes(&values));
}

#[test]
fn what_leads_out_of_the_source_is_never_followed() {
    let outside = scratch_directory();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, bytes(&[42; CHUNK])).unwrap();
    let source = scratch_directory();
    let store = source.path().join("s.zarr");
    write_group(&store);
    let array = store.join("x");
    write_document(&array, 3 * CHUNK, 0);
    write_chunk(&array, 0, 1);
    symlink(&secret, chunk_path(&array, 1)).unwrap();
    symlink("nothing", chunk_path(&array, 2)).unwrap();
    // In circles, and to a directory that is shown already.
    symlink("..", store.join("round")).unwrap();
    symlink("x", store.join("again")).unwrap();
    let verified = arrayfs([Path::new("verify"), source.path()]);
    verified.failed_saying(1, &["x: block 1", "leads out of the source"]);
    let mounted = Mounted::new(source.path(), &["ro"]);
    let chunk = CHUNK * 4;
    let cat = |offset: usize, length: usize| {
        let (offset, length) = (offset.to_string(), length.to_string());
        let store = store.to_str().unwrap();
        arrayfs(["cat", store, "x", "--offset", &offset, "--length", &length])
    };
    assert_eq!(cat(0, chunk).success().text(), cat(0, chunk).text());
    cat(chunk, chunk).failed_saying(1, &["leads out of the source"]);
    // One that leads nowhere is a chunk that is missing.
    cat(2 * chunk, chunk).success();
    let shown = names(&mounted.join("s.zarr"));
    assert_eq!(shown, ["again", "arrays.json", "round", "x"]);
    assert!(mounted.join("s.zarr/again").is_symlink());
}
