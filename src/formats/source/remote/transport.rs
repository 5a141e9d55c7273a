//! Requests: signed, counted, repeated where that helps, and over within the timeout.
//!
//! One way for objects and listings of all stores. A request that fails by the network, by a server
//! that is overloaded or by an answer that ends early is made again after a pause of random length,
//! or as long as the server asks for. What an answer means is said here ([`AnswerRefusal`]);
//! whether it is the version that was opened, by [`super::object`]. No text has a query, a
//! signature or a user's name in it. Used by [`super::store`] and [`super::object`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::sync::Semaphore;
use url::Url;

use super::body::Body;
use super::client::{self, HostRule};
use super::cloud::{Cloud, PageOf};
use super::refusal::{self, AnswerRefusal};
use super::settings::RemoteSettings;
use super::url::SourceUrl;
use crate::error::{Error, Result};
use crate::sync::Mutex;

/// Requests that are under way at once.
pub(super) const IN_FLIGHT: usize = 64;

/// So often a request is made, if it fails in a way that may pass.
const ATTEMPTS: u32 = 8;
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

const REDIRECTS: usize = 10;

/// Most bytes of a page of a listing, and of what a server says when it refuses.
const TOLD_MOST: u64 = 16 << 20;
const REFUSAL_MOST: u64 = 64 << 10;

/// An object that a server sends whole, whatever range is asked for, may be so long.
pub(super) const WHOLE_MOST: u64 = 16 << 20;

#[derive(Default)]
pub(super) struct TransportCounters {
    pub(super) requests: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) failures: AtomicU64,
    /// Of bodies.
    pub(super) bytes: AtomicU64,
    /// From the question to the end of the answer, of all requests.
    pub(super) nanos: AtomicU64,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) enum Question<'a> {
    Page(PageOf<'a>),
    Object(ObjectQuestion<'a>),
}

#[derive(Debug, Clone)]
pub(super) struct ObjectQuestion<'a> {
    pub(super) key: &'a str,
    /// By its id, in a store that keeps versions.
    pub(super) version: Option<&'a str>,
    /// A strong ETag.
    pub(super) if_match: Option<&'a str>,
    /// None: what it is, without its bytes.
    pub(super) range: Option<Range<u64>>,
}

pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// Of one that has everything, the bytes that were asked for.
    pub(super) body: Body,
    /// How many there were.
    pub(super) bytes: u64,
}

/// What one attempt comes to.
enum Attempt {
    Answered(Answer),
    /// It may go better.
    Failed(String, Option<Duration>),
    Over(Error),
}

pub(super) struct Transport {
    client: reqwest::Client,
    rule: Arc<HostRule>,
    pub(super) cloud: Cloud,
    timeout: Duration,
    in_flight: Semaphore,
    /// Where a web server has led to, which may expire.
    led_to: Mutex<Option<Url>>,
    pub(super) counters: TransportCounters,
}

impl Transport {
    pub(super) fn new(url: &SourceUrl, settings: &RemoteSettings) -> Result<Transport> {
        client::provide_cryptography();
        let cloud = Cloud::new(url, settings)?;
        let rule = HostRule::of(cloud.host());
        Ok(Transport {
            client: client::build(&rule)?,
            rule,
            cloud,
            timeout: settings.timeout(),
            in_flight: Semaphore::new(IN_FLIGHT),
            led_to: Mutex::default(),
            counters: TransportCounters::default(),
        })
    }

    /// As messages call what is asked for.
    pub(super) fn name(&self, question: &Question<'_>) -> String {
        let url = &self.cloud.url;
        let of_bucket = |key: &str| {
            let key = key.to_owned();
            SourceUrl { key, ..url.clone() }.shown()
        };
        match question {
            Question::Page(page) => format!("{}: listing", of_bucket(page.prefix)),
            Question::Object(object) => match &object.range {
                Some(range) => {
                    format!(
                        "{}: bytes {}..{}",
                        of_bucket(object.key),
                        range.start,
                        range.end
                    )
                }
                None => of_bucket(object.key),
            },
        }
    }

    /// Answers of 2xx alone.
    pub(super) async fn ask(&self, question: &Question<'_>) -> Result<Answer> {
        let deadline = Instant::now() + self.timeout;
        let answered = self.answered(question, deadline).await;
        if answered.is_err() {
            self.counters.failures.fetch_add(1, Ordering::Relaxed);
        }
        let answer = answered?;
        match answer.status.is_success() {
            true => Ok(answer),
            false => Err(self.refused(question, &answer)),
        }
    }

