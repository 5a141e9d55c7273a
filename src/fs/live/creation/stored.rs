//! New containers into which the files of one are put as they are stored: these are the container.
//!
//! Used by [`super::pack`], and by `tree::writing::promote` when such a file is closed.

use std::path::Path;
use std::sync::Arc;

use super::drafts::Drafts;
use crate::commit::tidy::remove_tree;
use crate::container::Recognised;
use crate::disk::{NewAttributes, Renaming};
use crate::error::Result;
use crate::live::container::LiveContainer;
use crate::live::directory::SourceDirectory;
use crate::live::ground::Ground;
use crate::live::places::ContainerId;
use crate::live::recognition::{Recognition, recognise};
use crate::source::{Listed, Stat};
use crate::stage::drafts_name;

/// Takes drafts as the files of a container.
pub(crate) struct StoredDrafts {
    pub(crate) ground: Arc<Ground>,
    pub(crate) drafts: Arc<Drafts>,
}

impl StoredDrafts {
    /// Whether a directory has files of a container as they are stored: one that is no array, or
    /// all of them.
    pub(crate) fn is_stored(&self, recognised: &Recognised, path: &Path) -> Result<bool> {
        let (layout, creation) = (recognised.layout(), recognised.format.creation());
        let Some(creation) = creation.filter(|_| !layout.is_file()) else {
            return Ok(false);
        };
        let mut stored = false;
        self.ground.store.list(path, &mut |Listed { name, .. }| {
            let path = name.to_str();
            let is_shown =
                path.is_some_and(|path| creation.has_array(path) || creation.is_derived(path));
            stored |= layout.has_member(name) && !is_shown;
        })?;
        if stored {
            return Ok(true);
        }
        let stat = self.ground.store.stat(path)?;
        let preferences = self.ground.settings.preferences;
        match recognise(&*self.ground.store, path, &stat, preferences)? {
            Recognition::Container(found) if found.damage.is_none() => {
                let opened = found.open(&self.ground.store, path, self.ground.budget())?;
                Ok(opened.faults.is_empty())
            }
            _ => Ok(false),
        }
    }

    /// The drafts of a new container are a stored one, file for file: their directory takes the
    /// place of the empty one as it is. No request uses it meanwhile.
    pub(crate) fn take_as_stored(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        drafts: &SourceDirectory,
        (path, empty): (&Path, &Stat),
    ) -> Result<()> {
        let (disk, spot) = (self.ground.writable()?, self.ground.spot(path)?);
        let hidden = drafts_name(&spot.name);
        self.ground.places.exchanged(id, &mut || {
            let stat = self.ground.store.stat(&drafts.path)?;
            let (place, other) = (spot.place(&spot.name), spot.place(&hidden));
            disk.rename(other, place, Renaming::Exchange)?;
            container.new.end();
            // Not before: drafts are recognised by their mode.
            self.set_mode(path, &stat, empty.mode.into())?;
            // Files that were written through this mount stay files as long as it is there.
            let recognised = container.known().recognised.clone();
            Ok(self.has_written_in(&recognised, path).then_some(stat))
        })?;
        remove_tree(disk, &*self.ground.store, &spot, &hidden)?;
        self.ground.sync(&spot.directory, spot.id)?;
        self.drafts.forget_entries(id);
        Ok(())
    }

    /// Whether a directory that looks like a container has files that were made or written where it
    /// is shown: the programs that wrote them expect to find them as files.
    fn has_written_in(&self, container: &Recognised, path: &Path) -> bool {
        let is_written = |member: &&str| {
            let found = self.ground.store.stat(&path.join(member));
            found.is_ok_and(|stat| self.ground.places.has_written(stat.id))
        };
        container.layout().identifying().iter().any(is_written)
    }

    pub(crate) fn set_mode(&self, path: &Path, stat: &Stat, mode: u32) -> Result<()> {
        let to = NewAttributes {
            mode: Some(mode),
            ..NewAttributes::default()
        };
        self.ground.set_attributes(path, stat.id, &to)
    }
}
