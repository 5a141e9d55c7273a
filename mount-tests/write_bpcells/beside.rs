//! What lies and happens beside the arrays of a container: files of others, temporary files that
//! become arrays, and what becomes of what is staged when the container itself goes.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::raw::Raw;
use super::{assert_stored, contents, cp, errno, names, open, ours, place_with, rewrite};
use super::{state, wait_staged, wait_stored};
use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::reads::assert_content;
use crate::harness::seeded::Seeded;
use crate::harness::tools::{shell, tools};
use crate::harness::wait_until;

fn matrix(seed: u64) -> Raw {
    let mut random = Seeded::new(seed);
    Raw::matrix("packed-uint-matrix-v2", &mut random, [400, 30], 2000)
}

fn longer(raw: &Raw) -> Raw {
    let val = raw.changed("val", |val| val.push(9));
    raw.clone().with("val", val)
}

/// What of a container's directory is not part of it.
fn others(container: &Path, raw: &Raw) -> Vec<String> {
    let of_format = ["_data", "_idx", "_idx_offsets", "_starts"];
    let is_part = |name: &str| {
        let of_array = |array: &&str| {
            let rest = name.strip_prefix(array);
            rest.is_some_and(|rest| rest.is_empty() || of_format.contains(&rest))
        };
        raw.names().iter().any(of_array) || name == "end_max"
    };
    let names = names(container).into_iter();
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !is_part(name));
    names.sort();
    names
}

#[test]
fn files_of_others_stay_and_are_ordinary_files() {
    let raw = matrix(1);
    let place = place_with(&[("m", &raw)]);
    let (shown, stored) = (place.join("m"), place.stored("m"));
    std::fs::write(stored.join("notes"), "notes").unwrap();
    std::fs::create_dir(stored.join("figures")).unwrap();
    std::fs::write(stored.join("figures/one"), "one").unwrap();
    let inode = stored.join("notes").metadata().unwrap().ino();
    wait_until("they are shown", || shown.join("figures/one").exists());
    let script = "printf made > made; mkdir dir; printf deep > dir/deep; printf more >> notes
        mv made renamed; mv dir/deep deep; rmdir dir; printf x > gone; rm gone; ln -s notes link";
    shell(&shown, script, &[]);
    // With commits in between.
    let val = raw.changed("val", |val| val[7] = 1 << 20);
    let once = raw.with("val", val);
    cp(once.get("val"), &shown.join("val")).success();
    assert_stored(&stored, &once);
    let twice = matrix(2);
    for name in ["val", "index", "idxptr"] {
        cp(twice.get(name), &shown.join(name)).success();
    }
    assert_stored(&stored, &twice);
    let all = ["deep", "figures", "link", "notes", "renamed"];
    assert_eq!(others(&stored, &twice), all);
    for (name, content) in [
        ("notes", "notesmore"),
        ("figures/one", "one"),
        ("renamed", "made"),
        ("deep", "deep"),
        ("link", "notesmore"),
    ] {
        assert_content(&stored.join(name), content.as_bytes());
        assert_content(&shown.join(name), content.as_bytes());
    }
    assert_eq!(stored.join("notes").metadata().unwrap().ino(), inode);
}

#[test]
fn names_of_the_container_s_own_files_cannot_be_taken() {
    let raw = matrix(3);
    let place = place_with(&[("m", &raw)]);
    let before = contents(&place.stored("m"));
    for name in [
        "val_data",
        "index_idx",
        "index_starts",
        "val_idx_offsets",
        ".version.arrayfs-stage",
        ".val_data.arrayfs-new",
    ] {
        let path = place.join("m").join(name);
        assert_eq!(errno(File::create_new(&path)), Some(libc::EPERM), "{name}");
        assert_eq!(
            errno(std::fs::create_dir(&path)),
            Some(libc::EPERM),
            "{name}"
        );
        std::fs::write(place.join("m/other"), "other").unwrap();
        let renamed = errno(std::fs::rename(place.join("m/other"), &path));
        assert_eq!(renamed, Some(libc::EPERM), "{name}");
        std::fs::remove_file(place.join("m/other")).unwrap();
        assert!(!path.exists(), "{name} is shown");
    }
    assert!(contents(&place.stored("m")) == before);
}

