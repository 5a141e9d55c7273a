//! New containers: made by `mkdir`, and not packed yet.
//!
//! In the source a new container is an empty one from the beginning. What is put into it meanwhile are *drafts*: ordinary files in a
//! hidden directory beside it, which the container's directory shows instead of its own entries. When nobody has used it for a
//! moment the drafts are packed into the container, and go. Here is how far each has got; `writing::made` begins, and
//! `writing::packing` ends it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError,
};
use std::time::{Duration, Instant};

use super::inode::InodeId;
use crate::source::FileId;

/// How far a container has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Newness {
    /// It was there before, or has been packed.
    #[default]
    Old,
    /// Nothing has been put into it, and nothing is shown: whoever copies a directory finds it empty.
    Empty,
    /// Nothing has been put into it for so long that its own entries are shown.
    Untouched,
    /// Drafts are shown, of this directory.
    Drafts(FileId),
}

/// Of one container.
#[derive(Default)]
pub(super) struct NewState {
    now: Mutex<Newness>,
    /// The same for who may not wait.
    has_drafts: AtomicBool,
    /// Held by who packs, and by who makes the directory of drafts.
    turn: Mutex<()>,
}

impl NewState {
    pub(super) fn now(&self) -> Newness {
        *lock(&self.now)
    }

    pub(super) fn set(&self, to: Newness) {
        let mut now = lock(&self.now);
        *now = to;
        let has = matches!(to, Newness::Drafts(_));
        self.has_drafts.store(has, Ordering::Release);
    }

    pub(super) fn has_drafts(&self) -> bool {
        self.has_drafts.load(Ordering::Acquire)
    }

    /// Whether something else than the container's own entries is shown.
    pub(super) fn hides_entries(&self) -> bool {
        matches!(self.now(), Newness::Empty | Newness::Drafts(_))
    }

    pub(super) fn take_turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// The same, unless somebody has it.
    pub(super) fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Containers that are waiting for somebody to put something into them, or to end doing so.
#[derive(Default)]
pub(super) struct NewContainers {
    list: Mutex<NewList>,
    /// How many there are, without waiting.
    count: AtomicUsize,
    changed: Condvar,
    /// Held shared while names and files are opened and changed, alone while drafts become a container.
    gate: RwLock<()>,
    /// Held while a directory becomes a container, or the other way round.
    turning: Mutex<()>,
    /// When packing is given up, if the mount is coming to its end.
    until: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct NewList {
    uses: HashMap<InodeId, Use>,
    /// How often something has changed in it.
    changes: u64,
}

/// When a new container was used, and how its packing went.
#[derive(Debug, Clone)]
pub(super) struct Use {
    pub(super) last: Instant,
    /// How often, for who wants to know whether it was used since.
    pub(super) times: u64,
    /// Why it could not be packed: that is not tried again before it is used again.
    pub(super) why: Option<String>,
    /// How often it had been used when somebody waited in vain for its files to be let go.
    waited: Option<u64>,
}

impl NewContainers {
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    pub(super) fn has(&self, container: InodeId) -> bool {
        lock(&self.list).uses.contains_key(&container)
    }

    /// Says whether it was not there yet.
    pub(super) fn add(&self, container: InodeId) -> bool {
        let mut list = lock(&self.list);
        let fresh = Use {
            last: Instant::now(),
            times: 0,
            why: None,
            waited: None,
        };
        let added = list.uses.insert(container, fresh).is_none();
        self.note(&mut list);
        added
    }

    /// Says whether it was there.
    pub(super) fn remove(&self, container: InodeId) -> bool {
        let mut list = lock(&self.list);
        let removed = list.uses.remove(&container).is_some();
        self.note(&mut list);
        removed
    }

    /// A file of it is open no more.
    pub(super) fn let_go(&self, container: InodeId) {
        let mut list = lock(&self.list);
        if let Some(used) = list.uses.get_mut(&container) {
            used.last = Instant::now();
            used.waited = None;
            self.note(&mut list);
        }
    }

    pub(super) fn note_wait(&self, container: InodeId, times: u64) {
        if let Some(used) = lock(&self.list).uses.get_mut(&container) {
            used.waited = Some(times);
        }
    }

    /// Whether somebody has waited for its files since it was used, and none was let go.
    pub(super) fn has_waited(&self, container: InodeId, times: u64) -> bool {
        let list = lock(&self.list);
        let used = list.uses.get(&container);
        used.is_some_and(|used| used.waited == Some(times))
    }

    /// It is being used, or has been until now.
    pub(super) fn used(&self, container: InodeId) {
        let mut list = lock(&self.list);
        if let Some(used) = list.uses.get_mut(&container) {
            used.last = Instant::now();
            used.times += 1;
            used.why = None;
            self.note(&mut list);
        }
    }

    fn note(&self, list: &mut NewList) {
        list.changes += 1;
        self.count.store(list.uses.len(), Ordering::Release);
        self.changed.notify_all();
    }

    pub(super) fn note_why(&self, container: InodeId, why: String) {
        if let Some(used) = lock(&self.list).uses.get_mut(&container) {
            used.why = Some(why);
        }
    }

    pub(super) fn why(&self, container: InodeId) -> Option<String> {
        lock(&self.list).uses.get(&container)?.why.clone()
    }

    /// To be compared later.
    pub(super) fn times_used(&self, container: InodeId) -> u64 {
        let list = lock(&self.list);
        list.uses.get(&container).map_or(0, |used| used.times)
    }

    /// As it is by now; none if it does not wait any more.
    pub(super) fn last_use(&self, container: InodeId) -> Option<Use> {
        lock(&self.list).uses.get(&container).cloned()
    }

    pub(super) fn end_by(&self, until: Instant) {
        *lock(&self.until) = Some(until);
    }

    /// Whether there is time left for packing.
    pub(super) fn has_time(&self) -> bool {
        lock(&self.until).is_none_or(|until| Instant::now() < until)
    }

    pub(super) fn all(&self) -> Vec<(InodeId, Use)> {
        let list = lock(&self.list);
        let uses = list.uses.iter();
        uses.map(|(id, used)| (*id, used.clone())).collect()
    }

    /// Keeps drafts what they are for a moment.
    pub(super) fn stay(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// One directory at a time.
    pub(super) fn turning(&self) -> MutexGuard<'_, ()> {
        lock(&self.turning)
    }

    /// Nobody opens or changes anything meanwhile.
    pub(super) fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be taken before the list is looked at, and waited for changes since.
    pub(super) fn changes(&self) -> u64 {
        lock(&self.list).changes
    }

    /// Returns when a container has been made or used since, at the latest after this time.
    pub(super) fn wait(&self, since: u64, most: Option<Duration>) {
        let list = lock(&self.list);
        if list.changes == since {
            match most {
                Some(most) => drop(self.changed.wait_timeout(list, most)),
                None => drop(self.changed.wait(list)),
            }
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
