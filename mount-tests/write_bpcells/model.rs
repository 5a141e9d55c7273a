//! All arrays of a container against a model, which is plain bytes in memory: random operations
//! through several handles, with commits, states that are not consistent, and new mounts. What is
//! shown is compared all the time; whether it is staged, when nobody has it open; what is stored,
//! at the end of each mount.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::raw::{Raw, lines};
use super::{encode, is_staged, judge, names, open, ours, rewrite};
use crate::harness::mounted::Mounted;
use crate::harness::process::run;
use crate::harness::reads::assert_content;
use crate::harness::seeded::{Seeded, run_seed};
use crate::harness::{scratch_directory, wait_until};

const STEPS: usize = 200;

struct Model {
    random: Seeded,
    source: TempDir,
    options: &'static [&'static str],
    mounted: Option<Mounted>,
    expected: Raw,
    /// The arrays that are open.
    open: Vec<(&'static str, File)>,
    done: Vec<String>,
}

impl Model {
    fn new(seed: u64, version: &str, options: &'static [&'static str]) -> Self {
        let mut random = Seeded::new(seed);
        let expected = another(version, &mut random);
        let source = scratch_directory();
        encode(&[(source.path().join("m"), &expected)]);
        Model {
            random,
            options,
            mounted: Some(Mounted::new(source.path(), options)),
            source,
            expected,
            open: Vec::new(),
            done: vec![format!("{version}, seed {seed}, run {}", run_seed())],
        }
    }

    fn directory(&self) -> PathBuf {
        self.mounted.as_ref().unwrap().join("m")
    }

    fn shown(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    fn step(&mut self) {
        let kind = self.random.below(100);
        self.done.push(kind.to_string());
        match kind {
            0..15 => self.open_another(),
            15..30 => self.close(),
            30..50 => self.change_numbers(),
            50..58 => self.change_names(),
            58..66 => self.change_length(),
            66..72 => self.truncate_by_name(),
            72..82 => self.write_all(),
            82..90 => self.sync(),
            90..94 => drop(run(&mut Command::new("true"))),
            94..96 => self.put_in_place(),
            _ => self.nobody_has_it_open(),
        }
        let names = self.expected.names();
        let name = names[self.random.below(names.len())];
        assert_content(&self.shown(name), self.expected.get(name));
        for name in names {
            let len = self.shown(name).metadata().unwrap().len();
            assert_eq!(len, self.expected.get(name).len() as u64, "{name}");
        }
    }

    /// Not `chr_ptr`: which gaps there may be between chromosomes is nobody's rule. Nor `shape`,
    /// which is two numbers.
    fn number_array(&mut self) -> &'static str {
        let numbers = match self.expected.is_matrix() {
            true => ["val", "index", "idxptr"],
            false => ["cell", "start", "end"],
        };
        numbers[self.random.below(numbers.len())]
    }

    fn open_another(&mut self) {
        let names = self.expected.names();
        let name = names[self.random.below(names.len())];
        let file = open(&self.shown(name));
        self.open.truncate(6);
        self.open.insert(0, (name, file));
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let which = self.random.below(self.open.len());
            self.open.remove(which);
        }
    }

    /// A handle that is open, or a new one for this alone.
    fn with_handle(&self, name: &'static str, work: impl FnOnce(&File)) {
        match self.open.iter().find(|(of, _)| *of == name) {
            Some((_, file)) => work(file),
            None => work(&open(&self.shown(name))),
        }
    }

    /// Some numbers become others, most of them such that are allowed.
    fn change_numbers(&mut self) {
        let (name, limit) = match (self.expected.is_matrix(), self.random.below(4)) {
            (true, 0 | 1) => ("val", 1 << 32),
            (true, 2) => ("index", ROWS as u64),
            (true, _) => ("index", ROWS as u64 + 1),
            (false, 0 | 1) => ("end", 1 << 32),
            (false, 2) => ("cell", 300),
            (false, _) => ("start", 1 << 28),
        };
        let mut numbers = self.expected.numbers(name);
        if numbers.is_empty() {
            return;
        }
        let from = self.random.below(numbers.len());
        let count = 1 + self.random.below((numbers.len() - from).min(300));
        for number in &mut numbers[from..from + count] {
            *number = self.random.next() % limit;
        }
        let bytes = self.expected.packed_numbers(name, &numbers);
        let width = self.expected.width(name);
        let range = from * width..(from + count) * width;
        let at = range.start as u64;
        self.with_handle(name, |file| file.write_all_at(&bytes[range], at).unwrap());
        self.expected.set(name, bytes);
    }

    fn columns(&self) -> usize {
        self.expected.numbers("idxptr").len().saturating_sub(1)
    }

    /// As many as there are, or one more, or none.
    fn change_names(&mut self) {
        let (name, count) = match (self.expected.is_matrix(), self.random.below(2)) {
            (true, 0) => ("row_names", ROWS),
            (true, _) => ("col_names", self.columns()),
            (false, 0) => ("cell_names", 300),
            (false, _) => ("chr_names", CHROMOSOMES),
        };
        let what = self.random.below(100).to_string();
        let text = match self.random.below(4) {
            0 => Vec::new(),
            1 => lines(&what, count + 1),
            _ => lines(&what, count),
        };
        self.with_handle(name, |file| rewrite(file, &text));
        self.expected.set(name, text);
    }

    /// By whole numbers.
    fn change_length(&mut self) {
        let name = self.number_array();
        let bytes = self.other_length(name);
        let len = bytes.len() as u64;
        self.with_handle(name, |file| file.set_len(len).unwrap());
        self.expected.set(name, bytes);
    }

    fn other_length(&mut self, name: &'static str) -> Vec<u8> {
        let width = self.expected.width(name);
        let mut bytes = self.expected.get(name).to_vec();
        let most = bytes.len() / width + 150;
        bytes.resize(self.random.below(most + 1) * width, 0);
        bytes
    }

    fn truncate_by_name(&mut self) {
        let name = self.number_array();
        let bytes = self.other_length(name);
        let len = bytes.len().to_string();
        let mut truncate = Command::new("truncate");
        let ran = run(truncate.args(["-s", &len]).arg(self.shown(name)));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
        self.expected.set(name, bytes);
    }

    /// All arrays, one after another, in any order.
    fn write_all(&mut self) {
        let to = another(self.expected.version(), &mut self.random);
        let mut names = to.names().to_vec();
        for at in (1..names.len()).rev() {
            names.swap(at, self.random.below(at + 1));
        }
        for name in names {
            let bytes = to.get(name);
            self.with_handle(name, |file| rewrite(file, bytes));
            self.expected.set(name, bytes.to_vec());
        }
        assert!(self.expected.is_consistent());
    }

    fn sync(&mut self) {
        for (_, file) in &self.open {
            file.sync_data().unwrap();
        }
    }

    /// A file takes the place of an array, as editors do it.
    fn put_in_place(&mut self) {
        let name = self.number_array();
        self.open.retain(|(of, _)| *of != name);
        let bytes = self.other_length(name);
        let temporary = self.shown(".temporary");
        std::fs::write(&temporary, &bytes).unwrap();
        std::fs::rename(&temporary, self.shown(name)).unwrap();
        self.expected.set(name, bytes);
    }

    /// Then it is known whether it is committed.
    fn nobody_has_it_open(&mut self) {
        self.open.clear();
        let consistent = self.expected.is_consistent();
        let directory = self.directory();
        let what = format!("consistent is {consistent}, and so it is kept");
        wait_until(&what, || is_staged(&directory) != consistent);
        if self.random.below(4) == 0 {
            self.mount_again();
        }
    }

    fn mount_again(&mut self) {
        self.open.clear();
        drop(self.mounted.take());
        let container = self.source.path().join("m");
        assert_eq!(names(self.source.path()).len(), 1);
        match self.expected.is_consistent() {
            true => {
                assert_eq!(ours(&container), 0, "something is left in the source");
                judge(&[(container, &self.expected)]);
            }
            false => assert_eq!(ours(&container), 1, "the log is kept"),
        }
        self.mounted = Some(Mounted::new(self.source.path(), self.options));
        self.expected.assert_shown(&self.directory());
    }
}

