//! Changing BPCells directories and making new ones: what is permitted, whether it makes a
//! container, and how the files come about.
//!
//! - [`forms`]: how the arrays of each variant are stored.
//! - [`merged`]: the container as it would be.
//! - [`consistency`]: whether its arrays agree, as far as they have changed.
//! - [`recipe`]: which files are concerned. [`stream`] (with [`blocks`] and [`field_writer`]),
//!   [`plain_file`] and [`end_max`] tell them, each through a [`member_writer`], which tells
//!   nothing of a file that stays as it is.
//! - [`new_container`]: a directory that is not there yet; [`of_fields`]: one that is a group of an
//!   HDF5 file; [`new_fields`]: a new one of that kind, whose packed words are encoded when they
//!   are read ([`packed_words`]). Files of both that are [`told`] are read as they are going to be.
//! - [`restate`]: what the container says of itself meanwhile.
//!
//! Assumes a container without faults, in files of its own; others are not offered for writing.

mod blocks;
mod chromosomes;
mod consistency;
mod end_max;
mod field_writer;
mod forms;
mod member_writer;
mod merged;
mod new_container;
mod new_fields;
mod objection;
mod of_fields;
mod packed_words;
mod plain_file;
mod recipe;
mod restate;
mod spaces;
mod stored;
mod stored_index;
mod stream;
#[cfg(test)]
mod tests;
mod told;

use std::sync::Arc;

use serde_json::Value;

use super::directory::MemberSources;
use super::matrix::StorageOrder;
use super::packed::BLOCK_BYTES;
use super::packed::idx_offsets::WRAP;
use super::version::Variant;
use crate::array::chunking::{ChunkId, Chunking, EvenChunks};
use crate::array::dtype::Dtype;
use crate::array::held::HeldArray;
use crate::array::{Array, Info};
use crate::container::Container;
use crate::container::chunked_write::encode_alone;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::writable::{
    Amount, Change, ChangedArray, CommitWay, ComputedBytes, Consistency, Recipe, Restated,
    WritableContainer,
};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use forms::{ArrayForm, form_of};
pub(crate) use forms::{is_array, stored_first};
use merged::MergedContainer;
pub(crate) use new_fields::{NewFields, is_stored_alone};
use objection::Objection;
pub(crate) use of_fields::NamedField;
use stored::StoredMembers;

/// The longest array: what a file can be.
const MOST: u64 = i64::MAX as u64;

const VERSION: &str = "version";

const END_MAX: &str = "end_max";

/// The array that says along which dimension a matrix is stored.
pub(crate) const ORDER: &str = "storage_order";

/// What says how a container is stored.
const LINES: [&str; 2] = [ORDER, VERSION];

/// A container in files of its own, to be changed.
pub(crate) struct MemberFiles {
    variant: Variant,
    version: String,
    /// Of a matrix.
    order: StorageOrder,
    /// As they are stored, those of one line as well.
    arrays: Vec<Arc<dyn Array>>,
    members: StoredMembers,
    /// Words after which the index of a stream begins again.
    wrap: u64,
}

/// Lets a container be written whose files are these, if it is sound: what says how it is stored,
/// too.
pub(super) fn offer(container: &mut Container, variant: Variant, opened: MemberSources) {
    if container.faults.is_empty() {
        let files = MemberFiles::new(container, variant, opened);
        LINES.iter().for_each(|name| take_line(container, name));
        container.writable = Some(Arc::new(files));
    }
}

/// A text that says how a container is stored, as an array.
fn line(container: &Container, name: &str) -> Option<Arc<dyn Array>> {
    let text = container.texts.iter().find(|text| text.name == name)?;
    let line = text.content.strip_suffix(b"\n").unwrap_or(&text.content);
    Some(text_line(name, line))
}

/// Makes such a text an array, to be written.
pub(crate) fn take_line(container: &mut Container, name: &str) {
    if let Some(line) = line(container, name) {
        container.texts.retain(|text| text.name != name);
        container.lines.push(line);
    }
}

/// A text of one line that says how a container is stored, as an array that can be written.
fn text_line(name: &str, line: &[u8]) -> Arc<dyn Array> {
    let content = format!("{}\n", String::from_utf8_lossy(line));
    Arc::new(HeldArray::text(name, content.into_bytes()))
}

impl MemberFiles {
    /// Those of a container that can be written, or could be.
    fn new(container: &Container, variant: Variant, opened: MemberSources) -> MemberFiles {
        let order = container.attributes.get(ORDER).and_then(Value::as_str);
        let order = order.and_then(|order| StorageOrder::named(order.as_bytes()));
        let lines = LINES.iter().filter_map(|name| line(container, name));
        MemberFiles {
            variant,
            version: container.version.clone(),
            order: order.unwrap_or(StorageOrder::Col),
            arrays: container.written().map(Arc::clone).chain(lines).collect(),
            members: StoredMembers(opened),
            wrap: WRAP,
        }
    }

