//! How the tree is shown: owners, modes, views, access control lists. Used by all of `tree`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::live::ContainerSettings;
use crate::live::shown::open_container::Views;
use crate::source::acl::AccessList;

/// How the tree is shown.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub umask: Option<u16>,
    pub containers: ContainerSettings,
    pub lists: ShownLists,
    pub views: Views,
}

/// Whether access control lists are shown, which is known when the kernel has agreed to look at
/// them. Without, modes are all that it decides by.
#[derive(Debug, Clone, Default)]
pub struct ShownLists(Arc<AtomicBool>);

impl ShownLists {
    /// From now on access control lists are shown, and the kernel looks at them.
    pub(super) fn show(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn are_shown(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Settings {
    /// Of the mode that allows nobody more than the list does, and that beside the list.
    pub(super) fn shown_mode(&self, alone: u16, list: Option<&AccessList>) -> u16 {
        match list {
            Some(list) if self.lists.are_shown() => list.mode(),
            _ => alone,
        }
    }
}
