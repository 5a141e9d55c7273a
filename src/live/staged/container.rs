//! A container that has a stage: what is stored of it, under what has been written since.
//!
//! Used by [`super`], and by whoever commits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use super::{Unsettled, UnsettledLog, lock, staged_array};
use crate::array::Array;
use crate::array::read::CachedArray;
use crate::array::through_cache::ThroughCache;
use crate::cache::BlockCache;
use crate::container::rewrite::{Restated, Rewrite};
use crate::error::{Error, Result};
use crate::live::shown::entry_table::{ArrayNumber, ContainerNumber};
use crate::live::shown::open_container::OpenContainer;
use crate::live::shown::shared_array::{SharedArray, StoredBytes};
use crate::stage::{Layer, Overlay, Stage, StagedArray};

/// A container with a stage.
pub(crate) struct StagedContainer {
    pub(crate) stage: Arc<Stage>,
    rewrite: Mutex<Arc<dyn Rewrite>>,
    pub(super) stored: StoredBytes,
    base: Mutex<Arc<OpenContainer>>,
    /// What was last told of it, and of which edition.
    pub(crate) told: Mutex<Option<(u64, Arc<Restated>)>>,
    /// An array that a commit under way gives another content of this length, which is staged
    /// nowhere.
    replacing: Mutex<Option<(StagedArray, u64)>>,
}

impl StagedContainer {
    pub(crate) fn new(stage: Arc<Stage>, base: Arc<OpenContainer>) -> Result<StagedContainer> {
        let rewrite = rewrite_of(&base)?;
        Ok(StagedContainer {
            stage,
            rewrite: Mutex::new(rewrite),
            stored: StoredBytes::default(),
            base: Mutex::new(base),
            told: Mutex::default(),
            replacing: Mutex::default(),
        })
    }

    /// Of the version with these stored bytes.
    pub(super) fn of(self, stored: &StoredBytes) -> StagedContainer {
        StagedContainer {
            stored: stored.clone(),
            ..self
        }
    }

    pub(crate) fn replacing(&self) -> Option<(StagedArray, u64)> {
        *lock(&self.replacing)
    }

    pub(crate) fn note_replacing(&self, replacing: Option<(StagedArray, u64)>) {
        *lock(&self.replacing) = replacing;
    }

    pub(crate) fn base(&self) -> Arc<OpenContainer> {
        Arc::clone(&lock(&self.base))
    }

    pub(crate) fn rewrite(&self) -> Arc<dyn Rewrite> {
        Arc::clone(&lock(&self.rewrite))
    }

    /// Notes what a commit has failed with, and says what is told of it.
    pub(crate) fn note_failure(&self, e: Error) -> Error {
        if self.stage.is_half_done() {
            self.stored.note_half_changed(e.clone());
        }
        self.stored.told(e)
    }

    pub(super) fn half_done(&self) -> Option<Unsettled> {
        let why = self.stored.half_changed().cloned()?;
        let log = UnsettledLog::Pending;
        Some(Unsettled { why, log })
    }

    /// What is stored is this now.
    pub(crate) fn rebase(&self, base: Arc<OpenContainer>) -> Result<()> {
        *lock(&self.rewrite) = rewrite_of(&base)?;
        *lock(&self.base) = base;
        match self.replacing() {
            Some((array, len)) => self.stage.replaced(array, len),
            None => Ok(()),
        }
    }

    /// An array with these layers over what is stored.
    pub(crate) fn overlay(
        &self,
        number: ArrayNumber,
        layers: Vec<Arc<Layer>>,
    ) -> Result<Arc<dyn Array>> {
        self.over(self.base().stored_array(number)?, number, layers)
    }

    /// The same for who merges: what is cached of what is stored is not decoded again.
    pub(crate) fn merged(
        &self,
        number: ArrayNumber,
        layers: Vec<Arc<Layer>>,
        cache: &Arc<BlockCache>,
    ) -> Result<Arc<dyn Array>> {
        let stored = self.base().cached_array(number, Arc::from([]), cache)?;
        let stored = ThroughCache {
            array: stored.array,
            cache: stored.cache,
            version: stored.version,
            index: stored.index,
        };
        self.over(Arc::new(stored), number, layers)
    }

    fn over(
        &self,
        stored: Arc<dyn Array>,
        number: ArrayNumber,
        layers: Vec<Arc<Layer>>,
    ) -> Result<Arc<dyn Array>> {
        let (rewrite, name) = (self.rewrite(), stored.name().to_owned());
        let overlay = Overlay::new(stored, layers, staged_array(number)?);
        let reshape = move |info: &crate::array::Info, len: u64| {
            rewrite.info(&name, len).unwrap_or_else(|_| info.clone())
        };
        Ok(Arc::new(overlay.reshaped(Arc::new(reshape))))
    }

    /// Gives handles what is stored under these layers.
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

/// How a container can be changed. One that is damaged, or of a format that is only read, cannot.
fn rewrite_of(opened: &OpenContainer) -> Result<Arc<dyn Rewrite>> {
    let container = opened.container(ContainerNumber(0))?;
    container.rewrite.clone().ok_or(Error::ReadOnly)
}
