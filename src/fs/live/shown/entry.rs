//! Entries of containers: opening them to be read, and their attributes, with staged changes.
//!
//! Used by `tree`.

use std::sync::Arc;

use super::derived::DerivedFiles;
use super::entry_stat::EntryStat;
use super::entry_table::EntryIndex;
use super::open_container::OpenContainer;
use super::open_entry::{OpenArray, OpenContent, OpenEntry};
use super::stored_readers::StoredReaders;
use super::text_views::TextViewer;
use crate::error::Result;
use crate::live::ground::Ground;
use crate::live::opening::Opener;
use crate::live::owner::Owner;
use crate::live::version::ContainerVersion;
use crate::source::FileKind;

/// Bits of a mode that let any user write.
pub(crate) const WRITABLE: u16 = 0o222;

/// Opens entries of containers, and says their attributes.
pub(crate) struct LiveEntries {
    pub(crate) ground: Arc<Ground>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) derived: Arc<DerivedFiles>,
    pub(crate) text_views: Arc<TextViewer>,
    pub(crate) readers: Arc<StoredReaders>,
}

impl LiveEntries {
    /// Opens an entry of a container, to be read. Handles of an array that may be written share its
    /// shown content.
    pub(crate) fn open(
        &self,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
    ) -> Result<OpenEntry> {
        let opened = self.opener.open(version)?;
        self.check_array(version, &opened, entry)?;
        if let Some(derived) = opened.derived(entry).filter(|_| self.ground.disk.is_some()) {
            return self.derived.open(version, opened, entry, derived);
        }
        if let Some(view) = self.text_views.open(version, &opened, entry)? {
            return Ok(view);
        }
        if opened.is_stored(entry) {
            return self.readers.open_stored(&self.ground, version, opened);
        }
        match opened.array_at(entry) {
            Some(number) if self.ground.disk.is_some() && opened.writable().is_some() => {
                let shared = version.writes.share(number, &opened, &self.ground.cache)?;
                let content = OpenContent::Array(OpenArray::new(shared, None));
                Ok(OpenEntry::new(content, opened))
            }
            _ => opened.open(entry, &self.ground.cache),
        }
    }

    /// Whether an array, as far as it has been read, is still what the source holds: parts of a
    /// container may be more than its identity tells of.
    fn check_array(
        &self,
        version: &ContainerVersion,
        opened: &OpenContainer,
        entry: EntryIndex,
    ) -> Result<()> {
        let unchanged = opened.outermost()?.unchanged.as_ref();
        let Some((unchanged, number)) = unchanged.zip(opened.shown_array(entry)) else {
            return Ok(());
        };
        if unchanged.is_array_unchanged(&opened.array(number)?.path())? {
            return Ok(());
        }
        version.outdate();
        let path = self.ground.places.known_path(version.container)?;
        Err(self.ground.changed(&path))
    }

    /// The owner of a container with the rights that an entry of it shows. In a mount that is only
    /// read these are those of the source.
    pub(crate) fn owner(
        &self,
        opened: &OpenContainer,
        entry: EntryIndex,
        mut owner: Owner,
    ) -> Result<Owner> {
        let may_write = self.ground.disk.is_none() || opened.is_writable(entry);
        if !may_write && opened.kind(entry)? == FileKind::File {
            owner.map_rights(|mode| mode & !WRITABLE);
        }
        Ok(owner)
    }

    /// The attributes of an entry of a container, with staged changes.
    pub(crate) fn stat(
        &self,
        version: &ContainerVersion,
        opened: &Arc<OpenContainer>,
        entry: EntryIndex,
    ) -> Result<EntryStat> {
        let owner = self.owner(opened, entry, version.owner())?;
        let mut stat = opened.stat(entry, &owner)?;
        if let Some(size) = self.text_views.size(version, opened, entry)? {
            stat.size = size;
        }
        let Some(container) = version.writes.now() else {
            return Ok(stat);
        };
        stat.follows |= opened.derived(entry).is_some();
        if let Some(written) = container.stage.last_write() {
            let owner = &mut stat.owner;
            (owner.mtime, owner.ctime) = (owner.mtime.max(written), owner.ctime.max(written));
        }
        if let Some(number) = opened.array_at(entry) {
            if let Some(array) = container.written(number) {
                stat.size = container.stage.len(array);
            }
            stat.is_written = true;
        }
        if let Some(size) = self.derived.restated_size(version, opened, entry)? {
            stat.size = size;
        }
        Ok(stat)
    }
}
