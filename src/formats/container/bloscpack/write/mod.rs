//! Changing Bloscpack files and making new ones: what is permitted, and how the file comes about.
//!
//! - [`layout`]: how many chunks a file of another length has, and where they begin.
//! - [`shape`]: the metadata of a NumPy array of another length.
//! - [`encode`]: one chunk with its changes, encoded as the chunks beside it are; [`in_parts`]: one
//!   that is larger than the memory there is.
//! - [`recipe`]: the whole file, chunk by chunk, by [`crate::container::chunked_write`].
//! - [`retype`]: metadata that say another type.
//! - [`new_file`]: a file that is not there yet; [`packed`]: one that a command makes of bytes.
//!
//! Assumes a file without faults whose header knows all sizes; others are not offered for writing.

mod encode;
mod in_parts;
mod layout;
mod new_file;
pub(super) mod packed;
mod recipe;
mod retype;
mod shape;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::header::{self, FileHeader};
use super::read::PackedBytes;
use super::{TEXT_NAME, metadata};
use crate::array::chunking::{ChunkId, Chunking, EvenChunks};
use crate::array::{Array, Info, Order};
use crate::codec::blosc::encode::ChunkSettings;
use crate::container::chunked_write::dirty::dirty_chunks;
use crate::container::chunked_write::encode_alone;
use crate::container::creation::GivenType;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::writable::{
    Amount, Change, ChangedArray, CommitWay, Consistency, MemberNumber, Recipe, Restated,
    WritableContainer,
};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use layout::FileLayout;
use recipe::Plan;

/// The longest array: what the file's header can say.
const MOST: u64 = i64::MAX as u64;

/// Chunks of less are not worth the trouble of being encoded one by one.
const LEAST_AHEAD: u64 = 32 << 10;

pub(super) struct BloscpackFile {
    pub(super) data: Arc<PackedBytes>,
    pub(super) header: FileHeader,
    /// Where the metadata section ends, or the header if there is none.
    pub(super) after_metadata: u64,
    /// The metadata say that it is a NumPy array, which it is.
    pub(super) is_numpy: bool,
    /// The metadata as text, of a NumPy array.
    pub(super) text: Option<Arc<Vec<u8>>>,
    /// The metadata section that it is to get, if it is another one whatever its length.
    pub(super) retyped: Option<Vec<u8>>,
    /// How its chunks are encoded, if not like those that it has: a new one has none that shows it.
    pub(super) encoded_as: Option<ChunkSettings>,
}

impl BloscpackFile {
    fn layout(&self) -> FileLayout {
        FileLayout::of(&self.header, self.after_metadata)
    }

    /// The shape that it gets with another length; none if it has no shape but its length, or gets
    /// one of its own.
    fn shape(&self, len: u64) -> Result<Option<Vec<u64>>> {
        match self.is_numpy && self.retyped.is_none() {
            true => shape::shape_for(&self.data.info()?, len).map(Some),
            false => Ok(None),
        }
    }

    /// The metadata section with another shape, if it is another one.
    fn metadata(&self, len: u64) -> Result<Option<Vec<u8>>> {
        if self.retyped.is_some() {
            return Ok(self.retyped.clone());
        }
        let (Some(shape), Some(text)) = (self.shape(len)?, &self.text) else {
            return Ok(None);
        };
        if shape == self.data.info()?.shape {
            return Ok(None);
        }
        let mut old = [0; metadata::HEADER];
        let at = header::LEN as u64;
        self.data.source.fetch_one(at, &mut old)?;
        shape::section(&old, &shape::with_shape(text, &shape)?).map(Some)
    }

    fn new_layout(&self, len: u64, metadata: Option<&[u8]>) -> FileLayout {
        let after_metadata = metadata.map_or(self.after_metadata, shape::end_of);
        let has_offsets = self.header.has_offsets;
        let typesize = u64::from(self.header.typesize);
        let layout = self.layout();
        layout.resized(len, after_metadata, has_offsets, typesize)
    }

    fn plan<'a>(
        &'a self,
        changed: &'a ChangedArray,
        metadata: Option<Vec<u8>>,
        way: CommitWay,
    ) -> Plan<'a> {
        let old = self.layout();
        let new = self.new_layout(changed.len, metadata.as_deref());
        let dirty = self.dirty(&old, &new, changed);
        Plan {
            file: self,
            changed,
            old,
            new,
            dirty,
            metadata,
            way,
        }
    }

    /// The chunks that do not stay as they are stored.
    fn dirty(&self, old: &FileLayout, new: &FileLayout, changed: &ChangedArray) -> RangeSet {
        let behind = changed.visible..changed.len;
        let ranges = changed
            .ranges
            .iter()
            .cloned()
            .chain(std::iter::once(behind));
        dirty_chunks(&new.chunking(), Some(&old.chunking()), ranges)
    }
}

/// The one array, if it has changed.
fn only(changed: &[ChangedArray]) -> Option<&ChangedArray> {
    changed.first()
}

