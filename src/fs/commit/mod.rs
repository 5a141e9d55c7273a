//! How staged changes become the container: a format's recipe, carried out so that the disk holds
//! the old container or the new one.
//!
//! - [`phases`]: a commit as a value that is prepared, sealed and published, to one of two targets:
//! - [`replaced`]: a new file beside the old one, synced, which takes its name; of a directory, one
//!   for each file that changes ([`beside_old`]), and all of them take their names or none. Where
//!   the file system lets old and new share bytes, unchanged bytes are shared and cost nothing.
//!   [`new_files`] writes them, and those of containers that are new.
//! - [`in_place`]: changes written to the log first, then to the files, which are recognised as
//!   [`sealed`] says. If a file of a directory has attributes that no new one can be given, all of
//!   that commit are changed so.
//! - [`new_container`]: a container that is new, which has no stage but [`drafts`]. [`added`]:
//!   files beside containers that are no part of them. [`exchange`]: how new files take the names
//!   of others. [`tidy`]: removing hidden files and directories.
//! - [`recovery`]: completing or undoing a commit that did not come to its end, by the log that it
//!   left behind; [`recovery_state`] finds out how far it got, with [`fingerprint`]s;
//!   [`found_logs`]: which logs there are; [`through_log`]: reading without recovering.
//!   [`future_file`]: a file as a commit is about to make it. [`grown`]: bytes behind a file's end
//!   that need no redo. [`program_lock`]: other programs that have a file open. [`holes`] and
//!   [`free_space`]: what takes no room, and what there is none for.
//!
//! A commit is of the stage's frozen layer; writing goes on above it meanwhile. The caller chooses
//! the moment at which the result is published: when no thread compares the container's identity,
//! and in place, when no thread reads. Assumes one commit of a container at a time. Used by `live`
//! and `tree`, and by the commands that recover or show stages.

pub mod added;
mod beside_old;
mod changed_file;
mod covered;
pub mod drafts;
mod exchange;
mod fingerprint;
pub mod found_logs;
mod free_space;
mod future_file;
mod grown;
mod holes;
mod in_place;
mod metered;
pub mod new_container;
mod new_files;
mod phases;
pub mod program_lock;
pub mod recovery;
mod recovery_state;
mod redo;
mod replaced;
mod rollback;
mod sampled;
mod sealed;
pub mod through_log;
pub mod tidy;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::container::rewrite::{Amount, ChangedArray, MemberNumber, Rewrite};
use crate::container::{MemberStats, Recognised};
use crate::disk::{Caller, Disk, Place};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::{
    FileId, FileIdentity, ReopenedSource, Source, Stat, Store, Timestamp, open_same,
};
use crate::stage::{Base, BaseFile, Stage};
use beside_old::Sharing;
pub use beside_old::is_given;
pub use future_file::FutureFile;
use in_place::RedoLog;
use phases::{Begun, CommitTarget};
pub use phases::{Prepared, Sealed};
use program_lock::ProgramLock;

/// The user's choice (`-o commit=`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preference {
    #[default]
    Auto,
    Replace,
    InPlace,
}

/// How much a commit may do while a program waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitLimits {
    /// Bytes that are written or copied.
    pub written: u64,
    /// Plain bytes that are encoded.
    pub encoded: u64,
}

impl CommitLimits {
    pub const NONE: CommitLimits = CommitLimits {
        written: u64::MAX,
        encoded: u64::MAX,
    };
}

impl Default for CommitLimits {
    fn default() -> CommitLimits {
        CommitLimits {
            written: 1 << 30,
            encoded: 8 << 30,
        }
    }
}

/// Files up to this size are replaced: the copy is cheap, and no program ever sees anything but the
/// old or the new file.
const LITTLE: u64 = 64 << 20;

/// Of files up to this size nothing is shared with the new one: changes that keep their place cost
/// more than the copy.
const SHARED_FROM: u64 = if cfg!(test) { 0 } else { LITTLE };

/// Files up to this size are copied where they cannot be changed.
const COPIED_MOST: u64 = 1 << 30;

/// Where the files of a container lie: in the directory in which the container is a file, or in the
/// directory that it is.
#[derive(Debug, Clone)]
pub struct Spot {
    pub directory: PathBuf,
    pub id: FileId,
    /// Of the container's only file, or the first one.
    pub name: OsString,
}

/// A file of a container, as it was opened.
#[derive(Debug, Clone)]
pub struct SeenFile {
    pub name: OsString,
    /// None: there was none of this name.
    pub identity: Option<FileIdentity>,
}

impl Spot {
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    pub fn place<'a>(&'a self, name: &'a std::ffi::OsStr) -> Place<'a> {
        Place {
            directory: &self.directory,
            id: self.id,
            name,
        }
    }
}

