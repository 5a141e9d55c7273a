//! Capabilities that are asked of the kernel, each with its reason.
//!
//! An allow-list: fuser 0.18 accepts capabilities that it then mishandles, so nothing else is
//! passed on.

use fuser::{InitFlags, KernelConfig};

const WANTED: &[InitFlags] = &[
    // Look-ups and listings in one directory run side by side.
    InitFlags::FUSE_PARALLEL_DIROPS,
    // A listing brings the attributes with it: recognising a container needs them anyway.
    InitFlags::FUSE_DO_READDIRPLUS,
    // Several requests of one O_DIRECT reader are in flight at once.
    InitFlags::FUSE_ASYNC_DIO,
    // The kernel keeps the pages of a file until we invalidate them: each write of ours changes
    // size and time, and would cost all of them.
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    // We take away set-user-id bits, so the kernel need not ask for capabilities at every write.
    // The source's file system does it in truth, because bytes are written as the caller.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // Link targets never change without a new inode.
    InitFlags::FUSE_CACHE_SYMLINKS,
    // `-o direct_io` keeps mmap working.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // Ordinary files are read by the kernel itself.
    InitFlags::FUSE_PASSTHROUGH,
    // The umask does not count in a directory with a default access control list; the source's file
    // system knows.
    InitFlags::FUSE_DONT_MASK,
    // The kernel looks at access control lists where it checks permissions. Not the longer setxattr
    // that belongs to it (FUSE_SETXATTR_EXT): fuser 0.18 takes it apart wrongly.
    InitFlags::FUSE_POSIX_ACL,
];

/// Requests that the kernel may have outstanding: read-ahead of several readers.
const BACKGROUND: u16 = 64;

/// Bytes that are read by a request. Smaller than what the kernel reads ahead, so that two threads
/// work on that at once; of 128 KiB to 1 MiB the fastest, measured.
pub(super) const READ: u32 = 256 << 10;

/// Bytes that are written by a request. There is no working ahead as for reads, so each one costs
/// its way there and back.
pub(super) const WRITE: u32 = 1 << 20;

/// What the kernel agreed to.
pub(super) struct Granted {
    /// It reads ordinary files by itself.
    pub(super) passthrough: bool,
    /// It lists directories without opening them.
    pub(super) handle_free_listing: bool,
    /// It looks at access control lists.
    pub(super) lists: bool,
}

/// Asks for what the kernel offers of the list.
pub(super) fn configure(config: &mut KernelConfig, passthrough: bool, lists: bool) -> Granted {
    let offered = config.capabilities();
    for &flag in WANTED {
        let wanted = match flag {
            InitFlags::FUSE_PASSTHROUGH => passthrough,
            InitFlags::FUSE_POSIX_ACL => lists,
            _ => true,
        };
        if wanted && offered.contains(flag) {
            // Refused only when not offered.
            let _ = config.add_capabilities(flag);
        }
    }
    let _ = config.set_max_background(BACKGROUND);
    // fuser reports the larger of the two as the most of any request; the mount's option `max_read`
    // keeps reads small.
    let _ = config.set_max_write(WRITE);
    // The answer to a refusal is the most that is possible.
    if let Err(most) = config.set_max_readahead(READ) {
        let _ = config.set_max_readahead(most);
    }
    Granted {
        passthrough: passthrough
            && offered.contains(InitFlags::FUSE_PASSTHROUGH)
            && config.set_max_stack_depth(1).is_ok(),
        handle_free_listing: offered.contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT),
        lists: lists && offered.contains(InitFlags::FUSE_POSIX_ACL),
    }
}
