//! What `arrayfs status` shows of a mount: process, source, cache.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde::Serialize;

use super::half_removed::HalfRemoved;
use super::inode::InodeId;
use super::mount_status::{
    FileInTrouble, HeldBackStatus, LogStatus, MountStatus, RequestsStatus, SourceId, StagedStatus,
    UnloggedArray, UnloggedStatus,
};
use super::mounted_fs::MountedFs;
use crate::cache::BlockCache;
use crate::container::names::path_text;
use crate::error::Error;
use crate::live::shown::open_container::Views;
use crate::source::Timestamp;
use crate::source::remote::RemoteSettings;
use crate::stage::Unlogged;

/// Most bytes of the list of staged containers: the kernel hands out no attribute of more than 64
/// KiB.
const LISTED: usize = 32 << 10;

/// Most bytes of all that is told, as the kernel hands it out.
const MOST: usize = 60 << 10;

/// Most paths of a list beside that one.
const MOST_PATHS: usize = 64;

/// Room for counts of what lists lack, and their names.
const COUNTS: usize = 400;

/// Most of those with a reason.
const MOST_FAILED: usize = 8;

/// What is staged for more seconds waits for somebody.
const OVERDUE: u64 = 60;

/// Most letters of the reason that one of them has.
const REASON: usize = 1000;

/// Says something of the mount.
type ToldOfMount<T> = OnceLock<Box<dyn Fn() -> T + Send + Sync>>;

/// Answers the status of a mount.
pub struct StatusReport {
    fs: Arc<MountedFs>,
    half_removed: Arc<HalfRemoved>,
    pub(super) cache: Arc<BlockCache>,
    /// What whoever serves the tree has counted of its requests.
    requests: ToldOfMount<RequestsStatus>,
    remote: OnceLock<RemoteSettings>,
    /// What was logged of it.
    log: ToldOfMount<LogStatus>,
    since: Instant,
}

/// As many as fit, and how many do not.
fn that_fit(mut all: Vec<StagedStatus>) -> (Vec<StagedStatus>, u64) {
    let fits = all.iter().scan(0, |bytes, each| {
        *bytes += length(each).saturating_add(1);
        (*bytes <= LISTED).then_some(())
    });
    let unlisted = all.len() - fits.count();
    all.truncate(all.len() - unlisted);
    (all, unlisted as u64)
}

/// How many bytes something has as text.
fn length(of: &impl Serialize) -> usize {
    serde_json::to_string(of).map_or(0, |text| text.len())
}

/// Shortens lists until all of it fits into an attribute, those first that are missed least:
/// without a status nobody could unmount knowing what stays staged.
fn fit(of: &mut MountStatus) {
    let over = &mut length(of).saturating_sub(MOST);
    if *over == 0 {
        return;
    }
    *over += COUNTS;
    let nothing = &mut HeldBackStatus::default();
    let held = of.held_back.as_mut().unwrap_or(nothing);
    let (told, log) = (&mut of.requests, &mut of.log);
    drop_end(&mut told.slowest, &mut told.slowest_unlisted, over);
    drop_end(&mut log.warnings, &mut log.warnings_unlisted, over);
    drop_end(&mut of.half_removed, &mut of.half_removed_unlisted, over);
    drop_end(&mut held.logged, &mut held.logged_unlisted, over);
    drop_end(&mut of.not_kept, &mut of.not_kept_unlisted, over);
    drop_end(&mut held.unmerged, &mut held.unmerged_unlisted, over);
    drop_end(&mut of.staged, &mut of.staged_unlisted, over);
    drop_end(&mut held.failed, &mut held.failed_unlisted, over);
}

/// Drops the end of a list, so many bytes of it, if it has them; how many entries are missing is
/// told beside it.
fn drop_end<T: Serialize>(entries: &mut Vec<T>, unlisted: &mut u64, over: &mut usize) {
    while *over > 0
        && let Some(last) = entries.pop()
    {
        *over = over.saturating_sub(length(&last) + 1);
        *unlisted += 1;
    }
}

