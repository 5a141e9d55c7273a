//! Which mount a path means that is given to a command about mounts: one that is mounted there, one
//! in which it lies, or those that show it.
//!
//! Nothing in a mount is looked at, for its daemon may have died, or be stopped: below a mountpoint
//! paths are taken as they are spelled. Used by `status`, `umount` and `top`.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::failure::Failure;
use super::given_path::real;
use super::status;
use crate::container::names::path_of;
use crate::daemon::mount_table::{self, Mounted};
use crate::daemon::write_out;
use crate::error::plain;

/// What a path is to the mounts.
pub(super) enum WhichMount {
    /// It is where this one is mounted.
    At(Mounted),
    /// It lies in it.
    In(Mounted),
    /// They show it: it is their source, or lies in that. There is at least one.
    Shown(Vec<Mounted>),
}

/// How long the system may take to say what file system a path lies in.
const PATIENCE: Duration = Duration::from_secs(2);

/// Finds the mount that is meant, if there is one.
pub(super) fn which_mount(path: &Path) -> Result<Option<WhichMount>, Failure> {
    let failed = |e: io::Error| Failure::new(format!("{}: {}", path.display(), plain(&e)));
    let mounts = mount_table::mounts().map_err(failed)?;
    let resolved = resolved(path, &mounts).map_err(failed)?;
    // Of those at one place the last hides the others.
    let covers = |mounted: &&Mounted| resolved.starts_with(&mounted.mountpoint);
    let depth = |mounted: &&Mounted| mounted.mountpoint.components().count();
    if let Some(mounted) = mounts.iter().filter(covers).max_by_key(depth) {
        return Ok(match resolved == mounted.mountpoint {
            true => Some(WhichMount::At(mounted.clone())),
            false if lies_elsewhere(&resolved, mounted) => None,
            false => Some(WhichMount::In(mounted.clone())),
        });
    }
    let shows = |mounted: &Mounted| resolved.starts_with(path_of(&mounted.source));
    let shown: Vec<Mounted> = mounts.into_iter().filter(shows).filter(is_shown).collect();
    Ok((!shown.is_empty()).then_some(WhichMount::Shown(shown)))
}

/// Whether the source of a mount is what lies at its path by now, as far as the daemon says.
fn is_shown(mounted: &Mounted) -> bool {
    let state = status::of(&mounted.mountpoint);
    state.is_err() || state.is_ok_and(|state| status::is_source(&path_of(&mounted.source), &state))
}

/// Whether something else is mounted in the mount, in which the path lies. A daemon that does not
/// answer leaves that open.
fn lies_elsewhere(path: &Path, mounted: &Mounted) -> bool {
    let path = path.to_owned();
    let found = write_out::aside(move || mount_table::device_at(&path));
    let found = found
        .ok()
        .and_then(|found| found.recv_timeout(PATIENCE).ok());
    matches!(found, Some(Ok(device)) if device != mounted.device)
}

/// The path without links and from the root on; of what lies in a mount, or is not there, as it is
/// spelled.
fn resolved(path: &Path, mounts: &[Mounted]) -> io::Result<PathBuf> {
    let mut at = PathBuf::from("/");
    for component in std::path::absolute(path)?.components() {
        match component {
            Component::Normal(name) => {
                let is_in_mount = mounts.iter().any(|m| at.starts_with(&m.mountpoint));
                at.push(name);
                let is_mountpoint = mounts.iter().any(|m| at == m.mountpoint);
                if !is_in_mount
                    && !is_mountpoint
                    && let Ok(found) = real(&at)
                {
                    at = found;
                }
            }
            Component::ParentDir => {
                at.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(at)
}

/// A mountpoint as the user's path spells it, if it does.
pub(super) fn spelled(mounted: &Mounted, given: &Path) -> PathBuf {
    let is_it = |above: &&Path| {
        let above = or_here(above);
        resolved(above, std::slice::from_ref(mounted)).is_ok_and(|path| path == mounted.mountpoint)
    };
    let found = given.ancestors().find(is_it);
    found.map_or_else(
        || mounted.mountpoint.clone(),
        |found| or_here(found).to_owned(),
    )
}

fn or_here(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    }
}

/// That there is no such mount.
pub(super) fn no_mount(path: &Path) -> Failure {
    Failure::new(format!(
        "{} is not an arrayfs mount; 'arrayfs status' lists those there are",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(mountpoint: &Path) -> Mounted {
        Mounted {
            mountpoint: mountpoint.to_owned(),
            root: "/".into(),
            source: "/none".into(),
            device: mount_table::device_at(Path::new("/proc")).unwrap(),
            writable: true,
        }
    }

    #[test]
    fn links_lead_to_a_mount_and_none_is_followed_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = real(directory.path()).unwrap();
        let mountpoint = root.join("mnt");
        std::fs::create_dir_all(mountpoint.join("x")).unwrap();
        std::os::unix::fs::symlink(&mountpoint, root.join("link")).unwrap();
        std::os::unix::fs::symlink("/", mountpoint.join("away")).unwrap();
        let mounts = [mounted(&mountpoint)];
        let found = |path: &str| resolved(&root.join(path), &mounts).unwrap();
        assert_eq!(found("link/x/none"), mountpoint.join("x/none"));
        assert_eq!(found("mnt/away/x"), mountpoint.join("away/x"));
        assert_eq!(found("mnt/x/../../mnt"), mountpoint);
        assert_eq!(found("none/x"), root.join("none/x"));
        let given = root.join("link/x/y");
        assert_eq!(spelled(&mounts[0], &given), root.join("link"));
        assert_eq!(spelled(&mounts[0], Path::new("x")), mountpoint);
    }
}
