//! A file that is renamed over an array: whatever fails, every reader sees the old content or the
//! new one.

use std::sync::mpsc;

use super::made::hooked;
use super::*;
use crate::sync::Mutex;

const NEW: &[u8] = b"what the file holds";

/// A container of one array, and what it holds.
fn container(directory: &Path) -> Vec<u8> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mount-tests/golden");
    let file = golden.join("bloscpack/sources/np-le-i8.blp");
    std::fs::copy(file, directory.join("np.blp")).unwrap();
    let tree = tree_of(directory, |disk| disk);
    tree.text("np.blp/data").unwrap()
}

/// Whole rows, whatever they are.
fn rows(len: usize) -> Vec<u8> {
    let mut bytes = NEW.repeat(len / NEW.len() + 1);
    bytes.truncate(len);
    bytes
}

#[test]
fn at_every_step_readers_see_the_old_array_or_the_new_one() {
    let mut steps = 0;
    for call in 1.. {
        let directory = ground();
        let old = container(directory.path());
        let new = rows(old.len() * 2);
        let (tree, failure) = hooked(directory.path());
        tree.puts("np.blp/.data.x", &new).unwrap();
        let open = tree
            .reading
            .open(tree.inode("np.blp/data").unwrap())
            .unwrap();
        let (reading, seen) = (Arc::clone(&tree), Arc::new(Mutex::new(None)));
        let read = |tree: &Tree| {
            tree.reading
                .read(open.handle, 0, 1 << 20, PageCache::Used, |bytes| {
                    bytes.unwrap().to_vec()
                })
        };
        let (handle, noted) = (open.handle, Arc::clone(&seen));
        let (told, done) = mpsc::channel::<()>();
        failure.arm_with(call, move || {
            // In a thread of its own: at some steps a reader waits.
            std::thread::spawn(move || {
                let bytes = reading
                    .reading
                    .read(handle, 0, 1 << 20, PageCache::Used, |bytes| {
                        bytes.unwrap().to_vec()
                    });
                *noted.lock() = Some(bytes);
                drop(told);
            });
        });
        tree.renames("np.blp/.data.x", "np.blp/data", Renaming::Over)
            .unwrap();
        assert!(read(&tree) == new, "call {call}");
        assert!(tree.text("np.blp/data").unwrap() == new, "call {call}");
        let has_read = failure.is_armed() || done.recv().is_err();
        assert!(has_read, "call {call}");
        let Some(seen) = seen.lock().take() else {
            break;
        };
        assert!(seen == old || seen == new, "call {call}: {}", seen.len());
        steps += 1;
    }
    assert!(steps > 5, "{steps}");
}

/// What cannot be committed stays staged when a file cannot take its place; and does not keep it
/// from doing so.
#[test]
fn whichever_call_fails_the_array_is_whole() {
    let mut failures = 0;
    for call in 1.. {
        let directory = ground();
        let old = container(directory.path());
        let new = rows(old.len() * 2);
        let failure = Failure::new(libc::EIO);
        let tree = tree_of(directory.path(), |disk| {
            let failure = Arc::clone(&failure);
            Arc::new(FailingDisk { disk, failure })
        });
        // Not a whole row: it stays staged.
        let (inode, handle) = tree.written("np.blp/data", false).unwrap();
        let how = Putting::default();
        let at = old.len() as u64;
        tree.contents
            .write(inode, handle, at, b"x", how, NOBODY)
            .unwrap();
        assert!(tree.closing.close(handle).is_err());
        tree.closing.release(handle);
        let mut staged = old.clone();
        staged.push(b'x');
        tree.puts("np.blp/.data.x", &new).unwrap();
        failure.arm(call);
        let replaced = tree.renames("np.blp/.data.x", "np.blp/data", Renaming::Over);
        let done = failure.is_armed();
        let shown = tree.text("np.blp/data").unwrap();
        let temporary = tree.text("np.blp/.data.x");
        match replaced {
            Ok(()) => assert!(shown == new && temporary.is_none(), "call {call}"),
            Err(_) => assert!(
                (shown == staged || shown == new) && temporary == Some(new),
                "call {call}: {} bytes",
                shown.len()
            ),
        }
        if done {
            break;
        }
        failures += 1;
    }
    assert!(failures > 5, "{failures}");
}

/// Several files that do not agree with each other before the last one has come.
#[test]
fn files_that_do_not_agree_yet_are_staged_whole() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let old = tree.text("matrix/row_names").unwrap();
    let new = [&old[..], b"one more\n"].concat();
    tree.puts("matrix/.row_names", &new).unwrap();
    tree.renames("matrix/.row_names", "matrix/row_names", Renaming::Over)
        .unwrap();
    assert!(tree.text("matrix/row_names").unwrap() == new);
    assert!(tree.state("matrix").starts_with("staged: "));
    tree.puts("matrix/.row_names", &old).unwrap();
    tree.renames("matrix/.row_names", "matrix/row_names", Renaming::Over)
        .unwrap();
    assert!(tree.text("matrix/row_names").unwrap() == old);
    assert_eq!(tree.state("matrix"), "clean");
}
