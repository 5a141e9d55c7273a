//! Names and inodes: files of several names, and what others move in the source while it is
//! mounted.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, openat, renameat_with};

use crate::harness::mounted::Mounted;
use crate::harness::scratch_directory;
use crate::harness::writers::Bloscpack;

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

fn directory(path: &Path) -> File {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    File::from(openat(CWD, path, flags, Mode::empty()).unwrap())
}

fn read_in(directory: &File, path: &str) -> Vec<u8> {
    let file = openat(directory, path, OFlags::RDONLY, Mode::empty()).unwrap();
    let mut bytes = Vec::new();
    File::from(file).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn hard_links_are_one_file_and_a_container_of_two_names_is_two_directories() {
    let source = scratch_directory();
    fs::create_dir(source.path().join("below")).unwrap();
    fs::write(source.path().join("a"), "bytes").unwrap();
    fs::hard_link(source.path().join("a"), source.path().join("below/b")).unwrap();
    Bloscpack::default().write(&source.path().join("x.blp"), b"12345678");
    fs::hard_link(
        source.path().join("x.blp"),
        source.path().join("below/y.blp"),
    )
    .unwrap();
    let mounted = Mounted::new(source.path(), &[]);
    let at = |name: &str| mounted.path().join(name);
    assert_eq!(inode(&at("a")), inode(&at("below/b")));
    assert_eq!(fs::metadata(at("a")).unwrap().nlink(), 2);
    let (x, y) = (at("x.blp"), at("below/y.blp"));
    assert_ne!(inode(&x), inode(&y));
    for container in [x, y] {
        assert_eq!(fs::read(container.join("data")).unwrap(), b"12345678");
    }
    // One name goes: the other one leads to the same file still.
    let open = File::open(at("a")).unwrap();
    fs::remove_file(source.path().join("a")).unwrap();
    assert_eq!(fs::read(at("below/b")).unwrap(), b"bytes");
    assert_eq!(open.metadata().unwrap().ino(), inode(&at("below/b")));
}

/// What a file is shown as may depend on its name.
#[test]
fn a_file_that_is_given_a_container_s_name_becomes_one() {
    let source = scratch_directory();
    fs::write(source.path().join("x"), "no container").unwrap();
    let mounted = Mounted::new(source.path(), &[]);
    let open = File::open(mounted.join("x")).unwrap();
    fs::hard_link(source.path().join("x"), source.path().join("y.blp")).unwrap();
    assert!(fs::metadata(mounted.join("y.blp")).unwrap().is_dir());
    fs::rename(source.path().join("x"), source.path().join("x.blp")).unwrap();
    assert!(fs::metadata(mounted.join("x.blp")).unwrap().is_dir());
    drop(open);
}

/// The kernel believes names for a second, and opens files by their inodes.
#[test]
fn a_name_that_goes_to_another_file_is_never_opened_as_the_old_one() {
    for last in ["doc", "doc.bak", "doc.tmp"] {
        let source = scratch_directory();
        let at = |name: &str| source.path().join(name);
        fs::write(at("doc.tmp"), "old").unwrap();
        let mounted = Mounted::new(source.path(), &["direct_io"]);
        fs::metadata(mounted.join("doc.tmp")).unwrap();
        fs::hard_link(at("doc.tmp"), at("doc")).unwrap();
        fs::hard_link(at("doc.tmp"), at("doc.bak")).unwrap();
        for name in ["doc", "doc.bak", last] {
            fs::metadata(mounted.join(name)).unwrap();
        }
        fs::remove_file(at("doc.tmp")).unwrap();
        fs::write(at("new"), "new").unwrap();
        fs::rename(at("new"), at("doc")).unwrap();
        assert_eq!(fs::read(mounted.join("doc")).unwrap(), b"new", "{last}");
        assert_eq!(fs::read(mounted.join("doc.bak")).unwrap(), b"old", "{last}");
    }
}

/// A program that stands in a container whose directory was replaced does not get the other
/// directory's container.
#[test]
fn a_container_in_a_directory_that_was_replaced_is_not_mistaken() {
    let source = scratch_directory();
    let at = |name: &str| source.path().join(name);
    for (name, bytes) in [("d", b"12345678"), ("other", b"abcdefgh")] {
        fs::create_dir(at(name)).unwrap();
        Bloscpack::default().write(&at(name).join("x.blp"), bytes);
    }
    let mounted = Mounted::new(source.path(), &[]);
    let container = directory(&mounted.join("d/x.blp"));
    assert_eq!(read_in(&container, "data"), b"12345678");
    fs::rename(at("d"), at("e")).unwrap();
    fs::rename(at("other"), at("d")).unwrap();
    let found = openat(&container, "views/data.npy", OFlags::RDONLY, Mode::empty());
    assert_eq!(found.map(drop), Err(rustix::io::Errno::STALE));
    fs::metadata(mounted.join("e")).unwrap();
    assert_eq!(read_in(&container, "data"), b"12345678");
    assert_eq!(fs::read(mounted.join("d/x.blp/data")).unwrap(), b"abcdefgh");
}

#[test]
fn what_lies_in_a_directory_that_is_moved_stays_what_it_is() {
    let source = scratch_directory();
    fs::create_dir_all(source.path().join("old/deep")).unwrap();
    fs::write(source.path().join("old/deep/file"), "bytes").unwrap();
    Bloscpack::default().write(&source.path().join("old/deep/x.blp"), b"12345678");
    let mounted = Mounted::new(source.path(), &[]);
    let below = ["deep", "deep/file", "deep/x.blp", "deep/x.blp/data"];
    let inodes = |top: &str| below.map(|name| inode(&mounted.path().join(top).join(name)));
    let before = inodes("old");
    let deep = directory(&mounted.path().join("old/deep"));
    let array = File::open(mounted.path().join("old/deep/x.blp/data")).unwrap();
    fs::rename(source.path().join("old"), source.path().join("new")).unwrap();
    assert_eq!(inodes("new"), before);
    // From within, too.
    assert_eq!(read_in(&deep, "file"), b"bytes");
    assert_eq!(read_in(&deep, "x.blp/data"), b"12345678");
    let mut byte = [0];
    array.read_exact_at(&mut byte, 7).unwrap();
    assert_eq!(&byte, b"8");
}

/// A program that stands in one of two directories that change places never sees the other one's
/// files.
#[test]
fn directories_that_change_places_are_not_mistaken_for_each_other() {
    let source = scratch_directory();
    for name in ["one", "two"] {
        fs::create_dir(source.path().join(name)).unwrap();
        fs::write(source.path().join(name).join("file"), name).unwrap();
    }
    let mounted = Mounted::new(source.path(), &[]);
    let one = directory(&mounted.path().join("one"));
    let (from, to) = (source.path().join("one"), source.path().join("two"));
    renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE).unwrap();
    let stale = openat(&one, "file", OFlags::RDONLY, Mode::empty());
    if let Ok(file) = stale {
        let mut bytes = Vec::new();
        File::from(file).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"one");
    }
    assert_eq!(fs::read(mounted.path().join("one/file")).unwrap(), b"two");
    assert_eq!(fs::read(mounted.path().join("two/file")).unwrap(), b"one");
    assert_eq!(read_in(&one, "file"), b"one");
}

/// Backups and version control remember them, from one mount to the next.
#[test]
fn files_have_the_numbers_of_the_source() {
    let source = scratch_directory();
    fs::create_dir(source.path().join("d")).unwrap();
    fs::write(source.path().join("d/file"), "x").unwrap();
    Bloscpack::default().write(&source.path().join("x.blp"), b"12345678");
    let mounted = Mounted::new(source.path(), &[]);
    let mut others = vec![inode(mounted.path())];
    for path in ["d", "d/file"] {
        let found = inode(&mounted.join(path));
        assert_eq!(found, inode(&source.path().join(path)), "{path}");
        others.push(found);
    }
    for path in ["x.blp", "x.blp/data", "x.blp/views"] {
        let found = inode(&mounted.join(path));
        assert!(!others.contains(&found), "{path}");
        others.push(found);
    }
}
