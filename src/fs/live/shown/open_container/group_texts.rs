//! `arrays.json` of the groups of an opened container. Used by [`super`].

use std::collections::HashMap;
use std::sync::Arc;

use super::OpenContainer;
use crate::container::describe::{self, TextsToRead, ToldText};
use crate::error::Result;
use crate::live::shown::entry_table::{EntryContent, EntryIndex};

/// By their paths.
pub(super) type GroupTexts = HashMap<String, Arc<Vec<u8>>>;

impl OpenContainer {
    /// Of all groups, told at once: each is asked for when a tree is walked.
    pub(crate) fn group_json(
        &self,
        path: &str,
        read: TextsToRead,
    ) -> Result<ToldText<Arc<Vec<u8>>>> {
        let told = self.group_texts.get(read, || {
            let told = describe::groups_json(self.outermost()?, &[], read)?;
            Ok(told.map(|told| {
                let told = told.into_iter();
                told.map(|(path, text)| (path, Arc::new(text))).collect()
            }))
        })?;
        let outermost = self.outermost()?;
        Ok(told.map(|told: Arc<GroupTexts>| match told.get(path) {
            Some(text) => Arc::clone(text),
            None => Arc::new(describe::empty_group_json(outermost)),
        }))
    }

    /// The path of the group that an entry describes.
    pub(crate) fn described_group(&self, index: EntryIndex) -> Option<&str> {
        match &self.entries.entry(index).ok()?.content {
            EntryContent::GroupJson(path) => Some(path),
            _ => None,
        }
    }
}
