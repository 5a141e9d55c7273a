//! The containers in which an inode lies, new or not, by whichever of the names above it.
//!
//! Used by all parts of `tree`, which treat what lies in a container unlike what lies beside one.

use std::sync::Arc;

use super::inode::{InodeId, Inodes};
use super::node::Node;
use crate::error::Result;
use crate::live::Containers;
use crate::source::FileKind;
use crate::sync::RwLockReadGuard;

/// Answers in which containers something lies, and notes that they are used.
pub(crate) struct Enclosing {
    pub(super) live: Arc<Containers>,
    pub(super) inodes: Arc<Inodes>,
}

impl Enclosing {
    /// Whether an inode is a directory of a container: files that lie in one are not looked into.
    pub(super) fn is_of_container(&self, inode: InodeId) -> bool {
        let node = self.inodes.get(inode);
        node.is_ok_and(|node| matches!(&*node, Node::Container(_) | Node::Entry(..)))
    }

    /// Nothing but files can be put into a container that is a file, and into groups of any.
    pub(super) fn takes_only_files(&self, directory: InodeId) -> Result<bool> {
        Ok(match &*self.inodes.get(directory)? {
            Node::Entry(..) => true,
            Node::Container(container) => {
                container.stored == FileKind::File && !container.new.is_new()
            }
            _ => false,
        })
    }

    /// An inode and all directories above it, by whichever names.
    fn with_above(&self, inode: InodeId) -> impl Iterator<Item = InodeId> {
        std::iter::once(inode).chain(self.inodes.above(inode))
    }

    /// Whether a directory is, or lies in, that of a container, new or not: what is made there is
    /// no container.
    pub(super) fn is_below_container(&self, directory: InodeId) -> bool {
        let node = |inode| self.inodes.get(inode).ok();
        let is_container = |inode| node(inode).is_some_and(|node| node.container().is_some());
        self.with_above(directory).any(is_container)
    }

    /// Whether a directory shows drafts: whatever these look like, they are shown as they are.
    pub(crate) fn shows_drafts(&self, directory: InodeId) -> bool {
        self.new_above(directory).is_some()
    }

    /// The new container that a directory is, or lies in.
    pub(crate) fn new_above(&self, directory: InodeId) -> Option<(InodeId, Arc<Node>)> {
        if self.live.new.is_empty() {
            return None;
        }
        let known = |inode| Some((inode, self.inodes.get(inode).ok()?));
        let mut all = self.with_above(directory).filter_map(known);
        all.find(|(_, node)| node.container().is_some_and(|c| c.new.is_new()))
    }

    /// A program has changed this, or had it open: if it is, or lies in, a new container, that has
    /// been used until now.
    pub(crate) fn note_use(&self, inode: InodeId) {
        if !self.live.new.is_empty() {
            let all = self.with_above(inode);
            all.for_each(|directory| self.live.new.used(directory.into()));
        }
    }

    /// A program has closed this: if it is, or lies in, a new container, that has been used until
    /// now.
    pub(crate) fn note_let_go(&self, inode: InodeId) {
        if !self.live.new.is_empty() {
            let all = self.with_above(inode);
            all.for_each(|directory| self.live.new.let_go(directory.into()));
        }
    }

    /// Keeps drafts what they are for a moment, if this is one of them or their container. For
    /// others there is nothing to wait for.
    pub(super) fn share_new(&self, inode: InodeId) -> Option<RwLockReadGuard<'_, ()>> {
        let is_new = |inode: InodeId| self.live.new.has(inode.into());
        let in_new = !self.live.new.is_empty() && self.with_above(inode).any(is_new);
        in_new.then(|| self.live.new.shared())
    }
}
