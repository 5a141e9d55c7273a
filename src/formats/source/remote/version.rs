//! Which version of an object is read, and whether an answer is of it.
//!
//! Servers ignore `If-Match`, so the ETag and the length of every answer are compared. Without an
//! ETag the time of modification stands for it. Used by [`super::object`] and [`super::store`].

use std::ops::Range;

use http::{HeaderMap, header};

use super::listing::{self, ListedObject};
use crate::source::{ObjectTag, SourceIdentity, Timestamp};

/// No object is as long: places in it are counted without looking.
pub(super) const LONGEST: u64 = i64::MAX as u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectVersion {
    /// Without quotes; a weak one begins with `W/`.
    pub(super) etag: Option<String>,
    pub(super) size: u64,
    /// To the second, as headers say it.
    pub(super) modified: Timestamp,
}

impl ObjectVersion {
    pub(super) fn listed(object: &ListedObject) -> ObjectVersion {
        ObjectVersion {
            etag: object.etag.clone(),
            size: object.size,
            modified: whole_seconds(object.modified),
        }
    }

    /// That of an answer; none if it does not say how long the object is.
    pub(super) fn answered(headers: &HeaderMap) -> Option<ObjectVersion> {
        let total = match text(headers, header::CONTENT_RANGE) {
            Some(range) => range.rsplit('/').next()?,
            None => text(headers, header::CONTENT_LENGTH)?,
        };
        let size = total.trim().parse().ok();
        Some(ObjectVersion {
            etag: text(headers, header::ETAG).and_then(listing::etag),
            size: size.filter(|size| *size <= LONGEST)?,
            modified: whole_seconds(
                text(headers, header::LAST_MODIFIED).map_or(Timestamp::default(), listing::time),
            ),
        })
    }

    /// Whether an answer is of this version.
    pub(super) fn is_of(&self, answer: &ObjectVersion) -> bool {
        let is_same = match (&self.etag, &answer.etag) {
            (Some(own), Some(other)) => own == other,
            _ => self.modified == answer.modified,
        };
        is_same && self.size == answer.size
    }

    /// Whether it tells one content from another of the same length.
    pub(super) fn is_told(&self) -> bool {
        self.etag.is_some() || self.modified != Timestamp::default()
    }

    /// As `If-Match` sends it: weak ones fit nothing.
    pub(super) fn if_match(&self) -> Option<String> {
        let strong = self.etag.as_ref().filter(|tag| !tag.starts_with("W/"));
        strong.map(|tag| format!("\"{tag}\""))
    }

    pub(super) fn tag(&self) -> ObjectTag {
        match &self.etag {
            Some(tag) => ObjectTag::of(tag.as_bytes()),
            None => ObjectTag::of(&self.modified.secs.to_le_bytes()),
        }
    }

    pub(super) fn identity(&self) -> SourceIdentity {
        SourceIdentity::of_object(self.tag(), self.size)
    }
}

/// Which bytes an answer says it has.
pub(super) fn part(headers: &HeaderMap) -> Option<Range<u64>> {
    let told = text(headers, header::CONTENT_RANGE)?
        .trim()
        .strip_prefix("bytes")?;
    let (range, _) = told.trim().split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let last: u64 = last.trim().parse().ok()?;
    Some(start.trim().parse().ok()?..last.checked_add(1)?)
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp { nanos: 0, ..time }
}

pub(super) fn text(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The id of the version in a store that keeps them.
pub(super) fn version_id(headers: &HeaderMap) -> Option<String> {
    let ids = ["x-amz-version-id", "x-goog-generation", "x-ms-version-id"];
    let id = ids.iter().find_map(|id| text(headers, *id));
    id.filter(|id| !id.is_empty() && *id != "null")
        .map(str::to_owned)
}

/// How what was sent is encoded, if it is not what is stored.
pub(super) fn encoding(headers: &HeaderMap) -> Option<&str> {
    let encoding = text(headers, header::CONTENT_ENCODING)?.trim();
    let is_plain = encoding.is_empty() || ["identity", "aws-chunked"].contains(&encoding);
    (!is_plain).then_some(encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(etag: Option<&str>, size: u64, secs: i64) -> ObjectVersion {
        ObjectVersion {
            etag: etag.map(str::to_owned),
            size,
            modified: Timestamp { secs, nanos: 0 },
        }
    }

    #[test]
    fn etags_count_and_times_where_there_is_none() {
        let opened = version(Some("a"), 3, 1);
        assert!(opened.is_of(&version(Some("a"), 3, 2)));
        assert!(!opened.is_of(&version(Some("b"), 3, 1)));
        assert!(!opened.is_of(&version(Some("a"), 4, 1)));
        assert!(opened.is_of(&version(None, 3, 1)));
        assert!(!opened.is_of(&version(None, 3, 2)));
        assert_eq!(opened.if_match().as_deref(), Some("\"a\""));
        assert_eq!(version(Some("W/a"), 3, 1).if_match(), None);
        assert_ne!(version(None, 3, 1).tag(), version(None, 3, 2).tag());
    }

    #[test]
    fn answers_say_the_whole_length() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_RANGE, "bytes 0-3/17".parse().unwrap());
        headers.insert(header::CONTENT_LENGTH, "4".parse().unwrap());
        headers.insert(header::ETAG, "\"x\"".parse().unwrap());
        let found = ObjectVersion::answered(&headers).unwrap();
        assert_eq!((found.size, found.etag.as_deref()), (17, Some("x")));
        assert_eq!(part(&headers), Some(0..4));
        headers.insert(header::CONTENT_RANGE, "bytes 0-3/*".parse().unwrap());
        assert!(ObjectVersion::answered(&headers).is_none());
        headers.insert("x-amz-version-id", "null".parse().unwrap());
        assert_eq!(version_id(&headers), None);
    }
}
