//! Memory beyond the budget, for a moment and for one thread at a time.
//!
//! A decode that needs a block of another array holds memory already, so it may not wait for more;
//! and it should not fail because many do the same at once. It waits for its turn instead: a thread
//! that overdraws waits for no memory, only decodes (which may overdraw again), so every turn ends.
//! Used by [`super`] alone.

use std::sync::Arc;

use super::{Budget, Hold};
use crate::error::Result;
use crate::memory::no_memory;
use crate::sync::{ThreadId, this_thread};

/// The thread that overdraws.
pub(super) struct Overdrawer {
    thread: ThreadId,
    /// How many overdrafts of it there are, one within the other.
    depth: u64,
}

/// Bytes charged whether or not they are there, returned on drop by the thread that took them.
pub struct Overdraft {
    hold: Hold,
    budget: Arc<Budget>,
}

impl Budget {
    /// Charges `bytes` past the limit if need be; ENOMEM if they are more than half of it. For
    /// memory that the calling thread gives back before it does anything but decode.
    pub fn overdraw(self: &Arc<Self>, bytes: u64) -> Result<Overdraft> {
        if bytes > self.limit / 2 {
            return Err(no_memory(
                "a block within a block does not fit into the memory given by cache=",
            ));
        }
        let thread = this_thread();
        let mut account = self.lock();
        loop {
            match &mut account.overdrawn {
                None => account.overdrawn = Some(Overdrawer { thread, depth: 1 }),
                Some(owner) if owner.thread == thread => owner.depth += 1,
                Some(_) => {
                    self.repaid.wait(&mut account);
                    continue;
                }
            }
            break;
        }
        account.used = account.used.saturating_add(bytes);
        drop(account);
        let overdraft = Overdraft {
            hold: self.hold(bytes, false),
            budget: Arc::clone(self),
        };
        self.return_to_limit();
        Ok(overdraft)
    }
}

impl Overdraft {
    /// Its bytes, for memory that is charged by a [`Hold`]: to be dropped before the overdraft.
    pub fn hold(&mut self) -> Hold {
        self.hold.split(u64::MAX)
    }
}

impl Drop for Overdraft {
    fn drop(&mut self) {
        // Before the next thread's turn, or both would be charged.
        drop(self.hold());
        let mut account = self.budget.lock();
        if let Some(owner) = &mut account.overdrawn {
            owner.depth -= 1;
            if owner.depth == 0 {
                account.overdrawn = None;
            }
        }
        drop(account);
        self.budget.repaid.notify_all();
    }
}
