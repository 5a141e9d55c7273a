//! What an answer that is no success means, and what to do about it. Used by [`super::transport`].

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::cloud::Cloud;
use super::listing;
use super::transport::Answer;
use super::url::Provider;
use crate::error::Error;

/// A server may not ask for a longer pause.
const RETRY_AFTER_MOST: Duration = Duration::from_secs(300);

/// The status that this program gives to a server that sends everything whatever is asked for.
const NO_RANGES: StatusCode = StatusCode::NOT_IMPLEMENTED;
const NO_RANGES_CODE: &str = "arrayfs: ranges are ignored";

pub(super) struct AnswerRefusal {
    status: StatusCode,
    /// `NoSuchKey`, where the store says one.
    code: String,
    request: Option<String>,
    region: Option<String>,
    pub(super) retry_after: Option<Duration>,
}

/// Whether it may go better in a moment.
pub(super) fn may_pass(answer: &Answer) -> bool {
    match answer.status.as_u16() {
        408 | 429 | 500 | 502 | 503 | 504 => true,
        501 | 505.. => false,
        _ => false,
    }
}

/// A server has sent, or would send, more than was asked for.
pub(super) fn no_ranges(headers: HeaderMap) -> Answer {
    Answer {
        status: NO_RANGES,
        headers,
        body: format!("<Error><Code>{NO_RANGES_CODE}</Code></Error>")
            .into_bytes()
            .into(),
        bytes: 0,
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl AnswerRefusal {
    pub(super) fn of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> AnswerRefusal {
        let code = listing::text_of(body, "Code");
        let code = code.or_else(|| header(headers, "x-ms-error-code").map(str::to_owned));
        let ids = [
            "x-amz-request-id",
            "x-ms-request-id",
            "x-guploader-uploadid",
            "x-request-id",
        ];
        let wait = header(headers, "retry-after").and_then(|text| text.trim().parse().ok());
        AnswerRefusal {
            status,
            code: code.unwrap_or_default(),
            request: ids
                .iter()
                .find_map(|id| header(headers, id))
                .map(str::to_owned),
            region: header(headers, "x-amz-bucket-region").map(str::to_owned),
            retry_after: wait.map(|secs| Duration::from_secs(secs).min(RETRY_AFTER_MOST)),
        }
    }

    /// What a program gets; `doing` names what was asked for.
    pub(super) fn error(&self, cloud: &Cloud, doing: &str) -> Error {
        let failed = |errno, why: &str| {
            let doing = format!("{doing}: {why}");
            Error::io(doing, std::io::Error::from_raw_os_error(errno))
        };
        let status = self.status.as_u16();
        match (status, &*self.code) {
            (_, NO_RANGES_CODE) => failed(
                libc::EIO,
                "the server ignores ranges, and the file is too long to be read whole",
            ),
            (_, "NoSuchBucket" | "ContainerNotFound") => {
                failed(libc::ENOENT, "there is no such bucket")
            }
            (404 | 410, _) => Error::NotFound,
            (412 | 416, _) => Error::Changed { path: doing.into() },
            (_, "InvalidObjectState" | "BlobArchived") => {
                failed(libc::EIO, "it is archived; restore it first")
            }
            (_, "RequestTimeTooSkewed") => failed(
                libc::EACCES,
                "the clock of this host is wrong, and signatures with it",
            ),
            (301 | 307 | 400, _) if self.is_elsewhere(cloud) => {
                let region = self.region.as_deref().unwrap_or_default();
                let bucket = &cloud.url.bucket;
                let why = format!("bucket {bucket} is in {region}: -o region={region}");
                failed(libc::EINVAL, &why)
            }
            (401 | 403, _) => {
                let hint = match cloud.url.provider {
                    Provider::Web => "",
                    _ if cloud.is_anonymous() => "; without -o anonymous requests are signed",
                    _ => "; -o anonymous reads public buckets",
                };
                failed(libc::EACCES, &format!("{self}{hint}"))
            }
            _ => failed(libc::EIO, &self.to_string()),
        }
    }

    fn is_elsewhere(&self, cloud: &Cloud) -> bool {
        let region = self.region.as_ref();
        region.is_some_and(|region| *region != cloud.region)
    }
}

impl fmt::Display for AnswerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.status.canonical_reason().unwrap_or("refused");
        write!(f, "{} {reason}", self.status.as_u16())?;
        if !self.code.is_empty() {
            // A server may say anything.
            let code: String = self
                .code
                .chars()
                .filter(|c| !c.is_control())
                .take(100)
                .collect();
            write!(f, " ({code})")?;
        }
        match &self.request {
            Some(request) => write!(f, ", request {request}"),
            None => Ok(()),
        }
    }
}
