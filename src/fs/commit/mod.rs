//! How staged changes become the container: a format's recipe, carried out so that the disk holds
//! the old container or the new one.
//!
//! - [`phases`]: a commit as a value that is prepared, sealed and published, to one of two targets:
//! - [`replaced`]: a new file beside the old one, synced, which takes its name; of a directory, one
//!   for each file that changes ([`beside_old`]), and all of them take their names or none. Where
//!   the file system lets old and new share bytes, unchanged bytes are shared and cost nothing.
//!   [`new_files`] writes them, and those of containers that are new. One may have been begun while
//!   its arrays were written ([`taken_next`]).
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
mod base;
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
mod input;
mod metered;
pub mod new_container;
mod new_files;
mod phases;
mod preparing;
pub mod program_lock;
pub mod recovery;
mod recovery_state;
mod redo;
mod replaced;
mod rollback;
mod sampled;
mod sealed;
mod spot;
mod taken_next;
pub mod through_log;
pub mod tidy;

pub use base::base_of;
pub use beside_old::is_given;
pub use future_file::FutureFile;
pub use input::{Commit, CommitLimits, Preference};
pub use phases::{FileInUse, NotNow, Prepared, Sealed};
pub use spot::{SeenFile, Spot};
