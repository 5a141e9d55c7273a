//! Groups of HDF5 files: what is a file in the directory of a container is one in its groups, too,
//! and a file takes the place of an array there as well.

use std::fs::{File, create_dir, read, remove_dir, remove_file, rename, write};
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::{assert_array, errno, numbers};
use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::{arrayfs, has_ended, send};
use crate::harness::python::script;
use crate::harness::reads::{assert_content, names, xattr};
use crate::harness::tools::shell;
use crate::harness::wait_until;

fn with_groups() -> Place {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("names"), &path]).success();
    place
}

fn added(place: &Place, name: &str) -> PathBuf {
    place.stored(format!(".{name}.arrayfs-files"))
}

/// Editors, `sed -i` and rsync write a file beside the old one, and rename it.
#[test]
fn a_file_takes_the_place_of_an_array() {
    let place = with_groups();
    let at = place.join("x.h5/g/deep");
    let new: Vec<i32> = (40..46).collect();
    write(at.join("new"), numbers(&new)).unwrap();
    rename(at.join("new"), at.join("rows")).unwrap();
    assert_array(&place, "g/deep/rows", "[2, 3]", &numbers(&new));
    assert_eq!(names(&at), ["arrays.json", "rows"]);
    assert!(!added(&place, "x.h5").exists());
    // From elsewhere, and from one group to another.
    let newer: Vec<i32> = (50..59).collect();
    write(place.join("file"), numbers(&newer)).unwrap();
    rename(place.join("file"), at.join("beside")).unwrap();
    rename(at.join("beside"), place.join("x.h5/g/beside")).unwrap();
    rename(place.join("x.h5/g/beside"), at.join("rows")).unwrap();
    assert_array(&place, "g/deep/rows", "[3, 3]", &numbers(&newer));
    shell(
        &at,
        "sed -i s/2/3/ rows; rsync -a rows ..; cat rows > ../../copied",
        &[],
    );
    let edited = read(at.join("rows")).unwrap();
    assert_eq!(edited[0], b'3');
    assert_content(&place.join("x.h5/copied"), &edited);
    // An array is moved nowhere.
    let refused = rename(at.join("rows"), place.join("x.h5/g/moved"));
    assert_eq!(errno(refused), Some(libc::EPERM));
    // What is made by the name of an array that was removed is its content.
    remove_file(at.join("rows")).unwrap();
    write(at.join("rows"), numbers(&new)).unwrap();
    assert_array(&place, "g/deep/rows", "[2, 3]", &numbers(&new));
    arrayfs([Path::new("verify"), &place.stored("x.h5")]).success();
}

/// Programs at work in two groups of a file: what one of them has just made does not go with the
/// last that the other one takes away.
#[test]
fn temporary_files_come_and_go_in_two_groups_at_once() {
    const ROUNDS: i32 = 600;
    const EDITED: i32 = 60;
    let place = with_groups();
    let work = |group: &str| {
        let at = place.join("x.h5").join(group);
        let new = at.join("new");
        for round in 0..ROUNDS {
            let content = numbers(&[round; 12]);
            let went = write(&new, &content).and_then(|()| match round % EDITED {
                0 => rename(&new, at.join("rows")),
                _ => remove_file(&new),
            });
            went.unwrap_or_else(|e| panic!("{group}, round {round}: {e}"));
        }
    };
    std::thread::scope(|threads| {
        for group in ["g", "g/deep"] {
            threads.spawn(move || work(group));
        }
    });
    // Both names are one array's.
    let last = numbers(&[ROUNDS - EDITED; 12]);
    assert_content(&place.join("x.h5/g/deep/rows"), &last);
    assert!(!added(&place, "x.h5").exists());
}

#[test]
fn files_lie_in_groups_as_in_the_container() {
    let mut place = with_groups();
    let at = place.join("x.h5/g/deep");
    shell(
        &at,
        "echo notes > README; cp README ../other; mkdir sub && exit 1; ln README link && exit 1; true",
        &[],
    );
    for file in ["views/file", "views/g/file"] {
        let refused = File::create(place.join("x.h5").join(file));
        assert_eq!(errno(refused), Some(libc::EROFS), "{file}");
    }
    File::open(at.join("README"))
        .and_then(|file| file.sync_all())
        .unwrap();
    File::open(&at).and_then(|group| group.sync_all()).unwrap();
    assert_eq!(errno(create_dir(at.join("x.blp"))), Some(libc::EPERM));
    for (from, to) in [("x.h5", "y.h5"), ("y.h5", "x.h5")] {
        place.mount_again();
        rename(place.join(from), place.join(to)).unwrap();
        let group = place.join(to).join("g");
        assert_content(&group.join("deep/README"), b"notes\n");
        assert_eq!(
            names(&group.join("deep")),
            ["README", "arrays.json", "rows"]
        );
        assert_eq!(names(&group), ["arrays.json", "deep", "other", "rows"]);
    }
    // A commit changes nothing of it.
    let group = place.join("x.h5/g");
    super::write_at(&group.join("rows"), &numbers(&[7]), 0).unwrap();
    assert_content(&group.join("other"), b"notes\n");
    for name in ["deep/rows", "rows"] {
        remove_file(group.join(name)).unwrap();
    }
    assert_eq!(errno(remove_dir(group.join("deep"))), Some(libc::ENOTEMPTY));
    remove_file(group.join("deep/README")).unwrap();
    remove_file(group.join("deep/arrays.json")).unwrap();
    remove_dir(group.join("deep")).unwrap();
    assert!(!added(&place, "x.h5").join("g/deep").exists());
    shell(place.path(), "rm -r x.h5", &[]);
    assert_eq!(names(place.source()), Vec::<String>::new());
}

