//! What a commit knows of the container that it is about to make, for the opening of that.
//!
//! A container whose structure is costly to find out need not be looked into again: its format has
//! told what will change. It is handed over once, to the opening that comes before a commit becomes
//! visible, through the log or of the new files; any other opening looks for itself. Used by
//! `hdf5`; kept by `live`.

use std::any::Any;
use std::sync::Arc;

use crate::sync::{Mutex, MutexGuard};

/// What its format makes of it.
pub(crate) type CarriedOver = Arc<dyn Any + Send + Sync>;

/// Of a version of a container.
#[derive(Default)]
pub struct Carried(Mutex<Option<CarriedOver>>);

impl Carried {
    /// In place of what was there; none if a commit tells nothing.
    pub(crate) fn set(&self, over: Option<CarriedOver>) {
        *self.lock() = over;
    }

    pub(crate) fn take(&self) -> Option<CarriedOver> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<CarriedOver>> {
        self.0.lock()
    }
}
