//! Names of directories that are being listed, kept from one step to the next.
//!
//! Only a saving: without it every step would read the directory anew, and come to the same
//! ([`super::cookie`]). Bounded in memory; a directory with more names than may be kept is read
//! again for each run of them. A step may go on with any names that were read after its listing
//! began: so a listing that begins makes those that were kept useless. Used by `listing`.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use super::inode::InodeId;
use crate::error::Result;
use crate::live::shown::cookie::{Cookie, NameHash, Numbering};
use crate::memory::budget::{Budget, Hold};
use crate::memory::set_aside;
use crate::source::FileKind;
use crate::sync::Mutex;

/// Bytes of one run of names, and of all that are kept.
const RUN: usize = 4 << 20;
const ALL: usize = 8 << 20;
/// Bytes of names that are charged at once while a run is made, but for the first.
const CHARGED: usize = 256 << 10;
/// Directories that are being listed.
const DIRECTORIES: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// About what a name takes beside its bytes.
const OVERHEAD: usize = 80;

/// A name in a directory of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameFound {
    pub(super) at: Cookie,
    pub(super) name: OsString,
    /// What the directory says that it is.
    pub(super) kind: FileKind,
}

/// The names of a directory from one place to another, in order.
pub(super) struct NameRun {
    after: Cookie,
    pub(super) names: Vec<NameFound>,
    /// Names of this hash and later ones are not in the run.
    cut: Option<NameHash>,
    weight: usize,
}

impl NameRun {
    /// Whether it has every name that follows this place up to its end, and is not at its end.
    fn leads_on_from(&self, place: Cookie) -> bool {
        self.after <= place && self.cut.is_none_or(|cut| place.hash() < cut) && {
            let last = self.names.last();
            self.cut.is_none() || last.is_some_and(|last| place < last.at)
        }
    }

    /// Whether it leads to the end of the directory.
    pub(super) fn is_last(&self) -> bool {
        self.cut.is_none()
    }
}

/// Takes names in any order and makes a run of those that come first: as many as there is memory
/// for.
pub(super) struct RunBuilder<'b> {
    budget: &'b Arc<Budget>,
    holds: Vec<Hold>,
    after: Cookie,
    names: Vec<(NameHash, OsString, FileKind)>,
    cut: Option<NameHash>,
    weight: usize,
    most: usize,
}

impl<'b> RunBuilder<'b> {
    pub(super) fn new(after: Cookie, budget: &'b Arc<Budget>) -> Self {
        RunBuilder {
            budget,
            holds: Vec::new(),
            after,
            names: Vec::new(),
            cut: None,
            weight: 0,
            most: RUN,
        }
    }

    pub(super) fn add(&mut self, name: &OsStr, kind: FileKind) {
        let hash = NameHash::of(name);
        if hash < self.after.hash() || self.cut.is_some_and(|cut| hash >= cut) {
            return;
        }
        let weight = OVERHEAD + name.len();
        if self.weight + weight > 2 * self.most || !self.has_room(weight) {
            self.shorten();
            if self.cut.is_some_and(|cut| hash >= cut) {
                return;
            }
        }
        self.weight += weight;
        self.names.push((hash, name.to_owned(), kind));
    }

    /// Whether there is memory for one more name.
    fn has_room(&mut self, weight: usize) -> bool {
        if self.weight + weight > CHARGED * (1 + self.holds.len()) {
            match self.budget.try_reserve(CHARGED as u64) {
                Some(hold) => self.holds.push(hold),
                None => return false,
            }
        }
        self.names.try_reserve(1).is_ok()
    }

    /// The later half goes; names of one hash stay together.
    fn shorten(&mut self) {
        let half = self.names.len() / 2;
        if half == 0 {
            return;
        }
        let (_, (cut, ..), _) = self.names.select_nth_unstable(half);
        let cut = *cut;
        self.names.retain(|(hash, ..)| *hash < cut);
        self.cut = Some(cut);
        let names = self.names.iter();
        self.weight = names.map(|(_, name, _)| OVERHEAD + name.len()).sum();
    }

