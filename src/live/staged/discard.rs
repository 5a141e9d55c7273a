//! Throwing away what is staged.
//!
//! Used by `tree::writing` for `user.arrayfs.discard`, and before a container is removed or
//! replaced.

use std::sync::Arc;

use crate::commit::Spot;
use crate::error::Result;
use crate::live::places::{Forget, Stale};
use crate::live::version::ContainerVersion;
use crate::live::{ContainerId, Containers, LiveContainer, refused};
use crate::stage::{log_names, new_name};

impl Containers {
    /// Throws away what is staged of a container, unless somebody is writing it (EBUSY).
    pub(crate) fn discard(&self, id: ContainerId, version: &Arc<ContainerVersion>) -> Result<()> {
        if self.places.is_written(version.id) {
            let path = self.known_path(id);
            return Err(refused("discard what is staged of", &path, libc::EBUSY));
        }
        let staged = &version.staged;
        let locked = staged.lock_commit();
        let Some(now) = staged.now() else {
            return Ok(());
        };
        staged.discard(&now, &self.cache)?;
        staged.note_why(None);
        drop(locked);
        self.forget_staged(version);
        // It may have been in the way of a version that somebody else has made since.
        if let Some(shown) = &self.places.container(id)?.known().version {
            shown.staged.forget_unsettled();
        }
        let all = |_| Stale::Pages(None);
        self.places.forget(id, Forget::Stale(version.id, &all));
        Ok(())
    }

    /// Forgets what is staged of a container that has been removed or replaced, and removes its
    /// logs, which lay at this place.
    pub(crate) fn discard_removed(&self, container: &LiveContainer, at: &Spot) {
        let version = container.known().version.clone();
        if let Some(version) = version {
            let _locked = version.staged.lock_commit();
            if let Some(now) = version.staged.now()
                && let Err(e) = version.staged.discard(&now, &self.cache)
            {
                log::warn!("{e}");
            }
            self.forget_staged(&version);
        }
        for left in log_names(&at.name).chain([new_name(&at.name)]) {
            if self.store.stat(&at.directory.join(&left)).is_ok()
                && let Ok(disk) = self.writable()
                && let Err(e) = disk.unlink(at.place(&left))
            {
                log::warn!("{e}");
            }
        }
    }
}
