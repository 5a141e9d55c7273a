//! What a store that is far away has asked for, for those who watch. Told by [`super::Store`].

use serde::{Deserialize, Serialize};

/// Since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FarTraffic {
    /// Retries included.
    pub requests: u64,
    pub retries: u64,
    /// Questions that no answer came to.
    pub failures: u64,
    /// Of answers.
    pub bytes: u64,
    /// From each question to the end of its answer, all together.
    pub seconds: f64,
    /// Stored bytes that readers got, wherever they came from; and of these what had to be asked
    /// for when it was read.
    pub read_bytes: u64,
    pub waited_bytes: u64,
    /// Stored bytes in memory.
    pub held_bytes: u64,
    /// Bytes that came out of the cache on the disk, and went there.
    pub disk_hit_bytes: u64,
    pub disk_put_bytes: u64,
}
