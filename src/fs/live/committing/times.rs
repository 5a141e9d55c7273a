//! Mode, owner and times of a container's files, while its version goes on.
//!
//! A log knows the files by their times, so these are changed while no thread compares them, and
//! are on the disk before a log is made that goes by them. Used by [`super`], and by
//! `tree::writing::attributes`.

use std::path::Path;
use std::sync::Arc;

use super::publish::Publication;
use crate::commit::base_of;
use crate::container::MemberStats;
use crate::container::writable::CommitWay;
use crate::disk::{NewAttributes, NewTime};
use crate::error::Result;
use crate::live::ground::Ground;
use crate::live::version::ContainerVersion;
use crate::source::Timestamp;

/// Sets attributes of the files of containers.
pub(crate) struct ContainerTimes {
    pub(crate) ground: Arc<Ground>,
    pub(crate) publication: Arc<Publication>,
}

impl ContainerTimes {
    /// The attributes that can be set now. The time of a container of which something is staged is
    /// set by its commit: the log names the container by the time that it has.
    pub(crate) fn now_or_at_commit(
        &self,
        version: &ContainerVersion,
        to: &NewAttributes,
    ) -> NewAttributes {
        let Some(staged) = version.writes.now() else {
            return *to;
        };
        // Changes that were taken back need no log, which would name the files by their old times.
        if let Err(e) = version.writes.tidy(&staged, &self.ground.cache) {
            log::warn!("{}", self.ground.told(version.container, &e));
        }
        if staged.stage.is_clean() {
            return *to;
        }
        match to.mtime {
            Some(NewTime::At(time)) => staged.stage.set_last_write(time),
            Some(NewTime::Now) => staged.stage.set_last_write(Timestamp::now()),
            None => {}
        }
        NewAttributes {
            atime: None,
            mtime: None,
            ..*to
        }
    }

    /// The files that a commit has left alone get the time that it has given to the others, and so
    /// does their directory.
    pub(crate) fn set_time_of_all(
        &self,
        version: &Arc<ContainerVersion>,
        path: &Path,
        time: Timestamp,
    ) -> Result<()> {
        let found = version.recognised.stat(&*self.ground.store, path)?;
        let mtime = Some(NewTime::At(time));
        self.set_times(version, path, (&found, None, mtime))
            .map(drop)
    }

    /// Sets times of all files. The stored bytes are the same: the version goes on with the
    /// identity that this leaves, and a log that is made later names it. False if there is a log
    /// already.
    pub(crate) fn set_times(
        &self,
        version: &Arc<ContainerVersion>,
        path: &Path,
        (found, atime, mtime): (&MemberStats, Option<NewTime>, Option<NewTime>),
    ) -> Result<bool> {
        let to = NewAttributes {
            atime,
            mtime,
            ..NewAttributes::default()
        };
        let (staged, mut is_set) = (version.writes.now(), Ok(true));
        let mut publish_set = || {
            let set = || {
                self.set_of_files(version, path, found, &to, None)?;
                self.sync_files(version, path, found)
            };
            let Some(staged) = &staged else {
                is_set = set().map(|()| true);
                return Ok(());
            };
            let changed = staged.stage.change_base(&mut || {
                let (set, now) = (set(), version.recognised.stat(&*self.ground.store, path));
                (set, now.ok().map(|now| base_of(&version.recognised, &now)))
            });
            is_set = changed.map_or(Ok(false), |set| set.map(|()| true));
            // Even after a failure the times set so far are our change.
            Ok(())
        };
        let shown = staged.as_deref();
        let published = self.publication.publish(
            version,
            shown,
            (CommitWay::InPlace, None),
            &mut publish_set,
        )?;
        self.ground.forget_blocks(published.outdated);
        is_set
    }

    /// The power may go when a log that knows the files by these times is on the disk: so they are
    /// there before.
    fn sync_files(
        &self,
        version: &ContainerVersion,
        path: &Path,
        found: &MemberStats,
    ) -> Result<()> {
        let layout = version.recognised.layout();
        for (name, stat) in layout.identifying().iter().zip(&found.members) {
            if let Some(stat) = stat {
                self.ground.sync(&path.join(name), stat.id)?;
            }
        }
        match layout.is_file() {
            true => self.ground.sync(path, found.own.id),
            false => Ok(()),
        }
    }

    pub(crate) fn set_of_files(
        &self,
        version: &ContainerVersion,
        path: &Path,
        found: &MemberStats,
        of_files: &NewAttributes,
        own_mode: Option<u32>,
    ) -> Result<()> {
        let members = version.recognised.layout().identifying().iter();
        for (name, stat) in members.zip(&found.members) {
            if let Some(stat) = stat {
                self.ground
                    .set_attributes(&path.join(name), stat.id, of_files)?;
            }
        }
        let own = NewAttributes {
            mode: own_mode,
            ..*of_files
        };
        self.ground.set_attributes(path, found.own.id, &own)
    }
}
