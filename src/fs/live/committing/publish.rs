//! Making the files of a commit visible: the version goes on, with the identity and the files that
//! the commit leaves, and handles show them under the layers left. Used by [`super`], and by the
//! rest of `live` where stored bytes of a container change.

use std::sync::Arc;

use crate::cache::VersionId;
use crate::commit::{Prepared, base_of};
use crate::container::MemberStats;
use crate::container::writable::CommitWay;
use crate::error::Result;
use crate::live::ground::Ground;
use crate::live::lasting::LastingTable;
use crate::live::opening::Opener;
use crate::live::opening::future::{FutureContainer, FutureOpener};
use crate::live::places::{Forget, Stale};
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_container::OpenContainer;
use crate::live::version::ContainerVersion;
use crate::live::versions::Versions;
use crate::live::writing::LayeredContainer;
use crate::stage::ShowLayers;

/// Decoded blocks that commits have made useless. They are freed in the end: that would hold up the
/// other steps.
pub(crate) struct OutdatedBlocks<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) of: Vec<VersionId>,
}

impl Drop for OutdatedBlocks<'_> {
    fn drop(&mut self) {
        for of in self.of.drain(..) {
            self.ground.forget_blocks(of);
        }
    }
}

/// A commit that has become visible.
pub(crate) struct Published {
    /// The version whose decoded blocks are not found any more.
    pub(crate) outdated: VersionId,
    /// The files, as they were when they were shown.
    pub(crate) found: MemberStats,
}

/// What a commit that is being published has done so far.
pub(crate) struct Publishing<'a> {
    publication: &'a Publication,
    outdated: OutdatedBlocks<'a>,
    /// The files when they were shown: a later change by another process is no part of the commit.
    pub(crate) found: Option<MemberStats>,
}

impl<'a> Publishing<'a> {
    pub(crate) fn new(publication: &'a Publication) -> Publishing<'a> {
        let (ground, of) = (&*publication.ground, Vec::new());
        Publishing {
            publication,
            outdated: OutdatedBlocks { ground, of },
            found: None,
        }
    }

    /// Seals what a commit has prepared, and shows it. The result is looked at before there is no
    /// way back. Returns the bytes that were put or moved.
    pub(crate) fn publish(
        &mut self,
        prepared: Prepared<'_>,
        (version, container): (&Arc<ContainerVersion>, &LayeredContainer),
    ) -> Result<u64> {
        let publication = self.publication;
        let future = match prepared.files() {
            [] => None,
            files => Some(publication.future.open(version, &container.base(), files)?),
        };
        let mut sealed = prepared.seal()?;
        let (of, way) = ((version, container), sealed.way());
        self.show(of, (way, future), &mut || sealed.publish())?;
        if let Err(e) = sealed.sync() {
            let told = publication.ground.told(version.container, &e);
            log::warn!("{told}; trying again");
            self.show(of, (way, None), &mut || sealed.redo())?;
        }
        Ok(sealed.end())
    }

    fn show(
        &mut self,
        (version, container): (&Arc<ContainerVersion>, &LayeredContainer),
        how: (CommitWay, Option<FutureContainer>),
        step: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let publication = self.publication;
        let shown = publication.publish(version, Some(container), how, step)?;
        self.outdated.of.push(shown.outdated);
        self.found = Some(shown.found);
        Ok(())
    }
}

/// Makes commits visible.
pub(crate) struct Publication {
    pub(crate) ground: Arc<Ground>,
    pub(crate) versions: Arc<Versions>,
    pub(crate) lasting: Arc<LastingTable>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) future: Arc<FutureOpener>,
}

