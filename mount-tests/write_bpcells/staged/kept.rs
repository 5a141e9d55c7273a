//! What is staged survives the mount, a kill, and a copy of the source to another place, and is
//! settled without a mount.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::Signal;
use tempfile::TempDir;

use super::super::raw::Raw;
use super::super::{assert_stored, contents, cp, open, ours, place_with, state, wait_staged};
use super::{fragments, matrix};
use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::{Ran, arrayfs, nobody_starts, send};
use crate::harness::reads::assert_content;
use crate::harness::scratch_directory;
use crate::harness::tools::shell;

/// Containers of which one array each has been written, and what is to be written to bring it to an
/// end.
struct Half {
    before: Raw,
    now: Raw,
    after: Raw,
}

impl Half {
    fn matrix() -> Half {
        let before = matrix("packed-uint-matrix-v2");
        let now = before
            .clone()
            .with("val", before.changed("val", |val| val.push(5)));
        let index = before.changed("index", |index| index.push(499));
        let one_more = |idxptr: &mut Vec<u64>| *idxptr.last_mut().unwrap() += 1;
        let idxptr = before.changed("idxptr", one_more);
        let after = now.clone().with("index", index).with("idxptr", idxptr);
        Half { before, now, after }
    }

    fn fragments() -> Half {
        let before = fragments("unpacked-fragments-v2");
        let cell = before.changed("cell", |cell| cell[100] = 302);
        let now = before.clone().with("cell", cell);
        let names = super::lines("other", 303);
        let after = now.clone().with("cell_names", names);
        Half { before, now, after }
    }

    fn complete(&self, shown: &Path) {
        for name in self.now.names() {
            if self.now.get(name) != self.after.get(name) {
                cp(self.after.get(name), &shown.join(name)).success();
            }
        }
    }
}

