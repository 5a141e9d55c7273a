//! What packing must leave alone: what is no part of a container, what is used or changed
//! meanwhile, and what others own.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Instant;

use super::*;

/// As `git init` and `rsync --delay-updates` make them.
#[test]
fn a_hidden_directory_is_not_lost() {
    for with_data in [false, true] {
        let directory = ground();
        let tree = tree_of(directory.path(), |disk| disk);
        tree.makes("new.blp", DIRECTORY).unwrap();
        tree.makes("new.blp/.git", DIRECTORY).unwrap();
        tree.puts("new.blp/.git/HEAD", b"ref").unwrap();
        if with_data {
            tree.puts("new.blp/data", PLAIN).unwrap();
        }
        tree.containers().packing.pack_quiet(Duration::ZERO);
        assert_eq!(tree.containers().commit_all(InUse::Ignored).len(), 1);
        assert_eq!(hidden(directory.path()), [DRAFTS]);
        let state = tree.state("new.blp");
        assert!(state.contains(".git cannot be a part"), "{state}");
        let content = tree.content(tree.inode("new.blp/.git/HEAD").unwrap());
        assert!(content.starts_with("3 "), "{content}");
        tree.remove_all("new.blp/.git").unwrap();
        tree.containers().packing.pack_quiet(Duration::ZERO);
        assert_eq!(hidden(directory.path()).is_empty(), with_data);
    }
}

#[test]
fn a_temporary_file_is_not_lost_before_there_is_another_one() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.makes("new.blp", DIRECTORY).unwrap();
    tree.puts("new.blp/.data.x", PLAIN).unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    assert_eq!(hidden(directory.path()), [DRAFTS]);
    tree.renames("new.blp/.data.x", "new.blp/data", Renaming::Over)
        .unwrap();
    tree.puts("new.blp/arrays.json", DESCRIPTION).unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    assert!(tree.is_packed());
}

#[test]
fn a_move_may_come_first_after_a_crash() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.puts_container().unwrap();
    drop(tree);
    let next = tree_of(directory.path(), |disk| disk);
    next.inode("new.blp").unwrap();
    next.renames("new.blp", "moved.blp", Renaming::Over)
        .unwrap();
    let content = next.content(next.inode("moved.blp/data").unwrap());
    assert!(content.starts_with("36 \"what is put"), "{content}");
    assert_eq!(hidden(directory.path()), [".moved.blp.arrayfs-drafts"]);
}

/// The replaced container is recovered as well: its drafts are not those of the one that takes its
/// place.
#[test]
fn a_container_that_is_replaced_after_a_crash_takes_its_drafts_along() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.puts_container().unwrap();
    tree.makes("empty.blp", DIRECTORY).unwrap();
    drop(tree);
    let next = tree_of(directory.path(), |disk| disk);
    next.inode("new.blp").unwrap();
    next.inode("empty.blp").unwrap();
    next.renames("empty.blp", "new.blp", Renaming::Over)
        .unwrap();
    assert_eq!(hidden(directory.path()), [DRAFTS]);
    assert!(next.names(next.inode("new.blp").unwrap()).is_empty());
}

#[test]
fn a_move_that_comes_first_after_a_crash_takes_along_what_was_written_to_an_array() {
    let (directory, again) = (ground(), tempfile::tempdir().unwrap());
    let tree = tree_of(directory.path(), |disk| disk);
    let (inode, handle) = tree.written("one.blp/data", false).unwrap();
    let how = Putting::default();
    tree.contents
        .write(inode, handle, 0, b"staged", how, NOBODY)
        .unwrap();
    tree.closing.sync(inode, handle, false).unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(directory.path().join("."))
        .arg(again.path())
        .status();
    assert!(copied.unwrap().success());
    let next = tree_of(again.path(), |disk| disk);
    next.inode("one.blp").unwrap();
    next.renames("one.blp", "moved.blp", Renaming::Over)
        .unwrap();
    let content = next.content(next.inode("moved.blp/data").unwrap());
    assert!(content.contains("\"staged"), "{content}");
    assert!(hidden(again.path()).is_empty());
}

