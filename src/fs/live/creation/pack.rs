//! Packing: the drafts of a new container become its content, and the container is new no more.
//!
//! That happens when it is complete by its format's rule and nothing in it has been open for
//! [`QUIET`], and at once when its directory is synced and when the mount ends. One that is not
//! complete waits, as long as it takes. The container's file is written from the drafts beside the
//! empty one and takes its place; if a program has begun to use the drafts meanwhile it is thrown
//! away, and made anew later. A container that cannot be packed stays new, and its state says why.
//! Used by `tree::writing`, and by the thread that runs [`DraftPacking::pack_when_quiet`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::added::AddedFiles;
use super::content::DraftContent;
use super::drafts::Drafts;
use super::later::LaterArrays;
use super::outcome::{InUse, PackOutcome, is_busy};
use super::packed::{PackWriter, UNTYPED};
use super::roles::DraftRules;
use super::state::{NewContainers, Stays, UNFILLED};
use super::stored::StoredDrafts;
use crate::commit::tidy::remove_tree;
use crate::container::creation::PackingRule;
use crate::disk::Caller;
use crate::error::{Error, Result};
use crate::live::committing::{CommitCounters, MountEnd};
use crate::live::container::LiveContainer;
use crate::live::directory::SourceDirectory;
use crate::live::ground::Ground;
use crate::live::lasting::{LastingFacts, LastingTable};
use crate::live::places::ContainerId;
use crate::live::refusal::refused;
use crate::live::shown::entry_table::ARRAYS_JSON;
use crate::patience;
use crate::source::FileKind;
use crate::stage::new_name;

/// How long a new container is not used before it is packed, unless the mount's options say
/// otherwise: programs close a file and go on with the next one.
const QUIET: Duration = Duration::from_secs(2);

/// So many times longer where nothing says whether more arrays follow.
const UNDESCRIBED: u32 = 30;

/// How long a caller that cannot wait for quiet waits for files to be let go: the kernel releases
/// them after close(2) has returned.
const RELEASED: Duration = Duration::from_millis(100);

/// When the mount is about to end, packing that takes longer is given up: what would be packed
/// stays new, and the next mount goes on with it.
pub const PACKING: Duration = Duration::from_secs(60);

/// Packs new containers.
pub(crate) struct DraftPacking {
    pub(crate) ground: Arc<Ground>,
    pub(crate) ending: Arc<MountEnd>,
    pub(crate) counters: Arc<CommitCounters>,
    pub(crate) lasting: Arc<LastingTable>,
    pub(crate) new: Arc<NewContainers>,
    pub(crate) drafts: Arc<Drafts>,
    pub(crate) added: Arc<AddedFiles>,
    pub(crate) stored: Arc<StoredDrafts>,
    pub(crate) later_arrays: Arc<LaterArrays>,
    pub(crate) writer: Arc<PackWriter>,
}

impl DraftPacking {
    /// Packs new containers as soon as they were not used for a while. Does not return.
    pub(crate) fn pack_when_quiet(&self) {
        let quiet = self.ground.settings.packed_after.unwrap_or(QUIET);
        loop {
            let seen = self.new.changes();
            // A panic must not cost the thread; the hook has reported it.
            let packed = catch_unwind(AssertUnwindSafe(|| self.pack_quiet(quiet)));
            self.new.wait(seen, packed.unwrap_or(Some(QUIET)));
        }
    }

