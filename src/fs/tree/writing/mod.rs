//! The tree, changed: ordinary files and directories of the source, and arrays of containers.
//!
//! Every operation finds the place where an inode is now, has the disk change it, and lets the
//! table of inodes follow. What is written to arrays is staged, and committed later; a container is
//! renamed or removed as the file or directory that it is. Assumes that the kernel has let the
//! caller in. Used by `kernel::adapter`.

pub(super) mod attributes;
pub(super) mod closing;
pub(super) mod content;
mod directories;
pub(super) mod making;
mod promote;
pub(super) mod removal;
pub(super) mod rename;
mod rename_into;
mod rename_new;
mod replace;
mod requests;
mod retyped;
mod strays;
mod targets;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use super::following::FollowingEntries;
use super::lookup::NameLookup;
use super::named::ErrorLines;
use super::reading::FileReading;
use super::xattr::Xattrs;
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

/// The parts, each with its job, as the tree gets them.
pub(super) struct TreeWriting {
    pub(super) contents: Arc<FileContents>,
    pub(super) making: Making,
    pub(super) removing: Removing,
    pub(super) renames: Renames,
    pub(super) changes: AttributeChanges,
    pub(super) closing: FileClosing,
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
            renames: renames(
                names,
                reading,
                error_lines,
                (directories, strays, promotion),
            ),
            changes: AttributeChanges {
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
}

fn renames(
    names: &Arc<NameLookup>,
    reading: &Arc<FileReading>,
    error_lines: &Arc<ErrorLines>,
    (directories, strays, promotion): (&Arc<SourceDirectories>, &Arc<Strays>, &Arc<Promotion>),
) -> Renames {
    let fs = &names.fs;
    Renames {
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
    }
}
