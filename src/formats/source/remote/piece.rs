//! Pieces of objects in memory: asked for once, waited for by all who need them, and let go when
//! memory is wanted.
//!
//! They are charged to the budget, of which they take half at most, and lent: whoever wants memory
//! gets that of the piece that was not used for the longest time. Used by [`super::object`].

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::body::Body;
use crate::error::{Error, Result};
use crate::memory::budget::{Budget, Hold, Reclaim};
use crate::sync::{Condvar, Mutex};

/// Smaller pieces are kept when they have been read: they may be of structure.
const LARGE: u64 = 512 << 10;

/// In so many parts it is seen what of a piece has been read.
const PARTS: u32 = u64::BITS;

/// Bytes of an object that were asked for.
pub(super) struct ObjectPiece {
    pub(super) range: Range<u64>,
    pub(super) asked_as: AskedAs,
    state: Mutex<PieceState>,
    landed: Condvar,
    /// It has been read since it was last looked at.
    is_touched: AtomicBool,
    /// It is among those that have been read.
    is_noted: AtomicBool,
    /// Of which of its [`PARTS`] the last byte has been read.
    parts_read: AtomicU64,
}

/// This part of the budget may lie in spare buffers beside it.
const SPARES: u64 = 16;

/// Why bytes were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskedAs {
    /// A reader waits for them.
    Needed,
    /// They lie near what was read.
    Near,
    /// They are going to be read, once.
    Expected,
}

enum PieceState {
    Asked,
    There(
        Arc<Body>,
        #[expect(dead_code, reason = "charged as long as the bytes are there")] Hold,
    ),
    Failed(Error),
    /// It has been let go.
    Spent,
}

/// Who has pieces, as far as the memory for them is concerned.
pub(super) trait PieceOwner: Send + Sync {
    /// Lets go of a piece that has landed.
    fn let_go(&self, piece: &Arc<ObjectPiece>);
}

type QueuedPiece = (Weak<dyn PieceOwner>, Arc<ObjectPiece>);

/// The memory of pieces, of all objects of a store.
pub(super) struct PieceMemory {
    budget: Arc<Budget>,
    queues: Mutex<PieceQueues>,
    /// Bytes of those in the queues.
    held: AtomicU64,
}

#[derive(Default)]
struct PieceQueues {
    /// All of them, those that were not looked at for the longest time first.
    all: VecDeque<QueuedPiece>,
    /// So many of these have been let go.
    spent: usize,
    /// Those that have been read: the first to go.
    read: VecDeque<QueuedPiece>,
}

impl PieceQueues {
    /// Those that are nothing any more.
    fn sweep(&mut self) {
        if self.spent > self.all.len() / 2 {
            self.all.retain(|(_, piece)| !piece.is_spent());
            self.spent = 0;
        }
    }

    fn first_read(&mut self) -> Option<QueuedPiece> {
        loop {
            let (owner, piece) = self.read.pop_front()?;
            // One that is read again is kept as others are.
            let is_read_again = piece.is_touched.swap(false, Ordering::Relaxed);
            if !is_read_again && !piece.is_spent() {
                self.spent += 1;
                return Some((owner, piece));
            }
        }
    }

    fn oldest(&mut self) -> Option<QueuedPiece> {
        // Each is looked at twice at most: the first time it may have been read.
        for _ in 0..self.all.len().saturating_mul(2) {
            let (owner, piece) = self.all.pop_front()?;
            if piece.is_spent() {
                self.spent = self.spent.saturating_sub(1);
                continue;
            }
            let is_wanted = piece.is_touched.swap(false, Ordering::Relaxed);
            if !is_wanted && piece.has_landed() {
                return Some((owner, piece));
            }
            self.all.push_back((owner, piece));
        }
        None
    }
}

