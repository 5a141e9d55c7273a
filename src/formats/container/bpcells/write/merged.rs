//! A container as it would be: its stored arrays, with the changes over them.
//!
//! If the version has changed, bytes mean what the new variant says, and everything is looked at
//! again. Used by `consistency`, which judges it, and by `recipe`, which tells how it comes about.

use std::ops::Range;

use super::forms::{ArrayForm, form_of};
use super::objection::Objection;
use super::{MemberFiles, ORDER, VERSION};
use crate::array::uncached::{DecodeMemory, read_into};
use crate::array::{Array, Piece};
use crate::container::bpcells::matrix::StorageOrder;
use crate::container::bpcells::version::{self, Holds, Seen, Variant};
use crate::container::writable::ChangedArray;
use crate::error::{Error, Fault, Result};
use crate::memory::Arena;
use crate::range_set::RangeSet;

/// Longest line of a few that there are, and more than that.
const LONGEST_WORD: u64 = version::MOST as u64;

pub(super) struct MergedContainer<'a> {
    pub(super) files: &'a MemberFiles,
    changed: &'a [ChangedArray],
    pub(super) variant: Variant,
    pub(super) version: String,
    /// Of a matrix.
    pub(super) order: StorageOrder,
}

/// An array of it.
#[derive(Clone, Copy)]
pub(super) struct MergedArray<'a> {
    pub(super) name: &'a str,
    pub(super) form: ArrayForm,
    pub(super) shown: &'a dyn Array,
    pub(super) len: u64,
    pub(super) change: Option<&'a ChangedArray>,
    /// Bytes that it has now, if it is there, and if they mean the same.
    pub(super) stored: Option<u64>,
}

impl<'a> MergedContainer<'a> {
    pub(super) fn new(
        files: &'a MemberFiles,
        changed: &'a [ChangedArray],
    ) -> std::result::Result<MergedContainer<'a>, Objection> {
        let mut merged = MergedContainer::unchanged(files, changed);
        merged.take_version()?;
        merged.take_order()?;
        Ok(merged)
    }

    /// The container with its changes, to be read: a line that names no variant leaves things as
    /// they were.
    pub(super) fn readable(
        files: &'a MemberFiles,
        changed: &'a [ChangedArray],
    ) -> MergedContainer<'a> {
        let mut merged = MergedContainer::unchanged(files, changed);
        let _ = merged.take_version();
        let _ = merged.take_order();
        merged
    }

    fn unchanged(files: &'a MemberFiles, changed: &'a [ChangedArray]) -> MergedContainer<'a> {
        MergedContainer {
            files,
            changed,
            variant: files.variant,
            version: files.version.clone(),
            order: files.order,
        }
    }

    fn take_version(&mut self) -> std::result::Result<(), Objection> {
        let files = self.files;
        if let Some(line) = self.changed_line(VERSION)? {
            let version = std::str::from_utf8(&line).ok();
            let known = version.and_then(|version| Some((version, Variant::parse(version)?)));
            let (version, variant) = known.ok_or_else(|| unknown(VERSION, &line))?;
            if is_matrix(variant) != is_matrix(files.variant) {
                let (new, old) = (version, &files.version);
                let why = format!("version: {new} holds something else than {old}");
                return Err(Objection::Unfit(why));
            }
            (self.variant, self.version) = (variant, version.to_owned());
        }
        Ok(())
    }

    fn take_order(&mut self) -> std::result::Result<(), Objection> {
        if is_matrix(self.variant)
            && let Some(line) = self.changed_line(ORDER)?
        {
            let order = StorageOrder::named(&line);
            self.order = order.ok_or_else(|| unknown(ORDER, &line))?;
        }
        Ok(())
    }

    /// The one line of a text, if that has changed.
    fn changed_line(&self, name: &str) -> std::result::Result<Option<Vec<u8>>, Objection> {
        let Some(change) = self.change(name) else {
            return Ok(None);
        };
        line_of(name, &*change.shown, change.len).map(Some)
    }

    pub(super) fn change(&self, name: &str) -> Option<&'a ChangedArray> {
        self.changed.iter().find(|array| array.shown.name() == name)
    }

    /// Whether the container becomes one of another variant.
    pub(super) fn is_another_variant(&self) -> bool {
        self.variant != self.files.variant
    }

    /// Whether something has changed in one of these arrays, or in what its bytes mean.
    pub(super) fn has_changed(&self, names: &[&str]) -> bool {
        self.is_another_variant() || names.iter().any(|name| self.change(name).is_some())
    }

    /// An array that a container of its variant has.
    pub(super) fn array(&self, name: &'a str) -> Result<MergedArray<'a>> {
        let missing = || Error::from(Fault::new("there is no such array").array(name));
        let form = form_of(self.variant, name).ok_or_else(missing)?;
        let stored = self.files.array(name);
        let bytes = stored.map(|array| array.info()).transpose()?;
        let bytes = bytes.map(|info| info.bytes);
        let change = self.change(name);
        let (shown, len) = match (change, stored) {
            (Some(change), _) => (&*change.shown, change.len),
            (None, Some(array)) => (&**array, bytes.unwrap_or(0)),
            (None, None) => return Err(missing()),
        };
        let old_form = form_of(self.files.variant, name);
        let same = old_form.is_some_and(|old| old.number() == form.number());
        Ok(MergedArray {
            name,
            form,
            shown,
            len,
            change,
            stored: bytes.filter(|_| same),
        })
    }

    /// How an array is stored now, if it is.
    pub(super) fn old_form(&self, name: &str) -> Option<ArrayForm> {
        self.files.array(name)?;
        form_of(self.files.variant, name)
    }
}

