//! Being a daemon: going to the background, signals, the log, the mount table, other processes.
//!
//! Used by the commands that mount and unmount.

pub mod background;
pub mod log;
pub mod mount_table;
pub mod processes;
pub mod readahead;
pub mod signals;
mod syslog;
