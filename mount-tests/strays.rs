//! What is put into the directory of a container that is one file: another container is refused,
//! and a file that is no array is told.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::harness::place::Place;
use crate::harness::process::{Ran, arrayfs, run};
use crate::harness::python::Written;
use crate::harness::reads::{assert_content, names, xattr};
use crate::harness::tools::{shell, tools};
use crate::harness::writers::Bloscpack;
use crate::harness::{copy_directory, golden, scratch_directory, wait_until};
use tempfile::TempDir;

/// Containers of every format that is one file, and a directory that is one.
struct Among {
    place: Place,
    log: std::path::PathBuf,
    _logs: TempDir,
}

impl Among {
    fn new() -> Among {
        let source = scratch_directory();
        let logs = scratch_directory();
        let log = logs.path().join("log");
        for (from, to) in [
            ("bloscpack/sources/np-3d.blp", "old.blp"),
            ("daphne/sources/csr-0x3-sparse.dbdf", "old.dbdf"),
        ] {
            std::fs::copy(golden(from), source.path().join(to)).unwrap();
        }
        let written = Written::new("groups");
        std::fs::copy(
            written.source().join("groups.h5"),
            source.path().join("old.h5"),
        )
        .unwrap();
        std::fs::write(source.path().join("old.nc"), classic()).unwrap();
        copy_directory(
            &golden("bpcells/sources/m-unpacked-double-col"),
            &source.path().join("matrix"),
        );
        let option = format!("log={}", log.display());
        Among {
            place: Place::over(source, &[&option]),
            log,
            _logs: logs,
        }
    }

