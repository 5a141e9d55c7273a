//! The nodes of entries of the source, and which of these are shown.
//!
//! Used by [`super::lookup`], `places`, `listing` and `writing`.

use std::ffi::OsStr;

use super::node::{Node, StoredAt};
use super::ordinary::OrdinaryFile;
use crate::container::Recognised;
use crate::live::LiveContainer;
use crate::source::{FileKind, Stat};
use crate::stage::is_hidden_name;

/// The node of an entry. A file that becomes a container, or is replaced by another file, is
/// another inode: the kernel neither lets an inode change its type nor two files share their cached
/// pages.
pub(super) fn node_of(stat: &Stat, recognised: Option<Recognised>) -> Node {
    let at = StoredAt::of(stat);
    match (recognised, stat.kind) {
        (Some(recognised), kind) => Node::Container(LiveContainer::new(kind, recognised).into()),
        (None, FileKind::Directory) => Node::Directory(at.into()),
        (None, FileKind::File) => Node::File(OrdinaryFile::new(at).into()),
        (None, kind) => Node::Special(at.into(), kind),
    }
}

/// Whether a name of the source is shown beside containers: those of logs, of new files of commits
/// and of drafts are ours.
pub(super) fn is_shown(name: &OsStr) -> bool {
    !is_hidden_name(name)
}
