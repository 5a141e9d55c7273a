//! Where a path lies that is given to a command: in a mount, in the source of one, or elsewhere.
//!
//! In a mount it means the container or array that lies there. What only reads looks at it in the
//! mount's source, by the same code as without a mount; what is staged is read through the log,
//! into which the daemon is asked to write it first. What changes something asks the daemon, by the
//! path in the mount. In a scratch mount nothing is shown as a container: a path in it means the
//! file that lies there, as on any disk. Used by the commands, through [`super::container`].

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::given_path::{existing, real};
use super::status;
use super::status::is_source;
use crate::container::names::path_of;
use crate::daemon::mount_table::{self, Mounted};
use crate::error::plain;
use crate::source::remote::RemoteSettings;
use crate::tree::mount_status::MountStatus;
use crate::tree::xattr::REFRESH;

/// A place in a mount.
pub(super) struct InMount {
    pub(super) mounted: Mounted,
    /// From the root of what is served.
    inside: PathBuf,
    /// As it was named: a path in the mount, or in its source.
    pub(super) given: PathBuf,
}

/// A container with something staged, as its daemon reports it.
pub(super) struct StagedThere {
    /// Where it lies, from the root of what is served.
    pub(super) inside: PathBuf,
    pub(super) bytes: u64,
    /// Why it is not committed, if that was tried.
    pub(super) why: Option<String>,
    /// It has been made, and is not packed yet.
    pub(super) new: bool,
}

impl InMount {
    /// The place in a mount that a path leads to, if it does; the path has no links in it.
    pub(super) fn at(path: &Path) -> Result<Option<InMount>, Failure> {
        let failed = |e: io::Error| Failure::new(format!("{}: {e}", path.display()));
        let Some(mounted) = mount_table::covering(path).map_err(failed)? else {
            return Ok(None);
        };
        let below = path.strip_prefix(&mounted.mountpoint).unwrap_or(path);
        let inside = mounted.part().join(below);
        Ok(Some(InMount {
            mounted,
            inside,
            given: path.to_owned(),
        }))
    }

    /// The place in a mount that a path leads to, if containers are shown there.
    pub(super) fn among_containers(path: &Path) -> Result<Option<InMount>, Failure> {
        Ok(InMount::at(path)?.filter(|place| !place.is_in_scratch()))
    }

    /// The place at which a daemon writes what a path leads to: in a mount, or in the source of a
    /// writable one.
    pub(super) fn written_at(path: &Path) -> Result<Option<InMount>, Failure> {
        let failed = |e: io::Error| Failure::new(format!("{}: {}", path.display(), plain(&e)));
        let (there, rest) = existing(path).map_err(failed)?;
        if let Some(place) = InMount::at(&there)? {
            let inside = joined(place.inside, &rest);
            return Ok(Some(InMount {
                inside,
                given: path.to_owned(),
                ..place
            }));
        }
        let mounts = mount_table::mounts().map_err(failed)?;
        for mounted in mounts.into_iter().filter(|mounted| mounted.writable) {
            let source = path_of(&mounted.source);
            let Ok(below) = there.strip_prefix(&source) else {
                continue;
            };
            let status = status::of(&mounted.mountpoint);
            if status.is_ok_and(|status| is_source(&source, &status)) {
                let inside = joined(below.to_owned(), &rest);
                let given = path.to_owned();
                return Ok(Some(InMount {
                    mounted,
                    inside,
                    given,
                }));
            }
        }
        Ok(None)
    }

    /// Whether it was named by its path in a scratch mount.
    pub(super) fn is_in_scratch(&self) -> bool {
        let given = existing(&self.given).map(|(there, _)| there);
        given.is_ok_and(|given| given.starts_with(&self.mounted.mountpoint))
            && status::is_of_scratch(&self.mounted.mountpoint)
    }

    fn status(&self) -> Result<MountStatus, Failure> {
        let failed = |e: io::Error| {
            let at = self.mounted.mountpoint.display();
            Failure::new(format!("{at}: {}", status::describe(&e)))
        };
        status::of(&self.mounted.mountpoint).map_err(failed)
    }

    /// How the mount's source is reached, if it is far away.
    pub(super) fn remote_settings(&self) -> Result<RemoteSettings, Failure> {
        Ok(self.status()?.remote_settings.unwrap_or_default())
    }