/// By path, without a handle: as truncate(2), chmod and touch do it.
#[test]
fn what_is_changed_by_path_while_it_is_packed_is_not_lost() {
    let time = Timestamp { secs: 5, nanos: 7 };
    let mode = |mode| NewAttributes {
        mode: Some(mode),
        ..NewAttributes::default()
    };
    let times = NewAttributes {
        mtime: Some(NewTime::At(time)),
        ..NewAttributes::default()
    };
    for (path, len, to) in [
        ("new.blp/data", Some(100), NewAttributes::default()),
        ("new.blp/data", None, mode(0o600)),
        ("new.blp/data", None, times),
        ("new.blp", None, mode(0o700)),
    ] {
        let what = format!("{path} {len:?} {to:?}");
        let directory = ground();
        let (tree, failure) = hooked(directory.path());
        tree.makes("new.blp", DIRECTORY).unwrap();
        tree.puts("new.blp/data", PLAIN).unwrap();
        let changing = Arc::clone(&tree);
        failure.arm_with(1, move || changing.sets(path, len, to).unwrap());
        tree.containers().packing.pack_quiet(Duration::ZERO);
        assert_eq!(hidden(directory.path()), [DRAFTS], "{what}");
        tree.containers().packing.pack_quiet(Duration::ZERO);
        assert!(hidden(directory.path()).is_empty(), "{what}");
        let stored = directory.path().join("new.blp").metadata().unwrap();
        if let Some(len) = len {
            let content = tree.content(tree.inode("new.blp/data").unwrap());
            assert!(content.starts_with(&format!("{len} ")), "{what}: {content}");
        }
        if to.mode.is_some() {
            assert_eq!(stored.permissions().mode() & 0o777, 0o600, "{what}");
        }
        if to.mtime.is_some() {
            assert_eq!((stored.mtime(), stored.mtime_nsec()), (5, 7), "{what}");
        }
    }
}

/// In the source, by a process that knows nothing of drafts.
#[test]
fn what_somebody_else_changes_while_it_is_packed_is_not_lost() {
    type Change = fn(&Path);
    let changes: [Change; 3] = [
        |drafts| std::fs::write(drafts.join("data"), [7; 100]).unwrap(),
        |drafts| {
            std::fs::write(drafts.join("new"), [7; 100]).unwrap();
            std::fs::rename(drafts.join("new"), drafts.join("data")).unwrap();
        },
        |drafts| std::fs::write(drafts.join("notes"), [7; 100]).unwrap(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        for in_use in [InUse::Spared, InUse::Ignored] {
            let directory = ground();
            let (tree, failure) = hooked(directory.path());
            tree.makes("new.blp", DIRECTORY).unwrap();
            tree.puts("new.blp/data", PLAIN).unwrap();
            let drafts = directory.path().join(DRAFTS);
            failure.arm_with(1, move || change(&drafts));
            assert_eq!(tree.containers().commit_all(in_use).len(), 1, "{number}");
            assert_eq!(hidden(directory.path()), [DRAFTS], "{number}");
            assert!(tree.containers().commit_all(in_use).is_empty(), "{number}");
            let changed = ["new.blp/data", "new.blp/data", "new.blp/notes"][number];
            let content = tree.content(tree.inode(changed).unwrap());
            assert!(content.starts_with("100 "), "{number}: {content}");
        }
    }
}

#[test]
fn what_belongs_to_another_user_does_not_become_the_owners() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested, needs root: another user");
        return;
    }
    for name in ["data", "arrays.json"] {
        let directory = ground();
        let tree = tree_of(directory.path(), |disk| disk);
        tree.puts_container().unwrap();
        let draft = directory.path().join(DRAFTS).join(name);
        std::os::unix::fs::chown(&draft, Some(1), None).unwrap();
        tree.containers().packing.pack_quiet(Duration::ZERO);
        assert_eq!(hidden(directory.path()), [DRAFTS]);
        let state = tree.state("new.blp");
        let why = format!("{name} belongs to another user");
        assert!(state.contains(&why), "{state}");
        let given = NewAttributes {
            uid: Some(0),
            ..NewAttributes::default()
        };
        tree.sets(&format!("new.blp/{name}"), None, given).unwrap();
        tree.containers().packing.pack_quiet(Duration::ZERO);
        assert!(tree.is_packed());
    }
}

/// The time since its last use is taken when its turn comes, however long those before it have
/// taken.
#[test]
fn one_that_is_used_while_another_one_is_packed_is_left_alone() {
    const QUIET: Duration = Duration::from_secs(2);
    let directory = ground();
    let (tree, failure) = hooked(directory.path());
    for name in ["one-new.blp", "other-new.blp"] {
        tree.makes(name, DIRECTORY).unwrap();
        tree.puts(&format!("{name}/data"), PLAIN).unwrap();
    }
    tree.fs.live.new.set_back(QUIET);
    let using = Arc::clone(&tree);
    failure.arm_with(1, move || {
        for name in ["one-new.blp", "other-new.blp"] {
            using.puts(&format!("{name}/.x"), b"more").unwrap();
        }
    });
    assert!(tree.containers().packing.pack_quiet(QUIET).is_some());
    assert!(!failure.is_armed());
    assert_eq!(hidden(directory.path()).len(), 2);
}

