//! Names: odd and long ones, renames of every kind, directories that are emptied while they are
//! listed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::harness::place::{Place, scenarios};
use crate::harness::reads::assert_content;
use crate::harness::scratch_directory;

scenarios![
    everywhere
    a_name_that_is_too_long_is_refused,
    impossible_renames_are_refused,
    a_directory_is_emptied_while_it_is_listed,
    many_names_come_and_go,
    a_file_with_many_names_is_there_as_long_as_one_is,
    a_deep_tree_is_moved_as_a_whole,
    dots_lead_where_they_should,
    links_are_kept_as_they_are;
    but
    names_of_any_bytes_can_be_made,
    renames_with_flags_do_what_they_say,
];

fn entries(directory: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

#[track_caller]
fn assert_refused<T>(done: std::io::Result<T>, errno: i32) {
    assert_eq!(done.err().expect("refused").raw_os_error(), Some(errno));
}

fn names_of_any_bytes_can_be_made(place: &Place) {
    let mut names: Vec<Vec<u8>> = (1..=255)
        .filter(|&byte| byte != b'/' && byte != b'.')
        .map(|byte| vec![byte])
        .collect();
    for name in [
        "größe 🦀",
        "100%",
        "...",
        "-rf",
        "new\nline",
        "x.blp",
        ".arrayfs",
    ] {
        names.push(name.into());
    }
    names.push(vec![b'n'; 255]);
    for name in &names {
        let path = place.join(OsStr::from_bytes(name));
        std::fs::write(&path, name).unwrap();
        assert_content(&path, name);
    }
    let expected: BTreeSet<OsString> = names.iter().cloned().map(OsString::from_vec).collect();
    assert_eq!(entries(place.path()), expected);
    assert_eq!(entries(place.source()), expected);
    for name in &names {
        std::fs::remove_file(place.join(OsStr::from_bytes(name))).unwrap();
    }
    assert!(entries(place.source()).is_empty());
}

fn a_name_that_is_too_long_is_refused(place: &Place) {
    let (long, file) = (place.join("n".repeat(256)), place.join("file"));
    std::fs::write(&file, "").unwrap();
    assert_refused(File::create(&long), libc::ENAMETOOLONG);
    assert_refused(std::fs::create_dir(&long), libc::ENAMETOOLONG);
    assert_refused(std::fs::rename(&file, &long), libc::ENAMETOOLONG);
    assert_refused(std::fs::hard_link(&file, &long), libc::ENAMETOOLONG);
    assert_refused(std::os::unix::fs::symlink("x", &long), libc::ENAMETOOLONG);
    assert_eq!(entries(place.source()).len(), 1);
}

fn renames_with_flags_do_what_they_say(place: &Place) {
    let rename = |from: &str, to: &str, flags: RenameFlags| {
        renameat_with(CWD, place.join(from), CWD, place.join(to), flags)
    };
    let (exchange, keep) = (RenameFlags::EXCHANGE, RenameFlags::NOREPLACE);
    std::fs::write(place.join("file"), "file").unwrap();
    std::fs::create_dir_all(place.join("d/below")).unwrap();
    std::fs::write(place.join("d/other"), "other").unwrap();
    assert_eq!(rename("file", "d/other", keep), Err(Errno::EXIST));
    assert_eq!(rename("file", "d", keep), Err(Errno::EXIST));
    assert_eq!(rename("file", "none", exchange), Err(Errno::NOENT));
    assert_eq!(rename("none", "file", exchange), Err(Errno::NOENT));
    assert_eq!(rename("d", "d/below", exchange), Err(Errno::INVAL));
    rename("file", "moved", keep).unwrap();
    rename("moved", "d/other", exchange).unwrap();
    assert_content(&place.join("moved"), b"other");
    assert_content(&place.stored("d/other"), b"file");
    // A file and a directory, over each other.
    rename("moved", "d", exchange).unwrap();
    assert_content(&place.join("d"), b"other");
    assert_content(&place.join("moved/other"), b"file");
    assert_content(&place.stored("moved/other"), b"file");
    assert!(place.join("moved/below").is_dir());
    // A directory and one that lies elsewhere.
    std::fs::create_dir_all(place.join("e/deep")).unwrap();
    std::fs::write(place.join("e/deep/file"), "deep").unwrap();
    rename("moved", "e/deep", exchange).unwrap();
    assert_content(&place.join("moved/file"), b"deep");
    assert_content(&place.join("e/deep/other"), b"file");
    let parent = place.join("e/deep/..").canonicalize().unwrap();
    assert_eq!(parent, place.join("e").canonicalize().unwrap());
}

fn impossible_renames_are_refused(place: &Place) {
    std::fs::create_dir_all(place.join("a/b/c")).unwrap();
    std::fs::create_dir(place.join("empty")).unwrap();
    std::fs::write(place.join("file"), "").unwrap();
    let rename = |from: &str, to: &str| std::fs::rename(place.join(from), place.join(to));
    assert_refused(rename("a", "a/b/c/d"), libc::EINVAL);
    assert_refused(rename("a", "a/b"), libc::EINVAL);
    assert_refused(rename("empty", "a"), libc::ENOTEMPTY);
    assert_refused(rename("a/b", "a"), libc::ENOTEMPTY);
    assert_refused(rename("a", "file"), libc::ENOTDIR);
    assert_refused(rename("file", "empty"), libc::EISDIR);
    assert_refused(rename("file/x", "x"), libc::ENOTDIR);
    assert_refused(std::fs::remove_dir(place.join("a")), libc::ENOTEMPTY);
    assert_refused(std::fs::remove_dir(place.join("file")), libc::ENOTDIR);
    assert_refused(std::fs::remove_file(place.join("a")), libc::EISDIR);
    assert_refused(
        std::fs::hard_link(place.join("a"), place.join("x")),
        libc::EPERM,
    );
    // Empty directories are replaced.
    rename("a", "empty").unwrap();
    assert!(place.stored("empty/b/c").is_dir());
    if place.is_mounted() {
        let outside = scratch_directory();
        let to = outside.path().join("file");
        assert_refused(std::fs::rename(place.join("file"), &to), libc::EXDEV);
        assert_refused(std::fs::hard_link(place.join("file"), &to), libc::EXDEV);
    }
}

/// As `rm -r` does it: each name that was there is met once.
fn a_directory_is_emptied_while_it_is_listed(place: &Place) {
    const FILES: usize = 3000;
    let directory = place.join("d");
    std::fs::create_dir(&directory).unwrap();
    for number in 0..FILES {
        File::create(directory.join(format!("file-{number}"))).unwrap();
    }
    let mut removed = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
        removed += 1;
    }
    assert_eq!(removed, FILES);
    assert!(entries(&place.stored("d")).is_empty());
    std::fs::remove_dir(&directory).unwrap();
}

