//! Commits that no program waits for: which are to be made, and when.
//!
//! A commit that takes long goes on after the close that began it, and a container whose commits
//! are slow rests for a while, so that one commit does the work of many closes. Each of the two
//! kinds has threads of its own, so that neither waits for the other; a container is committed by
//! one of them at a time. This module says when; [`super::later`] makes them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ending::MountEnd;
use crate::commit::CommitLimits;
use crate::error::{Error, Result};
use crate::live::places::ContainerId;
use crate::live::version::ContainerVersion;
use crate::live::writing::LayeredContainer;
use crate::patience::{self, BETWEEN_LOOKS};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// How long programs that close files may wait for commits.
#[derive(Debug, Clone, Copy)]
pub struct Pacing {
    /// What a commit may do while a program waits for it.
    pub limits: CommitLimits,
    /// A commit that takes longer is slow,
    pub slow: Duration,
    /// and its container rests for so many times as long.
    pub rest: u32,
    /// A commit that copies more bytes, and more than it writes, is put off.
    pub copied: u64,
    /// Changes that were closed meanwhile are committed so long after the last close.
    pub quiet: Duration,
}

impl Default for Pacing {
    fn default() -> Pacing {
        Pacing {
            limits: CommitLimits::default(),
            // Tests do not depend on time.
            slow: match cfg!(test) {
                true => Duration::MAX,
                false => Duration::from_millis(50),
            },
            rest: 10,
            // As long as the syncs of a commit take.
            copied: 1 << 20,
            quiet: Duration::from_secs(2),
        }
    }
}

/// Why a commit is made later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Later {
    /// The last one was slow.
    PutOff,
    /// It does more than a program is made to wait for.
    Large,
}

impl Later {
    /// Threads that make such commits. When one of those that were put off is made was promised: it
    /// does not wait for another container's that takes long.
    pub fn threads(self) -> usize {
        match self {
            Later::PutOff => 4,
            Later::Large => 1,
        }
    }
}

/// When a container was committed last, and how long that took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastCommit {
    pub(crate) ended: Instant,
    pub(crate) took: Duration,
}

impl LastCommit {
    /// Whether another one would come too soon.
    pub(crate) fn rests(&self, by: &Pacing) -> bool {
        self.took > by.slow && self.ended.elapsed() < self.took.saturating_mul(by.rest)
    }
}

#[derive(Default)]
pub(crate) struct DueCommits {
    list: Mutex<DueList>,
    changed: Condvar,
    ending: Arc<MountEnd>,
}

#[derive(Default)]
struct DueList {
    due: HashMap<(Later, ContainerId), Due>,
    /// Those whose commits the threads are making.
    under_way: Vec<ContainerId>,
}

struct Due {
    version: Arc<ContainerVersion>,
    at: Instant,
}

/// A container that is to be committed now: it is under way until this is dropped.
pub(crate) struct DueCommit<'a> {
    pub(crate) version: Arc<ContainerVersion>,
    of: &'a DueCommits,
}

impl Drop for DueCommit<'_> {
    fn drop(&mut self) {
        let under_way = &mut self.of.lock().under_way;
        let at = under_way
            .iter()
            .position(|id| *id == self.version.container);
        at.map(|at| under_way.swap_remove(at));
        self.of.changed.notify_all();
    }
}

impl DueCommits {
    pub(crate) fn new(ending: &Arc<MountEnd>) -> DueCommits {
        DueCommits {
            ending: Arc::clone(ending),
            ..DueCommits::default()
        }
    }

    /// To be made at this moment, not before, whatever was said of it until now.
    pub(crate) fn set(&self, why: Later, version: &Arc<ContainerVersion>, at: Instant) {
        let due = Due {
            version: Arc::clone(version),
            at,
        };
        self.lock().due.insert((why, version.container), due);
        self.changed.notify_all();
    }

    /// Leaves a commit to the thread that makes it, at this moment.
    pub(crate) fn leave(
        &self,
        version: &Arc<ContainerVersion>,
        container: &LayeredContainer,
        (later, at): (Later, Instant),
        why: &str,
    ) -> Result<()> {
        container.stage.log_all()?;
        version.writes.outcome.note_put_off(why);
        self.set(later, version, at);
        Ok(())
    }

