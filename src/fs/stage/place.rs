//! Where the log of a stage lies.
//!
//! A container, or a directory above it, may be moved at any moment: so a place is asked for
//! whenever it is needed. A log is made under the container's name, which must not change
//! meanwhile: for that the place is pinned, before the lock of the log is taken. Whatever else is
//! done there is compared with the directory's number, and fails if something else lies there by
//! now. Implemented by `live::place`, and by [`LogSpot`] for containers that are not moved.

use crate::sync::RwLockReadGuard;

use super::log::LogSpot;
use crate::error::Result;

pub trait LogPlace: Send + Sync {
    /// Where it lies now.
    fn spot(&self) -> Result<LogSpot>;

    /// Where it lies now, and nothing is moved as long as what is returned is there.
    fn pinned(&self) -> Result<PinnedSpot<'_>>;

    /// Where it lies now, pinned, unless something is being moved: a move is not waited for.
    fn try_pinned(&self) -> Option<Result<PinnedSpot<'_>>>;

    /// Runs `work`, again if it finds nothing and something is moved meanwhile. The caller may hold
    /// locks that a move waits for.
    fn retry(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        work()
    }

    /// The container's owner is another one by now.
    fn owner_changed(&self) {}
}

/// A place, until it is dropped.
pub struct PinnedSpot<'a> {
    pub spot: LogSpot,
    _pin: Option<RwLockReadGuard<'a, ()>>,
}

impl<'a> PinnedSpot<'a> {
    /// `pin`: nothing is moved before it is dropped; none where nothing is moved.
    pub fn new(spot: LogSpot, pin: Option<RwLockReadGuard<'a, ()>>) -> PinnedSpot<'a> {
        PinnedSpot { spot, _pin: pin }
    }
}

impl LogPlace for LogSpot {
    fn spot(&self) -> Result<LogSpot> {
        Ok(self.clone())
    }

    fn pinned(&self) -> Result<PinnedSpot<'_>> {
        Ok(PinnedSpot::new(self.clone(), None))
    }

    fn try_pinned(&self) -> Option<Result<PinnedSpot<'_>>> {
        Some(self.pinned())
    }
}
