//! Capabilities that are asked of the kernel, each with its reason.
//!
//! An allow-list: fuser 0.18 accepts capabilities that it then mishandles, so nothing else is passed on.

use fuser::{InitFlags, KernelConfig};

const WANTED: &[InitFlags] = &[
    // Look-ups and listings in one directory run side by side.
    InitFlags::FUSE_PARALLEL_DIROPS,
    // A listing brings the attributes with it: recognising a container needs them anyway.
    InitFlags::FUSE_DO_READDIRPLUS,
    // Several requests of one O_DIRECT reader are in flight at once.
    InitFlags::FUSE_ASYNC_DIO,
    // Ordinary files that change underneath: the kernel drops its pages when it sees another mtime.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    // Link targets never change without a new inode.
    InitFlags::FUSE_CACHE_SYMLINKS,
    // `-o direct_io` keeps mmap working.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // Ordinary files are read by the kernel itself.
    InitFlags::FUSE_PASSTHROUGH,
];

/// Requests that the kernel may have outstanding: read-ahead of several readers.
const BACKGROUND: u16 = 64;

/// Asks for what the kernel offers of the list; says whether it can pass files through.
pub(super) fn configure(config: &mut KernelConfig, passthrough: bool) -> bool {
    let offered = config.capabilities();
    for &flag in WANTED {
        if flag == InitFlags::FUSE_PASSTHROUGH && !passthrough {
            continue;
        }
        if offered.contains(flag) {
            // Refused only when not offered.
            let _ = config.add_capabilities(flag);
        }
    }
    let _ = config.set_max_background(BACKGROUND);
    let _ = config
        .set_max_readahead(u32::MAX)
        .map_err(|most| config.set_max_readahead(most));
    passthrough
        && offered.contains(InitFlags::FUSE_PASSTHROUGH)
        && config.set_max_stack_depth(1).is_ok()
}