#[test]
fn a_killed_daemon_loses_none_of_them() {
    let place = with_groups();
    write(place.join("x.h5/g/deep/notes"), b"notes").unwrap();
    write(place.join("x.h5/late"), b"late").unwrap();
    let (mounted, source) = place.into_parts();
    send(mounted.daemon(), Signal::KILL);
    wait_until("it has ended", || has_ended(mounted.daemon()));
    drop(mounted);
    let mounted = Mounted::new(source.path(), &["ro"]);
    assert_content(&mounted.join("x.h5/g/deep/notes"), b"notes");
    assert_eq!(
        names(&mounted.join("x.h5/g/deep")),
        ["arrays.json", "notes", "rows"]
    );
    drop(mounted);
    // An array that comes later wins.
    let outside = source.path().join("x.h5");
    script("write_hdf5/scenario.py", [Path::new("notes"), &outside]).success();
    // A file has the name of a group, and nobody may rename it.
    let mounted = Mounted::new(source.path(), &["ro"]);
    assert_eq!(names(&mounted.join("x.h5/late")), ["arrays.json", "rows"]);
    let nothing = File::open(mounted.join("x.h5/late/nothing"));
    assert_eq!(errno(nothing), Some(libc::ENOENT));
    drop(mounted);
    let place = Place::over(source, &[]);
    let group = place.join("x.h5/g/deep");
    wait_until("the file makes way", || {
        names(&group) == ["arrays.json", "notes", "notes~0", "rows"]
    });
    assert_content(&group.join("notes~0"), b"notes");
    assert_content(&group.join("notes"), &numbers(&[1, 2]));
    assert_content(&place.join("x.h5/late~0"), b"late");
}

#[test]
fn unmounting_tells_where_an_array_is_there_again() {
    let place = with_groups();
    remove_file(place.join("x.h5/g/deep/rows")).unwrap();
    let (mounted, source) = place.into_parts();
    let told = arrayfs(["umount".as_ref(), mounted.path().as_os_str()]);
    mounted.assert_ends();
    let path = source.path().join("x.h5/g/deep/rows");
    assert!(
        told.stderr.contains(&format!("{}", path.display())),
        "{told:?}"
    );
}

/// In a file that this mount has made, files in groups become arrays, but for those whose names
/// begin with a dot.
#[test]
fn files_in_groups_of_new_containers_are_carried_over_or_become_arrays() {
    let mut place = Place::mounted(&["settle=600000"]);
    let at = place.join("n.h5");
    shell(
        place.path(),
        r#"mkdir -p "$1/g/deep"; printf abcd > "$1/g/a"; printf x > "$1/g/deep/.hidden""#,
        &[&at],
    );
    place.wait_packed("n.h5");
    assert!(
        xattr(&at, "user.arrayfs.state")
            .unwrap()
            .ends_with("bytes (uint8): g/a")
    );
    assert_content(&at.join("g/deep/.hidden"), b"x");
    write(at.join("g/deep/later"), b"1234").unwrap();
    wait_until("it is an array", || {
        let _not_yet = File::open(&at).and_then(|directory| directory.sync_all());
        xattr(&at.join("g/deep/later"), "user.arrayfs.shape").is_ok_and(|shape| shape == "[4]")
    });
    assert_content(&at.join("g/deep/later"), b"1234");
    place.mount_again();
    let at = place.join("n.h5/g");
    assert_eq!(names(&at.join("deep")), [".hidden", "arrays.json", "later"]);
    assert_content(&at.join("a"), b"abcd");
    remove_file(at.join("deep/.hidden")).unwrap();
    assert!(!added(&place, "n.h5").exists());
    arrayfs([Path::new("verify"), place.source()]).success();
}
