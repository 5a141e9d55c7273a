//! How what is staged becomes the container: a format's recipe, carried out so that the disk holds the old container or the
//! new one.
//!
//! - [`replaced`]: a new file beside the old one, synced, which takes its name. Where the file system lets the two share bytes, what
//!   stays is shared and costs nothing.
//! - [`in_place`]: changes written to the log first, then to the file.
//! - [`new_file`]: a container that is new, which has no stage but [`drafts`]. [`exchange`]: how a new file takes the name of another.
//! - [`recovery`]: what a log that was left behind says of a commit that did not come to its end, with [`fingerprint`] of
//!   what a commit in place leaves alone, and [`patched`] for who reads through it.
//!
//! The stage's frozen layer is what is committed; writing goes on above it meanwhile. Whoever asks for a commit has
//! it publish the result at a moment of his own choosing ([`Publish`]): when nobody looks at the container's identity, and in
//! place, when nobody reads. Assumes one commit of a container at a time. Used by `tree` and by the commands that settle
//! what is staged.

pub mod drafts;
mod exchange;
mod fingerprint;
mod in_place;
pub mod new_file;
mod patched;
pub mod recovery;
mod replaced;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::container::rewrite::{ChangedArray, CommitWay, Rewrite};
use crate::disk::{Caller, Disk, Place};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::{FileId, FileIdentity, Source, Stat, Store, Timestamp};
use crate::stage::Stage;

/// What the user has decided about commits (`-o commit=`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preference {
    #[default]
    Auto,
    Replace,
    InPlace,
}

/// A commit that would write more than this waits until somebody asks for it.
pub const LARGE: u64 = 1 << 30;

/// Files up to this size are replaced: the copy is cheap, and no program ever sees anything but the old or the new file.
const LITTLE: u64 = 64 << 20;

/// Of files up to this size nothing is shared with the new one: changes that keep their place cost more than the copy.
const SHARED_FROM: u64 = if cfg!(test) { 0 } else { LITTLE };

/// Where a container that is one file lies.
#[derive(Debug, Clone)]
pub struct Spot {
    pub directory: PathBuf,
    pub id: FileId,
    pub name: OsString,
}

impl Spot {
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    fn place<'a>(&'a self, name: &'a std::ffi::OsStr) -> Place<'a> {
        Place {
            directory: &self.directory,
            id: self.id,
            name,
        }
    }
}

/// What is to be committed, and with what.
pub struct Commit<'a> {
    pub disk: &'a dyn Disk,
    pub store: &'a Arc<dyn Store>,
    pub spot: &'a Spot,
    /// The file as it was opened; if it is another one by now, nothing is written.
    pub seen: FileIdentity,
    pub stage: &'a Stage,
    /// Number of the layer that is committed.
    pub layer: u64,
    pub rewrite: &'a dyn Rewrite,
    pub changed: &'a [ChangedArray],
    /// When it was last written: the file's time of modification from now on.
    pub written: Timestamp,
    pub budget: &'a Arc<Budget>,
    pub preference: Preference,
    /// What it may write at most.
    pub most: u64,
}

/// The step that makes a commit visible, and how.
pub type Publish<'a> = &'a mut dyn FnMut(CommitWay, &mut dyn FnMut() -> Result<()>) -> Result<()>;

/// How a commit went that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    Published,
    /// Nothing was done, for this reason: what is staged stays so.
    Stays(String),
}

impl Commit<'_> {
    /// Carries it out. After an error the container is what it was.
    pub fn carry_out(&self, publish: Publish<'_>) -> Result<CommitOutcome> {
        let now = self.unchanged()?;
        for (undertaking, writes) in self.undertakings(&now)? {
            if writes > self.most {
                let (writes, most) = (writes >> 20, self.most >> 20);
                return Ok(CommitOutcome::Stays(format!(
                    "committing it would write about {writes} MiB, more than {most}; `arrayfs stage commit` does it"
                )));
            }
            let done = match undertaking {
                Undertaking::Replace => replaced::replace(self, &now, publish).map(|()| true)?,
                Undertaking::Share => replaced::replace_sharing(self, &now, publish)?,
                Undertaking::Change => in_place::change(self, publish).map(|()| true)?,
            };
            if done {
                break;
            }
        }
        Ok(CommitOutcome::Published)
    }

    /// The file as it is, which must be as it was opened.
    fn unchanged(&self) -> Result<Stat> {
        let path = self.spot.path();
        let stat = self.store.stat(&path)?;
        match stat.identity == self.seen {
            true => Ok(stat),
            false => Err(self.changed()),
        }
    }

    fn changed(&self) -> Error {
        Error::Changed {
            path: self.store.display(&self.spot.path()),
        }
    }

    /// The file itself, to be read.
    fn source(&self) -> Result<Arc<dyn Source>> {
        let source = self.store.open(&self.spot.path())?;
        match source.identity() == self.seen {
            true => Ok(source),
            false => Err(self.changed()),
        }
    }

    /// As whom files are made that belong to the container.
    fn owner(&self, stat: &Stat) -> Caller {
        Caller {
            uid: stat.uid,
            gid: stat.gid,
        }
    }

    /// How it is done, with the bytes that it writes; what comes later if the first is not possible.
    fn undertakings(&self, now: &Stat) -> Result<Vec<(Undertaking, u64)>> {
        let amount = self.rewrite.amount(self.changed)?;
        let replaced = amount.stored.max(amount.changed);
        let shared = match amount.moves {
            true => replaced,
            false => amount.changed,
        };
        // To the log, and from there.
        let in_place = shared.saturating_mul(2);
        let replace = (Undertaking::Replace, replaced);
        let share = (Undertaking::Share, shared);
        let change = (Undertaking::Change, in_place);
        if self.preference == Preference::InPlace || !replaced::is_possible(self, now)? {
            return Ok(vec![change]);
        }
        let is_little = self.preference == Preference::Auto && replaced <= LITTLE;
        if in_place >= replaced || is_little {
            return Ok(vec![replace]);
        }
        let otherwise = match self.preference {
            Preference::Replace => replace,
            _ => change,
        };
        match replaced > SHARED_FROM && self.disk.may_share(&*self.source()?) {
            true => Ok(vec![share, otherwise]),
            false => Ok(vec![otherwise]),
        }
    }
}

/// What a commit does with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undertaking {
    /// Another one takes its place.
    Replace,
    /// Another one that shares with it what stays.
    Share,
    /// It is changed itself.
    Change,
}

/// The path of a file beside the container.
fn beside(spot: &Spot, name: &std::ffi::OsStr) -> PathBuf {
    Path::new(&spot.directory).join(name)
}
