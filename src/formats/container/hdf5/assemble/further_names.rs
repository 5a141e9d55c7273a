//! Datasets that several names lead to: hard links, and soft ones. They are one array, which is
//! written as one, whatever name it is written by.
//!
//! Each name is an array of the container in which it lies. The shortest of them, the first of
//! those in the order of bytes, is the name by which changes are addressed; all others are further
//! names of it. What a BPCells container is decoded from is no array of that name, so a dataset of
//! which it is part is only read if it has other names. Used by [`super`].

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Draft;
use crate::container::hdf5::index::{FileIndex, LinkTarget};
use crate::container::hdf5::write::WrittenDataset;
use crate::container::inside::join;

/// How many names lead to each dataset of a file.
pub(super) struct DatasetNames(Vec<usize>);

/// A dataset by one of several names.
pub(super) struct NamedDataset {
    number: u32,
    /// In its draft.
    path: String,
    /// Unless it is only read.
    written: Option<WrittenDataset>,
}

impl DatasetNames {
    pub(super) fn of(index: &FileIndex) -> DatasetNames {
        let mut names = vec![0; index.datasets.len()];
        for link in index.groups.iter().flat_map(|group| &group.links) {
            if let LinkTarget::Dataset(number) = link.target
                && let Some(names) = names.get_mut(number as usize)
            {
                *names += 1;
            }
        }
        DatasetNames(names)
    }

    pub(super) fn is_only(&self, number: u32) -> bool {
        self.0.get(number as usize).is_some_and(|names| *names < 2)
    }

    /// Gives each dataset of several names to the draft in which the first of them lies, and says
    /// which are its further ones; by paths from the root.
    pub(super) fn assign(&self, drafts: &mut [Draft]) -> BTreeMap<String, String> {
        let mut found: BTreeMap<u32, Vec<(String, usize, NamedDataset)>> = BTreeMap::new();
        for (at, draft) in drafts.iter_mut().enumerate() {
            for named in std::mem::take(&mut draft.named) {
                let full = join(&draft.full, &named.path);
                found
                    .entry(named.number)
                    .or_default()
                    .push((full, at, named));
            }
        }
        let mut further = BTreeMap::new();
        for (number, mut names) in found {
            // The first comes last.
            names.sort_by_cached_key(|(full, ..)| {
                Reverse((full.matches('/').count(), full.clone()))
            });
            let is_all = self.0.get(number as usize) == Some(&names.len());
            let Some((first, at, named)) = names.pop() else {
                continue;
            };
            let (mut written, mut is_free) = (named.written.filter(|_| is_all), true);
            for (full, _, other) in names {
                further.insert(full, first.clone());
                is_free &= other.written.as_ref().is_some_and(WrittenDataset::is_free);
                written = written.filter(|_| other.written.is_some());
            }
            if let (Some(draft), Some(written)) = (drafts.get_mut(at), written) {
                draft.written.push(written.kept_if(!is_free));
            }
        }
        further
    }
}

impl Draft {
    /// Notes how a dataset can be written, if it can be.
    pub(super) fn add_written(
        &mut self,
        (path, target): (&str, &LinkTarget),
        written: Option<WrittenDataset>,
        is_only_name: bool,
    ) {
        match target {
            LinkTarget::Dataset(number) if !is_only_name => self.named.push(NamedDataset {
                number: *number,
                path: path.to_owned(),
                written,
            }),
            _ => self.written.extend(written),
        }
    }
}