    /// Packs the new containers that were not used for this long. Says when to look again, if none
    /// is used until then.
    pub(crate) fn pack_quiet(&self, quiet: Duration) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for (id, _) in self.new.all() {
            // They are looked at again when they are used again, or their last file is closed.
            if self.ground.places.is_in_use(id) {
                continue;
            }
            // As it is by now: to pack those before may have taken long.
            let used = self.new.last_use(id);
            let Some(used) = used.filter(|used| used.stays.is_none()) else {
                continue;
            };
            let quiet = self.quiet_of(id, quiet);
            match quiet
                .checked_sub(used.last.elapsed())
                .filter(|left| !left.is_zero())
            {
                Some(left) => next = Some(next.map_or(left, |next| next.min(left))),
                None => drop(self.pack_if_quiet(id, InUse::Spared, quiet)),
            }
        }
        next
    }

    /// How long a container is not used before it is packed.
    fn quiet_of(&self, id: ContainerId, quiet: Duration) -> Duration {
        let Ok(container) = self.ground.places.container(id) else {
            return quiet;
        };
        let format = container.known().recognised.format;
        let rule = format.creation().map(|creation| creation.packing());
        let is_described = || {
            let drafts = self.drafts.of(id).ok().flatten();
            let path = drafts.map(|drafts| drafts.path.join(ARRAYS_JSON));
            path.is_some_and(|path| self.ground.store.stat(&path).is_ok())
        };
        match rule == Some(PackingRule::AsDescribed) && !is_described() {
            true => quiet.saturating_mul(UNDESCRIBED),
            false => quiet,
        }
    }

    /// Packs all new containers at once that can be. Returns those that stay new, and why.
    pub(crate) fn pack_all(&self, in_use: InUse) -> Vec<(PathBuf, String)> {
        let mut left = Vec::new();
        for (id, _) in self.new.all() {
            let why = match self.pack_now(id, in_use) {
                Ok(PackOutcome::Packed | PackOutcome::Empty) => continue,
                Ok(PackOutcome::Unfilled(why)) => why,
                Err(e) => e.to_string(),
            };
            left.push((self.ground.shown_path(id), why));
        }
        left
    }

    /// Packs a new container if it can be: not as long as there is no array in it, or it is spared
    /// (EBUSY).
    pub(crate) fn pack_now(&self, id: ContainerId, in_use: InUse) -> Result<PackOutcome> {
        let (until, new) = (Instant::now() + RELEASED, &self.new);
        loop {
            let (seen, times) = (new.changes(), new.times_used(id));
            let may_wait = self.ground.places.is_in_use(id) && !new.has_waited(id, times);
            let packed = self.pack_if_quiet(id, in_use, Duration::ZERO);
            if !may_wait || !packed.as_ref().is_err_and(is_busy) {
                return packed;
            }
            match until.checked_duration_since(Instant::now()) {
                Some(left) => new.wait(seen, Some(left)),
                None => {
                    new.note_wait(id, times);
                    return packed;
                }
            }
        }
    }

    /// Packs a new container if it can be, and has not been used for this long.
    fn pack_if_quiet(
        &self,
        id: ContainerId,
        in_use: InUse,
        quiet: Duration,
    ) -> Result<PackOutcome> {
        let container = &*self.ground.places.container(id)?;
        if !container.new.is_new() && !self.new.has(id) {
            return Ok(PackOutcome::Packed);
        }
        let _locked = container.new.lock_creation();
        let used = self.new.last_use(id);
        if used
            .as_ref()
            .is_some_and(|used| used.last.elapsed() < quiet)
        {
            let path = self.ground.known_path(id);
            return Err(refused("pack", &path, libc::EBUSY));
        }
        let times = used.map_or(0, |used| used.times);
        let is_quiet = || !self.ground.places.is_in_use(id) && self.new.times_used(id) == times;
        let has_time = || self.new.has_time() && patience::check().is_ok();
        let may = || has_time() && (in_use == InUse::Ignored || is_quiet());
        let (begun, is_new) = (Instant::now(), container.new.is_new());
        let pack = || match container.new.is_new() {
            true => self.pack(id, container, &may),
            false => self.later_arrays.take_added(id, container, &may),
        };
        let packed = self
            .ending
            .while_wanted(PACKING, || self.ground.retry(pack));
        match &packed {
            Ok(PackOutcome::Packed) => {
                let bytes = is_new.then(|| self.packed_bytes(id));
                self.counters.done(begun, bytes.unwrap_or(0));
            }
            Err(e) if !is_busy(e) => self.counters.failed(begun),
            _ => {}
        }
        match &packed {
            Ok(PackOutcome::Packed) => self.drafts.watch_no_more(id),
            Ok(PackOutcome::Empty) => {
                self.new
                    .note_stays(id, times, Stays::Waiting(UNFILLED.into()));
            }
            Ok(PackOutcome::Unfilled(why)) => {
                self.new.note_stays(id, times, Stays::Waiting(why.clone()));
            }
            Err(e) if is_busy(e) => {}
            Err(e) if self.new.times_used(id) == times => {
                let path = self.ground.shown_path(id);
                match container.new.is_new() {
                    true => log::warn!("{}: stays new: {e}", path.display()),
                    false => log::warn!("{}: what was put into it: {e}", path.display()),
                }
                let why = Stays::Failed(e.to_string());
                self.new.note_stays(id, times, why);
            }
            // It has been used meanwhile, and is tried again when it is quiet.
            Err(_) => {}
        }
        packed
    }

    /// The size of a container that is one file. One of many files is not looked through for this.
    fn packed_bytes(&self, id: ContainerId) -> u64 {
        let path = self.ground.places.path(id);
        match path.and_then(|path| self.ground.store.stat(&path)) {
            Ok(stat) if stat.kind == FileKind::File => stat.size,
            _ => 0,
        }
    }

    /// `may`: asked before it begins, all the time and when it is done, whether it may be.
    fn pack(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        may: &dyn Fn() -> bool,
    ) -> Result<PackOutcome> {
        let drafts = self.drafts.of(id)?.ok_or(Error::NotFound)?;
        let path = self.ground.places.path(id)?;
        let busy = || Err(refused("pack", &path, libc::EBUSY));
        if !may() {
            return busy();
        }
        let recognised = container.known().recognised.clone();
        let creation = recognised.format.creation().ok_or(Error::ReadOnly)?;
        let now = self.ground.store.stat(&path)?;
        if !self.drafts.is_pristine(&recognised, &path)? {
            return Err(self.ground.changed(&path));
        }
        if self.stored.is_stored(&recognised, &drafts.path)? {
            let _alone = self.new.exclusive();
            return match may() {
                true => self
                    .stored
                    .take_as_stored(id, container, &drafts, (&*path, &now))
                    .map(|()| PackOutcome::Packed),
                false => busy(),
            };
        }
        let content = DraftContent::of_drafts(&self.ground, &drafts, creation, &now)?;
        if content.entries.is_empty() {
            return Ok(PackOutcome::Empty);
        }
        if let Some(missing) = content.lacks(creation)? {
            return Ok(PackOutcome::Unfilled(missing));
        }
        let spot = self.ground.spot(&path)?;
        let at = self
            .ground
            .new_place((&spot, creation), Caller::of(now.uid, now.gid), may)?;
        let own_lengths = creation.own_lengths(&content.given)?;
        let as_now = (&now, &content.attributes(&now));
        let (new, not_kept) = self.writer.write(&at, creation, &content.given, as_now)?;
        let alone = self.new.exclusive();
        let still = content.is_still(&*self.ground.store, (&drafts, creation), (&*path, &now));
        if !may() || !matches!(still, Ok(true)) {
            new.discard();
            // A change by another process counts as a use, too: packing is tried again later.
            if matches!(still, Ok(false)) {
                self.new.used(id);
            }
            return still.and_then(|_| busy());
        }
        self.writer.tell_not_kept(id, &not_kept);
        let untyped = content.untyped(creation)?;
        self.writer.tell_untyped(id, &untyped);
        let facts = LastingFacts {
            own_lengths,
            takes_later: creation.takes_later(),
            not_kept,
            untyped,
        };
        self.writer.put(new, (container, now.file()), facts)?;
        container.new.end();
        let rules = DraftRules::new(creation, content.given.description.as_ref());
        let kept = self
            .added
            .keep_beside(&rules, creation, &drafts.path, &path);
        drop(alone);
        // The container is packed, whether or not the rest can be removed.
        if let Err(e) = kept.and_then(|()| self.remove_packed(id, &drafts, &path)) {
            log::warn!("{}", self.ground.told(id, &e));
        }
        self.drafts.forget_entries(id);
        Ok(PackOutcome::Packed)
    }

    /// The drafts first: as long as the empty container is there, a crash shows that they have been
    /// packed.
    fn remove_packed(&self, id: ContainerId, drafts: &SourceDirectory, path: &Path) -> Result<()> {
        self.drafts.remove(Some(id), &drafts.path)?;
        let (disk, spot) = (self.ground.writable()?, self.ground.spot(path)?);
        remove_tree(disk, &*self.ground.store, &spot, &new_name(&spot.name))
    }

    /// Returns when a container is as durable as its directory is when that is synced: packed, or
    /// if something in it is open, with the names of its drafts on the disk. None if it is not new.
    pub(crate) fn sync_new(&self, id: ContainerId) -> Option<Result<()>> {
        if !self.ground.places.container(id).ok()?.new.is_new() {
            // What is synced then is not drafts.
            self.take_at_sync(id);
            return None;
        }
        Some(match self.pack_now(id, InUse::Spared) {
            Err(e) if is_busy(&e) => self.drafts.sync(id),
            Ok(PackOutcome::Empty | PackOutcome::Unfilled(_)) => self.drafts.sync(id),
            packed => packed.map(drop),
        })
    }

    /// Before the directory of a container is synced that is not new: added files become arrays if
    /// they can. If they cannot they are files, and durable as such.
    pub(super) fn take_at_sync(&self, id: ContainerId) {
        if self.new.has(id)
            && let Err(e) = self.pack_now(id, InUse::Spared)
            && !is_busy(&e)
        {
            log::debug!("{}: {e}", self.ground.shown_path(id).display());
        }
    }

    /// For the attribute of a container: none if it is not new, or there is nothing in it, and
    /// nothing was lost when it was made here.
    pub(crate) fn new_state(&self, id: ContainerId) -> Option<String> {
        let container = self.ground.places.container(id).ok()?;
        if self.added.has_drafts(id).ok()? {
            let used = self.new.last_use(id)?;
            return Some(format!("staged: {}", used.why()));
        }
        let facts = self.lasting.facts_of(&container);
        let mut told = Vec::new();
        if !facts.not_kept.is_empty() {
            told.push(format!("not kept: {}", facts.not_kept.join("; ")));
        }
        if !facts.untyped.is_empty() {
            told.push(format!("{UNTYPED}: {}", facts.untyped.join(", ")));
        }
        let is_packed = !container.new.is_new() && !told.is_empty();
        is_packed.then(|| format!("clean: {}", told.join("; ")))
    }
}
