//! A store of objects for tests: S3's listings and ranges of objects, in one process with the test,
//! and everything that may go wrong with them.
//!
//! It counts and keeps what it was asked; a test decides for each request whether it is answered
//! as it should be ([`Wrong`]). Requests need not be signed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use super::reads::sha256;

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    /// Decoded, without the bucket; of a listing the prefix.
    pub key: String,
    pub is_listing: bool,
    pub range: Option<Range<u64>>,
    pub headers: BTreeMap<String, String>,
    pub query: BTreeMap<String, String>,
}

/// How an answer is not as it should be.
#[derive(Debug, Clone)]
pub enum Wrong {
    /// This status, with these headers.
    Status(u16, Vec<(&'static str, String)>),
    /// The connection is ended before any answer.
    Reset,
    /// Nothing is answered as long as the server is there.
    Stall,
    /// Half of the body, and the end.
    Short,
    /// Another ETag than the object's.
    OtherTag,
    /// Everything, whatever range was asked for.
    NoRanges,
    /// Sent compressed, as the answer says.
    Encoded,
    /// Of a listing, a page without names, behind which there is always another.
    Endless,
    /// Other bytes, as many, and so says the answer.
    Elsewhere,
}

type Decide = dyn Fn(&Asked, usize) -> Option<Wrong> + Send + Sync;

#[derive(Default)]
struct Objects {
    /// Bytes and ETag.
    by_key: BTreeMap<String, (Arc<Vec<u8>>, String)>,
    puts: u64,
}

struct Served {
    objects: Mutex<Objects>,
    asked: Mutex<Vec<Asked>>,
    decide: Mutex<Arc<Decide>>,
    is_over: Mutex<bool>,
    over: Condvar,
}

pub struct ObjectServer {
    served: Arc<Served>,
    port: u16,
}

/// The name of its only bucket.
pub const BUCKET: &str = "bucket";

/// All objects are of this time.
const MODIFIED: &str = "Sun, 01 Nov 2026 12:00:00 GMT";
const MODIFIED_ISO: &str = "2026-11-01T12:00:00.000Z";

impl ObjectServer {
    pub fn start() -> ObjectServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Arc::new(Served {
            objects: Mutex::default(),
            asked: Mutex::default(),
            decide: Mutex::new(Arc::new(|_: &Asked, _| None)),
            is_over: Mutex::new(false),
            over: Condvar::new(),
        });
        let all = Arc::clone(&served);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if *all.is_over.lock().unwrap() {
                    return;
                }
                let served = Arc::clone(&all);
                std::thread::spawn(move || served.attend(&stream));
            }
        });
        ObjectServer { served, port }
    }

    /// With all files below a directory, under a prefix.
    pub fn of(directory: &Path, prefix: &str) -> ObjectServer {
        let server = ObjectServer::start();
        server.put_all(directory, prefix);
        server
    }

    pub fn put_all(&self, directory: &Path, prefix: &str) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let key = format!("{prefix}{name}");
            match entry.metadata().unwrap() {
                found if found.is_dir() => self.put_all(&entry.path(), &format!("{key}/")),
                found if found.is_file() => self.put(&key, std::fs::read(entry.path()).unwrap()),
                _ => {}
            }
        }
    }

    /// An object, or another version of it.
    pub fn put(&self, key: &str, bytes: Vec<u8>) {
        let mut objects = self.served.objects.lock().unwrap();
        objects.puts += 1;
        let tag = format!("{}-{}", &sha256(&bytes)[..16], objects.puts);
        objects
            .by_key
            .insert(key.to_owned(), (Arc::new(bytes), tag));
    }

    pub fn object(&self, key: &str) -> Vec<u8> {
        let objects = self.served.objects.lock().unwrap();
        objects.by_key[key].0.to_vec()
    }

    pub fn remove(&self, key: &str) {
        self.served.objects.lock().unwrap().by_key.remove(key);
    }

    /// What is to go wrong: of each request, the how many-th it is.
    pub fn decide(&self, decide: impl Fn(&Asked, usize) -> Option<Wrong> + Send + Sync + 'static) {
        *self.served.decide.lock().unwrap() = Arc::new(decide);
    }

    /// What has been asked since this was last called.
    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.served.asked.lock().unwrap())
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A URL of its bucket.
    pub fn url(&self, key: &str) -> String {
        format!("s3://{BUCKET}/{key}")
    }

    /// A URL of a web server's file.
    pub fn web_url(&self, key: &str) -> String {
        format!("{}/{BUCKET}/{key}", self.endpoint())
    }

    /// For `-o`.
    pub fn options(&self) -> Vec<String> {
        vec![format!("endpoint={}", self.endpoint()), "anonymous".into()]
    }

    /// For commands.
    pub fn flags(&self) -> Vec<String> {
        vec![
            format!("--endpoint={}", self.endpoint()),
            "--anonymous".into(),
        ]
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        *self.served.is_over.lock().unwrap() = true;
        self.served.over.notify_all();
        // Whoever accepts is to see it.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Served {
    /// Answers the requests of a connection, one after the other.
    fn attend(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(asked) = read_request(&mut reader) {
            let decide = Arc::clone(&self.decide.lock().unwrap());
            let number = {
                let mut all = self.asked.lock().unwrap();
                all.push(asked.clone());
                all.len() - 1
            };
            let wrong = decide(&asked, number);
            let mut answer = self.answer(&asked, matches!(wrong, Some(Wrong::NoRanges)));
            let mut sent = usize::MAX;
            match wrong {
                Some(Wrong::Status(status, headers)) => {
                    answer = Answer {
                        status,
                        headers,
                        body: Vec::new(),
                    };
                }
                Some(Wrong::Reset) => return drop(stream.shutdown(Shutdown::Both)),
                Some(Wrong::Stall) => {
                    let over = self.is_over.lock().unwrap();
                    drop(self.over.wait_while(over, |over| !*over).unwrap());
                    return;
                }
                Some(Wrong::Short) => sent = answer.body.len() / 2,
                Some(Wrong::OtherTag) => {
                    answer.headers.retain(|(name, _)| *name != "ETag");
                    answer.headers.push(("ETag", "\"another\"".into()));
                }
                Some(Wrong::Encoded) => answer.headers.push(("Content-Encoding", "gzip".into())),
                Some(Wrong::Endless) => {
                    let token = format!("<NextContinuationToken>{number}</NextContinuationToken>");
                    let page = format!("<ListBucketResult>{token}</ListBucketResult>");
                    answer.body = page.into_bytes();
                }
                Some(Wrong::Elsewhere) => {
                    let moved = Asked {
                        range: asked
                            .range
                            .clone()
                            .map(|range| range.start + 1..range.end + 1),
                        ..asked.clone()
                    };
                    answer = self.answer(&moved, false);
                }
                Some(Wrong::NoRanges) | None => {}
            }
            let is_head = asked.method == "HEAD";
            if write_answer(stream, &answer, is_head, sent).is_err() || sent < usize::MAX {
                return drop(stream.shutdown(Shutdown::Both));
            }
        }
    }

    fn answer(&self, asked: &Asked, is_whole: bool) -> Answer {
        let objects = self.objects.lock().unwrap();
        if asked.is_listing {
            return Answer {
                status: 200,
                headers: vec![("Content-Type", "application/xml".into())],
                body: list(&objects.by_key, asked).into_bytes(),
            };
        }
        let Some((bytes, tag)) = objects.by_key.get(&asked.key) else {
            return refusal(404, "NoSuchKey");
        };
        let (bytes, tag) = (Arc::clone(bytes), format!("\"{tag}\""));
        drop(objects);
        if asked
            .headers
            .get("if-match")
            .is_some_and(|wanted| *wanted != tag)
        {
            return refusal(412, "PreconditionFailed");
        }
        let len = bytes.len() as u64;
        let mut headers = vec![("ETag", tag), ("Last-Modified", MODIFIED.into())];
        match asked.range.clone().filter(|_| !is_whole) {
            Some(range) if range.start >= len => refusal(416, "InvalidRange"),
            Some(range) => {
                let end = range.end.min(len);
                let part = format!("bytes {}-{}/{len}", range.start, end - 1);
                headers.push(("Content-Range", part));
                let body = bytes[range.start as usize..end as usize].to_vec();
                Answer {
                    status: 206,
                    headers,
                    body,
                }
            }
            None => Answer {
                status: 200,
                headers,
                body: bytes.to_vec(),
            },
        }
    }
}