/// Of one container, in memory or in its log. After an fsync the log has what is in memory, so the
/// larger of both is told, not their sum.
fn staged_bytes(container: &StagedStatus) -> u64 {
    container.bytes.max(container.log_bytes)
}

/// So many of these containers should have been committed by now.
fn overdue(staged: &[StagedStatus]) -> usize {
    staged.iter().filter(|one| one.seconds > OVERDUE).count()
}

/// 0 if the clock has been set back meanwhile.
fn seconds_since(time: Timestamp) -> u64 {
    let passed = Timestamp::now().secs.saturating_sub(time.secs);
    u64::try_from(passed).unwrap_or(0)
}

/// What would be lost with the daemon, of one container.
fn told_unlogged(unlogged: &Unlogged) -> UnloggedStatus {
    let arrays = &unlogged.arrays;
    let told = arrays
        .iter()
        .take(MOST_FAILED)
        .map(|(array, bytes)| UnloggedArray {
            array: short(array),
            bytes: *bytes,
        });
    let bytes = arrays.iter().map(|(_, bytes)| *bytes);
    UnloggedStatus {
        arrays: told.collect(),
        arrays_unlisted: unlisted(arrays, MOST_FAILED),
        bytes: bytes.fold(0, u64::saturating_add),
        why: short(unlogged.why.to_string()),
    }
}

/// How many there are beside those that are told.
fn unlisted<T>(all: &[T], told: usize) -> u64 {
    all.len().saturating_sub(told) as u64
}