#[test]
fn what_is_put_into_it_while_it_is_renamed_goes_along() {
    let directory = ground();
    let (tree, failure) = hooked(directory.path());
    tree.makes("new.blp", DIRECTORY).unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    let new = tree.inode("new.blp").unwrap();
    let (putting, (handing, handed)) = (Arc::clone(&tree), mpsc::channel());
    failure.arm_with(1, move || {
        let (done, wait) = mpsc::channel();
        std::thread::spawn(move || {
            let made = putting
                .making
                .create(new, OsStr::new("file"), 0o644, true, NOBODY);
            done.send(made.map(|(_, open)| putting.closing.release(open.handle)))
        });
        // It waits for the move, which has begun.
        assert!(wait.recv_timeout(Duration::from_millis(200)).is_err());
        handing.send(wait).unwrap();
    });
    tree.renames("new.blp", "moved.blp", Renaming::Over)
        .unwrap();
    let put = handed.recv().unwrap();
    put.recv().unwrap().unwrap();
    assert_eq!(hidden(directory.path()), [".moved.blp.arrayfs-drafts"]);
    assert_eq!(tree.names(tree.inode("moved.blp").unwrap()), ["file"]);
}

#[test]
fn in_a_container_that_is_not_used_any_more_a_container_is_a_directory() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.makes("new.blp", DIRECTORY).unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    tree.makes("new.blp/inner.blp", DIRECTORY).unwrap();
    let new = tree.inode("new.blp").unwrap();
    assert_eq!(tree.names(new), ["inner.blp"]);
    assert!(directory.path().join(DRAFTS).join("inner.blp").is_dir());
    tree.makes("new.blp/inner.blp/x.blp", DIRECTORY).unwrap();
    tree.remove_all("new.blp").unwrap();
    assert!(hidden(directory.path()).is_empty());
}

#[test]
fn a_file_that_is_open_by_another_name_is_open() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.puts_container().unwrap();
    let data = tree.inode("new.blp/data").unwrap();
    tree.making.link(data, ROOT, OsStr::new("linked")).unwrap();
    let open = tree.contents.open_for_writing(data).unwrap();
    tree.containers().packing.pack_quiet(Duration::ZERO);
    assert_eq!(hidden(directory.path()), [DRAFTS]);
    let how = Putting::default();
    tree.contents
        .write(data, open.handle, 0, b"what is put,", how, NOBODY)
        .unwrap();
    tree.closing.release(open.handle);
    tree.containers().packing.pack_quiet(Duration::ZERO);
    let content = tree.content(tree.inode("new.blp/data").unwrap());
    assert!(content.starts_with("36 \"what is put,"), "{content}");
}

/// With memory for chunks of the usual size.
fn roomy_tree(source: &Path, failure: &Arc<Failure>) -> Tree {
    let store = Arc::new(LocalStore::open(source, source).unwrap());
    let disk = Arc::new(FailingDisk {
        disk: Arc::new(LocalDisk::new(Arc::clone(&store))),
        failure: Arc::clone(failure),
    });
    let (cache, workers) = (BlockCache::new(1 << 28), ReadAheadWorkers::new(1).unwrap());
    let (root, settings) = (Path::new(""), Settings::default());
    let made = Tree::new(store, Some(disk), root, cache, workers, settings);
    made.unwrap().0
}

/// Says so as soon as something has been written to a file, of which others are made before.
fn tell_when_written(failure: &Arc<Failure>, file: PathBuf, tell: mpsc::Sender<()>) {
    let again = Arc::clone(failure);
    failure.arm_with(1, move || {
        match file.metadata().is_ok_and(|file| file.len() > 0) {
            true => tell.send(()).unwrap(),
            false => tell_when_written(&again, file, tell),
        }
    });
}

