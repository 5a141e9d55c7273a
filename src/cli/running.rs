//! A mount that is served: until it is unmounted, or a signal asks us to.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, select};

use super::failure::{CommandResult, Failure};
use super::size;
use crate::daemon;
use crate::daemon::connection;
use crate::daemon::mount_table::{self, Device};
use crate::daemon::signals::Request;
use crate::daemon::source_lock::SourceLock;
use crate::daemon::systemd::Supervisor;
use crate::daemon::umount_table::UmountLine;
use crate::daemon::write_out::{self, MountRoot};
use crate::disk::HeldBack;
use crate::error::plain;
use crate::kernel::session::{self, Mount};
use crate::scratch::ScratchMount;
use crate::stage::Unlogged;
use crate::tree::{COMES_BACK, InUse, PACKING, TO_THE_END, Tree};

/// After this long a mount that is still in use is detached and the daemon ends.
const PATIENCE: Duration = Duration::from_secs(2);

/// A served mount and the signals that end it.
pub(super) struct Running {
    pub(super) mount: Mount,
    pub(super) tree: Arc<Tree>,
    /// If files are stored compressed.
    pub(super) scratch: Option<ScratchMount>,
    pub(super) signals: Receiver<Request>,
    /// Who has started the daemon.
    pub(super) supervisor: Supervisor,
    pub(super) source: PathBuf,
    pub(super) mountpoint: PathBuf,
    /// Somebody else has mounted it, and unmounts it.
    pub(super) is_handed_over: bool,
    /// Of our mount; `None` if the system does not show it.
    pub(super) device: Option<Device>,
    /// In the table of umount(8).
    pub(super) noted: Option<UmountLine>,
    /// Held by a daemon that writes, to the end of the process.
    pub(super) lock: Option<SourceLock>,
    /// Whether the kernel has ended the connection: no program writes any more.
    pub(super) has_ended: Cell<bool>,
}

/// What became of what the kernel held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrittenOut {
    All,
    /// Or nobody waited for it.
    NotAll,
}

impl WrittenOut {
    fn and(self, other: WrittenOut) -> WrittenOut {
        match self {
            WrittenOut::All => other,
            WrittenOut::NotAll => self,
        }
    }
}

impl Running {
    /// Tells whoever started the daemon. `daemon`: this process, where another one was started.
    pub(super) fn tell_ready(&self, daemon: Option<u32>) {
        let (source, at) = (self.source.display(), self.mountpoint.display());
        self.supervisor
            .ready(&format!("serving {source} at {at}"), daemon);
    }

    /// Tells that the mount ends, which may take long, from the first step on.
    fn tell_ending(&self, how: &str) {
        self.supervisor.stopping(how);
        self.supervisor.takes_long();
    }

    /// Serves until the mount is gone: unmounted from outside, or by us when a signal asks for it.
    pub(super) fn until_ended(self) -> CommandResult {
        log::info!(
            "{} mounted at {}",
            self.source.display(),
            self.mountpoint.display()
        );
        loop {
            select! {
                recv(self.mount.ended()) -> _ => {
                    self.has_ended.set(true);
                    self.note_unmounted();
                    self.tell_ending("committing");
                    end(self.commit());
                }
                recv(self.signals) -> request => match request {
                    Ok(Request::ReopenLog) => daemon::log::reopen(),
                    Ok(Request::End) | Err(_) => return self.unmount(),
                },
            }
        }
    }

    /// Ends the mount, and the process.
    pub(super) fn unmount(&self) -> CommandResult {
        let mountpoint = self.mountpoint.display();
        self.tell_ending("unmounting");
        self.tree.containers().hurry_for(TO_THE_END);
        // The root is closed again: open, it would keep the mount in use.
        let (_, mut written) = self.write_out(None);
        // Looked at as late as possible.
        if self.is_handed_over {
            log::info!("{mountpoint}: ending; who mounted it unmounts it");
            end(written.and(self.commit()));
        } else if !self.is_in_place() {
            log::warn!("{mountpoint}: not our mount any more; ending without unmounting it");
            self.wait_for_end();
        } else if let Err(e) = session::unmount(&self.mountpoint, false) {
            log::warn!("{mountpoint}: {}; detaching the mount", plain(&e));
            written = written.and(self.detach()?);
        } else {
            self.wait_for_end();
        }
        self.note_unmounted();
        end(written.and(self.commit()));
    }

