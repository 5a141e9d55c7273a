//! New containers: made by `mkdir`, and not packed yet.
//!
//! In the source a new container is an empty one, and a hidden directory beside it is what makes it
//! new: that of its *drafts*, ordinary files that are put into it, which the container's directory
//! shows instead of its own entries. The directory is made before the container gets its name and
//! goes when the drafts have been packed into it, however long that takes: so a new container is
//! found again by any later mount. Here is the state that a mount keeps of each; [`super::drafts`]
//! begins, and [`super::pack`] ends it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::not_kept::NotKept;
use crate::live::places::ContainerId;
use crate::source::FileId;
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Of one container.
#[derive(Default)]
pub(crate) struct CreationState {
    /// The directory of its drafts, as long as it is new.
    drafts: Mutex<Option<FileId>>,
    /// Whether there is one, for threads that may not wait for the lock.
    is_new: AtomicBool,
    /// Held by the thread that packs, moves or removes it.
    creating: Mutex<()>,
}

impl CreationState {
    pub(crate) fn drafts(&self) -> Option<FileId> {
        *self.drafts.lock()
    }

    pub(crate) fn begin(&self, drafts: FileId) {
        self.set(Some(drafts));
    }

    /// The container shows the content of its file from now on.
    pub(crate) fn end(&self) {
        self.set(None);
    }

    fn set(&self, to: Option<FileId>) {
        let mut drafts = self.drafts.lock();
        *drafts = to;
        self.is_new.store(to.is_some(), Ordering::Release);
    }

    /// Whether its drafts are shown, and not the container's own entries.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Acquire)
    }

    pub(crate) fn lock_creation(&self) -> MutexGuard<'_, ()> {
        self.creating.lock()
    }

    /// The lock under which a new container is packed, removed or moved, unless another thread has
    /// it.
    pub(crate) fn try_lock_creation(&self) -> Option<MutexGuard<'_, ()>> {
        self.creating.try_lock()
    }
}

/// Containers that wait until programs have put something into them, and have closed it.
#[derive(Default)]
pub(crate) struct NewContainers {
    list: Mutex<NewList>,
    /// How many there are, without waiting.
    count: AtomicUsize,
    changed: Condvar,
    /// Held shared while names and files are opened and changed, alone while drafts become a
    /// container.
    gate: RwLock<()>,
    /// Held while a directory becomes a container, or the other way round.
    promoting: Mutex<()>,
    /// What those that were packed could not keep.
    pub(crate) not_kept: NotKept,
    /// When packing is given up, if the mount is coming to its end.
    until: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct NewList {
    uses: HashMap<ContainerId, Use>,
    /// How often something has changed in it.
    changes: u64,
}

/// Why a container that is not in use stays new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stays {
    /// There is nothing in it, or not all of it yet: it waits, as long as it takes.
    Waiting(String),
    /// It could not be packed.
    Failed(String),
}

/// When a new container was used, and how its packing went.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    pub(crate) last: Instant,
    /// How often, so that a thread can tell whether it was used since.
    pub(crate) times: u64,
    /// Why it stays new: packing it is not tried again before it is used again.
    pub(crate) stays: Option<Stays>,
    /// How often it had been used when a thread waited in vain for its files to be let go.
    waited: Option<u64>,
}

impl Use {
    /// For the status: why it is still new, if something has been put into it.
    pub(crate) fn why(&self) -> &str {
        match &self.stays {
            Some(Stays::Waiting(why) | Stays::Failed(why)) => why,
            None => "it is new",
        }
    }
}

/// Why a container stays new that will be packed as soon as there is an array in it.
pub(crate) const UNFILLED: &str = "no array has been put into it yet";

impl NewContainers {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    pub(crate) fn has(&self, container: ContainerId) -> bool {
        self.list.lock().uses.contains_key(&container)
    }

