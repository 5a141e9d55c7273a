//! New containers that are renamed: what was put into them goes along, and is nowhere lost on the
//! way.

use super::*;

const MOVED: &str = ".moved.blp.arrayfs-drafts";

fn is_busy(e: &Error) -> bool {
    matches!(e, Error::Io { cause, .. } if cause.raw_os_error() == Some(libc::EBUSY))
}

#[test]
fn it_is_renamed_as_it_is_whatever_is_open() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.makes("below", DIRECTORY).unwrap();
    tree.makes("new.blp", DIRECTORY).unwrap();
    tree.puts("new.blp/notes", PLAIN).unwrap();
    let new = tree.inode("new.blp").unwrap();
    let (parent, name) = tree.parent("new.blp/data").unwrap();
    let (file, open) = tree
        .making
        .create(parent, name, 0o644, true, NOBODY)
        .unwrap();
    for (from, to) in [("new.blp", "below/x.blp"), ("below/x.blp", "moved.blp")] {
        tree.renames(from, to, Renaming::NoReplace).unwrap();
        assert!(tree.inode(from).is_err_and(|e| e.is_not_found()));
    }
    let how = Putting::default();
    tree.contents
        .write(file.inode, open.handle, 0, PLAIN, how, NOBODY)
        .unwrap();
    tree.closing.release(open.handle);
    assert_eq!(tree.inode("moved.blp").unwrap(), new);
    assert_eq!(tree.names(new), ["data", "notes"]);
    assert_eq!(hidden(directory.path()), [MOVED]);
    assert!(!directory.path().join("new.blp").exists());
    assert!(hidden(&directory.path().join("below")).is_empty());
    drop(tree);
    let next = tree_of(directory.path(), |disk| disk);
    assert_eq!(
        next.names(next.inode("moved.blp").unwrap()),
        ["data", "notes"]
    );
}

#[test]
fn an_empty_one_is_new_under_its_new_name() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.makes("new.blp", DIRECTORY).unwrap();
    tree.renames("new.blp", "moved.blp", Renaming::Over)
        .unwrap();
    assert_eq!(hidden(directory.path()), [MOVED]);
    tree.puts("moved.blp/arrays.json", DESCRIPTION).unwrap();
    // Over another empty one, and an empty one over another.
    tree.makes("other.blp", DIRECTORY).unwrap();
    tree.inode("one.blp").unwrap();
    tree.renames("other.blp", "one.blp", Renaming::Over)
        .unwrap();
    assert!(tree.names(tree.inode("one.blp").unwrap()).is_empty());
    tree.makes("other.blp", DIRECTORY).unwrap();
    let refused = tree.renames("moved.blp", "other.blp", Renaming::Over);
    assert!(refused.is_err_and(|e| is_busy(&e)), "it has no array yet");
    assert_eq!(
        tree.names(tree.inode("moved.blp").unwrap()),
        ["arrays.json"]
    );
    tree.puts("moved.blp/data", PLAIN).unwrap();
    tree.renames("moved.blp", "other.blp", Renaming::Over)
        .unwrap();
    tree.renames("other.blp", "new.blp", Renaming::Over)
        .unwrap();
    assert!(tree.is_packed());
    assert_eq!(hidden(directory.path()), [".one.blp.arrayfs-drafts"]);
}

#[test]
fn whoever_renames_it_while_it_is_packed_is_told() {
    let directory = ground();
    let (tree, failure) = hooked(directory.path());
    tree.puts_container().unwrap();
    let (renaming, told) = (Arc::clone(&tree), Arc::new(std::sync::OnceLock::new()));
    let tells = Arc::clone(&told);
    failure.arm_with(1, move || {
        let renamed = renaming.renames("new.blp", "moved.blp", Renaming::Over);
        let _ = tells.set(renamed.is_err_and(|e| is_busy(&e)));
    });
    tree.containers().packing.pack_quiet(Duration::ZERO);
    assert_eq!(told.get(), Some(&true));
    assert!(tree.is_packed());
}

/// Whenever a crash comes, what was put into it is in one of the two.
#[test]
fn a_crash_on_the_way_costs_nothing() {
    let directory = ground();
    let recording = Arc::new(std::sync::OnceLock::new());
    let tree = tree_of(directory.path(), |disk| {
        let disk = Arc::new(RecordingDisk::new(disk));
        let _ = recording.set(Arc::clone(&disk));
        disk
    });
    tree.puts_container().unwrap();
    let before = recording.get().unwrap().changes().len();
    tree.renames("new.blp", "moved.blp", Renaming::Over)
        .unwrap();
    let changes = recording.get().unwrap().changes();
    let mut found = [0; 2];
    for some in before..=changes.len() {
        let again = ground();
        replay(&changes[..some], again.path()).unwrap();
        let next = tree_of(again.path(), |disk| disk);
        let has = |name: &str| {
            let inode = next.inode(name);
            inode.is_ok_and(|inode| next.names(inode) == ["arrays.json", "data", "views"])
                && next.inode(&format!("{name}/views/data.npy")).is_ok()
                && next.state(name) == "staged: it is new"
        };
        let (old, new) = (has("new.blp"), has("moved.blp"));
        assert!(old != new, "{some}");
        found[usize::from(new)] += 1;
    }
    assert!(found.iter().all(|times| *times > 0), "{found:?}");
}

#[test]
fn a_disk_that_fails_once_costs_nothing() {
    for call in 1.. {
        let directory = ground();
        let (tree, failure) = hooked(directory.path());
        tree.puts_container().unwrap();
        failure.arm(call);
        let renamed = tree.renames("new.blp", "moved.blp", Renaming::Over);
        let is_done = failure.is_armed();
        assert!(!is_done || renamed.is_ok(), "call {call}");
        // If the old one could not be removed, that is an empty container.
        let name = match renamed.is_ok() {
            true => "moved.blp",
            false => "new.blp",
        };
        let content = tree.content(tree.inode(&format!("{name}/data")).unwrap());
        assert!(content.starts_with("36 \"what is put"), "call {call}");
        if is_done {
            return assert!(call > 5, "{call}");
        }
    }
}
