//! What of a container can be read and not be written, by any user and in any way: everything but
//! the arrays of sound containers of a format that arrayfs can write.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, XattrFlags};

use crate::harness::golden;
use crate::harness::is_root;
use crate::harness::place::Place;
use crate::harness::reads::{assert_content, walk, xattr};
use crate::harness::snapshot::Snapshot;
use crate::harness::users::{OTHER, as_user};
use crate::harness::writers::{Bloscpack, Matrix};

const CONTENT: &[u8] = b"what the array holds";

/// A container of each kind of storage, beside ordinary files.
fn place() -> Place {
    let place = Place::mounted(&[]);
    Bloscpack::default().write(&place.stored("x.blp"), CONTENT);
    Matrix::random(1, 2000).write_packed(&place.stored("counts"));
    let group = golden("binsparse/sources/empty-csr-5x7.h5");
    std::fs::copy(group, place.stored("x.h5")).unwrap();
    let damaged = golden("bloscpack/sources/bad-nchunks-2^62.blp");
    std::fs::copy(damaged, place.stored("damaged.blp")).unwrap();
    let numpy = golden("bloscpack/sources/np-le-f4.blp");
    std::fs::copy(numpy, place.stored("numpy.blp")).unwrap();
    std::fs::write(place.stored("file"), "ordinary").unwrap();
    std::fs::create_dir(place.stored("d")).unwrap();
    place
}

/// The arrays that can be written.
const WRITABLE: [&str; 14] = [
    "x.h5/binsparse.json",
    "x.blp/data",
    "numpy.blp/data",
    "counts/val",
    "counts/index",
    "counts/idxptr",
    "counts/shape",
    "counts/row_names",
    "counts/col_names",
    "counts/storage_order",
    "counts/version",
    "x.h5/indices_1",
    "x.h5/pointers_to_1",
    "x.h5/values",
];

/// Every file that is shown of the containers.
fn shown(place: &Place) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for container in ["x.blp", "numpy.blp", "damaged.blp", "counts", "x.h5"] {
        let (files, failures) = walk(&place.join(container));
        assert!(failures.is_empty() && !files.is_empty());
        all.extend(files);
    }
    all
}

#[track_caller]
fn refused<T>(what: &str, path: &Path, done: Result<T, impl Into<io::Error>>) {
    refused_as(libc::EROFS, what, path, done);
}

#[track_caller]
fn refused_as<T>(errno: i32, what: &str, path: &Path, done: Result<T, impl Into<io::Error>>) {
    let found = match done {
        Ok(_) => panic!("{what} {} is allowed", path.display()),
        Err(e) => e.into().raw_os_error(),
    };
    assert_eq!(found, Some(errno), "{what} {}", path.display());
}

/// Does all of this; the source is what it was.
fn unharmed(place: &Place, work: impl FnOnce()) {
    let before = Snapshot::of(place.source()).unwrap();
    work();
    let after = Snapshot::of(place.source()).unwrap();
    assert_eq!(after.difference(&before), None);
    assert_content(&place.join("x.blp/data"), CONTENT);
}

/// What follows from the arrays is nobody's to write; other formats and damaged files are only
/// read.
#[test]
fn only_arrays_of_sound_containers_of_some_formats_are_opened_for_writing() {
    let place = place();
    unharmed(&place, || {
        for path in &shown(&place) {
            let own = path.strip_prefix(place.path()).unwrap();
            let of_writable = ["x.blp", "numpy.blp", "counts", "x.h5"]
                .iter()
                .any(|at| own.starts_with(at));
            match of_writable {
                _ if WRITABLE.iter().any(|at| own == Path::new(at)) => {}
                true => not_opened_for_writing(libc::EPERM, path),
                false => not_opened_for_writing(libc::EROFS, path),
            }
        }
    });
}

