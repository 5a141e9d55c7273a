//! A stage against plain vectors of bytes, whatever is done to it in whatever order.

mod compaction;
mod content;
mod encoded;
mod failing;
mod forged;
mod lender;
mod next;
pub(super) mod sample;
mod zeros;

use std::sync::Arc;

use proptest::prelude::*;

use super::layer::Part;
use super::log::{CommitRecord, SealedFile};
use super::*;
use sample::{ARRAYS, Container, read_log};

/// What is done to a stage.
#[derive(Debug, Clone)]
enum Action {
    Write(u32, u64, usize, u8),
    Zeros(u32, u64, u64),
    SetLen(u32, u64),
    Sync,
    GiveUp,
    Freeze,
    Thaw,
    Seal,
    Commit,
    /// Synced, the process ends, and another one goes on.
    Recover,
    Discard,
}

fn actions(most: usize) -> impl Strategy<Value = Vec<Action>> {
    let array = 0..ARRAYS as u32;
    let action = prop_oneof![
        8 => (array.clone(), 0u64..700, 1usize..200, 1u8..).prop_map(|(a, b, c, d)| Action::Write(a, b, c, d)),
        3 => (array.clone(), 0u64..700, 0u64..300).prop_map(|(a, b, c)| Action::Zeros(a, b, c)),
        3 => (array, 0u64..800).prop_map(|(a, b)| Action::SetLen(a, b)),
        3 => Just(Action::Sync),
        2 => Just(Action::GiveUp),
        2 => Just(Action::Freeze),
        1 => Just(Action::Thaw),
        1 => Just(Action::Seal),
        1 => Just(Action::Commit),
        2 => Just(Action::Recover),
        1 => prop_oneof![3 => Just(Action::Sync), 1 => Just(Action::Discard)],
    ];
    proptest::collection::vec(action, 1..most)
}

/// The stage, and what it must show.
struct Model {
    container: Container,
    stage: Arc<Stage>,
    shown: Vec<Vec<u8>>,
    frozen: Option<Vec<Vec<u8>>>,
    sealed: bool,
    budget: u64,
}

impl Model {
    fn new(budget: u64) -> Model {
        let container = Container::new();
        let stage = container.stage(budget);
        Model {
            shown: container.arrays.clone(),
            container,
            stage,
            frozen: None,
            sealed: false,
            budget,
        }
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Write(array, at, len, byte) => {
                let bytes = vec![byte; len];
                let n = self.stage.write(WrittenArray(array), at, &bytes).unwrap();
                assert_eq!(n, len);
                sample::write(&mut self.shown[array as usize], at, &bytes);
            }
            Action::Zeros(array, at, len) => {
                let range = at..at + len;
                self.stage.write_zeros(WrittenArray(array), range).unwrap();
                if len > 0 {
                    sample::write(&mut self.shown[array as usize], at, &vec![0; len as usize]);
                }
            }
            Action::SetLen(array, len) => {
                self.stage.set_len(WrittenArray(array), len).unwrap();
                self.shown[array as usize].resize(len as usize, 0);
            }
            Action::Sync => self.stage.sync().unwrap(),
            Action::GiveUp => {
                use slab::Lender;
                while self.stage.give_up() {}
                assert_eq!(self.stage.bytes_held(), 0);
            }
            Action::Freeze => {
                let clean = self.stage.is_clean();
                let frozen = self.stage.freeze(&mut to_nobody);
                assert_eq!(frozen.is_some(), !clean && self.frozen.is_none());
                if frozen.is_some() {
                    self.frozen = Some(self.shown.clone());
                }
            }
            Action::Thaw => {
                self.stage.unfreeze(&mut to_nobody).unwrap();
                (self.frozen, self.sealed) = (None, false);
            }
            Action::Seal => self.seal(),
            Action::Commit => self.commit(),
            Action::Recover => self.recover(),
            Action::Discard => {
                self.stage.throw_away().unwrap();
                self.shown = self.container.arrays.clone();
                (self.frozen, self.sealed) = (None, false);
                assert!(self.stage.is_clean() && !self.container.log_path().exists());
            }
        }
    }

    fn seal(&mut self) {
        let Some(frozen) = self.stage.frozen() else {
            return;
        };
        let layer = frozen.number();
        let redo = self.stage.append_redo(0, 7, &[3; 70], &mut |_, _| ());
        redo.unwrap();
        let length = CommitRecord::RedoLength { file: 0, len: 77 };
        self.stage.append(&length).unwrap();
        let files = vec![SealedFile {
            file: 0,
            name: String::new(),
            mtime: Some((1, 2)),
            untouched: 3,
            samples: Vec::new(),
        }];
        let sealed = CommitRecord::Sealed { layer, files };
        self.stage.append(&sealed).unwrap();
        self.stage.sync_log().unwrap();
        self.sealed = true;
    }

    fn commit(&mut self) {
        let Some(frozen) = self.frozen.take() else {
            return;
        };
        self.container.arrays = frozen;
        self.container.base.files[0].size += 1;
        let lens = self.container.lens();
        let base = self.container.base.clone();
        self.stage
            .committed(&self.stage.alone(), base, &lens, &mut to_nobody)
            .unwrap();
        self.sealed = false;
        let is_clean = self.stage.is_clean();
        assert!(!is_clean || self.shown == self.container.arrays);
    }

    fn recover(&mut self) {
        self.stage.sync().unwrap();
        let found = read_log(&self.container.spot().of()).unwrap();
        let Some(found) = found else {
            assert!(!self.container.log_path().exists());
            assert_eq!(self.shown, self.container.arrays);
            (self.stage, self.frozen) = (self.container.stage(self.budget), None);
            return;
        };
        assert_eq!(found.base(), &self.container.base);
        assert_eq!(found.pending().is_some(), self.sealed);
        if self.sealed {
            let mut bytes = [0; 70];
            let patch = found.patches_of(&found.sealed()[0]).last().unwrap();
            found.read_logged(patch.logged.start, &mut bytes).unwrap();
            assert!(bytes == [3; 70] && patch.at == 7);
        } else {
            self.frozen = None;
        }
        self.check(&found.layers());
        // The lock goes with the last descriptor.
        let memory = self.container.memory(self.budget);
        self.stage = self.container.stage(self.budget);
        self.stage = Stage::recover(Arc::new(self.container.spot()), &found, memory).unwrap();
    }

    fn check(&self, layers: &[Arc<Layer>]) {
        for array in 0..ARRAYS {
            let shown = self.container.read(array, layers);
            assert!(shown == self.shown[array], "array {array}");
        }
    }

    fn check_stage(&self) {
        self.check(&self.stage.layers());
        for (array, shown) in self.shown.iter().enumerate() {
            assert_eq!(
                self.stage.len(WrittenArray(array as u32)),
                shown.len() as u64
            );
            let below = self.frozen.as_ref().unwrap_or(&self.container.arrays);
            let active = &self.stage.layers()[0];
            let changed = active.changed(WrittenArray(array as u32));
            assert!(changed.is_sorted_by(|a, b| a.end < b.start));
            for (at, byte) in shown.iter().enumerate() {
                let covered = changed.iter().any(|range| range.contains(&(at as u64)));
                assert!(
                    covered || below[array].get(at) == Some(byte),
                    "{at} of {array}"
                );
            }
        }
        if let (Some(frozen), Some(layer)) = (&self.frozen, self.stage.frozen()) {
            for (array, frozen) in frozen.iter().enumerate() {
                let layers = std::slice::from_ref(&layer);
                assert!(self.container.read(array, layers) == *frozen);
            }
        }
    }
}

