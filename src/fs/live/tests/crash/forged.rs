//! Logs that are not the container's, or not as it is now: refused, named, and nothing is touched.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::image::{Image, StoredFile, scratch};
use super::session::{Session, tree_at};
use crate::commit::Preference;
use crate::disk::Putting;
use crate::tree::driven::{NOBODY, ROOT};
use crate::tree::{InUse, PageCache, Tree};

const LOG: &str = ".x.blp.arrayfs-stage";

/// A container with a log of what was synced and not committed.
pub(super) fn staged() -> (Image, Arc<Session>) {
    let session = Session::new("chunk-127.blp", Preference::Auto, libc::EIO);
    let file = session.open();
    session.write(file, 16, &[3; 64]);
    session.sync(file);
    (Image::load(session.directory.path()), session)
}

pub(super) fn changed(image: &Image, name: &str, change: impl FnOnce(&mut StoredFile)) -> Image {
    let mut image = image.clone();
    let file = image.files.get_mut(OsStr::new(name)).unwrap();
    change(Arc::make_mut(file));
    image
}

pub(super) fn read(tree: &Tree, path: &str) -> Vec<u8> {
    let open = tree.reading.open(tree.inode(path).unwrap()).unwrap();
    let bytes = |bytes: crate::error::Result<&[u8]>| bytes.unwrap().to_vec();
    tree.reading
        .read(open.handle, 0, 1 << 20, PageCache::Used, bytes)
}

/// A tree that can be written, in which an array is what is stored; so it is in one that cannot.
fn shown_as_stored(
    image: &Image,
    array: &str,
    session: &Session,
    what: &str,
) -> (tempfile::TempDir, Tree) {
    let directory = scratch();
    image.store(directory.path());
    let reader = tree_at(directory.path(), Preference::Auto, |_| None);
    assert!(read(&reader, array) == session.first[0], "{what}");
    let tree = tree_at(directory.path(), Preference::Auto, Some);
    assert!(read(&tree, array) == session.first[0], "{what}");
    (directory, tree)
}

/// The container is shown as it is stored, cannot be written, and says why; its directory stays as
/// it was.
fn assert_refused(image: &Image, container: &str, session: &Session, what: &str) {
    let array = format!("{container}/data");
    let (directory, tree) = shown_as_stored(image, &array, session, what);
    let refused = tree
        .contents
        .open_for_writing(tree.inode(&array).unwrap())
        .map(drop);
    let told = refused.expect_err(what).to_string();
    assert!(told.contains("stage"), "{what}: {told}");
    assert!(
        tree.names(ROOT).iter().all(|name| !name.contains("stage")),
        "{what}"
    );
    tree.containers().commit_all(InUse::Ignored);
    drop(tree);
    assert_eq!(Image::load(directory.path()), *image, "{what}");
}

/// The container is shown as it is stored, and can be written; the log stays as it was.
fn assert_kept(image: &Image, container: &str, session: &Session, what: &str) {
    let array = format!("{container}/data");
    let (directory, tree) = shown_as_stored(image, &array, session, what);
    let mut expected = session.first[0].clone();
    expected[5..8].copy_from_slice(b"new");
    let (inode, handle) = tree.written(&array, false).unwrap();
    tree.contents
        .write(inode, handle, 5, b"new", Putting::default(), NOBODY)
        .unwrap();
    tree.closing.sync(inode, handle, false).unwrap();
    let staged = Image::load(directory.path());
    assert_eq!(
        staged.names().len(),
        image.names().len() + 1,
        "{what}: {staged:?}"
    );
    tree.closing.close(handle).unwrap();
    tree.closing.release(handle);
    assert!(read(&tree, &array) == expected, "{what}");
    assert!(
        tree.containers().commit_all(InUse::Ignored).is_empty(),
        "{what}"
    );
    drop(tree);
    let now = Image::load(directory.path());
    assert_eq!(now.names(), image.names(), "{what}");
    let log = OsString::from(format!(".{container}.arrayfs-stage"));
    assert_eq!(now.files[&log], image.files[&log], "{what}");
    // What was synced is found beside it.
    staged.store(directory.path());
    let tree = tree_at(directory.path(), Preference::Auto, Some);
    assert!(read(&tree, &array) == expected, "{what}");
}

#[test]
fn a_log_that_does_not_fit_is_kept_and_costs_nobody_what_he_writes() {
    let (image, session) = staged();
    let later = changed(&image, "x.blp", |file| file.mtime.0 += 1);
    assert_kept(&later, "x.blp", &session, "the container was written later");
    let longer = changed(&image, "x.blp", |file| file.len += 1);
    assert_kept(&longer, "x.blp", &session, "the container is longer");
    let open = changed(&image, LOG, |file| file.mode = 0o640);
    assert_kept(&open, "x.blp", &session, "others may write the log");
}

#[test]
fn a_damaged_log_is_refused_and_nothing_is_touched() {
    let (image, session) = staged();
    let mut damaged = image.clone();
    // A second sync vouches for what the first one wrote.
    let file = session.open();
    session.write(file, 200, &[4; 8]);
    session.sync(file);
    let mut log = Image::load(session.directory.path()).files[OsStr::new(LOG)].clone();
    Arc::make_mut(&mut log).bytes[40] ^= 1;
    damaged.files.insert(LOG.into(), log);
    assert_refused(&damaged, "x.blp", &session, "the log is damaged");
}

#[test]
fn a_log_of_another_container_is_kept() {
    let (image, session) = staged();
    let mut moved = Image::default();
    for (name, file) in &image.files {
        let name = OsString::from(name.to_str().unwrap().replace("x.blp", "y.blp"));
        moved.files.insert(name, Arc::clone(file));
    }
    assert_kept(&moved, "y.blp", &session, "the container is another one");
}

/// A copy that keeps times is as good as the first; each is recovered by itself.
#[test]
fn two_copies_of_a_directory_are_settled_apart() {
    let (image, session) = staged();
    let directory = scratch();
    let copies = ["one", "two"].map(|name| directory.path().join(name));
    for copy in &copies {
        std::fs::create_dir(copy).unwrap();
        image.store(copy);
    }
    let mut written = session.first[0].clone();
    written[16..80].fill(3);
    let tree = tree_at(directory.path(), Preference::Auto, Some);
    assert!(read(&tree, "one/x.blp/data") == written);
    assert_eq!(Image::load(&copies[0]).names(), ["x.blp"]);
    assert_eq!(Image::load(&copies[1]), image);
    assert!(read(&tree, "two/x.blp/data") == written);
    assert_eq!(Image::load(&copies[1]).names(), ["x.blp"]);
}
