//! What `arrayfs status` shows of a mount: process, source, cache.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use serde_json::{Value, json};

use super::{InodeId, Tree, Views};
use crate::container::names::path_text;

/// Most bytes of the list of staged containers: the kernel hands out no attribute of more than 64
/// KiB.
const LISTED: usize = 32 << 10;

/// Most paths of a list beside that one.
const MOST_PATHS: usize = 64;

/// Most of those with a reason.
const MOST_FAILED: usize = 8;

/// Most letters of the reason that one of them has.
const REASON: usize = 1000;

/// What a tree is watched by, beside what its parts count.
pub(super) struct Watched {
    /// What whoever serves it has counted of its requests.
    requests: OnceLock<Box<dyn Fn() -> Value + Send + Sync>>,
    since: Instant,
}

impl Watched {
    pub(super) fn new() -> Watched {
        Watched {
            requests: OnceLock::new(),
            since: Instant::now(),
        }
    }
}

/// As many as fit, and how many do not.
fn that_fit(all: Vec<Value>) -> (Vec<Value>, usize) {
    let (mut listed, mut bytes, count) = (Vec::new(), 0, all.len());
    for each in all {
        bytes += each.to_string().len() + 1;
        if bytes > LISTED {
            break;
        }
        listed.push(each);
    }
    let unlisted = count - listed.len();
    (listed, unlisted)
}

/// Of one container, in memory and in its log.
fn staged_bytes(container: &Value) -> u64 {
    let bytes = ["bytes", "log_bytes"].map(|of| container[of].as_u64().unwrap_or(0));
    bytes[0].saturating_add(bytes[1])
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
            let path = self.inodes.path(inode.into()).unwrap_or_default();
            let (log, log_bytes) = container.stage.logged().unzip();
            let beside = version.staged.unrecovered();
            Some(json!({
                "path": self.store.display(&path).to_string_lossy(),
                "inside": self.text_of_place(&path),
                "bytes": container.stage.bytes_held(),
                "log": log.map(|name| name.to_string_lossy().into_owned()),
                "log_bytes": log_bytes.unwrap_or(0),
                "why": version.staged.why().map(short),
                "beside": beside.map(|beside| beside.why.to_string()),
            }))
        });
        each.chain(self.new_with_drafts()).collect()
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
                let id = stat.identity.id;
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
        let failed = held.failed.iter().take(MOST_FAILED);
        json!({
            "files": held.files,
            "bytes": held.bytes,
            "encoded_bytes": held.encoded[0],
            "stored_bytes": held.encoded[1],
            "logged": logged.map(|at| path(at)).collect::<Vec<_>>(),
            "logged_unlisted": held.logged.len().saturating_sub(MOST_PATHS),
            "failed": failed
                .map(|(at, e)| json!({ "path": path(at), "why": short(e.to_string()) }))
                .collect::<Vec<_>>(),
            "failed_unlisted": held.failed.len().saturating_sub(MOST_FAILED),
        })
    }

    /// The first of them: an attribute has a length.
    fn half_removed_names(&self) -> Vec<String> {
        let arrays = self.half_removed().into_iter().take(MOST_PATHS);
        let names = arrays.map(|path| path.to_string_lossy().into_owned());
        names.collect()
    }

    /// What is told of requests, by whoever serves them.
    pub fn tell_requests(&self, told: impl Fn() -> Value + Send + Sync + 'static) {
        // A tree is served once.
        let _ = self.watched.requests.set(Box::new(told));
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
        let stats = self.cache.stats.snapshot();
        let staged = self.staged_containers();
        let staged_bytes = staged.iter().map(staged_bytes).sum::<u64>();
        let (staged, unlisted) = that_fit(staged);
        let not_kept = self.live.new.not_kept.lines();
        json!({
            "pid": std::process::id(),
            "source": self.store.display(Path::new("")).to_string_lossy(),
            "source_id": self.source_id(),
            "version": env!("CARGO_PKG_VERSION"),
            "open_files": self.open_files.len(),
            "open_containers": self.live.open_count(),
            "seconds": self.watched.since.elapsed().as_secs(),
            "staged_bytes": staged_bytes,
            "staged": staged,
            "staged_unlisted": unlisted,
            "not_kept": not_kept.told,
            "not_kept_unlisted": not_kept.more,
            "half_removed": self.half_removed_names(),
            "views_listed": self.settings.views == Views::Listed,
            "held_back": self.held_back(),
            "counted": self.counted(),
            "requests": self.watched.requests.get().map(|told| told()),
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
}
