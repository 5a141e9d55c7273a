//! Drafts, and empty containers, that a daemon has left behind. Used by [`crate::live::current`].

use std::path::Path;
use std::sync::Arc;

use super::added::AddedFiles;
use super::content::read_description;
use super::drafts::Drafts;
use super::roles::DraftRules;
use crate::commit::drafts::{DraftsState, drafts_path, left_drafts};
use crate::commit::tidy::remove_left;
use crate::container::Recognised;
use crate::error::Result;
use crate::live::container::LiveContainer;
use crate::live::ground::Ground;
use crate::live::places::ContainerId;
use crate::live::shown::entry_table::ARRAYS_JSON;
use crate::source::{FileId, FileKind};
use crate::stage::new_name;

/// An empty container has no more bytes than that.
const SMALL: u64 = 1 << 10;

/// Goes on with drafts that a daemon has left.
pub(crate) struct LeftDrafts {
    pub(crate) ground: Arc<Ground>,
    pub(crate) drafts: Arc<Drafts>,
    pub(crate) added: Arc<AddedFiles>,
}

impl LeftDrafts {
    /// Goes on with a container that was new when a daemon ended: the drafts that are left are
    /// shown again.
    pub(crate) fn resume(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        recognised: &Recognised,
        path: &Path,
    ) -> Result<()> {
        let is_small = || {
            self.ground
                .store
                .stat(path)
                .is_ok_and(|stat| stat.kind == FileKind::Directory || stat.size <= SMALL)
        };
        // Beside the source itself there is no place for drafts.
        let has_place = path.file_name().is_some() && recognised.format.creation().is_some();
        let may_be_new = has_place && is_small();
        if self.ground.disk.is_none() && !may_be_new {
            return Ok(());
        }
        let left = left_drafts(recognised, &*self.ground.store, path, self.ground.budget())?;
        if self.ground.disk.is_none() {
            if left.is_some_and(|left| left.recovery_state == DraftsState::New && !left.is_empty) {
                let path = self.ground.store.display(path);
                log::warn!(
                    "{}: what was put into it is shown by a writable mount",
                    path.display()
                );
            }
            return Ok(());
        }
        match left.as_ref().map(|left| left.recovery_state) {
            Some(DraftsState::New) => {
                let drafts = left.map_or_else(FileId::default, |left| left.id);
                container.new.begin(drafts);
                self.drafts.watch(id);
            }
            // The empty container is removed with the leftovers of commits.
            Some(DraftsState::Packed) => {
                let drafts = drafts_path(path);
                if let Some(creation) = recognised.format.creation() {
                    let described = read_description(&self.ground, &drafts.join(ARRAYS_JSON)).ok();
                    let description = described.as_ref().map(|(description, _)| description);
                    let rules = DraftRules::new(creation, description);
                    self.added.keep_beside(&rules, creation, &drafts, path)?;
                }
                self.drafts.remove(None, &drafts)?;
                self.clear_replaced(recognised, path)?;
            }
            Some(DraftsState::Foreign) => {
                let path = self.ground.store.display(&drafts_path(path));
                log::warn!("{}: not of the container beside it", path.display());
            }
            None if may_be_new => self.clear_replaced(recognised, path)?,
            None => {}
        }
        Ok(())
    }

    /// Removes an empty container that one has replaced which is a directory: a crash may have left
    /// it.
    fn clear_replaced(&self, recognised: &Recognised, path: &Path) -> Result<()> {
        let layout = recognised.layout();
        if !layout.is_file() {
            let (disk, spot) = (self.ground.writable()?, self.ground.spot(path)?);
            let hidden = new_name(&spot.name);
            if let Err(e) = remove_left(disk, &*self.ground.store, &spot, &hidden, layout) {
                log::warn!("{}", e.told_of(&self.ground.store.display(path), ""));
            }
        }
        Ok(())
    }
}
