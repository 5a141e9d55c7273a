//! A disk that a crash may stop at any moment: what has reached it for good, and what has only been
//! asked for.
//!
//! As POSIX has it: a sync of a file says nothing of its name, one of a directory nothing of what
//! the files in it hold. Of what was not synced every part may be there or not, in any order; only
//! steps on the same name keep theirs. An exchange or a rename happens or does not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use super::image::{Image, Moment, StoredFile, trim};
use crate::disk::failing::TIME_OF_WRITES;
use crate::disk::recording::{Change, Of, Writer};
use crate::disk::{NewTime, Renaming};

/// The time of a write: one that is never recorded.
const SOME_TIME: Moment = (TIME_OF_WRITES.0, TIME_OF_WRITES.1 as u32);

/// Of a disk.
const SECTOR: u64 = 512;

#[derive(Debug, Clone)]
enum Step {
    /// Where, bytes without the zeros at their end, and how many with them.
    Data(u64, Vec<u8>, u64),
    /// A write beyond the end made the file so long.
    Grow(u64),
    Cut(u64),
    Mtime(Moment),
    Mode(u32),
}

impl Step {
    fn is_data(&self) -> bool {
        matches!(self, Step::Data(..))
    }

    /// Whether a sync of the data alone leaves it out.
    fn is_attribute(&self) -> bool {
        matches!(self, Step::Mtime(_) | Step::Mode(_))
    }

    /// Where it can be torn: at a sector near the middle.
    fn middle(&self) -> Option<u64> {
        let Step::Data(offset, _, len) = self else {
            return None;
        };
        let end = offset + len;
        let middle = (offset + end) / 2 / SECTOR * SECTOR;
        let middles = [middle, middle + SECTOR];
        middles.into_iter().find(|at| *at > *offset && *at < end)
    }
}

/// What of a step is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    Whole,
    First,
    Last,
    Nothing,
}

#[derive(Debug, Clone)]
enum NameStep {
    Set(OsString, usize),
    Remove(OsString),
    Exchange(OsString, OsString),
    Over(OsString, OsString),
}

impl NameStep {
    fn names(&self) -> Vec<&OsString> {
        match self {
            NameStep::Set(name, _) | NameStep::Remove(name) => vec![name],
            NameStep::Exchange(one, other) | NameStep::Over(one, other) => vec![one, other],
        }
    }

    fn meets(&self, other: &NameStep) -> bool {
        let others = other.names();
        self.names().iter().any(|name| others.contains(name))
    }

    fn apply(&self, names: &mut BTreeMap<OsString, usize>) {
        match self {
            NameStep::Set(name, file) => drop(names.insert(name.clone(), *file)),
            NameStep::Remove(name) => drop(names.remove(name)),
            NameStep::Over(from, to) => {
                let file = names.remove(from).unwrap();
                names.insert(to.clone(), file);
            }
            NameStep::Exchange(one, other) => {
                let (a, b) = (names[one], names[other]);
                names.insert(one.clone(), b);
                names.insert(other.clone(), a);
            }
        }
    }
}

struct SimulatedFile {
    durable: StoredFile,
    steps: Vec<Step>,
    /// As programs see it.
    len: u64,
    mtime: Moment,
    /// The time of a log means nothing.
    is_log: bool,
}

pub(super) struct SimulatedDisk {
    files: Vec<SimulatedFile>,
    /// As programs see them.
    names: BTreeMap<OsString, usize>,
    durable_names: BTreeMap<OsString, usize>,
    name_steps: Vec<NameStep>,
    writers: HashMap<Writer, usize>,
}

/// What of the steps that were not synced a crash leaves.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    files: Vec<Vec<Take>>,
    names: Vec<bool>,
}

/// Numbers that look like chance, the same every time.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn is_log(name: &OsStr) -> bool {
    name.to_str().unwrap().ends_with(".arrayfs-stage")
}

fn apply(file: &mut StoredFile, step: &Step, take: Take) {
    match (step, take) {
        (_, Take::Nothing) => {}
        (Step::Data(offset, bytes, len), take) => {
            let (at, len) = (*offset as usize, *len as usize);
            let middle = step.middle().map_or(len, |at| (at - offset) as usize);
            let part = match take {
                Take::First => 0..middle,
                Take::Last => middle..len,
                _ => 0..len,
            };
            let given = part.start.min(bytes.len())..part.end.min(bytes.len());
            let zeros = at + given.end.max(part.start)..at + part.end;
            if file.bytes.len() < at + given.end && !given.is_empty() {
                file.bytes.resize(at + given.end, 0);
            }
            if !given.is_empty() {
                file.bytes[at + given.start..at + given.end].copy_from_slice(&bytes[given]);
            }
            let there = file.bytes.len();
            file.bytes[zeros.start.min(there)..zeros.end.min(there)].fill(0);
        }
        (Step::Grow(len), _) => file.len = file.len.max(*len),
        (Step::Cut(len), _) => {
            file.bytes.truncate(*len as usize);
            file.len = *len;
        }
        (Step::Mtime(time), _) => file.mtime = *time,
        (Step::Mode(mode), _) => file.mode = *mode,
    }
}

