//! A writable mount against a model, which is a plain directory: random operations are done to
//! both, and whatever can be seen of them is compared after every one; so is the source behind the
//! mount.

mod generator;
mod operation;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use generator::Generator;
use operation::{Operation, Outcome, SLOTS, Tree};

use rustix::fs::{Mode, OFlags, RenameFlags};

use crate::harness::place::{Place, open_directory, scenarios};
use crate::harness::seeded::run_seed;
use crate::harness::snapshot::Snapshot;
use crate::harness::wait_until;

const THREADS: usize = 4;
/// Of each thread.
const STEPS: usize = 300;
/// In so many steps somebody else changes the source.
const FOREIGN: usize = 25;
/// Told of a failure.
const LAST: usize = 40;

scenarios![
    everywhere
    threads_in_trees_of_their_own_do_what_a_plain_directory_does,
    threads_that_take_turns_in_one_tree_do_what_a_plain_directory_does;
    but
    what_others_do_in_the_source_shows,
];

/// A tree in the mount, the same in the source, and the reference.
struct Model {
    seed: u64,
    generator: Generator,
    shown: Tree,
    stored: PathBuf,
    reference: Tree,
    now: Snapshot,
    done: Vec<String>,
    is_scratch: bool,
}

impl Model {
    fn new(seed: u64, place: &Place, reference: &Path, name: &str) -> Self {
        let (shown, reference) = (place.join(name), reference.join(name));
        std::fs::create_dir(&shown).unwrap();
        std::fs::create_dir(&reference).unwrap();
        Model {
            seed,
            generator: Generator::new(seed),
            now: look(&reference),
            shown: Tree::new(shown),
            stored: place.stored(name),
            reference: Tree::new(reference),
            done: Vec::new(),
            is_scratch: place.is_scratch(),
        }
    }

    /// Does one thing to the mount and to the reference, and compares all.
    fn step(&mut self) {
        let mut operation = self.generator.operation(&self.now);
        if let Operation::Rename(_, _, how) = &mut operation
            && self.is_scratch
        {
            // Not between a file and something else.
            how.remove(RenameFlags::EXCHANGE);
        }
        let found = self.shown.perform(&operation);
        let expected = self.reference.perform(&operation);
        self.note(&operation, &found);
        if found != expected {
            self.fail(&format!("gave {found:?}, expected {expected:?}"));
        }
        self.now = look(self.reference.root());
        self.compare("the source", &self.stored);
        self.compare("the mount", self.shown.root());
    }

    /// Does one thing to the source and to the reference; the mount must show it when the kernel
    /// asks again.
    fn foreign_step(&mut self) {
        let operation = self.generator.foreign(&self.now);
        let before = self.now.clone();
        let done = Tree::new(self.stored.clone()).perform(&operation);
        let expected = Tree::new(self.reference.root().to_owned()).perform(&operation);
        self.note(&format!("foreign {operation:?}"), &done);
        assert_eq!(done, expected);
        self.now = look(self.reference.root());
        let (seed, story) = (self.seed(), self.story());
        let what = format!("the mount shows what was done in the source, {seed}:\n{story}");
        wait_until(&what, || {
            // Names may come and go while one looks.
            let shown = Snapshot::of(self.shown.root()).map(Snapshot::without_late_times);
            let same = shown.is_ok_and(|shown| shown == self.now);
            same && self.names_agree(&before) && self.handles_agree()
        });
    }

    /// The kernel may believe for a second in what was there before. This asks nobody but the
    /// kernel.
    fn names_agree(&self, before: &Snapshot) -> bool {
        let only_look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let look = |root: &Path, path: &Path, flags: OFlags| {
            rustix::fs::open(root.join(path), only_look | flags, Mode::empty()).err()
        };
        before.paths().all(|path| {
            [OFlags::empty(), OFlags::DIRECTORY]
                .into_iter()
                .all(|kind| {
                    let reference = look(self.reference.root(), path, kind);
                    look(self.shown.root(), path, kind) == reference
                })
        })
    }

    /// What is open has the same sizes, links and modes.
    fn handles_agree(&mut self) -> bool {
        (0..SLOTS).all(|slot| {
            let stat = Operation::Stat(slot);
            self.shown.perform(&stat) == self.reference.perform(&stat)
        })
    }

    fn note(
        &mut self,
        operation: &impl std::fmt::Debug,
        found: &Result<Outcome, rustix::io::Errno>,
    ) {
        let brief = match found {
            Ok(Outcome::Bytes(bytes)) => format!("{} bytes", bytes.len()),
            other => format!("{other:?}"),
        };
        self.done.push(format!("{operation:?} -> {brief}"));
    }

    fn compare(&self, what: &str, root: &Path) {
        let found = match Snapshot::of(root) {
            Ok(found) => found.without_late_times(),
            Err(e) => self.fail(&format!("{what}: {e}")),
        };
        if let Some(difference) = found.difference(&self.now) {
            self.fail(&format!("{what} and the reference differ: {difference}"));
        }
    }

    /// Much of what was tried could be done, and something is left.
    fn assert_was_busy(&self) {
        let refused = self
            .done
            .iter()
            .filter(|line| line.contains("Err("))
            .count();
        let idle = self
            .done
            .iter()
            .filter(|line| line.ends_with("NotOpen)"))
            .count();
        let all = self.done.len();
        let left = self.now.len();
        let busy = 3 * (refused + idle) < 2 * all && left > 3;
        assert!(
            busy,
            "{all} steps, {refused} refused, {idle} idle, {left} entries left"
        );
    }

    fn story(&self) -> String {
        let from = self.done.len().saturating_sub(LAST);
        self.done[from..].join("\n")
    }

    fn fail(&self, why: &str) -> ! {
        let (seed, steps) = (self.seed(), self.done.len());
        panic!("{seed}, step {steps}: {why}\n{}", self.story())
    }

    fn seed(&self) -> String {
        format!("seed {}, ARRAYFS_TEST_SEED={}", self.seed, run_seed())
    }
}

fn look(root: &Path) -> Snapshot {
    let snapshot = Snapshot::of(root);
    let snapshot = snapshot.unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    snapshot.without_late_times()
}

fn threads_in_trees_of_their_own_do_what_a_plain_directory_does(place: &Place) {
    let reference = open_directory();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let reference = reference.path();
            scope.spawn(move || {
                let name = format!("tree-{thread}");
                let seed = thread as u64;
                let mut model = Model::new(seed, place, reference, &name);
                (0..STEPS).for_each(|_| model.step());
                model.assert_was_busy();
            });
        }
    });
}

/// Files stay open from one turn to the next, so that threads use what others opened.
fn threads_that_take_turns_in_one_tree_do_what_a_plain_directory_does(place: &Place) {
    let reference = open_directory();
    let model = Model::new(100, place, reference.path(), "tree");
    let model = Mutex::new(model);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..STEPS / 2 {
                    model.lock().unwrap().step();
                }
            });
        }
    });
}

fn what_others_do_in_the_source_shows(place: &Place) {
    let reference = open_directory();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let reference = reference.path();
            scope.spawn(move || {
                let name = format!("tree-{thread}");
                let seed = 200 + thread as u64;
                let mut model = Model::new(seed, place, reference, &name);
                for _ in 0..STEPS {
                    model.step();
                    if model.generator.one_in(FOREIGN) {
                        model.foreign_step();
                    }
                }
            });
        }
    });
}
