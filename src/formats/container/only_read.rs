//! Why a container, or an array of it, cannot be written: for its state, for `info`, and for the
//! log when somebody tries.
//!
//! Formats note it where they do not offer it ([`Container::writable`]). Used by all that tells it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Container;
use super::inside::join;

/// What is said where a format says nothing more.
const UNSAID: &str = "it is not stored in a way that can be changed here";

/// The reasons, as far as there are any.
#[derive(Debug, Clone, Default)]
pub struct OnlyRead {
    /// Of all of the container.
    pub all: Option<Arc<str>>,
    /// Of arrays, by their names.
    pub arrays: Arc<BTreeMap<String, &'static str>>,
}

impl OnlyRead {
    /// Bytes that it takes.
    pub fn weight(&self) -> usize {
        const ENTRY: usize = 96;
        let names = self.arrays.keys().map(|name| ENTRY + name.len());
        names.sum()
    }
}

impl Container {
    /// Notes why nothing of it can be written.
    pub fn is_only_read(&mut self, why: impl Into<Arc<str>>) {
        self.only_read.all = Some(why.into());
    }

    /// Notes why one array cannot be written.
    pub fn array_is_only_read(&mut self, name: &str, why: &'static str) {
        Arc::make_mut(&mut self.only_read.arrays).insert(name.to_owned(), why);
    }

    /// Why nothing of it can be written; none if something can.
    pub fn why_only_read(self: &Arc<Self>) -> Option<String> {
        if self.writable.is_some() {
            return None;
        }
        let fault = self.all_faults().into_iter().next();
        let fault = fault.map(|fault| format!("it is damaged: {fault}"));
        let said = self.only_read.all.as_ref().map(|why| why.to_string());
        Some(fault.or(said).unwrap_or_else(|| UNSAID.into()))
    }

    /// Why one of its arrays, by its path, cannot be.
    pub fn why_array_only_read(self: &Arc<Self>, path: &str) -> String {
        let unreadable = self.all_unreadable().into_iter();
        let mut unreadable = unreadable.filter(|(group, member)| join(group, &member.name) == path);
        match (self.arrays_only_read().get(path), unreadable.next()) {
            (Some(why), _) => (*why).to_owned(),
            (None, Some((_, member))) => format!("it is not shown: {}", member.reason),
            (None, None) => UNSAID.into(),
        }
    }

    /// Arrays of it, and of those inside, that cannot be written, and why, where others can be.
    pub fn arrays_only_read(self: &Arc<Self>) -> BTreeMap<String, &'static str> {
        let mut all = BTreeMap::new();
        if self.writable.is_some() {
            for (group, part) in self.all() {
                let arrays = part.only_read.arrays.iter();
                all.extend(arrays.map(|(name, why)| (join(&group, name), *why)));
            }
        }
        all
    }
}
