//! Packing: the drafts of a new container become its content, and the container is new no more.
//!
//! That happens when it is complete by its format's rule and nothing in it has been open for
//! [`QUIET`], and at once when its directory is synced and when the mount ends. One that is not
//! complete waits, as long as it takes. The container's file is written from the drafts beside the
//! empty one and takes its place; if a program has begun to use the drafts meanwhile it is thrown
//! away, and made anew later. A container that cannot be packed stays new, and its state says why.
//! Used by `tree::writing`, and by the thread that runs [`Containers::pack_when_quiet`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::content::DraftContent;
use super::roles::DraftRules;
use super::state::{Stays, UNFILLED};
use crate::commit::Spot;
use crate::commit::new_container::{NewContainer, NewContainerPlace, NewModes};
use crate::commit::tidy::remove_tree;
use crate::container::creation::{Creation, GivenContent, PackingRule};
use crate::disk::{Caller, NewAttributes, Target};
use crate::error::{Error, Result};
use crate::live::directory::SourceDirectory;
use crate::live::lasting::LastingFacts;
use crate::live::shown::entry_table::ARRAYS_JSON;
use crate::live::{ContainerId, Containers, LiveContainer, refused};
use crate::patience;
use crate::source::{FileIdentity, FileKind, Stat};
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

/// What is said of arrays without a type, before their names.
const UNTYPED: &str = "nothing said their type, so they are bytes (uint8)";

/// What is done with new containers of which something is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InUse {
    /// They stay new.
    Spared,
    /// They are packed: the handles are taken to write no more.
    Ignored,
}

/// The outcome of packing a new container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PackOutcome {
    /// It is new no more.
    Packed,
    /// Nothing has been put into it.
    Empty,
    /// Not all of it is there yet; says what is missing.
    Unfilled(String),
}