    /// The path in the mount's source of what was named. What is staged at or below it is in its
    /// log afterwards.
    pub(super) fn in_source(&self) -> Result<PathBuf, Failure> {
        let status = self.status()?;
        let source = path_of(&self.mounted.source);
        if !is_source(&source, &status) {
            return Err(Failure::new(format!(
                "{}: its source {} cannot be reached from here by that path, and is what is read",
                self.mounted.mountpoint.display(),
                source.display()
            )));
        }
        // Where that fails less is shown: what was synced before.
        for staged in self.staged_of(status).iter().filter(|staged| !staged.new) {
            let directory = File::open(self.mount_path(&staged.inside));
            if let Err(e) = directory.and_then(|directory| directory.sync_all()) {
                log::debug!("{}: {e}", staged.inside.display());
            }
        }
        Ok(joined(source, &self.inside))
    }

    /// What is staged at or below this place, or of the container that it lies in.
    pub(super) fn staged(&self) -> Result<Vec<StagedThere>, Failure> {
        self.status().map(|status| self.staged_of(status))
    }

    fn staged_of(&self, status: MountStatus) -> Vec<StagedThere> {
        let staged = status.staged.into_iter().map(|staged| StagedThere {
            inside: path_of(&staged.inside),
            bytes: staged.bytes.saturating_add(staged.log_bytes),
            why: staged.why,
            new: staged.new,
        });
        let is_here = |staged: &StagedThere| {
            staged.inside.starts_with(&self.inside) || self.inside.starts_with(&staged.inside)
        };
        staged.filter(is_here).collect()
    }

    /// The path in the mount of something that is served.
    pub(super) fn mount_path(&self, inside: &Path) -> PathBuf {
        let below = inside.strip_prefix(self.mounted.part()).unwrap_or(inside);
        joined(self.mounted.mountpoint.clone(), below)
    }

    /// The path in the mount of what lies at a path in the mount, or in its source.
    pub(super) fn in_mount(&self, path: &Path) -> Option<PathBuf> {
        let path = real(path).ok()?;
        if path.starts_with(&self.mounted.mountpoint) {
            return Some(path);
        }
        let below = path.strip_prefix(path_of(&self.mounted.source)).ok()?;
        Some(self.mount_path(below))
    }

    /// What lies at a path in the mount, or in its source, as the user's path spells it.
    pub(super) fn spelled(&self, inside: &Path) -> PathBuf {
        let given = existing(&self.given).map(|(there, _)| there);
        match given.is_ok_and(|given| given.starts_with(&self.mounted.mountpoint)) {
            true => self.mount_path(inside),
            false => joined(path_of(&self.mounted.source), inside),
        }
    }

    /// Asks the daemon for something, and waits until it has been tried.
    pub(super) fn ask(&self, request: &str) -> Result<(), Failure> {
        let path = self.mount_path(&self.inside);
        let flags = rustix::fs::XattrFlags::empty();
        let asked = rustix::fs::setxattr(&path, request, b"", flags).map_err(io::Error::from);
        // Of a mount that nobody writes to, the kernel lets attributes only be asked for.
        let asked = match asked.as_ref().map_err(io::Error::raw_os_error) {
            Err(Some(libc::EROFS)) if request == REFRESH => {
                let nothing: &mut [u8] = &mut [];
                let got = rustix::fs::getxattr(&path, request, nothing);
                got.map(drop).map_err(|_| rustix::io::Errno::ROFS.into())
            }
            _ => asked,
        };
        asked.map_err(|e| {
            let why = match e.raw_os_error() {
                Some(libc::EBUSY) => "somebody has it open for writing, or it is new".to_owned(),
                Some(libc::EACCES | libc::EPERM) => {
                    format!("{}; who may write it may ask for this", plain(&e))
                }
                Some(libc::EROFS) => "the mount is read-only".to_owned(),
                _ => format!("{}; the log of the daemon says more", plain(&e)),
            };
            Failure::new(format!("{}: {why}", path.display()))
        })
    }
}

/// Without a slash behind, where there is nothing to add.
pub(super) fn joined(path: PathBuf, rest: &Path) -> PathBuf {
    match rest.as_os_str().is_empty() {
        true => path,
        false => path.join(rest),
    }
}
