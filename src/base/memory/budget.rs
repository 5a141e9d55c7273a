//! One byte budget for everything whose size a file decides: cached blocks, blocks in use, decodes
//! in flight, and what formats keep of an opened container.
//!
//! Bytes are charged before memory is allocated and given back by dropping the [`Hold`] that names
//! them. There are four ways to have some:
//!
//! - [`Budget::reserve`] waits for memory that is not free: for a thread that holds none, since one
//!   that waits while it keeps memory from others could wait for ever. If none comes free for long
//!   it goes beyond the limit. [`Budget::try_reserve`] does not wait.
//! - [`Budget::keep`] charges at once, for tables and indices that stay: its caller may hold
//!   memory. The bytes in use may pass the limit until others let go; those kept never pass half of
//!   it, or what [`Budget::keeping`] allows whatever the limit is. What is kept beyond half is
//!   charged beside the limit, so half of it is always left for blocks. Keepers of memory that can
//!   be given up (containers that are not in use) are asked for it before a request is refused.
//! - [`Budget::overdraw`] charges at once for a moment, one thread at a time: for a decode within
//!   another.
//! - [`TableCharge`] follows a table of small entries. It is never refused, and takes nothing from
//!   what may be kept.
//!
//! Waiting threads queue: while one waits, no other reserves any, or many readers of small blocks
//! would keep a reader of a large one waiting for as long as they read. Before a thread waits,
//! lenders ([`Reclaim`]) are asked for memory that they can do without. Used by `cache`, `array`
//! and `container`.

mod overdraft;
#[cfg(all(test, feature = "schedules"))]
mod schedules;
mod tables;
#[cfg(test)]
mod tests;

pub use tables::TableCharge;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::block::FreedMemory;
use super::{allocator, no_memory};
use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock};
use overdraft::Overdrawer;

/// What opened containers may keep whatever `cache=` says: the index of a file with some 20,000
/// datasets, and what is made of it.
pub const KEPT_LEAST: u64 = 24 << 20;

/// How often a thread that waits for memory asks the lenders again.
const LENDERS_ASKED: Duration = Duration::from_millis(2);

/// A thread that waits for memory goes beyond the limit when nothing was given back for so long.
const STALLED: Duration = Duration::from_secs(5);

pub struct Budget {
    limit: u64,
    /// [`STALLED`], but in tests.
    stalled: Duration,
    /// The most that is kept.
    kept_most: u64,
    account: Mutex<Account>,
    /// For the first of the queue: something may let it go on.
    changed: Condvar,
    /// For the others of the queue: it has moved.
    moved: Condvar,
    /// Signals threads that want to overdraw that none does any longer.
    repaid: Condvar,
    /// In the order in which they are asked.
    lenders: RwLock<Vec<Weak<dyn Reclaim>>>,
    /// Held while kept bytes are taken back: what one thread is about to free is there for the
    /// next.
    closing: Mutex<()>,
    freed: FreedMemory,
}

#[derive(Default)]
struct Account {
    /// At most the limit, but for what was overdrawn, kept beyond half of it, or kept while others
    /// held the rest.
    used: u64,
    /// Part of it that was kept.
    kept: u64,
    /// Part of it that tables take ([`TableCharge`]).
    tables: u64,
    /// Counts what may let the first of the queue go on: bytes given back, memory that can be
    /// reclaimed.
    changes: u64,
    /// Number of the next to join the queue.
    next: u64,
    /// Number of the first of the queue; no thread waits if it is `next`.
    first: u64,
    overdrawn: Option<Overdrawer>,
}

/// A lender: it holds memory that it can do without, as the cache of decoded blocks does.
///
/// Asked from any thread that wants memory, which may hold some already: it must neither wait for
/// memory nor for a lock that is held while memory is asked for.
pub trait Reclaim: Send + Sync {
    /// Charged bytes that giving up everything would free, at once or when its users let go.
    fn reclaimable(&self) -> u64;

