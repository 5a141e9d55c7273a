//! The tree, changed: ordinary files and directories of the source, and arrays of containers.
//!
//! Every operation finds the place where an inode is now, has the disk change it, and lets the
//! table of inodes follow. What is written to arrays is staged, and committed later; a container is
//! renamed or removed as the file or directory that it is. Assumes that the kernel has let the
//! caller in. Used by `kernel::adapter`.

mod attributes;
mod closing;
mod content;
mod directories;
mod making;
mod promote;
mod removal;
mod rename;
mod rename_into;
mod rename_new;
mod replace;
mod requests;
mod retyped;
mod strays;
mod targets;
#[cfg(test)]
pub(crate) mod tests;

use std::ffi::OsStr;
use std::sync::Arc;

use super::following::FollowingEntries;
use super::inode::InodeId;
use super::lookup::NameLookup;
use super::named::ErrorLines;
use super::reading::FileReading;
use super::xattr::Xattrs;
use crate::disk::{Caller, NewEntry, Renaming};
use crate::error::Result;
use crate::source::SpecialKind;
use attributes::AttributeChanges;
use closing::FileClosing;
use content::FileContents;
use directories::SourceDirectories;
use making::Making;
use promote::Promotion;
use removal::Removing;
use rename::Renames;
use rename_into::RenamesInto;
use rename_new::RenamesOfNew;
use requests::Requests;
use strays::Strays;

pub use content::Hole;
pub use removal::COMES_BACK;

/// The parts, each with its job.
pub(crate) struct TreeWriting {
    names: Arc<NameLookup>,
    pub(crate) contents: Arc<FileContents>,
    pub(crate) making: Making,
    pub(crate) removing: Removing,
    pub(crate) renames: Renames,
    pub(crate) attributes: AttributeChanges,
    pub(crate) closing: FileClosing,
}

impl TreeWriting {
    /// Beside what reads the tree.
    pub(super) fn new(
        names: &Arc<NameLookup>,
        reading: &Arc<FileReading>,
        xattrs: &Arc<Xattrs>,
        error_lines: &Arc<ErrorLines>,
    ) -> TreeWriting {
        let fs = &names.fs;
        let directories = &Arc::new(SourceDirectories {
            fs: Arc::clone(fs),
            written_here: Arc::clone(&names.written_here),
            listing_cache: Arc::clone(&names.listing_cache),
        });
        let strays = &Arc::new(Strays {
            fs: Arc::clone(fs),
            directories: Arc::clone(directories),
        });
        let promotion = &Arc::new(Promotion {
            fs: Arc::clone(fs),
            directories: Arc::clone(directories),
        });
        let contents = Arc::new(FileContents {
            fs: Arc::clone(fs),
            reading: Arc::clone(reading),
            strays: Arc::clone(strays),
            written_here: Arc::clone(&names.written_here),
            absorbed: Arc::clone(&names.absorbed),
            outdated: Arc::clone(&reading.outdated),
            following: FollowingEntries::default(),
        });
        TreeWriting {
            names: Arc::clone(names),
            making: Making {
                fs: Arc::clone(fs),
                names: Arc::clone(names),
                written_here: Arc::clone(&names.written_here),
                directories: Arc::clone(directories),
                contents: Arc::clone(&contents),
            },
            removing: Removing {
                fs: Arc::clone(fs),
                names: Arc::clone(names),
                half_removed: Arc::clone(&xattrs.half_removed),
                directories: Arc::clone(directories),
            },
            renames: Renames {
                fs: Arc::clone(fs),
                names: Arc::clone(names),
                directories: Arc::clone(directories),
                strays: Arc::clone(strays),
                promotion: Arc::clone(promotion),
                into: RenamesInto {
                    fs: Arc::clone(fs),
                    directories: Arc::clone(directories),
                    reading: Arc::clone(reading),
                    absorbed: Arc::clone(&names.absorbed),
                    error_lines: Arc::clone(error_lines),
                },
                of_new: RenamesOfNew {
                    fs: Arc::clone(fs),
                    directories: Arc::clone(directories),
                    error_lines: Arc::clone(error_lines),
                },
            },
            attributes: AttributeChanges {
                fs: Arc::clone(fs),
                attributes: Arc::clone(&error_lines.attributes),
                xattrs: Arc::clone(xattrs),
                directories: Arc::clone(directories),
                contents: Arc::clone(&contents),
                requests: Requests {
                    fs: Arc::clone(fs),
                    written_here: Arc::clone(&names.written_here),
                    directories: Arc::clone(directories),
                },
            },
            closing: FileClosing {
                fs: Arc::clone(fs),
                directories: Arc::clone(directories),
                strays: Arc::clone(strays),
                promotion: Arc::clone(promotion),
                error_lines: Arc::clone(error_lines),
            },
            contents,
        }
    }

    /// Renames, and makes a device 0:0 under the old name, which overlayfs takes for one. Not at
    /// once: after a crash between the two what lies below has its name again.
    pub fn rename_and_hide(
        &self,
        from: (InodeId, &OsStr),
        to: (InodeId, &OsStr),
        how: Renaming,
        caller: Caller,
    ) -> Result<()> {
        self.renames.rename(from, to, how)?;
        let whiteout = NewEntry::Special {
            kind: SpecialKind::CharDevice,
            mode: libc::S_IFCHR,
            device: 0,
        };
        match self.making.make(from.0, from.1, whiteout, caller) {
            Ok(made) => {
                self.names.forget(made.inode, 1);
                Ok(())
            }
            // The old name would hide nothing: nothing has happened.
            Err(e) => self
                .renames
                .rename(to, from, Renaming::NoReplace)
                .and(Err(e)),
        }
    }
}
