//! What is shown of a container beside its arrays while something is staged: views, `arrays.json`,
//! texts, attributes, and arrays that follow from others.
//!
//! All of it is as the arrays are now, whether or not that can be committed; how they are stored
//! (`stored_bytes`, blocks, codec) is as it is stored. Every change makes another *edition* of the
//! container. A text is put together when it is asked for, once for each edition; the kernel keeps
//! its pages of a derived file from one open to the next as long as the edition stays. Used by
//! `entry` and `xattr`.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::entry_table::{ArrayNumber, EntryIndex};
use super::open_container::OpenContainer;
use crate::array::Info;
use crate::cache::BlockCache;
use crate::container::describe::{
    TextsToRead, arrays_json_restated, empty_group_json, groups_json,
};
use crate::container::inside::ContainerNumber;
use crate::container::writable::{ChangedArray, ComputedBytes, Restated};
use crate::error::Result;
use crate::live::version::ContainerVersion;
use crate::live::writing::LayeredContainer;
use crate::memory::budget::Hold;
use crate::memory::fallible;

/// What groups say of themselves in an edition of a container, of the file as it was opened then.
pub(crate) struct RestatedGroupTexts {
    of: (u64, Weak<OpenContainer>),
    is_whole: bool,
    texts: Arc<HashMap<String, Vec<u8>>>,
    /// Their memory.
    _hold: Hold,
}

impl LayeredContainer {
    /// The texts and attributes of a container of the file now, as far as they differ from the
    /// stored ones.
    fn restated(&self, part: ContainerNumber, cache: &Arc<BlockCache>) -> Result<Arc<Restated>> {
        let edition = self.stage.changes();
        let mut restated = self.restated.lock();
        let (of, parts) = &mut *restated;
        if *of != edition {
            parts.clear();
            *of = edition;
        }
        if let Some(part) = parts.get(&part) {
            return Ok(Arc::clone(part));
        }
        let now = match self.stage.is_clean() {
            true => Arc::default(),
            false => {
                let changed = self.changed_arrays(cache)?;
                Arc::new(self.writable().restate(part, &changed, cache.budget())?)
            }
        };
        parts.insert(part, Arc::clone(&now));
        Ok(now)
    }

    /// What all groups say of themselves, told at once for each edition: each is asked for when a
    /// tree is walked.
    fn group_texts(
        &self,
        read: TextsToRead,
        cache: &Arc<BlockCache>,
    ) -> Result<Arc<HashMap<String, Vec<u8>>>> {
        let (edition, base) = (self.stage.changes(), self.base());
        let of = (edition, Arc::downgrade(&base));
        if let Some(known) = self.group_texts.lock().as_ref()
            && known.of.0 == edition
            && known.of.1.ptr_eq(&of.1)
            && (known.is_whole || read == TextsToRead::Few)
        {
            return Ok(Arc::clone(&known.texts));
        }
        let outermost = ContainerNumber::OUTERMOST;
        let restated = base.parts_of(outermost)?.into_iter();
        let restated = restated.map(|part| self.restated(part, cache));
        let restated = restated.collect::<Result<Vec<_>>>()?;
        let told = groups_json(base.container(outermost)?, &restated, read)?;
        let takes = told
            .text
            .iter()
            .map(|(path, text)| path.len() + text.len() + 64);
        let hold = cache.budget().keep(takes.sum::<usize>() as u64);
        let texts = Arc::new(told.text);
        // What there is no room for is told anew.
        *self.group_texts.lock() = hold.ok().map(|hold| RestatedGroupTexts {
            of,
            is_whole: told.is_whole,
            texts: Arc::clone(&texts),
            _hold: hold,
        });
        Ok(texts)
    }

    /// The bytes of an array that follows from others, if these have changed.
    pub(crate) fn computed(
        &self,
        number: ArrayNumber,
        cache: &Arc<BlockCache>,
    ) -> Result<Option<ComputedBytes>> {
        if self.stage.is_clean() {
            return Ok(None);
        }
        let (base, changed) = (self.base(), self.changed_arrays(cache)?);
        let address = base.array(number)?.address();
        let writable = self.writable();
        writable.computed(address, &changed, cache.budget())
    }

    /// The arrays of which something is staged, to be read whole: which ranges have changed is not
    /// passed on.
    fn changed_arrays(&self, cache: &Arc<BlockCache>) -> Result<Vec<ChangedArray>> {
        let layers = self.stage.layers();
        let base = self.base();
        let mut changed = Vec::new();
        for (number, staged) in self.arrays() {
            if layers.iter().all(|layer| layer.leaves(staged)) {
                continue;
            }
            let len = layers.first().map_or(0, |top| top.len(staged));
            changed.push(ChangedArray {
                container: base.array(number)?.container,
                shown: self.merged(number, layers.clone(), cache)?,
                len,
                ranges: std::iter::once(0..len).collect(),
                visible: 0,
                done_before: None,
            });
        }
        Ok(changed)
    }
}

/// Says what is shown of a version beside its arrays.
pub(crate) struct Restating {
    pub(crate) cache: Arc<BlockCache>,
}

impl Restating {
    /// The texts and attributes of a container of a version, where they differ from the stored
    /// ones.
    pub(crate) fn restated(
        &self,
        version: &ContainerVersion,
        part: ContainerNumber,
    ) -> Result<Arc<Restated>> {
        let Some(container) = version.writes.now() else {
            return Ok(Arc::default());
        };
        let stored = &version.writes.stored;
        stored.while_it_stays(|| container.restated(part, &self.cache))
    }

    /// What is said of one array of a version, if that differs from what is stored.
    pub(crate) fn info(
        &self,
        version: &ContainerVersion,
        number: ArrayNumber,
    ) -> Result<Option<Info>> {
        let Some(container) = version.writes.now() else {
            return Ok(None);
        };
        version.writes.stored.while_it_stays(|| {
            let base = container.base();
            let located = base.array(number)?;
            let restated = container.restated(located.container, &self.cache)?;
            Ok(restated.arrays.get(located.array.name()).cloned())
        })
    }

    pub(super) fn arrays_json(
        &self,
        version: &ContainerVersion,
        opened: &OpenContainer,
        part: ContainerNumber,
        read: TextsToRead,
    ) -> Result<Vec<u8>> {
        let Some(container) = version.writes.now() else {
            return Ok(arrays_json_restated(opened.container(part)?, &[], read)?.text);
        };
        version.writes.stored.while_it_stays(|| {
            let base = container.base();
            let restated = base.parts_of(part)?.into_iter();
            let restated = restated.map(|part| container.restated(part, &self.cache));
            let restated = restated.collect::<Result<Vec<_>>>()?;
            Ok(arrays_json_restated(base.container(part)?, &restated, read)?.text)
        })
    }

    /// What a group says of itself with what is staged.
    pub(super) fn group_json(
        &self,
        version: &ContainerVersion,
        opened: &OpenContainer,
        entry: EntryIndex,
        read: TextsToRead,
    ) -> Result<Vec<u8>> {
        let path = opened.described_group(entry).unwrap_or_default();
        let told = match version.writes.now() {
            None => return Ok(opened.group_json(path, read)?.text.to_vec()),
            Some(container) => {
                let stored = &version.writes.stored;
                stored.while_it_stays(|| container.group_texts(read, &self.cache))?
            }
        };
        match told.get(path) {
            Some(text) => fallible::copy(text, "cannot describe a group"),
            None => Ok(empty_group_json(opened.outermost()?)),
        }
    }
}
