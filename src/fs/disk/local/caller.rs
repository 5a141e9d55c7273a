//! Acting as another user: files that root's daemon makes and writes for a user are that user's.
//!
//! The file-system user and group belong to a thread, so they are changed for one call and changed
//! back. With the user root's privileges over files go; the right to pass directories is taken up
//! again where a name is resolved, because the kernel has let the caller pass already, perhaps by a
//! supplementary group, which a request does not name. Where bytes are written it is not: without
//! it the system itself takes set-user-id bits away. Used by [`super`] alone.

use std::cell::Cell;
use std::marker::PhantomData;

use rustix::io::{Errno, Result};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::umask::Umask;
use crate::disk::Caller;

/// What may be done beside what the caller may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Privilege {
    None,
    /// Directories on the way need not let him in.
    Pass,
}

/// The set-group-id bit of what is made is the kernel's affair, too: it has taken it away where the
/// caller, of whose groups we know one, is not in the group.
const PASSING: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FSETID);

impl Caller {
    /// Runs `work` as this user, if this process can act as another one at all.
    pub(super) fn run<T>(
        self,
        privilege: Privilege,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if !rustix::process::geteuid().is_root() || (self.uid, self.gid) == (0, 0) {
            return work();
        }
        let _disguise = Disguise::put_on(self, privilege)?;
        work()
    }

    /// Runs `work`, which makes something in a directory, as this user and with his umask.
    pub(super) fn make<T>(self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let umask = Umask::put_on(self.umask);
        let made = self.run(Privilege::Pass, work);
        drop(umask);
        made
    }
}

/// Taken off when dropped, also by a panic.
struct Disguise {
    /// What the thread was allowed before; the rest comes back with the user.
    before: Option<CapabilitySets>,
    /// It belongs to the thread.
    _thread: PhantomData<Cell<()>>,
}

impl Disguise {
    fn put_on(caller: Caller, privilege: Privilege) -> Result<Disguise> {
        let before = match privilege {
            Privilege::None => None,
            Privilege::Pass => Some(capabilities(None)?),
        };
        // From here on dropping it takes back whatever was done.
        let disguise = Disguise {
            before,
            _thread: PhantomData,
        };
        set_group(caller.gid)?;
        set_user(caller.uid)?;
        // Root keeps what it may.
        if let (Some(before), true) = (before, caller.uid != 0) {
            let now = capabilities(None)?;
            set_capabilities(
                None,
                CapabilitySets {
                    effective: now.effective | (before.effective & PASSING),
                    ..now
                },
            )?;
        }
        Ok(disguise)
    }
}

impl Drop for Disguise {
    fn drop(&mut self) {
        // The way back is always open to root's real user; were it not, the thread must not serve
        // another user.
        let back = set_user(0).and_then(|()| set_group(0));
        let back = back.and_then(|()| match self.before {
            Some(before) => set_capabilities(None, before),
            None => Ok(()),
        });
        if back.is_err() {
            log::error!("a thread cannot become root again; the daemon ends");
            std::process::abort();
        }
    }
}

/// The call says nothing of success, so it is asked again: with a number that no user has.
fn set_user(uid: u32) -> Result<()> {
    // SAFETY: two calls that take a number and change this thread alone.
    let now = unsafe {
        libc::setfsuid(uid);
        libc::setfsuid(u32::MAX)
    };
    match now.cast_unsigned() == uid {
        true => Ok(()),
        false => Err(Errno::PERM),
    }
}

fn set_group(gid: u32) -> Result<()> {
    // SAFETY: as above.
    let now = unsafe {
        libc::setfsgid(gid);
        libc::setfsgid(u32::MAX)
    };
    match now.cast_unsigned() == gid {
        true => Ok(()),
        false => Err(Errno::PERM),
    }
}