impl Containers {
    /// Packs new containers as soon as they were not used for a while. Does not return.
    pub(crate) fn pack_when_quiet(&self) {
        let quiet = self.ground.settings.settle.unwrap_or(QUIET);
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
            let drafts = self.drafts(id).ok().flatten();
            drafts.is_some_and(|drafts| {
                self.ground
                    .store
                    .stat(&drafts.path.join(ARRAYS_JSON))
                    .is_ok()
            })
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
            false => self.take_added(id, container, &may),
        };
        let packed = self
            .ending
            .while_wanted(PACKING, || self.ground.retry(pack));
        match &packed {
            Ok(PackOutcome::Packed) => {
                let bytes = is_new.then(|| self.packed_bytes(id));
                self.commits.done(begun, bytes.unwrap_or(0));
            }
            Err(e) if !is_busy(e) => self.commits.failed(begun),
            _ => {}
        }
        match &packed {
            Ok(PackOutcome::Packed) => self.watch_no_more(id),
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

    /// Packing that is not done by then is given up: what would be packed stays new.
    pub fn end_packing_by(&self, until: Instant) {
        self.new.end_by(until);
    }

    /// `may`: asked before it begins, all the time and when it is done, whether it may be.
    fn pack(
        &self,
        id: ContainerId,
        container: &LiveContainer,
        may: &dyn Fn() -> bool,
    ) -> Result<PackOutcome> {
        let drafts = self.drafts(id)?.ok_or(Error::NotFound)?;
        let path = self.ground.places.path(id)?;
        let busy = || Err(refused("pack", &path, libc::EBUSY));
        if !may() {
            return busy();
        }
        let recognised = container.known().recognised.clone();
        let creation = recognised.format.creation().ok_or(Error::ReadOnly)?;
        let now = self.ground.store.stat(&path)?;
        if !self.is_pristine(&recognised, &path)? {
            return Err(self.ground.changed(&path));
        }
        if self.is_stored(&recognised, &drafts.path)? {
            let _alone = self.new.exclusive();
            return match may() {
                true => self
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
        let at = self.place_of_packed(creation, (&spot, &now), may)?;
        let own_lengths = creation.own_lengths(&content.given)?;
        let as_now = (&now, &content.attributes(&now));
        let (new, not_kept) = self.write_packed(&at, creation, &content.given, as_now)?;
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
        self.tell_not_kept(id, &not_kept);
        let untyped = content.untyped(creation)?;
        self.tell_untyped(id, &untyped);
        let facts = LastingFacts {
            own_lengths,
            takes_later: creation.takes_later(),
            not_kept,
            untyped,
        };
        self.put_in_place(new, (container, now.file()), facts)?;
        container.new.end();
        let rules = DraftRules::new(creation, content.given.description.as_ref());
        let carried = self.carry_over(&rules, creation, &drafts.path, &path);
        drop(alone);
        // The container is packed, whether or not the rest can be removed.
        if let Err(e) = carried.and_then(|()| self.remove_packed(id, &drafts, &path)) {
            log::warn!("{}", self.ground.told(id, &e));
        }
        self.forget_entries(id);
        Ok(PackOutcome::Packed)
    }

    /// A container that has been written takes its place. What is known of it is noted before
    /// anybody sees it.
    pub(super) fn put_in_place(
        &self,
        new: NewContainer<'_>,
        (container, seen): (&LiveContainer, FileIdentity),
        facts: LastingFacts,
    ) -> Result<()> {
        let recognised = container.known().recognised.clone();
        let identity = match recognised.identity(&*self.ground.store, &new.path()) {
            Ok(identity) => identity,
            Err(e) => {
                new.discard();
                return Err(e);
            }
        };
        self.lasting.set(&identity, facts);
        let put = new.replace(seen);
        put.inspect_err(|_| self.lasting.forget(&identity))
    }

    /// Tells what of its description a container could not keep.
    fn tell_not_kept(&self, id: ContainerId, not_kept: &[String]) {
        let path = self.ground.shown_path(id);
        for line in not_kept {
            let line = format!("{}: not kept: {line}", path.display());
            log::warn!("{line}");
            self.new.not_kept.note(line);
        }
    }

    /// Tells which arrays are bytes because nothing said their type.
    pub(super) fn tell_untyped(&self, id: ContainerId, names: &[String]) {
        if !names.is_empty() {
            let (path, names) = (self.ground.shown_path(id), names.join(", "));
            let line = format!("{}: {UNTYPED}: {names}", path.display());
            log::warn!("{line}");
            self.new.not_kept.note(line);
        }
    }

    /// Where the container is written that takes the place of an empty one, under a hidden name.
    pub(super) fn place_of_packed<'a>(
        &'a self,
        creation: &dyn Creation,
        (spot, now): (&'a Spot, &Stat),
        may: &'a dyn Fn() -> bool,
    ) -> Result<NewContainerPlace<'a>> {
        Ok(NewContainerPlace {
            disk: self.ground.writable()?,
            store: &self.ground.store,
            spot,
            layout: creation.layout(),
            owner: Caller::of(now.uid, now.gid),
            go_on: may,
        })
    }

    /// Writes it there; with what could not be kept.
    pub(super) fn write_packed<'a>(
        &self,
        at: &'a NewContainerPlace<'a>,
        creation: &dyn Creation,
        given: &GivenContent,
        (now, attributes): (&Stat, &NewAttributes),
    ) -> Result<(NewContainer<'a>, Vec<String>)> {
        let modes = NewModes {
            files: 0o600,
            directory: now.mode.into(),
        };
        let (budget, preferences) = (self.ground.cache.budget(), self.ground.settings.preferences);
        let mut not_kept = Vec::new();
        let new = at.write(modes, attributes, |write| {
            not_kept = creation.recipe(given, preferences, budget, write)?;
            Ok(())
        })?;
        Ok((new, not_kept))
    }

    /// The drafts first: as long as the empty container is there, a crash shows that they have been
    /// packed.
    fn remove_packed(&self, id: ContainerId, drafts: &SourceDirectory, path: &Path) -> Result<()> {
        self.remove_drafts(Some(id), &drafts.path)?;
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
            Err(e) if is_busy(&e) => self.sync_drafts(id),
            Ok(PackOutcome::Empty | PackOutcome::Unfilled(_)) => self.sync_drafts(id),
            packed => packed.map(drop),
        })
    }

    pub(crate) fn sync_drafts(&self, id: ContainerId) -> Result<()> {
        let Some(drafts) = self.drafts(id)? else {
            return Ok(());
        };
        let (disk, spot) = (self.ground.writable()?, self.ground.spot(&drafts.path)?);
        for (path, id) in [(&*drafts.path, drafts.id), (&*spot.directory, spot.id)] {
            disk.sync(Target::Named { path, id }, false)?;
        }
        Ok(())
    }

    /// For the attribute of a container: none if it is not new, or there is nothing in it, and
    /// nothing was lost when it was made here.
    pub(crate) fn new_state(&self, id: ContainerId) -> Option<String> {
        let container = self.ground.places.container(id).ok()?;
        if self.has_drafts(id).ok()? {
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

/// Whether the error says that it is in use, or has been given up: it is tried again.
pub(super) fn is_busy(e: &Error) -> bool {
    match e {
        Error::Io { cause, .. } => cause.raw_os_error() == Some(libc::EBUSY),
        _ => matches!(e, Error::Unwanted),
    }
}
