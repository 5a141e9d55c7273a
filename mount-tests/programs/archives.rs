//! Trees that are copied in and out: tar, rsync, cp, mv.

use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::harness::place::{Place, scenarios};
use crate::harness::scratch_directory;
use crate::harness::seeded::Seeded;
use crate::harness::snapshot::{assert_same_tree, assert_same_tree_and_times};
use crate::harness::tools::{shell, tools};

scenarios![
    everywhere
    five_thousand_files_are_unpacked_and_packed_again,
    rsync_copies_in_and_out_and_then_has_nothing_to_do,
    cp_keeps_everything,
    mv_moves_between_directories_and_file_systems,
    a_tree_is_removed,
];

/// Files of all small sizes in a hundred directories, links of both kinds, modes, old times.
fn tree(files: usize) -> TempDir {
    let directory = scratch_directory();
    let mut random = Seeded::new(files as u64);
    for number in 0..files {
        let below = directory
            .path()
            .join(format!("{}/{}", number % 10, number % 100));
        std::fs::create_dir_all(&below).unwrap();
        let path = below.join(format!("file-{number}"));
        let len = random.below(3000);
        std::fs::write(&path, random.noise(len)).unwrap();
        if number % 50 == 0 {
            std::fs::hard_link(&path, below.join(format!("hard-{number}"))).unwrap();
            symlink(
                path.file_name().unwrap(),
                below.join(format!("soft-{number}")),
            )
            .unwrap();
        }
        let mode = [0o644, 0o600, 0o755, 0o440][number % 4];
        let file = File::open(&path).unwrap();
        file.set_permissions(Permissions::from_mode(mode)).unwrap();
        let age = Duration::new(
            random.below(1 << 30) as u64,
            random.below(999_999_999) as u32,
        );
        file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + age))
            .unwrap();
    }
    directory
}

fn make(directory: &Path) -> &Path {
    std::fs::create_dir(directory).unwrap();
    directory
}

fn five_thousand_files_are_unpacked_and_packed_again(place: &Place) {
    if !tools(&["tar"]) {
        return;
    }
    // A plain directory shows that what is expected is right.
    let files = if place.is_mounted() { 5000 } else { 500 };
    let (tree, outside) = (tree(files), scratch_directory());
    let archive = outside.path().join("archive.tar");
    let pack = "tar -C \"$1\" --format=posix -cf \"$2\" .";
    let unpack = "tar -C \"$1\" -xpf \"$2\"";
    shell(outside.path(), pack, &[tree.path(), &archive]);
    let shown = place.join("tree");
    shell(outside.path(), unpack, &[make(&shown), &archive]);
    assert_same_tree_and_times(&shown, tree.path());
    assert_same_tree_and_times(&place.stored("tree"), tree.path());
    let again = outside.path().join("again.tar");
    shell(outside.path(), pack, &[&shown, &again]);
    let unpacked = outside.path().join("unpacked");
    shell(outside.path(), unpack, &[make(&unpacked), &again]);
    assert_same_tree_and_times(&unpacked, tree.path());
}

fn rsync_copies_in_and_out_and_then_has_nothing_to_do(place: &Place) {
    if !tools(&["rsync"]) {
        return;
    }
    let (tree, outside) = (tree(500), scratch_directory());
    let copy = |from: &Path, to: &Path| {
        let script = "rsync -aHi --modify-window=-1 --delete \"$1/\" \"$2/\"";
        shell(outside.path(), script, &[from, to]).text()
    };
    let (shown, back) = (place.join("tree"), outside.path().join("back"));
    make(&shown);
    make(&back);
    assert!(copy(tree.path(), &shown).lines().count() > 500);
    assert_eq!(copy(tree.path(), &shown), "");
    assert_same_tree_and_times(&place.stored("tree"), tree.path());
    assert!(copy(&shown, &back).lines().count() > 500);
    assert_eq!(copy(&shown, &back), "");
    assert_same_tree_and_times(&back, tree.path());
    // Some change, come and go.
    let script = "cd \"$1\" && rm -r 3 && mkdir 3 && echo new > 3/new && chmod 700 4 && echo more >> 5/5/file-5";
    shell(outside.path(), script, &[tree.path()]);
    assert_ne!(copy(tree.path(), &shown), "");
    assert_same_tree_and_times(&shown, tree.path());
    // In place, as large files are copied.
    let script = "rsync -a --modify-window=-1 --inplace --no-whole-file --checksum \"$1/\" \"$2/\"";
    shell(
        outside.path(),
        "for f in \"$1\"/6/6/file*; do echo x >> $f; done",
        &[tree.path()],
    );
    shell(outside.path(), script, &[tree.path(), &shown]);
    assert_same_tree_and_times(&shown, tree.path());
}

fn cp_keeps_everything(place: &Place) {
    let tree = tree(200);
    let script = "cp -a \"$1/.\" one && cp -a one two";
    shell(place.path(), script, &[tree.path()]);
    assert_same_tree_and_times(&place.join("one"), tree.path());
    assert_same_tree_and_times(&place.join("two"), tree.path());
    assert_same_tree_and_times(&place.stored("two"), tree.path());
    let sparse = "truncate -s 3M sparse && printf end >> sparse && cp --sparse=always sparse copy && cmp sparse copy";
    shell(place.path(), sparse, &[]);
    assert!(place.join("copy").metadata().unwrap().blocks() < 100);
}

fn mv_moves_between_directories_and_file_systems(place: &Place) {
    let (tree, outside) = (tree(100), scratch_directory());
    shell(
        place.path(),
        "cp -a \"$1/.\" one && mkdir two && mv one two/three",
        &[tree.path()],
    );
    assert_same_tree_and_times(&place.join("two/three"), tree.path());
    assert!(!place.join("one").exists() && !place.stored("one").exists());
    shell(place.path(), "mv two/three \"$1\"", &[outside.path()]);
    assert_same_tree_and_times(&outside.path().join("three"), tree.path());
    shell(place.path(), "mv \"$1/three\" two/back", &[outside.path()]);
    assert_same_tree_and_times(&place.join("two/back"), tree.path());
    assert_same_tree(&place.stored("two/back"), tree.path());
}

fn a_tree_is_removed(place: &Place) {
    let tree = tree(1000);
    shell(
        place.path(),
        "cp -a \"$1\" tree && rm -r tree",
        &[tree.path()],
    );
    for root in [place.path(), place.source()] {
        assert_eq!(std::fs::read_dir(root).unwrap().count(), 0);
    }
}