#[track_caller]
fn not_opened_for_writing(errno: i32, path: &Path) {
    let all = OpenOptions::new;
    let refused = |what: &str, options: &mut OpenOptions| {
        refused_as(errno, what, path, options.open(path));
    };
    refused("write", all().write(true));
    refused("read and write", all().read(true).write(true));
    refused("append", all().append(true));
    refused("truncate", all().write(true).truncate(true));
    refused("create", all().write(true).create(true));
    let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a zero byte.
    let done = match unsafe { libc::truncate(text.as_ptr(), 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    refused_as(errno, "truncate by name", path, done);
}

#[test]
fn what_shows_a_fault_is_not_written() {
    let place = Place::mounted(&[]);
    for file in walk(&golden("bloscpack/sources")).0 {
        std::fs::copy(&file, place.stored(file.file_name().unwrap())).unwrap();
    }
    let mut damaged = 0;
    for entry in std::fs::read_dir(place.path()).unwrap() {
        let path = entry.unwrap().path();
        let array = path.join("data");
        if path.join("error.txt").exists() && array.exists() {
            not_opened_for_writing(libc::EROFS, &array);
            damaged += 1;
        }
    }
    assert!(damaged > 10, "{damaged} files");
}

#[test]
fn an_array_that_exists_is_not_made_anew() {
    let place = place();
    let made = File::create_new(place.join("x.blp/data"));
    assert_eq!(made.unwrap_err().raw_os_error(), Some(libc::EEXIST));
}

#[test]
fn nothing_is_made_among_views() {
    let place = place();
    unharmed(&place, || {
        for container in ["counts/views", "x.blp/views"] {
            let new = &place.join(container).join("new");
            refused("create", new, File::create(new));
            refused("create anew", new, File::create_new(new));
            let never = |what: &str, done: io::Result<()>| refused_as(libc::EPERM, what, new, done);
            never("make a directory", std::fs::create_dir(new));
            let container = new.with_extension("blp");
            never("make a container", std::fs::create_dir(container));
            never("link to", symlink("file", new));
            let mode = Mode::from_raw_mode(0o600);
            let pipe = rustix::fs::mknodat(CWD, new, FileType::Fifo, mode, 0);
            never("make a pipe", pipe.map_err(io::Error::from));
            never("link a file", std::fs::hard_link(place.join("file"), new));
        }
    });
}

#[test]
fn nothing_is_renamed_out_of_a_file_that_is_a_container() {
    let place = place();
    unharmed(&place, || {
        let (array, file) = (&place.join("x.h5/values"), &place.join("file"));
        let elsewhere = |to: &Path| {
            refused_as(libc::EPERM, "move out", array, std::fs::rename(array, to));
        };
        elsewhere(&place.join("out"));
        elsewhere(file);
        elsewhere(&place.join("x.h5/other"));
        let inside = &place.join("x.h5/new");
        for other in ["d", "x.blp"] {
            let moved = std::fs::rename(place.join(other), inside);
            refused_as(libc::EPERM, "move in", inside, moved);
        }
        let views = &place.join("x.h5/views");
        let moved = std::fs::rename(views, place.join("views"));
        refused_as(libc::EPERM, "move out", views, moved);
        let with_flags = |from: &Path, to: &Path, flags| {
            let renamed = rustix::fs::renameat_with(CWD, from, CWD, to, flags);
            refused_as(libc::EINVAL, "rename with flags", from, renamed);
        };
        with_flags(array, file, RenameFlags::EXCHANGE);
        with_flags(file, array, RenameFlags::EXCHANGE);
        with_flags(array, &place.join("new"), RenameFlags::NOREPLACE);
        refused("link", array, std::fs::hard_link(array, place.join("link")));
    });
}

/// The next version stages it; this one says no.
#[test]
fn attributes_of_arrays_are_not_changed() {
    let place = place();
    unharmed(&place, || {
        let empty = XattrFlags::empty();
        for path in &shown(&place) {
            let set = rustix::fs::setxattr(path, "user.x", b"1", empty);
            refused("set an attribute of", path, set);
            refused(
                "remove an attribute of",
                path,
                rustix::fs::removexattr(path, "user.x"),
            );
        }
        // What is computed is nobody's to set; copies say what follows from data, which is dropped.
        let array = place.join("x.blp/data");
        let set = |name, value: &[u8]| rustix::fs::setxattr(&array, name, value, empty);
        for name in ["user.arrayfs.codec", "user.arrayfs.other"] {
            assert_eq!(set(name, b"1"), Err(rustix::io::Errno::PERM), "{name}");
        }
        for name in ["user.arrayfs.state", "user.arrayfs.ratio"] {
            set(name, b"1").unwrap();
            assert_ne!(xattr(&array, name).ok().as_deref(), Some("1"), "{name}");
        }
    });
}

#[test]
fn a_handle_of_an_array_changes_nothing() {
    let place = place();
    unharmed(&place, || {
        let (path, file) = (
            &place.join("x.blp/data"),
            File::open(place.join("x.blp/data")),
        );
        let file = file.unwrap();
        let errno = |done: io::Result<()>| done.unwrap_err().raw_os_error();
        // A handle that is open for reading alone.
        assert_eq!(errno(file.set_len(1)), Some(libc::EINVAL));
        let written = std::os::unix::fs::FileExt::write_at(&file, b"x", 0).map(drop);
        assert_eq!(errno(written), Some(libc::EBADF));
        let flags = rustix::fs::FallocateFlags::empty();
        assert_eq!(
            rustix::fs::fallocate(&file, flags, 0, 9),
            Err(rustix::io::Errno::BADF)
        );
        // SAFETY: the mapping is never used.
        let mapped = unsafe { memmap2::MmapMut::map_mut(&file) };
        assert_eq!(errno(mapped.map(drop)), Some(libc::EACCES));
        let set = rustix::fs::fsetxattr(&file, "user.x", b"", XattrFlags::empty());
        refused("set an attribute of", path, set);
    });
}

/// What the kernel refuses by itself it says before anybody asks what it is.
#[test]
fn a_user_who_may_not_is_told_so_first() {
    if !is_root("another user") {
        return;
    }
    let place = place();
    unharmed(&place, || {
        as_user(OTHER, || {
            for path in ["x.blp/data", "counts/val"] {
                let opened = OpenOptions::new().write(true).open(place.join(path));
                assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::EACCES));
            }
            let made = File::create(place.join("x.blp/new"));
            assert_eq!(made.unwrap_err().raw_os_error(), Some(libc::EACCES));
            let mode = Permissions::from_mode(0o666);
            let changed = std::fs::set_permissions(place.join("x.blp"), mode);
            assert_eq!(changed.unwrap_err().raw_os_error(), Some(libc::EPERM));
            let access = rustix::fs::accessat(
                CWD,
                place.join("x.blp/data"),
                rustix::fs::Access::WRITE_OK,
                AtFlags::EACCESS,
            );
            assert!(access.is_err());
        });
    });
}