impl ObjectPiece {
    pub(super) fn asked(range: Range<u64>, asked_as: AskedAs) -> Arc<ObjectPiece> {
        Arc::new(ObjectPiece {
            range,
            asked_as,
            state: Mutex::new(PieceState::Asked),
            landed: Condvar::new(),
            is_touched: AtomicBool::new(true),
            is_noted: AtomicBool::new(false),
            parts_read: AtomicU64::new(0),
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    pub(super) fn land(&self, bytes: Result<(Arc<Body>, Hold)>) {
        let mut state = self.state.lock();
        *state = match bytes {
            Ok((bytes, hold)) => PieceState::There(bytes, hold),
            Err(e) => PieceState::Failed(e),
        };
        self.landed.notify_all();
    }

    pub(super) fn has_landed(&self) -> bool {
        !matches!(*self.state.lock(), PieceState::Asked)
    }

    /// Whether all that was expected has been read, so that it is less likely to be read again than
    /// others are.
    pub(super) fn is_read(&self) -> bool {
        let is_expected = self.asked_as == AskedAs::Expected && self.len() >= LARGE;
        is_expected && self.parts_read.load(Ordering::Relaxed) == u64::MAX
    }

    fn note_read(&self, read: Range<u64>) {
        let part = |at: u64| u128::from(at) * u128::from(PARTS) / u128::from(self.len().max(1));
        let (from, to) = (part(read.start), part(read.end));
        let bits = |parts: u128| {
            1u64.checked_shl(parts as u32)
                .map_or(u64::MAX, |bit| bit - 1)
        };
        self.parts_read
            .fetch_or(bits(to) & !bits(from), Ordering::Relaxed);
    }

    fn is_spent(&self) -> bool {
        matches!(*self.state.lock(), PieceState::Spent)
    }

    /// Waits for it, and copies what it has from an offset of the object on; says how much, which
    /// is nothing if it has been let go.
    pub(super) fn copy(&self, at: u64, out: &mut [u8]) -> Result<usize> {
        let mut state = self.state.lock();
        while matches!(*state, PieceState::Asked) {
            self.landed.wait(&mut state);
        }
        self.is_touched.store(true, Ordering::Relaxed);
        match &*state {
            PieceState::There(bytes, _) => {
                let skip = usize::try_from(at.saturating_sub(self.range.start));
                let found = skip.ok().and_then(|skip| bytes.get(skip..)).unwrap_or(&[]);
                let n = found.len().min(out.len());
                out[..n].copy_from_slice(&found[..n]);
                let begin = at.saturating_sub(self.range.start);
                self.note_read(begin..begin + n as u64);
                Ok(n)
            }
            PieceState::Failed(e) => Err(e.clone()),
            PieceState::Spent => Ok(0),
            PieceState::Asked => Err(Error::Bug("a piece that landed is on its way".into())),
        }
    }
}

impl PieceMemory {
    pub(super) fn new(budget: &Arc<Budget>) -> Arc<PieceMemory> {
        let memory = Arc::new(PieceMemory {
            budget: Arc::clone(budget),
            queues: Mutex::default(),
            held: AtomicU64::new(0),
        });
        super::body::allow_spares(budget.limit() / SPARES);
        let lender = Arc::downgrade(&memory);
        let lender: Weak<dyn Reclaim> = lender;
        budget.register(lender);
        memory
    }

    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn most(&self) -> u64 {
        self.budget.limit() / 2
    }

    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Memory for a piece; none if there is none without waiting.
    pub(super) fn reserve(&self, bytes: u64) -> Option<Hold> {
        while self.held().saturating_add(bytes) > self.most() {
            if !self.let_one_go() {
                return None;
            }
        }
        self.budget.try_reserve(bytes)
    }

    /// Counts a piece that has been asked for.
    pub(super) fn add(&self, owner: Weak<dyn PieceOwner>, piece: &Arc<ObjectPiece>) {
        self.held.fetch_add(piece.len(), Ordering::Relaxed);
        let mut queues = self.queues.lock();
        queues.sweep();
        queues.all.push_back((owner, Arc::clone(piece)));
    }

    /// Told of a piece of which all that was expected has been read.
    pub(super) fn note_read(&self, owner: Weak<dyn PieceOwner>, piece: &Arc<ObjectPiece>) {
        if !piece.is_noted.swap(true, Ordering::Relaxed) {
            piece.is_touched.store(false, Ordering::Relaxed);
            let read = (owner, Arc::clone(piece));
            self.queues.lock().read.push_back(read);
        }
    }

    /// The first that has been read, or that was not read since it was looked at last; false if
    /// there is none.
    fn let_one_go(&self) -> bool {
        let mut queues = self.queues.lock();
        let first = queues.first_read().or_else(|| queues.oldest());
        drop(queues);
        let Some((owner, piece)) = first else {
            return false;
        };
        if let Some(owner) = owner.upgrade() {
            owner.let_go(&piece);
        }
        self.spend(&piece);
        true
    }

    /// Lets go of the bytes of a piece that its owner has no more.
    fn spend(&self, piece: &Arc<ObjectPiece>) {
        let mut state = piece.state.lock();
        if !matches!(*state, PieceState::Asked | PieceState::Spent) {
            *state = PieceState::Spent;
            self.held.fetch_sub(piece.len(), Ordering::Relaxed);
        }
    }
}

impl Reclaim for PieceMemory {
    fn reclaimable(&self) -> u64 {
        self.held()
    }

    fn give_up(&self) -> bool {
        self.let_one_go()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Owner(Mutex<Vec<u64>>);

    impl PieceOwner for Owner {
        fn let_go(&self, piece: &Arc<ObjectPiece>) {
            self.0.lock().push(piece.range.start);
        }
    }

    #[test]
    fn what_was_not_read_for_the_longest_time_goes_first() {
        const MIB: u64 = 1 << 20;
        let budget = Budget::new(8 * MIB);
        let memory = PieceMemory::new(&budget);
        let owner = Arc::new(Owner::default());
        let mut pieces = Vec::new();
        for start in [0, MIB, 2 * MIB] {
            let hold = memory.reserve(MIB).unwrap();
            let piece = ObjectPiece::asked(start..start + MIB, AskedAs::Needed);
            let weak = Arc::downgrade(&owner);
            memory.add(weak, &piece);
            assert!(!piece.has_landed());
            let bytes = Arc::new(vec![7; MIB as usize].into());
            piece.land(Ok((bytes, hold)));
            pieces.push(piece);
        }
        assert!(memory.give_up());
        let mut out = [0; 10];
        assert_eq!(pieces[1].copy(MIB + 5, &mut out).unwrap(), 10);
        assert_eq!(out, [7; 10]);
        drop(pieces);
        assert!(memory.give_up());
        assert_eq!(*owner.0.lock(), [0, 2 * MIB]);
        assert_eq!(memory.reclaimable(), MIB);
        assert!(memory.give_up() && !memory.give_up());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_was_expected_goes_first_when_it_has_been_read() {
        let budget = Budget::new(8 << 20);
        let memory = PieceMemory::new(&budget);
        let owner = Arc::new(Owner::default());
        let weak = || Arc::downgrade(&owner) as Weak<dyn PieceOwner>;
        let len = LARGE as usize;
        let mut out = vec![0; len];
        let all = [AskedAs::Near, AskedAs::Expected, AskedAs::Expected];
        let pieces = [0, 1, 2].map(|number| {
            let begin = number * LARGE;
            let piece = ObjectPiece::asked(begin..begin + LARGE, all[number as usize]);
            let hold = memory.reserve(LARGE).unwrap();
            memory.add(weak(), &piece);
            piece.land(Ok((Arc::new(vec![7; len].into()), hold)));
            piece
        });
        for piece in &pieces {
            // Headers, the second half, and the first.
            let begin = piece.range.start;
            for at in (0..LARGE).step_by(10_000) {
                piece.copy(begin + at, &mut out[..16]).unwrap();
            }
            for at in [LARGE / 2, 0] {
                assert!(!piece.is_read());
                let half = &mut out[..len / 2];
                assert_eq!(piece.copy(begin + at, half).unwrap(), len / 2);
            }
            assert_eq!(piece.is_read(), piece.asked_as == AskedAs::Expected);
            if piece.is_read() {
                memory.note_read(weak(), piece);
                memory.note_read(weak(), piece);
            }
        }
        // The second is read again.
        pieces[1].copy(LARGE, &mut out).unwrap();
        assert!(memory.give_up());
        assert_eq!(*owner.0.lock(), [2 * LARGE]);
        assert_eq!(pieces[2].copy(2 * LARGE, &mut out).unwrap(), 0);
        assert!(memory.give_up() && memory.give_up() && !memory.give_up());
        assert_eq!((memory.held(), budget.used()), (0, 0));
    }

    #[test]
    fn pieces_that_are_gone_leave_the_queues() {
        let budget = Budget::new(64 << 20);
        let memory = PieceMemory::new(&budget);
        let owner = Arc::new(Owner::default());
        let weak = || Arc::downgrade(&owner) as Weak<dyn PieceOwner>;
        let mut out = vec![0; LARGE as usize];
        for number in 0..1000 {
            // The first is never read.
            let begin = number * LARGE;
            let piece = ObjectPiece::asked(begin..begin + LARGE, AskedAs::Expected);
            let hold = memory.reserve(LARGE).unwrap();
            memory.add(weak(), &piece);
            let bytes = vec![7; LARGE as usize];
            piece.land(Ok((Arc::new(bytes.into()), hold)));
            if number > 0 {
                piece.copy(begin, &mut out).unwrap();
                memory.note_read(weak(), &piece);
            }
        }
        let queues = memory.queues.lock();
        assert!(queues.all.len() <= 200, "{}", queues.all.len());
        assert!(queues.read.len() <= 64, "{}", queues.read.len());
    }
}