    /// Says whether it was not there yet. If it was, that is a use, so that a thread that compares
    /// counts of uses finds another one.
    pub(crate) fn add(&self, container: ContainerId) -> bool {
        let mut list = self.list.lock();
        let before = list.uses.get(&container);
        let fresh = Use {
            last: Instant::now(),
            times: before.map_or(0, |used| used.times + 1),
            stays: None,
            waited: None,
        };
        let added = list.uses.insert(container, fresh).is_none();
        self.note(&mut list);
        added
    }

    /// Says whether it was there.
    pub(crate) fn remove(&self, container: ContainerId) -> bool {
        let mut list = self.list.lock();
        let removed = list.uses.remove(&container).is_some();
        self.note(&mut list);
        removed
    }

    /// A file of it is open no more.
    pub(crate) fn let_go(&self, container: ContainerId) {
        let mut list = self.list.lock();
        if let Some(used) = list.uses.get_mut(&container) {
            used.last = Instant::now();
            used.waited = None;
            self.note(&mut list);
        }
    }

    pub(crate) fn note_wait(&self, container: ContainerId, times: u64) {
        if let Some(used) = self.list.lock().uses.get_mut(&container) {
            used.waited = Some(times);
        }
    }

    /// Whether a thread has waited for its files since it was used, and none was let go.
    pub(crate) fn has_waited(&self, container: ContainerId, times: u64) -> bool {
        let list = self.list.lock();
        let used = list.uses.get(&container);
        used.is_some_and(|used| used.waited == Some(times))
    }

    /// It is being used, or has been until now.
    pub(crate) fn used(&self, container: ContainerId) {
        let mut list = self.list.lock();
        if let Some(used) = list.uses.get_mut(&container) {
            used.last = Instant::now();
            used.times += 1;
            used.stays = None;
            self.note(&mut list);
        }
    }

    fn note(&self, list: &mut NewList) {
        list.changes += 1;
        self.count.store(list.uses.len(), Ordering::Release);
        self.changed.notify_all();
    }

    /// What packing it came to. If it has been used since it had been this often, it is tried again
    /// when it is quiet.
    pub(crate) fn note_stays(&self, container: ContainerId, times: u64, why: Stays) {
        if let Some(used) = self.list.lock().uses.get_mut(&container)
            && used.times == times
        {
            used.stays = Some(why);
        }
    }

    /// To be compared later.
    pub(crate) fn times_used(&self, container: ContainerId) -> u64 {
        let list = self.list.lock();
        list.uses.get(&container).map_or(0, |used| used.times)
    }

    /// As it is by now; none if it does not wait any more.
    pub(crate) fn last_use(&self, container: ContainerId) -> Option<Use> {
        self.list.lock().uses.get(&container).cloned()
    }

    /// Has so much time passed since each was used last.
    #[cfg(test)]
    pub(crate) fn set_back(&self, by: Duration) {
        for used in self.list.lock().uses.values_mut() {
            used.last -= by;
        }
    }

    pub(crate) fn end_by(&self, until: Instant) {
        *self.until.lock() = Some(until);
    }

    /// Whether there is time left for packing.
    pub(crate) fn has_time(&self) -> bool {
        self.until.lock().is_none_or(|until| Instant::now() < until)
    }

    pub(crate) fn all(&self) -> Vec<(ContainerId, Use)> {
        let list = self.list.lock();
        let uses = list.uses.iter();
        uses.map(|(id, used)| (*id, used.clone())).collect()
    }

    /// Keeps drafts from becoming a container for a moment.
    pub(crate) fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// One directory at a time.
    pub(crate) fn lock_promotion(&self) -> MutexGuard<'_, ()> {
        self.promoting.lock()
    }

    /// No request opens or changes anything meanwhile.
    pub(crate) fn exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    /// To be taken before the list is looked at, and waited for changes since.
    pub(crate) fn changes(&self) -> u64 {
        self.list.lock().changes
    }

    /// Returns when a container has been made or used since, at the latest after this time.
    pub(crate) fn wait(&self, since: u64, most: Option<Duration>) {
        let mut list = self.list.lock();
        if list.changes == since {
            match most {
                Some(most) => drop(self.changed.wait_for(&mut list, most)),
                None => self.changed.wait(&mut list),
            }
        }
    }
}
