//! What `arrayfs status` shows of a mount: process, source, cache.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use serde_json::{Value, json};

use super::{InodeId, Tree, Views};
use crate::container::names::path_text;
use crate::error::Error;
use crate::source::Timestamp;
use crate::stage::Unlogged;

/// Most bytes of the list of staged containers: the kernel hands out no attribute of more than 64
/// KiB.
const LISTED: usize = 32 << 10;

/// Most bytes of all that is told, as the kernel hands it out.
const MOST: usize = 60 << 10;

/// The lists that are told, those first that are missed least.
const LISTS: [&str; 8] = [
    "/requests/slowest",
    "/log/warnings",
    "/half_removed",
    "/held_back/logged",
    "/not_kept",
    "/held_back/unmerged",
    "/staged",
    "/held_back/failed",
];

/// Most paths of a list beside that one.
const MOST_PATHS: usize = 64;

/// Room for a count of what a list lacks, and its name.
const COUNT: usize = 50;

/// Most of those with a reason.
const MOST_FAILED: usize = 8;

/// What is staged for more seconds waits for somebody.
const OVERDUE: u64 = 60;

/// Most letters of the reason that one of them has.
const REASON: usize = 1000;

/// Says something of the mount.
type ToldOfMount = Box<dyn Fn() -> Value + Send + Sync>;

/// What a tree is watched by, beside what its parts count.
pub(super) struct Watched {
    /// What whoever serves it has counted of its requests.
    requests: OnceLock<ToldOfMount>,
    /// What was logged of it.
    log: OnceLock<ToldOfMount>,
    since: Instant,
}

impl Watched {
    pub(super) fn new() -> Watched {
        Watched {
            requests: OnceLock::new(),
            log: OnceLock::new(),
            since: Instant::now(),
        }
    }
}

/// As many as fit, and how many do not.
fn that_fit(all: Vec<Value>) -> (Vec<Value>, usize) {
    let (mut listed, mut bytes, count) = (Vec::new(), 0, all.len());
    for each in all {
        bytes += length(&each).saturating_add(1);
        if bytes > LISTED {
            break;
        }
        listed.push(each);
    }
    let unlisted = count - listed.len();
    (listed, unlisted)
}

/// How many bytes a value has as text.
fn length(value: &Value) -> usize {
    value.to_string().len()
}

/// Shortens lists until all of it fits into an attribute: without a status nobody could unmount
/// knowing what stays staged.
fn fit(status: &mut Value) {
    for list in LISTS {
        let over = length(status).saturating_sub(MOST);
        if over > 0 {
            drop_end(status, list, over);
        }
    }
}

/// Drops the end of a list, at least so many bytes of it, if it has them; how many entries are
/// missing is told beside it.
fn drop_end(status: &mut Value, list: &str, bytes: usize) {
    let (mut freed, mut dropped) = (0_usize, 0_u64);
    let Some(entries) = status.pointer_mut(list).and_then(Value::as_array_mut) else {
        return;
    };
    // The count that is new has a length, too.
    let wanted = bytes.saturating_add(COUNT);
    while freed < wanted
        && let Some(last) = entries.pop()
    {
        freed = freed.saturating_add(length(&last)).saturating_add(1);
        dropped = dropped.saturating_add(1);
    }
    if let Some((parent, name)) = list.rsplit_once('/')
        && let Some(parent) = status.pointer_mut(parent).and_then(Value::as_object_mut)
    {
        let name = format!("{name}_unlisted");
        let before = parent.get(&name).and_then(Value::as_u64).unwrap_or(0);
        parent.insert(name, before.saturating_add(dropped).into());
    }
}

/// Of one container, in memory or in its log. After an fsync the log has what is in memory, so the
/// larger of both is told, not their sum.
fn staged_bytes(container: &Value) -> u64 {
    let bytes = ["bytes", "log_bytes"].map(|of| container[of].as_u64().unwrap_or(0));
    bytes[0].max(bytes[1])
}

/// So many of these containers should have been committed by now.
fn overdue(staged: &[Value]) -> usize {
    let seconds = staged.iter().filter_map(|one| one["seconds"].as_u64());
    seconds.filter(|seconds| *seconds > OVERDUE).count()
}

/// 0 if the clock has been set back meanwhile.
fn seconds_since(time: Timestamp) -> u64 {
    let passed = Timestamp::now().secs.saturating_sub(time.secs);
    u64::try_from(passed).unwrap_or(0)
}

/// What would be lost with the daemon, of one container.
fn told_unlogged(unlogged: &Unlogged) -> Value {
    let arrays = &unlogged.arrays;
    let told = arrays.iter().take(MOST_FAILED);
    let told = told.map(|(array, bytes)| json!({ "array": short(array), "bytes": bytes }));
    let bytes = arrays.iter().map(|(_, bytes)| *bytes);
    json!({
        "arrays": told.collect::<Vec<_>>(),
        "arrays_unlisted": arrays.len().saturating_sub(MOST_FAILED),
        "bytes": bytes.fold(0, u64::saturating_add),
        "why": short(unlogged.why.to_string()),
    })
}

