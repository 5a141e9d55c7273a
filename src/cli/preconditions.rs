//! What must hold before mounting, each named with what to do when it does not.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::failure::Failure;
use super::given_path::real;
use super::in_mount::InMount;
use super::options::{MountOptions, Writing};
use super::{output, remote};
use crate::daemon::handed_over::{self, HandedDescriptor};
use crate::daemon::mount_table::{self, Device};
use crate::error::plain;
use crate::kernel::session;

/// A daemon mounts in less.
const MOUNTING: Duration = Duration::from_secs(2);

/// A source and a mountpoint that can be mounted, as absolute paths.
#[derive(Debug)]
pub(super) struct MountPaths {
    pub(super) source: PathBuf,
    /// Of a connection that was handed over: where it is mounted, or else how it was named.
    pub(super) mountpoint: PathBuf,
    /// What somebody else has mounted.
    pub(super) connection: Option<HandedOver>,
}

/// A connection to the kernel that somebody else has mounted.
#[derive(Debug)]
pub(super) struct HandedOver {
    pub(super) descriptor: OwnedFd,
    /// None, if the system does not show it.
    pub(super) device: Option<Device>,
}

pub(super) fn check(
    source: &Path,
    mountpoint: &Path,
    options: &MountOptions,
) -> Result<MountPaths, Failure> {
    let source = check_source(source, options)?;
    if let Some(connection) = handed_over(mountpoint)? {
        return served_elsewhere(source, mountpoint, connection);
    }
    let places = MountPaths {
        source,
        mountpoint: check_mountpoint(mountpoint)?,
        connection: None,
    };
    check_not_nested(&places)?;
    check_fuse(options)?;
    Ok(places)
}

/// The connection that is given in the place of a mountpoint, if one is.
fn handed_over(mountpoint: &Path) -> Result<Option<OwnedFd>, Failure> {
    let Some(number) = handed_over::number_in(mountpoint) else {
        return Ok(None);
    };
    let shown = mountpoint.display();
    match handed_over::look_at(number) {
        Ok(HandedDescriptor::Connection(connection)) => Ok(Some(connection)),
        Ok(HandedDescriptor::Other) if mountpoint.is_dir() => Ok(None),
        Ok(HandedDescriptor::Other) => Err(Failure::new(format!(
            "{shown} is no descriptor of /dev/fuse; who mounts opens that, mounts with it, and hands it over"
        ))),
        Ok(HandedDescriptor::Closed) => Err(Failure::new(format!(
            "{shown} is not open; who starts arrayfs has to hand the descriptor over (without close-on-exec)"
        ))),
        Err(e) => Err(Failure::new(format!(
            "{shown} cannot be used: {}",
            plain(&e)
        ))),
    }
}

/// What is known of a mount that somebody else has made.
fn served_elsewhere(
    source: PathBuf,
    given: &Path,
    descriptor: OwnedFd,
) -> Result<MountPaths, Failure> {
    let device = handed_over::device_of(&descriptor);
    let at = device.and_then(handed_over::served_at);
    let places = MountPaths {
        source,
        mountpoint: at.as_ref().map_or(given, |at| &at.mountpoint).to_owned(),
        connection: Some(HandedOver { descriptor, device }),
    };
    if let Some(at) = at {
        check_not_nested(&places)?;
        let shown = at.mountpoint.display();
        if !at.checks_permissions {
            output::complain(format!(
                "{shown}: mounted without default_permissions: who gets in may do what the daemon may"
            ));
        }
        if !at.is_ours {
            output::complain(format!(
                "{shown}: not mounted as fuse.arrayfs: 'arrayfs status' and others do not find it"
            ));
        }
    }
    Ok(places)
}

fn check_source(source: &Path, options: &MountOptions) -> Result<PathBuf, Failure> {
    if let Some(url) = remote::url(source) {
        url?;
        return check_remote(options).map(|()| source.to_owned());
    }
    let canonical = existing_source(source)?;
    if options.flags.scratch && !canonical.is_dir() {
        return Err(Failure::new(format!(
            "the source {} is not a directory: a scratch mount stores its files in one",
            source.display()
        )));
    }
    match InMount::among_containers(&canonical)? {
        None => Ok(canonical),
        Some(place) => {
            let (at, of) = (place.mounted.mountpoint.display(), &place.mounted.source);
            Err(Failure::new(format!(
                "the source {} lies in the arrayfs mount at {at}, whose containers are directories already; \
                 mount from its source: {of}",
                source.display()
            )))
        }
    }
}

fn check_remote(options: &MountOptions) -> Result<(), Failure> {
    if options.flags.scratch {
        return Err(Failure::new(
            "a scratch mount stores its files in a directory, and not in a store of objects",
        ));
    }
    match options.flags.writing {
        Writing::Insisted => Err(Failure::new(
            "sources in object stores and on the web are mounted read-only: leave 'rw' out",
        )),
        _ => Ok(()),
    }
}

fn existing_source(source: &Path) -> Result<PathBuf, Failure> {
    real(source).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Failure::new(format!(
            "the source {} does not exist; give a directory, or a container file",
            source.display()
        )),
        _ => Failure::new(format!(
            "the source {} cannot be opened: {e}",
            source.display()
        )),
    })
}