    fn array(&self, name: &str) -> Option<&Arc<dyn Array>> {
        self.arrays.iter().find(|array| array.name() == name)
    }

    /// The form of an array that it has.
    fn form(&self, name: &str) -> Result<ArrayForm> {
        let form = form_of(self.variant, name);
        let none = || Fault::new("there is no such array").array(name).into();
        form.ok_or_else(none)
    }
}

impl WritableContainer for MemberFiles {
    fn permits(&self, array: ArrayAddress<'_>, change: Change) -> Result<()> {
        let array = array.name;
        let too_long = || Err(Error::Invalid(format!("an array has at most {MOST} bytes")));
        match self.form(array) {
            Ok(ArrayForm::Maxima) => {
                return Err(Error::Computed(format!(
                    "{array} follows from end and chr_ptr"
                )));
            }
            Err(_) => return Err(Error::Computed(format!("{array} follows from the arrays"))),
            Ok(_) => {}
        }
        match change {
            Change::Write { offset, len } if offset.saturating_add(len) > MOST => too_long(),
            Change::SetLen(len) | Change::Truncate(len) if len > MOST => too_long(),
            Change::Write { .. } | Change::SetLen(_) | Change::Truncate(_) => Ok(()),
        }
    }

    fn info(&self, array: ArrayAddress<'_>, len: u64) -> Result<Info> {
        let array = array.name;
        let form = self.form(array)?;
        let none = || Error::from(Fault::new("there is no such array").array(array));
        let stored = self.array(array).ok_or_else(none)?.info()?;
        if len == stored.bytes {
            return Ok(stored);
        }
        let (dtype, shape) = match form.width() {
            Some(width) if len.is_multiple_of(width) => (stored.dtype, vec![len / width]),
            // Shown as bytes, until it has whole elements again.
            Some(_) => (Dtype::U8, vec![len]),
            None if len == 0 => (stored.dtype, vec![0]),
            // Counted when it is opened the next time.
            None => (stored.dtype, stored.shape),
        };
        Ok(Info {
            dtype,
            shape,
            bytes: len,
            ..stored
        })
    }

    fn restate(
        &self,
        _container: ContainerNumber,
        changed: &[ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Restated> {
        restate::restate(self, changed, budget)
    }

    fn computed(
        &self,
        array: ArrayAddress<'_>,
        changed: &[ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Option<ComputedBytes>> {
        match self.form(array.name) {
            Ok(ArrayForm::Maxima) => restate::computed(self, changed, budget),
            _ => Ok(None),
        }
    }

    fn consistency(&self, changed: &[ChangedArray], budget: &Arc<Budget>) -> Result<Consistency> {
        let judged = MergedContainer::new(self, changed)
            .and_then(|merged| consistency::judge(&merged, budget));
        Objection::consistency(judged)
    }

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount> {
        match MergedContainer::new(self, changed) {
            Ok(merged) => recipe::amount(&merged),
            Err(objection) => Err(objection.error()),
        }
    }

    /// Of the arrays that are packed by themselves; `end` is packed with `start`.
    fn blocks_ahead(&self, array: ArrayAddress<'_>, len: u64) -> Option<Arc<dyn Chunking>> {
        let Ok(ArrayForm::Packed(_)) = self.form(array.name) else {
            return None;
        };
        Some(Arc::new(EvenChunks::whole(BLOCK_BYTES, len)))
    }

    fn encode_block(
        &self,
        changed: &ChangedArray,
        block: ChunkId,
        budget: &Arc<Budget>,
    ) -> Result<Option<Vec<u8>>> {
        let name = changed.shown.name();
        let blocks = EvenChunks::whole(BLOCK_BYTES, changed.len);
        let is_block = block.shape == blocks.shape() && block.number < blocks.chunks();
        let (Ok(ArrayForm::Packed(form)), true) = (self.form(name), is_block) else {
            return Ok(None);
        };
        let merged = MergedContainer::new(self, std::slice::from_ref(changed));
        let merged = merged.map_err(Objection::error)?;
        let mut plan = recipe::stream(&merged, merged.array(name)?, None, form, false)?;
        let bytes = blocks.range(block.number..block.number + 1);
        plan.dirty = RangeSet::from(plan.values_chunking().of(&bytes));
        encode_alone(&plan, budget)
    }

    fn recipe(
        &self,
        changed: &[ChangedArray],
        _way: CommitWay,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()> {
        let merged = MergedContainer::new(self, changed).map_err(Objection::error)?;
        recipe::tell(&merged, budget, write)
    }
}
