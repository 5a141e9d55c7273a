//! Attributes of what the mount shows: owner, mode and times, sizes and blocks, extended
//! attributes, and the space of the file system.

use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::statvfs;
use serde_json::Value;

use crate::harness::known::KnownTree;
use crate::harness::mounted::Mounted;
use crate::harness::reads::xattr;
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{is_root, scratch_directory, wait_until};

#[test]
fn the_file_system_is_as_large_and_as_full_as_the_source_s() {
    let source = scratch_directory();
    let mounted = Mounted::new(source.path(), &[]);
    let free = |path: &Path| {
        let s = statvfs(path).unwrap();
        (s.f_bfree, s.f_bavail, s.f_ffree)
    };
    let (shown, stored) = (
        statvfs(mounted.path()).unwrap(),
        statvfs(source.path()).unwrap(),
    );
    assert_eq!(shown.f_blocks, stored.f_blocks);
    assert_eq!(
        (shown.f_bsize, shown.f_frsize),
        (stored.f_bsize, stored.f_frsize)
    );
    assert_eq!(
        (shown.f_files, shown.f_namemax),
        (stored.f_files, stored.f_namemax)
    );
    // Others write to the same disk: compared between two equal looks at the source.
    wait_until("free space is the source's", || {
        let before = free(source.path());
        let shown = free(mounted.path());
        before == free(source.path()) && shown == before
    });
}

#[test]
fn owner_mode_and_times_are_the_container_s() {
    let source = scratch_directory();
    let (file, matrix) = (source.path().join("x.blp"), source.path().join("counts"));
    Bloscpack::default().write(&file, b"content");
    Matrix::random(2, 500).write_packed(&matrix);
    let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    let times = FileTimes::new()
        .set_modified(long_ago)
        .set_accessed(long_ago);
    File::open(&file).unwrap().set_times(times).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    std::fs::set_permissions(matrix.join("val_idx"), Permissions::from_mode(0o604)).unwrap();
    if is_root("files of another owner") {
        chown(&file, Some(1234), Some(5678)).unwrap();
    }
    let stored = file.metadata().unwrap();
    let mounted = Mounted::new(source.path(), &["ro"]);
    let shown = |path: &str| mounted.join(path).metadata().unwrap();
    for path in [
        "x.blp",
        "x.blp/data",
        "x.blp/arrays.json",
        "x.blp/views",
        "x.blp/views/data.npy",
    ] {
        let shown = shown(path);
        assert_eq!(
            (shown.uid(), shown.gid()),
            (stored.uid(), stored.gid()),
            "{path}"
        );
        assert_eq!(shown.modified().unwrap(), long_ago, "{path}");
        // A user who may read a container may enter the directory that it is shown as.
        let mode = if shown.is_dir() { 0o750 } else { 0o640 };
        assert_eq!(shown.mode() & 0o7777, mode, "{path}");
    }
    assert_eq!(
        shown("counts/val").mode() & 0o777,
        0o604 & 0o644,
        "who may read every member"
    );
    let newest = std::fs::read_dir(&matrix)
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap());
    assert_eq!(
        shown("counts/val").modified().ok(),
        newest.filter_map(|m| m.modified().ok()).max()
    );
}

#[test]
fn sizes_are_decoded_and_blocks_are_stored() {
    let source = scratch_directory();
    let plain = vec![7; 3_000_000];
    let packed = Bloscpack::default().pack(&plain);
    std::fs::write(source.path().join("x.blp"), &packed).unwrap();
    let matrix = Matrix::random(3, 100_000);
    matrix.write_packed(&source.path().join("counts"));
    let mounted = Mounted::new(source.path(), &[]);
    let data = mounted.join("x.blp/data").metadata().unwrap();
    assert_eq!(data.len(), plain.len() as u64);
    let (blocks, whole) = (data.blocks(), packed.len() as u64);
    assert!(
        blocks > 0 && blocks <= whole.div_ceil(512),
        "{blocks} blocks of {whole} bytes"
    );
    let index = mounted.join("counts/index").metadata().unwrap();
    assert_eq!(index.len(), 400_000);
    let member = |name: &str| {
        source
            .path()
            .join("counts")
            .join(name)
            .metadata()
            .unwrap()
            .len()
    };
    let most = [
        "index_data",
        "index_idx",
        "index_idx_offsets",
        "index_starts",
    ]
    .map(member);
    let most = most.iter().sum::<u64>().div_ceil(512);
    assert!(index.blocks() <= most && index.blocks() * 512 >= member("index_data") - 512);
    let view = mounted.join("counts/views/index.npy").metadata().unwrap();
    assert_eq!(view.blocks(), 1, "a view stores nothing");
}

#[test]
fn extended_attributes_say_what_arrays_json_says() {
    let tree = KnownTree::new(5);
    let mounted = Mounted::new(tree.source(), &[]);
    for container in ["packed", "unpacked", "shuffled.blp", "stored.blp"] {
        let directory = mounted.join(container);
        let said: Value =
            serde_json::from_slice(&std::fs::read(directory.join("arrays.json")).unwrap()).unwrap();
        let of = |path: &Path, name: &str| xattr(path, &format!("user.arrayfs.{name}")).unwrap();
        assert_eq!(of(&directory, "format"), said["format"]);
        assert_eq!(of(&directory, "version"), said["version"]);
        assert_eq!(of(&directory, "state"), "clean");
        for array in said["arrays"].as_array().unwrap() {
            let path = directory.join(array["name"].as_str().unwrap());
            for name in ["dtype", "order", "codec"] {
                assert_eq!(of(&path, name), array[name], "{}", path.display());
            }
            let shape: Value = serde_json::from_str(&of(&path, "shape")).unwrap();
            assert_eq!(shape, array["shape"]);
            assert_eq!(of(&path, "stored_bytes"), array["stored_bytes"].to_string());
            assert_eq!(of(&path, "format"), said["format"]);
            of(&path, "ratio").parse::<f64>().unwrap();
            let mut list = vec![0; 4096];
            let n = rustix::fs::listxattr(&path, &mut list[..]).unwrap();
            let listed = list[..n]
                .split(|&b| b == 0)
                .filter(|name| !name.is_empty())
                .count();
            assert_eq!(listed, 7, "{}", path.display());
        }
        let unknown = xattr(&directory, "user.arrayfs.no-such").unwrap_err();
        assert_eq!(unknown.raw_os_error(), Some(libc::ENODATA));
    }
}

#[test]
fn extended_attributes_of_ordinary_files_pass_through() {
    let source = scratch_directory();
    let file = source.path().join("file");
    std::fs::write(&file, "content").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&file, "user.origin", b"elsewhere", flags).unwrap();
    let mounted = Mounted::new(source.path(), &[]);
    assert_eq!(
        xattr(&mounted.join("file"), "user.origin").unwrap(),
        "elsewhere"
    );
}
