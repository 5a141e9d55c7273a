//! Datasets that several names lead to: one array, by whichever name it is read and written.

use std::fs::{File, OpenOptions, remove_file, rename, write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use memmap2::MmapMut;

use super::{assert_array, errno, numbers, state, write_at};
use crate::harness::mounted::Mounted;
use crate::harness::place::{Place, open_directory};
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::tools::shell;
use crate::harness::wait_until;

const ROWS: [&str; 4] = ["rows", "g/rows", "g/deep/rows", "soft"];

/// Where each array of the matrix is, and the same outside.
const PLACES: [&str; 2] = ["matrix/", "outside/its_"];

fn with_names(options: &[&str]) -> Place {
    let place = Place::mounted(options);
    script(
        "write_hdf5/scenario.py",
        [Path::new("names"), &place.stored("x.h5")],
    )
    .success();
    place
}

fn paths(place: &Place) -> [PathBuf; 4] {
    ROWS.map(|name| place.join("x.h5").join(name))
}

fn inode(path: &Path) -> (u64, u64) {
    let metadata = path.metadata().unwrap();
    (metadata.ino(), metadata.nlink())
}

#[track_caller]
fn assert_rows(place: &Place, shape: &str, expected: &[u8]) {
    for name in ROWS {
        assert_array(place, name, shape, expected);
        let view = place.join("x.h5/views").join(format!("{name}.npy"));
        let view = std::fs::read(view).unwrap();
        assert!(view.ends_with(expected), "the view of {name}");
    }
    let told = std::fs::read(place.join("x.h5/arrays.json")).unwrap();
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    let arrays = told["arrays"].as_array().unwrap();
    for name in ROWS {
        let array = arrays.iter().find(|array| array["name"] == name).unwrap();
        assert_eq!(array["shape"].to_string(), shape.replace(' ', ""), "{name}");
    }
    let path = place.stored("x.h5");
    let all = ["one".as_ref(), path.as_os_str()].into_iter();
    script(
        "write_hdf5/scenario.py",
        all.chain(ROWS.map(|name| name.as_ref())),
    )
    .success();
}

#[test]
fn what_is_written_by_one_name_is_seen_by_all() {
    for commit in ["commit=replace", "commit=inplace"] {
        let place = with_names(&[commit]);
        let paths = paths(&place);
        let shown: Vec<_> = paths.iter().map(|path| inode(path)).collect();
        assert!(shown.iter().all(|one| *one == (shown[0].0, 4)), "{shown:?}");
        let opened = File::open(&paths[1]).unwrap();
        let mapped = OpenOptions::new().read(true).write(true).open(&paths[2]);
        // SAFETY: the file is as long as the mapping until that is dropped.
        let mut mapped = unsafe { MmapMut::map_mut(&mapped.unwrap()).unwrap() };
        let mut expected: Vec<i32> = (0..12).collect();
        let writer = OpenOptions::new().write(true).open(&paths[3]).unwrap();
        for (number, at) in [(70, 0), (71, 5), (72, 11)] {
            writer.write_all_at(&numbers(&[number]), 4 * at).unwrap();
            expected[at as usize] = number;
            let mut found = vec![0; 48];
            opened.read_exact_at(&mut found, 0).unwrap();
            assert_eq!(found, numbers(&expected));
            assert_eq!(mapped[..], numbers(&expected));
            assert_content(&paths[0], &numbers(&expected));
        }
        drop(writer);
        mapped[..4].copy_from_slice(&numbers(&[80]));
        mapped.flush().unwrap();
        drop(mapped);
        expected[0] = 80;
        assert_rows(&place, "[4, 3]", &numbers(&expected));
        // Longer by another name.
        write_at(&paths[0], &numbers(&[1, 2, 3]), 48).unwrap();
        expected.extend([1, 2, 3]);
        assert_rows(&place, "[5, 3]", &numbers(&expected));
        let after: Vec<_> = paths.iter().map(|path| inode(path)).collect();
        assert_eq!(after, shown);
    }
}

/// A name that is removed leaves the others; what is made by it is the content of the array.
#[test]
fn names_are_removed_and_made_again() {
    let place = with_names(&[]);
    let paths = paths(&place);
    let all: Vec<i32> = (0..12).collect();
    remove_file(&paths[0]).unwrap();
    assert_eq!(errno(File::open(&paths[0])), Some(libc::ENOENT));
    assert_eq!(inode(&paths[1]).1, 3);
    for path in &paths[1..] {
        assert_content(path, &numbers(&all));
    }
    write_at(&paths[2], &numbers(&[-1]), 0).unwrap();
    let new: Vec<i32> = (20..26).collect();
    write(&paths[0], numbers(&new)).unwrap();
    assert_eq!(inode(&paths[0]), (inode(&paths[1]).0, 4));
    assert_rows(&place, "[2, 3]", &numbers(&new));
    // A file that is renamed over one name.
    let newest: Vec<i32> = (30..39).collect();
    let opened = File::open(&paths[3]).unwrap();
    write(place.join("x.h5/beside"), numbers(&newest)).unwrap();
    rename(place.join("x.h5/beside"), &paths[0]).unwrap();
    assert_rows(&place, "[3, 3]", &numbers(&newest));
    let mut found = vec![0; 36];
    opened.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, numbers(&newest));
    drop(opened);
    shell(place.path(), "rm -r x.h5", &[]);
    assert!(!place.stored("x.h5").exists());
}

