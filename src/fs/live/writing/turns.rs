//! One commit of a container at a time: the others take turns.
//!
//! A turn may be long, and a program that has been killed cannot end as long as it is waited for in
//! its name: so waiting can be given up. Used by [`super`].

use crate::sync::{Condvar, Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::patience::{self, BETWEEN_LOOKS};

#[derive(Default)]
pub(crate) struct CommitTurns {
    is_taken: Mutex<bool>,
    free: Condvar,
}

/// The right to commit.
pub(crate) struct CommitTurn<'a>(&'a CommitTurns);

impl Drop for CommitTurn<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.free.notify_one();
    }
}

impl CommitTurns {
    /// Waits for it, however long.
    pub(super) fn take(&self) -> CommitTurn<'_> {
        let mut taken = self.lock();
        self.free.wait_while(&mut taken, |taken| *taken);
        *taken = true;
        CommitTurn(self)
    }

    /// Waits for it until who waits has been killed.
    pub(super) fn wait(&self) -> Result<CommitTurn<'_>> {
        let mut taken = self.lock();
        while *taken {
            let waited = self.free.wait_for(&mut taken, BETWEEN_LOOKS);
            if *taken && waited.timed_out() {
                // A look may take a while, and who has the turn wants to give it back.
                drop(taken);
                if patience::caller().has_gone() {
                    return Err(Error::Unwanted);
                }
                taken = self.lock();
            }
        }
        *taken = true;
        Ok(CommitTurn(self))
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_taken.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_has_its_turn() {
        let (turns, done) = (CommitTurns::default(), Mutex::new(0));
        std::thread::scope(|threads| {
            for wait in [true, false, true, false] {
                let (turns, done) = (&turns, &done);
                threads.spawn(move || {
                    for _ in 0..200 {
                        let _turn = match wait {
                            true => turns.wait().unwrap(),
                            false => turns.take(),
                        };
                        *done.try_lock().expect("two at once") += 1;
                    }
                });
            }
        });
        assert_eq!(*done.lock(), 800);
    }

    #[test]
    fn a_panic_ends_a_turn() {
        let turns = CommitTurns::default();
        let panics = || {
            let _turn = turns.take();
            panic!("in its turn");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        drop(turns.wait().unwrap());
    }
}
