//! New containers with groups, on a disk that fails at its n-th call, and on one whose calls are
//! done again up to each of them.

use super::*;

const COLUMNS: [(&str, &[u8]); 2] = [("a", b"1234"), ("b", b"5678")];
const SAID: &[u8] = br#"{"arrays": [{"name": "columns/a", "dtype": "int16", "shape": [2]},
    {"name": "columns/b", "dtype": "int16", "shape": [2]}]}"#;

impl Tree {
    fn puts_frame(&self) -> Result<InodeId> {
        self.makes("new.dbdf", DIRECTORY)?;
        self.puts("new.dbdf/arrays.json", SAID)?;
        self.makes("new.dbdf/columns", DIRECTORY)?;
        for (name, content) in COLUMNS {
            self.puts(&format!("new.dbdf/columns/{name}"), content)?;
        }
        self.inode("new.dbdf")
    }

    /// It holds both columns, as they were described.
    fn is_frame(&self) -> bool {
        COLUMNS.iter().all(|(name, content)| {
            let column = self.inode(&format!("new.dbdf/columns/{name}"));
            column.is_ok_and(|column| {
                let dtype = self.xattrs.xattr(column, OsStr::new("user.arrayfs.dtype"));
                let expected = format!("4 \"{}", content.escape_ascii());
                dtype.is_ok_and(|dtype| dtype == b"int16")
                    && self.content(column).starts_with(&expected)
            })
        })
    }
}

#[test]
fn without_a_description_it_waits_longer() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let hour = Duration::from_secs(3600);
    tree.makes("new.dbdf", DIRECTORY).unwrap();
    tree.puts("new.dbdf/values", PLAIN).unwrap();
    assert!(tree.containers().packing.pack_quiet(hour).unwrap() > 29 * hour);
    tree.puts("new.dbdf/arrays.json", br#"{"arrays": []}"#)
        .unwrap();
    assert!(tree.containers().packing.pack_quiet(hour).unwrap() <= hour);
    tree.containers().packing.pack_quiet(Duration::ZERO);
    assert!(hidden(directory.path()).is_empty());
}

/// The kernel may come through a group as it was before: it is told to look again, and not that
/// nothing is there.
#[test]
fn a_group_that_has_been_packed_is_looked_up_again() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let new = tree.puts_frame().unwrap();
    let group = tree.inode("new.dbdf/columns").unwrap();
    tree.closing.sync_directory(new, false).unwrap();
    let stale = tree.names.lookup(group, OsStr::new("a")).unwrap_err();
    assert!(matches!(stale, Error::Changed { .. }), "{stale}");
    assert!(tree.is_frame());
    // One that is removed is gone.
    tree.makes("new.h5", DIRECTORY).unwrap();
    tree.makes("new.h5/group", DIRECTORY).unwrap();
    let (new, group) = ["new.h5", "new.h5/group"]
        .map(|path| tree.inode(path).unwrap())
        .into();
    tree.removing
        .remove_directory(new, OsStr::new("group"))
        .unwrap();
    let gone = tree.names.lookup(group, OsStr::new("a")).unwrap_err();
    assert!(matches!(gone, Error::NotFound), "{gone}");
}

#[test]
fn after_a_crash_all_that_was_put_into_groups_is_there_or_packed() {
    let directory = ground();
    let recording = Arc::new(std::sync::OnceLock::new());
    let tree = tree_of(directory.path(), |disk| {
        let disk = Arc::new(RecordingDisk::new(disk));
        let _ = recording.set(Arc::clone(&disk));
        disk
    });
    let new = tree.puts_frame().unwrap();
    let put = recording.get().unwrap().changes().len();
    tree.closing.sync_directory(new, false).unwrap();
    assert!(tree.is_frame());
    let changes = recording.get().unwrap().changes();
    assert!(changes.len() > put + 5, "{put} {}", changes.len());
    for some in 0..=changes.len() {
        let again = ground();
        replay(&changes[..some], again.path()).unwrap();
        let next = tree_of(again.path(), |disk| disk);
        if next.inode("new.dbdf").is_err() {
            assert!(some < put, "{some}");
            continue;
        }
        let new = next.inode("new.dbdf").unwrap();
        next.names(new);
        let left = next.containers().commit_all(InUse::Ignored);
        match some < put {
            // What is not all there stays new, and says so.
            true if !left.is_empty() => assert_eq!(hidden(again.path()).len(), 1, "{some}"),
            true => {}
            false => {
                assert!(left.is_empty() && next.is_frame(), "{some}: {left:?}");
                assert!(hidden(again.path()).is_empty(), "{some}");
            }
        }
    }
}

#[test]
fn whichever_call_fails_it_is_packed_later() {
    let mut failures = 0;
    for call in 1.. {
        let directory = ground();
        let failure = Failure::new(libc::EIO);
        let tree = tree_of(directory.path(), |disk| {
            let failure = Arc::clone(&failure);
            Arc::new(FailingDisk { disk, failure })
        });
        let new = tree.puts_frame().unwrap();
        failure.arm(call);
        let packed = tree.closing.sync_directory(new, false);
        let done = failure.is_armed();
        if !done && packed.is_err() {
            tree.closing.sync_directory(new, false).unwrap();
        }
        assert!(tree.is_frame(), "call {call}");
        drop(tree);
        let next = tree_of(directory.path(), |disk| disk);
        assert!(next.is_frame(), "call {call}");
        assert!(hidden(directory.path()).is_empty(), "call {call}");
        if done {
            break;
        }
        failures += 1;
    }
    assert!(failures > 10, "{failures}");
}
