//! `arrays.json` of the groups of an opened container. Used by [`super`].

use std::sync::Arc;

use super::OpenContainer;
use crate::container::describe;
use crate::error::Result;
use crate::live::shown::entry_table::{EntryContent, EntryIndex};

impl OpenContainer {
    /// Of all groups, told at once: each is asked for when a tree is walked.
    pub(in crate::live::shown) fn group_json(&self, path: &str) -> Result<Arc<Vec<u8>>> {
        if self.group_texts.get().is_none() {
            let told = describe::groups_json(self.outermost()?, &[])?.into_iter();
            let told = told.map(|(path, text)| (path, Arc::new(text)));
            let _ = self.group_texts.set(told.collect());
        }
        let told = self.group_texts.get().and_then(|told| told.get(path));
        match told {
            Some(text) => Ok(Arc::clone(text)),
            None => Ok(Arc::new(describe::empty_group_json(self.outermost()?))),
        }
    }

    /// The path of the group that an entry describes.
    pub(crate) fn described_group(&self, index: EntryIndex) -> Option<&str> {
        match &self.entries.entry(index).ok()?.content {
            EntryContent::GroupJson(path) => Some(path),
            _ => None,
        }
    }
}