    fn logged(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// A classic NetCDF file without variables.
fn classic() -> Vec<u8> {
    let mut file = b"CDF\x01".to_vec();
    file.resize(32, 0);
    file
}

/// What need not go well.
fn tried(directory: &Path, script: &str, arguments: &[&Path]) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-euc", script, "sh"]).args(arguments);
    run(command.current_dir(directory))
}

const FILES: [&str; 4] = ["old.blp", "old.dbdf", "old.h5", "old.nc"];

#[test]
fn a_container_does_not_land_in_another() {
    let among = Among::new();
    let place = &among.place;
    let outside = scratch_directory();
    for name in FILES {
        std::fs::copy(place.stored(name), outside.path().join(name)).unwrap();
    }
    for into in FILES {
        let before = (
            names(&place.join(into)),
            std::fs::read(place.stored(into)).unwrap(),
        );
        for new in FILES {
            let from = outside.path().join(new);
            let to = place.join(into).join(new);
            let made = || std::fs::read(&from).unwrap();
            // As `cp` and `mv` across file systems do it, which see the error when they close.
            for command in ["cp $1 $2", "mv $1 $2", "cp $1 $2/other.dbdf"] {
                // DAPHNE's have no mark but their name.
                if command.ends_with("dbdf") && new != "old.dbdf" {
                    continue;
                }
                let said = tried(place.path(), command, &[&from, &place.join(into)]);
                assert!(said.code() != Some(0), "{command} {new} {into}");
                assert!(said.stderr.contains("not permitted"), "{}", said.stderr);
                assert_content(&from, &made());
            }
            // Within the mount.
            std::fs::write(place.join(format!("new.{new}")), made()).unwrap();
            let moved = std::fs::rename(place.join(format!("new.{new}")), &to);
            assert_eq!(moved.unwrap_err().raw_os_error(), Some(libc::EPERM));
            assert_content(&place.join(format!("new.{new}")), &made());
            std::fs::remove_file(place.join(format!("new.{new}"))).unwrap();
            assert!(!to.exists());
        }
        let after = (
            names(&place.join(into)),
            std::fs::read(place.stored(into)).unwrap(),
        );
        assert!(before == after, "{into}");
    }
    let logged = among.logged();
    assert!(
        logged.contains("old.h5: old.nc is a container itself, and was removed")
            && logged.contains("rm -r"),
        "{logged}"
    );
    assert!(logged.contains("old.nc: new.old.blp is a container itself, and was not put into it"));
    let hidden = names(place.source());
    assert!(
        !hidden.iter().any(|name| name.contains("arrayfs-files")),
        "{hidden:?}"
    );
}

#[test]
fn so_it_is_in_groups_and_for_programs_that_replace_files() {
    let among = Among::new();
    let place = &among.place;
    let container = std::fs::read(place.stored("old.nc")).unwrap();
    let group = std::fs::read_dir(place.join("old.h5")).unwrap();
    let mut group = group.map(|entry| entry.unwrap().path());
    let group = group.find(|path| path.is_dir()).unwrap();
    let mut file = std::fs::File::create(group.join("new")).unwrap();
    file.write_all(&container).unwrap();
    drop(file);
    wait_until("it is removed", || !group.join("new").exists());
    if tools(&["rsync"]) {
        std::fs::write(place.join("fresh.nc"), &container).unwrap();
        let said = tried(place.path(), "rsync -a fresh.nc old.h5/", &[]);
        assert!(said.code() != Some(0), "{said:?}");
        let said = tried(place.path(), "rsync -a fresh.nc old.nc", &[]);
        assert!(said.code() != Some(0), "{said:?}");
        assert_eq!(names(&place.join("old.nc")), ["arrays.json"]);
    }
    // Beside the arrays of a directory files lie as they are, and what is new takes what comes.
    std::fs::write(place.join("matrix/other.nc"), &container).unwrap();
    assert_content(&place.join("matrix/other.nc"), &container);
    shell(
        place.path(),
        "mkdir new.h5; cp $1 new.h5/file",
        &[&place.stored("old.nc")],
    );
    assert_content(&place.join("new.h5/file"), &container);
    // What is damaged is no container, nor is what has no content yet.
    std::fs::write(place.join("old.nc/empty.blp"), b"").unwrap();
    assert!(place.join("old.nc/empty.blp").exists());
}

/// Many give the file its name while it is open, and do not look at what its close says: they learn
/// it from fsync.
#[test]
fn a_program_that_syncs_and_does_not_look_at_its_close_learns_it() {
    let among = Among::new();
    let place = &among.place;
    let before = names(&place.join("old.h5"));
    let container = std::fs::read(place.stored("old.nc")).unwrap();
    let path = place.join("old.h5/.new.tmp");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(b"CD").unwrap();
    file.sync_all().unwrap();
    file.write_all(&container[2..]).unwrap();
    let synced = file.sync_all();
    assert_eq!(synced.unwrap_err().raw_os_error(), Some(libc::EPERM));
    drop(file);
    wait_until("it is removed", || !path.exists());
    std::fs::write(place.join("plain"), "some bytes").unwrap();
    let (from, to) = (place.join("plain"), place.join("old.h5/plain.blp"));
    let packed = arrayfs([OsStr::new("pack"), from.as_os_str(), to.as_os_str()]);
    assert_eq!(packed.code(), Some(1), "{packed:?}");
    assert!(packed.stderr.contains("plain.blp"), "{}", packed.stderr);
    assert_eq!(names(&place.join("old.h5")), before);
}

/// Left by a version before: it is not lost because somebody opens it.
#[test]
fn one_that_lies_there_from_before_is_not_written_to() {
    let among = Among::new();
    let place = &among.place;
    std::fs::write(place.join("old.nc/notes"), "notes").unwrap();
    let container = std::fs::read(place.stored("old.nc")).unwrap();
    std::fs::write(place.stored(".old.nc.arrayfs-files/new.nc"), &container).unwrap();
    let path = place.join("old.nc/new.nc");
    assert_content(&path, &container);
    let opened = OpenOptions::new().append(true).open(&path);
    assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::EPERM));
    std::fs::rename(&path, place.join("fresh.nc")).unwrap();
    // The kernel moves what it knows of the file; that it is a container now is told it afterwards.
    wait_until("it is a container", || place.join("fresh.nc").is_dir());
    assert_eq!(names(&place.join("fresh.nc")), ["arrays.json"]);
}