impl SimulatedDisk {
    pub(super) fn new(image: &Image) -> SimulatedDisk {
        let mut disk = SimulatedDisk {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_steps: Vec::new(),
            writers: HashMap::new(),
        };
        for (name, file) in &image.files {
            disk.names.insert(name.clone(), disk.files.len());
            disk.files.push(SimulatedFile {
                durable: StoredFile::clone(file),
                steps: Vec::new(),
                len: file.len,
                mtime: file.mtime,
                is_log: is_log(name),
            });
        }
        disk.durable_names = disk.names.clone();
        disk
    }

    fn named(&self, path: &Path) -> usize {
        self.names[path.as_os_str()]
    }

    fn of(&self, of: &Of) -> usize {
        match of {
            Of::Named(path) => self.named(path),
            Of::Written(writer) => self.writers[writer],
            Of::Read(_) => panic!("a file that is only read is changed"),
        }
    }

    fn name_step(&mut self, step: NameStep) {
        step.apply(&mut self.names);
        self.name_steps.push(step);
    }

    fn put(&mut self, writer: Writer, offset: u64, bytes: &[u8]) {
        let file = &mut self.files[self.writers[&writer]];
        let (mut given, len) = (bytes.to_owned(), bytes.len() as u64);
        trim(&mut given);
        file.steps.push(Step::Data(offset, given, len));
        let end = offset + len;
        if end > file.len {
            file.steps.push(Step::Grow(end));
            file.len = end;
        }
        file.touch();
    }

