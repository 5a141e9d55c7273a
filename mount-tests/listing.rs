//! Listings in many steps, of directories that change meanwhile.

use std::collections::BTreeMap;
use std::fs::File;
use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fs::RawDir;

use crate::harness::mounted::Mounted;
use crate::harness::scratch_directory;
use crate::harness::writers::{Bloscpack, Matrix};

/// A program that lists a directory, a buffer of names at a time.
struct Lister {
    directory: File,
    /// How often each name was listed.
    listed: BTreeMap<String, usize>,
    done: bool,
}

impl Lister {
    fn new(directory: &Path) -> Self {
        Lister {
            directory: File::open(directory).unwrap(),
            listed: BTreeMap::new(),
            done: false,
        }
    }

    /// One getdents(2).
    fn step(&mut self) {
        let mut space = [MaybeUninit::uninit(); 512];
        let mut entries = RawDir::new(&self.directory, &mut space);
        self.done = true;
        while let Some(entry) = entries.next() {
            self.done = false;
            let name = entry.unwrap().file_name().to_str().unwrap().to_owned();
            *self.listed.entry(name).or_default() += 1;
            if entries.is_buffer_empty() {
                return;
            }
        }
    }

    #[track_caller]
    fn assert_once(&self, name: &str) {
        assert_eq!(self.listed.get(name), Some(&1), "{name}");
    }
}

/// Lets 40 programs list, in turn and each from a moment of its own, with a change before each
/// round.
fn list_while(directory: &Path, mut change: impl FnMut(usize)) -> Vec<Lister> {
    let mut listers: Vec<Lister> = Vec::new();
    let mut round = 0;
    while listers.len() < 40 || listers.iter().any(|lister| !lister.done) {
        if listers.len() < 40 {
            listers.push(Lister::new(directory));
        }
        change(round);
        for lister in listers.iter_mut().filter(|lister| !lister.done) {
            lister.step();
        }
        round += 1;
    }
    listers
}

#[test]
fn forty_listings_of_a_directory_that_changes_miss_and_repeat_nothing() {
    const STAY: usize = 300;
    let source = scratch_directory();
    let stays = |number: usize| format!("stays-{number}");
    for number in 0..STAY {
        std::fs::write(source.path().join(stays(number)), "").unwrap();
        std::fs::write(source.path().join(format!("goes-{number}")), "").unwrap();
    }
    Bloscpack::default().write(&source.path().join("x.blp"), b"12345678");
    let mounted = Mounted::new(source.path(), &[]);
    let listers = list_while(mounted.path(), |round| {
        let _ = std::fs::remove_file(source.path().join(format!("goes-{round}")));
        std::fs::write(source.path().join(format!("comes-{round}")), "").unwrap();
        std::fs::write(source.path().join(".new"), "").unwrap();
        let replaced = source.path().join(stays(round % STAY));
        std::fs::rename(source.path().join(".new"), replaced).unwrap();
    });
    for lister in &listers {
        (0..STAY).for_each(|number| lister.assert_once(&stays(number)));
        [".", "..", "x.blp"]
            .iter()
            .for_each(|name| lister.assert_once(name));
        let twice = lister.listed.iter().find(|(_, times)| **times > 1);
        assert_eq!(twice, None);
    }
}

/// A container's own directory shows the container as it is and what lies beside its members.
#[test]
fn forty_listings_of_a_container_that_changes_miss_and_repeat_nothing() {
    let source = scratch_directory();
    let directory = source.path().join("m");
    Matrix::random(7, 100).write_packed(&directory);
    for number in 0..200 {
        std::fs::write(directory.join(format!("beside-{number}")), "").unwrap();
    }
    let mounted = Mounted::new(source.path(), &[]);
    let listers = list_while(&mounted.join("m"), |round| {
        let new = source.path().join(format!("new-{round}"));
        Matrix::random(round as u64, 100 + round).write_packed(&new);
        for file in std::fs::read_dir(&new).unwrap().map(Result::unwrap) {
            std::fs::rename(file.path(), directory.join(file.file_name())).unwrap();
        }
        std::fs::remove_dir(new).unwrap();
        std::fs::write(directory.join(format!("comes-{round}")), "").unwrap();
    });
    for lister in &listers {
        (0..200).for_each(|number| lister.assert_once(&format!("beside-{number}")));
        let own = ["val", "index", "idxptr", "arrays.json", "version"];
        own.iter().for_each(|name| lister.assert_once(name));
    }
}

#[test]
fn a_directory_of_many_names_is_listed_whole() {
    const MANY: usize = 20_000;
    let source = scratch_directory();
    for number in 0..MANY {
        std::fs::write(source.path().join(format!("file-{number}")), "").unwrap();
    }
    let mounted = Mounted::new(source.path(), &[]);
    for _ in 0..2 {
        let entries = std::fs::read_dir(mounted.path()).unwrap();
        let mut numbers: Vec<usize> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| name["file-".len()..].parse().unwrap())
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..MANY));
    }
}