fn refusal(status: u16, code: &str) -> Answer {
    Answer {
        status,
        headers: vec![("x-amz-request-id", "REQUEST7".into())],
        body: format!("<Error><Code>{code}</Code></Error>").into_bytes(),
    }
}

/// A page of a listing.
fn list(objects: &BTreeMap<String, (Arc<Vec<u8>>, String)>, asked: &Asked) -> String {
    let most: usize = asked
        .query
        .get("max-keys")
        .map_or(1000, |most| most.parse().unwrap());
    let after = asked
        .query
        .get("continuation-token")
        .cloned()
        .unwrap_or_default();
    let (mut text, mut prefixes, mut count) = (String::new(), BTreeSet::new(), 0);
    let mut next = None;
    let below = objects.range(asked.key.clone()..);
    for (key, (bytes, tag)) in below.take_while(|(key, _)| key.starts_with(&asked.key)) {
        let name = &key[asked.key.len()..];
        let prefix = name
            .split_once('/')
            .map(|(name, _)| format!("{}{name}/", asked.key));
        let entry = prefix.clone().unwrap_or_else(|| key.clone());
        if entry <= after
            || prefix
                .as_ref()
                .is_some_and(|prefix| prefixes.contains(prefix))
        {
            continue;
        }
        if count == most {
            next = prefixes.iter().next_back().cloned().max(next_after(&text));
            break;
        }
        count += 1;
        match prefix {
            Some(prefix) => drop(prefixes.insert(prefix)),
            None => text.push_str(&format!(
                "<Contents><Key>{}</Key><LastModified>{MODIFIED_ISO}</LastModified><ETag>&quot;{tag}&quot;</ETag>\
                 <Size>{}</Size></Contents>",
                encoded(key),
                bytes.len()
            )),
        }
    }
    for prefix in prefixes {
        let prefix = encoded(&prefix);
        text.push_str(&format!(
            "<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>"
        ));
    }
    if let Some(next) = next {
        let next = encoded(&next);
        text.push_str(&format!(
            "<NextContinuationToken>{next}</NextContinuationToken>"
        ));
    }
    format!("<ListBucketResult><EncodingType>url</EncodingType>{text}</ListBucketResult>")
}

