//! Directories that are moved through the mount while other requests are on their way below them.
//!
//! A path is made of names and then followed; when a directory above is moved in between, nothing
//! is there. That is no answer for a program that stands below it: a request that finds nothing
//! while something was moved tries again, and moves wait for a request that has tried in vain
//! several times. Requests do not wait for each other otherwise. Used by `kernel::serving` for
//! every request that follows a path.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[derive(Default)]
pub(crate) struct Moves {
    /// Held while a directory is moved in the source and in the table of inodes.
    under_way: RwLock<()>,
    done: AtomicU64,
    /// Threads whose requests have met one move after the other: a further one waits for them, for
    /// a moment.
    starved: Mutex<Vec<ThreadId>>,
    fed: Condvar,
}

/// A request has tried in vain too often, until this is dropped.
struct Starved<'a>(&'a Moves);

impl Drop for Starved<'_> {
    fn drop(&mut self) {
        let own = std::thread::current().id();
        let mut starved = self.0.starved.lock();
        if let Some(at) = starved.iter().position(|thread| *thread == own) {
            starved.swap_remove(at);
        }
        drop(starved);
        self.0.fed.notify_all();
    }
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

/// Once more when the table of inodes says so, too: a request that began in between has met the old
/// paths.
impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.made();
    }
}

impl Moves {
    pub(super) fn begin(&self) -> Moving<'_> {
        Moving {
            moves: self,
            _guard: self.under_way.write(),
        }
    }

    fn starve(&self) -> Starved<'_> {
        self.starved.lock().push(std::thread::current().id());
        Starved(self)
    }

    /// To be called before a move takes anything. Not for ever: two moves may both have tried in
    /// vain.
    pub(super) fn let_others_through(&self) {
        let own = std::thread::current().id();
        let others = |starved: &mut Vec<ThreadId>| starved.iter().any(|thread| *thread != own);
        self.fed
            .wait_while_for(&mut self.starved.lock(), others, PATIENCE);
    }

    /// To be taken before a name is looked at that is entered later.
    pub(super) fn mark(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Keeps everything where it is for a moment, if nothing has been moved since `mark`.
    pub(super) fn pin_since(&self, mark: u64) -> Option<RwLockReadGuard<'_, ()>> {
        let guard = self.under_way.read();
        (self.mark() == mark).then_some(guard)
    }

    /// Nothing is moved before this is dropped: what is staged goes to a log that has the
    /// container's name.
    pub(super) fn pin(&self) -> RwLockReadGuard<'_, ()> {
        self.under_way.read()
    }

    /// Nothing is moved before this is dropped; none if something is being moved.
    pub(super) fn try_pin(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.under_way.try_read()
    }

    /// Counts what moves have done, when none is under way.
    fn count(&self) -> u64 {
        drop(self.under_way.read());
        self.mark()
    }
}

/// More moves than this during one request are not waited for.
const TRIES: usize = 64;

/// After so many of them, moves wait for the request, at most `PATIENCE` each.
const TRIES_BEFORE_STARVING: usize = 4;
const PATIENCE: Duration = Duration::from_millis(200);

/// How long a request that may hold a lock which a move waits for waits for that move at once.
const MOMENT: Duration = Duration::from_millis(1);

impl Moves {
    /// Runs `work`, again if it finds nothing and a directory has been moved meanwhile.
    pub(crate) fn retry<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let mut before = self.mark();
        let mut starved = None;
        for tried in 0..TRIES {
            if tried == TRIES_BEFORE_STARVING {
                starved = Some(self.starve());
            }
            let done = work();
            if !done.as_ref().is_err_and(Error::is_lost) {
                return done;
            }
            match self.count() {
                now if now == before => return done,
                now => before = now,
            }
        }
        let done = work();
        drop(starved);
        done
    }

    /// Runs `work`, again if it finds nothing and a directory has been moved meanwhile, for a
    /// caller that may hold locks that a move waits for, or a pin: it does not wait until the move
    /// has come to its end.
    pub(super) fn retry_briefly(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        for _ in 0..TRIES {
            let before = self.mark();
            match work() {
                Err(e) if e.is_lost() && self.has_moved_since(before) => {}
                done => return done,
            }
        }
        work()
    }

    /// Whether anything was moved since `mark`, or is being moved.
    fn has_moved_since(&self, mark: u64) -> bool {
        match self.try_pin() {
            Some(_still) => self.mark() != mark,
            None => {
                std::thread::sleep(MOMENT);
                true
            }
        }
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
        assert!(moves.pin_since(mark).is_none());
        assert!(moves.pin_since(moves.count()).is_some());
    }

    /// How often work is done that succeeds for the n-th time, while moves do this.
    fn briefly(moves: &Moves, succeeds: usize, mut meanwhile: impl FnMut(usize)) -> (bool, usize) {
        let mut tries = 0;
        let done = moves.retry_briefly(&mut || {
            tries += 1;
            meanwhile(tries);
            match tries == succeeds {
                true => Ok(()),
                false => Err(Error::NotFound),
            }
        });
        (done.is_ok(), tries)
    }

    #[test]
    fn who_may_hold_up_a_move_tries_again_while_it_is_under_way_and_not_for_ever() {
        let moves = Moves::default();
        assert_eq!(briefly(&moves, 3, |_| {}), (false, 1));
        assert_eq!(briefly(&moves, 3, |_| drop(moves.begin())), (true, 3));
        let mut moving = Some(moves.begin());
        let end = |tries| drop(moving.take_if(|_| tries == 3));
        assert_eq!(briefly(&moves, 4, end), (true, 4));
        let _stays = moves.begin();
        assert_eq!(briefly(&moves, 1000, |_| {}), (false, TRIES + 1));
    }

    #[test]
    fn moves_wait_for_who_has_tried_in_vain_but_not_for_themselves() {
        let moves = Moves::default();
        let starved = moves.starve();
        moves.let_others_through();
        drop(moves.begin());
        let mark = moves.mark();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                moves.let_others_through();
                drop(moves.begin());
            });
            drop(starved);
        });
        assert!(moves.mark() > mark);
        assert!(moves.starved.lock().is_empty());
    }
}
