//! The type of an array, set by its attributes: what NumPy and Bloscpack read then, and what stays
//! as it is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::XattrFlags;

use super::made::numpy;
use super::{assert_stored, both_ways, container, either_way};
use crate::harness::place::Place;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::Seeded;
use crate::harness::{golden, wait_until};

both_ways![
    bytes_become_numbers_and_other_numbers,
    what_has_been_written_is_committed_before,
];
either_way![what_does_not_fit_is_refused_and_changes_nothing];

fn set(path: &Path, name: &str, value: &str) -> io::Result<()> {
    let name = format!("user.arrayfs.{name}");
    let set = rustix::fs::setxattr(path, name.as_str(), value.as_bytes(), XattrFlags::empty());
    set.map_err(io::Error::from)
}

fn errno(done: io::Result<()>) -> Option<i32> {
    done.err().and_then(|e| e.raw_os_error())
}

fn said(path: &Path) -> String {
    let of = |name: &str| xattr(path, &format!("user.arrayfs.{name}")).unwrap();
    format!("{} {}", of("dtype"), of("shape"))
}

/// A close soon after a slow commit leaves to the next one what was written.
fn wait_said(path: &Path, expected: &str) {
    wait_until(expected, || said(path) == expected);
}

fn bytes_become_numbers_and_other_numbers(place: &Place) {
    let plain = Seeded::new(1).rising(480_000);
    container(place, "x.blp", &plain);
    let (path, stored) = (place.join("x.blp/data"), place.stored("x.blp"));
    let open = File::open(&path).unwrap();
    let mut first = [0; 100];
    open.read_exact_at(&mut first, 0).unwrap();
    let inode = path.metadata().unwrap().ino();
    let packed = stored.metadata().unwrap().len();
    for (name, value, expected, read) in [
        (
            "dtype",
            "float64",
            "float64 [60000]",
            "[\"float64\", [60000], \"C\"]\n",
        ),
        (
            "shape",
            "[600, 100]",
            "float64 [600, 100]",
            "[\"float64\", [600, 100], \"C\"]\n",
        ),
        (
            "dtype",
            "<i4",
            "int32 [600, 200]",
            "[\"int32\", [600, 200], \"C\"]\n",
        ),
        (
            "dtype",
            "int32",
            "int32 [600, 200]",
            "[\"int32\", [600, 200], \"C\"]\n",
        ),
    ] {
        set(&path, name, value).unwrap();
        assert_eq!(said(&path), expected);
        assert_eq!(numpy(&stored, &plain), read);
        assert_stored(&stored, &plain);
        let view = std::fs::read(place.join("x.blp/views/data.npy")).unwrap();
        let (dtype, _) = expected.split_once(' ').unwrap();
        let descr: &[u8] = if dtype == "int32" { b"'<i4'" } else { b"'<f8'" };
        assert!(
            view.windows(descr.len())
                .take(100)
                .any(|part| part == descr)
        );
    }
    let text = std::fs::read_to_string(place.join("x.blp/arrays.json")).unwrap();
    assert!(text.contains("\"dtype\": \"int32\""), "{text}");
    assert_eq!(path.metadata().unwrap().ino(), inode);
    open.read_exact_at(&mut first, 1000).unwrap();
    assert_eq!(first[..], plain[1000..1100]);
    // The chunks are those that there were.
    assert!(stored.metadata().unwrap().len() < packed + 4096);
    // A file that grows keeps the type.
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all_at(&[7; 800], 480_000).unwrap();
    drop(file);
    wait_said(&path, "int32 [601, 200]");
}

fn what_does_not_fit_is_refused_and_changes_nothing(place: &Place) {
    container(place, "x.blp", &[1; 48]);
    std::fs::copy(
        golden("bloscpack/sources/meta-list.blp"),
        place.stored("meta.blp"),
    )
    .unwrap();
    let path = place.join("x.blp/data");
    let before = std::fs::read(place.stored("x.blp")).unwrap();
    for (name, value) in [
        ("dtype", "float65"),
        ("dtype", ""),
        ("dtype", "|S5"),
        ("shape", "[7]"),
        ("shape", "[-1]"),
        ("shape", "6"),
        ("shape", "[18446744073709551615, 2]"),
    ] {
        assert_eq!(
            errno(set(&path, name, value)),
            Some(libc::EINVAL),
            "{value}"
        );
    }
    for (path, name) in [
        ("x.blp/data", "codec"),
        ("x.blp/arrays.json", "dtype"),
        ("x.blp/views/data.npy", "dtype"),
    ] {
        let refused = errno(set(&place.join(path), name, "int8"));
        assert!(
            [Some(libc::EPERM), Some(libc::EROFS)].contains(&refused),
            "{path}"
        );
    }
    // Copies say again what an array is, and what follows from what is stored.
    let codec = xattr(&path, "user.arrayfs.codec").unwrap();
    for (name, value) in [
        ("dtype", "uint8"),
        ("shape", "[48]"),
        ("codec", &codec),
        ("stored_bytes", "7"),
    ] {
        assert_eq!(errno(set(&path, name, value)), None, "{name}");
    }
    assert_eq!(said(&path), "uint8 [48]");
    assert_eq!(std::fs::read(place.stored("x.blp")).unwrap(), before);
    let other = place.join("meta.blp/data");
    assert_eq!(errno(set(&other, "dtype", "int8")), Some(libc::EINVAL));
}

fn what_has_been_written_is_committed_before(place: &Place) {
    container(place, "x.blp", &[1; 48]);
    let path = place.join("x.blp/data");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[2; 16], 48).unwrap();
    set(&path, "dtype", "float64").unwrap();
    assert_eq!(said(&path), "float64 [8]");
    file.write_all_at(&[3; 8], 64).unwrap();
    drop(file);
    wait_said(&path, "float64 [9]");
    let expected = [&[1; 48][..], &[2; 16], &[3; 8]].concat();
    assert_content(&path, &expected);
    assert_stored(&place.stored("x.blp"), &expected);
}

/// Before it is packed they say what the file is going to be.
#[test]
fn a_file_in_a_new_container_is_given_its_type() {
    let mut place = Place::mounted(&[]);
    for (container, set_first) in [("x.blp", true), ("y.blp", false)] {
        std::fs::create_dir(place.join(container)).unwrap();
        let path = place.join(container).join("data");
        let file = File::create(&path).unwrap();
        let types = || {
            set(&path, "dtype", "float64").unwrap();
            set(&path, "shape", "[2, 3]").unwrap();
        };
        if set_first {
            types();
        }
        file.write_all_at(&[1; 48], 0).unwrap();
        if !set_first {
            types();
        }
        assert_eq!(errno(set(&path, "dtype", "float65")), Some(libc::EINVAL));
        // It follows from what is written: copies set it, too.
        assert_eq!(errno(set(&path, "codec", "lz4")), None);
        assert_eq!(xattr(&path, "user.arrayfs.shape").unwrap(), "[2, 3]");
    }
    place.mount_again();
    for container in ["x.blp", "y.blp"] {
        let stored = place.stored(container);
        assert_eq!(numpy(&stored, &[1; 48]), "[\"float64\", [2, 3], \"C\"]\n");
        assert_eq!(said(&place.join(container).join("data")), "float64 [2, 3]");
    }
}