fn run(actions: &[Action], budget: u64) {
    let mut model = Model::new(budget);
    // A reader that took the layers before still reads right through them, until others stand
    // above.
    for action in actions {
        use Action::*;
        let goes_on = matches!(
            action,
            Thaw | Write(..) | Zeros(..) | SetLen(..) | GiveUp | Sync
        );
        let before = goes_on.then(|| model.stage.layers());
        model.act(action);
        model.check_stage();
        if let Some(before) = before {
            model.check(&before);
        }
    }
    let memory = Arc::clone(&model.stage.memory);
    drop(model);
    assert_eq!(
        (memory.used(), memory.budget().used()),
        (0, 0),
        "all memory went back"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_stage_shows_what_was_written(actions in actions(40)) {
        run(&actions, 1 << 20);
    }

    /// One slab at most.
    #[test]
    fn so_does_one_with_hardly_any_memory(actions in actions(40)) {
        run(&actions, 8 << 10);
    }

    #[test]
    fn so_does_one_without_memory(actions in actions(40)) {
        run(&actions, 1 << 10);
    }
}

#[test]
fn a_small_sync_is_one_small_write_and_one_wait() {
    use crate::disk::recording::{Change, RecordingDisk};
    let mut container = Container::new();
    let recording = Arc::new(RecordingDisk::new(Arc::clone(&container.disk)));
    container.disk = Arc::clone(&recording) as Arc<dyn crate::disk::Disk>;
    let stage = container.stage(1 << 20);
    stage.write(WrittenArray(0), 0, &[1; 4096]).unwrap();
    assert!(
        recording.changes().is_empty(),
        "nothing is made before it must be"
    );
    stage.sync().unwrap();
    for step in 1..9 {
        let before = recording.changes().len();
        stage
            .write(WrittenArray(0), step * 4096, &[2; 4096])
            .unwrap();
        stage.sync().unwrap();
        stage.sync().unwrap();
        let changes = &recording.changes()[before..];
        let [
            Change::Put(_, _, bytes, _),
            Change::Sync(_, true),
            Change::Put(_, _, synced, _),
        ] = changes
        else {
            panic!("{changes:?}");
        };
        assert_eq!((bytes.len(), synced.len()), (4096 + 56, 40));
    }
}

#[test]
fn the_log_goes_when_what_was_synced_has_been_taken_back() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    let array = WrittenArray(0);
    let len = stage.len(array);
    stage.write(array, len, b"more").unwrap();
    stage.sync().unwrap();
    stage.tidy(&stage.alone(), &mut to_nobody).unwrap();
    assert!(container.log_path().exists() && !stage.is_clean());
    stage.set_len(array, len).unwrap();
    assert!(stage.is_clean());
    stage.tidy(&stage.alone(), &mut to_nobody).unwrap();
    assert!(!container.log_path().exists());
    stage.write(array, 0, b"again").unwrap();
    stage.sync().unwrap();
    assert!(container.log_path().exists());
}

