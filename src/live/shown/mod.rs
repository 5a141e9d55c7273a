//! What an opened container shows: its entries, what they look like, and reading them, with what is
//! staged.
//!
//! Assumes nothing of where that is shown. Used by `tree`.

pub mod cookie;
pub mod entry;
pub mod entry_stat;
pub mod entry_table;
pub mod open_container;
pub mod open_entry;
pub mod restated;
pub mod shared_array;
pub mod tombstones;
