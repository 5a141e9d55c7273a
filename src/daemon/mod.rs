//! Being a daemon: going to the background, signals, the log, the mount table, other processes, the
//! lock of the one that writes.
//!
//! Used by the commands that mount and unmount.

pub(crate) mod arguments;
pub mod background;
pub mod connection;
pub mod guardian;
pub mod handed_over;
pub mod log;
pub mod mount_table;
pub mod privileges;
pub mod processes;
pub mod readahead;
pub mod signals;
pub mod source_lock;
pub mod systemd;
pub mod umount_table;
pub mod write_out;
