//! What commits of a mount leave for later openings of the same version of a container.
//!
//! It is good as long as no other program changes the container. It belongs to a version: all
//! copies of it are one. There is one for every container that was looked up, so it is small. Used
//! by the formats when a container is opened and written; kept by `live`.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use super::own_lengths::OwnLengths;

/// Empty for a container that this mount has not written.
#[derive(Default)]
pub struct LeftByCommits {
    pub own_lengths: OwnLengths,
    of_format: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl LeftByCommits {
    /// What the container's format leaves, which it alone knows; empty at first.
    pub(crate) fn of_format<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let left = self.of_format.get_or_init(|| Arc::<T>::default());
        Arc::clone(left).downcast().unwrap_or_default()
    }
}