/// Lists again after every change what is listed by others, too.
fn many_names_come_and_go(place: &Place) {
    let (mut expected, at) = (BTreeSet::new(), |name: &OsString| place.join(name));
    let mut numbers = crate::harness::seeded::Seeded::new(5);
    let listing = File::open(place.path()).unwrap();
    for _ in 0..400 {
        let name: OsString = format!("name-{}", numbers.below(60)).into();
        match expected.remove(&name) {
            true => std::fs::remove_file(at(&name)).unwrap(),
            false => {
                File::create_new(at(&name)).unwrap();
                expected.insert(name);
            }
        }
        assert_eq!(entries(place.path()), expected);
        let again = rustix::fs::Dir::read_from(&listing).unwrap();
        // With the two dots.
        assert_eq!(again.count(), expected.len() + 2);
    }
}

fn a_deep_tree_is_moved_as_a_whole(place: &Place) {
    let deep: PathBuf = (0..60).map(|n| format!("level-{n}")).collect();
    std::fs::create_dir_all(place.join("a").join(&deep)).unwrap();
    std::fs::write(place.join("a").join(&deep).join("file"), "deep").unwrap();
    for (from, to) in [
        ("a", "b"),
        ("b", "c"),
        ("c/level-0", "d"),
        ("d", "c/level-0"),
    ] {
        std::fs::rename(place.join(from), place.join(to)).unwrap();
    }
    assert_content(&place.join("c").join(&deep).join("file"), b"deep");
    assert_content(&place.stored("c").join(&deep).join("file"), b"deep");
    std::fs::remove_dir_all(place.join("c")).unwrap();
    assert!(entries(place.source()).is_empty());
}