    async fn answered(&self, question: &Question<'_>, deadline: Instant) -> Result<Answer> {
        let mut attempts = 0;
        loop {
            let attempt = tokio::time::timeout_at(deadline.into(), self.attempt(question)).await;
            let (why, wished) = match attempt {
                Ok(Attempt::Answered(answer)) => return Ok(answer),
                Ok(Attempt::Over(error)) => return Err(error),
                Ok(Attempt::Failed(why, wished)) => (why, wished),
                Err(_) => return Err(self.timed_out(question, "no whole answer")),
            };
            attempts += 1;
            let pause = wished.unwrap_or_else(|| pause_after(attempts));
            if attempts >= ATTEMPTS {
                let doing = format!("{}: {why}, {attempts} times", self.name(question));
                return Err(Error::io(
                    doing,
                    std::io::Error::from_raw_os_error(libc::EIO),
                ));
            }
            if Instant::now() + pause >= deadline {
                return Err(self.timed_out(question, &why));
            }
            log::debug!("{}: {why}; asked again in {pause:?}", self.name(question));
            self.counters.retries.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(pause).await;
        }
    }

    fn timed_out(&self, question: &Question<'_>, why: &str) -> Error {
        let doing = format!("{}: {why} within {:?}", self.name(question), self.timeout);
        Error::io(doing, std::io::Error::from_raw_os_error(libc::ETIMEDOUT))
    }

    fn refused(&self, question: &Question<'_>, answer: &Answer) -> Error {
        let refusal = AnswerRefusal::of(answer.status, &answer.headers, &answer.body);
        refusal.error(&self.cloud, &self.name(question))
    }

    async fn attempt(&self, question: &Question<'_>) -> Attempt {
        // Nobody closes it.
        let _permit = self.in_flight.acquire().await;
        let begun = Instant::now();
        let attempt = self.follow(question).await;
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counters.nanos.fetch_add(nanos, Ordering::Relaxed);
        log::trace!("{}: {:.1?}", self.name(question), begun.elapsed());
        match attempt {
            Attempt::Answered(answer) if refusal::may_pass(&answer) => {
                let refusal = AnswerRefusal::of(answer.status, &answer.headers, &answer.body);
                Attempt::Failed(refusal.to_string(), refusal.retry_after)
            }
            other => other,
        }
    }

    /// Of a web server, along its redirects.
    async fn follow(&self, question: &Question<'_>) -> Attempt {
        let url = match question {
            Question::Page(page) => Ok(self.cloud.page(page)),
            Question::Object(object) => self.cloud.object(object.key, object.version),
        };
        let own = match url {
            Ok(url) => url,
            Err(e) => return Attempt::Over(e),
        };
        let known = self
            .led_to
            .lock()
            .clone()
            .filter(|_| self.cloud.url.is_web());
        let (mut url, was_known) = (
            known.clone().unwrap_or_else(|| own.clone()),
            known.is_some(),
        );
        for _ in 0..REDIRECTS {
            let answer = match self.once(question, &url).await {
                Attempt::Answered(answer) => answer,
                other => {
                    if was_known {
                        *self.led_to.lock() = None;
                    }
                    return other;
                }
            };
            let location = answer.headers.get(header::LOCATION);
            let location = location.and_then(|location| location.to_str().ok());
            match location {
                Some(location) if self.cloud.url.is_web() && answer.status.is_redirection() => {
                    match self.rule.led_to(&url, location) {
                        Ok(next) => url = next,
                        Err(why) => return Attempt::Over(self.not_followed(question, &why)),
                    }
                }
                _ if was_known && answer.status.is_client_error() => {
                    *self.led_to.lock() = None;
                    return Attempt::Failed(
                        "the redirect has expired".into(),
                        Some(Duration::ZERO),
                    );
                }
                _ => {
                    *self.led_to.lock() = Some(url).filter(|url| *url != own);
                    return Attempt::Answered(answer);
                }
            }
        }
        Attempt::Over(self.not_followed(question, "leads in circles"))
    }

    fn not_followed(&self, question: &Question<'_>, why: &str) -> Error {
        let cause = std::io::Error::from_raw_os_error(libc::EACCES);
        Error::io(format!("{}: the answer {why}", self.name(question)), cause)
    }

