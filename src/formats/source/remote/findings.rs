//! What opening has found out about an object, kept in the cache on the disk: for this version of
//! the object, and for this program alone.
//!
//! A finding is a cached file of its own, and as little believed: whoever takes it reads it as he
//! does what a worker answers. A part of [`super::object`].

use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, LazyLock};

use sha2::{Digest, Sha256};

use super::cached_file::{BLOCK, CachedName};
use super::client::runtime;
use super::object::RemoteObject;

/// Longer ones are found out again.
const MOST: u64 = 16 << 20;
/// How long the files of all of them claim to be; what is not written takes no room.
const SIZE: u64 = 2 * MOST;
/// Of the length of a finding, in front of it.
const LENGTH: u64 = 8;

/// Another build may read another one's findings wrongly.
static PROGRAM: LazyLock<[u8; 16]> = LazyLock::new(|| {
    let found = std::fs::metadata("/proc/self/exe").ok();
    let mut told = [0; 16];
    if let Some(found) = found {
        told[..8].copy_from_slice(&found.len().to_le_bytes());
        told[8..].copy_from_slice(&found.mtime().to_le_bytes());
    }
    told
});

impl RemoteObject {
    fn name_of_finding(&self, what: &str) -> CachedName {
        let mut digest = Sha256::new();
        digest.update(self.cached_name);
        digest.update(*PROGRAM);
        digest.update(env!("CARGO_PKG_VERSION"));
        digest.update([0]);
        digest.update(what);
        digest.finalize().into()
    }

    /// Nothing before the store has had an answer for who asks.
    pub(super) fn kept_finding(&self, what: &str) -> Option<Vec<u8>> {
        self.answered.get()?;
        let (disk, name) = (self.disk()?, self.name_of_finding(what));
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        runtime().ok()?.spawn(async move {
            let reading = Arc::clone(&disk);
            let read = move || {
                let first = reading.read(&name, SIZE, &(0..BLOCK))?;
                let len = u64::from_le_bytes(*first.first_chunk()?);
                let end = len.checked_add(LENGTH).filter(|end| *end <= MOST)?;
                let whole = reading.read(&name, SIZE, &(0..end.next_multiple_of(BLOCK)))?;
                Some(whole.get(LENGTH as usize..end as usize)?.to_vec())
            };
            // Who waits may have been ended.
            let _ = tell.send(disk.in_time(read).await.flatten());
        });
        told.recv().ok()?
    }

    pub(super) fn keep_finding(&self, what: &str, found: &[u8]) {
        let (Some(disk), Ok(runtime)) = (self.disk(), runtime()) else {
            return;
        };
        let (name, len) = (self.name_of_finding(what), found.len() as u64);
        if len.saturating_add(LENGTH) > MOST {
            return;
        }
        let mut bytes = len.to_le_bytes().to_vec();
        bytes.extend_from_slice(found);
        bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
        // Nobody waits for it.
        runtime.spawn(async move {
            let putting = Arc::clone(&disk);
            disk.in_time(move || putting.put(&name, SIZE, (0, &bytes)))
                .await
        });
    }
}