fn check_mountpoint(mountpoint: &Path) -> Result<PathBuf, Failure> {
    let shown = mountpoint.display();
    let meta = std::fs::metadata(mountpoint).map_err(|e| match e.raw_os_error() {
        Some(libc::ENOENT) => Failure::new(format!(
            "the mountpoint {shown} does not exist; make it first: mkdir {shown}"
        )),
        Some(libc::ENOTCONN | libc::ECONNABORTED) => Failure::new(format!(
            "the mountpoint {shown} holds a mount whose daemon has died; \
             clear it first: arrayfs umount {shown}"
        )),
        _ => Failure::new(format!("the mountpoint {shown} cannot be used: {e}")),
    })?;
    if !meta.is_dir() {
        return Err(Failure::new(format!(
            "the mountpoint {shown} is not a directory"
        )));
    }
    let canonical = real(mountpoint)
        .map_err(|e| Failure::new(format!("the mountpoint {shown} cannot be used: {e}")))?;
    refuse_mounted(&canonical)?;
    Ok(canonical)
}

fn refuse_mounted(mountpoint: &Path) -> Result<(), Failure> {
    match mount_table::find(mountpoint) {
        Ok(Some(mounted)) => {
            let shown = mountpoint.display();
            Err(Failure::new(format!(
                "{shown} is mounted already, from {}; unmount it first: arrayfs umount {shown}",
                mounted.source
            )))
        }
        _ => Ok(()),
    }
}

/// Keeps other daemons from mounting there, as long as what is returned is held: of two that were
/// started at once the second finds the mount of the first. None where the directory cannot be
/// opened, or where another program keeps it locked for something else.
pub(super) fn alone_at(mountpoint: &Path) -> Result<Option<File>, Failure> {
    let directory = File::open(mountpoint).ok().filter(is_locked_now);
    refuse_mounted(mountpoint)?;
    Ok(directory)
}

fn is_locked_now(directory: &File) -> bool {
    let until = Instant::now() + MOUNTING;
    loop {
        match flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(MOUNTING / 100);
            }
            locked => return locked.is_ok(),
        }
    }
}

/// A mount inside its own source would show itself in itself without end. The other way round, a
/// source below its mountpoint, is hidden from others but not from the daemon, which holds it open.
fn check_not_nested(places: &MountPaths) -> Result<(), Failure> {
    let MountPaths {
        source, mountpoint, ..
    } = places;
    if source == mountpoint {
        return Err(Failure::new(format!(
            "{} is source and mountpoint at once: the mount would hide the containers from \
             everybody else; choose another mountpoint",
            source.display()
        )));
    }
    if mountpoint.starts_with(source) {
        return Err(Failure::new(format!(
            "the mountpoint {} lies inside the source {}: the mount would contain itself; \
             choose a mountpoint outside of it",
            mountpoint.display(),
            source.display()
        )));
    }
    Ok(())
}

fn check_fuse(options: &MountOptions) -> Result<(), Failure> {
    let device = Path::new("/dev/fuse");
    match std::fs::metadata(device) {
        Ok(meta) if meta.file_type().is_char_device() => {}
        _ => {
            return Err(Failure::new(
                "/dev/fuse is missing: load the module (modprobe fuse), or in a container pass the \
                 device in (docker run --device /dev/fuse --cap-add SYS_ADMIN); \
                 'arrayfs ls' and 'arrayfs cat' work without it",
            ));
        }
    }
    if let Err(e) = File::options().read(true).write(true).open(device) {
        return Err(Failure::new(format!(
            "/dev/fuse cannot be opened: {e}; every user needs it to mount (as root: chmod 666 /dev/fuse)"
        )));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    check_user_mount(options)
}

/// Users who are not root mount through the set-user-id helper of the package fuse3.
fn check_user_mount(options: &MountOptions) -> Result<(), Failure> {
    let helper = session::fusermount().map_err(|_| {
        Failure::new(
            "fusermount3 is missing, which mounts for users other than root; \
             install it: apt-get install fuse3",
        )
    })?;
    let set_user_id = std::fs::metadata(&helper).is_ok_and(|meta| meta.mode() & 0o4000 != 0);
    // The log has not been started yet.
    if !set_user_id {
        let helper = helper.display();
        output::complain(format!(
            "{helper} is not set-user-id root; mounting may fail"
        ));
    }
    for (name, given) in [("suid", options.flags.suid), ("dev", options.flags.dev)] {
        if given {
            output::complain(format!(
                "option '{name}' has no effect: for users other than root, {} mounts with no{name}",
                helper.display()
            ));
        }
    }
    let permitted = std::fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|conf| conf.lines().any(|line| line.trim() == "user_allow_other"));
    let for_others = [
        ("allow_other", options.flags.allow_other),
        ("allow_root", options.flags.allow_root),
    ];
    for (name, given) in for_others {
        if given && !permitted {
            return Err(Failure::new(format!(
                "{name} is for root only, unless /etc/fuse.conf says user_allow_other"
            )));
        }
    }
    if options.flags.nosymfollow {
        return Err(Failure::new(
            "nosymfollow is for root only: fusermount3 cannot mount so",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(source: &str, mountpoint: &str) -> MountPaths {
        MountPaths {
            source: source.into(),
            mountpoint: mountpoint.into(),
            connection: None,
        }
    }

    #[test]
    fn nesting_is_refused_one_way() {
        assert!(check_not_nested(&places("/a", "/b")).is_ok());
        assert!(check_not_nested(&places("/a/b", "/a")).is_ok());
        assert!(check_not_nested(&places("/a", "/ab")).is_ok());
        assert!(
            check_not_nested(&places("/a", "/a"))
                .unwrap_err()
                .message
                .contains("at once")
        );
        assert!(
            check_not_nested(&places("/a", "/a/b"))
                .unwrap_err()
                .message
                .contains("inside")
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let message = |result: Result<PathBuf, Failure>| result.unwrap_err().message;
        assert!(message(existing_source(Path::new("/no/such"))).contains("does not exist"));
        assert!(message(check_mountpoint(Path::new("/no/such"))).contains("mkdir /no/such"));
        assert!(message(check_mountpoint(Path::new("/dev/null"))).contains("not a directory"));
    }
}
