//! Commands that are given a path in a mount: it means the container or array that lies there, as
//! it is shown there. And `CONTAINER/ARRAY`, wherever a container or an array is taken.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::mounted::{Mounted, is_mounted};
use crate::harness::process::{ARRAYFS, Ran, arrayfs, nobody_starts, run};
use crate::harness::python::Written;
use crate::harness::reads::assert_same;
use crate::harness::seeded::Seeded;
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{copy_directory, golden, scratch_directory};

/// A BPCells directory, a Bloscpack file, an HDF5 file with groups, and a file that is none.
struct Known {
    directory: TempDir,
    matrix: Matrix,
    plain: Vec<u8>,
}

fn known() -> Known {
    let directory = scratch_directory();
    let matrix = Matrix::random(1, 20_000);
    matrix.write_packed(&directory.path().join("deep/counts"));
    let plain = Seeded::new(1).rising(300_000);
    Bloscpack::default().write(&directory.path().join("x.blp"), &plain);
    let written = Written::new("groups");
    std::fs::copy(
        written.source().join("groups.h5"),
        directory.path().join("x.h5"),
    )
    .unwrap();
    std::fs::write(directory.path().join("notes.txt"), "no container").unwrap();
    Known {
        directory,
        matrix,
        plain,
    }
}

fn on(path: &Path, arguments: &[&str]) -> Ran {
    let (command, rest) = arguments.split_first().unwrap();
    run(Command::new(ARRAYFS).arg(command).arg(path).args(rest))
}

/// What is said of one path, with the other one's name.
fn renamed(said: &str, from: &Path, to: &Path) -> String {
    said.replace(from.to_str().unwrap(), to.to_str().unwrap())
}

#[test]
fn reading_commands_say_the_same_of_a_mount_as_of_its_source() {
    let known = known();
    let mounted = Mounted::new(known.directory.path(), &[]);
    for what in ["", "x.h5", "x.blp", "deep", "deep/counts"] {
        let (source, shown) = (known.directory.path().join(what), mounted.join(what));
        for command in [
            &["ls"][..],
            &["ls", "-l"],
            &["ls", "--json"],
            &["verify"],
            &["info"],
        ] {
            let (stored, found) = (on(&source, command), on(&shown, command));
            assert_eq!(found.code(), stored.code(), "{command:?} {what}: {found:?}");
            let expected = renamed(&stored.text(), known.directory.path(), mounted.path());
            assert_eq!(found.text(), expected, "{command:?} {what}");
        }
    }
    let verified = on(&mounted.join("x.h5"), &["verify"]).success().text();
    assert!(!verified.starts_with("0 containers"), "{verified}");
    on(&mounted.join("notes.txt"), &["info"]).failed_saying(1, &["not a container"]);
    on(&mounted.join("none.h5"), &["info"]).failed_saying(1, &["none.h5"]);
    let status = on(&mounted.join("deep/counts"), &["status"])
        .success()
        .text();
    assert!(
        status.contains(mounted.path().to_str().unwrap()),
        "{status}"
    );
}

