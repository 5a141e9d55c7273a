//! What `arrayfs status` shows of a mount: process, source, cache.

use std::path::Path;

use serde_json::{Value, json};

use super::Tree;

impl Tree {
    /// Containers of which something is staged: how much of it is in memory and in the log, and why it is not committed.
    fn staged_containers(&self) -> Vec<Value> {
        let staged = self.all_staged().into_iter();
        let each = staged.filter_map(|(inode, version)| {
            let container = version.staged.now()?;
            let path = self.inodes.path(inode).unwrap_or_default();
            Some(json!({
                "path": self.store.display(&path).to_string_lossy(),
                "bytes": container.stage.bytes_held(),
                "log_bytes": container.stage.bytes_logged(),
                "why": version.staged.why(),
            }))
        });
        each.chain(self.new_with_drafts()).collect()
    }

    /// New containers into which something has been put: where that is, it is on the disk.
    fn new_with_drafts(&self) -> Vec<Value> {
        let new = self.new_containers.all().into_iter();
        let with_drafts = new.filter(|(inode, _)| self.has_drafts(*inode).unwrap_or(true));
        let each = with_drafts.map(|(inode, used)| {
            let path = self.inodes.path(inode).unwrap_or_default();
            json!({
                "path": self.store.display(&path).to_string_lossy(),
                "bytes": 0,
                "log_bytes": 0,
                "why": used.why(),
            })
        });
        each.collect()
    }

    pub fn status(&self) -> Value {
        let stats = self.cache.stats.snapshot();
        json!({
            "pid": std::process::id(),
            "source": self.store.display(Path::new("")).to_string_lossy(),
            "version": env!("CARGO_PKG_VERSION"),
            "open_files": self.open_files.len(),
            "open_containers": self.versions.open.count(),
            "staged": self.staged_containers(),
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
