//! The life of containers: opened, written, committed, made, and found again after a crash.
//!
//! The parts of [`Containers`] open versions of containers, stage writes to their arrays, commit
//! them, pack new containers and recover after a crash; [`containers`] says which part needs which.
//! Through one trait, [`Places`], they ask where a container lies, and say which of its names and
//! pages are to be forgotten: they know no inodes, no names and no FUSE. Assumes that the
//! permissions of callers were checked. Used by `tree`, which shows containers in a mount, and by
//! `arrayfs stage commit`, which commits or recovers one that is not mounted ([`unmounted`]).

pub mod committing;
pub mod container;
pub mod containers;
pub mod creation;
pub mod current;
pub mod directory;
pub mod ground;
pub mod lasting;
pub mod opening;
pub mod owner;
pub mod place;
pub mod places;
pub mod recognition;
pub mod recovery;
pub mod refusal;
pub mod settings;
pub mod shown;
#[cfg(test)]
mod tests;
pub mod unmounted;
pub mod version;
pub mod versions;
pub mod writing;

pub use committing::counters::CountedStatus;
pub use committing::due::{Later, Pacing};
pub use committing::ending::{HURRY, TO_THE_END};
pub use container::LiveContainer;
pub use containers::Containers;
pub use creation::outcome::InUse;
pub use creation::pack::PACKING;
pub use places::{ContainerId, Places};
pub use recovery::StaleLogs;
pub(crate) use refusal::{refused, refused_saying};
pub use settings::ContainerSettings;
