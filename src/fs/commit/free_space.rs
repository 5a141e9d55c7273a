//! Whether there can be room for a commit at all.
//!
//! Most disks that get full are found out by writing. A commit whose files get longer by more than
//! a disk has, however well anything is packed, would first fill that: it is refused before
//! anything is written. Used by [`super`].

use rustix::fs::fstatvfs;

use super::input::Commit;
use crate::error::{Error, Result};
use crate::source::{Source, on_descriptor};

impl Commit<'_> {
    /// Refuses (ENOSPC) what there cannot be room for. `grown`: bytes that the files take more.
    pub(super) fn check_free_space(&self, grown: u64) -> Result<()> {
        let free = match grown {
            0 => None,
            _ => free_bytes(&*self.source()?),
        };
        match free {
            Some(free) if free < grown => {
                let path = self.store.display(&self.spot.path());
                let doing = format!(
                    "cannot write {}: {grown} bytes more are needed, and {free} are free",
                    path.display()
                );
                let cause = std::io::Error::from_raw_os_error(libc::ENOSPC);
                Err(Error::io(doing, cause))
            }
            _ => Ok(()),
        }
    }
}

/// What the file system of a file has free for this process; none if it does not say.
pub(super) fn free_bytes(file: &dyn Source) -> Option<u64> {
    let found = on_descriptor(file, |fd| fstatvfs(fd)).ok()?.ok()?;
    let blocks = match rustix::process::geteuid().is_root() {
        true => found.f_bfree,
        false => found.f_bavail,
    };
    // One without a limit has no blocks.
    (found.f_blocks > 0).then(|| blocks.saturating_mul(found.f_frsize))
}
