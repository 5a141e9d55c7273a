//! New containers: made empty, filled with drafts, and packed.
//!
//! Used by `tree::writing`, and by the thread that packs containers which were not used for a
//! while.

pub mod carried;
pub mod content;
pub mod drafts;
pub mod given;
pub mod later;
pub mod not_kept;
pub mod pack;
mod roles;
pub mod state;
pub mod stored;
