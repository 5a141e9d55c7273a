//! Crashes: whatever of a scenario has reached the disk, recovery makes a whole container of it,
//! that holds what was synced.
//!
//! A scenario ([`scenarios`]) is carried out once, on a disk that writes down what is done to it
//! ([`session`]). After each of these changes, [`simulated`] says what a crash may have left; each
//! such state is put into a directory, read, recovered and checked ([`examine`]). Recovery is a
//! scenario itself: of some states, every point of it is a crash again.

mod datasets;
mod examine;
mod failing;
mod foreign;
mod forged;
mod image;
mod matrices;
mod plain;
mod resumed;
mod returned;
mod runs;
mod scenarios;
mod session;
mod simulated;
mod subject;
mod syncs;
mod torn;
mod user_block;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use examine::{Recovered, examine};
use image::Image;
use scenarios::{SCENARIOS, Scenario};
use session::{Session, THEIRS};
use simulated::{Choice, Random, SimulatedDisk};
use subject::Subject;

use crate::commit::Preference;
use crate::disk::recording::{Change, Sharing};
use crate::sync::Mutex;

/// Of the states of a scenario, so many are recovered with crashes: of one file, and of several,
/// whose recovery takes more steps.
const RECOVERIES: usize = 40;
const RECOVERIES_OF_SEVERAL: usize = 15;

/// Set to anything but nothing, every state is tried; a sample else.
const WHOLE: &str = "ARRAYFS_TEST_WHOLE";

/// Which sample it is: another one in each run, unless this is set.
const SEED: &str = "ARRAYFS_TEST_SEED";

/// Of states, one in so many is tried.
fn one_in() -> usize {
    if_sampled(60)
}

/// Of what crashes leave of a recovery, one in so many: there is much of it for each state.
fn one_in_of_recoveries() -> usize {
    if_sampled(10)
}

/// `sample`, unless all is tried.
fn if_sampled(sample: usize) -> usize {
    match std::env::var_os(WHOLE) {
        Some(set) if !set.is_empty() => 1,
        _ => sample,
    }
}

fn run_seed() -> usize {
    static RUN: LazyLock<usize> = LazyLock::new(|| match std::env::var(SEED) {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => now_in_nanoseconds(),
    });
    *RUN
}

fn now_in_nanoseconds() -> usize {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.subsec_nanos() as usize)
}

/// A state that crashes leave, and what its array may hold: from so many edits to so many.
struct State {
    image: Image,
    bounds: BTreeSet<(usize, usize)>,
    /// The crash that was found first: after so many changes.
    at: usize,
    choice: Choice,
}

impl State {
    fn describe(&self, before: &Image, changes: &[Change]) -> String {
        let mut disk = SimulatedDisk::new(before);
        changes[..self.at]
            .iter()
            .for_each(|change| disk.apply(change));
        let left = self.image.names();
        format!(
            "after {} changes, {left:?} is left:\n{}",
            self.at,
            disk.describe(&self.choice)
        )
    }
}

/// All states that crashes among these changes leave, and those of a disk that they are made to.
fn states(
    before: &Image,
    changes: &[Change],
    bounds: impl Fn(usize) -> (usize, usize),
) -> Vec<State> {
    let (mut states, mut known) = (Vec::<State>::new(), HashMap::new());
    let (mut disk, mut random) = (SimulatedDisk::new(before), Random(0x9E37_79B9_7F4A_7C15));
    for at in 0..=changes.len() {
        if at > 0 {
            disk.apply(&changes[at - 1]);
        }
        for choice in disk.choices(&mut random) {
            let image = disk.image(&choice);
            let number = *known.entry(image).or_insert_with_key(|image| {
                states.push(State {
                    image: image.clone(),
                    bounds: BTreeSet::new(),
                    at,
                    choice: choice.clone(),
                });
                states.len() - 1
            });
            states[number].bounds.insert(bounds(at));
        }
    }
    states
}

/// Calls for each number below `n`, on all processors; gives what came out, in order.
fn on_all_processors<T: Send>(n: usize, call: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|threads| {
        for _ in 0..processors {
            threads.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= n {
                        return;
                    }
                    let result = call(number);
                    done.lock().insert(number, result);
                }
            });
        }
    });
    done.into_inner().into_values().collect()
}