#[test]
fn an_array_is_named_as_ls_prints_it() {
    let known = known();
    let mounted = Mounted::new(known.directory.path(), &[]);
    for root in [known.directory.path(), mounted.path()] {
        let listed = on(root, &["ls"]).success().text();
        assert!(listed.lines().count() > 9, "{listed}");
        for line in listed.lines() {
            let array = Path::new(line);
            assert_eq!(on(array, &["ls"]).success().text().trim_end(), line);
            let told = on(array, &["ls", "--json"]).success();
            let told: Value = serde_json::from_slice(&told.stdout).unwrap();
            assert_eq!(told[0]["container"]["arrays"].as_array().unwrap().len(), 1);
            assert!(
                on(array, &["verify"]).success().text().contains("1 array,"),
                "{line}"
            );
            let whole = on(array, &["cat"]).success().stdout;
            assert_same(
                array,
                &whole,
                &std::fs::read(mounted_path(root, &mounted, array)).unwrap(),
            );
            on(array, &["info"]).success();
        }
        assert_same(
            "data",
            &on(&root.join("x.blp/data"), &["cat"]).stdout,
            &known.plain,
        );
        // Both ways of naming it, in a mount as well.
        let counts = root.join("deep/counts");
        let (name, _, _, bytes) = known.matrix.arrays().into_iter().next().unwrap();
        assert_same(name, &on(&counts, &["cat", name]).success().stdout, &bytes);
        on(&root.join("x.blp/none"), &["info"]).failed_saying(1, &["no array 'none'", "data"]);
        on(&root.join("x.blp/none"), &["ls"]).failed_saying(1, &["no array 'none'"]);
        on(&root.join("x.blp/none"), &["verify"]).failed_saying(1, &["no array 'none'"]);
        // There is but one array in it.
        on(&root.join("x.blp"), &["cat"]).success();
    }
    // As a shell says it that stands there.
    let mut here = Command::new(ARRAYFS);
    here.args(["cat", "counts/val"])
        .current_dir(mounted.join("deep"));
    let val = std::fs::read(mounted.join("deep/counts/val")).unwrap();
    assert_same("val", &run(&mut here).success().stdout, &val);
    let mut here = Command::new(ARRAYFS);
    here.args(["cat", "val"])
        .current_dir(known.directory.path().join("deep/counts"));
    assert_same("val", &run(&mut here).success().stdout, &val);
}

fn mounted_path(root: &Path, mounted: &Mounted, array: &Path) -> PathBuf {
    mounted.join(array.strip_prefix(root).unwrap())
}

/// Written, not synced, and the handle still open.
#[test]
fn what_is_staged_in_a_mount_is_what_lies_there() {
    let known = known();
    let mounted = Mounted::new(known.directory.path(), &["rw"]);
    let data = mounted.join("x.blp/data");
    let nobody_starts = nobody_starts();
    let file = OpenOptions::new().write(true).open(&data).unwrap();
    file.write_all_at(b"staged", 1000).unwrap();
    drop(nobody_starts);
    let mut expected = known.plain.clone();
    expected[1000..1006].copy_from_slice(b"staged");
    for name in ["x.blp", "x.blp/data"] {
        let arguments: &[&str] = if name == "x.blp" {
            &["cat", "data"]
        } else {
            &["cat"]
        };
        let found = on(&mounted.join(name), arguments).success();
        assert_same(name, &found.stdout, &expected);
    }
    on(mounted.path(), &["verify"]).success();
    drop(file);
}

/// Shapes, attributes and what is computed, while something is staged.
#[test]
fn info_says_what_arrays_json_says_in_the_mount() {
    let source = scratch_directory();
    let numpy = golden("bloscpack/sources/np-3d.blp");
    std::fs::copy(numpy, source.path().join("x.blp")).unwrap();
    let mut fragments = golden("bpcells/sources")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap());
    let fragments = fragments.find(|entry| {
        let version = std::fs::read_to_string(entry.path().join("version"));
        version.is_ok_and(|version| version.starts_with("packed-fragments-v2"))
    });
    copy_directory(&fragments.unwrap().path(), &source.path().join("f"));
    let mounted = Mounted::new(source.path(), &["rw"]);
    let nobody_starts = nobody_starts();
    let open = |path: &Path| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap()
    };
    let (data, ends) = (
        open(&mounted.join("x.blp/data")),
        open(&mounted.join("f/end")),
    );
    let len = data.metadata().unwrap().len();
    // Whole rows.
    data.set_len(2 * len).unwrap();
    ends.write_all_at(&u32::MAX.to_le_bytes(), 0).unwrap();
    drop(nobody_starts);
    for name in ["x.blp", "f"] {
        let said = on(&mounted.join(name), &["info", "--json"]).success();
        let shown = std::fs::read(mounted.join(name).join("arrays.json")).unwrap();
        assert_same(name, &said.stdout, &shown);
    }
    let computed = on(&mounted.join("f/end_max"), &["cat"]).success();
    let shown = std::fs::read(mounted.join("f/end_max")).unwrap();
    assert_eq!(shown[..4], u32::MAX.to_le_bytes());
    assert_same("end_max", &computed.stdout, &shown);
}