    async fn once(&self, question: &Question<'_>, url: &Url) -> Attempt {
        let (method, headers) = asked(question);
        let request = match self.cloud.signed(method, url, headers).await {
            Ok(request) => request,
            Err(e) => return Attempt::Over(e),
        };
        let (parts, _) = request.into_parts();
        // A user's name and password in the URL become a header.
        let url = match self.cloud.signs_urls() {
            true => Url::parse(&parts.uri.to_string()).unwrap_or_else(|_| url.clone()),
            false => url.clone(),
        };
        let request = self.client.request(parts.method, url);
        let request = request.headers(parts.headers);
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let asked = match question {
            Question::Object(object) => object.range.clone(),
            Question::Page(_) => None,
        };
        match request.send().await {
            Ok(response) => self.body(response, asked).await,
            Err(e) if client::is_led_inside(&e) => {
                Attempt::Over(self.not_followed(question, &client::innermost(&e)))
            }
            Err(e) => Attempt::Failed(client::innermost(&e), None),
        }
    }

    /// Takes all of an answer, and keeps what was asked for of it.
    async fn body(&self, mut response: reqwest::Response, asked: Option<Range<u64>>) -> Attempt {
        let (status, headers) = (response.status(), response.headers().clone());
        let whole = asked.clone().filter(|_| status == StatusCode::OK);
        let most = match (status.is_success(), &asked) {
            (true, Some(_)) if whole.is_some() => WHOLE_MOST,
            (true, Some(asked)) => asked.end - asked.start,
            (true, None) => TOLD_MOST,
            (false, _) => REFUSAL_MOST,
        };
        let told = response.content_length();
        if whole.is_some() && told.is_none_or(|told| told > most) {
            return Attempt::Answered(refusal::no_ranges(headers));
        }
        let kept = whole.unwrap_or(0..most);
        let room = told.unwrap_or(0).min(kept.end.saturating_sub(kept.start));
        let no_room = || Attempt::Over(crate::memory::no_memory("an answer of a remote source"));
        let (Some(mut body), mut at) = (Body::with_room(room as usize), 0u64) else {
            return no_room();
        };
        loop {
            let bytes = match response.chunk().await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                Err(e) => return Attempt::Failed(client::innermost(&e), None),
            };
            let end = at + bytes.len() as u64;
            self.counters.bytes.fetch_add(end - at, Ordering::Relaxed);
            if end > most && !status.is_success() {
                break;
            }
            if end > most {
                return Attempt::Failed("the answer is longer than it may be".into(), None);
            }
            let skip = kept.start.saturating_sub(at).min(end - at) as usize;
            let take = kept.end.saturating_sub(at).min(end - at) as usize;
            let part = bytes.get(skip..take).unwrap_or(&[]);
            if body.try_reserve(part.len()).is_err() {
                return no_room();
            }
            body.extend_from_slice(part);
            at = end;
        }
        if status.is_success() && told.is_some_and(|told| told > at) {
            return Attempt::Failed("the answer ended early".into(), None);
        }
        Attempt::Answered(Answer {
            status,
            headers,
            body,
            bytes: at,
        })
    }
}

fn asked(question: &Question<'_>) -> (Method, HeaderMap) {
    let mut headers = HeaderMap::new();
    let Question::Object(object) = question else {
        return (Method::GET, headers);
    };
    let text = object
        .if_match
        .and_then(|tag| HeaderValue::from_str(tag).ok());
    if let Some(tag) = text {
        headers.insert(header::IF_MATCH, tag);
    }
    let Some(range) = &object.range else {
        return (Method::HEAD, headers);
    };
    let text = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.insert(header::RANGE, value);
    }
    (Method::GET, headers)
}

/// Twice as long each time, and of random length, so that those who failed together do not come
/// back together.
fn pause_after(attempts: u32) -> Duration {
    let longest = SHORTEST_PAUSE
        .saturating_mul(1 << attempts.min(16))
        .min(LONGEST_PAUSE);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let random = now.map_or(0, |now| now.subsec_nanos().wrapping_mul(2_654_435_761) >> 8);
    let part = f64::from(random) / f64::from(u32::MAX >> 8);
    SHORTEST_PAUSE / 2 + longest.mul_f64(part.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_have_an_end() {
        for attempts in 0..40 {
            let pause = pause_after(attempts);
            assert!(pause >= SHORTEST_PAUSE / 2 && pause <= LONGEST_PAUSE + SHORTEST_PAUSE);
        }
    }
}
