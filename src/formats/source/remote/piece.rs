//! Pieces of objects in memory: asked for once, waited for by all who need them, and let go when
//! memory is wanted.
//!
//! They are charged to the budget, of which they take half at most, and lent: whoever wants memory
//! gets that of the piece that was not used for the longest time. Used by [`super::object`].

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::error::{Error, Result};
use crate::memory::budget::{Budget, Hold, Reclaim};
use crate::sync::{Condvar, Mutex};

/// Bytes of an object that were asked for.
pub(super) struct ObjectPiece {
    pub(super) range: Range<u64>,
    /// Nobody waited for it when it was asked for.
    pub(super) is_ahead: bool,
    state: Mutex<PieceState>,
    landed: Condvar,
    /// It has been read since it was last looked at.
    is_touched: AtomicBool,
}

enum PieceState {
    Asked,
    There(
        Arc<Vec<u8>>,
        #[expect(dead_code, reason = "charged as long as the bytes are there")] Hold,
    ),
    Failed(Error),
}

/// Who has pieces, as far as the memory for them is concerned.
pub(super) trait PieceOwner: Send + Sync {
    /// Lets go of a piece that has landed.
    fn let_go(&self, piece: &Arc<ObjectPiece>);
}

/// Those that were not looked at for the longest time first.
type QueuedPiece = (Weak<dyn PieceOwner>, Arc<ObjectPiece>);

/// The memory of pieces, of all objects of a store.
pub(super) struct PieceMemory {
    budget: Arc<Budget>,
    queue: Mutex<VecDeque<QueuedPiece>>,
    /// Bytes of those in the queue.
    held: AtomicU64,
}

impl ObjectPiece {
    pub(super) fn asked(range: Range<u64>, is_ahead: bool) -> Arc<ObjectPiece> {
        Arc::new(ObjectPiece {
            range,
            is_ahead,
            state: Mutex::new(PieceState::Asked),
            landed: Condvar::new(),
            is_touched: AtomicBool::new(true),
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    pub(super) fn land(&self, bytes: Result<(Arc<Vec<u8>>, Hold)>) {
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

    /// Waits for it, and copies what it has from an offset of the object on; says how much.
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
                Ok(n)
            }
            PieceState::Failed(e) => Err(e.clone()),
            PieceState::Asked => Err(Error::Bug("a piece that landed is on its way".into())),
        }
    }
}

impl PieceMemory {
    pub(super) fn new(budget: &Arc<Budget>) -> Arc<PieceMemory> {
        let memory = Arc::new(PieceMemory {
            budget: Arc::clone(budget),
            queue: Mutex::default(),
            held: AtomicU64::new(0),
        });
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
        self.queue.lock().push_back((owner, Arc::clone(piece)));
    }

    /// The first that was not read since it was looked at last; false if there is none.
    fn let_one_go(&self) -> bool {
        let mut queue = self.queue.lock();
        // Each is looked at twice at most: the first time it may have been read.
        for _ in 0..queue.len().saturating_mul(2) {
            let Some((owner, piece)) = queue.pop_front() else {
                return false;
            };
            let is_wanted = piece.is_touched.swap(false, Ordering::Relaxed);
            if is_wanted || !piece.has_landed() {
                queue.push_back((owner, piece));
                continue;
            }
            drop(queue);
            self.held.fetch_sub(piece.len(), Ordering::Relaxed);
            if let Some(owner) = owner.upgrade() {
                owner.let_go(&piece);
            }
            return true;
        }
        false
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
            let piece = ObjectPiece::asked(start..start + MIB, false);
            let weak = Arc::downgrade(&owner);
            memory.add(weak, &piece);
            assert!(!piece.has_landed());
            piece.land(Ok((Arc::new(vec![7; MIB as usize]), hold)));
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
}
