//! Scratch mode: a directory whose files are stored compressed, without the programs that use it
//! knowing.
//!
//! It lies between `tree` and the local source, and has the same traits: [`store`] shows stored
//! files as what they hold, [`disk`] changes them. Each regular file is one Bloscpack file, which
//! keeps its inode for life; so hard links, open unlinked files, owners and quotas are the source's
//! own.
//!
//! Each line uses the lines below it, and none above; nor is there a circle within a line:
//!
//! - [`convert`] makes a store of a directory, and a directory of a store; [`mount`] serves one.
//! - [`disk`] and [`store`], what `tree` has; between them [`settle`] stores everything,
//!   [`recovery`] knows what a crash leaves ([`each_file`]), [`renaming`] replaces one kind of
//!   entry by another, [`store_mark`] says how the mount before ended. [`raw`]: what lay there
//!   before.
//! - [`handles`] of open files; [`copy`] takes whole chunks from another file, [`holes`] finds
//!   zeros, [`writing`] changes the content. [`due`] stores what nobody waits for.
//! - [`files`]: those that are open or not stored; who holds too much flushes.
//! - [`flush`] has what changed taken and encoded ([`snapshot`]), laid out ([`merge`]) and written:
//!   behind what is there ([`append`]), at once, or by a [`redo`]; [`logging`] is what an fsync
//!   costs, [`at_rest`] the end of a file without a log. [`reserve`]: space on the disk meanwhile.
//! - [`file`], one for all its handles, over what all of them share ([`shared`], [`times`]). It is
//!   opened with its log: by [`replay`], or, where it may not be changed, by [`relaid`].
//! - Without files or locks: [`content`] holds chunks that have changed ([`bytes`]), [`logged`]
//!   makes those that a log ([`overlay`]) changes, [`merge`] says where chunks go, in [`pieces`];
//!   [`encode`]; [`tail`] and [`mark`], what lies behind chunks; [`base`], the chunks as they are
//!   stored, by their [`places`]. [`find`] and [`names`]: how names are stored.
//!
//! Assumes that no other daemon writes to the store (`cli::writing`). Used by `cli::mount`.

mod append;
mod at_rest;
mod base;
mod bytes;
mod content;
mod convert;
mod copy;
mod disk;
mod due;
mod each_file;
mod encode;
mod file;
mod files;
mod find;
mod flush;
#[doc(hidden)]
pub mod fuzzed;
mod handles;
mod holes;
mod logged;
mod logging;
mod mark;
mod merge;
mod mount;
mod names;
mod overlay;
mod pieces;
mod places;
mod raw;
mod recovery;
mod redo;
mod relaid;
mod renaming;
mod replay;
mod reserve;
mod settle;
mod shared;
mod snapshot;
mod store;
mod store_mark;
mod tail;
#[cfg(test)]
mod tests;
mod times;
mod writing;

#[doc(hidden)]
pub use convert::fuzzed::conversion as convert_log;
pub use convert::{ConvertDirection, ConvertWatch, Converted, convert, is_being_converted};
pub use encode::EncodeOptions;
pub use mount::{STAYS_LOGGED, ScratchMount, UNMERGED, merge_log};
pub use recovery::left_log;
pub use relaid::read_through_log;
