//! Staged bytes are never out of sight of an unmount, however writes and commits fall together.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{NOBODY, ground, tree_of};
use crate::disk::Putting;
use crate::live::committing::Effort;

const WRITES: u64 = 4_000;

#[test]
fn whatever_is_staged_is_in_the_list_when_the_write_returns() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let (inode, handle) = tree.written("one.blp/data", false).unwrap();
    let open = tree.fs.open_files.get(handle).unwrap();
    let writer = open.array_writer().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                tree.fs
                    .live
                    .committer
                    .commit(&writer.version, Effort::Usual)
                    .unwrap();
            }
        });
        for at in 0..WRITES {
            let how = Putting::default();
            tree.contents
                .write(inode, handle, at % 100, &[at as u8], how, NOBODY)
                .unwrap();
            let listed = tree.containers().written.all();
            let is_listed = listed.iter().any(|(_, one)| one.id == writer.version.id);
            assert!(is_listed || writer.stage().is_clean(), "write {at}");
        }
        done.store(true, Ordering::Release);
    });
    tree.closing.release(handle);
    assert!(tree.containers().written.all().is_empty());
}