/// What is the matter with what came of a state, if anything is.
fn judge(
    recovered: &Recovered,
    allowed: &[&BTreeSet<Vec<u8>>],
    session: &Session,
) -> Result<(), String> {
    let (shown, read_only) = (&recovered.shown, &recovered.read_only);
    if shown != read_only {
        return Err("who only reads is shown something else".into());
    }
    let (before, first_file) = (&session.before, session.subject.first_file);
    // Arrays that do not agree yet: the log has what is staged.
    let is_staged = session.subject.arrays.len() > 1 && !recovered.stays.is_empty();
    if !recovered.stays.is_empty() && !is_staged {
        return Err(format!("stays staged: {:?}", recovered.stays));
    }
    if allowed.iter().any(|allowed| !allowed.contains(shown)) {
        return Err(format!(
            "{} bytes that must not be: {}",
            shown.len(),
            difference(shown, allowed)
        ));
    }
    let mut left = recovered.left.names();
    let logs = ["stage", "next"].map(|kind| format!(".{first_file}.arrayfs-{kind}"));
    let may_be = |name: &String| session.subject.makes.contains(&&**name) || name == THEIRS;
    left.retain(|name| !(may_be(name) || (is_staged && logs.contains(name))));
    if left != before.names() {
        return Err(format!("{left:?} is left"));
    }
    let mode = |image: &Image, name: &str| image.files[std::ffi::OsStr::new(name)].mode;
    let is_kept = |name: &&String| mode(&recovered.left, name) == mode(before, name);
    match left.iter().find(|name| !is_kept(name)) {
        None => Ok(()),
        Some(name) => Err(format!("mode {:o} of {name}", mode(&recovered.left, name))),
    }
}

fn difference(shown: &[u8], allowed: &[&BTreeSet<Vec<u8>>]) -> String {
    let mut text = String::new();
    for one in allowed.iter().flat_map(|allowed| allowed.iter()) {
        let differs = |at: &usize| one.get(*at) != shown.get(*at);
        let at: Vec<usize> = (0..one.len().max(shown.len())).filter(differs).collect();
        text += &format!(
            "{} of {} differ from {:?} ",
            at.len(),
            one.len(),
            at.first()
        );
    }
    text
}

/// A scenario with one container, committed in one way.
struct Run {
    subject: &'static Subject,
    scenario: &'static Scenario,
    sample: &'static str,
    way: Preference,
    sharing: Sharing,
}

#[derive(Default)]
struct Tally {
    states: usize,
    of_recoveries: usize,
    /// All of them, to count each once.
    known: HashSet<Image>,
    /// Those that recoveries left, with what must be shown.
    judged: HashSet<(Image, Vec<u8>)>,
    failures: usize,
    /// What went wrong, with one crash each.
    kinds: BTreeMap<String, String>,
}

impl Tally {
    fn fail(&mut self, why: &str, crash: impl FnOnce() -> String) {
        self.failures += 1;
        let digits: &[_] = &['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];
        let kind = why.replace(digits, "");
        self.kinds
            .entry(kind)
            .or_insert_with(|| format!("{why}: {}", crash()));
    }
}

impl Run {
    fn name(&self) -> String {
        let (name, sample, way) = (self.scenario.name, self.sample, self.way);
        format!("{name}, {sample}, {way:?}, sharing: {:?}", self.sharing)
    }

    fn session(&self, code: i32) -> Arc<Session> {
        Session::on((self.subject, self.sample), self.way, code, self.sharing)
    }

    fn crash(&self) -> Tally {
        let session = self.session(libc::EIO);
        (self.scenario.act)(&session);
        let changes = session.disk.changes();
        let done = session.done.lock();
        assert_eq!(
            done.errors.len(),
            self.scenario.errors,
            "{}: {:?}",
            self.scenario.name,
            done.errors
        );
        let mut states = states(&session.before, &changes, |at| done.bounds(at));
        self.sample(&mut states, (one_in(), run_seed()));
        let bounds: BTreeSet<(usize, usize)> = states
            .iter()
            .flat_map(|state| state.bounds.iter().copied())
            .collect();
        let contents: BTreeMap<_, _> = bounds
            .into_iter()
            .map(|bounds| (bounds, done.allowed(&session.first, bounds)))
            .collect();
        let found = on_all_processors(states.len(), |number| {
            let state = &states[number];
            let recovered = examine(self.subject, &state.image, self.way)?;
            let allowed: Vec<_> = state
                .bounds
                .iter()
                .map(|bounds| &contents[bounds])
                .collect();
            judge(&recovered, &allowed, &session)?;
            Ok::<_, String>(recovered)
        });
        let mut tally = Tally {
            states: states.len(),
            known: states.iter().map(|state| state.image.clone()).collect(),
            ..Tally::default()
        };
        let recoveries = match self.subject.arrays.len() {
            1 => RECOVERIES,
            _ => RECOVERIES_OF_SEVERAL,
        };
        let every = states.len().div_ceil(recoveries.div_ceil(one_in())).max(1);
        for (number, (state, recovered)) in states.iter().zip(&found).enumerate() {
            match recovered {
                Err(e) => {
                    let crash = || state.describe(&session.before, &changes);
                    tally.fail(e, crash);
                }
                Ok(recovered) if number % every == every / 2 => {
                    self.crash_recovery(&session, state, recovered, &mut tally);
                }
                Ok(_) => {}
            }
        }
        tally
    }

    /// Keeps one in so many, others of each scenario and for each seed.
    fn sample<T>(&self, of: &mut Vec<T>, (one_in, seed): (usize, usize)) {
        let hash = crc32fast::hash(self.name().as_bytes()) as usize;
        let mut number = hash.wrapping_add(seed) % one_in;
        of.retain(|_| {
            number += 1;
            number.is_multiple_of(one_in)
        });
    }

