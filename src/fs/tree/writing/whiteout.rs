//! Renames that leave a whiteout: the directory on top of an overlay hides by it what lies below.
//!
//! Used by [`super`], for `kernel`.

use std::ffi::OsStr;

use super::super::Tree;
use super::super::inode::InodeId;
use crate::disk::{Caller, NewEntry, Renaming};
use crate::error::Result;
use crate::source::SpecialKind;

impl Tree {
    /// Renames, and makes a device 0:0 under the old name, which overlayfs takes for one. Not at
    /// once: after a crash between the two what lies below has its name again.
    pub fn rename_and_hide(
        &self,
        from: (InodeId, &OsStr),
        to: (InodeId, &OsStr),
        how: Renaming,
        caller: Caller,
    ) -> Result<()> {
        self.rename(from, to, how)?;
        let whiteout = NewEntry::Special {
            kind: SpecialKind::CharDevice,
            mode: libc::S_IFCHR,
            device: 0,
        };
        match self.make(from.0, from.1, whiteout, caller) {
            Ok(made) => {
                self.names.forget(made.inode, 1);
                Ok(())
            }
            // The old name would hide nothing: nothing has happened.
            Err(e) => self.rename(to, from, Renaming::NoReplace).and(Err(e)),
        }
    }
}
