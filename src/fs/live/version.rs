//! Versions of containers: a container as it was when it was looked into.
//!
//! [`super::current`] begins a version, [`super::versions`] ends one; nothing else does. In between
//! it is the content of its identity, and any other is refused as changed. Opening it is the
//! business of [`super::opening`]. Used by all of `live`, and by `tree::node`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::opening::opener::VersionOpening;
use super::owner::Owner;
use super::places::ContainerId;
use super::shown::text_views::TextViews;
use super::shown::tombstones::Tombstones;
use super::writing::VersionWrites;
use crate::cache::VersionId;
use crate::container::{MemberStats, Recognised};
use crate::source::Identity;
use crate::sync::Mutex;

pub struct ContainerVersion {
    pub(crate) id: VersionId,
    pub(crate) container: ContainerId,
    pub(crate) recognised: Recognised,
    /// Our own commits change it, and nothing that is shown.
    identity: Mutex<Identity>,
    /// Under which its blocks are cached: others after a commit.
    blocks: AtomicU64,
    pub(crate) opening: VersionOpening,
    pub(crate) writes: VersionWrites,
    /// As it was when it was last looked at: it may change while the version stays.
    owner: Mutex<Owner>,
    pub(crate) tombstones: Arc<Tombstones>,
    pub(crate) text_views: TextViews,
    /// Of the documents of a container that its identity does not tell, when it was opened first.
    documents: OnceLock<u64>,
    /// Something else is stored by now, whatever the identity says.
    outdated: AtomicBool,
}

impl ContainerVersion {
    /// Of the container as it is found now.
    pub(crate) fn new(
        id: VersionId,
        container: ContainerId,
        recognised: Recognised,
        found: &MemberStats,
    ) -> Arc<ContainerVersion> {
        Arc::new(ContainerVersion {
            id,
            container,
            recognised: recognised.anew(),
            identity: Mutex::new(found.identity()),
            blocks: AtomicU64::new(id.0),
            opening: VersionOpening::default(),
            writes: VersionWrites::default(),
            owner: Mutex::new(Owner::of_container(found)),
            tombstones: Arc::default(),
            text_views: TextViews::default(),
            documents: OnceLock::new(),
            outdated: AtomicBool::new(false),
        })
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner.lock().clone()
    }

    /// Notes how its files are now, and says whether others may read them than before.
    pub(super) fn note_owner(&self, now: Owner) -> bool {
        let mut owner = self.owner.lock();
        let same = owner.lets_in_as(&now);
        *owner = now;
        !same
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity.lock().clone()
    }

    pub(crate) fn blocks(&self) -> VersionId {
        VersionId(self.blocks.load(Ordering::Acquire))
    }

    /// A change of our own: the version goes on. Returns the identity that it had.
    pub(crate) fn adopt(&self, to: Identity, blocks: VersionId) -> Identity {
        let mut identity = self.identity.lock();
        self.blocks.store(blocks.0, Ordering::Release);
        std::mem::replace(&mut identity, to)
    }

    pub(crate) fn note_owner_of(&self, found: &MemberStats) {
        self.note_owner(Owner::of_container(found));
    }

    /// Whether the container is unchanged. Of one that could not be read whole, its permissions
    /// decide what is shown, too.
    pub(super) fn is_still(&self, found: &MemberStats) -> bool {
        let readable = || self.owner().lets_in_as(&Owner::of_container(found));
        self.identity() == found.identity()
            && (!self.opening.is_damaged() || readable())
            && !self.is_outdated()
    }

    /// Whether something else is stored by now that the identity does not tell: in documents of
    /// which there are too many for that.
    fn is_outdated(&self) -> bool {
        let looked = self.opening.unchanged().map(|opened| opened.is_unchanged());
        match looked {
            Some(Ok(false)) => self.outdate(),
            Some(Err(e)) => log::debug!("{e}"),
            Some(Ok(true)) | None => {}
        }
        self.outdated.load(Ordering::Relaxed)
    }

    /// Something else is stored by now.
    pub(crate) fn outdate(&self) {
        self.outdated.store(true, Ordering::Relaxed);
    }

    /// Notes what the documents are that it was opened by; false if they were others before.
    pub(super) fn note_documents(&self, digest: u64) -> bool {
        let same = *self.documents.get_or_init(|| digest) == digest;
        if !same {
            self.outdate();
        }
        same
    }
}