#[test]
fn a_file_among_arrays_is_told() {
    let among = Among::new();
    let place = &among.place;
    let state = |name: &str| xattr(&place.join(name), "user.arrayfs.state").unwrap();
    assert_eq!(state("old.nc"), "clean");
    std::fs::write(place.join("old.nc/new"), "1234").unwrap();
    std::fs::write(place.join("fresh"), "1234").unwrap();
    std::fs::rename(place.join("fresh"), place.join("old.nc/moved")).unwrap();
    let told = "clean: files beside the arrays, which are none: moved, new";
    assert_eq!(state("old.nc"), told);
    let logged = among.logged();
    for name in ["new", "moved"] {
        let line = format!("old.nc: {name} is a file beside its arrays, and none of them");
        assert_eq!(logged.matches(&line).count(), 1, "{logged}");
    }
    for path in [place.join("old.nc"), place.stored("old.nc")] {
        let told = arrayfs([Path::new("info"), &path]).success();
        assert!(
            told.text().contains("beside: a file in its directory"),
            "{told:?}"
        );
        let told = arrayfs(["info".as_ref(), "--json".as_ref(), path.as_os_str()]).success();
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!(told["beside"], serde_json::json!(["moved", "new"]));
    }
    std::fs::remove_file(place.join("old.nc/new")).unwrap();
    std::fs::remove_file(place.join("old.nc/moved")).unwrap();
    assert_eq!(state("old.nc"), "clean");
}

/// A copy would have lost its type, and the array have come back.
#[test]
fn an_array_is_not_renamed_and_one_that_was_removed_is_told() {
    let source = scratch_directory();
    Bloscpack::default().write(&source.path().join("x.blp"), b"content!");
    let place = Place::over(source, &[]);
    let said = tried(place.path(), "mv x.blp/data x.blp/other", &[]);
    assert!(
        said.code() != Some(0) && said.stderr.contains("not permitted"),
        "{said:?}"
    );
    let said = tried(place.path(), "mv x.blp/data data", &[]);
    assert!(said.code() != Some(0), "{said:?}");
    assert!(!place.join("data").exists());
    assert_content(&place.join("x.blp/data"), b"content!");
    std::fs::remove_file(place.join("x.blp/data")).unwrap();
    let state = xattr(&place.join("x.blp"), "user.arrayfs.state").unwrap();
    assert_eq!(
        state,
        "clean: removed by themselves, back when the mount ends: data"
    );
}

/// The hidden directories in which such files lie are nobody's business.
#[test]
fn the_log_names_the_container_and_what_it_shows() {
    let among = Among::new();
    let place = &among.place;
    std::fs::write(place.join("wrong.json"), r#"{"arrays": [], "chunk": 1}"#).unwrap();
    let said = tried(
        place.path(),
        "mkdir new.h5; cp wrong.json new.h5/arrays.json",
        &[],
    );
    assert_eq!(said.code(), Some(1), "{said:?}");
    std::fs::write(place.join("old.h5/notes"), "notes").unwrap();
    let name = "user.arrayfs.shape";
    let set = rustix::fs::setxattr(
        place.join("old.h5/notes"),
        name,
        b"[x",
        rustix::fs::XattrFlags::empty(),
    );
    assert_eq!(set, Err(rustix::io::Errno::INVAL));
    let logged = among.logged();
    for line in [
        "/new.h5: arrays.json: there is no key chunk",
        "/old.h5: notes: user.arrayfs.shape",
    ] {
        assert!(logged.contains(line), "{line}: {logged}");
    }
    assert!(!logged.contains(".arrayfs-"), "{logged}");
}