    /// Gives up a part, the least useful one; false if there is none, or it would have to wait.
    fn give_up(&self) -> bool;

    /// Gives up something that may have kept bytes ([`Budget::keep`]); false if there is none.
    fn give_up_kept(&self) -> bool {
        false
    }
}

/// Bytes charged to the budget, returned on drop.
pub struct Hold {
    bytes: u64,
    kept: bool,
    budget: Arc<Budget>,
}

/// The first place of the queue, left on drop.
struct Turn<'a> {
    budget: &'a Budget,
}

enum Charged {
    All(Hold),
    /// So many bytes must be given back first.
    Short(u64),
    /// Others wait already.
    OthersFirst,
}

impl Budget {
    /// One of `limit` bytes, half of which may be kept.
    pub fn new(limit: u64) -> Arc<Self> {
        Budget::keeping(limit, 0)
    }

    /// One of which no thread waits for memory that nobody gives back.
    pub fn impatient(limit: u64) -> Arc<Self> {
        let budget = Budget::with(limit, 0, Duration::ZERO);
        Arc::new(budget)
    }

    /// One of `limit` bytes, of which `kept_least` may be kept although it is more than half of
    /// them.
    pub fn keeping(limit: u64, kept_least: u64) -> Arc<Self> {
        Arc::new(Budget::with(limit, kept_least, STALLED))
    }

    fn with(limit: u64, kept_least: u64, stalled: Duration) -> Budget {
        Budget {
            limit,
            stalled,
            kept_most: kept_least.max(limit / 2),
            account: Mutex::default(),
            changed: Condvar::new(),
            moved: Condvar::new(),
            repaid: Condvar::new(),
            lenders: RwLock::default(),
            closing: Mutex::default(),
            freed: FreedMemory::new(limit),
        }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.lock().used
    }

    /// Bytes of them that count against the limit: not those kept beyond half of it.
    pub fn counted(&self) -> u64 {
        self.lock().against(self.half())
    }

    /// Bytes of them that were kept.
    #[doc(hidden)]
    pub fn kept(&self) -> u64 {
        self.lock().kept
    }

    /// The lender will be asked for memory, after those registered before, for as long as it lives.
    pub fn register(&self, lender: Weak<dyn Reclaim>) {
        let mut lenders = self.lenders.write();
        lenders.retain(|lender| lender.strong_count() > 0);
        lenders.push(lender);
    }

    /// Where the system has no memory left, gives up whatever can be done without: what was refused
    /// may be had again. To be called before memory is asked for that stays.
    pub fn relieve(&self) {
        if allocator::is_short() {
            self.freed.give_up();
            while self.reclaim() {}
            while self.reclaim_kept() {}
        }
    }

