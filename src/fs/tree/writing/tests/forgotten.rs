//! What was promised for the life of the mount does not hang on what the kernel may forget of a
//! container: all of it, at any moment.

use std::time::Duration;

use super::*;
use crate::tree::InUse;

/// A classic file of two record variables, `a` with three and `b` with two records.
const RECORDS: &str = r#"{"format": "netcdf", "dimensions": {"t": {"length": 0, "unlimited": true}}, "arrays": [
    {"name": "a", "dtype": "int16", "shape": [3], "dims": ["t"]},
    {"name": "b", "dtype": "int16", "shape": [2], "dims": ["t"]}]}"#;

impl Tree {
    /// The kernel has no memory left for anything of this.
    fn kernel_forgets_all(&self) {
        let table = self.fs.inodes.lock();
        let held = |inode: &InodeId| table.held.get(inode).map_or(0, |count| *count as u64);
        let known: Vec<(InodeId, u64)> = table
            .iter()
            .filter(|(id, _)| *id != ROOT)
            .map(|(id, inode)| (id, inode.lookups - held(&id)))
            .collect();
        drop(table);
        known.into_iter().for_each(|(inode, lookups)| {
            self.names.forget(inode, lookups);
        });
    }

    fn puts_records(&self) {
        self.makes("x.nc", NewEntry::Directory { mode: 0o755 })
            .unwrap();
        self.puts("x.nc/arrays.json", RECORDS.as_bytes()).unwrap();
        self.puts("x.nc/a", &[1, 0, 2, 0, 3, 0]).unwrap();
        self.puts("x.nc/b", &[4, 0, 5, 0]).unwrap();
        self.containers().packing.pack_quiet(Duration::ZERO);
        assert_eq!(self.state("x.nc"), "clean");
    }

    fn appends(&self, path: &str, bytes: &[u8]) {
        let (inode, handle) = self.written(path, false).unwrap();
        let how = Putting {
            append: true,
            ..Putting::default()
        };
        self.contents
            .write(inode, handle, 0, bytes, how, NOBODY)
            .unwrap();
        self.closing.close(handle).unwrap();
        self.closing.release(handle);
    }
}

#[test]
fn record_variables_keep_their_own_lengths() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.puts_records();
    let shown = |expected: [&[u8]; 2]| {
        for (name, expected) in ["x.nc/a", "x.nc/b"].into_iter().zip(expected) {
            assert_eq!(tree.text(name).as_deref(), Some(expected), "{name}");
        }
    };
    let (mut a, mut b) = (vec![1, 0, 2, 0, 3, 0], vec![4, 0, 5, 0]);
    // As it was packed, after commits, with another time, and under other names.
    shown([&a, &b]);
    for round in 0..3u8 {
        tree.kernel_forgets_all();
        shown([&a, &b]);
        tree.appends("x.nc/a", &[round, 1]);
        a.extend([round, 1]);
        tree.kernel_forgets_all();
        shown([&a, &b]);
        tree.appends("x.nc/b", &[round, 2]);
        b.extend([round, 2]);
    }
    let time = NewAttributes {
        mtime: Some(NewTime::At(Timestamp { secs: 7, nanos: 0 })),
        ..NewAttributes::default()
    };
    let container = tree.inode("x.nc").unwrap();
    tree.changes
        .set_attributes(container, None, None, &time, NOBODY)
        .unwrap();
    tree.kernel_forgets_all();
    shown([&a, &b]);
    let at = |name: &str| directory.path().join(name);
    std::fs::hard_link(at("x.nc"), at("y.nc")).unwrap();
    assert_eq!(tree.text("y.nc/b"), Some(b.clone()));
    tree.appends("y.nc/b", &[9, 9]);
    b.extend([9, 9]);
    shown([&a, &b]);
    std::fs::rename(at("x.nc"), at("z.nc")).unwrap();
    assert_eq!(tree.text("z.nc/b"), Some(b));
    tree.kernel_forgets_all();
    // Of what others have changed nothing is known.
    let stored = std::fs::read(at("z.nc")).unwrap();
    std::fs::write(at("z.nc"), &stored).unwrap();
    assert_eq!(tree.text("z.nc/b").unwrap().len(), a.len());
    drop(tree);
    let next = tree_of(directory.path(), |disk| disk);
    assert_eq!(next.text("z.nc/b").unwrap().len(), a.len());
}

#[test]
fn what_is_put_into_a_container_that_was_made_here_becomes_an_array() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.puts_records();
    for name in ["c", "d"] {
        tree.kernel_forgets_all();
        let path = format!("x.nc/{name}");
        tree.puts(&path, b"later").unwrap();
        tree.containers().packing.pack_quiet(Duration::ZERO);
        tree.kernel_forgets_all();
        let inode = tree.inode(&path).unwrap();
        let shape = tree.xattrs.xattr(inode, OsStr::new("user.arrayfs.shape"));
        assert_eq!(shape.unwrap(), b"[5]", "{name}");
        // It was written anew.
        assert_eq!(tree.text("x.nc/b").as_deref(), Some(&[4, 0, 5, 0][..]));
    }
    let stored = std::fs::read(directory.path().join("x.nc")).unwrap();
    std::fs::write(directory.path().join("x.nc"), stored).unwrap();
    tree.puts("x.nc/e", b"later").unwrap();
    assert_eq!(tree.containers().commit_all(InUse::Ignored), []);
    let stays = tree.xattrs.xattr(
        tree.inode("x.nc/e").unwrap(),
        OsStr::new("user.arrayfs.shape"),
    );
    assert!(stays.is_err(), "others have changed it");
}

#[test]
fn what_a_new_container_could_not_keep_is_told() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    let text = RECORDS.replace(
        r#""dims": ["t"]},"#,
        r#""dims": ["t"], "attributes": {"odd": {"a": 1}}},"#,
    );
    tree.makes("x.nc", NewEntry::Directory { mode: 0o755 })
        .unwrap();
    tree.puts("x.nc/arrays.json", text.as_bytes()).unwrap();
    tree.puts("x.nc/a", &[1, 0, 2, 0, 3, 0]).unwrap();
    tree.puts("x.nc/b", &[4, 0, 5, 0]).unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    let state = tree.state("x.nc");
    assert!(state.starts_with("clean: not kept: "), "{state}");
    tree.kernel_forgets_all();
    assert_eq!(tree.state("x.nc"), state);
    tree.remove_all("x.nc").unwrap();
    tree.puts_records();
}

/// Entries that are no arrays, too.
#[test]
fn what_was_removed_of_a_container_stays_hidden() {
    let directory = ground();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mount-tests/golden");
    let file = golden.join("bloscpack/sources/np-3d.blp");
    std::fs::copy(file, directory.path().join("np.blp")).unwrap();
    let tree = tree_of(directory.path(), |disk| disk);
    for name in ["metadata.json", "data"] {
        let (parent, entry) = ("np.blp", OsStr::new(name));
        let container = tree.inode(parent).unwrap();
        let before = tree.names(container);
        assert!(before.iter().any(|shown| shown == name), "{before:?}");
        tree.removing.unlink(container, entry).unwrap();
        tree.kernel_forgets_all();
        let after = tree.names(tree.inode(parent).unwrap());
        assert_eq!(after.len() + 1, before.len(), "{after:?}");
    }
    let removed = tree.half_removed.arrays();
    assert_eq!(removed, [directory.path().join("np.blp/data")]);
}