    fn note_unmounted(&self) {
        let mountpoint = self.mountpoint.display();
        log::info!("{mountpoint} unmounted");
        let removed = self.noted.as_ref().map_or(Ok(()), UmountLine::remove);
        if let Err(e) = removed {
            log::info!(
                "{mountpoint}: stays in the table of umount(8): {}",
                plain(&e)
            );
        }
    }

    /// Commits what has been written to arrays, and names what stays staged. As long as programs
    /// may still write, new containers of which something is open are left to the next mount.
    fn commit(&self) -> WrittenOut {
        let in_use = match self.has_ended.get() {
            true => InUse::Ignored,
            false => InUse::Spared,
        };
        self.tree
            .containers()
            .end_packing_by(Instant::now() + PACKING);
        for (path, why) in self.commit_all(in_use) {
            log::warn!("{}: stays staged: {why}", path.display());
        }
        let logged = self.tell_unlogged();
        for path in self.tree.half_removed.arrays() {
            log::warn!("{}: {COMES_BACK}", path.display());
        }
        let scratch = self.scratch.as_ref();
        let settled = scratch.map_or(WrittenOut::All, |scratch| self.settle(scratch));
        logged.and(settled)
    }

    /// Names what goes with this process, for no log has it.
    fn tell_unlogged(&self) -> WrittenOut {
        let unlogged = self.tree.containers().unlogged();
        for (path, Unlogged { why, arrays }) in &unlogged {
            let path = path.display();
            for (array, bytes) in arrays {
                let bytes = size::show(*bytes);
                log::error!(
                    "{path}: {array}: {bytes} that were written are lost, for they are in no log: {why}"
                );
            }
            if arrays.is_empty() {
                log::error!(
                    "{path}: its log may lack what was written since the last fsync: {why}"
                );
            }
        }
        match unlogged.is_empty() {
            true => WrittenOut::All,
            false => WrittenOut::NotAll,
        }
    }

    /// Commits aside: another signal has long commits left to the next mount.
    fn commit_all(&self, in_use: InUse) -> Vec<(PathBuf, String)> {
        let containers = self.tree.containers();
        std::thread::scope(|threads| {
            let (tell, left) = bounded(1);
            threads.spawn(move || tell.send(containers.commit_all(in_use)));
            loop {
                select! {
                    recv(left) -> left => return left.unwrap_or_default(),
                    recv(self.signals) -> request => match request {
                        Ok(Request::ReopenLog) => daemon::log::reopen(),
                        Ok(Request::End) => {
                            containers.hurry_for(TO_THE_END);
                            containers.end_packing_by(Instant::now());
                        }
                        Err(_) => return left.recv().unwrap_or_default(),
                    },
                }
            }
        })
    }

    /// Stores all files of a scratch mount, and says in the store that they are.
    fn settle(&self, scratch: &ScratchMount) -> WrittenOut {
        let HeldBack {
            logged,
            unmerged,
            failed,
            ..
        } = scratch.settle();
        for (path, e) in &unmerged {
            log::warn!("{}: {}: {e}", path.display(), crate::scratch::UNMERGED);
        }
        for path in &logged {
            log::info!("{}: {}", path.display(), crate::scratch::STAYS_LOGGED);
        }
        if failed.is_empty() && self.has_ended.get() {
            let ended = write_out::sync_source(&self.source)
                .map_err(|e| plain(&e))
                .and_then(|()| scratch.end().map_err(|e| e.to_string()));
            if let Err(e) = ended {
                log::warn!("the store is looked over at the next mount: {e}");
            }
        }
        match failed.is_empty() {
            true => WrittenOut::All,
            false => WrittenOut::NotAll,
        }
    }