    /// `bytes`, or everything that is not kept if that is less: a thread that needs more than there
    /// is gets all of it. Waits; the caller holds no memory of this budget.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Hold {
        self.relieve();
        if let Some(hold) = self.try_reserve(bytes) {
            return hold;
        }
        let turn = self.queue();
        let (mut last, mut since) = (turn.changes(), Instant::now());
        loop {
            let seen = turn.changes();
            if let Some(hold) = self.try_as(bytes, Some(&turn)) {
                return hold;
            }
            if std::mem::replace(&mut last, seen) != seen {
                since = Instant::now();
            } else if since.elapsed() > self.stalled {
                return self.reserve_beyond(bytes);
            }
            turn.wait(seen);
        }
    }

    /// `bytes` past the limit: who holds the rest can give none of it back (there is no room for a
    /// log on the disk, say), and may be waiting for the calling thread.
    fn reserve_beyond(self: &Arc<Self>, bytes: u64) -> Hold {
        let mut account = self.lock();
        let bytes = self.at_most(&account, bytes);
        account.used = account.used.saturating_add(bytes);
        let (used, limit) = (account.used >> 10, self.limit >> 10);
        drop(account);
        log::warn!("no memory was given back for long: {used} KiB are used, of cache={limit}K");
        self.hold(bytes, false)
    }

    /// What a thread gets that wants so much.
    fn at_most(&self, account: &Account, bytes: u64) -> u64 {
        bytes.min(self.limit - account.stays().min(self.half()))
    }

    /// `bytes` that are free or can be reclaimed, without waiting; nothing is reclaimed if that
    /// would not suffice.
    pub fn try_reserve(self: &Arc<Self>, bytes: u64) -> Option<Hold> {
        self.try_as(bytes, None)
    }

    /// `bytes` that are free; nothing is reclaimed.
    pub fn reserve_free(self: &Arc<Self>, bytes: u64) -> Option<Hold> {
        match self.charge(bytes, None) {
            Charged::All(hold) => Some(hold),
            Charged::Short(_) | Charged::OthersFirst => None,
        }
    }

    fn try_as(self: &Arc<Self>, bytes: u64, turn: Option<&Turn<'_>>) -> Option<Hold> {
        loop {
            match self.charge(bytes, turn) {
                Charged::All(hold) => return Some(hold),
                Charged::Short(missing) if missing <= self.reclaimable() && self.reclaim() => {}
                Charged::Short(_) | Charged::OthersFirst => return None,
            }
        }
    }

    /// Charges all or nothing; `turn` as proof of being the first, if there is a queue.
    fn charge(self: &Arc<Self>, bytes: u64, turn: Option<&Turn<'_>>) -> Charged {
        let mut account = self.lock();
        if turn.is_none() && account.first != account.next {
            return Charged::OthersFirst;
        }
        let bytes = self.at_most(&account, bytes);
        let free = self.limit.saturating_sub(account.against(self.half()));
        if bytes > free {
            return Charged::Short(bytes - free);
        }
        account.used += bytes;
        Charged::All(self.hold(bytes, false))
    }

    /// The most of the limit that what is kept takes from others.
    fn half(&self) -> u64 {
        self.limit / 2
    }

    /// Charges `bytes` that are kept, at once; ENOMEM if more would be kept than may be although
    /// all lenders gave up what they can do without.
    pub fn keep(self: &Arc<Self>, bytes: u64) -> Result<Hold> {
        if let Some(hold) = self.try_keep(bytes) {
            return Ok(hold);
        }
        let _alone = self.closing.lock();
        loop {
            match self.try_keep(bytes) {
                Some(hold) => return Ok(hold),
                None if bytes <= self.kept_most && self.reclaim_kept() => {}
                None => return Err(self.no_room(bytes)),
            }
        }
    }

    /// That `bytes` cannot be kept as well, and how large the budget would have to be.
    pub fn no_room(&self, bytes: u64) -> Error {
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let all = self.lock().kept.saturating_add(bytes);
        no_memory(&format!(
            "the tables of opened containers do not fit into the memory given by cache=: {} MiB are needed, {} MiB \
             may be kept (cache={}M would do)",
            mebibytes(all),
            self.kept_most >> 20,
            mebibytes(all).saturating_mul(2),
        ))
    }

    fn try_keep(self: &Arc<Self>, bytes: u64) -> Option<Hold> {
        let account = self.lock();
        let kept = account.kept.saturating_add(bytes);
        if kept > self.kept_most {
            return None;
        }
        Some(self.charge_kept(account, bytes))
    }

    /// Charges `bytes` for what is there already: it is never refused, but what others can do
    /// without goes first.
    pub fn keep_built(self: &Arc<Self>, bytes: u64) -> Hold {
        match self.keep(bytes) {
            Ok(hold) => hold,
            Err(_) => self.charge_kept(self.lock(), bytes),
        }
    }

    fn charge_kept(self: &Arc<Self>, mut account: MutexGuard<'_, Account>, bytes: u64) -> Hold {
        account.kept = account.kept.saturating_add(bytes);
        account.used = account.used.saturating_add(bytes);
        // There is less for a thread that waits for more than there is.
        account.changes = account.changes.wrapping_add(1);
        drop(account);
        self.changed.notify_all();
        let hold = self.hold(bytes, true);
        self.return_to_limit();
        hold
    }

    fn hold(self: &Arc<Self>, bytes: u64, kept: bool) -> Hold {
        Hold {
            bytes,
            kept,
            budget: Arc::clone(self),
        }
    }

    /// As far as there is something to reclaim.
    fn return_to_limit(&self) {
        while self.counted() > self.limit && self.reclaim() {}
    }

    fn reclaimable(&self) -> u64 {
        let lenders = self.lenders.read();
        let lenders = lenders.iter().filter_map(Weak::upgrade);
        lenders.fold(0, |sum, lender| sum.saturating_add(lender.reclaimable()))
    }

    /// Takes a part back from the first that has some.
    fn reclaim(&self) -> bool {
        let lenders = self.lenders.read();
        let mut lenders = lenders.iter().filter_map(Weak::upgrade);
        lenders.any(|lender| lender.give_up())
    }

    /// Takes something kept back from the first that has some.
    fn reclaim_kept(&self) -> bool {
        let lenders = self.lenders.read();
        let mut lenders = lenders.iter().filter_map(Weak::upgrade);
        lenders.any(|lender| lender.give_up_kept())
    }

    /// Joins the queue and returns as its first.
    fn queue(&self) -> Turn<'_> {
        let mut account = self.lock();
        let number = account.next;
        account.next = account.next.wrapping_add(1);
        while account.first != number {
            self.moved.wait(&mut account);
        }
        Turn { budget: self }
    }

    /// Memory can be reclaimed that could not be before.
    pub fn announce(&self) {
        self.return_bytes(0, false);
    }

    #[doc(hidden)]
    pub fn waiting(&self) -> u64 {
        let account = self.lock();
        account.next.wrapping_sub(account.first)
    }

    #[doc(hidden)]
    pub fn freed_bytes(&self) -> u64 {
        self.freed.bytes()
    }

    fn return_bytes(&self, bytes: u64, kept: bool) {
        let mut account = self.lock();
        account.used = account.used.saturating_sub(bytes);
        if kept {
            account.kept = account.kept.saturating_sub(bytes);
        }
        account.changes = account.changes.wrapping_add(1);
        drop(account);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        self.account.lock()
    }
}