    /// Whatever is shown after a recovery that was cut short is what was shown before.
    fn crash_recovery(
        &self,
        session: &Session,
        state: &State,
        first: &Recovered,
        tally: &mut Tally,
    ) {
        let mut states = states(&state.image, &first.changes, |_| (0, 0));
        // Recoveries of alike states are alike, but for how they begin.
        states.retain(|again| {
            let judged = (again.image.clone(), first.shown.clone());
            tally.judged.insert(judged)
        });
        // Of the seed what the sample of the states has left.
        let seed = run_seed() / one_in();
        self.sample(&mut states, (one_in_of_recoveries(), seed));
        let allowed = BTreeSet::from([first.shown.clone()]);
        let found = on_all_processors(states.len(), |number| {
            let image = &states[number].image;
            judge(
                &examine(self.subject, image, self.way)?,
                &[&allowed],
                session,
            )
        });
        for (again, judged) in states.iter().zip(found) {
            if let Err(e) = judged {
                let crash = || again.describe(&state.image, &first.changes);
                tally.fail(&format!("in recovery: {e}"), crash);
            }
        }
        let images = states.into_iter().map(|again| again.image);
        let new = images.filter(|image| tally.known.insert(image.clone()));
        tally.of_recoveries += new.count();
    }
}

fn all_runs() -> impl Iterator<Item = Run> {
    runs_of(SCENARIOS)
}

fn runs_of(scenarios: &'static [Scenario]) -> impl Iterator<Item = Run> {
    let each = scenarios.iter().flat_map(|scenario| {
        let samples = scenario.samples.iter();
        samples.flat_map(move |sample| scenario.ways.iter().map(move |way| (scenario, sample, way)))
    });
    each.flat_map(|(scenario, sample, &way)| {
        let run = move |sharing| Run {
            subject: scenario.subject,
            scenario,
            sample,
            way,
            sharing,
        };
        let is_first = |of: &'static [&str]| Some(sample) == of.first();
        let others = match way {
            _ if scenario.shares && is_first(scenario.samples) => {
                &[Sharing::Works, Sharing::Fails][..]
            }
            Preference::Replace if scenario.name == SCENARIOS[0].name => {
                &[Sharing::Works, Sharing::Fails][..]
            }
            Preference::Replace if is_first(scenario.samples) => &[Sharing::Works],
            _ => &[],
        };
        std::iter::once(run(Sharing::Unknown)).chain(others.iter().map(move |how| run(*how)))
    })
}

#[test]
fn whatever_a_crash_leaves_becomes_a_whole_container() {
    let total = crash_all(all_runs().filter(|run| !run.scenario.foreign));
    assert!(total * one_in() >= 10_000, "{total}");
}

#[test]
fn whatever_a_crash_leaves_of_several_files_becomes_a_whole_container() {
    let total = crash_all(runs_of(matrices::SCENARIOS));
    assert!(total * one_in() >= 10_000, "{total}");
}

#[test]
fn whatever_a_crash_leaves_of_several_files_changed_in_place_becomes_a_whole_container() {
    let total = crash_all(runs_of(matrices::SCENARIOS_IN_PLACE));
    assert!(total * one_in() >= 4_000, "{total}");
}

#[test]
fn whatever_a_crash_leaves_of_arrays_that_lie_as_they_are_becomes_a_whole_container() {
    let total = crash_all(runs_of(plain::SCENARIOS));
    assert!(total * one_in() >= 8_000, "{total}");
}

#[test]
fn whatever_a_crash_leaves_of_arrays_written_in_sequence_becomes_a_whole_container() {
    let total = crash_all(runs_of(runs::SCENARIOS));
    assert!(total * one_in() >= 10_000, "{total}");
}

#[test]
fn whatever_a_crash_leaves_of_a_next_file_that_was_given_back_becomes_a_whole_container() {
    crash_all(runs_of(runs::GIVEN_BACK));
}

#[test]
fn whatever_a_crash_leaves_of_an_hdf5_file_becomes_a_whole_container() {
    let total = crash_all(runs_of(datasets::SCENARIOS));
    assert!(total * one_in() >= 10_000, "{total}");
}

/// Says how many states there were, all of which recovery copes with.
fn crash_all(runs: impl Iterator<Item = Run>) -> usize {
    let (mut total, mut failed, began) = (0, 0, Instant::now());
    println!("the sample of {SEED}={}", run_seed());
    for run in runs {
        let tally = run.crash();
        println!(
            "{:5} states, {:5} of recoveries, {:4} failures: {}",
            tally.states,
            tally.of_recoveries,
            tally.failures,
            run.name()
        );
        tally
            .kinds
            .values()
            .for_each(|failure| println!("  FAILED {failure}"));
        total += tally.states + tally.of_recoveries;
        failed += tally.failures;
    }
    println!(
        "{total} crash states in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    assert_eq!(failed, 0, "states that recovery does not cope with");
    total
}