    pub(super) fn build(self) -> Result<NameRun> {
        let room = self.names.len() * size_of::<NameFound>();
        set_aside(room as u64, "cannot list a directory", || self.built())
    }

    fn built(mut self) -> NameRun {
        self.names.sort_unstable();
        let mut numbering = Numbering::default();
        let numbered = self.names.into_iter().map(|(hash, name, kind)| NameFound {
            at: numbering.next(hash),
            name,
            kind,
        });
        NameRun {
            names: numbered.filter(|name| name.at > self.after).collect(),
            after: self.after,
            cut: self.cut,
            weight: self.weight,
        }
    }
}

/// When a directory was read, in the order of such moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

pub(super) struct ListingCache {
    state: Mutex<KeptRuns>,
}

struct KeptRuns {
    directories: LruCache<InodeId, ListedDirectory>,
    weight: usize,
    now: u64,
}

struct ListedDirectory {
    /// When the last listing began: no run is older.
    begun: Moment,
    runs: Vec<Arc<NameRun>>,
}

impl Default for ListingCache {
    fn default() -> Self {
        ListingCache {
            state: Mutex::new(KeptRuns {
                directories: LruCache::new(DIRECTORIES),
                weight: 0,
                now: 0,
            }),
        }
    }
}

impl ListingCache {
    /// A run to go on with from this place.
    pub(super) fn find(&self, directory: InodeId, place: Cookie) -> Option<Arc<NameRun>> {
        let mut state = self.state.lock();
        let runs = &state.directories.get(&directory)?.runs;
        let mut fitting = runs.iter().filter(|run| run.leads_on_from(place));
        fitting.next().map(Arc::clone)
    }

    /// Must be asked before the directory is read. `anew`: a listing begins.
    pub(super) fn moment(&self, directory: InodeId, anew: bool) -> Moment {
        let mut state = self.state.lock();
        state.now += 1;
        let moment = Moment(state.now);
        if anew || state.directories.get(&directory).is_none() {
            let begun = ListedDirectory {
                begun: moment,
                runs: Vec::new(),
            };
            state.replace(directory, begun);
        }
        moment
    }

    /// Keeps a run that was read at that moment, unless a listing began after it.
    pub(super) fn keep(&self, directory: InodeId, read: Moment, run: &Arc<NameRun>) {
        let mut state = self.state.lock();
        let Some(listed) = state.directories.get_mut(&directory) else {
            return;
        };
        if listed.begun <= read {
            listed.runs.push(Arc::clone(run));
            state.weight += run.weight;
            state.shrink(directory);
        }
    }

    /// A listing has come to its end, or the directory has been forgotten.
    pub(super) fn forget(&self, directory: InodeId) {
        let mut state = self.state.lock();
        if let Some(gone) = state.directories.pop(&directory) {
            state.weight -= gone.weight();
        }
    }
}

impl KeptRuns {
    fn replace(&mut self, directory: InodeId, begun: ListedDirectory) {
        if let Some((_, old)) = self.directories.push(directory, begun) {
            self.weight -= old.weight();
        }
    }

    /// The directories listed longest ago go first, then this one's oldest runs.
    fn shrink(&mut self, current: InodeId) {
        while self.weight > ALL {
            match self.directories.peek_lru() {
                Some((&oldest, _)) if oldest != current => {
                    if let Some((_, gone)) = self.directories.pop_lru() {
                        self.weight -= gone.weight();
                    }
                }
                _ => break,
            }
        }
        if let Some(listed) = self.directories.get_mut(&current) {
            while self.weight > ALL && listed.runs.len() > 1 {
                self.weight -= listed.runs.remove(0).weight;
            }
        }
    }
}