/// A commit: the changes, and everything that it needs.
pub struct Commit<'a> {
    pub disk: &'a Arc<dyn Disk>,
    pub store: &'a Arc<dyn Store>,
    pub spot: &'a Spot,
    /// Where they lie when they have changed.
    pub at_spot: AtSpot<'a>,
    /// The files as they were opened, by their member numbers; if one is another by now, nothing is
    /// written.
    pub seen: &'a [SeenFile],
    /// Whether the container is a directory.
    pub is_directory: bool,
    pub stage: &'a Stage,
    /// Number of the layer that is committed.
    pub layer: u64,
    pub rewrite: &'a dyn Rewrite,
    pub changed: &'a [ChangedArray],
    /// When it was last written: the file's time of modification from now on.
    pub written: Timestamp,
    pub budget: &'a Arc<Budget>,
    pub preference: Preference,
    pub limits: CommitLimits,
    /// Whether programs read a file of it as it is stored, through the mount.
    pub is_read: &'a dyn Fn(&FileId) -> bool,
}

/// Runs the given function with the place where the files lie now, and again if they are not found
/// because something is moved meanwhile.
pub type AtSpot<'a> = &'a dyn Fn(&mut dyn FnMut(&Spot) -> Result<()>) -> Result<()>;

/// A file that another program has open, so that it cannot be changed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInUse {
    /// Which one, for a message.
    pub by: String,
    /// Those that only read are in the way, too.
    pub alone: bool,
}

/// Why a commit cannot be made now. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotNow {
    /// The changes do not agree yet, for this reason.
    Stays(String),
    /// Another program has the file open.
    Waits(FileInUse),
    /// It would be more than the limits allow.
    TooMuch,
}

/// A commit that is prepared, unless it cannot be made now.
pub type Preparation<'a> = std::result::Result<Prepared<'a>, NotNow>;

impl<'a> Commit<'a> {
    /// Has the recipe carried out where nothing can be seen of it, in the first way that can be.
    pub fn prepare(&'a self) -> Result<Preparation<'a>> {
        let now = self.unchanged()?;
        let amount = self.rewrite.amount(self.changed)?;
        self.check_free_space(amount.grown)?;
        let mut in_use = None;
        for undertaking in self.undertakings(&now, &amount)? {
            let locked = match self.lock_out_programs(undertaking)? {
                Ok(locked) => locked,
                Err(by) => {
                    let alone = undertaking == Undertaking::Change;
                    in_use = Some(FileInUse { by, alone });
                    continue;
                }
            };
            if self.is_beyond(undertaking, &amount)? {
                return Ok(Err(NotNow::TooMuch));
            }
            let begun = Begun::new(self, self.target(undertaking, &now)?, locked);
            if let Some(preparation) = begun.prepare()? {
                return Ok(preparation);
            }
        }
        let no_way = || Error::Bug("there is no way in which a commit can be made".into());
        in_use
            .map(|in_use| Err(NotNow::Waits(in_use)))
            .ok_or_else(no_way)
    }

    fn target(
        &'a self,
        undertaking: Undertaking,
        now: &Stat,
    ) -> Result<Box<dyn CommitTarget + 'a>> {
        let sharing = match undertaking {
            Undertaking::Replace => self.sharing(),
            Undertaking::Share => Sharing::Always,
            Undertaking::Change => return Ok(Box::new(RedoLog::new(self))),
        };
        Ok(Box::new(replaced::new_files(self, now, sharing)?))
    }
}