/// A name in a file may be very long, and so may the reason that names it.
fn short(why: impl Into<String>) -> String {
    let why: String = why.into();
    match why.char_indices().nth(REASON) {
        Some((at, _)) => format!("{} ...", &why[..at]),
        None => why,
    }
}

impl Tree {
    /// Containers of which something is staged: how much of it is in memory and in the log, and why
    /// it is not committed.
    fn staged_containers(&self) -> Vec<Value> {
        let staged = self.live.all_staged().into_iter();
        let each = staged.filter_map(|(inode, version)| {
            let container = version.staged.now()?;
            self.live.look_who_holds(&version);
            let path = self.inodes.path(inode.into()).unwrap_or_default();
            let (log, log_bytes) = container.stage.logged().unzip();
            let beside = version.staged.log.unrecovered();
            let unlogged = container.stage.unlogged();
            Some(json!({
                "path": self.store.display(&path).to_string_lossy(),
                "inside": self.text_of_place(&path),
                "bytes": container.stage.bytes_held(),
                "log": log.map(|name| name.to_string_lossy().into_owned()),
                "log_bytes": log_bytes.unwrap_or(0),
                "seconds": container.stage.staged_since().map_or(0, seconds_since),
                "why": version.staged.outcome.why().map(short),
                "beside": beside.map(|beside| beside.why.to_string()),
                "unlogged": unlogged.map(|unlogged| told_unlogged(&unlogged)),
            }))
        });
        let mut all: Vec<Value> = each.chain(self.new_with_drafts()).collect();
        // Whatever the list has no room for, it is not this.
        all.sort_by_key(|container| container["unlogged"].is_null());
        all
    }

    /// New containers into which something has been put: where that is, it is on the disk.
    fn new_with_drafts(&self) -> Vec<Value> {
        let new = self.live.new.all().into_iter();
        let with_drafts = new.filter(|(inode, _)| self.live.has_drafts(*inode).unwrap_or(true));
        let each = with_drafts.map(|(inode, used)| {
            let path = self.inodes.path(inode.into()).unwrap_or_default();
            json!({
                "path": self.store.display(&path).to_string_lossy(),
                "inside": self.text_of_place(&path),
                "new": true,
                "bytes": 0,
                "log_bytes": 0,
                "why": short(used.why()),
            })
        });
        each.collect()
    }

    /// The path of an entry of the source from the root of the mount, as text that leads back to
    /// its bytes.
    fn text_of_place(&self, path: &Path) -> String {
        let root = self.inodes.path(InodeId::ROOT).unwrap_or_default();
        path_text(path.strip_prefix(root).unwrap_or(path))
    }

    /// Which file or directory is shown, for commands that look at it by its path.
    fn source_id(&self) -> Value {
        let root = self.inodes.path(InodeId::ROOT);
        match root.and_then(|root| self.store.stat(&root)) {
            Ok(stat) => {
                let id = stat.id;
                json!({ "device": id.device, "inode": id.inode })
            }
            Err(_) => Value::Null,
        }
    }

    /// What is held back of files; null where nothing ever is. Paths are the first of them.
    fn held_back(&self) -> Value {
        let held = self.disk.as_ref().and_then(|disk| disk.held_back());
        let Some(held) = held else {
            return Value::Null;
        };
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let logged = held.logged.iter().take(MOST_PATHS);
        let told = |files: &[(PathBuf, Error)]| {
            let files = files.iter().take(MOST_FAILED);
            let told =
                files.map(|(at, e)| json!({ "path": path(at), "why": short(e.to_string()) }));
            told.collect::<Vec<_>>()
        };
        json!({
            "files": held.files,
            "bytes": held.bytes,
            "encoded_bytes": held.encoded[0],
            "stored_bytes": held.encoded[1],
            "logged": logged.map(|at| path(at)).collect::<Vec<_>>(),
            "logged_unlisted": held.logged.len().saturating_sub(MOST_PATHS),
            "unmerged": told(&held.unmerged),
            "unmerged_unlisted": held.unmerged.len().saturating_sub(MOST_FAILED),
            "failed": told(&held.failed),
            "failed_unlisted": held.failed.len().saturating_sub(MOST_FAILED),
        })
    }

    /// The first of them: an attribute has a length.
    fn half_removed_names(&self) -> (Vec<String>, usize) {
        let arrays = self.half_removed();
        let unlisted = arrays.len().saturating_sub(MOST_PATHS);
        let names = arrays.into_iter().take(MOST_PATHS);
        let names = names.map(|path| path.to_string_lossy().into_owned());
        (names.collect(), unlisted)
    }

    /// What is told of requests, by whoever serves them.
    pub fn tell_requests(&self, told: impl Fn() -> Value + Send + Sync + 'static) {
        // A tree is served once.
        let _ = self.watched.requests.set(Box::new(told));
    }

    /// What is told of the log, by whoever keeps it.
    pub fn tell_log(&self, told: impl Fn() -> Value + Send + Sync + 'static) {
        let _ = self.watched.log.set(Box::new(told));
    }