impl MergedArray<'_> {
    /// The bytes that are not, or not known to be, as they were.
    pub(super) fn dirty(&self) -> RangeSet {
        let (Some(change), Some(stored)) = (self.change, self.stored) else {
            let all = match self.stored {
                Some(_) => 0..0,
                None => 0..self.len,
            };
            return RangeSet::from(all);
        };
        let cut = |range: &Range<u64>| range.start.min(self.len)..range.end.min(self.len);
        let mut ranges: Vec<_> = change.ranges.iter().map(cut).collect();
        ranges.push(change.visible.min(stored).min(self.len)..self.len);
        RangeSet::from_iter(ranges)
    }

    /// The elements with such bytes.
    pub(super) fn dirty_elements(&self) -> RangeSet {
        let (width, count) = (self.form.width().unwrap_or(1), self.count());
        let elements = |run: Range<u64>| run.start / width..run.end.div_ceil(width).min(count);
        RangeSet::from_iter(self.dirty().iter().map(elements))
    }

    /// Whole elements.
    pub(super) fn count(&self) -> u64 {
        self.len / self.form.width().unwrap_or(1)
    }
}

/// The one line of a text.
pub(super) fn line_of(
    name: &str,
    shown: &dyn Array,
    len: u64,
) -> std::result::Result<Vec<u8>, Objection> {
    if len == 0 {
        return Err(Objection::NotYet(format!("{name} is empty")));
    }
    let mut line = vec![0; len.min(LONGEST_WORD) as usize];
    read_direct(shown, &mut line)?;
    match line.strip_suffix(b"\n") {
        Some(line) if len < LONGEST_WORD => Ok(line.to_vec()),
        _ => Err(unknown(name, &line)),
    }
}

fn is_matrix(variant: Variant) -> bool {
    matches!(variant.content, Holds::Matrix(_))
}

fn unknown(name: &str, line: &[u8]) -> Objection {
    let shown = line.escape_ascii();
    let why = match version::read(line) {
        Seen::Known(..) if name == VERSION => format!("{name} is not exactly one line: {shown}"),
        _ => format!("{name} is not one that there is: {shown}"),
    };
    Objection::Unfit(why)
}

/// The first bytes of an array that is not decoded.
fn read_direct(array: &dyn Array, out: &mut [u8]) -> Result<()> {
    let mut pieces = Vec::new();
    array.pieces(0..out.len() as u64, &mut pieces)?;
    match pieces
        .iter()
        .any(|piece| matches!(piece, Piece::Block { .. }))
    {
        true => Err(Error::Bug("a line is not decoded".into())),
        false => read_into(array, 0, out, DecodeMemory::Lent(Arena::none())),
    }
}