fn dots_lead_where_they_should(place: &Place) {
    std::fs::create_dir_all(place.join("a/b")).unwrap();
    std::fs::create_dir(place.join("z")).unwrap();
    std::fs::write(place.join("z/file"), "z").unwrap();
    std::fs::write(place.join("a/file"), "a").unwrap();
    let inside = File::open(place.join("a/b")).unwrap();
    let read = |path: &str| {
        let flags = rustix::fs::OFlags::RDONLY;
        let opened = rustix::fs::openat(&inside, path, flags, rustix::fs::Mode::empty());
        std::io::read_to_string(File::from(opened.unwrap())).unwrap()
    };
    assert_eq!(read("../file"), "a");
    std::fs::rename(place.join("a/b"), place.join("z/b")).unwrap();
    assert_eq!(read("../file"), "z");
    assert_eq!(read("../../a/file"), "a");
    std::fs::rename(place.join("z"), place.join("a/z")).unwrap();
    assert_eq!(read("../file"), "z");
    assert_eq!(read("../../file"), "a");
}

fn a_file_with_many_names_is_there_as_long_as_one_is(place: &Place) {
    use std::os::unix::fs::MetadataExt;
    const NAMES: usize = 40;
    const LEFT: usize = 3;
    let name = |number: usize| place.join(format!("name-{number}"));
    std::fs::write(name(0), "content").unwrap();
    (1..NAMES).for_each(|number| std::fs::hard_link(name(0), name(number)).unwrap());
    let looked_up = |number: usize| assert_eq!(name(number).symlink_metadata().unwrap().len(), 7);
    (0..NAMES).for_each(looked_up);
    (LEFT..NAMES).for_each(|number| std::fs::remove_file(name(number)).unwrap());
    for number in 0..LEFT {
        let found = name(number).symlink_metadata().unwrap();
        assert_eq!((found.nlink(), found.len()), ((LEFT - number) as u64, 7));
        assert_content(&name(number), b"content");
        std::fs::write(name(number), "changed").unwrap();
        let held = File::open(name(number)).unwrap();
        std::fs::remove_file(name(number)).unwrap();
        let nlink = held.metadata().unwrap().nlink();
        assert_eq!(nlink, (LEFT - number) as u64 - 1);
        if number + 1 < LEFT {
            assert_content(&name(number + 1), b"changed");
            std::fs::write(name(number + 1), "content").unwrap();
        }
    }
}

fn links_are_kept_as_they_are(place: &Place) {
    let targets = ["file", "../x/../y", "/nowhere/at/all", "größe", "d/"];
    for (number, target) in targets.iter().enumerate() {
        let link = place.join(format!("link-{number}"));
        std::os::unix::fs::symlink(target, &link).unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), Path::new(target));
        assert_eq!(link.symlink_metadata().unwrap().len(), target.len() as u64);
        let stored = place.stored(format!("link-{number}"));
        assert_eq!(std::fs::read_link(stored).unwrap(), Path::new(target));
    }
    std::os::unix::fs::symlink("loop", place.join("loop")).unwrap();
    assert_refused(File::open(place.join("loop")), libc::ELOOP);
    // Through a link that leads nowhere a file is made where it leads.
    std::fs::write(place.join("link-0"), "content").unwrap();
    assert_content(&place.stored("file"), b"content");
    std::fs::create_dir(place.join("d")).unwrap();
    std::fs::write(place.join("link-4/below"), "content").unwrap();
    assert_content(&place.stored("d/below"), b"content");
    let longest = "t/".repeat(2000);
    std::os::unix::fs::symlink(&longest, place.join("long")).unwrap();
    assert_eq!(
        std::fs::read_link(place.join("long")).unwrap(),
        Path::new(&longest)
    );
}