/// The first of them: an attribute has a length.
fn first_paths(paths: &[PathBuf]) -> Vec<String> {
    let paths = paths.iter().take(MOST_PATHS);
    paths
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

fn told_by<T: Default>(told: &ToldOfMount<T>) -> T {
    told.get().map_or_else(T::default, |told| told())
}

/// A name in a file may be very long, and so may the reason that names it.
fn short(why: impl Into<String>) -> String {
    let why: String = why.into();
    match why.char_indices().nth(REASON) {
        Some((at, _)) => format!("{} ...", &why[..at]),
        None => why,
    }
}

impl StatusReport {
    pub(super) fn new(
        fs: &Arc<MountedFs>,
        half_removed: &Arc<HalfRemoved>,
        cache: Arc<BlockCache>,
    ) -> StatusReport {
        StatusReport {
            fs: Arc::clone(fs),
            half_removed: Arc::clone(half_removed),
            cache,
            requests: OnceLock::new(),
            log: OnceLock::new(),
            remote: OnceLock::new(),
            since: Instant::now(),
        }
    }

    fn staged_containers(&self) -> Vec<StagedStatus> {
        let staged = self.fs.live.written.all().into_iter();
        let each = staged.filter_map(|(inode, version)| {
            let container = version.writes.now()?;
            self.fs.live.held.look_who_holds(&version);
            let (log, log_bytes) = container.stage.logged().unzip();
            let in_next = container.stage.bytes_in_next();
            let beside = version.writes.log.unrecovered();
            let unlogged = container.stage.unlogged();
            Some(StagedStatus {
                bytes: container.stage.bytes_held(),
                log: log.map(|name| name.to_string_lossy().into_owned()),
                log_bytes: log_bytes.unwrap_or(0).saturating_add(in_next),
                seconds: container.stage.staged_since().map_or(0, seconds_since),
                why: version.writes.outcome.why().map(short),
                beside: beside.map(|beside| beside.why.to_string()),
                unlogged: unlogged.map(|unlogged| told_unlogged(&unlogged)),
                ..self.nothing_staged(inode.into())
            })
        });
        let mut all: Vec<_> = each.chain(self.new_with_drafts()).collect();
        // Whatever the list has no room for, it is not this.
        all.sort_by_key(|container| container.unlogged.is_none());
        all
    }

    /// New containers into which something has been put: where that is, it is on the disk.
    fn new_with_drafts(&self) -> impl Iterator<Item = StagedStatus> {
        let new = self.fs.live.new.all().into_iter();
        let with_drafts =
            new.filter(|(inode, _)| self.fs.live.added.has_drafts(*inode).unwrap_or(true));
        with_drafts.map(|(inode, used)| StagedStatus {
            new: true,
            why: Some(short(used.why())),
            ..self.nothing_staged(inode.into())
        })
    }

    /// A container and where it lies.
    fn nothing_staged(&self, inode: InodeId) -> StagedStatus {
        let path = self.fs.inodes.path(inode).unwrap_or_default();
        StagedStatus {
            path: self.fs.store.display(&path).to_string_lossy().into_owned(),
            inside: self.text_of_place(&path),
            ..StagedStatus::default()
        }
    }

    /// The path of an entry of the source from the root of the mount, as text that leads back to
    /// its bytes.
    fn text_of_place(&self, path: &Path) -> String {
        let root = self.fs.inodes.path(InodeId::ROOT).unwrap_or_default();
        path_text(path.strip_prefix(root).unwrap_or(path))
    }

    fn source_id(&self) -> Option<SourceId> {
        let root = self.fs.inodes.path(InodeId::ROOT);
        let stat = root.and_then(|root| self.fs.store.stat(&root)).ok()?;
        Some(SourceId {
            device: stat.id.device,
            inode: stat.id.inode,
        })
    }

    /// What is held back of files. Paths are the first of them.
    fn held_back(&self) -> Option<HeldBackStatus> {
        let held = self.fs.disk.as_ref()?.held_back()?;
        let told = |files: &[(PathBuf, Error)]| {
            let told = files.iter().take(MOST_FAILED).map(|(at, e)| FileInTrouble {
                path: at.to_string_lossy().into_owned(),
                why: short(e.to_string()),
            });
            told.collect()
        };
        Some(HeldBackStatus {
            files: held.files,
            bytes: held.bytes,
            encoded_bytes: held.encoded[0],
            stored_bytes: held.encoded[1],
            logged: first_paths(&held.logged),
            logged_unlisted: unlisted(&held.logged, MOST_PATHS),
            unmerged: told(&held.unmerged),
            unmerged_unlisted: unlisted(&held.unmerged, MOST_FAILED),
            failed: told(&held.failed),
            failed_unlisted: unlisted(&held.failed, MOST_FAILED),
        })
    }

    /// What is told of requests, by whoever serves them.
    pub fn tell_requests(&self, told: impl Fn() -> RequestsStatus + Send + Sync + 'static) {
        // A tree is served once.
        let _ = self.requests.set(Box::new(told));
    }

    /// What is told of the log, by whoever keeps it.
    pub fn tell_log(&self, told: impl Fn() -> LogStatus + Send + Sync + 'static) {
        let _ = self.log.set(Box::new(told));
    }

    /// How a source that is far away is reached, for commands that look at it by its URL.
    pub fn tell_remote(&self, settings: RemoteSettings) {
        let _ = self.remote.set(settings);
    }

    /// Where an inode, or a name in it, lies in the mount, for messages.
    pub fn path_in_mount(&self, inode: InodeId, name: Option<&OsStr>) -> String {
        match self.fs.inodes.path(inode) {
            Ok(path) => {
                let path = name.map_or_else(|| path.clone(), |name| path.join(name));
                format!("/{}", self.text_of_place(&path))
            }
            Err(_) => "(removed)".into(),
        }
    }

    pub fn status(&self) -> MountStatus {
        let mut status = self.whole_status();
        fit(&mut status);
        status
    }

    fn whole_status(&self) -> MountStatus {
        let staged = self.staged_containers();
        let sum = |of: fn(&StagedStatus) -> u64| staged.iter().map(of).fold(0, u64::saturating_add);
        let staged_bytes = sum(staged_bytes);
        let unlogged_bytes = sum(|of| of.unlogged.as_ref().map_or(0, |unlogged| unlogged.bytes));
        let staged_over_a_minute = overdue(&staged);
        let (staged, staged_unlisted) = that_fit(staged);
        let half_removed = self.half_removed.arrays();
        let source = self.fs.store.display(Path::new(""));
        let not_kept = self.fs.live.new.not_kept.lines();
        MountStatus {
            pid: std::process::id(),
            source: source.to_string_lossy().into_owned(),
            source_id: self.source_id(),
            version: env!("CARGO_PKG_VERSION").into(),
            open_files: self.fs.open_files.len(),
            open_containers: self.fs.live.versions.open_count(),
            resident_bytes: crate::memory::resident(),
            seconds: self.since.elapsed().as_secs(),
            staged_bytes,
            staged,
            staged_unlisted,
            staged_over_a_minute,
            unlogged_bytes,
            not_kept: not_kept.told,
            not_kept_unlisted: not_kept.more,
            remote: self.fs.store.traffic(),
            remote_settings: self.remote.get().cloned(),
            half_removed: first_paths(&half_removed),
            half_removed_unlisted: unlisted(&half_removed, MOST_PATHS),
            views_listed: self.fs.settings.views == Views::Listed,
            held_back: self.held_back(),
            counted: self.fs.live.counters.snapshot(),
            requests: told_by(&self.requests),
            log: told_by(&self.log),
            cache: self.cache.status(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mount_status::SlowStatus;
    use super::*;

    #[test]
    fn what_is_told_fits_into_an_attribute() {
        let of = |why: String| StagedStatus {
            path: "/data/x.blp".into(),
            why: Some(why),
            ..StagedStatus::default()
        };
        let (listed, unlisted) = that_fit(vec![of("new".into()); 3]);
        assert_eq!((listed.len(), unlisted), (3, 0));
        let (listed, unlisted) = that_fit(vec![of("w".repeat(1000)); 100]);
        assert_eq!(listed.len() as u64 + unlisted, 100);
        assert_eq!(listed.len(), LISTED / (length(&listed[0]) + 1));
    }

    #[test]
    fn what_is_staged_for_longer_than_a_minute_is_counted() {
        let of = |seconds| StagedStatus {
            seconds,
            ..StagedStatus::default()
        };
        assert_eq!(overdue(&[60, 61, 7200].map(of)), 2);
        let before = |seconds| Timestamp {
            secs: Timestamp::now().secs - seconds,
            nanos: 0,
        };
        assert!((100..110).contains(&seconds_since(before(100))));
        assert_eq!(seconds_since(before(-100)), 0);
    }

    #[test]
    fn the_whole_fits_whatever_the_names_are() {
        // Control characters take six bytes each as text.
        let long = "\u{1}".repeat(4000);
        let slow = SlowStatus {
            path: "ä".repeat(400),
            ..SlowStatus::default()
        };
        let mut status = MountStatus {
            staged: vec![StagedStatus::default()],
            half_removed: vec![long.clone(); 64],
            half_removed_unlisted: 5,
            held_back: Some(HeldBackStatus {
                failed: vec![FileInTrouble::default()],
                logged: vec![long],
                ..HeldBackStatus::default()
            }),
            requests: RequestsStatus {
                slowest: vec![slow; 16],
                ..RequestsStatus::default()
            },
            ..MountStatus::default()
        };
        fit(&mut status);
        assert!(length(&status) <= MOST);
        assert_eq!(status.requests.slowest_unlisted, 16);
        let listed = status.half_removed.len() as u64;
        assert_eq!(status.half_removed_unlisted, 5 + 64 - listed);
        assert_eq!(status.staged.len(), 1);
        assert_eq!(
            status.held_back.as_ref().map(|held| held.failed.len()),
            Some(1)
        );
        let before = serde_json::to_string(&status).unwrap();
        fit(&mut status);
        assert_eq!(serde_json::to_string(&status).unwrap(), before);
    }

    #[test]
    fn what_is_in_memory_and_in_the_log_is_counted_once() {
        let of = |bytes, log_bytes| {
            staged_bytes(&StagedStatus {
                bytes,
                log_bytes,
                ..StagedStatus::default()
            })
        };
        assert_eq!((of(7, 0), of(7, 9), of(9, 7)), (7, 9, 9));
    }
}
