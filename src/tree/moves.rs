//! Directories that are moved through the mount while other requests are on their way below them.
//!
//! A path is made of names and then followed; when a directory above is moved in between, nothing is there. That is no
//! answer for a program that stands below it: whoever finds nothing while something was moved tries again. Requests do
//! not wait for each other otherwise. Used by `kernel::serving` for every request that follows a path.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Tree;
use crate::error::{Error, Result};

#[derive(Default)]
pub(super) struct Moves {
    /// Held while a directory is moved in the source and in the table of inodes.
    under_way: RwLock<()>,
    done: AtomicU64,
}

/// Something is being moved, until this is dropped.
pub(super) struct Moving<'a> {
    moves: &'a Moves,
    _guard: RwLockWriteGuard<'a, ()>,
}

impl Moving<'_> {
    /// It has been moved: paths that were made before may lead nowhere.
    pub(super) fn made(&self) {
        self.moves.done.fetch_add(1, Ordering::SeqCst);
    }
}

/// Once more when the table of inodes says so, too: who has begun in between has met the old paths.
impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.made();
    }
}

impl Moves {
    pub(super) fn begin(&self) -> Moving<'_> {
        let guard = self.under_way.write();
        Moving {
            moves: self,
            _guard: guard.unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// To be taken before a name is looked at that is entered later.
    pub(super) fn mark(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Keeps everything where it is for a moment, if nothing has been moved since `mark`.
    pub(super) fn still(&self, mark: u64) -> Option<RwLockReadGuard<'_, ()>> {
        let guard = self.under_way.read();
        let guard = guard.unwrap_or_else(PoisonError::into_inner);
        (self.mark() == mark).then_some(guard)
    }

    /// Nothing is moved before this is dropped: what is staged goes to a log that has the container's name.
    pub(super) fn stay(&self) -> RwLockReadGuard<'_, ()> {
        let guard = self.under_way.read();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what moves have done, when none is under way.
    fn count(&self) -> u64 {
        drop(self.under_way.read());
        self.mark()
    }
}

/// More moves than this during one request are not waited for.
const TRIES: usize = 64;

impl Tree {
    /// Runs `work`, again if it finds nothing and a directory has been moved meanwhile.
    pub fn steady<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        let mut before = self.moves.mark();
        for _ in 0..TRIES {
            let done = work();
            let lost = |e: &Error| e.is_not_found() || matches!(e, Error::Changed { .. });
            if !done.as_ref().is_err_and(lost) {
                return done;
            }
            match self.moves.count() {
                now if now == before => return done,
                now => before = now,
            }
        }
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_between_the_move_and_what_the_table_says_of_it_tries_again() {
        let moves = Moves::default();
        let moving = moves.begin();
        moving.made();
        let mark = moves.mark();
        drop(moving);
        assert!(moves.still(mark).is_none());
        assert!(moves.still(moves.count()).is_some());
    }
}