    /// Does what was recorded.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Create(path, mode, writer) => {
                let number = self.files.len();
                self.files.push(SimulatedFile {
                    durable: StoredFile::empty(*mode, SOME_TIME),
                    steps: Vec::new(),
                    len: 0,
                    mtime: SOME_TIME,
                    is_log: is_log(path.as_os_str()),
                });
                self.writers.insert(*writer, number);
                self.name_step(NameStep::Set(path.as_os_str().to_owned(), number));
            }
            Change::Open(path, writer) => {
                self.writers.insert(*writer, self.named(path));
            }
            Change::Unlink(path) => self.name_step(NameStep::Remove(path.as_os_str().to_owned())),
            Change::Rename(from, to, how) => {
                let (from, to) = (from.as_os_str().to_owned(), to.as_os_str().to_owned());
                self.name_step(match how {
                    Renaming::Exchange => NameStep::Exchange(from, to),
                    Renaming::Over | Renaming::NoReplace => NameStep::Over(from, to),
                });
            }
            // The time of the directory means nothing.
            Change::SetAttributes(Of::Named(path), _) if path.as_os_str().is_empty() => {}
            Change::SetAttributes(of, to) => {
                let number = self.of(of);
                let file = &mut self.files[number];
                // The time at which a file was read means nothing.
                assert!(to.uid.is_none() && to.gid.is_none());
                file.steps.extend(to.mode.map(Step::Mode));
                if let Some(NewTime::At(time)) = to.mtime {
                    file.mtime = (time.secs, time.nanos);
                    file.steps.push(Step::Mtime(file.mtime));
                }
            }
            Change::Put(writer, offset, bytes, how) => {
                assert!(!how.append);
                self.put(*writer, *offset, bytes);
            }
            Change::Copy(writer, offset, bytes) => self.put(*writer, *offset, bytes),
            Change::SetLen(writer, len) => {
                let file = &mut self.files[self.writers[writer]];
                if *len != file.len {
                    file.steps.push(Step::Cut(*len));
                    file.len = *len;
                }
                file.touch();
            }
            Change::Allocate(writer, what) => {
                // No bytes, no length: a modification all the same.
                assert_eq!(what.mode, libc::FALLOC_FL_KEEP_SIZE.cast_unsigned());
                self.files[self.writers[writer]].touch();
            }
            Change::Sync(Of::Named(path), _) if path.as_os_str().is_empty() => {
                self.durable_names = self.names.clone();
                self.name_steps.clear();
            }
            Change::Sync(of, data) => {
                let number = self.of(of);
                self.files[number].sync(*data);
            }
            Change::SyncNamed(file, directory) => {
                self.apply(&Change::Sync(file.clone(), false));
                self.apply(&Change::Sync(directory.clone(), false));
            }
            other => panic!("not simulated: {other:?}"),
        }
    }

    /// What a crash now may leave, some of all that it may: nothing or all of what was not synced,
    /// each step alone, each left out, each torn, names and files apart, and some by chance.
    pub(super) fn choices(&self, random: &mut Random) -> Vec<Choice> {
        let mut choices = Vec::new();
        let kinds: [fn(&Step) -> bool; 4] =
            [|_| true, |_| false, Step::is_data, |step| !step.is_data()];
        let names = self.name_choices(random);
        for names in &names {
            for kind in kinds {
                choices.push(self.choice(names, |_, step| match kind(step) {
                    true => Take::Whole,
                    false => Take::Nothing,
                }));
            }
        }
        let all = vec![true; self.name_steps.len()];
        let none = vec![false; self.name_steps.len()];
        for (number, file) in self.files.iter().enumerate() {
            for (at, step) in file.steps.iter().enumerate() {
                for names in [&all, &none] {
                    let parts: &[Take] = match step.middle() {
                        Some(_) => &[Take::First, Take::Last],
                        None => &[],
                    };
                    for (rest, take) in [(Take::Whole, Take::Nothing), (Take::Nothing, Take::Whole)]
                    {
                        for take in parts.iter().copied().chain([take]) {
                            let mut choice = self.choice(names, |_, _| rest);
                            choice.files[number][at] = take;
                            choices.push(choice);
                        }
                    }
                }
            }
        }
        if !self.is_synced() {
            for _ in 0..RANDOM {
                let names = names[random.next() as usize % names.len()].clone();
                choices.push(self.choice(&names, |_, step| match random.next() % 8 {
                    0 if step.middle().is_some() => Take::First,
                    1 if step.middle().is_some() => Take::Last,
                    0..4 => Take::Nothing,
                    _ => Take::Whole,
                }));
            }
        }
        choices
    }

    fn is_synced(&self) -> bool {
        self.name_steps.is_empty() && self.files.iter().all(|file| file.steps.is_empty())
    }

    fn choice(&self, names: &[bool], mut take: impl FnMut(usize, &Step) -> Take) -> Choice {
        let files = self.files.iter().enumerate();
        let mut taken = |(number, file): (usize, &SimulatedFile)| {
            let steps = file.steps.iter();
            steps.map(|step| take(number, step)).collect()
        };
        Choice {
            files: files.map(&mut taken).collect(),
            names: names.to_vec(),
        }
    }

    /// Which steps on names may have happened together: all there are, if they are few; else those
    /// up to each, each alone, each left out, and some by chance.
    fn name_choices(&self, random: &mut Random) -> Vec<Vec<bool>> {
        let n = self.name_steps.len();
        assert!(n <= 20, "{n} names are not synced");
        let closed = |bits: &u32| {
            (0..n).all(|later| {
                let taken = |at: usize| bits >> at & 1 == 1;
                let meets = |at: &usize| self.name_steps[*at].meets(&self.name_steps[later]);
                !taken(later) || (0..later).filter(meets).all(taken)
            })
        };
        let all = (1u32 << n) - 1;
        let sets: BTreeSet<u32> = match n <= FEW_NAMES {
            true => (0..=all).collect(),
            false => {
                let each = (0..n).flat_map(|at| [1 << at, all & !(1 << at), (1 << at) - 1]);
                let by_chance = (0..RANDOM).map(|_| random.next() as u32 & all);
                let by_chance: Vec<u32> = by_chance.collect();
                each.chain(by_chance).chain([0, all]).collect()
            }
        };
        let sets = sets.into_iter().rev().filter(closed);
        sets.map(|bits| (0..n).map(|at| bits >> at & 1 == 1).collect())
            .collect()
    }

    pub(super) fn image(&self, choice: &Choice) -> Image {
        let mut names = self.durable_names.clone();
        for (step, taken) in self.name_steps.iter().zip(&choice.names) {
            if *taken {
                step.apply(&mut names);
            }
        }
        let mut image = Image::default();
        for (name, number) in names {
            let file = &self.files[number];
            let mut stored = file.durable.clone();
            for (step, take) in file.steps.iter().zip(&choice.files[number]) {
                apply(&mut stored, step, *take);
            }
            stored.trim();
            image.files.insert(name, Arc::new(stored));
        }
        image
    }

    /// For the message of a failure.
    pub(super) fn describe(&self, choice: &Choice) -> String {
        let mut text = String::new();
        for (step, taken) in self.name_steps.iter().zip(&choice.names) {
            text += &format!("  {taken}: {step:?}\n");
        }
        for (file, takes) in self.files.iter().zip(&choice.files) {
            text += &format!(
                "  file of {} bytes, log: {}\n",
                file.durable.len, file.is_log
            );
            for (step, take) in file.steps.iter().zip(takes) {
                let shown = match step {
                    Step::Data(at, _, len) => format!("{len} bytes at {at}"),
                    step => format!("{step:?}"),
                };
                text += &format!("    {take:?}: {shown}\n");
            }
        }
        text
    }
}

/// Of so many steps on names every set is looked at.
const FEW_NAMES: usize = 5;

/// Choices by chance at each point.
const RANDOM: usize = 8;

impl SimulatedFile {
    fn touch(&mut self) {
        if self.mtime != SOME_TIME && !self.is_log {
            self.mtime = SOME_TIME;
            self.steps.push(Step::Mtime(SOME_TIME));
        }
    }

    fn sync(&mut self, data: bool) {
        let (left, done) = std::mem::take(&mut self.steps)
            .into_iter()
            .partition(|step| data && step.is_attribute());
        self.steps = left;
        for step in done {
            apply(&mut self.durable, &step, Take::Whole);
        }
        self.durable.trim();
    }
}
