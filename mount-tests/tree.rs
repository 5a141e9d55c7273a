//! What the mount shows beside the arrays' bytes: ordinary files, links, `arrays.json`, views,
//! `error.txt`, and that nothing can be written.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{FileType, Mode, makedev, mknodat};
use serde_json::{Value, json};

use crate::harness::mounted::Mounted;
use crate::harness::process::arrayfs;
use crate::harness::python::Written;
use crate::harness::reads::{assert_content, names, walk, xattr};
use crate::harness::seeded::Seeded;
use crate::harness::writers::{Bloscpack, Matrix, npy};
use crate::harness::{copy_directory, golden, scratch_directory};

#[test]
fn ordinary_files_are_shown_byte_for_byte() {
    let source = scratch_directory();
    let deep = source.path().join("a directory/of/directories");
    std::fs::create_dir_all(&deep).unwrap();
    let noise = Seeded::new(1).noise(3_000_001);
    // Also what resembles a container without being one.
    let files: [(&str, &[u8]); 6] = [
        ("noise", &noise),
        ("empty", b""),
        ("version", b"not a version of BPCells\n"),
        ("blpk", b"blp"),
        ("größe 🦀,x=1", "öäü\n".as_bytes()),
        ("a directory/of/directories/file", b"at the bottom"),
    ];
    for (name, content) in files {
        std::fs::write(source.path().join(name), content).unwrap();
    }
    let mounted = Mounted::new(source.path(), &[]);
    for (name, content) in files {
        assert_content(&mounted.join(name), content);
        let size = mounted.join(name).metadata().unwrap().len();
        assert_eq!(size, content.len() as u64, "{name}");
    }
    assert_eq!(names(mounted.path()), names(source.path()));
    assert_eq!(names(&mounted.join("a directory/of")), ["directories"]);
    let missing = std::fs::metadata(mounted.join("no-such")).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[test]
fn links_stay_links_and_special_files_stay_special() {
    let source = scratch_directory();
    Bloscpack::default().write(&source.path().join("x.blp"), b"decoded");
    let links = [
        ("to-container", "x.blp"),
        ("dangling", "no-such"),
        ("absolute", "/etc/hostname"),
    ];
    for (name, target) in links {
        symlink(target, source.path().join(name)).unwrap();
    }
    let no_device = makedev(0, 0);
    let fifo = source.path().join("fifo");
    mknodat(
        rustix::fs::CWD,
        &fifo,
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        no_device,
    )
    .unwrap();
    let mounted = Mounted::new(source.path(), &[]);
    for (name, target) in links {
        assert_eq!(
            std::fs::read_link(mounted.join(name)).unwrap(),
            Path::new(target)
        );
        assert!(mounted.join(name).symlink_metadata().unwrap().is_symlink());
    }
    assert_content(&mounted.join("to-container/data"), b"decoded");
    assert!(!mounted.join("dangling").exists());
    assert!(
        mounted
            .join("fifo")
            .symlink_metadata()
            .unwrap()
            .file_type()
            .is_fifo()
    );
}

#[test]
fn arrays_json_describes_every_array() {
    let source = scratch_directory();
    let matrix = Matrix::random(4, 1000);
    matrix.write_packed(&source.path().join("counts"));
    Bloscpack::default().write(&source.path().join("x.blp"), &[1; 1000]);
    let mounted = Mounted::new(source.path(), &[]);
    let read = |path: &str| -> Value {
        serde_json::from_slice(&std::fs::read(mounted.join(path)).unwrap()).unwrap()
    };
    let counts = read("counts/arrays.json");
    assert_eq!(counts["format"], "bpcells");
    assert_eq!(counts["version"], "packed-uint-matrix-v2");
    let described = counts["arrays"].as_array().unwrap();
    for (name, descr, elements, bytes) in matrix.arrays() {
        let array = described
            .iter()
            .find(|array| array["name"] == name)
            .unwrap();
        let dtype = if descr == "<u4" { "uint32" } else { "uint64" };
        assert_eq!(array["dtype"], dtype, "{name}");
        assert_eq!(array["shape"], json!([elements]), "{name}");
        assert_eq!(array["bytes"], bytes.len(), "{name}");
        let keys: Vec<&String> = array.as_object().unwrap().keys().collect();
        let documented = "name dtype shape order bytes stored_bytes blocks codec";
        assert_eq!(keys, documented.split(' ').collect::<Vec<_>>(), "{name}");
    }
    for array in described {
        let path = mounted.join("counts").join(array["name"].as_str().unwrap());
        assert_eq!(array["bytes"], path.metadata().unwrap().len(), "{array}");
    }
    let x = read("x.blp/arrays.json");
    assert_eq!(x["format"], "bloscpack");
    assert_eq!(x["arrays"][0]["name"], "data");
    assert_eq!(x["arrays"][0]["bytes"], 1000);
    assert!(x["attributes"].is_object());
}

#[test]
fn a_view_is_a_header_of_numpy_before_the_same_bytes() {
    let source = scratch_directory();
    let matrix = Matrix::random(6, 12_345);
    matrix.write_packed(&source.path().join("counts"));
    let mounted = Mounted::new(source.path(), &[]);
    for (name, descr, elements, bytes) in matrix.arrays() {
        let view = mounted.join(format!("counts/views/{name}.npy"));
        assert_content(&view, &npy(descr, elements, &bytes));
    }
    let arrays = ["col_names", "idxptr", "index", "row_names", "shape", "val"];
    assert_eq!(
        names(&mounted.join("counts/views")),
        arrays.map(|name| format!("{name}.npy"))
    );
}

#[test]
fn files_beside_a_matrix_are_shown_and_its_members_are_not() {
    let source = scratch_directory();
    let counts = source.path().join("counts");
    Matrix::random(7, 1000).write_packed(&counts);
    std::fs::write(counts.join("notes.txt"), "beside").unwrap();
    std::fs::write(counts.join("error.txt"), "not ours").unwrap();
    std::fs::create_dir(counts.join("deeper")).unwrap();
    Bloscpack::default().write(&counts.join("deeper/x.blp"), b"inside");
    let mounted = Mounted::new(source.path(), &[]);
    let shown = names(&mounted.join("counts"));
    let expected = "arrays.json col_names deeper idxptr index notes.txt row_names shape \
                    storage_order val version";
    assert_eq!(shown, expected.split_whitespace().collect::<Vec<_>>());
    assert_content(&mounted.join("counts/notes.txt"), b"beside");
    assert_content(&mounted.join("counts/deeper/x.blp/data"), b"inside");
    assert_content(&mounted.join("counts/version"), b"packed-uint-matrix-v2\n");
    assert!(!mounted.join("counts/val_data").exists());
}

#[test]
fn error_txt_says_what_is_wrong_and_the_rest_is_shown() {
    let source = scratch_directory();
    let counts = source.path().join("counts");
    let matrix = Matrix::random(8, 1000);
    matrix.write_packed(&counts);
    std::fs::write(counts.join("val_data"), "UINT32v1short").unwrap();
    copy_directory(&golden("bloscpack/sources"), &source.path().join("golden"));
    let mounted = Mounted::new(source.path(), &[]);
    let text = std::fs::read_to_string(mounted.join("counts/error.txt")).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("val") && text.contains("expected") && text.contains("found"),
        "{text}"
    );
    assert!(!mounted.join("counts/val").exists());
    assert_content(&mounted.join("counts/index"), &matrix.arrays()[1].3);
    let state = xattr(&mounted.join("counts"), "user.arrayfs.state").unwrap();
    assert!(state.contains("error.txt"), "{state}");
    let text = std::fs::read_to_string(mounted.join("golden/bad-magic.blp/error.txt")).unwrap();
    assert!(
        text.contains("magic") && text.contains("bytes 0..4"),
        "{text}"
    );
    assert_eq!(
        names(&mounted.join("golden/bad-magic.blp/views")),
        ["stored"]
    );
}