fn halves() -> [(&'static str, Half); 2] {
    [("m", Half::matrix()), ("f", Half::fragments())]
}

/// A source in which something is staged, and no mount.
fn left() -> (TempDir, [(&'static str, Half); 2]) {
    let halves = halves();
    let place = place_with(&[("m", &halves[0].1.before), ("f", &halves[1].1.before)]);
    for (name, half) in &halves {
        let (shown, stored) = (place.join(name), place.stored(name));
        let before = contents(&stored);
        let array = if *name == "m" { "val" } else { "cell" };
        cp(half.now.get(array), &shown.join(array)).success();
        wait_staged(&shown);
        half.now.assert_shown(&shown);
        assert!(contents(&stored) == before);
    }
    let (mounted, source) = place.into_parts();
    drop(mounted);
    (source, halves)
}

fn stage(what: &str, path: &Path) -> Ran {
    arrayfs(["stage".as_ref(), what.as_ref(), path.as_os_str()])
}

#[test]
fn it_outlives_the_mount() {
    let (source, halves) = left();
    for (name, _) in &halves {
        assert_eq!(ours(&source.path().join(name)), 1, "the log of {name}");
        let log = source.path().join(name).join(".version.arrayfs-stage");
        assert!(log.exists(), "{name}");
    }
    let place = Place::over(source, &[]);
    for (name, half) in &halves {
        half.now.assert_shown(&place.join(name));
        wait_staged(&place.join(name));
        let hidden = place.join(name).join(".version.arrayfs-stage");
        assert!(!hidden.exists(), "the log is shown");
        half.complete(&place.join(name));
        assert_stored(&place.stored(name), &half.after);
        half.after.assert_shown(&place.join(name));
    }
}

/// The source of a mount whose daemon is killed before these handles are closed.
fn killed<T>(place: Place, open: T) -> TempDir {
    let (mounted, source) = place.into_parts();
    send(mounted.daemon(), Signal::KILL);
    drop(open);
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    source
}

/// As `sync FILE` asks for it.
#[test]
fn what_somebody_else_syncs_outlives_a_kill() {
    let half = Half::matrix();
    for by in ["m/val", "m/index", "m"] {
        let place = place_with(&[("m", &half.before)]);
        cp(half.now.get("val"), &place.join("m/val")).success();
        File::open(place.join(by)).unwrap().sync_all().unwrap();
        let place = Place::over(killed(place, ()), &[]);
        half.now.assert_shown(&place.join("m"));
        wait_staged(&place.join("m"));
    }
}

#[test]
fn what_was_synced_outlives_a_kill() {
    let half = Half::matrix();
    let place = place_with(&[("m", &half.before)]);
    let before = contents(&place.stored("m"));
    let nobody_starts = nobody_starts();
    let file = open(&place.join("m/val"));
    file.write_all_at(half.now.get("val"), 0).unwrap();
    file.sync_all().unwrap();
    let source = killed(place, (file, nobody_starts));
    let container = source.path().join("m");
    assert!(contents(&container) == before);
    // Every command reads through the log.
    let cat = ["cat".as_ref(), container.as_os_str(), OsStr::new("val")];
    assert!(arrayfs(cat).success().stdout == half.now.get("val"));
    let place = Place::over(source, &[]);
    half.now.assert_shown(&place.join("m"));
    wait_staged(&place.join("m"));
    half.complete(&place.join("m"));
    assert_stored(&place.stored("m"), &half.after);
}

/// Nothing is missing, but its handle was never closed: the next mount commits it.
#[test]
fn what_was_synced_and_is_consistent_is_there_after_a_kill() {
    let before = matrix("packed-uint-matrix-v2");
    let after = before.changed("val", |val| val[1000..1300].fill(77));
    let after = before.clone().with("val", after);
    for way in ["mount", "stage commit"] {
        let place = place_with(&[("m", &before)]);
        let nobody_starts = nobody_starts();
        let file = open(&place.join("m/val"));
        file.write_all_at(&after.get("val")[4000..5200], 4000)
            .unwrap();
        file.sync_all().unwrap();
        let source = killed(place, (file, nobody_starts));
        if way == "mount" {
            let mounted = Mounted::new(source.path(), &["rw"]);
            after.assert_shown(&mounted.join("m"));
            drop(mounted);
        } else {
            stage("commit", source.path()).success();
        }
        assert_stored(&source.path().join("m"), &after);
    }
}

#[test]
fn a_mount_that_writes_nothing_reads_through_the_log() {
    let (source, halves) = left();
    let before: Vec<_> = halves
        .iter()
        .map(|(name, _)| contents(&source.path().join(name)))
        .collect();
    let mounted = Mounted::new(source.path(), &["ro"]);
    for (name, half) in &halves {
        half.now.assert_shown(&mounted.join(name));
        let told = state(&mounted.join(name));
        assert!(told.starts_with("staged: "), "{name}: {told}");
    }
    drop(mounted);
    for ((name, _), before) in halves.iter().zip(before) {
        let container = source.path().join(name);
        assert!(contents(&container) == before, "{name}");
        assert_eq!(ours(&container), 1, "the log of {name}");
    }
}

#[test]
fn it_is_settled_without_a_mount() {
    let (source, halves) = left();
    let listed = stage("ls", source.path()).success().text();
    for (name, half) in &halves {
        let of_it = |line: &str| line.contains(&format!("/{name}"));
        assert!(listed.lines().any(of_it), "{name} is not in: {listed}");
        let container = source.path().join(name);
        let array = if half.now.is_matrix() { "val" } else { "cell" };
        stage("commit", &container).failed_saying(1, &[name, array]);
        assert_eq!(ours(&container), 1, "what cannot be committed is kept");
        stage("discard", &container).success();
        assert_stored(&container, &half.before);
    }
    let left = stage("ls", source.path()).success().text();
    assert_eq!(left, "nothing staged\n");
    let mounted = Mounted::new(source.path(), &["rw"]);
    for (name, half) in &halves {
        half.before.assert_shown(&mounted.join(name));
        assert!(!state(&mounted.join(name)).contains("staged"));
    }
}

/// The log goes along; what is done there changes nothing here.
#[test]
fn it_goes_along_when_the_source_is_copied() {
    let (source, halves) = left();
    let directory = scratch_directory();
    let (one, two) = (directory.path().join("one"), directory.path().join("two"));
    let copy = "cp -a $1 $2; cp -a $1 $3";
    shell(directory.path(), copy, &[source.path(), &one, &two]);
    let mounted = Mounted::new(&one, &["rw"]);
    for (name, half) in &halves {
        half.now.assert_shown(&mounted.join(name));
        wait_staged(&mounted.join(name));
        half.complete(&mounted.join(name));
        assert_stored(&one.join(name), &half.after);
    }
    drop(mounted);
    for (name, half) in &halves {
        stage("discard", &two.join(name)).success();
        assert_stored(&two.join(name), &half.before);
    }
    let place = Place::over(source, &[]);
    for (name, half) in &halves {
        half.now.assert_shown(&place.join(name));
    }
}

/// What only has to be applied is applied there as well.
#[test]
fn a_copy_of_the_source_is_committed_by_itself() {
    let before = matrix("unpacked-float-matrix-v2");
    let val = before.changed("val", |val| val[5] = 0x7fc0_0001);
    let after = before.clone().with("val", val);
    let place = place_with(&[("m", &before)]);
    let directory = scratch_directory();
    let copy = directory.path().join("copy");
    let nobody_starts = nobody_starts();
    let file = open(&place.join("m/val"));
    file.write_all_at(after.get("val"), 0).unwrap();
    file.sync_all().unwrap();
    let (mounted, source) = place.into_parts();
    send(mounted.daemon(), Signal::KILL);
    drop((file, nobody_starts));
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    shell(directory.path(), "cp -a $1 $2", &[source.path(), &copy]);
    stage("commit", &copy).success();
    assert_stored(&copy.join("m"), &after);
    let stored = source.path().join("m/val");
    assert_content(&stored, &[b"FLOATSv1", before.get("val")].concat());
}