#[test]
fn a_temporary_file_becomes_an_array() {
    let (raw, to) = (matrix(4), matrix(5));
    let place = place_with(&[("m", &raw)]);
    let (shown, stored) = (place.join("m"), place.stored("m"));
    // In the container's directory, and from elsewhere in the mount.
    let mut now = raw.clone();
    for (number, name) in ["idxptr", "val", "index"].into_iter().enumerate() {
        let temporary = match number % 2 {
            0 => shown.join(format!(".{name}.new")),
            _ => place.join("temporary"),
        };
        std::fs::write(&temporary, to.get(name)).unwrap();
        std::fs::rename(&temporary, shown.join(name)).unwrap();
        assert!(!temporary.exists());
        now.set(name, to.get(name).to_vec());
        now.assert_shown(&shown);
        match now.is_consistent() {
            true => wait_stored(&stored, &now),
            false => drop(wait_staged(&shown)),
        }
    }
    assert_stored(&stored, &to);
    assert_eq!(others(&stored, &to), [""; 0]);
    // One that holds what the array cannot: refused, or staged; never committed.
    let before = contents(&stored);
    std::fs::write(shown.join("temporary"), "without a line end").unwrap();
    let renamed = std::fs::rename(shown.join("temporary"), shown.join("storage_order"));
    if renamed.is_ok() {
        wait_staged(&shown);
    }
    let _ = std::fs::remove_file(shown.join("temporary"));
    assert!(contents(&stored) == before);
    cp(b"col\n", &shown.join("storage_order")).success();
    assert_stored(&stored, &to);
}

#[test]
fn sed_edits_names_as_it_edits_files() {
    let raw = matrix(6);
    let place = place_with(&[("m", &raw)]);
    let (shown, stored) = (place.join("m"), place.stored("m"));
    shell(&shown, "sed -i s/gene-3/protein-3/ row_names", &[]);
    let text = String::from_utf8(raw.get("row_names").to_vec()).unwrap();
    let text = text.replace("gene-3", "protein-3");
    let expected = raw.clone().with("row_names", text.into_bytes());
    expected.assert_shown(&shown);
    assert_stored(&stored, &expected);
    // A name less: staged until there is one again.
    shell(&shown, "sed -i 1d row_names", &[]);
    assert!(wait_staged(&shown).contains("row_names"));
    shell(&shown, "sed -i '1i another' row_names", &[]);
    let (_, rest) = std::str::from_utf8(expected.get("row_names"))
        .unwrap()
        .split_once('\n')
        .unwrap();
    let expected = expected
        .clone()
        .with("row_names", format!("another\n{rest}").into_bytes());
    assert_stored(&stored, &expected);
    assert_eq!(others(&stored, &expected), [""; 0]);
}

#[test]
fn rsync_writes_one_array() {
    if !tools(&["rsync"]) {
        return;
    }
    let raw = matrix(7);
    let place = place_with(&[("m", &raw)]);
    let from = crate::harness::scratch_directory();
    for (number, options) in ["", "--inplace", "-t", "-a --no-o --no-g"]
        .iter()
        .enumerate()
    {
        let val = raw.changed("val", |val| {
            val[number * 100..][..200].fill(3 + number as u64)
        });
        let expected = raw.clone().with("val", val);
        std::fs::write(from.path().join("val"), expected.get("val")).unwrap();
        let script = format!("rsync --ignore-times {options} $1/val m/");
        shell(place.path(), &script, &[from.path()]);
        expected.assert_shown(&place.join("m"));
        assert_stored(&place.stored("m"), &expected);
        assert_eq!(others(&place.stored("m"), &raw), [""; 0], "{options}");
    }
}

