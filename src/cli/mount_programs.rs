//! How mount(8) and umount(8) call this program: by links to it, `mount.fuse.arrayfs` (and
//! `mount.arrayfs`, for `mount -t arrayfs`) and `umount.fuse.arrayfs`: to the kernel the type is
//! always `fuse.arrayfs`.
//!
//! Used by [`super::run`], and by [`super::definition`] for their pages.

use std::path::PathBuf;

use clap::Parser;

use super::args::{EXIT_STATUS, MountArgs, split};

const MOUNT_HELPER: &str =
    "Mounts compressed array containers for mount(8) and /etc/fstab, type fuse.arrayfs or arrayfs";

const UMOUNT_HELPER: &str = "Unmounts for umount(8), type fuse.arrayfs: returns when all is committed and the daemon has ended";

const UMOUNTED: &str = "Other than 'arrayfs umount' it unmounts also what would be lost with the daemon, because it is \
     in no log, and names it.\n\n\
     Exit status: 0 unmounted, also if something stays staged, which is named; 1 failed; 2 wrong usage";

/// How mount(8) calls `mount.fuse.arrayfs`, a link to this program.
#[derive(Parser)]
#[command(name = "mount.fuse.arrayfs", version, about = MOUNT_HELPER, long_about = None,
    after_help = EXIT_STATUS)]
pub(super) struct MountHelper {
    /// Directory or container file
    source: PathBuf,
    /// An existing directory
    mountpoint: PathBuf,
    /// Mount options, separated by commas: those of 'arrayfs mount'
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    /// Ignored: options that are not known are refused all the same
    #[arg(short)]
    sloppy: bool,
    /// Check everything but do not mount
    #[arg(short)]
    fake: bool,
    /// Ignored: there is no /etc/mtab to write
    #[arg(short)]
    no_mtab: bool,
    /// Ignored
    #[arg(short)]
    verbose: bool,
    /// Ignored: the type is known
    #[arg(short, value_name = "TYPE")]
    type_: Option<String>,
    /// Ignored: mount(8) has entered the name space
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<String>,
}

impl From<MountHelper> for MountArgs {
    fn from(helper: MountHelper) -> Self {
        let mut options: Vec<String> = helper.options.iter().flat_map(|o| split(o)).collect();
        // mount(8) hands on 'rw' whenever it is not told 'ro', so it says nothing here.
        options.retain(|option| option != "rw");
        if helper.fake {
            options.push(super::options::FAKE.to_owned());
        }
        MountArgs::at(&helper.source, &helper.mountpoint, options)
    }
}

/// How umount(8) calls `umount.fuse.arrayfs`.
#[derive(Parser)]
#[command(name = "umount.fuse.arrayfs", version, about = UMOUNT_HELPER, long_about = None,
    after_help = UMOUNTED)]
pub(super) struct UmountHelper {
    /// Where it is mounted
    pub(super) mountpoint: PathBuf,
    /// Detach the mount, also if it is in use; the daemon ends when it is not any more
    #[arg(short)]
    pub(super) lazy: bool,
    /// Ignored: a daemon that does not answer is told of
    #[arg(short)]
    force: bool,
    /// Ignored: there is no /etc/mtab to write
    #[arg(short)]
    no_mtab: bool,
    /// Ignored: it is never mounted anew
    #[arg(short)]
    read_only: bool,
    /// Ignored
    #[arg(short)]
    verbose: bool,
    /// Ignored: the type is known
    #[arg(short, value_name = "TYPE")]
    type_: Option<String>,
    /// Ignored: umount(8) has entered the name space
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<String>,
}