const ROWS: usize = 700;
const CHROMOSOMES: usize = 4;

/// A consistent container with as many rows or chromosomes as all of them have here.
fn another(version: &str, random: &mut Seeded) -> Raw {
    if version.contains("fragments") {
        let sizes: [usize; CHROMOSOMES] = std::array::from_fn(|_| random.below(300));
        return Raw::fragments(version, random, &sizes);
    }
    let entries = random.below(1500);
    let columns = 2 + random.below(20);
    Raw::matrix(version, random, [ROWS, columns], entries)
}

/// A failure prints what was done last.
impl Drop for Model {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.done.len().saturating_sub(20);
            let last = &self.done[from..];
            eprintln!("{}, step {}: {last:?}", self.done[0], self.done.len());
        }
        self.open.clear();
    }
}

fn run_model(seed: u64, version: &str, options: &'static [&'static str]) {
    let mut model = Model::new(seed, version, options);
    (0..STEPS).for_each(|_| model.step());
    model.nobody_has_it_open();
    model.write_all();
    model.mount_again();
}

#[test]
fn random_operations_on_a_packed_matrix() {
    for seed in 0..2 {
        run_model(seed, "packed-uint-matrix-v2", &["rw"]);
    }
}

#[test]
fn random_operations_on_matrices_of_other_kinds() {
    for (seed, version) in [
        "unpacked-double-matrix-v2",
        "packed-float-matrix-v1",
        "packed-uint-matrix-v9999",
    ]
    .iter()
    .enumerate()
    {
        run_model(10 + seed as u64, version, &["rw"]);
    }
}

#[test]
fn random_operations_on_fragments() {
    run_model(20, "packed-fragments-v2", &["rw"]);
    run_model(21, "unpacked-fragments-v1", &["rw"]);
}

#[test]
fn random_operations_with_little_memory_and_past_the_page_cache() {
    run_model(30, "packed-uint-matrix-v2", &["rw", "cache=1M"]);
    run_model(31, "packed-fragments-v2", &["rw", "direct_io"]);
}
