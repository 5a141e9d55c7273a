//! New containers: `mkdir x.bpcells`, filled by programs that write arrays and by those that copy
//! directories, and what the source holds then.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::raw::{Raw, VERSIONS};
use super::{
    assert_stored, contents, copy_corpus, encode, errno, judge, names, open, oracle, ours,
    place_with,
};
use super::{state, wait_stored};
use crate::harness::depth::some_of;
use crate::harness::mounted::Mounted;
use crate::harness::place::{Place, open_directory};
use crate::harness::process::{arrayfs, nobody_starts, send};
use crate::harness::reads::assert_content;
use crate::harness::seeded::Seeded;
use crate::harness::tools::{shell, tools};
use crate::harness::{scratch_directory, wait_until};

fn sync(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Nothing in it is new any more. Nobody waits for quiet: it is packed when its directory is
/// synced.
pub(super) fn wait_packed(place: &Place, name: &str) {
    wait_until(&format!("{name} is packed"), || {
        let _not_yet = sync(&place.join(name));
        let said = state(&place.join(name));
        ours(&place.stored(name)) == 0 && !said.starts_with("staged: ")
    });
}

/// Without anything in it it is a whole container, of the usual kind.
fn assert_empty(container: &Path) {
    let version = std::fs::read(container.join("version")).unwrap();
    assert_eq!(version, b"packed-uint-matrix-v2\n");
    let decoded = scratch_directory();
    let raw = decoded.path().join("raw");
    oracle("decode", &[(container.to_owned(), raw.clone())]);
    let raw = Raw::shown(&raw);
    assert_eq!(raw.numbers("shape"), [0, 0]);
    assert!(raw.get("val").is_empty() && raw.is_consistent());
    judge(&[(container.to_owned(), &raw)]);
}

#[test]
fn it_is_a_whole_container_at_once_and_waits_for_its_arrays() {
    let mut place = Place::mounted(&["settle=1"]);
    std::fs::create_dir(place.join("x.bpcells")).unwrap();
    let stored = place.stored("x.bpcells");
    let again = std::fs::create_dir(place.join("x.bpcells"));
    assert_eq!(errno(again), Some(libc::EEXIST));
    for mounts in 0..2 {
        assert_empty(&stored);
        assert_eq!(state(&place.join("x.bpcells")), "clean", "{mounts}");
        assert!(names(&place.join("x.bpcells")).is_empty(), "{mounts}");
        place.mount_again();
    }
    let mut random = Seeded::new(1);
    let raw = Raw::matrix("packed-uint-matrix-v2", &mut random, [20, 5], 60);
    for name in &raw.names()[..6] {
        std::fs::write(place.join("x.bpcells").join(name), raw.get(name)).unwrap();
    }
    wait_packed(&place, "x.bpcells");
    assert_stored(&stored, &raw);
}

#[test]
fn arrays_alone_make_a_packed_matrix_of_counts_by_columns() {
    let place = Place::mounted(&[]);
    let mut random = Seeded::new(2);
    let raw = Raw::matrix("packed-uint-matrix-v2", &mut random, [500, 70], 4000);
    let raw = raw.with("row_names", Vec::new());
    std::fs::create_dir(place.join("x.bpcells")).unwrap();
    for name in ["val", "index", "idxptr", "shape"] {
        std::fs::write(place.join("x.bpcells").join(name), raw.get(name)).unwrap();
    }
    wait_packed(&place, "x.bpcells");
    assert_stored(&place.stored("x.bpcells"), &raw);
    raw.assert_shown(&place.join("x.bpcells"));
}

#[test]
fn syncing_its_directory_packs_it_as_the_kind_that_its_version_says() {
    let place = Place::mounted(&[]);
    let mut random = Seeded::new(3);
    let raws: Vec<Raw> = (0..2)
        .flat_map(|_| VERSIONS)
        .map(|version| Raw::random(version, &mut random))
        .collect();
    let name = |number: usize| format!("{number}.bpcells");
    for (number, raw) in raws.iter().enumerate() {
        let directory = place.join(name(number));
        // A copy of a handle that a program of another test has keeps it new.
        let _nobody_starts = nobody_starts();
        std::fs::create_dir(&directory).unwrap();
        raw.write_into(&directory);
        if !raw.is_matrix() {
            // What follows from other arrays is taken, and dropped.
            std::fs::write(directory.join("end_max"), [7; 4]).unwrap();
        }
        sync(&directory).unwrap_or_else(|e| panic!("{}: {e}", raw.version()));
        assert_eq!(ours(&place.stored(name(number))), 0, "{}", raw.version());
        raw.assert_shown(&directory);
    }
    let stored = |(number, raw)| (place.stored(name(number)), raw);
    judge(&raws.iter().enumerate().map(stored).collect::<Vec<_>>());
}

/// Containers of the corpus and of every kind, as a writer makes them.
fn containers(below: &Path) -> Vec<PathBuf> {
    std::fs::create_dir(below).unwrap();
    copy_corpus(below);
    let mut random = Seeded::new(4);
    let raws = VERSIONS.map(|version| Raw::random(version, &mut random));
    let at = |raw: &Raw| below.join(raw.version());
    encode(&raws.iter().map(|raw| (at(raw), raw)).collect::<Vec<_>>());
    let mut paths: Vec<PathBuf> = names(below).iter().map(|name| below.join(name)).collect();
    paths.sort();
    assert!(paths.len() > 50, "{} containers", paths.len());
    paths
}

/// A program copies one of so many containers.
const ONE_OF: u64 = 4;

/// Leaves a part of the containers.
fn sample(containers: &mut Vec<PathBuf>, way: u64) {
    let stay = some_of(containers.clone(), ONE_OF, way);
    containers.retain(|path| {
        let stays = stay.contains(path);
        if !stays {
            std::fs::remove_dir_all(path).unwrap();
        }
        stays
    });
}

/// Copies with a script of `sh`: from `$1`, where containers or directories of raw arrays lie, to
/// `to/NAME.bpcells`. `way`: copies others than other tests.
fn copy_with(script: &str, from_outside: bool, way: u64) {
    let source = open_directory();
    let mut containers = containers(&source.path().join("from"));
    sample(&mut containers, way);
    std::fs::create_dir(source.path().join("to")).unwrap();
    let place = Place::over(source, &["settle=600000"]);
    let outside = scratch_directory();
    if from_outside {
        let own = |path: &PathBuf| outside.path().join(path.file_name().unwrap());
        let pair = |path: &PathBuf| (path.clone(), own(path));
        oracle("decode", &containers.iter().map(pair).collect::<Vec<_>>());
    }
    let from = if from_outside {
        outside.path().to_owned()
    } else {
        place.join("from")
    };
    shell(place.path(), script, &[&from]);
    let mut expected = Vec::new();
    for container in &containers {
        let name = container.file_name().unwrap().to_str().unwrap();
        let to = format!("to/{name}.bpcells");
        let raw = Raw::shown(&place.join("from").join(name));
        wait_packed(&place, &to);
        raw.assert_shown(&place.join(&to));
        let (stored, original) = (contents(&place.stored(&to)), contents(container));
        assert!(stored.keys().eq(original.keys()), "{name}: other files");
        for (file, content) in &stored {
            assert!(*content == original[file], "{name}: {}", file.display());
        }
        expected.push((place.stored(&to), raw));
    }
    let expected: Vec<_> = expected
        .iter()
        .map(|(path, raw)| (path.clone(), raw))
        .collect();
    judge(&expected);
}

#[test]
fn cp_copies_containers_of_every_kind() {
    let script = "for one in $1/*; do cp -r $one to/${one##*/}.bpcells; done";
    copy_with(script, false, 0);
}

#[test]
fn rsync_copies_containers_of_every_kind() {
    if tools(&["rsync"]) {
        let script = "for one in $1/*; do rsync -a $one/ to/${one##*/}.bpcells/; done";
        copy_with(script, false, 1);
    }
}

#[test]
fn tar_unpacks_containers_of_every_kind() {
    let script = "for one in $1/*; do
            mkdir to/${one##*/}.bpcells
            tar -C $one -cf - . | tar -C to/${one##*/}.bpcells -xf -
        done";
    copy_with(script, false, 2);
}

#[test]
fn directories_of_raw_arrays_become_containers() {
    let script = "for one in $1/*; do cp -r $one to/${one##*/}.bpcells; done";
    copy_with(script, true, 3);
}

#[test]
fn raw_arrays_that_are_copied_one_by_one_become_containers() {
    let script = "for one in $1/*; do
            mkdir to/${one##*/}.bpcells
            cp $one/* to/${one##*/}.bpcells
        done";
    copy_with(script, true, 1);
}

#[test]
fn what_is_not_complete_stays_new_and_says_why() {
    let place = Place::mounted(&[]);
    let mut random = Seeded::new(5);
    for version in ["packed-uint-matrix-v2", "unpacked-fragments-v2"] {
        let raw = match version.contains("matrix") {
            true => Raw::matrix(version, &mut random, [50, 20], 300),
            false => Raw::fragments(version, &mut random, &[100, 200]),
        };
        let (shown, stored) = (place.join("x.bpcells"), place.stored("x.bpcells"));
        let nobody_starts = nobody_starts();
        std::fs::create_dir(&shown).unwrap();
        std::fs::write(shown.join("version"), raw.get("version")).unwrap();
        let (last, first) = match raw.is_matrix() {
            true => ("idxptr", ["val", "index", "shape"]),
            false => ("chr_ptr", ["cell", "start", "end"]),
        };
        for name in first {
            std::fs::write(shown.join(name), raw.get(name)).unwrap();
        }
        assert_eq!(errno(sync(&shown)), Some(libc::EINVAL));
        drop(nobody_starts);
        wait_until("it says what is missing", || state(&shown).contains(last));
        assert!(state(&shown).starts_with("staged: "));
        assert_empty(&stored);
        // It is still new: as it was written, and anything can be put beside it.
        for name in first {
            assert_content(&shown.join(name), raw.get(name));
        }
        raw.write_into(&shown);
        wait_packed(&place, "x.bpcells");
        assert_stored(&stored, &raw);
        shell(place.path(), "rm -r x.bpcells", &[]);
        wait_until("nothing is left", || names(place.source()).is_empty());
    }
}

/// With lengths that do not fit, as with what is missing.
#[test]
fn what_does_not_fit_stays_new_and_outlives_the_mount() {
    let mut random = Seeded::new(6);
    let raw = Raw::matrix("packed-uint-matrix-v2", &mut random, [50, 20], 300);
    let place = Place::mounted(&[]);
    std::fs::create_dir(place.join("x.bpcells")).unwrap();
    let short = raw.changed("val", |val| val.truncate(299));
    let broken = raw.clone().with("val", short.clone());
    let nobody_starts = nobody_starts();
    broken.write_into(&place.join("x.bpcells"));
    assert_eq!(errno(sync(&place.join("x.bpcells"))), Some(libc::EINVAL));
    drop(nobody_starts);
    let (mounted, source) = place.into_parts();
    drop(mounted);
    let container = source.path().join("x.bpcells");
    assert_empty(&container);
    let stage = |what: &str| arrayfs([OsStr::new("stage"), what.as_ref(), container.as_os_str()]);
    let listed = stage("ls").success().text();
    assert!(listed.contains("new, not packed yet"), "{listed}");
    stage("commit").failed_saying(1, &["val"]);
    let place = Place::over(source, &[]);
    assert_content(&place.join("x.bpcells/val"), &short);
    std::fs::write(place.join("x.bpcells/val"), raw.get("val")).unwrap();
    wait_packed(&place, "x.bpcells");
    assert_stored(&place.stored("x.bpcells"), &raw);
}

#[test]
fn the_end_of_the_mount_packs_it() {
    let mut random = Seeded::new(7);
    let raw = Raw::fragments("packed-fragments-v2", &mut random, &[100, 28, 300]);
    for signal in [None, Some(Signal::TERM)] {
        let source = scratch_directory();
        let mounted = Mounted::new(source.path(), &["rw"]);
        for name in ["x.bpcells", "empty.bpcells"] {
            std::fs::create_dir(mounted.join(name)).unwrap();
        }
        raw.write_into(&mounted.join("x.bpcells"));
        match signal {
            Some(signal) => {
                send(mounted.daemon(), signal);
                mounted.assert_ends();
            }
            None => drop(mounted),
        }
        assert_stored(&source.path().join("x.bpcells"), &raw);
        assert_empty(&source.path().join("empty.bpcells"));
        let left = [
            "empty.bpcells",
            "x.bpcells",
            ".empty.bpcells.arrayfs-drafts",
        ];
        let mut found = names(source.path());
        found.sort();
        assert_eq!(found, [left[2], left[0], left[1]]);
    }
}

#[test]
fn after_a_kill_the_next_mount_goes_on_with_it() {
    let mut random = Seeded::new(8);
    let raw = Raw::matrix("packed-double-matrix-v2", &mut random, [50, 20], 300);
    let source = open_directory();
    let mounted = Mounted::new(source.path(), &["rw"]);
    let directory = mounted.join("x.bpcells");
    std::fs::create_dir(&directory).unwrap();
    raw.write_into(&directory);
    // One that is open keeps it new.
    let files = raw.names().iter().map(|name| open(&directory.join(name)));
    let files: Vec<File> = files.collect();
    files.iter().for_each(|file| file.sync_all().unwrap());
    send(mounted.daemon(), Signal::KILL);
    drop(files);
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    // Without a mount it is the empty container.
    assert_empty(&source.path().join("x.bpcells"));
    let place = Place::over(source, &[]);
    raw.assert_shown(&place.join("x.bpcells"));
    wait_packed(&place, "x.bpcells");
    assert_stored(&place.stored("x.bpcells"), &raw);
}

#[test]
fn it_is_renamed_as_what_it_will_be_and_removed_as_a_directory() {
    let mut random = Seeded::new(9);
    let old = Raw::random("unpacked-uint-matrix-v2", &mut random);
    let raw = Raw::matrix("packed-uint-matrix-v2", &mut random, [50, 20], 300);
    let place = place_with(&[("old.bpcells", &old)]);
    let from = scratch_directory();
    raw.write_into(from.path());
    let script = "mkdir x.bpcells; cp $1/* x.bpcells; mv x.bpcells y; test ! -e x.bpcells
        mkdir x.bpcells; cp $1/* x.bpcells; mv -T x.bpcells old.bpcells
        mkdir x.bpcells; rmdir x.bpcells; mkdir x.bpcells; cp $1/* x.bpcells; rm -r x.bpcells";
    shell(place.path(), script, &[from.path()]);
    for name in ["y", "old.bpcells"] {
        wait_packed(&place, name);
        wait_stored(&place.stored(name), &raw);
        raw.assert_shown(&place.join(name));
    }
    judge(&["y", "old.bpcells"].map(|name| (place.stored(name), &raw)));
    wait_until("nothing else is left", || names(place.source()).len() == 2);
}
