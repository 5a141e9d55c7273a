//! Opening versions of containers, and keeping them open. Used by all of `live`, and by `tree`.

pub mod future;
mod moved;
pub mod open_cache;
pub mod opener;
pub mod pinned;

pub(crate) use future::FutureOpener;
pub(crate) use opener::Opener;
