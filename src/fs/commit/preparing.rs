//! The ways in which a commit can be made, of which the first that is possible is taken. Used by
//! [`super`].

use super::beside_old::{SHARED_FROM, Sharing};
use super::in_place::RedoLog;
use super::input::{Commit, Preference};
use super::phases::{CommitTarget, CommitUnderWay, FileInUse, NotNow, Preparation};
use super::program_lock::{self, ProgramLock};
use super::spot::beside;
use super::{replaced, sampled};
use crate::container::writable::Amount;
use crate::error::{Error, Result};
use crate::source::{Stat, open_same};

/// Files up to this size are replaced: the copy is cheap, and no program ever sees anything but the
/// old or the new file.
const LITTLE: u64 = 64 << 20;

/// Files up to this size are copied where they cannot be changed.
const COPIED_MOST: u64 = 1 << 30;

/// A program that rewrites an array of which a file has no more than so many most likely rewrites
/// all of them.
pub(super) const FEW_ARRAYS: u64 = 32;

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

impl<'a> Commit<'a> {
    /// Has the recipe carried out where nothing can be seen of it, in the first way that can be.
    pub fn prepare(&'a self) -> Result<Preparation<'a>> {
        let now = self.unchanged()?;
        let amount = self.writable.amount(self.changed)?;
        self.check_free_space(amount.grown)?;
        let mut in_use = None;
        for undertaking in self.undertakings(&now, &amount, self.bytes_in_next())? {
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
            let begun = CommitUnderWay::new(self, self.target(undertaking, &now)?, locked);
            if let Some(preparation) = begun.prepare()? {
                return Ok(preparation);
            }
        }
        let no_way = || Error::Bug("there is no way in which a commit can be made".into());
        in_use
            .map(|in_use| Err(NotNow::Waits(in_use)))
            .ok_or_else(no_way)
    }

    /// How many bytes that stay it would copy, if they are more than it writes: made once for all
    /// changes that follow each other closely, it copies them once.
    pub fn copied(&self) -> Result<u64> {
        let now = self.unchanged()?;
        let amount = self.writable.amount(self.changed)?;
        let ways = self.undertakings(&now, &amount, self.bytes_in_next())?;
        let is_replaced = ways.first() == Some(&Undertaking::Replace) || self.is_rewritten(&amount);
        let kept = amount.stored.saturating_sub(amount.changed);
        let copies = is_replaced && !self.may_share_members()?;
        // What lies in the next file is written already.
        let written = amount.changed.saturating_sub(self.bytes_in_next());
        Ok(if copies && kept > written { kept } else { 0 })
    }

    /// Whether so many bytes of an array that lie together may go to the next file: the commit
    /// would replace the container's only file, or might if others follow. `is_begun`: they are
    /// written from the array's start on.
    pub fn may_begin_next(&self, bytes: u64, is_begun: bool) -> Result<bool> {
        if self.is_directory {
            return Ok(false);
        }
        let (now, mut amount) = (self.unchanged()?, self.writable.amount(self.changed)?);
        amount.changed = amount.changed.saturating_add(bytes);
        let in_next = self.bytes_in_next().saturating_add(bytes);
        let ways = self.undertakings(&now, &amount, in_next)?;
        if ways.first() == Some(&Undertaking::Replace) {
            return Ok(true);
        }
        let is_worth_while = is_begun && bytes >= amount.stored / FEW_ARRAYS;
        let may_be = is_worth_while && self.preference != Preference::InPlace;
        Ok(may_be && replaced::is_possible(self, &now)? && self.has_room_for(bytes)?)
    }

    /// New members of a directory share bytes with the old ones where they can.
    fn may_share_members(&self) -> Result<bool> {
        Ok(self.is_directory && self.disk.may_share(&*self.source()?))
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
    /// Sees to it that no program loses by it what it reads or writes; or says which one would.
    fn lock_out_programs(
        &self,
        undertaking: Undertaking,
    ) -> Result<std::result::Result<Option<ProgramLock>, String>> {
        if !self.writable.heeds_locks() {
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
        let lies = match undertaking {
            Undertaking::Replace => self.bytes_in_next(),
            Undertaking::Share | Undertaking::Change => 0,
        };
        let most = kept.saturating_add(amount.changed.saturating_sub(lies));
        if amount.encoded > self.limits.encoded {
            return Ok(true);
        }
        if most <= self.limits.written || !amount.guessed {
            return Ok(most > self.limits.written);
        }
        let new = sampled::new_bytes(self, amount)?;
        Ok(kept.saturating_add(new) > self.limits.written)
    }

    /// How it is done: the later ones if those before are not possible. `in_next`: bytes that lie
    /// in the next file.
    fn undertakings(&self, now: &Stat, amount: &Amount, in_next: u64) -> Result<Vec<Undertaking>> {
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
        if in_place >= replaced.saturating_sub(in_next) || is_little {
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
        auto && self.writable.heeds_locks() && bytes <= COPIED_MOST
    }
}