#[test]
fn a_container_in_a_group_is_a_container_s_directory() {
    let written = Written::new("nested");
    let mounted = Mounted::new(written.source(), &[]);
    let (file, inner) = (
        mounted.join("nested.h5"),
        mounted.join("nested.h5/outer/matrix"),
    );
    let attribute = |path: &Path, name: &str| xattr(path, &format!("user.arrayfs.{name}")).unwrap();
    assert_eq!(attribute(&file, "format"), "hdf5");
    assert_eq!(attribute(&inner, "format"), "binsparse");
    assert_eq!(attribute(&inner, "state"), "clean");
    assert_eq!(attribute(&inner.join("values"), "format"), "binsparse");
    assert!(xattr(&mounted.join("nested.h5/outer"), "user.arrayfs.format").is_err());
    let expected = "arrays.json binsparse.json indices_1 pointers_to_1 values";
    assert_eq!(names(&inner), expected.split(' ').collect::<Vec<_>>());
    assert_eq!(names(&file), ["arrays.json", "beside", "outer", "way"]);
    assert_eq!(names(&file.join("views")), ["beside", "stored"]);
    let views = ["indices_1.npy", "pointers_to_1.npy", "values.npy"];
    assert_eq!(names(&inner.join("views")), views);
    let read =
        |path: &Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let described = read(&inner.join("arrays.json"));
    assert_eq!(described["format"], "binsparse");
    assert_eq!(described["arrays"].as_array().unwrap().len(), 3);
    assert_eq!(
        read(&inner.join("binsparse.json"))["binsparse"]["format"],
        "CSR"
    );
    let outer = read(&file.join("arrays.json"));
    assert_eq!(outer["arrays"].as_array().unwrap().len(), 4);
    assert_eq!(
        std::fs::read_link(file.join("way")).unwrap(),
        Path::new("outer/matrix")
    );
}

