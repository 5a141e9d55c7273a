//! Files of millions of chunks, made up where they are read: how many reads it takes to get far
//! into one, and that no reader waits for a walk that it does not need.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::files;
use crate::array::Array;
use crate::array::uncached::read;
use crate::codec::checksum::Checksum;
use crate::container::bloscpack::open;
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::{Fetch, ObjectTag, Source, SourceIdentity};
use crate::sync::{Condvar, Mutex};

/// Plain bytes of a chunk.
const PLAIN: u64 = 64 << 10;
/// Stored bytes of a chunk and its digest.
const STORED: u64 = PLAIN + 16 + 4;

/// Whether it is open.
type Gate = (Mutex<bool>, Condvar);

/// A file of memcpyed chunks of equal size, with the number of reads that were asked of it.
struct MadeUp {
    chunks: u64,
    table: bool,
    metadata: Vec<u8>,
    requests: AtomicU64,
    ranges: AtomicU64,
    /// Reads from here on wait for the signal.
    closed: Option<(u64, Arc<Gate>)>,
}

impl MadeUp {
    fn new(chunks: u64, table: bool) -> Self {
        MadeUp {
            chunks,
            table,
            metadata: Vec::new(),
            requests: AtomicU64::new(0),
            ranges: AtomicU64::new(0),
            closed: None,
        }
    }

    fn section(&self) -> u64 {
        32 + self.metadata.len() as u64
    }

    fn first(&self) -> u64 {
        self.section() + if self.table { 8 * self.chunks } else { 0 }
    }

    fn head(&self) -> Vec<u8> {
        let options = u8::from(self.table) | if self.metadata.is_empty() { 0 } else { 2 };
        let plain = PLAIN as i32;
        let mut head = files::header(options, 1, plain, plain, self.chunks as i64, 0).to_vec();
        head.extend_from_slice(&self.metadata);
        head
    }

    /// The run of bytes that byte `at` lies in, from that byte on.
    fn bytes(&self, at: u64) -> Vec<u8> {
        if at < self.section() {
            return self.head()[at as usize..].to_vec();
        }
        if at < self.first() {
            let (entry, within) = ((at - self.section()) / 8, (at - self.section()) % 8);
            let place = self.first() + entry * STORED;
            return place.to_le_bytes()[within as usize..].to_vec();
        }
        let (number, within) = ((at - self.first()) / STORED, (at - self.first()) % STORED);
        if within < 16 {
            return files::chunk(&vec![0; PLAIN as usize], 4096)[within as usize..16].to_vec();
        }
        let mut chunk = files::chunk(&plain_of(number), 4096);
        let digest = Checksum::Adler32.digest(&chunk);
        chunk.extend_from_slice(digest.as_bytes());
        chunk[within as usize..].to_vec()
    }

    fn fill(&self, mut at: u64, mut buf: &mut [u8]) {
        while !buf.is_empty() {
            let bytes = self.bytes(at);
            let len = bytes.len().min(buf.len());
            buf[..len].copy_from_slice(&bytes[..len]);
            buf = &mut buf[len..];
            at += len as u64;
        }
    }
}

/// No two chunks are alike.
fn plain_of(number: u64) -> Vec<u8> {
    let mut plain = vec![number as u8; PLAIN as usize];
    plain[..8].copy_from_slice(&number.to_le_bytes());
    plain
}

impl Source for MadeUp {
    fn len(&self) -> u64 {
        self.first() + self.chunks * STORED
    }

    fn identity(&self) -> SourceIdentity {
        SourceIdentity::of_object(ObjectTag::default(), self.len())
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.ranges
            .fetch_add(ranges.len() as u64, Ordering::Relaxed);
        for Fetch { offset, buf } in ranges {
            if *offset + buf.len() as u64 > self.len() {
                return Err(Error::Changed {
                    path: PathBuf::new(),
                });
            }
            if let Some((from, signal)) = &self.closed
                && *offset >= *from
            {
                let (open, changed) = &**signal;
                changed.wait_while(&mut open.lock(), |open| !*open);
            }
            self.fill(*offset, buf);
        }
        Ok(())
    }