/// The source is the container: its log and new files lie in it as well.
#[test]
fn a_container_that_is_the_source_itself_is_written() {
    let mut random = Seeded::new(8);
    let mut of_matrix = |entries| {
        let version = "packed-uint-matrix-v2";
        Raw::matrix(version, &mut random, [400, entries / 100], entries)
    };
    let of_matrix = [of_matrix(2000), of_matrix(700)];
    let mut of_fragments =
        |size| Raw::fragments("unpacked-fragments-v2", &mut random, &[size, 1, size]);
    let of_fragments = [of_fragments(200), of_fragments(500)];
    for [raw, to] in [of_matrix, of_fragments] {
        let (mounted, source) = place_with(&[("m", &raw)]).into_parts();
        drop(mounted);
        let container = source.path().join("m");
        std::fs::write(container.join("notes"), "notes").unwrap();
        let mounted = Mounted::new(&container, &["rw"]);
        // The first array is left for the next mount.
        let (first, rest) = to.names().split_first().unwrap();
        let mut now = raw.clone();
        for name in rest {
            cp(to.get(name), &mounted.join(name)).success();
            now.set(name, to.get(name).to_vec());
        }
        now.assert_shown(mounted.path());
        assert!(!now.is_consistent());
        wait_staged(mounted.path());
        drop(mounted);
        let mounted = Mounted::new(&container, &["rw"]);
        now.assert_shown(mounted.path());
        cp(to.get(first), &mounted.join(first)).success();
        assert_stored(&container, &to);
        to.assert_shown(mounted.path());
        assert_content(&mounted.join("notes"), b"notes");
        let file = open(&mounted.join(first));
        rewrite(&file, to.get(first));
        drop(file);
        drop(mounted);
        assert_stored(&container, &to);
        assert_eq!(others(&container, &to), ["notes"]);
        assert_eq!(names(source.path()).len(), 1);
    }
}

#[test]
fn what_is_removed_takes_along_what_was_staged() {
    let raw = matrix(9);
    let place = place_with(&[("m", &raw)]);
    let longer = longer(&raw);
    cp(longer.get("val"), &place.join("m/val")).success();
    wait_staged(&place.join("m"));
    let file = open(&place.join("m/val"));
    file.sync_all().unwrap();
    drop(file);
    std::fs::write(place.join("m/notes"), "notes").unwrap();
    shell(place.path(), "rm -r m", &[]);
    assert!(!place.join("m").exists());
    wait_until("nothing is left of it", || names(place.source()).is_empty());
    // Half of it removed, it is there again in the next mount.
    let place = place_with(&[("m", &raw)]);
    shell(place.path(), "rm m/val m/shape", &[]);
    assert!(!place.join("m/val").exists());
    let (mounted, source) = place.into_parts();
    drop(mounted);
    let place = Place::over(source, &[]);
    raw.assert_shown(&place.join("m"));
    assert_stored(&place.stored("m"), &raw);
}

#[test]
fn what_is_renamed_takes_along_what_was_staged() {
    let (raw, other) = (matrix(10), matrix(11));
    let place = place_with(&[("m", &raw), ("o", &other)]);
    let now = longer(&raw);
    cp(now.get("val"), &place.join("m/val")).success();
    wait_staged(&place.join("m"));
    let script = "mv m n; test ! -e m; mkdir d; mv n d; mv -T d/n o";
    shell(place.path(), script, &[]);
    now.assert_shown(&place.join("o"));
    assert!(state(&place.join("o")).contains("val"));
    let index = raw.changed("index", |index| index.push(399));
    let one_more = |idxptr: &mut Vec<u64>| *idxptr.last_mut().unwrap() += 1;
    let idxptr = raw.changed("idxptr", one_more);
    let after = now.with("index", index).with("idxptr", idxptr);
    for name in ["index", "idxptr"] {
        cp(after.get(name), &place.join("o").join(name)).success();
    }
    assert_stored(&place.stored("o"), &after);
    wait_until("nothing is left", || names(place.source()).len() == 2);
    assert!(names(&place.stored("d")).is_empty());
}