/// What is wrong with one of several containers is said by it and by the outermost.
#[test]
fn error_txt_of_a_container_in_a_group_is_its_own() {
    let source = scratch_directory();
    let file = golden("binsparse/sources/bad-types-mismatch.h5");
    std::fs::copy(file, source.path().join("x.h5")).unwrap();
    let mounted = Mounted::new(source.path(), &[]);
    let text = std::fs::read_to_string(mounted.join("x.h5/error.txt")).unwrap();
    assert!(
        text.contains("values") && text.contains("float32"),
        "{text}"
    );
}

#[test]
fn nothing_can_be_written_to_a_read_only_mount() {
    let source = scratch_directory();
    Bloscpack::default().write(&source.path().join("x.blp"), b"content");
    std::fs::write(source.path().join("file"), "content").unwrap();
    let mounted = Mounted::new(source.path(), &["ro"]);
    let refused = |what: &str, done: io::Result<()>| {
        let errno = done.expect_err(what).raw_os_error();
        assert_eq!(errno, Some(libc::EROFS), "{what}");
    };
    for path in [
        "file",
        "x.blp/data",
        "x.blp/arrays.json",
        "x.blp/views/data.npy",
    ] {
        let path = &mounted.join(path);
        let open = |options: &OpenOptions| options.open(path).map(drop);
        refused("write", open(OpenOptions::new().write(true)));
        refused("append", open(OpenOptions::new().append(true)));
        refused(
            "truncate",
            open(OpenOptions::new().write(true).truncate(true)),
        );
        refused("remove", std::fs::remove_file(path));
        refused("rename", std::fs::rename(path, mounted.join("other")));
        refused(
            "chmod",
            std::fs::set_permissions(path, Permissions::from_mode(0o777)),
        );
        refused("link", std::fs::hard_link(path, mounted.join("other")));
        let flags = rustix::fs::XattrFlags::empty();
        let set = rustix::fs::setxattr(path, "user.x", b"", flags);
        refused("set an attribute", set.map_err(io::Error::from));
    }
    for directory in [mounted.path().to_owned(), mounted.join("x.blp")] {
        refused("create", std::fs::write(directory.join("new"), ""));
        refused(
            "make a directory",
            std::fs::create_dir(directory.join("new.blp")),
        );
    }
    assert_eq!(walk(source.path()).0.len(), 2);
    assert_content(&mounted.join("x.blp/data"), b"content");
}

#[test]
fn odd_names_of_source_and_mountpoint_change_nothing() {
    let directory = scratch_directory();
    for name in [
        "with space",
        "größe 🦀",
        "a,rw,b=c",
        "back\\slash",
        "100%",
        "new\nline",
    ] {
        let (source, mountpoint) = (
            directory.path().join(name),
            directory.path().join("m").join(name),
        );
        std::fs::create_dir_all(&source).unwrap();
        std::fs::create_dir_all(&mountpoint).unwrap();
        Bloscpack::default().write(&source.join(format!("{name}.blp")), name.as_bytes());
        let mounted = Mounted::at(&source, &mountpoint, &["rw"]);
        let data = mounted.join(format!("{name}.blp/data"));
        assert_content(&data, name.as_bytes());
        std::fs::write(&data, "written").unwrap();
        assert_content(&data, b"written");
        drop(mounted);
        let mounted = Mounted::at(&source, &mountpoint, &["ro"]);
        assert_content(&mounted.join(format!("{name}.blp/data")), b"written");
    }
}

/// A directory with it is no container, and no other is kept from being listed.
#[test]
fn a_pipe_that_is_called_version_makes_no_container() {
    let source = scratch_directory();
    std::fs::create_dir(source.path().join("pipes")).unwrap();
    let pipe = source.path().join("pipes/version");
    let mode = Mode::from_raw_mode(0o600);
    let kind = FileType::Fifo;
    mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
    for command in ["ls", "verify"] {
        arrayfs([command.as_ref(), source.path().as_os_str()]).success();
    }
    let mounted = Mounted::new(source.path(), &[]);
    assert_eq!(names(&mounted.join("pipes")), ["version"]);
}
