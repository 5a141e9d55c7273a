//! What is asked for an object: the cache on the disk first, then the store; and whether the answer
//! is of the version that was opened, and of the bytes that were asked for.
//!
//! A part of [`super::object`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use sha2::{Digest, Sha256};

use super::body::Body;
use super::cached_file::CachedName;
use super::disk_cache::DiskCache;
use super::object::RemoteObject;
use super::transport::{Answer, ObjectQuestion, Question};
use super::version::{self, ObjectVersion};
use crate::error::{Error, Result};

impl RemoteObject {
    /// One range, exactly, of this version: out of the cache on the disk, or of the store.
    pub(super) async fn ask(&self, range: Range<u64>) -> Result<Arc<Body>> {
        if let Some(bytes) = self.read_disk(&range).await? {
            return Ok(Arc::new(bytes));
        }
        let bytes = Arc::new(self.ask_store(range.clone()).await?);
        if let Some(disk) = self.disk() {
            let (name, size, put) = (self.cached_name, self.version.size, Arc::clone(&bytes));
            // Nobody waits for it.
            tokio::spawn(async move {
                let putting = disk.clone();
                let put = move || putting.put(&name, size, (range.start, &put));
                disk.in_time(put).await
            });
        }
        Ok(bytes)
    }

    /// The cache on the disk, if it can tell this version from others.
    pub(super) fn disk(&self) -> Option<Arc<DiskCache>> {
        self.shared.disk.clone().filter(|_| self.version.is_told())
    }

    async fn read_disk(&self, range: &Range<u64>) -> Result<Option<Body>> {
        let Some(disk) = self.disk() else {
            return Ok(None);
        };
        let (name, size, range) = (self.cached_name, self.version.size, range.clone());
        let read = disk.clone().in_time(move || disk.read(&name, size, &range));
        let Some(bytes) = read.await.flatten() else {
            return Ok(None);
        };
        self.answered.get_or_try_init(|| self.ask_whether()).await?;
        Ok(Some(bytes))
    }

    /// Asks whether it is still there, and may be read.
    async fn ask_whether(&self) -> Result<()> {
        let question = Question::Object(ObjectQuestion {
            key: &self.key,
            version: None,
            if_match: None,
            range: None,
        });
        match self.shared.transport.ask(&question).await {
            Ok(answer) => match ObjectVersion::answered(&answer.headers) {
                Some(found) if self.version.is_of(&found) => Ok(()),
                _ => Err(self.changed()),
            },
            // Some URLs are signed for reading alone.
            Err(e) if e.is_permission_denied() => self.ask_store(0..1).await.map(drop),
            Err(e) if e.is_not_found() => Err(self.changed()),
            Err(e) => Err(e),
        }
    }

    async fn ask_store(&self, range: Range<u64>) -> Result<Body> {
        loop {
            let id = self.id.lock().clone();
            let id = id.filter(|_| !self.id_is_refused.load(Ordering::Relaxed));
            let if_match = self.version.if_match().filter(|_| id.is_none());
            let question = ObjectQuestion {
                key: &self.key,
                version: id.as_deref(),
                if_match: if_match.as_deref(),
                range: Some(range.clone()),
            };
            match self.shared.transport.ask(&Question::Object(question)).await {
                Ok(answer) => return self.checked(answer, range),
                Err(e) if e.is_permission_denied() && id.is_some() => {
                    if !self.id_is_refused.swap(true, Ordering::Relaxed) {
                        let name = self.name();
                        log::info!("{name}: versions may not be read by their ids: {e}");
                    }
                }
                Err(e) if e.is_not_found() || matches!(e, Error::Changed { .. }) => {
                    return Err(self.changed());
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn checked(&self, answer: Answer, range: Range<u64>) -> Result<Body> {
        let is_whole = answer.status == StatusCode::OK;
        if !is_whole && version::part(&answer.headers).as_ref() != Some(&range) {
            return Err(self.is_wrong(&range, "the answer is of other bytes"));
        }
        // Of an answer that has everything, the length may be told by nothing else.
        let found = ObjectVersion::answered(&answer.headers).or_else(|| {
            is_whole.then(|| ObjectVersion {
                size: answer.bytes,
                ..self.version.clone()
            })
        });
        if !found.is_some_and(|found| self.version.is_of(&found)) {
            return Err(self.changed());
        }
        if let Some(encoding) = version::encoding(&answer.headers) {
            let why = format!("sent as {encoding}, and not as it is stored");
            return Err(self.is_wrong(&range, &why));
        }
        // It may have been set before.
        let _ = self.answered.set(());
        let mut id = self.id.lock();
        if id.is_none() {
            *id = version::version_id(&answer.headers);
        }
        drop(id);
        match answer.body.len() as u64 == range.end - range.start {
            true => Ok(answer.body),
            false => Err(self.is_wrong(&range, "the answer is of another length")),
        }
    }

    fn is_wrong(&self, range: &Range<u64>, why: &str) -> Error {
        let cause = std::io::Error::from_raw_os_error(libc::EIO);
        let name = self.name();
        Error::io(
            format!("{name}: bytes {}..{}: {why}", range.start, range.end),
            cause,
        )
    }
}

/// Whether a request has taken all the time that there is.
pub(super) fn is_timeout(error: &Error) -> bool {
    let code = |cause: &std::io::Error| cause.raw_os_error() == Some(libc::ETIMEDOUT);
    matches!(error, Error::Io { cause, .. } if code(cause))
}

/// A name that no other version of any object has.
pub(super) fn cached_name(place: &str, key: &str, version: &ObjectVersion) -> CachedName {
    let mut digest = Sha256::new();
    let etag = version.etag.as_deref().unwrap_or_default();
    for part in [place, key, etag] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.update(version.size.to_le_bytes());
    if etag.is_empty() {
        digest.update(version.modified.secs.to_le_bytes());
    }
    digest.finalize().into()
}
