//! Making visible what a commit has stored: the version goes on, with the identity and the files that this leaves, and handles
//! show them under what is staged. Used by [`super::commit`], and by whoever else changes what is stored of a container.

use std::path::Path;
use std::sync::Arc;

use super::super::Tree;
use super::super::entry_table::ContainerNumber;
use super::super::node::ContainerNode;
use super::super::staged::StagedContainer;
use super::super::version::ContainerVersion;
use crate::cache::VersionId;
use crate::commit::base_of;
use crate::container::rewrite::{Change, CommitWay};
use crate::error::Result;

/// Decoded blocks that commits have made useless. They are freed in the end: that would hold up what else there is to do.
pub(super) struct OutdatedBlocks<'a> {
    pub(super) tree: &'a Tree,
    pub(super) of: Vec<VersionId>,
}

impl Drop for OutdatedBlocks<'_> {
    fn drop(&mut self) {
        for of in self.of.drain(..) {
            self.tree.forget_blocks(of);
        }
    }
}

impl Tree {
    /// Makes a commit visible: while nobody compares the container's identity, and in place, while nobody reads it. Says whose
    /// decoded blocks nobody finds any more.
    pub(super) fn publish(
        &self,
        version: &Arc<ContainerVersion>,
        container: Option<&StagedContainer>,
        path: &Path,
        way: CommitWay,
        step: &mut dyn FnMut() -> Result<()>,
    ) -> Result<VersionId> {
        let node = self.inodes.get(version.container)?;
        let _known = node.container().map(ContainerNode::known);
        let show = || {
            let found = version.recognised.stat(&*self.store, path)?;
            let (old, blocks) = (version.blocks(), self.versions.next_id());
            let before = version.adopt(found.identity(), blocks);
            let shown = self.show_committed(version, container, path);
            if shown.is_err() {
                // What is planned by the old file must never be made of the new one: to us that is somebody else's.
                version.adopt(before, old);
            }
            shown?;
            version.note_owner_of(&found);
            version.staged.count_commit();
            Ok(old)
        };
        let stored = &version.staged.stored;
        match way {
            CommitWay::InPlace => stored.while_nobody_reads(|| step().and_then(|()| show())),
            CommitWay::Replaced => {
                step()?;
                match container.and_then(StagedContainer::replacing) {
                    // Its handles show the old file, and then all at once the new one.
                    Some(_) => stored.while_nobody_reads(show),
                    None => show(),
                }
            }
        }
    }

    /// Has handles show the container as it is stored now.
    fn show_committed(
        &self,
        version: &Arc<ContainerVersion>,
        container: Option<&StagedContainer>,
        path: &Path,
    ) -> Result<()> {
        let opened = self.reopen_version(version, path)?;
        match container {
            Some(container) => container.rebase(opened)?,
            None => version.staged.show_stored(&opened, &self.cache)?,
        }
        version.staged.show(&self.cache)
    }

    /// Frees the decoded blocks of what was stored before: much work, if there are many.
    pub(super) fn forget_blocks(&self, of: VersionId) {
        let cache = Arc::clone(&self.cache);
        let forget = move || cache.forget(of);
        let ordered = self
            .background
            .as_ref()
            .map(|workers| workers.order(forget));
        if ordered != Some(true) {
            self.cache.forget(of);
        }
    }

    /// The layer that was committed goes, and what the kernel knows of what follows from arrays.
    pub(super) fn end_commit(
        &self,
        version: &Arc<ContainerVersion>,
        container: &StagedContainer,
        path: &Path,
    ) -> Result<()> {
        let found = version.recognised.stat(&*self.store, path)?;
        let base = container.base();
        let outermost = base.container(ContainerNumber(0))?;
        let lens = outermost.written().map(|array| Ok(array.info()?.bytes));
        let lens = lens.collect::<Result<Vec<u64>>>()?;
        let named = base_of(&version.recognised, &found);
        version.staged.stored.while_nobody_reads(|| {
            let ended = container.stage.committed(named, &lens);
            version.staged.show(&self.cache).and(ended)
        })?;
        let rewrite = container.rewrite();
        let nothing = Change::Write { offset: 0, len: 0 };
        for (inode, _) in self.inodes.of_version(version.id) {
            let array = self
                .array_of(inode)
                .and_then(|number| base.stored_array(number).ok());
            let is_written =
                array.is_some_and(|array| rewrite.permits(array.name(), nothing).is_ok());
            match is_written {
                true => self.forget_attributes(inode),
                false => self.outdated.add(inode, None),
            }
        }
        Ok(())
    }
}