#[test]
fn packing_that_takes_for_ever_ends_when_somebody_uses_it_and_with_the_mount() {
    type End = fn(&Tree);
    let ends: [End; 2] = [
        |tree| tree.puts("new.blp/.x", b"more").unwrap(),
        |tree| {
            tree.containers().end_packing_by(Instant::now());
            assert_eq!(tree.containers().commit_all(InUse::Ignored).len(), 1);
        },
    ];
    for end in ends {
        let directory = ground();
        let failure = Failure::new(libc::EIO);
        let tree = Arc::new(roomy_tree(directory.path(), &failure));
        tree.makes("new.blp", DIRECTORY).unwrap();
        tree.puts("new.blp/data", PLAIN).unwrap();
        tree.sets("new.blp/data", Some(1 << 37), NewAttributes::default())
            .unwrap();
        let (done, wait) = mpsc::channel();
        let (begun, is_begun) = mpsc::channel();
        let new = directory.path().join(".new.blp.arrayfs-new");
        tell_when_written(&failure, new, begun);
        let packing = Arc::clone(&tree);
        std::thread::spawn(move || {
            packing.containers().packing.pack_quiet(Duration::ZERO);
            done.send(())
        });
        let begun = is_begun.recv_timeout(Duration::from_secs(60));
        assert!(begun.is_ok(), "{}", tree.state("new.blp"));
        end(&tree);
        wait.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(hidden(directory.path()), [DRAFTS]);
    }
}

/// In the moment in which drafts become a container, only requests that use drafts wait.
#[test]
fn what_is_not_new_is_changed_whoever_packs() {
    let directory = ground();
    let tree = Arc::new(tree_of(directory.path(), |disk| disk));
    tree.puts_container().unwrap();
    let (done, wait) = mpsc::channel();
    let (changing, told) = (Arc::clone(&tree), done.clone());
    let alone = tree.fs.live.new.exclusive();
    std::thread::spawn(move || {
        changing
            .sets("file", Some(3), NewAttributes::default())
            .unwrap();
        changing
            .sets("one.blp/data", Some(400), NewAttributes::default())
            .unwrap();
        for path in ["file", "one.blp/data"] {
            let (_, handle) = changing.written(path, false).unwrap();
            changing.closing.release(handle);
        }
        told.send("others").unwrap();
    });
    let first = wait.recv_timeout(Duration::from_secs(20));
    assert_eq!(first, Ok("others"));
    let changing = Arc::clone(&tree);
    std::thread::spawn(move || {
        changing
            .sets("new.blp/data", Some(3), NewAttributes::default())
            .unwrap();
        done.send("a draft").unwrap();
    });
    assert!(wait.recv_timeout(Duration::from_millis(100)).is_err());
    drop(alone);
    assert_eq!(wait.recv_timeout(Duration::from_secs(20)), Ok("a draft"));
}

/// After a crash they would not be believed to be drafts.
#[test]
fn where_modes_are_not_kept_nothing_is_put_into_a_container() {
    let directory = ground();
    let (tree, failure) = hooked(directory.path());
    failure.keep_no_modes();
    tree.makes("new.blp", DIRECTORY).unwrap();
    assert!(tree.puts("new.blp/data", PLAIN).is_err());
    assert!(hidden(directory.path()).is_empty());
    tree.containers().packing.pack_quiet(Duration::ZERO);
    let content = tree.content(tree.inode("new.blp/data").unwrap());
    assert!(content.starts_with("0 "), "{content}");
}

#[test]
fn drafts_are_removed_however_deep_they_lie() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.puts_container().unwrap();
    let mut below = directory.path().join(DRAFTS).join("views");
    while below.as_os_str().len() < 2000 {
        below.push("d");
        std::fs::create_dir(&below).unwrap();
        std::fs::write(below.join("file"), "derived").unwrap();
    }
    tree.containers().packing.pack_quiet(Duration::ZERO);
    assert!(tree.is_packed());
    assert!(hidden(directory.path()).is_empty());
}

#[test]
fn an_array_is_copied_into_a_new_container_as_it_is_shown() {
    let directory = ground();
    let tree = tree_of(directory.path(), |disk| disk);
    tree.makes("new.blp", DIRECTORY).unwrap();
    let (parent, name) = tree.parent("new.blp/data").unwrap();
    let (attr, open) = tree
        .making
        .create(parent, name, 0o644, true, NOBODY)
        .unwrap();
    let array = tree
        .reading
        .open(tree.inode("one.blp/data").unwrap())
        .unwrap();
    let mut shown = Vec::new();
    tree.reading
        .read(array.handle, 0, 1 << 20, PageCache::Used, |bytes| {
            shown.extend_from_slice(bytes.unwrap());
        });
    let copy = |from: u64, len: u64| {
        let to = (attr.inode, open.handle, 3 + from);
        tree.contents
            .copy_range((array.handle, from), to, len, NOBODY)
            .unwrap()
    };
    assert_eq!(copy(0, 4), 4);
    assert_eq!(copy(4, u64::MAX) + 4, shown.len());
    assert_eq!(copy(shown.len() as u64, 10), 0, "that is its end");
    let draft = std::fs::read(directory.path().join(DRAFTS).join("data")).unwrap();
    assert_eq!(draft, [&[0; 3], &*shown].concat());
}