impl Publication {
    /// Makes a commit visible: while no thread compares the container's identity, and in place,
    /// while none reads it. `future`: the container as it is going to be, if it could be opened
    /// before.
    pub(crate) fn publish(
        &self,
        version: &Arc<ContainerVersion>,
        container: Option<&LayeredContainer>,
        (way, future): (CommitWay, Option<FutureContainer>),
        step: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Published> {
        // Files change their names one after the other: all of them where they are. A commit in
        // place needs no names, and may take long.
        let _pin = (way == CommitWay::Replaced).then(|| self.ground.places.pin());
        let shown = self.ground.places.container(version.container)?;
        let _known = shown.known();
        let stored = &version.writes.stored;
        match way {
            CommitWay::InPlace => stored.while_nobody_reads(|| {
                step()?;
                self.adopt(version, future.as_ref(), |opened| {
                    self.show_committed(version, container, opened)
                })
            }),
            CommitWay::Replaced => stored.while_publishing(|| {
                step()?;
                self.adopt(version, future.as_ref(), |opened| {
                    let show = || self.show_committed(version, container, Arc::clone(&opened));
                    // Handles of an array that gets another content show the old file, and then
                    // all at once the new one.
                    let at_once = |container: &LayeredContainer| container.replacing().is_some();
                    match container.is_some_and(at_once) {
                        true => stored.while_nobody_reads(show),
                        false => show(),
                    }
                })
            }),
        }
    }

    /// Has the stored files, opened as this version, shown: wherever they lie, since a directory
    /// above may be moved at any moment.
    fn adopt(
        &self,
        version: &Arc<ContainerVersion>,
        future: Option<&FutureContainer>,
        show: impl Fn(Arc<OpenContainer>) -> Result<()>,
    ) -> Result<Published> {
        self.ground
            .retry_briefly(|| self.adopt_at(version, future, &show))
    }

    fn adopt_at(
        &self,
        version: &Arc<ContainerVersion>,
        future: Option<&FutureContainer>,
        show: &impl Fn(Arc<OpenContainer>) -> Result<()>,
    ) -> Result<Published> {
        let path = &*self.ground.places.path(version.container)?;
        let found = version.recognised.stat(&*self.ground.store, path)?;
        let next = || self.versions.next_id();
        let (old, blocks) = (
            version.blocks(),
            future.map_or_else(next, FutureContainer::blocks),
        );
        let now = found.identity();
        self.lasting.note_follows(version, &now);
        let before = version.adopt(now.clone(), blocks);
        let opened = match future {
            Some(future) => self.future.open_as_foreseen(version, path, future),
            None => self.opener.reopen(version, path),
        };
        let shown = opened.and_then(show);
        if shown.is_err() {
            // A commit that is planned by the old file must never be carried out on the new one: to
            // us that is another process's.
            version.adopt(before.clone(), old);
            future.inspect(|future| future.take_back());
        }
        if before != now {
            self.lasting
                .forget(if shown.is_err() { &now } else { &before });
        }
        shown?;
        version.note_owner_of(&found);
        version.writes.count_commit();
        Ok(Published {
            outdated: old,
            found,
        })
    }

    /// Has handles show the container as it is stored now.
    fn show_committed(
        &self,
        version: &ContainerVersion,
        container: Option<&LayeredContainer>,
        opened: Arc<OpenContainer>,
    ) -> Result<()> {
        match container {
            Some(container) => {
                let before = container.rebase(opened)?;
                self.ground.order(move || drop(before));
            }
            None => version.writes.show_stored(&opened, &self.ground.cache)?,
        }
        version.writes.show(&self.ground.cache)
    }

    /// The layer that was committed goes, and so do the kernel's pages of files that follow from
    /// arrays.
    pub(crate) fn end_commit(
        &self,
        version: &Arc<ContainerVersion>,
        container: &LayeredContainer,
        found: &MemberStats,
    ) -> Result<()> {
        let base = container.base();
        let lens = container.stored_lens()?;
        let named = base_of(&version.recognised, found);
        let (writes, stage) = (&version.writes, &container.stage);
        let alone = stage.alone_in_place();
        let end = |show: ShowLayers<'_>| stage.committed(&alone, named, &lens, show);
        writes.change_layers(container, &self.ground.cache, end)??;
        drop(alone);
        stage.sync_log()?;
        let stale = |entry: EntryIndex| match base.is_writable(entry) {
            true => Stale::Attributes,
            false => Stale::Pages(None),
        };
        let stale = Forget::Stale(version.id, &stale);
        self.ground.places.forget(version.container, stale);
        Ok(())
    }
}