/// By others, while something is staged: it is not overwritten, and stays in the log.
#[test]
fn a_container_that_others_have_changed_is_not_overwritten() {
    let raw = matrix(12);
    let place = place_with(&[("m", &raw)]);
    let before = contents(&place.stored("m"));
    let nobody_starts = crate::harness::process::nobody_starts();
    let file = open(&place.join("m/val"));
    let val = raw.changed("val", |val| val[0] = 12345);
    rewrite(&file, &val);
    file.sync_all().unwrap();
    // A file takes the place of one of the container's.
    let index = place.stored("m/index_data");
    std::fs::copy(&index, place.stored("copy")).unwrap();
    std::fs::rename(place.stored("copy"), &index).unwrap();
    assert_eq!(errno(file.sync_all()), Some(libc::ESTALE));
    drop((file, nobody_starts));
    let (mounted, source) = place.into_parts();
    drop(mounted);
    let container = source.path().join("m");
    assert_eq!(ours(&container), 1, "the log is kept");
    assert!(contents(&container) == before);
    // The arrays are as long as they were: it can be applied.
    let commit = ["stage", "commit"].map(OsStr::new).into_iter();
    arrayfs(commit.chain([source.path().as_os_str()])).success();
    assert_stored(&container, &raw.clone().with("val", val));
}

/// Before anything of it was in a log: that is made where the container lies by then.
#[test]
fn what_is_staged_goes_with_a_directory_that_is_moved_and_outlives_the_mount() {
    let raw = matrix(20);
    let now = longer(&raw);
    for script in [
        "mv m n",
        "mkdir d; mv m d; mv d e; mv e/m n",
        "mv m o; mv o n",
    ] {
        let place = place_with(&[("m", &raw)]);
        cp(now.get("val"), &place.join("m/val")).success();
        wait_staged(&place.join("m"));
        shell(place.path(), script, &[]);
        let (mounted, source) = place.into_parts();
        drop(mounted);
        let place = Place::over(source, &[]);
        now.assert_shown(&place.join("n"));
        assert!(state(&place.join("n")).contains("val"), "{script}");
    }
}

/// Somebody else has changed the container: nothing new is staged beside what lies in the log.
#[test]
fn what_others_have_changed_is_not_written_before_that_is_settled() {
    let raw = matrix(21);
    let now = longer(&raw);
    let place = place_with(&[("m", &raw)]);
    let nobody_starts = crate::harness::process::nobody_starts();
    let file = open(&place.join("m/val"));
    rewrite(&file, now.get("val"));
    file.sync_all().unwrap();
    drop((file, nobody_starts));
    let touched = File::options().write(true).open(place.stored("m/val_data"));
    let then = std::time::SystemTime::UNIX_EPOCH;
    touched.unwrap().set_modified(then).unwrap();
    wait_until("the change is seen", || {
        let opened = File::options().write(true).open(place.join("m/index"));
        errno(opened) == Some(libc::EACCES)
    });
    assert!(state(&place.join("m")).starts_with("staged: "));
    let (mounted, source) = place.into_parts();
    drop(mounted);
    let container = source.path().join("m");
    let commit = ["stage", "commit"].map(OsStr::new).into_iter();
    let told = arrayfs(commit.chain([container.as_os_str()]));
    // It still does not agree with the other arrays.
    assert_eq!(told.code(), Some(1), "{}", told.stderr);
    assert_eq!(ours(&container), 1, "the log is kept");
    let discard = ["stage", "discard"].map(OsStr::new).into_iter();
    arrayfs(discard.chain([container.as_os_str()])).success();
    assert_stored(&container, &raw);
}

/// The mode of an array is its files', and not that of the directory, which others pass.
#[test]
fn the_mode_of_an_array_leaves_the_directory_alone() {
    let raw = matrix(22);
    let place = place_with(&[("m", &raw)]);
    shell(place.path(), "chmod 640 m/val", &[]);
    let mode = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        path.metadata().unwrap().mode() & 0o777
    };
    assert_eq!(mode(&place.stored("m")), 0o755);
    assert_eq!(mode(&place.stored("m/index_data")), 0o640);
    shell(place.path(), "chmod 750 m", &[]);
    assert_eq!(mode(&place.stored("m")), 0o750);
    raw.assert_shown(&place.join("m"));
}
