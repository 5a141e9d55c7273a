//! The locks of everything: one place that says what they are, so that a model checker can put its
//! own in their place.
//!
//! They are `parking_lot`'s: a thread that panics leaves none poisoned behind, and what it was
//! changing is checked by whoever looks next. Built with the feature `schedules`, the locks are
//! [`scheduled`], by which `shuttle` tries many orders of threads in the tests of the cache, the
//! budget and the stage. `Arc`, `OnceLock` and the like are the standard library's.

#[cfg(not(feature = "schedules"))]
mod locks {
    pub use std::thread::ThreadId;

    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    /// Which thread this is.
    pub fn this_thread() -> ThreadId {
        std::thread::current().id()
    }
}

#[cfg(feature = "schedules")]
#[path = "sync/scheduled.rs"]
mod locks;
#[cfg(feature = "schedules")]
#[doc(hidden)]
pub mod schedules;

pub use locks::*;
