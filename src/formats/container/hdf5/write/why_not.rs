//! Why a dataset is none of those that can be written ([`super::dataset`], [`super::texts`]).
//!
//! Used by `assemble`, for users.

use crate::container::Container;
use crate::container::hdf5::index::{DatasetEntry, StorageLayout};

/// Notes that of one that `is_read` alone. What has no space for values has none that could be
/// written.
pub(crate) fn note_why_not(
    container: &mut Container,
    path: &str,
    (dataset, has_one_name): (&DatasetEntry, bool),
    is_read: bool,
) {
    if is_read && dataset.dims.is_some() {
        container.array_is_only_read(path, why_not(dataset, has_one_name));
    }
}

fn why_not(dataset: &DatasetEntry, has_one_name: bool) -> &'static str {
    let is_text = dataset.element.is_text();
    match &dataset.layout {
        StorageLayout::External(_) => "its data lie in other files",
        StorageLayout::Virtual(_) => "its data are those of other datasets",
        StorageLayout::Unknown(_) => "its layout is not known",
        _ if !is_text => "values of its type are not written",
        _ if !has_one_name => "it is text of variable length under several names",
        _ if dataset.dims.as_ref().is_some_and(|dims| dims.len() > 1) => {
            "it is text of variable length in several dimensions"
        }
        _ if !dataset.filters.is_empty() => {
            "it is text of variable length behind a filter that libhdf5 lacks, or has a fill value"
        }
        _ => "it is text of variable length with a fill value, or too much of it",
    }
}