/// The last key of a text of entries.
fn next_after(text: &str) -> Option<String> {
    let (_, last) = text.rsplit_once("<Key>")?;
    Some(decoded(last.split_once("</Key>")?.0))
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let each = text.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    each.collect()
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1..at + 3)) {
            (b'%', Some(hex)) => {
                let hex = std::str::from_utf8(hex).unwrap();
                out.push(u8::from_str_radix(hex, 16).unwrap());
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap()
}

fn read_request(reader: &mut impl BufRead) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut first = lines.first()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let pairs = lines[1..].iter().filter_map(|line| line.split_once(": "));
    let headers: BTreeMap<String, String> = pairs
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query: BTreeMap<String, String> = pairs
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect();
    let range = headers.get("range").map(|range| {
        let (start, end) = range
            .strip_prefix("bytes=")
            .unwrap()
            .split_once('-')
            .unwrap();
        start.parse().unwrap()..end.parse::<u64>().unwrap() + 1
    });
    let path = decoded(path);
    let key = path
        .trim_start_matches('/')
        .strip_prefix(BUCKET)
        .unwrap_or("");
    let key = key.strip_prefix('/').unwrap_or(key).to_owned();
    let is_listing = query.contains_key("list-type");
    Some(Asked {
        method,
        key: if is_listing {
            query["prefix"].clone()
        } else {
            key
        },
        is_listing,
        range,
        headers,
        query,
    })
}

fn write_answer(
    mut stream: &TcpStream,
    answer: &Answer,
    is_head: bool,
    sent: usize,
) -> std::io::Result<()> {
    let mut text = format!("HTTP/1.1 {} X\r\n", answer.status);
    for (name, value) in &answer.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n", answer.body.len()));
    let mut all = text.into_bytes();
    if !is_head {
        all.extend(&answer.body[..sent.min(answer.body.len())]);
    }
    stream.write_all(&all)
}
