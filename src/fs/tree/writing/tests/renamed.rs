//! The labels of a frame are written: its columns have other names, and stay what they are.

use super::*;
use crate::container::names;
use crate::live::InUse;

/// Columns `a`, `b` and `c` of 4, 8 and 1 bytes in each of 40 rows.
fn frame() -> (tempfile::TempDir, Tree) {
    let directory = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mount-tests/golden");
    let frame = golden.join("daphne/sources/frame-row-blocks.dbdf");
    std::fs::copy(frame, directory.path().join("x.dbdf")).unwrap();
    let tree = tree_of(directory.path(), |disk| disk);
    (directory, tree)
}

impl Tree {
    fn writes(&self, path: &str, at: u64, bytes: &[u8]) -> (InodeId, HandleId) {
        let (inode, handle) = self.written(path, false).unwrap();
        self.writes_to((inode, handle), at, bytes);
        (inode, handle)
    }

    fn writes_to(&self, (inode, handle): (InodeId, HandleId), at: u64, bytes: &[u8]) {
        let how = Putting::default();
        let written = self.write(inode, handle, at, bytes, how, NOBODY).unwrap();
        assert_eq!(written, bytes.len());
    }

    fn ends(&self, handle: HandleId) {
        self.close(handle).unwrap();
        self.release(handle);
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        let open = self.open(self.inode(path).unwrap()).unwrap();
        let read = |bytes: Result<&[u8]>| bytes.unwrap().to_vec();
        let bytes = self.read(open.handle, 0, 1 << 16, PageCache::Used, read);
        self.release(open.handle);
        bytes
    }

    fn lost(&self) -> Vec<(InodeId, String)> {
        let lost = self.lost_names().try_iter();
        let mut lost: Vec<_> = lost
            .map(|lost| (lost.parent, lost.name.to_str().unwrap().to_owned()))
            .collect();
        lost.sort();
        lost
    }
}

#[test]
fn columns_keep_their_inodes_and_handles() {
    let (directory, tree) = frame();
    let (before, columns) = (
        tree.bytes("x.dbdf/columns/b"),
        tree.inode("x.dbdf/columns").unwrap(),
    );
    let first = tree.written("x.dbdf/columns/a", false).unwrap();
    let view = tree.inode("x.dbdf/views/columns/a.npy").unwrap();
    let (_, labels) = tree.writes("x.dbdf/labels", 0, b"b\na\nx/y\n");
    assert_eq!(tree.names(columns), ["a", "b", "c"], "before the commit");
    assert!(tree.lost().is_empty());
    tree.ends(labels);
    assert_eq!(tree.names(columns), ["a", "b", "x%2Fy"]);
    assert_eq!(tree.inode("x.dbdf/columns/b").unwrap(), first.0);
    assert_eq!(tree.inode("x.dbdf/views/columns/b.npy").unwrap(), view);
    assert_eq!(tree.bytes("x.dbdf/columns/a"), before);
    let views = tree.inode("x.dbdf/views/columns").unwrap();
    let mut expected = vec![
        (columns, "a".into()),
        (columns, "b".into()),
        (views, "a.npy".into()),
    ];
    expected.sort();
    assert_eq!(tree.lost(), expected);
    assert!(!tree.has_lost_names());
    // What is written through it goes to the first column, whatever it is called.
    tree.writes_to(first, 4, &[7; 4]);
    tree.writes_to(first, 160, &[]);
    tree.ends(first.1);
    assert_eq!(tree.bytes("x.dbdf/columns/b")[4..8], [7; 4]);
    assert_eq!(tree.bytes("x.dbdf/columns/a"), before);
    assert!(tree.inode("x.dbdf/columns/c").is_err());
    let json = String::from_utf8(tree.bytes("x.dbdf/arrays.json")).unwrap();
    assert!(
        json.contains("columns/x%2Fy") && !json.contains("columns/c\""),
        "{json}"
    );
    drop(tree);
    let tree = tree_of(directory.path(), |disk| disk);
    assert_eq!(tree.bytes("x.dbdf/columns/b")[4..8], [7; 4]);
    assert_eq!(tree.bytes("x.dbdf/labels"), b"b\na\nx/y\n");
}