impl Account {
    /// Bytes that are given back when their owner likes.
    fn stays(&self) -> u64 {
        self.kept.saturating_add(self.tables)
    }

    /// Bytes that count against the limit: of those that stay, `half` of it at most.
    fn against(&self, half: u64) -> u64 {
        self.used - self.stays().saturating_sub(half)
    }
}

impl Turn<'_> {
    /// To be asked before one looks for memory, and given to [`Turn::wait`] if there was none.
    fn changes(&self) -> u64 {
        self.budget.lock().changes
    }

    /// Waits until something has changed since [`Turn::changes`] was asked, or a moment: a lender
    /// that could give nothing because another thread held its lock says nothing when that is free.
    fn wait(&self, seen: u64) {
        let mut account = self.budget.lock();
        let is_same = |account: &mut Account| account.changes == seen;
        let changed = &self.budget.changed;
        changed.wait_while_for(&mut account, is_same, LENDERS_ASKED);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut account = self.budget.lock();
        account.first = account.first.wrapping_add(1);
        drop(account);
        self.budget.moved.notify_all();
    }
}

impl Hold {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the memory that it stands for comes from and goes to.
    pub(super) fn freed_memory(&self) -> &FreedMemory {
        &self.budget.freed
    }

    /// Parts with up to `bytes` of it.
    pub fn split(&mut self, bytes: u64) -> Hold {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.hold(bytes, self.kept)
    }

    /// Keeps so many more, like [`Budget::keep`], which it is of.
    pub fn keep_more(&mut self, bytes: u64) -> Result<()> {
        debug_assert!(self.kept, "reserved bytes are not kept");
        let mut more = self.budget.keep(bytes)?;
        self.bytes += std::mem::take(&mut more.bytes);
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.return_bytes(self.bytes, self.kept);
        }
    }
}