/// The rules of a container hold for what is written from outside of it.
#[test]
fn rules_hold_by_whichever_name() {
    let mut place = with_names(&[]);
    let [inside, outside] = PLACES;
    let array = |place: &Place, at: &str, name: &str| place.join(format!("x.h5/{at}{name}"));
    for name in ["pointers_to_1", "indices_1", "values"] {
        let [inside, outside] = PLACES.map(|at| array(&place, at, name));
        assert_eq!(inode(&inside), (inode(&outside).0, 2), "{name}");
    }
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    // There are two columns.
    let longs = |of: &[u64]| -> Vec<u8> { of.iter().flat_map(|n| n.to_le_bytes()).collect() };
    write_at(&array(&place, outside, "indices_1"), &longs(&[2]), 0).unwrap();
    assert!(state(&place).starts_with("staged: "), "{}", state(&place));
    assert_eq!(std::fs::read(place.stored("x.h5")).unwrap(), before);
    place = without_mount(place, |file| {
        for at in PLACES {
            let name = format!("{at}indices_1");
            let read = arrayfs(["cat".as_ref(), file.as_os_str(), name.as_ref()]).success();
            assert_eq!(read.stdout, longs(&[2, 0]), "{name}");
        }
    });
    write_at(&array(&place, inside, "indices_1"), &longs(&[1]), 0).unwrap();
    wait_until("it is committed", || state(&place) == "clean");
    // One entry more, array by array: what the descriptor says follows.
    write_at(&array(&place, outside, "indices_1"), &longs(&[1]), 16).unwrap();
    write_at(&array(&place, inside, "pointers_to_1"), &longs(&[3]), 24).unwrap();
    assert!(state(&place).starts_with("staged: "), "{}", state(&place));
    let more = numbers(&[5f32.to_bits().cast_signed()]);
    write_at(&array(&place, outside, "values"), &more, 8).unwrap();
    wait_until("it is committed", || state(&place) == "clean");
    let told = std::fs::read_to_string(place.join("x.h5/matrix/binsparse.json")).unwrap();
    assert!(told.contains(r#""number_of_stored_values": 3"#), "{told}");
    for at in PLACES {
        assert_array(&place, &format!("{at}indices_1"), "[3]", &longs(&[1, 0, 1]));
    }
    arrayfs(["verify".as_ref(), place.stored("x.h5").as_os_str()]).success();
}

/// Looks at the file while nothing is mounted.
fn without_mount(place: Place, look: impl FnOnce(&Path)) -> Place {
    let (mounted, source) = place.into_parts();
    arrayfs(["umount".as_ref(), mounted.path().as_os_str()]);
    mounted.assert_ends();
    look(&source.path().join("x.h5"));
    Place::over(source, &[])
}

/// Programs that keep hard links make them in the copy, and the copy has one dataset.
#[test]
fn copies_have_one_dataset() {
    let source = open_directory();
    let path = source.path().join("x.h5");
    script("write_hdf5/scenario.py", [Path::new("names"), &path]).success();
    let mounted = Mounted::new(source.path(), &["ro"]);
    assert_eq!(inode(&mounted.join("x.h5/soft")).1, 4);
    let place = Place::mounted(&["settle=600000"]);
    for copy in [
        r#"cp -a "$1" ."#,
        r#"cp -r "$1" ."#,
        r#"tar -C "$1/.." -c x.h5 | tar x"#,
    ] {
        shell(place.path(), copy, &[&mounted.join("x.h5")]);
        place.wait_packed("x.h5");
        let state = xattr(&place.join("x.h5"), "user.arrayfs.state").unwrap();
        assert_eq!(state, "clean", "{copy}");
        let all: Vec<i32> = (0..12).collect();
        assert_rows(&place, "[4, 3]", &numbers(&all));
        shell(place.path(), "rm -r x.h5", &[]);
    }
}