/// A program with a handle of a column writes on: what it may do follows from the column's type.
#[test]
fn a_renamed_column_grows_by_its_own_elements() {
    let (_directory, tree) = frame();
    let files = ["a", "b", "c"].map(|name| {
        let path = format!("x.dbdf/columns/{name}");
        tree.written(&path, false).unwrap()
    });
    let (_, labels) = tree.writes("x.dbdf/labels", 0, b"c\na\nb\n");
    tree.ends(labels);
    for (file, size) in files.into_iter().zip([4, 8, 1]) {
        tree.writes_to(file, 40 * size, &vec![size as u8; size as usize]);
    }
    files.into_iter().for_each(|(_, handle)| tree.ends(handle));
    assert!(tree.containers().all_staged().is_empty());
    for (name, size) in [("c", 4), ("a", 8), ("b", 1)] {
        let bytes = tree.bytes(&format!("x.dbdf/columns/{name}"));
        assert_eq!(bytes.len(), 41 * size, "{name}");
        assert!(
            bytes[40 * size..]
                .iter()
                .all(|byte| usize::from(*byte) == size)
        );
    }
}

/// As editors do it.
#[test]
fn labels_are_those_of_a_file_that_is_renamed_over_them() {
    let (directory, tree) = frame();
    std::fs::write(directory.path().join("new"), "b\na\nlonger\n").unwrap();
    let second = tree.bytes("x.dbdf/columns/b");
    let (_, column) = tree.writes("x.dbdf/columns/a", 0, &[9; 160]);
    let (how, over) = (Renaming::Over, "x.dbdf/labels");
    tree.inode("new").unwrap();
    tree.renames("new", over, how).unwrap();
    tree.ends(column);
    assert_eq!(tree.bytes("x.dbdf/labels"), b"b\na\nlonger\n");
    assert_eq!(tree.bytes("x.dbdf/columns/b"), [9; 160]);
    assert_eq!(tree.bytes("x.dbdf/columns/a"), second);
    std::fs::write(directory.path().join("new"), "b\na\n").unwrap();
    tree.inode("new").unwrap();
    tree.renames("new", over, how).unwrap();
    assert_eq!(tree.bytes("x.dbdf/labels"), b"b\na\n");
    let why = &tree.containers().commit_all(InUse::Ignored)[0].1;
    assert_eq!(why, "labels has 2 lines for the 3 columns");
    assert_eq!(tree.bytes("x.dbdf/columns/b"), [9; 160]);
}

/// Another program has put another file there, in which columns have changed places.
#[test]
fn what_is_staged_of_a_column_is_not_applied_to_another_one() {
    for (theirs, is_applied) in [(*b"b\na\nc\n", false), (*b"a\nb\nx\n", true)] {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("x.dbdf");
        let mut stored = vec![1, 3];
        stored.extend([1u64, 3].map(u64::to_le_bytes).concat());
        let with = |labels: &[u8]| {
            let mut file = [&stored[..], &[1, 1, 1]].concat();
            let labels = labels
                .split(|byte| *byte == b'\n')
                .filter(|label| !label.is_empty());
            labels.for_each(|label| file.extend([&[label.len() as u8, 0], label].concat()));
            file.extend([0; 16]);
            file.extend([1u32, 3].map(u32::to_le_bytes).concat());
            file.extend([1, 1, 10, 20, 30]);
            file
        };
        std::fs::write(&at, with(b"a\nb\nc\n")).unwrap();
        let tree = tree_of(directory.path(), |disk| disk);
        let (inode, handle) = tree.writes("x.dbdf/columns/a", 0, &[11]);
        tree.sync(inode, handle, false).unwrap();
        std::fs::write(directory.path().join("theirs"), with(&theirs)).unwrap();
        std::fs::rename(directory.path().join("theirs"), &at).unwrap();
        assert!(tree.close(handle).is_err());
        tree.release(handle);
        let all = tree.containers().all_staged();
        for (id, version) in all {
            tree.containers().commit_or_apply(id, &version);
        }
        let values = [if is_applied { 11 } else { 10 }, 20, 30];
        let mut expected = with(&theirs);
        let from = expected.len() - 3;
        expected[from..].copy_from_slice(&values);
        assert_eq!(std::fs::read(&at).unwrap(), expected, "{is_applied}");
    }
}

#[test]
fn labels_that_are_alike_get_numbers() {
    let (_directory, tree) = frame();
    let (_, labels) = tree.written("x.dbdf/labels", true).unwrap();
    let inode = tree.inode("x.dbdf/labels").unwrap();
    tree.writes_to((inode, labels), 0, b"z\n\nz\n");
    tree.ends(labels);
    let columns = tree.inode("x.dbdf/columns").unwrap();
    let mut shown = names::shown(&["z", "", "z"], false).unwrap();
    shown.sort();
    assert_eq!(tree.names(columns), shown);
}
