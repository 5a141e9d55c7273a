//! Copies with their attributes: of containers onto containers that are there, and of what
//! containers show among ordinary files.

use std::fs::{copy, create_dir, read, rename, write};
use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use tempfile::TempDir;

use crate::harness::golden;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::tools::{shell, tools};
use crate::harness::writers::{Bloscpack, Matrix};

/// A container of each format that is written, and an array of it that a copy can have otherwise.
const CONTAINERS: [(&str, &str); 6] = [
    ("x.h5", "values"),
    ("classic.nc", "values"),
    ("plain.blp", "data"),
    ("numpy.blp", "data"),
    ("counts", "val"),
    ("x.dbdf", "values"),
];

fn place() -> Place {
    let place = Place::mounted(&[]);
    for (name, from) in [
        ("x.h5", "binsparse/sources/attr-dataset.h5"),
        ("classic.nc", "binsparse/sources/cdf1-csr.nc"),
        ("numpy.blp", "bloscpack/sources/np-le-f4.blp"),
        ("x.dbdf", "daphne/sources/csr-float64-sparse.dbdf"),
    ] {
        copy(golden(from), place.stored(name)).unwrap();
    }
    Bloscpack::default().write(&place.stored("plain.blp"), b"what the array holds");
    Matrix::random(1, 2000).write_packed(&place.stored("counts"));
    place
}

fn set(path: &Path, name: &str, value: &str) -> Result<(), Errno> {
    let name = format!("user.arrayfs.{name}");
    rustix::fs::setxattr(path, name.as_str(), value.as_bytes(), XattrFlags::empty())
}

#[test]
fn rsync_with_attributes_onto_a_container_that_is_there_ends_well() {
    if !tools(&["rsync"]) {
        return;
    }
    let place = place();
    for (container, array) in CONTAINERS {
        let at = place.join(container).join(array);
        let outside = TempDir::new().unwrap();
        let copy = outside.path().join("copy");
        for more in [
            // As it is, so that even what follows from the arrays comes again.
            "cp -r --preserve=mode,xattr $1 $3",
            // An array with other bytes.
            r"printf '\0\0\0\0' | dd of=$3/$2 bs=1 conv=notrunc status=none",
            // And one that says nothing.
            "cp -r --no-preserve=xattr $3 $3.bare; rm -r $3; mv $3.bare $3; rm $3/arrays.json",
        ] {
            let script = format!("{more}; rsync -aX --ignore-times $3/ $1/");
            let arguments = [Path::new(container), Path::new(array), &copy];
            shell(place.path(), &script, &arguments);
            assert_content(&at, &read(copy.join(array)).unwrap());
        }
    }
}

#[test]
fn a_file_that_says_another_type_takes_the_place_of_no_array_that_has_its_own() {
    let place = place();
    for (container, array) in CONTAINERS {
        let at = place.join(container).join(array);
        let before = (
            read(&at).unwrap(),
            xattr(&at, "user.arrayfs.dtype").unwrap(),
        );
        let file = place.join(container).join(".copied");
        write(&file, &before.0).unwrap();
        for (name, value) in [("shape", "[3, 1, 7]"), ("dtype", "complex128")] {
            write(&file, &before.0).unwrap();
            set(&file, name, value).unwrap();
            let renamed = rename(&file, &at).map_err(|e| e.raw_os_error());
            // Bloscpack has a place for a type, which has to fit.
            let fits = before.0.len().is_multiple_of(16) && name == "dtype";
            if container.ends_with(".blp") && fits {
                renamed.unwrap();
                assert_eq!(xattr(&at, "user.arrayfs.dtype").unwrap(), value);
            } else {
                assert_eq!(renamed, Err(Some(libc::EINVAL)), "{container} {name}");
                assert_eq!(xattr(&at, "user.arrayfs.dtype").unwrap(), before.1);
            }
            assert_content(&at, &before.0);
        }
    }
    let told = arrayfs([Path::new("status"), place.path()]).success();
    let line = format!("values in {}: the type", place.stored("x.dbdf").display());
    assert!(told.text().contains(&line), "{}", told.text());
}

/// With bytes that the old type could not have.
#[test]
fn an_array_gets_content_and_type_at_once_where_the_format_lets_it() {
    let mut place = place();
    for container in ["plain.blp", "numpy.blp"] {
        let file = place.join(container).join("copied");
        write(&file, [1; 6]).unwrap();
        set(&file, "dtype", "int16").unwrap();
        set(&file, "shape", "[1, 3]").unwrap();
        rename(&file, place.join(container).join("data")).unwrap();
    }
    for _ in 0..2 {
        for container in ["plain.blp", "numpy.blp"] {
            let at = place.join(container).join("data");
            assert_content(&at, &[1; 6]);
            assert_eq!(xattr(&at, "user.arrayfs.dtype").unwrap(), "int16");
            assert_eq!(xattr(&at, "user.arrayfs.shape").unwrap(), "[1, 3]");
        }
        place.mount_again();
    }
}

/// What says something else of the container is nothing that has been said already.
#[test]
fn what_follows_from_arrays_is_replaced_by_nothing_else() {
    let place = place();
    for (container, _) in CONTAINERS {
        let at = place.join(container).join("arrays.json");
        let before = read(&at).unwrap();
        let other = String::from_utf8(before.clone()).unwrap();
        for text in [&b"{}"[..], b"", other.replace("dtype", "kind").as_bytes()] {
            write(place.join("file"), text).unwrap();
            let refused = rename(place.join("file"), &at).map_err(|e| e.raw_os_error());
            assert_eq!(refused, Err(Some(libc::EPERM)), "{container}");
        }
        write(place.join("file"), &before).unwrap();
        rename(place.join("file"), &at).unwrap();
        assert!(!place.join("file").exists());
        assert_content(&at, &before);
    }
}

#[test]
fn what_copies_say_of_arrays_is_dropped_among_ordinary_files() {
    let place = place();
    create_dir(place.join("plain")).unwrap();
    for (container, array) in CONTAINERS {
        for copy in ["cp -a", "rsync -aX"] {
            if tools(&[copy.split(' ').next().unwrap()]) {
                let script = format!("{copy} \"$1/\" plain/copy; {copy} \"$1/$2\" plain/array");
                shell(
                    place.path(),
                    &script,
                    &[Path::new(container), Path::new(array)],
                );
                let copied = place.join("plain/copy").join(array);
                assert_content(&copied, &read(place.join(container).join(array)).unwrap());
                assert_eq!(
                    xattr(&place.join("plain/array"), "user.arrayfs.dtype").ok(),
                    None,
                    "{container} {copy}"
                );
                shell(place.path(), "rm -r plain/copy plain/array", &[]);
            }
        }
    }
    write(place.join("plain/file"), "x").unwrap();
    for (path, name) in [
        ("plain/file", "other"),
        ("plain", "other"),
        ("plain", "dtype"),
    ] {
        assert_eq!(
            set(&place.join(path), name, "int8"),
            Err(Errno::PERM),
            "{name}"
        );
    }
}
