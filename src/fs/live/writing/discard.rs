//! Discarding stages.
//!
//! Used by `tree::writing` for `user.arrayfs.discard`, and before a container is removed or
//! replaced.

use std::ffi::OsString;
use std::sync::Arc;

use super::LayeredContainer;
use super::remembered::WrittenVersions;
use crate::commit::Spot;
use crate::error::Result;
use crate::live::container::LiveContainer;
use crate::live::ground::Ground;
use crate::live::places::{ContainerId, Forget, Stale};
use crate::live::refusal::refused;
use crate::live::version::ContainerVersion;
use crate::source::FileId;
use crate::stage::{log_names, new_name, next_name};

/// Discards what is staged.
pub(crate) struct Discarding {
    pub(crate) ground: Arc<Ground>,
    pub(crate) written: Arc<WrittenVersions>,
}

impl Discarding {
    /// Discards the stage of a container, unless it is open for writing (EBUSY).
    pub(crate) fn discard(&self, id: ContainerId, version: &Arc<ContainerVersion>) -> Result<()> {
        if self.ground.places.is_open_for_writing(version.id) {
            let path = self.ground.known_path(id);
            return Err(refused("discard what is staged of", &path, libc::EBUSY));
        }
        let writes = &version.writes;
        let locked = writes.wait_for_turn()?;
        let Some(now) = writes.now() else {
            return Ok(());
        };
        writes.discard(&now, &self.ground.cache)?;
        writes.outcome.note_why(None);
        drop(locked);
        self.written.forget(version);
        // It may have been in the way of a version that another process has made since.
        if let Some(shown) = &self.ground.places.container(id)?.known().version {
            shown.writes.log.forget_unrecovered();
        }
        let all = |_| Stale::Pages(None);
        self.ground
            .places
            .forget(id, Forget::Stale(version.id, &all));
        Ok(())
    }

    /// Discards the stage of a container that was removed: it cannot be found again.
    pub(crate) fn give_up(
        &self,
        version: &ContainerVersion,
        container: &LayeredContainer,
    ) -> Result<()> {
        version.writes.discard(container, &self.ground.cache)?;
        version.writes.outcome.note_why(None);
        self.written.forget(version);
        Ok(())
    }

    /// The files beside a container under the names of its logs and of its next file.
    pub(crate) fn logs_beside(&self, at: &Spot) -> Vec<(OsString, FileId)> {
        let names = log_names(&at.name).chain([new_name(&at.name), next_name(&at.name)]);
        let there = |name: OsString| {
            let found = self.ground.store.stat(&at.directory.join(&name)).ok()?;
            Some((name, found.id))
        };
        names.filter_map(there).collect()
    }

    /// Discards the stage of a container that has been removed or replaced.
    pub(crate) fn discard_removed(&self, container: &LiveContainer) {
        let version = container.known().version.clone();
        if let Some(version) = version {
            let _locked = version.writes.take_turn();
            if let Some(now) = version.writes.now()
                && let Err(e) = self.give_up(&version, &now)
            {
                log::warn!("{}", self.ground.told(version.container, &e));
            }
        }
    }

    /// Removes these logs of a container that has been removed. Logs of another process may have
    /// got their names since.
    pub(crate) fn remove_logs(&self, at: &Spot, logs: &[(OsString, FileId)]) {
        for (left, id) in logs {
            let now = self.ground.store.stat(&at.directory.join(left));
            if now.is_ok_and(|now| now.id == *id)
                && let Ok(disk) = self.ground.writable()
                && let Err(e) = disk.unlink(at.place(left))
            {
                let log = self.ground.store.display(&at.directory.join(left));
                log::warn!("{}", e.told_of(&log, ""));
            }
        }
    }
}
