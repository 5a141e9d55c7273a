//! New containers: made empty, filled with drafts, and packed.
//!
//! Used by `tree::writing`, and by the thread that packs containers which were not used for a
//! while.

pub mod added;
pub mod content;
pub mod drafts;
pub mod given;
pub mod later;
pub mod left;
pub mod not_kept;
pub mod outcome;
pub mod pack;
pub mod packed;
mod roles;
pub mod state;
pub mod stored;

pub(crate) use added::AddedFiles;
pub(crate) use drafts::Drafts;
pub(crate) use later::LaterArrays;
pub(crate) use left::LeftDrafts;
pub(crate) use outcome::InUse;
pub(crate) use pack::DraftPacking;
pub(crate) use packed::PackWriter;
pub(crate) use state::NewContainers;
pub(crate) use stored::StoredDrafts;