    /// Where an inode, or a name in it, lies in the mount, for messages.
    pub fn path_in_mount(&self, inode: InodeId, name: Option<&OsStr>) -> String {
        match self.inodes.path(inode) {
            Ok(path) => {
                let path = name.map_or_else(|| path.clone(), |name| path.join(name));
                format!("/{}", self.text_of_place(&path))
            }
            Err(_) => "(removed)".into(),
        }
    }

    /// What was counted of commits, and of the processes that run libhdf5.
    fn counted(&self) -> Value {
        let commits = self.live.commits.snapshot();
        json!({
            "commits": commits.done,
            "failed_commits": commits.failed,
            "commit_seconds": commits.time.as_secs_f64(),
            "commit_bytes": commits.bytes,
            "worker_deaths": crate::container::hdf5::worker_deaths(),
        })
    }

    pub fn status(&self) -> Value {
        let mut status = self.whole_status();
        fit(&mut status);
        status
    }

    fn whole_status(&self) -> Value {
        let stats = self.cache.stats.snapshot();
        let staged = self.staged_containers();
        let staged_bytes = staged.iter().map(staged_bytes);
        let staged_bytes = staged_bytes.fold(0, u64::saturating_add);
        let unlogged = staged
            .iter()
            .filter_map(|staged| staged["unlogged"]["bytes"].as_u64());
        let unlogged_bytes = unlogged.fold(0, u64::saturating_add);
        let overdue = overdue(&staged);
        let (staged, unlisted) = that_fit(staged);
        let (half_removed, half_removed_unlisted) = self.half_removed_names();
        let not_kept = self.live.new.not_kept.lines();
        json!({
            "pid": std::process::id(),
            "source": self.store.display(Path::new("")).to_string_lossy(),
            "source_id": self.source_id(),
            "version": env!("CARGO_PKG_VERSION"),
            "open_files": self.open_files.len(),
            "open_containers": self.live.open_count(),
            "resident_bytes": crate::memory::resident(),
            "seconds": self.watched.since.elapsed().as_secs(),
            "staged_bytes": staged_bytes,
            "staged": staged,
            "staged_unlisted": unlisted,
            "staged_over_a_minute": overdue,
            "unlogged_bytes": unlogged_bytes,
            "not_kept": not_kept.told,
            "not_kept_unlisted": not_kept.more,
            "half_removed": half_removed,
            "half_removed_unlisted": half_removed_unlisted,
            "views_listed": self.settings.views == Views::Listed,
            "held_back": self.held_back(),
            "counted": self.counted(),
            "requests": self.watched.requests.get().map(|told| told()),
            "log": self.watched.log.get().map(|told| told()),
            "cache": {
                "limit": self.cache.limit(),
                "used": self.cache.used(),
                "blocks": self.cache.blocks(),
                "hits": stats.hits,
                "waits": stats.waits,
                "misses": stats.misses,
                "prefetched": stats.prefetched,
                "evicted": stats.evicted,
                "decoded_bytes": stats.decoded_bytes,
                "hit_rate": stats.hit_rate(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_fits_into_an_attribute() {
        let of = |why: &str| json!({ "path": "/data/x.blp", "why": why });
        let (listed, unlisted) = that_fit(vec![of("new"); 3]);
        assert_eq!((listed.len(), unlisted), (3, 0));
        let (listed, unlisted) = that_fit(vec![of(&"w".repeat(1000)); 100]);
        assert_eq!(listed.len() + unlisted, 100);
        let each = listed[0].to_string().len() + 1;
        assert_eq!(listed.len(), LISTED / each);
    }

    #[test]
    fn what_is_staged_for_longer_than_a_minute_is_counted() {
        let staged = [60, 61, 7200].map(|seconds| json!({ "seconds": seconds }));
        assert_eq!(overdue(&staged), 2);
        assert_eq!(overdue(&[json!({ "new": true })]), 0);
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
        let mut status = json!({
            "pid": 1,
            "staged": [{ "path": "/data/x.blp", "why": "kept" }],
            "staged_unlisted": 0,
            "half_removed": vec![long.clone(); 64],
            "half_removed_unlisted": 5,
            "held_back": { "failed": [{ "path": "/data/y", "why": "full" }], "logged": [long] },
            "requests": { "slowest": vec![json!({ "path": "ä".repeat(400) }); 16] },
        });
        fit(&mut status);
        assert!(length(&status) <= MOST);
        assert_eq!(status["requests"]["slowest_unlisted"], 16);
        let listed = status["half_removed"].as_array().map_or(0, Vec::len) as u64;
        assert_eq!(status["half_removed_unlisted"], 5 + 64 - listed);
        assert_eq!(status["staged"][0]["why"], "kept");
        assert_eq!(status["held_back"]["failed"][0]["why"], "full");
        let before = status.clone();
        fit(&mut status);
        assert_eq!(status, before);
    }

    #[test]
    fn what_is_in_memory_and_in_the_log_is_counted_once() {
        let of = |bytes, log| staged_bytes(&json!({ "bytes": bytes, "log_bytes": log }));
        assert_eq!((of(7, 0), of(7, 9), of(9, 7)), (7, 9, 9));
    }
}