impl ListedDirectory {
    fn weight(&self) -> usize {
        self.runs.iter().map(|run| run.weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(after: Cookie, most: usize, names: &[String]) -> NameRun {
        build_within(&Budget::new(1 << 20), after, most, names)
    }

    fn build_within(budget: &Arc<Budget>, after: Cookie, most: usize, names: &[String]) -> NameRun {
        let mut builder = RunBuilder::new(after, budget);
        builder.most = most;
        let file = FileKind::File;
        names
            .iter()
            .for_each(|name| builder.add(OsStr::new(name), file));
        builder.build().unwrap()
    }

    fn many() -> Vec<String> {
        (0..1000).map(|number| format!("name-{number}")).collect()
    }

    #[test]
    fn runs_of_bounded_size_follow_each_other_to_the_end() {
        let names = many();
        let whole = build(Cookie::START, RUN, &names);
        assert!(whole.is_last() && whole.names.len() == names.len());
        let (mut place, mut found) = (Cookie::START, Vec::new());
        for steps in 1.. {
            let run = build(place, 100 * OVERHEAD, &names);
            assert!(run.weight <= 200 * (OVERHEAD + 8) && !run.names.is_empty());
            found.extend(run.names.clone());
            place = found.last().unwrap().at;
            if run.is_last() {
                assert!(steps > 5);
                break;
            }
            assert!(run.leads_on_from(run.names[0].at));
            assert!(!run.leads_on_from(place), "it has nothing more");
        }
        assert_eq!(found, whole.names);
    }

    #[test]
    fn a_run_is_as_long_as_the_budget_has_memory_for() {
        let names: Vec<String> = (0..20_000).map(|number| format!("{number:0100}")).collect();
        let longest = |limit| build_within(&Budget::new(limit), Cookie::START, RUN, &names);
        let (whole, short) = (longest(16 << 20), longest(1 << 20));
        assert!(whole.is_last() && !short.is_last());
        assert!(short.weight <= (1 << 20) + CHARGED, "{}", short.weight);
        assert!(short.names.len() > 1000, "{}", short.names.len());
        assert_eq!(short.names, whole.names[..short.names.len()]);
    }

    #[test]
    fn a_run_leads_on_from_where_it_begins_and_not_from_before() {
        let names = many();
        let whole = build(Cookie::START, RUN, &names);
        let place = whole.names[500].at;
        let run = build(place, RUN, &names);
        assert_eq!(run.names, whole.names[501..]);
        assert!(run.leads_on_from(place) && run.leads_on_from(whole.names[999].at));
        assert!(!run.leads_on_from(whole.names[499].at));
        assert!(build(whole.names[999].at, RUN, &names).names.is_empty());
    }

    #[test]
    fn who_begins_a_listing_gets_nothing_that_is_older() {
        let kept = ListingCache::default();
        let run = |weight| {
            let mut run = build(Cookie::START, RUN, &many());
            run.weight = weight;
            Arc::new(run)
        };
        let directory = InodeId(7);
        let early = kept.moment(directory, true);
        let late = kept.moment(directory, true);
        kept.keep(directory, early, &run(1));
        assert!(kept.find(directory, Cookie::START).is_none());
        kept.keep(directory, late, &run(1));
        assert!(kept.find(directory, Cookie::START).is_some());
        assert!(kept.find(InodeId(8), Cookie::START).is_none());
        kept.moment(directory, true);
        assert!(kept.find(directory, Cookie::START).is_none());
        kept.keep(directory, late, &run(1));
        kept.forget(directory);
        kept.keep(directory, late, &run(1));
        assert!(kept.find(directory, Cookie::START).is_none());
        assert_eq!(kept.state.lock().weight, 0);
    }

    #[test]
    fn those_listed_longest_ago_go_first() {
        let kept = ListingCache::default();
        let heavy = || {
            let mut run = build(Cookie::START, RUN, &many());
            run.weight = ALL / 2;
            Arc::new(run)
        };
        for number in 2..6 {
            let moment = kept.moment(InodeId(number), true);
            kept.keep(InodeId(number), moment, &heavy());
        }
        let there = [2, 3, 4, 5].map(|n| kept.find(InodeId(n), Cookie::START).is_some());
        assert_eq!(there, [false, false, true, true]);
        let moment = kept.moment(InodeId(5), false);
        (0..3).for_each(|_| kept.keep(InodeId(5), moment, &heavy()));
        let state = kept.state.lock();
        assert!(state.weight <= ALL, "{}", state.weight);
        assert_eq!(state.directories.peek(&InodeId(5)).unwrap().runs.len(), 2);
    }
}
