//! Containers of every kind, changed at random through a mount: the real library reads exactly what
//! was written, finds the settings that were there before, and can append.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::edited::Edited;
use crate::harness::depth::some_of;
use crate::harness::mounted::Mounted;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, walk};
use crate::harness::seeded::run_seed;
use crate::harness::{golden, scratch_directory};

/// `before` holds containers as they were, `source` as they are, `expected` the bytes they must
/// hold.
struct Trip(TempDir);

/// What the format allows and no library writes: it is read, and not written.
const ONLY_READ: [&str; 1] = ["header-unknown-sizes"];

impl Trip {
    fn new() -> Self {
        let trip = Trip(scratch_directory());
        for name in ["before", "source", "expected", "shortest"] {
            std::fs::create_dir(trip.at(name)).unwrap();
        }
        trip
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(path)
    }

    /// Changes all that is in `before`.
    fn make(&self, options: &[&str]) {
        let (files, _) = walk(&self.at("before"));
        assert!(files.len() > 40, "{} containers", files.len());
        for file in &files {
            let own = self.at("source").join(file.file_name().unwrap());
            std::fs::copy(file, own).unwrap();
        }
        let mounted = Mounted::new(self.at("source"), options);
        for (number, file) in files.iter().enumerate() {
            let name = Path::new(file.file_name().unwrap());
            let mut edited = Edited::new(&mounted.join(name).join("data"), number as u64);
            edited.edit();
            std::fs::write(self.at("expected").join(name), &edited.expected).unwrap();
            let shortest = edited.shortest.to_string();
            std::fs::write(self.at("shortest").join(name), shortest).unwrap();
        }
        drop(mounted);
        self.judge(options[1]);
    }

    /// `way` of committing, as the option says it.
    fn judge(&self, way: &str) {
        let (source, expected) = (&self.at("source"), &self.at("expected"));
        arrayfs([Path::new("verify"), source]).success();
        let mounted = Mounted::new(source, &["ro"]);
        for file in walk(expected).0 {
            let shown = mounted.join(file.file_name().unwrap()).join("data");
            assert_content(&shown, &std::fs::read(&file).unwrap());
        }
        let judged = script(
            "oracle_bloscpack.py",
            [
                Path::new("judge"),
                &self.at("before"),
                source,
                expected,
                Path::new(way),
            ],
        );
        let said = format!("{}{}", judged.text(), judged.stderr);
        assert_eq!(judged.code(), Some(0), "seed {}: {said}", run_seed());
        // Nothing else is left in the source.
        assert_eq!(walk(source).0.len(), walk(expected).0.len());
    }
}

/// The good files of the corpus that can be written, or half of them.
fn corpus(trip: &Trip, way: u64) {
    let (mut files, _) = walk(&golden("bloscpack/sources"));
    files.retain(|file| {
        let name = file.file_stem().unwrap().to_str().unwrap();
        !name.starts_with("bad-") && !ONLY_READ.contains(&name)
    });
    for file in some_of(files, 2, way) {
        let to = trip.at("before").join(file.file_name().unwrap());
        std::fs::copy(&file, to).unwrap();
    }
}

fn made(trip: &Trip) {
    let seed = run_seed().to_string();
    let before = trip.at("before");
    let arguments = [Path::new("make"), Path::new(&seed), &before];
    script("oracle_bloscpack.py", arguments).success();
}

#[test]
fn the_corpus_is_replaced_and_read_by_the_real_library() {
    let trip = Trip::new();
    corpus(&trip, 0);
    trip.make(&["rw", "commit=replace"]);
}

#[test]
fn the_corpus_is_changed_in_place_and_read_by_the_real_library() {
    let trip = Trip::new();
    corpus(&trip, 1);
    trip.make(&["rw", "commit=inplace"]);
}

#[test]
fn what_the_real_library_made_is_replaced_and_read_by_it() {
    let trip = Trip::new();
    made(&trip);
    trip.make(&["rw", "commit=replace"]);
}

#[test]
fn what_the_real_library_made_is_changed_in_place_and_read_by_it() {
    let trip = Trip::new();
    made(&trip);
    trip.make(&["rw", "commit=inplace"]);
}

#[test]
fn what_the_real_library_made_is_changed_with_little_memory() {
    let trip = Trip::new();
    made(&trip);
    trip.make(&["rw", "cache=1M"]);
}

#[test]
fn what_no_library_writes_is_only_read() {
    for name in ONLY_READ {
        let source = scratch_directory();
        let file = golden("bloscpack/sources").join(format!("{name}.blp"));
        std::fs::copy(file, source.path().join("x.blp")).unwrap();
        let mounted = Mounted::new(source.path(), &["rw"]);
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).open(mounted.join("x.blp/data"));
        let errno = opened.map(drop).expect_err(name).raw_os_error();
        assert_eq!(errno, Some(libc::EROFS), "{name}");
    }
}
