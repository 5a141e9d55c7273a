//! What the kernel is told to forget. Used by [`super::places`], which sends it, and by
//! `kernel::session`.

use std::ffi::OsString;

use super::inode::InodeId;

/// What the kernel should forget, because the source changed or may change underneath.
#[derive(Debug, Clone)]
pub struct Invalidation {
    /// Its attributes go,
    pub inode: InodeId,
    /// its cached pages,
    pub content: bool,
    /// and this name of it.
    pub name: Option<(InodeId, OsString)>,
}