#[test]
fn a_mount_of_one_container_is_that_container() {
    let known = known();
    let mounted = Mounted::new(known.directory.path().join("x.blp"), &[]);
    let said = on(mounted.path(), &["ls"]).success().text();
    let named = on(Path::new(said.trim_end()), &["cat"]).success();
    assert_same("data", &named.stdout, &known.plain);
    assert_same(
        "data",
        &on(mounted.path(), &["cat", "data"]).stdout,
        &known.plain,
    );
    assert_same(
        "data",
        &on(&mounted.join("data"), &["cat"]).stdout,
        &known.plain,
    );
}

/// The source's path leads elsewhere since: nothing else is taken for it.
#[test]
fn a_source_that_cannot_be_reached_is_told() {
    let known = known();
    let above = scratch_directory();
    let (source, moved) = (above.path().join("source"), above.path().join("moved"));
    std::fs::create_dir(&source).unwrap();
    std::fs::copy(known.directory.path().join("x.blp"), source.join("x.blp")).unwrap();
    let mounted = Mounted::new(&source, &["ro"]);
    std::fs::rename(&source, &moved).unwrap();
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("x.blp"), "something else").unwrap();
    on(&mounted.join("x.blp"), &["info"]).failed_saying(1, &["cannot be reached", "source"]);
}

#[test]
fn a_mount_of_a_mount_is_refused() {
    let known = known();
    let mounted = Mounted::new(known.directory.path(), &[]);
    let mountpoint = scratch_directory();
    for source in [
        mounted.path().to_owned(),
        mounted.join("deep"),
        mounted.join("x.h5"),
    ] {
        let refused = arrayfs([Path::new("mount"), &source, mountpoint.path()]);
        let path = known.directory.path().to_str().unwrap();
        refused.failed_saying(1, &["lies in the arrayfs mount", path]);
        assert!(!is_mounted(mountpoint.path()));
    }
    File::open(mounted.join("notes.txt")).unwrap();
}

/// Nothing is a container in a scratch mount: a path in it is that of a file.
#[test]
fn a_path_in_a_scratch_mount_is_that_of_the_file_that_lies_there() {
    let (known, store) = (known(), scratch_directory());
    let scratch = Mounted::new(store.path(), &["rw", "scratch"]);
    let (source, copy) = (known.directory.path(), scratch.join("data"));
    copy_directory(source, &copy);
    for what in ["", "x.h5", "x.blp", "deep/counts", "x.blp/data"] {
        for command in [&["ls"][..], &["verify"], &["info"]] {
            let (stored, found) = (
                on(&source.join(what), command),
                on(&copy.join(what), command),
            );
            assert_eq!(found.code(), stored.code(), "{command:?} {what}: {found:?}");
            let expected = renamed(&stored.text(), source, &copy);
            assert_eq!(found.text(), expected, "{command:?} {what}");
        }
    }
    let read = on(&copy.join("x.blp/data"), &["cat"]).success().stdout;
    assert_same("data", &read, &known.plain);
    let mounted = Mounted::new(&copy, &["rw"]);
    let data = mounted.join("x.blp/data");
    assert_same("data", &std::fs::read(&data).unwrap(), &known.plain);
    let file = OpenOptions::new().write(true).open(&data).unwrap();
    file.write_all_at(b"written", 5).unwrap();
    drop(file);
    drop(mounted);
    let read = on(&copy.join("x.blp/data"), &["cat"]).success().stdout;
    assert_eq!(&read[5..12], b"written");
    // Also through the daemon's own lock.
    let more = source.join("notes.txt");
    on(&copy.join("x.blp"), &["append", more.to_str().unwrap()]).success();
    let read = on(&copy.join("x.blp/data"), &["cat"]).success().stdout;
    assert!(read.ends_with(b"no container"));
}
