//! Changes that a daemon left behind, found when a container is looked into for the first time.
//!
//! What a log asks for is carried out before a version of the container begins; what is still staged then goes on being
//! staged, and is committed if it can be. A log that does not fit its container stays where it is: the container is shown as it
//! is, and cannot be written. Used by `version`.

use std::path::Path;
use std::sync::Arc;

use super::super::entry_table::ContainerNumber;
use super::super::staged::StagedContainer;
use super::super::version::ContainerVersion;
use super::super::{InodeId, Tree};
use super::commit::Effort;
use crate::commit::recovery::{clear, left_at, settle};
use crate::container::Recognised;
use crate::error::{Error, Result};
use crate::stage::{LogState, Stage};

impl Tree {
    /// Settles what the log of a container asks for, if there is one.
    pub(in crate::tree) fn settle(
        &self,
        recognised: &Recognised,
        path: &Path,
    ) -> Result<Option<Arc<Stage>>> {
        let Some(memory) = self.stage_memory.as_ref() else {
            return Ok(None);
        };
        if !recognised.format.is_changed() {
            return Ok(None);
        }
        let spot = self.log_spot(recognised, path)?;
        let Some(left) = left_at(recognised, &*self.store, path)? else {
            return clear(&spot).map(|()| None);
        };
        settle(&spot, &left, memory, |state| {
            match self.settings.settles_stale {
                true => self.fits(recognised, path, state),
                false => Ok(false),
            }
        })
    }

    /// Whether what is staged can be taken for changes of a container: its arrays are as long as those that were opened.
    fn fits(&self, recognised: &Recognised, path: &Path, state: &LogState) -> Result<bool> {
        let container = recognised.open(&self.store, path, self.cache.budget())?;
        let mut now = Vec::new();
        for array in container.written() {
            now.push((array.name().to_owned(), array.info()?.bytes));
        }
        Ok(container.format == state.base().format && now == state.arrays())
    }

    /// Looks into the container that the root is, for what was left beside it. An error says why that stays as it is.
    pub fn commit_left(&self) -> Result<()> {
        let node = self.inodes.get(InodeId::ROOT)?;
        let container = node.container().ok_or(Error::Unsuitable)?;
        let version = self.current(InodeId::ROOT, container)?;
        match version.staged.unsettled() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Goes on with what a daemon before has staged.
    pub(in crate::tree) fn go_on(&self, version: &Arc<ContainerVersion>, stage: Arc<Stage>) {
        let begun = version.staged.begun(&self.cache, || {
            let base = self.open_version(version)?;
            let written = base.container(ContainerNumber(0))?.written();
            let lens = written.map(|array| Ok(array.info()?.bytes));
            stage.rebase(&lens.collect::<Result<Vec<_>>>()?);
            StagedContainer::new(stage, base)
        });
        if let Err(e) = begun {
            return log::warn!("{e}");
        }
        self.remember_staged(version);
        if let Err(e) = self.commit(version, Effort::Usual) {
            log::warn!("{e}");
        }
    }
}
