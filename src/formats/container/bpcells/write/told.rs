//! Files that are told and not made, to be read as they are going to be.
//!
//! New bytes lie in memory, charged, until the files are gone; what is copied is read where it is
//! stored. Assumes that files are told from their start to their end, as
//! [`member_writer`](super::member_writer) does. Used by `of_fields` and `new_fields`, for
//! containers that lie in fields of others, and by `restate`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::stored::StoredMembers;
use crate::array::lazy::{LazyPart, LazySource};
use crate::container::bpcells::directory::MemberSources;
use crate::container::bpcells::{MEMBERS, header};
use crate::container::writable::{MemberNumber, Recipe};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::memory::fallible;

pub(super) struct ToldMembers<'a> {
    /// The files as they are.
    stored: &'a StoredMembers,
    /// By their names; what is told of others is known anyway.
    kept: &'a dyn Fn(&str) -> bool,
    budget: &'a Arc<Budget>,
    told: BTreeMap<&'static str, ToldMember>,
}

#[derive(Default)]
struct ToldMember {
    parts: Vec<LazyPart>,
    len: u64,
    changed: Vec<Range<u64>>,
}

/// Where elements may be others than are stored there, by the names of the files.
pub(super) type ChangedElements = BTreeMap<&'static str, Vec<Range<u64>>>;

impl<'a> ToldMembers<'a> {
    pub(super) fn new(
        stored: &'a StoredMembers,
        kept: &'a dyn Fn(&str) -> bool,
        budget: &'a Arc<Budget>,
    ) -> ToldMembers<'a> {
        ToldMembers {
            stored,
            kept,
            budget,
            told: BTreeMap::new(),
        }
    }

    /// The files, and what is changed of those that are stored.
    pub(super) fn into_files(self) -> (StoredMembers, ChangedElements) {
        let (mut files, mut changed) = (MemberSources::new(), ChangedElements::new());
        for (name, told) in self.told {
            let file = LazySource::new(told.parts);
            files.insert(name.to_owned(), Arc::new(file));
            changed.insert(name, told.changed);
        }
        (StoredMembers(files), changed)
    }

    fn member(&mut self, file: MemberNumber) -> Result<Option<(&'static str, &mut ToldMember)>> {
        let name = MEMBERS.get(file.0 as usize);
        let name = name.ok_or_else(|| Error::Bug(format!("BPCells has no file {}", file.0)))?;
        let is_kept = (self.kept)(name);
        Ok(is_kept.then(|| (*name, self.told.entry(name).or_default())))
    }
}

impl Recipe for ToldMembers<'_> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let stored = self.stored;
        let Some((name, told)) = self.member(file)? else {
            return Ok(());
        };
        let nothing = || Error::Bug(format!("{name} has nothing to copy from"));
        let source = Arc::clone(stored.source(name).ok_or_else(nothing)?);
        let len = from.end.saturating_sub(from.start);
        let is_else = from.start != to;
        told.add(to, LazyPart::Stored(source, from.start, len), is_else)
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        let budget = self.budget;
        let Some((_, told)) = self.member(file)? else {
            return Ok(());
        };
        let hold = budget.keep(bytes.len() as u64)?;
        let bytes = fallible::copy(bytes, "cannot write a container")?;
        told.add(at, LazyPart::of(bytes, Some(hold)), true)
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        match self.member(file)? {
            Some((_, told)) if told.len != len => Err(not_in_order()),
            _ => Ok(()),
        }
    }
}

impl ToldMember {
    /// `is_else`: it is not what is stored there.
    fn add(&mut self, at: u64, part: LazyPart, is_else: bool) -> Result<()> {
        if at != self.len {
            return Err(not_in_order());
        }
        self.len = at.saturating_add(part.len());
        let element = |at: u64| at.saturating_sub(header::LEN as u64);
        let range = Some(element(at)..element(self.len));
        let changed = range.filter(|range| is_else && !range.is_empty());
        self.changed.extend(changed);
        self.parts.push(part);
        Ok(())
    }
}

fn not_in_order() -> Error {
    Error::Bug("a file is not told from its start to its end".into())
}
