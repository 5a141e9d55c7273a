//! What `arrayfs status` shows of a mount: process, source, cache.

use std::path::Path;

use serde_json::{Value, json};

use super::Tree;

impl Tree {
    pub fn status(&self) -> Value {
        let stats = self.cache.stats.snapshot();
        json!({
            "pid": std::process::id(),
            "source": self.store.display(Path::new("")).to_string_lossy(),
            "version": env!("CARGO_PKG_VERSION"),
            "open_files": self.open_files.len(),
            "open_containers": self.versions.open.count(),
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
