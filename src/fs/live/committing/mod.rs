//! Committing the stage of a container.
//!
//! A commit changes stored files and nothing that is shown: the version goes on, with the identity
//! that the commit leaves. A thread that compares the container's identity waits while it is being
//! changed. Used by all of `live`, and by `tree::writing`.

pub mod asked;
pub mod changes;
pub mod committer;
pub mod counters;
pub mod due;
pub mod effort;
pub mod ending;
pub mod later;
pub mod publish;
pub mod replaced_array;
pub mod retyped;
pub mod times;
pub mod waiting;

pub(crate) use asked::{AskedCommits, moves_its_log};
pub(crate) use committer::Committer;
pub(crate) use counters::CommitCounters;
pub(crate) use due::DueCommits;
pub use effort::Effort;
pub(crate) use ending::MountEnd;
pub(crate) use later::LaterCommits;
pub(crate) use publish::Publication;
pub(crate) use replaced_array::ArrayReplacing;
pub(crate) use retyped::Retyping;
pub(crate) use times::ContainerTimes;
pub(crate) use waiting::HeldFiles;