#[test]
fn writes_that_follow_each_other_are_one_extent() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    for at in 0..1000 {
        stage
            .write(WrittenArray(0), at * 10, &[at as u8; 10])
            .unwrap();
    }
    let mut parts = Vec::new();
    stage.layers()[0].parts(WrittenArray(0), 0..10_000, &mut parts);
    assert_eq!(parts, [Part::Staged(0..10_000)]);
    assert!(stage.bytes_held() <= 32 << 10, "{}", stage.bytes_held());
    let held = stage.bytes_held();
    stage.write(WrittenArray(0), 500, &[9; 5000]).unwrap();
    assert_eq!(stage.bytes_held(), held, "in place");
    stage.set_len(WrittenArray(0), 0).unwrap();
    assert_eq!(stage.bytes_held(), 0);
}

/// Where they are takes more memory than the bytes, and the log does not help.
#[test]
fn small_writes_here_and_there_are_charged_and_bounded() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    let budget = Arc::clone(stage.memory.budget());
    let write = |number: u64| stage.write(WrittenArray(0), number * 16, &number.to_le_bytes());
    let refused = (0..1 << 20).find(|&number| write(number).is_err()).unwrap();
    assert!((80_000..140_000).contains(&refused), "{refused}");
    assert!(
        budget.used() >= 8 << 20,
        "{} bytes are charged",
        budget.used()
    );
    assert!(write(refused).unwrap_err().is_no_memory());
    assert!(stage.write_zeros(WrittenArray(0), 5..6).is_err());
    let bytes = container.read(0, &stage.layers());
    for number in [0, 1, refused / 2, refused - 1] {
        let at = 16 * number as usize;
        assert_eq!(bytes[at..][..8], number.to_le_bytes());
    }
    stage.freeze(&mut to_nobody).unwrap();
    let lens = [stage.len(WrittenArray(0)), stage.len(WrittenArray(1))];
    stage
        .committed(
            &stage.alone(),
            container.base.clone(),
            &lens,
            &mut to_nobody,
        )
        .unwrap();
    assert_eq!(budget.used(), 0);
    write(refused).unwrap();
}

#[test]
fn memory_comes_back_when_others_want_it() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    let budget = Arc::clone(stage.memory.budget());
    stage.write(WrittenArray(0), 0, &[7; 400 << 10]).unwrap();
    assert!(stage.memory.used() > 300 << 10);
    let hold = budget.reserve(1 << 20);
    assert_eq!((stage.bytes_held(), hold.bytes()), (0, 1 << 20));
    let mut bytes = vec![0; 400 << 10];
    stage.layers()[0]
        .read(WrittenArray(0), 0, &mut bytes)
        .unwrap();
    assert_eq!(bytes, [7; 400 << 10]);
}

#[test]
fn stages_together_hold_half_of_the_budget() {
    let (one, other) = (Container::new(), Container::new());
    let memory = one.memory(1 << 20);
    let stages = [&one, &other].map(|container| container.stage_with(&memory));
    for stage in &stages {
        stage.write(WrittenArray(1), 0, &[5; 1 << 20]).unwrap();
        let used = memory.used();
        assert!(
            used <= 512 << 10 && memory.budget().used() == used,
            "{used}"
        );
    }
}

#[test]
fn readers_and_writers_and_a_sync_and_a_want_of_memory_side_by_side() {
    let container = Container::new();
    let stage = container.stage(256 << 10);
    let budget = Arc::clone(stage.memory.budget());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stop = &stop;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|own| {
                let stage = &stage;
                scope.spawn(move || {
                    for step in 0..400u64 {
                        let at = (step * 7919 % 300) * 300 + own * 100;
                        stage
                            .write(WrittenArray(0), at, &[own as u8 + 1; 100])
                            .unwrap();
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                stage.sync().unwrap();
                drop(budget.reserve(200 << 10));
                stage.freeze(&mut to_nobody);
                stage.unfreeze(&mut to_nobody).unwrap();
            }
        });
        scope.spawn(|| {
            let mut bytes = [0; 300];
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for layer in stage.layers() {
                    layer.read(WrittenArray(0), 900, &mut bytes).unwrap();
                }
            }
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let shown = container.read(0, &stage.layers());
    for (at, byte) in shown.iter().enumerate().take(90_000) {
        assert_eq!(u64::from(*byte), at as u64 / 100 % 3 + 1, "{at}");
    }
}
