//! A repository: commits, branches, garbage collection, clones.

use std::path::Path;

use crate::harness::place::{Place, scenarios};
use crate::harness::seeded::Seeded;
use crate::harness::snapshot::assert_same_tree;
use crate::harness::tools::{shell, tools};
use crate::harness::{copy_directory, scratch_directory};

scenarios![
    everywhere
    a_repository_is_made_grows_and_is_packed,
    branches_are_checked_out_and_merged,
    a_repository_is_cloned_into_and_out_of_it,
];

const NEW: &str = "git init -q -b main .
    git config user.name somebody
    git config user.email somebody@example.org
    git config gc.auto 0
    ";

/// Text files in some directories, one of them executable.
fn write_project(directory: &Path) {
    let mut random = Seeded::new(31);
    for number in 0..120 {
        let below = directory.join(format!("part-{}", number % 7));
        std::fs::create_dir_all(&below).unwrap();
        let lines = 1 + random.below(200);
        let text: String = (0..lines).map(|_| format!("{}\n", random.next())).collect();
        std::fs::write(below.join(format!("file-{number}")), text).unwrap();
    }
    std::os::unix::fs::symlink("part-0/file-0", directory.join("link")).unwrap();
    shell(directory, "chmod +x part-1/file-1", &[]);
}

fn repository(place: &Place) -> std::path::PathBuf {
    let repository = place.join("repository");
    std::fs::create_dir(&repository).unwrap();
    write_project(&repository);
    shell(
        &repository,
        &format!("{NEW} git add . && git commit -qm first"),
        &[],
    );
    repository
}

fn assert_clean(repository: &Path) {
    let said = shell(
        repository,
        "git status --porcelain && git fsck --strict --full --no-dangling 2>&1",
        &[],
    );
    assert_eq!(said.text(), "");
}

fn a_repository_is_made_grows_and_is_packed(place: &Place) {
    if !tools(&["git"]) {
        return;
    }
    let repository = repository(place);
    assert_clean(&repository);
    for round in 0..5 {
        let script = format!(
            "for f in part-{round}/*; do echo {round} >> $f; done
            git mv part-{round} moved-{round}
            git add -A && git commit -qm 'round {round}'"
        );
        shell(&repository, &script, &[]);
    }
    shell(&repository, "git gc -q --prune=now && git repack -adq", &[]);
    assert_clean(&repository);
    let count = shell(&repository, "git log --oneline | wc -l", &[]).text();
    assert_eq!(count.trim(), "6");
    let loose = shell(&repository, "git count-objects", &[]).text();
    assert!(loose.starts_with("0 objects"), "{loose}");
    // As it lies in the source it is whole, too.
    let copy = scratch_directory();
    copy_links_too(&place.stored("repository"), copy.path());
    assert_clean(&copy.path().join("repository"));
}

/// Times as well: git compares them with its index.
fn copy_links_too(from: &Path, to: &Path) {
    shell(Path::new("/"), "cp -a \"$1\" \"$2\"", &[from, to]);
}

fn branches_are_checked_out_and_merged(place: &Place) {
    if !tools(&["git"]) {
        return;
    }
    let repository = repository(place);
    let before = scratch_directory();
    copy_directory(&repository.join("part-2"), before.path());
    shell(
        &repository,
        "git checkout -qb other
        git rm -qr part-2
        echo other > part-3/file-3 && echo new > new
        git add -A && git commit -qm other
        git checkout -q main",
        &[],
    );
    assert_same_tree(&repository.join("part-2"), before.path());
    assert!(!repository.join("new").exists());
    shell(
        &repository,
        "echo main > part-4/file-4 && git commit -qam main && git merge -q -m merged other",
        &[],
    );
    assert!(!repository.join("part-2").exists());
    let read = |name: &str| std::fs::read_to_string(repository.join(name)).unwrap();
    let both = (read("part-3/file-3"), read("part-4/file-4"));
    assert_eq!(both, ("other\n".into(), "main\n".into()));
    shell(
        &repository,
        "echo x >> new && git stash -q && git stash pop -q && git checkout -q new",
        &[],
    );
    assert_clean(&repository);
}

fn a_repository_is_cloned_into_and_out_of_it(place: &Place) {
    if !tools(&["git"]) {
        return;
    }
    let repository = repository(place);
    let outside = scratch_directory();
    let script = "git clone -q --no-local \"$1\" \"$2/clone\"";
    shell(place.path(), script, &[&repository, outside.path()]);
    // With hard links to its objects.
    shell(
        place.path(),
        "git clone -q --local \"$1\" \"$2\"",
        &[&repository, &place.join("clone")],
    );
    for clone in [outside.path().join("clone"), place.join("clone")] {
        assert_clean(&clone);
        for part in 0..7 {
            let part = format!("part-{part}");
            assert_same_tree(&clone.join(&part), &repository.join(&part));
        }
    }
}
