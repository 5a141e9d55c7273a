//! A commit as new files that take the places of old ones.
//!
//! They are made beside the old ones, under hidden names, and synced ([`super::beside_old`]). Then
//! old and new exchange their names ([`super::exchange`]). A manifest in the log names them before:
//! after a crash in between it says which file is which. Used by [`super`].

use std::cell::Cell;

use super::beside_old::{BesideOld, Sharing, is_copied, is_given};
use super::exchange::{Exchange, sync_names};
use super::future_file::FutureFile;
use super::input::Commit;
use super::new_files::NewFiles;
use super::phases::CommitTarget;
use super::taken_next::TakenNext;
use crate::container::writable::CommitWay;
use crate::disk::Target;
use crate::error::{Error, Result};
use crate::source::Stat;
use crate::stage::log::CommitRecord;

/// Whether a new file can be all that the old one is: one name, the same owner, no rights that only
/// the old one has.
pub(super) fn is_possible(commit: &Commit<'_>, now: &Stat) -> Result<bool> {
    let written_here = rustix::process::geteuid().as_raw();
    if now.nlink > 1 || (written_here != 0 && now.uid != written_here) || now.mode & 0o6000 != 0 {
        return Ok(false);
    }
    let names = commit
        .store
        .posix()?
        .xattr_names(&commit.spot.path(), Some(now.id));
    match names {
        Ok(names) => Ok(names.iter().all(|name| is_copied(name) || is_given(name))),
        Err(Error::Unsupported) => Ok(true),
        Err(e) => Err(e),
    }
}

/// Begins with no new file.
pub(super) fn new_files<'a>(
    commit: &'a Commit<'a>,
    first: &Stat,
    sharing: Sharing,
) -> Result<NewFiles<BesideOld<'a>>> {
    // An old log, whose removal was not synced, would take the new file for one that came out of an
    // exchange.
    commit.stage.make_log()?;
    let next = match sharing {
        Sharing::Never => commit.take_next()?,
        Sharing::Always | Sharing::WhereItCan => None,
    };
    Ok(NewFiles::new(BesideOld {
        commit,
        first: first.clone(),
        sharing,
        cannot_share: Cell::new(false),
        are_whole: Cell::new(false),
        next,
    }))
}

impl NewFiles<BesideOld<'_>> {
    fn exchange(&self) -> Exchange<'_> {
        let commit = self.maker.commit;
        Exchange {
            disk: &**commit.disk,
            store: commit.store,
            spot: commit.spot,
        }
    }
}

impl CommitTarget for NewFiles<BesideOld<'_>> {
    fn recipe_way(&self) -> CommitWay {
        match self.maker.sharing {
            Sharing::Always => CommitWay::InPlace,
            Sharing::Never | Sharing::WhereItCan => CommitWay::Replaced,
        }
    }

    fn published_as(&self) -> CommitWay {
        CommitWay::Replaced
    }

    fn prepare(&mut self) -> Result<Vec<FutureFile>> {
        self.finish()?;
        self.maker.are_whole.set(true);
        let read = self.future();
        Ok(read.inspect_err(|e| log::debug!("{e}")).unwrap_or_default())
    }

    fn seal(&mut self) -> Result<()> {
        let commit = self.maker.commit;
        if self.is_empty() {
            return Ok(());
        }
        // A recovery that finds some of them at their places must find the others.
        if commit.is_directory {
            let (path, id) = (&*commit.spot.directory, commit.spot.id);
            commit.disk.sync(Target::Named { path, id }, false)?;
        }
        commit.stage.append(&CommitRecord::Replacing {
            layer: commit.layer,
            files: self.manifest()?,
        })?;
        commit.stage.sync_log()
    }

    /// The files exchange their names. Until that is on the disk the manifest stays in the log,
    /// which must not say that there was nothing.
    fn publish(&mut self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let commit = self.maker.commit;
        self.exchange()
            .swap_names(&self.swaps()?, &|| commit.stage.stay_sealed())
    }

    /// Wherever the directory lies by then: its place is not pinned any more.
    fn sync(&mut self) -> Result<()> {
        let commit = self.maker.commit;
        match self.is_empty() {
            true => Ok(()),
            false => (commit.at_spot)(&mut |spot| sync_names(&**commit.disk, spot)),
        }
    }

    fn redo(&mut self) -> Result<()> {
        self.sync()
    }

    fn end(&mut self, is_made: bool) {
        if !is_made {
            self.remove_ours();
            return self.maker.next.iter().for_each(TakenNext::give_back);
        }
        // The commit has happened, whether or not they can be removed.
        if let Err(e) = self.remove_old() {
            log::warn!("{}; the next commit does it", self.maker.commit.named(&e));
        }
    }

    /// A new file cannot be all that the old one is, or cannot share bytes with it; shared bytes
    /// count twice for a quota.
    fn is_in_vain(&self, e: &Error) -> bool {
        let maker = &self.maker;
        let not_shared = maker.cannot_share.get() || e.is_no_room();
        let may_not = e.is_permission_denied();
        !maker.are_whole.get() && (may_not || (maker.sharing == Sharing::Always && not_shared))
    }
}
