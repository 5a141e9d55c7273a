//! A container that has a stage: its stored arrays, under the layers written since.
//!
//! Used by [`super`], and by the commit.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use super::{Unrecovered, UnrecoveredLog};
use crate::array::partly_replaced::{CachedBlocks, PartlyReplaced};
use crate::array::read::CachedArray;
use crate::array::{Array, Info};
use crate::cache::BlockCache;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::writable::{Restated, WritableContainer};
use crate::error::{Error, Fault, Result};
use crate::live::shown::entry_table::ArrayNumber;
use crate::live::shown::open_container::OpenContainer;
use crate::live::shown::restated::RestatedGroupTexts;
use crate::live::shown::shared_array::{SharedArray, StoredBytes};
use crate::stage::{Layer, LoggedArray, Overlay, Stage, WrittenArray};
use crate::sync::Mutex;

/// A container with a stage.
pub(crate) struct LayeredContainer {
    pub(crate) stage: Arc<Stage>,
    pub(super) stored: StoredBytes,
    base: Mutex<StoredContainer>,
    arrays: Mutex<KnownArrays>,
    /// The last restatements of it and those inside, and their edition.
    pub(crate) restated: Mutex<(u64, BTreeMap<ContainerNumber, Arc<Restated>>)>,
    pub(crate) group_texts: Mutex<Option<RestatedGroupTexts>>,
    /// An array that a commit under way gives another content of this length, which is staged
    /// nowhere.
    replacing: Mutex<Option<(WrittenArray, u64)>>,
}

/// The container as it is stored, and how that is changed.
struct StoredContainer {
    opened: Arc<OpenContainer>,
    writable: Arc<dyn WritableContainer>,
}

impl StoredContainer {
    /// One that is damaged, or of a format that is only read, cannot be changed.
    fn new(opened: Arc<OpenContainer>) -> Result<StoredContainer> {
        let writable = opened.writable().cloned().ok_or(Error::ReadOnly)?;
        Ok(StoredContainer { opened, writable })
    }
}

/// The arrays that the stage knows: those that were opened for writing.
#[derive(Default)]
struct KnownArrays {
    /// In the order of their numbers in the stage.
    numbers: Vec<ArrayNumber>,
    written: BTreeMap<ArrayNumber, WrittenArray>,
}

impl KnownArrays {
    fn add(&mut self, number: ArrayNumber, array: WrittenArray) {
        self.numbers.push(number);
        self.written.insert(number, array);
    }
}

impl LayeredContainer {
    /// Of a stage that knows no arrays.
    pub(crate) fn new(stage: Arc<Stage>, base: Arc<OpenContainer>) -> Result<LayeredContainer> {
        Ok(LayeredContainer {
            stage,
            stored: StoredBytes::default(),
            base: Mutex::new(StoredContainer::new(base)?),
            arrays: Mutex::default(),
            restated: Mutex::default(),
            group_texts: Mutex::default(),
            replacing: Mutex::default(),
        })
    }

    /// Of a stage that was left behind: its arrays are found by their paths, and have the
    /// lengths that they are stored with.
    pub(crate) fn resumed(stage: Arc<Stage>, base: Arc<OpenContainer>) -> Result<LayeredContainer> {
        let (known, mut lens) = (base.numbers_by_path(), Vec::new());
        let container = LayeredContainer::new(stage, base)?;
        let mut arrays = container.arrays.lock();
        for (path, array) in container.stage.arrays().iter().zip(0..) {
            let number = known.get(path).copied();
            let number = number.filter(|number| !arrays.written.contains_key(number));
            let missing = || Fault::new("an array of which something is staged is not there");
            let number = number.ok_or_else(|| missing().array(path))?;
            lens.push(container.base().info(number)?.bytes);
            arrays.add(number, WrittenArray(array));
        }
        drop(arrays);
        container.stage.rebase(&lens);
        Ok(container)
    }

    /// An array as the stage knows it; none if it was not written.
    pub(crate) fn written(&self, number: ArrayNumber) -> Option<WrittenArray> {
        self.arrays.lock().written.get(&number).copied()
    }

    /// The arrays that the stage knows, in the order in which the container has them.
    pub(crate) fn arrays(&self) -> Vec<(ArrayNumber, WrittenArray)> {
        let arrays = self.arrays.lock();
        let known = arrays.written.iter();
        known.map(|(number, array)| (*number, *array)).collect()
    }

    /// How many arrays the stage knows.
    pub(crate) fn array_count(&self) -> usize {
        self.arrays.lock().written.len()
    }

    /// How long the arrays that the stage knows are stored, in their order there.
    pub(crate) fn stored_lens(&self) -> Result<Vec<u64>> {
        let (base, arrays) = (self.base(), self.arrays.lock().numbers.clone());
        let lens = arrays.iter().map(|number| Ok(base.info(*number)?.bytes));
        lens.collect()
    }