impl Commit<'_> {
    /// An error that it met, as a line of the log.
    fn named(&self, e: &Error) -> String {
        let container = match self.is_directory {
            true => self.spot.directory.clone(),
            false => self.spot.path(),
        };
        e.told_of(&self.store.display(&container), "")
    }

    /// Where the container lies, for messages.
    fn shown(&self) -> PathBuf {
        self.store.display(&self.spot.path())
    }

    /// Sees to it that no program loses by it what it reads or writes; or says which one would.
    fn lock_out_programs(
        &self,
        undertaking: Undertaking,
    ) -> Result<std::result::Result<Option<ProgramLock>, String>> {
        if !self.rewrite.heeds_locks() {
            return Ok(Ok(None));
        }
        let first = self.seen.first().ok_or(Error::NotFound)?;
        let identity = first.identity.ok_or_else(|| self.changed(&first.name))?;
        let path = beside(self.spot, &first.name);
        let source = open_same(&**self.store, &path, &identity.into())?;
        let alone = undertaking == Undertaking::Change;
        if alone && (self.is_read)(&identity.id) {
            return Ok(Err("a program has its `views/stored` open".into()));
        }
        let taken = program_lock::take(&*source, alone)?;
        Ok(taken.map(Some))
    }

    /// Of one file it is decided before whether it is shared.
    fn sharing(&self) -> Sharing {
        match self.is_directory {
            true => Sharing::WhereItCan,
            false => Sharing::Never,
        }
    }

    /// Whether the commit is too much by what can be counted beforehand.
    fn is_beyond(&self, undertaking: Undertaking, amount: &Amount) -> Result<bool> {
        let kept = match undertaking {
            Undertaking::Replace => amount.stored.saturating_sub(amount.changed),
            Undertaking::Share | Undertaking::Change => 0,
        };
        let most = kept.saturating_add(amount.changed);
        if amount.encoded > self.limits.encoded {
            return Ok(true);
        }
        if most <= self.limits.written || !amount.guessed {
            return Ok(most > self.limits.written);
        }
        let new = sampled::new_bytes(self, amount)?;
        Ok(kept.saturating_add(new) > self.limits.written)
    }

    /// The first file as it is; all of them must be as they were opened.
    fn unchanged(&self) -> Result<Stat> {
        let mut first = None;
        for seen in self.seen {
            let path = beside(self.spot, &seen.name);
            let found = match self.store.stat(&path) {
                Err(e) if e.is_not_found() && seen.identity.is_none() => None,
                other => Some(other?),
            };
            if found.as_ref().map(Stat::file) != seen.identity {
                return Err(self.changed(&seen.name));
            }
            first = first.or(found);
        }
        first.ok_or_else(|| self.changed(&self.spot.name))
    }

    fn changed(&self, name: &OsStr) -> Error {
        Error::Changed {
            path: self.store.display(&beside(self.spot, name)),
        }
    }

    /// A container's only file, or the first one, to be read.
    fn source(&self) -> Result<Arc<dyn Source>> {
        let first = self.seen.first().ok_or(Error::NotFound)?;
        self.source_of(first)
    }

    fn seen_file(&self, number: MemberNumber) -> Result<&SeenFile> {
        let seen = self.seen.get(number.0 as usize);
        seen.ok_or_else(|| Error::Bug("there is no such file".into()))
    }

    fn source_of(&self, seen: &SeenFile) -> Result<Arc<dyn Source>> {
        let identity = seen
            .identity
            .ok_or_else(|| self.changed(&seen.name))?
            .into();
        let (store, path) = (Arc::clone(self.store), beside(self.spot, &seen.name));
        let open = move || open_same(&*store, &path, &identity);
        let source = open()?;
        Ok(Arc::new(ReopenedSource::new(source, open)))
    }

    /// The user as whom new files of the container are made.
    fn owner(&self, stat: &Stat) -> Caller {
        Caller::of(stat.uid, stat.gid)
    }

    /// How it is done: the later ones if those before are not possible.
    fn undertakings(&self, now: &Stat, amount: &Amount) -> Result<Vec<Undertaking>> {
        use Undertaking::{Change, Replace, Share};
        let replaced = amount.stored.max(amount.changed);
        let shared = match amount.moves {
            true => replaced,
            false => amount.changed,
        };
        // To the log, and from there.
        let in_place = shared.saturating_mul(2);
        if self.preference == Preference::InPlace {
            return Ok(vec![Change]);
        }
        // Attributes that a new file cannot be given are found out when one is made.
        if self.is_directory {
            return Ok(vec![Replace, Change]);
        }
        if !replaced::is_possible(self, now)? {
            return Ok(vec![Change]);
        }
        let is_little = self.preference == Preference::Auto && replaced <= LITTLE;
        if in_place >= replaced || is_little {
            return Ok(vec![Replace, Change]);
        }
        let otherwise = match self.preference {
            Preference::Replace => vec![Replace, Change],
            _ => vec![Change],
        };
        match replaced > SHARED_FROM && self.disk.may_share(&*self.source()?) {
            true => Ok([vec![Share], otherwise].concat()),
            false if self.may_copy(replaced) => Ok([otherwise, vec![Replace]].concat()),
            false => Ok(otherwise),
        }
    }

    /// Whether a file that would be changed in place may be copied instead, because a program reads
    /// it.
    fn may_copy(&self, bytes: u64) -> bool {
        let auto = self.preference == Preference::Auto;
        auto && self.rewrite.heeds_locks() && bytes <= COPIED_MOST
    }
}

/// How a commit changes the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undertaking {
    /// Others take their places.
    Replace,
    /// Another one that shares with it what stays.
    Share,
    /// They are changed themselves.
    Change,
}

/// The path of a file where the container's lie.
fn beside(spot: &Spot, name: &OsStr) -> PathBuf {
    Path::new(&spot.directory).join(name)
}

/// A container as a log names it.
pub fn base_of(recognised: &Recognised, found: &MemberStats) -> Base {
    let layout = recognised.layout();
    let each = layout.identifying().iter().zip(&found.members);
    let file = |(name, stat): (&&str, &Option<Stat>)| {
        let identity = stat.as_ref().map(Stat::file)?;
        Some(BaseFile::new(name, identity))
    };
    Base {
        format: recognised.format.name().to_owned(),
        files: match layout.is_file() {
            true => vec![BaseFile::new("", found.own.file())],
            false => each.filter_map(file).collect(),
        },
    }
}
