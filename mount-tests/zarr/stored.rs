//! What is known of a store without looking for its chunks, and what lies in it that is none of it.

use std::os::unix::fs::MetadataExt;

use super::{CHUNK, write_chunk, write_document, write_group};
use crate::harness::mounted::Mounted;
use crate::harness::process::arrayfs;
use crate::harness::reads::{names, xattr};
use crate::harness::{golden, scratch_directory};

#[test]
fn what_nobody_has_counted_is_not_told() {
    let source = scratch_directory();
    let store = source.path().join("s.zarr");
    write_group(&store);
    write_document(&store.join("x"), 3 * CHUNK, 0);
    write_chunk(&store.join("x"), 0, 1);
    let mounted = Mounted::new(source.path(), &["ro"]);
    let array = mounted.join("s.zarr/x");
    assert!(xattr(&array, "user.arrayfs.stored_bytes").is_err());
    assert!(xattr(&array, "user.arrayfs.ratio").is_err());
    assert_eq!(xattr(&array, "user.arrayfs.shape").unwrap(), "[12]");
    assert_eq!(array.metadata().unwrap().blocks(), 1);
    let told = std::fs::read_to_string(mounted.join("s.zarr/arrays.json")).unwrap();
    assert!(told.contains(r#""stored_bytes": null"#), "{told}");
    // The directory of a zip file tells.
    let zipped = Mounted::new(golden("zarr/sources"), &["ro"]);
    let array = zipped.join("z3-root-array.zarr.zip/data");
    let stored: u64 = xattr(&array, "user.arrayfs.stored_bytes")
        .unwrap()
        .parse()
        .unwrap();
    assert!(stored > 0);
}

#[test]
fn files_that_are_none_of_the_store_are_shown_in_groups_and_told() {
    let source = scratch_directory();
    let store = source.path().join("s.zarr");
    write_group(&store);
    write_document(&store.join("x"), CHUNK, 0);
    std::fs::write(store.join("README.md"), "what it is").unwrap();
    std::fs::write(store.join("x/notes"), "hidden").unwrap();
    std::fs::write(store.join("x/c/7"), "outside of the grid").unwrap();
    std::fs::write(store.join(".DS_Store"), "").unwrap();
    let mounted = Mounted::new(source.path(), &["ro"]);
    let shown = names(&mounted.join("s.zarr"));
    assert_eq!(shown, ["README.md", "arrays.json", "x"]);
    let text = std::fs::read_to_string(mounted.join("s.zarr/README.md")).unwrap();
    assert_eq!(text, "what it is");
    let verified = arrayfs(["verify".as_ref(), store.as_os_str()]).success();
    for said in [".DS_Store", "2 files in arrays", "x/notes"] {
        assert!(verified.text().contains(said), "{}", verified.text());
    }
}

#[test]
fn names_of_stores_promise_them() {
    let source = scratch_directory();
    std::fs::create_dir(source.path().join("empty.zarr")).unwrap();
    std::fs::write(source.path().join("page.zarr.zip"), "<html>log in</html>").unwrap();
    std::fs::write(source.path().join("other.zip"), "PK\u{3}\u{4}").unwrap();
    let verified = arrayfs(["verify".as_ref(), source.path().as_os_str()]);
    verified.failed_saying(1, &["empty.zarr", "page.zarr.zip", "HTML"]);
    let mounted = Mounted::new(source.path(), &["ro"]);
    assert!(mounted.join("page.zarr.zip").is_file());
    assert!(mounted.join("other.zip").is_file());
    assert!(names(&mounted.join("empty.zarr")).is_empty());
}

#[test]
fn a_store_is_only_read_and_says_so() {
    let source = scratch_directory();
    let store = source.path().join("s.zarr");
    write_group(&store);
    write_document(&store.join("x"), CHUNK, 0);
    let mounted = Mounted::new(source.path(), &["rw"]);
    let array = mounted.join("s.zarr/x");
    let refused = std::fs::OpenOptions::new().write(true).open(&array);
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EROFS));
    let state = xattr(&mounted.join("s.zarr"), "user.arrayfs.state").unwrap();
    assert!(state.contains("Zarr is only read"), "{state}");
    assert_eq!(std::fs::read(&array).unwrap(), [0; CHUNK * 4]);
}