    /// Has the stage know an array. The caller sees to it that no other thread does at the same
    /// time.
    pub(super) fn add(&self, number: ArrayNumber) -> Result<WrittenArray> {
        if let Some(array) = self.written(number) {
            return Ok(array);
        }
        let base = self.base();
        let info = base.info(number)?;
        let located = base.array(number)?;
        let array = self.stage.add_array(LoggedArray {
            path: located.path(),
            len: info.bytes,
            dtype: info.dtype.name().into_owned(),
        })?;
        self.arrays.lock().add(number, array);
        Ok(array)
    }

    /// Of the version with these stored bytes.
    pub(super) fn of(self, stored: &StoredBytes) -> LayeredContainer {
        LayeredContainer {
            stored: stored.clone(),
            ..self
        }
    }

    pub(crate) fn replacing(&self) -> Option<(WrittenArray, u64)> {
        *self.replacing.lock()
    }

    pub(crate) fn note_replacing(&self, replacing: Option<(WrittenArray, u64)>) {
        *self.replacing.lock() = replacing;
    }

    pub(crate) fn base(&self) -> Arc<OpenContainer> {
        Arc::clone(&self.base.lock().opened)
    }

    pub(crate) fn writable(&self) -> Arc<dyn WritableContainer> {
        Arc::clone(&self.base.lock().writable)
    }

    /// Asks about an array, by the name that it has in the container as it is stored now.
    pub(crate) fn ask<T>(
        &self,
        number: ArrayNumber,
        ask: impl FnOnce(&dyn WritableContainer, ArrayAddress<'_>) -> T,
    ) -> Result<T> {
        let base = self.base.lock();
        let (opened, writable) = (Arc::clone(&base.opened), Arc::clone(&base.writable));
        drop(base);
        Ok(ask(&*writable, opened.array(number)?.address()))
    }

    /// Notes the error of a failed commit, and returns the error to report.
    pub(crate) fn note_failure(&self, e: Error) -> Error {
        if self.stage.is_half_done() {
            self.stored.note_half_changed(e.clone());
        }
        self.stored.told(e)
    }

    pub(super) fn half_done(&self) -> Option<Unrecovered> {
        let why = self.stored.half_changed().cloned()?;
        let log = UnrecoveredLog::Pending;
        Some(Unrecovered { why, log })
    }

    /// The stored container is this one now. Returns the one before.
    pub(crate) fn rebase(&self, base: Arc<OpenContainer>) -> Result<Arc<OpenContainer>> {
        let now = StoredContainer::new(base)?;
        let before = std::mem::replace(&mut *self.base.lock(), now);
        if let Some((array, len)) = self.replacing() {
            self.stage.replaced(array, len)?;
        }
        Ok(before.opened)
    }

    /// An array with these layers over the stored one.
    pub(crate) fn overlay(
        &self,
        number: ArrayNumber,
        layers: Vec<Arc<Layer>>,
    ) -> Result<Arc<dyn Array>> {
        self.over(self.base().stored_array(number)?, number, layers)
    }

    /// An array with these layers over the stored one, for a merge: stored blocks that are cached
    /// are not decoded again.
    pub(crate) fn merged(
        &self,
        number: ArrayNumber,
        layers: Vec<Arc<Layer>>,
        cache: &Arc<BlockCache>,
    ) -> Result<Arc<dyn Array>> {
        let stored = self.base().cached_array(number, Arc::from([]), cache)?;
        let blocks = CachedBlocks {
            cache: stored.cache,
            version: stored.version,
            index: stored.index,
        };
        let stored = PartlyReplaced::new(stored.array).with_blocks(blocks);
        self.over(Arc::new(stored), number, layers)
    }

    fn over(
        &self,
        stored: Arc<dyn Array>,
        number: ArrayNumber,
        layers: Vec<Arc<Layer>>,
    ) -> Result<Arc<dyn Array>> {
        let Some(array) = self.written(number) else {
            return Ok(stored);
        };
        let base = self.base();
        let overlay = Overlay::new(stored, layers, array);
        let reshape = move |info: &Info, len: u64| {
            let located = base.array(number).ok();
            let reshaped = located.zip(base.writable());
            let reshaped =
                reshaped.map(|(located, writable)| writable.info(located.address(), len));
            reshaped
                .and_then(Result::ok)
                .unwrap_or_else(|| info.clone())
        };
        Ok(Arc::new(overlay.reshaped(Arc::new(reshape))))
    }

    /// Gives handles the stored arrays under these layers.
    pub(super) fn show(
        &self,
        open: &HashMap<ArrayNumber, Weak<SharedArray>>,
        layers: &[Arc<Layer>],
        cache: &Arc<BlockCache>,
    ) -> Result<()> {
        for (number, shared) in open {
            if let Some(shared) = shared.upgrade() {
                shared.replace(self.shown(*number, layers.to_vec(), cache)?);
            }
        }
        Ok(())
    }

    /// An array as handles read it.
    pub(super) fn shown(
        &self,
        number: ArrayNumber,
        layers: Vec<Arc<Layer>>,
        cache: &Arc<BlockCache>,
    ) -> Result<CachedArray> {
        let base = self.base();
        let array = self.overlay(number, layers)?;
        let stored = base.cached_array(number, Arc::from([]), cache)?;
        let bytes = array.len_now().unwrap_or(stored.bytes);
        Ok(CachedArray {
            array,
            bytes,
            ..stored
        })
    }
}
