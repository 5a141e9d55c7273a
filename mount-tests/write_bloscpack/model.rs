//! Arrays against a model, which is plain bytes in memory: random operations through many handles,
//! with forks, commits, new mounts, and little memory. Everything that can be read is compared all
//! the time.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::assert_stored;
use crate::harness::golden;
use crate::harness::mounted::Mounted;
use crate::harness::process::run;
use crate::harness::reads::{assert_content, assert_same, read_direct};
use crate::harness::scratch_directory;
use crate::harness::seeded::{Seeded, run_seed};

const STEPS: usize = 250;
const LONGEST: usize = 600_000;

/// Of the corpus: some codecs, checksums, with and without offsets.
const KINDS: [&str; 4] = [
    "codec-zstd-sh1",
    "split-auto-lz4",
    "offsets-none",
    "empty-sha512",
];

struct Container {
    name: String,
    expected: Vec<u8>,
    open: Vec<File>,
}

struct Model {
    random: Seeded,
    source: TempDir,
    options: &'static [&'static str],
    mounted: Option<Mounted>,
    containers: Vec<Container>,
    done: Vec<String>,
}

impl Model {
    fn new(seed: u64, options: &'static [&'static str]) -> Self {
        let source = scratch_directory();
        let mut model = Model {
            random: Seeded::new(seed),
            options,
            mounted: Some(Mounted::new(source.path(), options)),
            source,
            containers: Vec::new(),
            done: vec![format!("seed {seed}, run {}", run_seed())],
        };
        for kind in KINDS {
            let name = format!("{kind}.blp");
            let from = golden("bloscpack/sources").join(&name);
            std::fs::copy(from, model.source.path().join(&name)).unwrap();
            let expected = std::fs::read(model.shown(&name)).unwrap();
            let open = Vec::new();
            model.containers.push(Container {
                name,
                expected,
                open,
            });
        }
        model
    }

    fn shown(&self, name: &str) -> PathBuf {
        self.mounted.as_ref().unwrap().join(name).join("data")
    }

    fn step(&mut self) {
        let at = self.random.below(self.containers.len());
        let kind = self.random.below(100);
        self.done.push(format!("{kind} on {at}"));
        match kind {
            0..20 => self.open(at),
            20..32 => self.close(at),
            32..37 => self.truncate_by_name(at),
            37..39 => self.write_anew(at),
            39..41 => drop(run(&mut Command::new("true"))),
            41 => self.mount_again(),
            42..46 => self.look(at),
            _ => self.with_a_handle(at, kind),
        }
        let container = &self.containers[at];
        let path = self.shown(&container.name);
        assert_content(&path, &container.expected);
        assert_eq!(
            path.metadata().unwrap().len(),
            container.expected.len() as u64
        );
    }

    fn open(&mut self, at: usize) {
        let path = self.shown(&self.containers[at].name);
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if self.random.below(6) == 0 {
            options.custom_flags(libc::O_SYNC);
        }
        let container = &mut self.containers[at];
        container.open.truncate(5);
        container.open.insert(0, options.open(path).unwrap());
    }

    fn close(&mut self, at: usize) {
        let open = self.containers[at].open.len();
        if open > 0 {
            let which = self.random.below(open);
            self.containers[at].open.remove(which);
        }
    }

    fn truncate_by_name(&mut self, at: usize) {
        let path = self.shown(&self.containers[at].name);
        let len = self.random.below(LONGEST);
        let len_text = len.to_string();
        let ran = run(Command::new("truncate").args(["-s", &len_text]).arg(path));
        assert_eq!(ran.code(), Some(0), "{ran:?}");
        self.containers[at].expected.resize(len, 0);
    }

    /// As `>` does.
    fn write_anew(&mut self, at: usize) {
        let bytes = self.bytes(100_000);
        std::fs::write(self.shown(&self.containers[at].name), &bytes).unwrap();
        self.containers[at].expected = bytes;
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let len = 1 + self.random.below(most);
        match self.random.below(3) {
            0 => self.random.noise(len),
            1 => self.random.rising(len),
            _ => vec![self.random.next() as u8; len],
        }
    }

    /// Whatever is staged is committed at the end of a mount.
    fn mount_again(&mut self) {
        for container in &mut self.containers {
            container.open.clear();
        }
        drop(self.mounted.take());
        let names = std::fs::read_dir(self.source.path()).unwrap().count();
        assert_eq!(names, KINDS.len(), "something is left in the source");
        for container in &self.containers {
            assert_stored(
                &self.source.path().join(&container.name),
                &container.expected,
            );
        }
        self.mounted = Some(Mounted::new(self.source.path(), self.options));
    }

    /// Through every handle, and past the page cache.
    fn look(&mut self, at: usize) {
        let len = self.containers[at].expected.len();
        let (from, most) = (self.random.below(len + 1), self.random.below(100_000));
        let container = &self.containers[at];
        let path = self.shown(&container.name);
        let expected = &container.expected[from..len.min(from + most)];
        let direct = read_direct(&path, from as u64, expected.len()).unwrap();
        assert_same(&path, &direct, expected);
        for file in &container.open {
            let mut found = vec![0; expected.len()];
            file.read_exact_at(&mut found, from as u64).unwrap();
            assert_same(&path, &found, expected);
            assert_eq!(file.metadata().unwrap().len(), len as u64);
        }
    }

    fn with_a_handle(&mut self, at: usize, kind: usize) {
        if self.containers[at].open.is_empty() {
            return self.open(at);
        }
        let which = self.random.below(self.containers[at].open.len());
        let (bytes, place) = (self.bytes(60_000), self.random.below(LONGEST - 60_000));
        let container = &mut self.containers[at];
        let (file, expected) = (&container.open[which], &mut container.expected);
        match kind {
            46..54 => {
                file.set_len(place as u64).unwrap();
                expected.resize(place, 0);
            }
            54..64 => file.sync_data().unwrap(),
            64..74 if expected.len() > place => {
                // SAFETY: nobody makes the file shorter meanwhile.
                let mut map = unsafe { memmap2::MmapMut::map_mut(file) }.unwrap();
                let end = expected.len().min(place + bytes.len());
                map[place..end].copy_from_slice(&bytes[..end - place]);
                expected[place..end].copy_from_slice(&bytes[..end - place]);
                if kind.is_multiple_of(2) {
                    map.flush().unwrap();
                }
            }
            _ => {
                // Most of them where there is something.
                let place = match kind % 3 {
                    0 => place,
                    _ => place % (expected.len() + 1),
                };
                file.write_all_at(&bytes, place as u64).unwrap();
                let end = place + bytes.len();
                expected.resize(expected.len().max(end), 0);
                expected[place..end].copy_from_slice(&bytes);
            }
        }
    }
}

/// A failure prints what was done last.
impl Drop for Model {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.done.len().saturating_sub(20);
            eprintln!(
                "{}, step {}: {:?}",
                self.done[0],
                self.done.len(),
                &self.done[from..]
            );
        }
        self.containers.clear();
    }
}

fn run_model(seeds: std::ops::Range<u64>, options: &'static [&'static str]) {
    for seed in seeds {
        let mut model = Model::new(seed, options);
        (0..STEPS).for_each(|_| model.step());
        model.mount_again();
    }
}

#[test]
fn random_operations_with_commits_that_replace() {
    run_model(0..3, &["rw", "commit=replace"]);
}

#[test]
fn random_operations_with_commits_in_place() {
    run_model(10..13, &["rw", "commit=inplace"]);
}

#[test]
fn random_operations_with_little_memory() {
    run_model(20..22, &["rw", "cache=1M"]);
}

#[test]
fn random_operations_past_the_page_cache() {
    run_model(30..32, &["rw", "direct_io"]);
}
