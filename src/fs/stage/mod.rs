//! The uncommitted changes of a container: byte extents above its shown arrays, and a log beside
//! it.
//!
//! A [`Stage`] holds the bytes that were written, never decoded blocks: writing decodes nothing.
//! They are in memory ([`slab`]) until a sync or a want of memory puts them into the log ([`log`]);
//! intervals say where they are ([`extents`]; their memory: [`intervals`]), one set for each array,
//! together in a [`Layer`]. What lies in the container's file as it is shown goes at once to its
//! place in the file that the next commit makes ([`next_file`]). There is one layer that is written
//! to, and while a commit is under way a frozen one below it. An [`Overlay`] shows an array with
//! the layers above it. Assumes that no
//! other process writes this container's log (it is locked), and that the permissions of writers
//! were checked. Knows no format: what the changes mean, and how they become the container, is
//! `commit`'s affair. Used by `tree`, `commit` and commands that look at stages.
//!
//! Locks, in the order in which they may be taken: the sync under way → the log → the gate of the
//! next file → which layers there are → a layer. The disk is waited for under the first three
//! alone. So a reader waits for no disk but where it reads from; a writer does when there is no
//! memory, when it truncates, or puts bytes into the next file, and then for a write at most, never
//! for a sync. Memory is asked for under no lock but "which layers
//! there are", shared; giving it back tries for that one and for the log's, and waits for a layer's
//! alone.

mod committing;
mod compaction;
mod encoded_blocks;
mod extents;
#[doc(hidden)]
pub mod fuzzed;
mod intervals;
mod layer;
pub mod log;
mod logging;
mod next;
mod next_file;
mod overlay;
mod place;
mod ready;
mod recovery;
#[cfg(all(test, feature = "schedules"))]
mod schedules;
mod slab;
mod staging;
#[cfg(test)]
mod tests;
mod written_array;

pub use committing::{ShowLayers, to_nobody};
pub use layer::Layer;
pub use log::{
    Base, BaseFile, FoundLog, HeldFile, LogOf, LogSpot, LogState, LoggedArray, PendingCommit,
    added_name, container_of_log, drafts_name, is_added_name, is_hidden_name, log_names, move_name,
    new_name, next_name, read_log, read_log_until,
};
pub use logging::Unlogged;
pub use next_file::NextFile;
pub use overlay::Overlay;
pub use place::{LogPlace, PinnedSpot};
pub use slab::LayerMemory;
pub use staging::{Stage, Syncing};
pub use written_array::WrittenArray;
