//! A commit as new files that take the places of old ones.
//!
//! They are made beside the old ones, under hidden names, and synced ([`super::new_files`]). Then old and new exchange their names
//! ([`super::exchange`]). The log says before which files are going to do that: after a crash in between it tells which is
//! which. Used by [`super`].

use super::exchange::Exchange;
use super::new_files::{NewFiles, Sharing, is_copied, is_given};
use super::{Commit, Publish};
use crate::container::rewrite::CommitWay;
use crate::disk::Target;
use crate::error::{Error, Result};
use crate::source::Stat;
use crate::stage::log::CommitRecord;

/// Whether a new file can be all that the old one is: one name, the same owner, no rights that only the old one has.
pub(super) fn is_possible(commit: &Commit<'_>, now: &Stat) -> Result<bool> {
    let ours = rustix::process::geteuid().as_raw();
    if now.nlink > 1 || (ours != 0 && now.uid != ours) || now.mode & 0o6000 != 0 {
        return Ok(false);
    }
    let names = commit
        .store
        .xattr_names(&commit.spot.path(), Some(now.identity.id));
    match names {
        Ok(names) => Ok(names.iter().all(|name| is_copied(name) || is_given(name))),
        Err(Error::Unsupported) => Ok(true),
        Err(e) => Err(e),
    }
}

/// False if a new file cannot be all that an old one is, which is found out when it is made: then nothing has happened.
pub(super) fn replace(commit: &Commit<'_>, now: &Stat, publish: Publish<'_>) -> Result<bool> {
    let sharing = match commit.is_directory {
        true => Sharing::WhereItCan,
        false => Sharing::Never,
    };
    replace_by(commit, now, sharing, publish)
}

/// The new file shares all bytes with the old one before it is changed. False if it cannot, or if that takes room that there is
/// not: then nothing has happened.
pub(super) fn replace_sharing(
    commit: &Commit<'_>,
    now: &Stat,
    publish: Publish<'_>,
) -> Result<bool> {
    replace_by(commit, now, Sharing::Always, publish)
}

fn replace_by(
    commit: &Commit<'_>,
    now: &Stat,
    sharing: Sharing,
    publish: Publish<'_>,
) -> Result<bool> {
    // An old log, whose removal was not synced, would take the new file for one that came out of an exchange.
    commit.stage.make_log()?;
    let mut new = NewFiles::new(commit, now, sharing);
    let told = match sharing {
        Sharing::Always => CommitWay::InPlace,
        Sharing::Never | Sharing::WhereItCan => CommitWay::Replaced,
    };
    let filled = commit.tell(told, &mut new).and_then(|()| new.finish());
    // What is shared counts twice for a quota.
    let not_shared = |e: &Error| new.cannot_share || e.is_no_room();
    let in_vain =
        |e: &Error| e.is_permission_denied() || (sharing == Sharing::Always && not_shared(e));
    let replaced = match filled {
        Err(e) if in_vain(&e) => {
            log::debug!("{e}");
            new.remove_ours();
            return Ok(false);
        }
        Err(e) => Err(e),
        Ok(()) => publish_new(commit, &new, publish),
    };
    match replaced {
        // The old files. The commit has happened, whether or not they can be removed.
        Ok(()) => {
            if let Err(e) = new.remove_old() {
                log::warn!("{e}; the next commit does it");
            }
            Ok(true)
        }
        Err(e) => {
            new.remove_ours();
            Err(e)
        }
    }
}

fn publish_new(commit: &Commit<'_>, new: &NewFiles<'_>, publish: Publish<'_>) -> Result<()> {
    if new.is_empty() {
        return publish(CommitWay::Replaced, &mut || commit.unchanged().map(drop));
    }
    // Who finds some of them at their places must find the others.
    if commit.is_directory {
        let (path, id) = (&*commit.spot.directory, commit.spot.id);
        commit.disk.sync(Target::Named { path, id }, false)?;
    }
    commit.stage.append(&CommitRecord::Replacing {
        layer: commit.layer,
        files: new.manifest()?,
    })?;
    commit.stage.sync_log()?;
    publish(CommitWay::Replaced, &mut || exchange(commit, new))
}

/// The files exchange their names, if those that were opened still have them, and the others of the container are what they were.
/// Until it is on the disk the log tells of it, and must not say that there was nothing.
fn exchange(commit: &Commit<'_>, new: &NewFiles<'_>) -> Result<()> {
    if commit.is_directory {
        commit.unchanged()?;
    }
    let exchange = Exchange {
        disk: &**commit.disk,
        store: commit.store,
        spot: commit.spot,
    };
    exchange.carry_out(&new.swaps()?, &|| commit.stage.stay_sealed())
}
