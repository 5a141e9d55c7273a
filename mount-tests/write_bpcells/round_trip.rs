//! Containers of every kind, changed at random through a mount: a second implementation of the
//! format and the real library read exactly what was written, every file is what a writer would
//! have made of it, and those that need not change have not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::raw::Raw;
use super::{assert_stored, copy_corpus, cp, errno, is_staged, judge, members, open, oracle, ours};
use super::{place_with, rewrite, written_raw};
use crate::harness::depth::some_of;
use crate::harness::mounted::Mounted;
use crate::harness::process::{nobody_starts, run};
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::{Seeded, run_seed};
use crate::harness::{scratch_directory, wait_until};

fn directories(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

/// The good ones of the corpus.
fn corpus() -> TempDir {
    let source = scratch_directory();
    copy_corpus(source.path());
    source
}

/// Others of every kind and corner.
fn made() -> TempDir {
    let source = scratch_directory();
    let seed = run_seed().to_string();
    let arguments = [Path::new("make"), Path::new(&seed), source.path()];
    script("oracle_bpcells.py", arguments).success();
    source
}

/// Some numbers of an array become others, each below a limit.
fn some_others(raw: &mut Raw, random: &mut Seeded, name: &'static str, limit: u64) {
    let mut numbers = raw.numbers(name);
    for _ in 0..random.below(5).min(numbers.len()) {
        let at = random.below(numbers.len());
        numbers[at] = random.next() % limit;
    }
    raw.set_numbers(name, &numbers);
}

/// What keeps to the rules: other values, other rows, other names, or all arrays with other
/// lengths.
fn changed(before: &Raw, random: &mut Seeded) -> Raw {
    let mut raw = before.clone();
    match (random.below(5), raw.is_matrix()) {
        (0, true) => some_others(&mut raw, random, "val", u64::MAX),
        (1, true) => {
            let shape = raw.numbers("shape");
            let by_columns = raw.get("storage_order") == b"col\n";
            let minor = if by_columns { shape[0] } else { shape[1] };
            some_others(&mut raw, random, "index", minor.max(1));
            some_others(&mut raw, random, "val", 300);
        }
        (0, false) => some_others(&mut raw, random, "end", 1 << 32),
        (1, false) => {
            let cells = raw.count_lines("cell_names") as u64;
            some_others(&mut raw, random, "cell", cells.max(1));
            let starts = raw.numbers("start");
            let moved: Vec<u64> = starts.iter().map(|start| start / 2).collect();
            raw.set_numbers("start", &moved);
        }
        (2, is_matrix) => {
            let names = if is_matrix { "col_names" } else { "cell_names" };
            let text = String::from_utf8(raw.get(names).to_vec()).unwrap();
            let longer = |line: &str| format!("{line}+{}\n", random.below(1000));
            let text: String = text.lines().map(longer).collect();
            raw.set(names, text.into_bytes());
        }
        _ => raw = Raw::random(before.version(), random),
    }
    raw
}

/// Through a handle for each array that changes, all of them open at once: the first close commits.
fn write_changes(directory: &Path, before: &Raw, after: &Raw, random: &mut Seeded) {
    let differs = |name: &&&str| before.get(name) != after.get(name);
    let mut names: Vec<&str> = before.names().iter().filter(differs).copied().collect();
    for at in (1..names.len()).rev() {
        names.swap(at, random.below(at + 1));
    }
    // A program that another test starts would close its copies of some handles before everything
    // is written.
    let nobody_starts = nobody_starts();
    let files: Vec<_> = names
        .iter()
        .map(|name| open(&directory.join(name)))
        .collect();
    for (name, file) in names.iter().zip(&files) {
        let (old, new) = (before.get(name), after.get(name));
        if old.len() != new.len() || random.below(2) == 0 {
            rewrite(file, new);
            continue;
        }
        // Only what differs, the second half of it first.
        let same = |(a, b): (&u8, &u8)| a == b;
        let from = old.iter().zip(new).take_while(|&pair| same(pair)).count();
        let behind = old.iter().zip(new).rev().take_while(|&pair| same(pair));
        let to = new.len() - behind.count();
        let middle = from + (to - from) / 2;
        for range in [middle..to, from..middle] {
            let at = range.start as u64;
            file.write_all_at(&new[range], at).unwrap();
        }
    }
    drop((files, nobody_starts));
}

/// Half of them, each way others.
fn change_all(source: &TempDir, (least, way): (usize, u64), options: &[&str]) {
    let containers = directories(source.path());
    assert!(containers.len() >= least, "{} containers", containers.len());
    let containers = some_of(containers, 2, way);
    let mut random = Seeded::new(least as u64);
    let mounted = Mounted::new(source.path(), options);
    let (mut files, mut expected) = (Vec::new(), Vec::new());
    for container in &containers {
        let shown = mounted.join(container.file_name().unwrap());
        let before = Raw::shown(&shown);
        assert!(before.is_consistent(), "{}", container.display());
        let after = changed(&before, &mut random);
        assert!(after.is_consistent(), "{}", container.display());
        files.push(members(container));
        write_changes(&shown, &before, &after, &mut random);
        wait_until("it is committed", || !is_staged(&shown));
        after.assert_shown(&shown);
        expected.push(after);
    }
    drop(mounted);
    let pairs: Vec<_> = containers.iter().cloned().zip(&expected).collect();
    judge(&pairs);
    assert_only_what_differs_is_new(&containers, &files);
    ask_the_library(&pairs);
    let mounted = Mounted::new(source.path(), &["ro"]);
    for (container, raw) in &pairs {
        raw.assert_shown(&mounted.join(container.file_name().unwrap()));
    }
}

type Files = BTreeMap<OsString, (u64, Vec<u8>)>;

fn assert_only_what_differs_is_new(containers: &[PathBuf], before: &[Files]) {
    let mut replaced = 0;
    for (container, before) in containers.iter().zip(before) {
        let after = members(container);
        let same = after.keys().eq(before.keys());
        assert!(same, "{}: other files", container.display());
        assert_eq!(ours(container), 0, "{}", container.display());
        for (name, (inode, content)) in &after {
            let (old_inode, old_content) = &before[name];
            let what = container.join(name);
            let same = content == old_content;
            assert!(!same || inode == old_inode, "{} is new", what.display());
            replaced += usize::from(inode != old_inode);
        }
    }
    assert!(replaced > containers.len(), "{replaced} files are new");
}

/// It reads directories of one kind.
fn ask_the_library(containers: &[(PathBuf, &Raw)]) {
    let readable = |raw: &Raw| raw.version().starts_with("packed-uint-matrix-v2");
    let of_it: Vec<_> = containers.iter().filter(|(_, raw)| readable(raw)).collect();
    assert!(of_it.len() >= 2, "{} for the library", of_it.len());
    let written = written_raw(of_it.iter().map(|(_, raw)| *raw));
    let path = |number: usize| written.path().join(number.to_string());
    let pair = |(number, one): (usize, &&(PathBuf, &Raw))| (one.0.clone(), path(number));
    let pairs: Vec<_> = of_it.iter().enumerate().map(pair).collect();
    oracle("pip", &pairs);
}

#[test]
fn the_corpus_is_changed_and_read_by_others() {
    change_all(&corpus(), (35, 0), &["rw"]);
}

#[test]
fn containers_of_every_kind_are_changed_and_read_by_others() {
    change_all(&made(), (95, 0), &["rw"]);
}

#[test]
fn containers_of_every_kind_are_changed_with_little_memory() {
    change_all(&made(), (90, 1), &["rw", "cache=1M"]);
}

/// NumPy writes through a mapping.
#[test]
fn values_are_multiplied_by_a_program_that_maps_them() {
    let mut random = Seeded::new(1);
    for version in ["packed-uint-matrix-v2", "unpacked-uint-matrix-v1"] {
        let raw = Raw::matrix(version, &mut random, [30_000, 50], 60_000);
        let place = place_with(&[("m", &raw)]);
        let arguments = [Path::new("scale"), &place.join("m"), Path::new("3")];
        script("oracle_bpcells.py", arguments).success();
        let times = |numbers: &mut Vec<u64>| numbers.iter_mut().for_each(|n| *n *= 3);
        let expected = raw.clone().with("val", raw.changed("val", times));
        expected.assert_shown(&place.join("m"));
        assert_stored(&place.stored("m"), &expected);
    }
}

/// The end of each fragment is known from others alone: `end_max` follows.
#[test]
fn what_follows_from_other_arrays_is_computed_and_cannot_be_written() {
    let mut random = Seeded::new(2);
    for version in ["packed-fragments-v2", "unpacked-fragments-v1"] {
        let raw = Raw::fragments(version, &mut random, &[300, 128, 84, 7]);
        let place = place_with(&[("f", &raw)]);
        let path = place.join("f/end_max");
        let mut writing = OpenOptions::new();
        writing.write(true);
        assert_eq!(errno(writing.open(&path)), Some(libc::EPERM));
        assert_eq!(errno(writing.truncate(true).open(&path)), Some(libc::EPERM));
        let truncated = run(Command::new("truncate").args(["-s", "0"]).arg(&path));
        truncated.failed_saying(1, &["Operation not permitted"]);
        let longer = raw.changed("end", |ends| ends[200] = 1 << 30);
        cp(&longer, &place.join("f/end")).success();
        assert_stored(&place.stored("f"), &raw.clone().with("end", longer));
        let stored = std::fs::read(place.stored("f/end_max")).unwrap();
        assert_content(&path, &stored[8..]);
        assert_eq!(xattr(&path, "user.arrayfs.shape").unwrap(), "[5]");
    }
}