    /// Leaves a commit to the background that is more than who waits for it can wait for, or that
    /// nobody waits for any more; to the next mount if this one is about to end.
    pub(super) fn put_off(
        &self,
        version: &Arc<ContainerVersion>,
        container: &LayeredContainer,
    ) -> Result<()> {
        let (at, why) = match self.ending.hurried_until() {
            Some(until) => (
                until,
                "it takes long to commit: the next mount does it, or `arrayfs stage commit`",
            ),
            None => (
                Instant::now(),
                "it takes long to commit, and is being committed in the background",
            ),
        };
        self.leave(version, container, (Later::Large, at), why)
    }

    /// Takes it off the list: the caller makes it. Says whether it was on the list.
    pub(crate) fn take(&self, why: Later, container: ContainerId) -> bool {
        self.lock().due.remove(&(why, container)).is_some()
    }

    /// One that is due by now.
    #[cfg(test)]
    pub(crate) fn take_due(&self, why: Later) -> Option<Arc<ContainerVersion>> {
        self.lock().take_due(why)
    }

    /// One that is due, as soon as there is one.
    pub(crate) fn wait(&self, why: Later) -> DueCommit<'_> {
        let mut list = self.lock();
        loop {
            if let Some(version) = list.take_due(why) {
                list.under_way.push(version.container);
                return DueCommit { version, of: self };
            }
            let due = list.due.iter();
            let due = due.filter(|((of, id), _)| *of == why && !list.under_way.contains(id));
            let next = due.map(|(_, due)| due.at).min();
            match next {
                Some(next) => drop(self.changed.wait_until(&mut list, next)),
                None => self.changed.wait(&mut list),
            }
        }
    }

    /// Returns when no thread is making one of this container, or who waits has been killed.
    pub(crate) fn wait_for(&self, container: ContainerId) -> Result<()> {
        let mut list = self.lock();
        while list.under_way.contains(&container) {
            let waited = self.changed.wait_for(&mut list, BETWEEN_LOOKS);
            if waited.timed_out() {
                // A look may take a while, and others want the list.
                drop(list);
                if patience::caller().has_gone() {
                    return Err(Error::Unwanted);
                }
                list = self.lock();
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, DueList> {
        self.list.lock()
    }
}

impl DueList {
    fn take_due(&mut self, why: Later) -> Option<Arc<ContainerVersion>> {
        let now = Instant::now();
        let mut due = self.due.iter();
        let is_free = |id: &ContainerId| !self.under_way.contains(id);
        let (&key, _) = due.find(|((of, id), due)| *of == why && due.at <= now && is_free(id))?;
        self.due.remove(&key).map(|due| due.version)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cache::VersionId;
    use crate::container::{FORMATS, Preferences, Recognised};

    use crate::source::Store;
    use crate::source::local::LocalStore;

    #[test]
    fn while_one_container_is_committed_another_is_and_none_by_two_threads() {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> =
            Arc::new(LocalStore::open(directory.path(), directory.path()).unwrap());
        let version = |id| {
            let recognised = Recognised {
                format: FORMATS[1],
                damage: None,
                preferences: Preferences::default(),
                left: Default::default(),
            };
            let found = recognised.stat(&*store, Path::new("")).unwrap();
            ContainerVersion::new(VersionId(id), ContainerId(id), recognised, &found)
        };
        let (due, now) = (DueCommits::default(), Instant::now());
        let versions = [1, 2].map(version);
        let set = |version| due.set(Later::PutOff, version, now);
        versions.iter().for_each(set);
        let [one, other] = [(); 2].map(|()| due.wait(Later::PutOff));
        assert_ne!(one.version.container, other.version.container);
        let again = one.version.container;
        set(&one.version);
        assert!(due.take_due(Later::PutOff).is_none());
        std::thread::scope(|threads| {
            let waits = threads.spawn(|| due.wait(Later::PutOff).version.container);
            drop(other);
            drop(one);
            assert_eq!(waits.join().unwrap(), again);
        });
    }
}
