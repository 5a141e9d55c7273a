//! Files that may not be written: marked as being written by another program, before they are
//! opened or while something is staged, and those with faults.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{assert_array, commit, errno, numbers, state, with_file, write_at};
use crate::harness::depth::{rounds, some_of};
use crate::harness::golden;
use crate::harness::place::{Place, open_directory};
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, walk, xattr};

/// Of the broken files of the corpus one of so many is tried, in a sample and in the whole.
const BROKEN: (u64, u64) = (2, 1);

fn mark(path: &Path) -> Vec<u8> {
    script("write_hdf5/scenario.py", [Path::new("mark"), path]).success();
    std::fs::read(path).unwrap()
}

/// No array of it is there, so none can be opened; what says why is not written.
#[test]
fn of_a_file_that_is_marked_nothing_can_be_written() {
    let place = with_file(&[]);
    let path = place.stored("x.h5");
    let marked = mark(&path);
    let told = std::fs::read_to_string(place.join("x.h5/error.txt")).unwrap();
    assert!(told.contains("marked as being written"), "{told}");
    let open = |name: &str| {
        let opened = OpenOptions::new()
            .write(true)
            .open(place.join("x.h5").join(name));
        errno(opened)
    };
    assert_eq!(open("fixed"), Some(libc::ENOENT));
    for name in ["error.txt", "arrays.json", "views/stored"] {
        let refused = open(name);
        let never = [libc::EROFS, libc::EPERM].map(Some);
        assert!(never.contains(&refused), "{name}: {refused:?}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), marked);
}

/// Another program has begun to write it while something is staged, and is gone without closing
/// it. What it left is not touched; once it is sound again and what is staged has been given up, it
/// can be written.
#[test]
fn a_file_that_is_marked_while_something_is_staged_is_left_alone() {
    for way in ["commit=replace", "commit=inplace"] {
        let place = with_file(&[way]);
        let (path, container) = (place.stored("x.h5"), place.join("x.h5"));
        let sound = std::fs::read(&path).unwrap();
        // A part of a slice, which waits for the rest.
        write_at(&place.join("x.h5/rows"), &numbers(&[7]), 24).unwrap();
        assert!(state(&place).starts_with("staged: "), "{}", state(&place));
        let marked = mark(&path);
        let rest = write_at(&place.join("x.h5/rows"), &numbers(&[8, 9]), 28);
        assert!(rest.is_err(), "{way}: it was written");
        commit(&place);
        let told = state(&place);
        assert!(told.contains("somebody else has changed"), "{told}");
        let stage = |what: &str| arrayfs(["stage".as_ref(), what.as_ref(), container.as_os_str()]);
        assert_ne!(stage("commit").code(), Some(0));
        assert_eq!(std::fs::read(&path).unwrap(), marked, "{way}");
        std::fs::write(&path, &sound).unwrap();
        assert_content(&place.join("x.h5/fixed"), &numbers(&[1, 2, 3]));
        stage("discard").success();
        let grown = numbers(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        write_at(&place.join("x.h5/rows"), &grown, 0).unwrap();
        assert_array(&place, "rows", "[3, 3]", &grown);
    }
}

/// The same of what was whole when the mark came: the sync says that it is not in the file.
#[test]
fn a_sync_says_that_the_file_has_been_marked_meanwhile() {
    let place = with_file(&[]);
    let path = place.stored("x.h5");
    // A part of a slice keeps whoever closes a copy of the handle from committing.
    write_at(&place.join("x.h5/rows"), &numbers(&[7]), 24).unwrap();
    let fixed = OpenOptions::new()
        .write(true)
        .open(place.join("x.h5/fixed"));
    let fixed: File = fixed.unwrap();
    std::os::unix::fs::FileExt::write_all_at(&fixed, &numbers(&[7]), 0).unwrap();
    let marked = mark(&path);
    assert_eq!(errno(fixed.sync_all()), Some(libc::ESTALE));
    drop(fixed);
    assert_eq!(std::fs::read(&path).unwrap(), marked);
}

/// Faults of any kind: no array of a container with an `error.txt` shows a `w` or can be opened for
/// writing.
#[test]
fn what_is_at_fault_is_only_read() {
    let source = open_directory();
    for format in ["binsparse", "bpcells"] {
        let entries = std::fs::read_dir(golden(format).join("sources")).unwrap();
        let broken = entries.map(|entry| entry.unwrap().path()).filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("bad-") && path.is_file()
        });
        for path in some_of(broken.collect(), rounds(BROKEN), 0) {
            std::fs::copy(&path, source.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let place = Place::over(source, &["log_level=off"]);
    let (files, _) = walk(place.path());
    let at_fault: Vec<PathBuf> = files
        .iter()
        .filter(|path| path.ends_with("error.txt"))
        .map(|path| path.parent().unwrap().to_owned())
        .collect();
    let mut arrays = 0;
    for path in &files {
        let is_view = path.components().any(|part| part.as_os_str() == "views");
        let is_array = !is_view && xattr(path, "user.arrayfs.dtype").is_ok();
        if is_array && at_fault.iter().any(|at| path.starts_with(at)) {
            arrays += 1;
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o222, 0, "{}", path.display());
            let opened = OpenOptions::new().write(true).open(path);
            assert_eq!(errno(opened), Some(libc::EROFS), "{}", path.display());
        }
    }
    assert!(
        at_fault.len() > 10 && arrays > 20,
        "{arrays} arrays of {}",
        at_fault.len()
    );
}
