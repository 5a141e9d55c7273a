//! What an opened container shows: its entries, their attributes, and reading them, with staged
//! changes.
//!
//! Assumes nothing of where they are shown. Used by `tree`.

pub mod array_names;
mod beside;
pub mod cookie;
pub mod derived;
pub mod entry;
pub mod entry_stat;
pub mod entry_table;
pub mod open_container;
pub mod open_entry;
pub mod restated;
pub mod shared_array;
pub mod stored_readers;
pub mod text_views;
pub mod tombstones;

pub(crate) use derived::DerivedFiles;
pub(crate) use entry::LiveEntries;
pub(crate) use restated::Restating;
pub(crate) use stored_readers::StoredReaders;
pub(crate) use text_views::TextViewer;