    /// A mount that is in use: it disappears, and its users have a moment to come to an end.
    fn detach(&self) -> Result<WrittenOut, Failure> {
        // Once it is detached, the only way to what is written until the end.
        let (root, before) = self.write_out(None);
        if let Err(e) = session::unmount(&self.mountpoint, true) {
            let mountpoint = self.mountpoint.display();
            log::error!("{mountpoint} cannot be unmounted: {}", plain(&e));
            return Err(Failure::silent());
        }
        self.wait_for_end();
        let after = root.map_or(WrittenOut::All, |root| self.write_out(Some(root)).1);
        Ok(before.and(after))
    }

    /// A detached mount that is still used ends with the process: its users get an error.
    fn wait_for_end(&self) {
        if !self.has_ended.get() {
            let ended = self.mount.ended().recv_timeout(PATIENCE);
            // One message comes, at the end of serving; a sender that is gone means the same.
            let has_ended = !matches!(ended, Err(RecvTimeoutError::Timeout));
            self.has_ended.set(has_ended);
        }
    }

    /// Has the kernel write out what it holds, through a root that is open or is opened now.
    /// Another signal ends the waiting: what hangs is not to be killed the hard way.
    fn write_out(&self, root: Option<MountRoot>) -> (Option<MountRoot>, WrittenOut) {
        let (Some(_), Some(device)) = (&self.lock, self.device) else {
            return (None, WrittenOut::All);
        };
        // A mount that somebody else has made may be out of sight.
        if self.is_handed_over && !self.is_in_place() {
            return (None, WrittenOut::All);
        }
        let mountpoint = self.mountpoint.clone();
        let work = move || {
            let root = match root {
                Some(root) => Some(root),
                None => MountRoot::open(&mountpoint, device)?,
            };
            let written = root.as_ref().map_or(Ok(()), MountRoot::write_out);
            Ok((root, written))
        };
        let done = match write_out::aside(work) {
            Ok(done) => done,
            Err(e) => return (None, self.not_all(&e)),
        };
        loop {
            select! {
                recv(done) -> outcome => return match outcome {
                    Ok(Ok((root, Ok(())))) => (root, WrittenOut::All),
                    Ok(Ok((root, Err(e)))) => (root, self.not_all(&e)),
                    Ok(Err(e)) => (None, self.not_all(&e)),
                    Err(e) => (None, self.not_all(&io::Error::other(e))),
                },
                recv(self.mount.ended()) -> _ => {
                    self.has_ended.set(true);
                    return (None, WrittenOut::All);
                }
                recv(self.signals) -> request => match request {
                    Ok(Request::ReopenLog) => daemon::log::reopen(),
                    Ok(Request::End) | Err(_) => {
                        let told = io::Error::other("a second signal ended the waiting for it");
                        let written = self.not_all(&told);
                        // Without the right to, they wait.
                        let _ = connection::abort(device);
                        return (None, written);
                    }
                },
            }
        }
    }

    fn not_all(&self, e: &io::Error) -> WrittenOut {
        log::error!(
            "{}: what programs changed in mapped files is not all written, and may be lost: {}",
            self.mountpoint.display(),
            plain(e)
        );
        WrittenOut::NotAll
    }

    /// Whether the path leads to our mount: it may have been detached, and another mounted there
    /// since.
    fn is_in_place(&self) -> bool {
        let now = || mount_table::device_at(&self.mountpoint).ok();
        self.device.is_none_or(|device| now() == Some(device))
    }
}

/// Without unwinding what is mounted: fuser's tear-down would unmount the path a second time.
fn end(written: WrittenOut) -> ! {
    daemon::log::end();
    std::process::exit(i32::from(written == WrittenOut::NotAll))
}
