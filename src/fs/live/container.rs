//! A container from the moment at which it is recognised: its kind in the source, whether it is
//! new, and the version that is shown.
//!
//! The tree keeps one of these for each container that it shows, and passes it to
//! [`super::Containers`] with the container's number. Used by `tree::node`.

use std::sync::Arc;

use super::creation::state::CreationState;
use super::version::ContainerVersion;
use crate::container::Recognised;
use crate::source::{FileKind, SourceIdentity};
use crate::sync::{Mutex, MutexGuard};

pub struct LiveContainer {
    /// Its kind in the source: a file or a directory.
    pub(crate) stored: FileKind,
    /// Whether it has just been made.
    pub(crate) new: CreationState,
    known: Mutex<KnownContainer>,
}

/// A container's format and the version that is shown.
pub(crate) struct KnownContainer {
    pub(crate) recognised: Recognised,
    /// Of its file or directory, when it was recognised.
    pub(crate) seen: Option<SourceIdentity>,
    /// None until the container is looked into.
    pub(crate) version: Option<Arc<ContainerVersion>>,
}

impl LiveContainer {
    pub(crate) fn new(stored: FileKind, recognised: Recognised) -> Self {
        LiveContainer {
            stored,
            new: CreationState::default(),
            known: Mutex::new(KnownContainer {
                recognised,
                seen: None,
                version: None,
            }),
        }
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, KnownContainer> {
        self.known.lock()
    }
}

impl KnownContainer {
    /// Whether it is this version.
    pub(crate) fn shows(&self, version: &Arc<ContainerVersion>) -> bool {
        let now = self.version.as_ref();
        now.is_some_and(|now| Arc::ptr_eq(now, version))
    }
}
