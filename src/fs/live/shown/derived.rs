//! Files that follow from arrays: how long they are with what is staged, and opening them.
//!
//! What they say is put together by [`super::restated`] and [`super::text_views`]. Used by
//! [`super::entry`].

use std::sync::Arc;

use super::entry_table::{ArrayNumber, EntryIndex};
use super::open_container::{DerivedEntry, OpenContainer};
use super::open_entry::{DerivedFile, OpenArray, OpenContent, OpenEntry};
use super::restated::Restating;
use super::stored_readers::StoredReaders;
use super::text_views::TextViewer;
use crate::array::npy;
use crate::container::describe::TextsToRead;
use crate::container::writable::ComputedBytes;
use crate::error::Result;
use crate::live::ground::Ground;
use crate::live::version::ContainerVersion;
use crate::memory::fallible;

pub(crate) struct DerivedFiles {
    pub(crate) ground: Arc<Ground>,
    pub(crate) restating: Arc<Restating>,
    pub(crate) text_views: Arc<TextViewer>,
    pub(crate) readers: Arc<StoredReaders>,
}

impl DerivedFiles {
    /// Bytes of a file that follows from arrays, if staged changes make it another one.
    pub(crate) fn restated_size(
        &self,
        version: &ContainerVersion,
        opened: &Arc<OpenContainer>,
        entry: EntryIndex,
    ) -> Result<Option<u64>> {
        if version.writes.now().is_none_or(|now| now.stage.is_clean()) {
            return Ok(None);
        }
        let (said, size) = (&self.restating, |bytes: &[u8]| Some(bytes.len() as u64));
        Ok(match opened.derived(entry) {
            None | Some(DerivedEntry::Stored) => None,
            Some(DerivedEntry::Array(number)) => {
                let info = said.info(version, number)?;
                info.map(|info| info.bytes)
            }
            Some(DerivedEntry::View(number)) => {
                if let Some(size) = self.text_views.size(version, opened, entry)? {
                    return Ok(Some(size));
                }
                let info = said.info(version, number)?;
                info.map(|info| npy::header(&info).len() as u64 + info.bytes)
            }
            Some(DerivedEntry::ArraysJson(part)) => {
                size(&said.arrays_json(version, opened, part, TextsToRead::Few)?)
            }
            Some(DerivedEntry::GroupJson) => {
                size(&said.group_json(version, opened, entry, TextsToRead::Few)?)
            }
            Some(DerivedEntry::Text(part)) => {
                let restated = said.restated(version, part)?;
                let text = restated.texts.get(&*opened.name(entry)?.to_string_lossy());
                text.and_then(|text| size(text))
            }
        })
    }

    /// Opens a file that follows from arrays which may be written.
    pub(crate) fn open(
        &self,
        version: &Arc<ContainerVersion>,
        opened: Arc<OpenContainer>,
        entry: EntryIndex,
        what: DerivedEntry,
    ) -> Result<OpenEntry> {
        let derived = DerivedFile {
            version: Arc::clone(version),
            entry,
            edition: version.writes.edition(),
        };
        if let Some(view) = self.text_views.open(version, &opened, entry)? {
            return Ok(view.derived_from(Some(derived)));
        }
        let open = match what {
            DerivedEntry::Array(number) => self.open_array(version, opened, number, None),
            DerivedEntry::View(number) => {
                let info = match self.restating.info(version, number)? {
                    Some(info) => info,
                    None => opened.info(number)?,
                };
                self.open_array(version, opened, number, Some(npy::header(&info)))
            }
            DerivedEntry::ArraysJson(part) if version.writes.now().is_some() => {
                let text = Arc::new(self.restating.arrays_json(
                    version,
                    &opened,
                    part,
                    TextsToRead::All,
                )?);
                Ok(OpenEntry::new(OpenContent::Bytes(text), opened))
            }
            DerivedEntry::GroupJson if version.writes.now().is_some() => {
                let text = Arc::new(self.restating.group_json(
                    version,
                    &opened,
                    entry,
                    TextsToRead::All,
                )?);
                Ok(OpenEntry::new(OpenContent::Bytes(text), opened))
            }
            DerivedEntry::Text(part) if version.writes.now().is_some() => {
                let restated = self.restating.restated(version, part)?;
                match restated.texts.get(&*opened.name(entry)?.to_string_lossy()) {
                    Some(text) => {
                        let text = OpenContent::Bytes(Arc::clone(text));
                        Ok(OpenEntry::new(text, opened))
                    }
                    None => opened.open(entry, &self.ground.cache),
                }
            }
            DerivedEntry::ArraysJson(_) | DerivedEntry::GroupJson | DerivedEntry::Text(_) => {
                opened.open(entry, &self.ground.cache)
            }
            DerivedEntry::Stored => self.readers.open_stored(&self.ground, version, opened),
        };
        Ok(open?.derived_from(Some(derived)))
    }

    /// An array as all its handles share it, or as computed if it follows from others; with a
    /// view's header before it.
    fn open_array(
        &self,
        version: &Arc<ContainerVersion>,
        opened: Arc<OpenContainer>,
        number: ArrayNumber,
        header: Option<Vec<u8>>,
    ) -> Result<OpenEntry> {
        let writes = &version.writes;
        let computed = match writes.now() {
            Some(container) => writes
                .stored
                .while_it_stays(|| container.computed(number, &self.ground.cache))?,
            None => None,
        };
        if let Some(ComputedBytes { bytes, mut hold }) = computed {
            let header = header.unwrap_or_default();
            hold.keep_more(header.len() as u64)?;
            let mut whole = fallible::room_for(header.len() + bytes.len(), "cannot open a view")?;
            whole.extend_from_slice(&header);
            whole.extend_from_slice(&bytes);
            return Ok(OpenEntry::computed(whole, hold, opened));
        }
        let shared = writes.share(number, &opened, &self.ground.cache)?;
        let open = match header {
            Some(header) => OpenArray::view(shared, writes.view_header(number, header)),
            None => OpenArray::new(shared, None),
        };
        Ok(OpenEntry::new(OpenContent::Array(open), opened))
    }
}