impl WritableContainer for BloscpackFile {
    fn permits(&self, array: ArrayAddress<'_>, change: Change) -> Result<()> {
        let array = array.name;
        if array != self.data.name() {
            return Err(Error::Computed(format!("{array} follows from the data")));
        }
        let too_long = || Err(Error::Invalid(format!("an array has at most {MOST} bytes")));
        match change {
            Change::Write { offset, len } if offset.saturating_add(len) > MOST => too_long(),
            Change::SetLen(len) | Change::Truncate(len) if len > MOST => too_long(),
            Change::SetLen(len) => self.shape(len).map(drop),
            // On the way to another length.
            Change::Write { .. } | Change::Truncate(0) => Ok(()),
            Change::Truncate(len) => self.shape(len).map(drop),
        }
    }

    fn info(&self, _array: ArrayAddress<'_>, len: u64) -> Result<Info> {
        let info = self.data.info()?;
        Ok(match self.shape(len) {
            Ok(Some(shape)) => Info {
                shape,
                bytes: len,
                ..info
            },
            Ok(None) => Info {
                shape: vec![len],
                bytes: len,
                ..info
            },
            // Shown as bytes, until it has whole rows again.
            Err(_) => Info {
                dtype: crate::array::dtype::Dtype::U8,
                order: Order::C,
                shape: vec![len],
                bytes: len,
                ..info
            },
        })
    }

    fn retyped(
        &self,
        array: ArrayAddress<'_>,
        to: &GivenType,
        bytes: u64,
    ) -> Result<Option<Arc<dyn WritableContainer>>> {
        let array = array.name;
        if array != self.data.name() {
            return Err(Error::Computed(format!("{array} follows from the data")));
        }
        let file = BloscpackFile::retyped(self, to, bytes)?;
        Ok(file.map(|file| Arc::new(file) as _))
    }

    fn restate(
        &self,
        _container: ContainerNumber,
        changed: &[ChangedArray],
        _budget: &Arc<Budget>,
    ) -> Result<Restated> {
        let mut restated = Restated::default();
        let Some(changed) = only(changed) else {
            return Ok(restated);
        };
        let name = self.data.name();
        let info = self.info(changed.address(), changed.len)?;
        restated.arrays.insert(name.to_owned(), info);
        // Of a length that it cannot have the metadata say nothing.
        let (Ok(Some(shape)), Some(text)) = (self.shape(changed.len), &self.text) else {
            return Ok(restated);
        };
        let text = shape::with_shape(text, &shape)?;
        if let Ok(value) = serde_json::from_slice(&text) {
            restated.attributes.insert("metadata".into(), value);
        }
        restated.texts.insert(TEXT_NAME.to_owned(), Arc::new(text));
        Ok(restated)
    }

    fn consistency(&self, changed: &[ChangedArray], _budget: &Arc<Budget>) -> Result<Consistency> {
        match only(changed).map(|changed| self.shape(changed.len)) {
            Some(Err(Error::Invalid(why))) => Ok(Consistency::Unfit(why)),
            Some(Err(other)) => Err(other),
            Some(Ok(_)) | None => Ok(Consistency::Now),
        }
    }

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount> {
        let stored = self.data.source.len();
        let Some(changed) = only(changed) else {
            return Ok(Amount {
                stored,
                ..Amount::default()
            });
        };
        let metadata = self.metadata(changed.len)?;
        let (old, new) = (
            self.layout(),
            self.new_layout(changed.len, metadata.as_deref()),
        );
        let dirty = self.dirty(&old, &new, changed).len();
        // About as many stored bytes for each plain one as there are now.
        let plain = u128::from(dirty) * u128::from(new.chunk_size);
        let ratio = plain * u128::from(stored) / u128::from(old.len().max(1));
        let encoded = u64::try_from(plain).unwrap_or(u64::MAX);
        Ok(Amount {
            stored,
            changed: u64::try_from(ratio.min(plain)).unwrap_or(u64::MAX),
            moves: old.first != new.first,
            encoded,
            guessed: Amount::is_guess(old.len(), encoded),
            ..Amount::default()
        })
    }

    /// Chunks have their size but for the last one.
    fn blocks_ahead(&self, _array: ArrayAddress<'_>, len: u64) -> Option<Arc<dyn Chunking>> {
        let size = self.new_layout(len, None).chunk_size;
        (size >= LEAST_AHEAD).then(|| Arc::new(EvenChunks::whole(size, len)) as _)
    }

    fn encode_block(
        &self,
        changed: &ChangedArray,
        block: ChunkId,
        budget: &Arc<Budget>,
    ) -> Result<Option<Vec<u8>>> {
        let mut plan = self.plan(changed, None, CommitWay::Replaced);
        let whole = EvenChunks::whole(plan.new.chunk_size, changed.len);
        if whole.shape() != block.shape || block.number >= whole.chunks() {
            return Ok(None);
        }
        plan.dirty = RangeSet::from(block.number..block.number.saturating_add(1));
        encode_alone(&plan, budget)
    }

    fn recipe(
        &self,
        changed: &[ChangedArray],
        way: CommitWay,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()> {
        let changed = only(changed)
            .ok_or_else(|| Error::from(Fault::new("there is nothing to be changed")))?;
        let metadata = self.metadata(changed.len)?;
        // Sections and entries that hold are not told then.
        if way == CommitWay::InPlace {
            write.keep_rest(MemberNumber::ONLY)?;
        }
        self.plan(changed, metadata, way)
            .tell(budget, write)
            .map(drop)
    }
}
