//! Whether a mount is writable: what the options ask for, what the source permits, and whether
//! another daemon writes to it.

use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags, accessat, statvfs};

use super::failure::Failure;
use super::options::Writing;
use super::output;
use crate::daemon::privileges;
use crate::daemon::source_lock::{self, Refusal, SourceLock};
use crate::error::plain;

/// The right to write to a source, or `None` for a read-only mount. Asked for by the process that
/// will serve, while it has one thread and the process that started it still reads standard error.
pub(super) fn claim(source: &Path, wanted: Writing) -> Result<Option<SourceLock>, Failure> {
    if wanted == Writing::Never {
        return Ok(None);
    }
    let why = match lock(source) {
        Ok(lock) => {
            prepare();
            return Ok(Some(lock));
        }
        Err(why) => why,
    };
    let source = source.display();
    if wanted == Writing::Insisted {
        return Err(Failure::new(format!(
            "{source} cannot be mounted writable: {why} (without 'rw' it is mounted read-only)"
        )));
    }
    log::warn!("{source} is mounted read-only: {why}");
    Ok(None)
}

/// The right to write to a directory, or why not, in words.
pub(super) fn lock(source: &Path) -> Result<SourceLock, String> {
    check_writable(source)?;
    source_lock::acquire(source, &output::path_text(source)).map_err(|refusal| match refusal {
        Refusal::Held(rival) => rival.to_string(),
        Refusal::Failed(e) => format!("it cannot be locked: {}", plain(&e)),
    })
}

fn check_writable(source: &Path) -> Result<(), String> {
    let failed = |e| format!("it cannot be looked at: {}", plain(&io::Error::from(e)));
    let file_system = statvfs(source).map_err(failed)?;
    if file_system.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err("its file system is mounted read-only".to_owned());
    }
    match accessat(CWD, source, Access::WRITE_OK, AtFlags::EACCESS) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::ACCESS) => {
            let user = rustix::process::geteuid();
            Err(format!("user {user} may not write there"))
        }
        Err(e) => Err(failed(e)),
    }
}

/// What the threads of a daemon that writes take over from this one.
fn prepare() {
    privileges::clear_umask();
    privileges::survive_length_limit();
    if let Err(e) = privileges::leave_groups() {
        let why = plain(&e.into());
        log::warn!("the groups of who mounts cannot be left: {why}");
    }
    if let Err(e) = privileges::respect_quotas() {
        let why = plain(&e.into());
        log::warn!("the right to exceed quotas cannot be given up: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_mount_asks_nobody() {
        let claimed = claim(Path::new("/no/such"), Writing::Never).unwrap();
        assert!(claimed.is_none());
    }

    #[test]
    fn who_insists_learns_why_not() {
        let source = Path::new("/proc/self/no-such");
        let said = claim(source, Writing::Insisted).unwrap_err().message;
        assert!(said.starts_with("/proc/self/no-such cannot be mounted writable: "));
        assert!(said.contains("No such file"), "{said}");
        assert!(claim(source, Writing::IfPossible).unwrap().is_none());
    }
}
