//! A file that is read as it is going to be, and then as it is.
//!
//! What is planned by it holds for both: they are the same bytes. Used by `live`, which opens a
//! container before a commit makes its files visible, and by containers that live on through
//! commits.

use std::sync::Arc;

use super::Source;
use super::current::Current;
use crate::sync::RwLock;

pub struct SwitchedSource {
    now: RwLock<Arc<dyn Source>>,
}

impl SwitchedSource {
    pub fn new(future: Arc<dyn Source>) -> SwitchedSource {
        SwitchedSource {
            now: RwLock::new(future),
        }
    }

    /// The file is what it was going to be.
    pub fn switch(&self, file: Arc<dyn Source>) {
        *self.now.write() = file;
    }

    pub fn now(&self) -> Arc<dyn Source> {
        let now = self.now.read();
        Arc::clone(&now)
    }
}

impl Current for SwitchedSource {
    fn current(&self) -> Arc<dyn Source> {
        self.now()
    }

    fn is_switched(&self) -> bool {
        true
    }
}