    fn read(&self, _offset: u64, _buf: &mut [u8]) -> Result<usize> {
        Err(Error::Unsupported)
    }
}

fn array(source: &Arc<MadeUp>) -> Arc<dyn Array> {
    let source: Arc<dyn Source> = source.clone();
    let mut container = open("bloscpack", (source, false), &Budget::new(1 << 30)).unwrap();
    assert!(container.faults.is_empty(), "{:?}", container.faults);
    container.arrays.remove(0)
}

#[test]
fn opening_and_a_far_read_of_ten_million_chunks_are_at_most_seven_reads() {
    const CHUNKS: u64 = 10_000_000;
    let text = br#"{"a": 1}"#;
    for metadata in [Vec::new(), files::metadata(text, 0, text.len(), 100)] {
        for number in [1, 511, 512, 1023, 7_654_321, CHUNKS - 1] {
            let mut file = MadeUp::new(CHUNKS, true);
            file.metadata = metadata.clone();
            let source = Arc::new(file);
            let from = number * PLAIN;
            let found = read(&*array(&source), from..from + 4096).unwrap();
            assert!(found == plain_of(number)[..4096]);
            let requests = source.requests.load(Ordering::Relaxed);
            let ranges = source.ranges.load(Ordering::Relaxed);
            assert!(requests <= 7, "chunk {number}: {requests} requests");
            assert!(
                ranges <= 7 || !metadata.is_empty(),
                "chunk {number}: {ranges} ranges"
            );
        }
    }
}

#[test]
fn a_sequential_reader_of_a_table_reads_a_page_of_it_once() {
    let source = Arc::new(MadeUp::new(100_000, true));
    let array = array(&source);
    for number in 5000..5400 {
        let from = number * PLAIN;
        read(&*array, from..from + PLAIN).unwrap();
    }
    let requests = source.requests.load(Ordering::Relaxed);
    assert!(
        requests < 2 * 400 + 10,
        "{requests} requests: a header and the chunk itself for each"
    );
}

#[test]
fn a_file_without_a_table_is_walked_as_far_as_is_asked_and_once() {
    let source = Arc::new(MadeUp::new(100_000, false));
    let array = array(&source);
    let read_at = |number: u64| {
        let before = source.requests.load(Ordering::Relaxed);
        let from = number * PLAIN;
        assert!(read(&*array, from..from + 8).unwrap() == number.to_le_bytes());
        source.requests.load(Ordering::Relaxed) - before
    };
    assert!(read_at(0) <= 3);
    assert!(read_at(1) <= 3, "one step");
    assert!(read_at(50_000) > 49_000);
    assert!(read_at(50_001) <= 3, "one step");
    assert!(read_at(20_000) <= 514, "from the mark before it");
    assert!(read_at(20_001) <= 3);
}

#[test]
fn nobody_waits_for_a_walk_that_he_does_not_need() {
    let signal = Arc::new((Mutex::new(false), Condvar::new()));
    let mut file = MadeUp::new(10_000, false);
    file.closed = Some((file.first() + 5000 * STORED, Arc::clone(&signal)));
    let source = Arc::new(file);
    let array = array(&source);
    let read_at = |number: u64| read(&*array, number * PLAIN..number * PLAIN + 8).unwrap();
    std::thread::scope(|scope| {
        let far = [scope.spawn(|| read_at(9000)), scope.spawn(|| read_at(9001))];
        // While they are kept waiting by the source, chunks that are near can be read.
        for number in [0, 700, 1, 701] {
            assert!(read_at(number) == number.to_le_bytes());
        }
        *signal.0.lock() = true;
        signal.1.notify_all();
        for (number, far) in (9000u64..).zip(far) {
            assert!(far.join().unwrap() == number.to_le_bytes());
        }
    });
}
