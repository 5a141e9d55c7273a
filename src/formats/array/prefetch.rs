//! Read-ahead for sequential readers: the next blocks are decoded by worker threads while the
//! reader still copies the last ones.
//!
//! A [`ReadAhead`] belongs to an open file and recognises sequential reading; [`ReadAheadWorkers`]
//! decode. No request waits for read-ahead and nothing depends on it: tasks are dropped when the
//! queue or memory is full.
//!
//! The bytes that such a reader has passed are in the kernel's page cache; keeping the decoded
//! blocks as well would only push out others, so a stream also says what it has passed. Their
//! memory is still in the processor's caches when the next blocks are decoded into it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::read::CachedArray;
use super::strided::StridedReads;
use crate::sync::Mutex;
use crate::workers::WorkerThreads;

/// The kernel's own read-ahead asks out of order, by about this much.
const DISORDER: u64 = 1 << 20;

/// The kernel reads so much around a page that a mapping touches, in several requests that look
/// like the start of a sequence. The blocks behind would be decoded in vain.
const AROUND: u64 = 512 << 10;

/// So far back it counts how much of what a reader went through it has read.
const REMEMBERED: u64 = 4 << 20;

/// A task for one worker: about as much as one request.
const TASK: u64 = 512 << 10;

/// Largest distance ahead of the reader, before the cache's size limits it.
const FARTHEST: u64 = 4 << 20;

/// Of a source that is far away so many stored bytes are under way at least, once it is a sequence.
const FETCHED_LEAST: u64 = 1 << 20;
/// And at most, before the cache's size limits it.
const FETCHED_MOST: u64 = 32 << 20;

/// It is asked for in so many parts, of as many bytes at least.
const FETCH_PARTS: u64 = 8;
const FETCH_PART: u64 = 512 << 10;

/// Decoded bytes that are named at a time, however few are stored of them: each block is looked up.
const NAMED_MOST: u64 = 256 << 20;
/// And by the thread that reads, with what it reads.
const NAMED_WITH: u64 = 16 << 20;

/// Threads that name what is asked for: some wait for an index.
const FETCHING: usize = 4;

/// Recognises sequential reading of one open file.
pub struct ReadAhead {
    state: Mutex<ReaderPosition>,
    farthest: u64,
    far: Option<Box<FarWindow>>,
}

/// How far ahead stored bytes are asked for, of an array that is far away.
struct FarWindow {
    /// Stored bytes.
    most: u64,
    /// Decoded bytes of a stored one.
    ratio: f64,
    /// Stored bytes of a block, in the middle.
    block: u64,
    strided: Mutex<StridedReads>,
}

#[derive(Default)]
struct ReaderPosition {
    /// Where the sequence began.
    start: u64,
    /// Where the reader is expected next.
    next: u64,
    /// Where read-ahead has been ordered up to.
    ordered: u64,
    /// About how many bytes between the two it has not read.
    skipped: u64,
    /// How far ahead to go; 0 until it is a sequence.
    window: u64,
    /// Where the reader has been and will not come back to.
    passed: u64,
    /// Where stored bytes have been asked for up to, and how many of them at a time.
    fetched: u64,
    fetch_window: u64,
}

/// What a read in sequence calls for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Advance {
    /// Bytes to decode ahead.
    pub ahead: Option<Range<u64>>,
    /// Bytes that have been read.
    pub passed: Option<Range<u64>>,
    /// Bytes whose stored form is to be asked for, of an array that is far away.
    pub fetch: Option<Range<u64>>,
    /// Such bytes of which the read itself is the beginning: one request has them all.
    pub fetch_with: Option<Range<u64>>,
    /// As `fetch`, of a reader that goes on in strides.
    pub strides: Vec<Range<u64>>,
}

impl ReadAhead {
    /// `cache_limit`: one stream keeps at most an eighth of the cache busy.
    pub fn new(cache_limit: u64) -> Self {
        ReadAhead {
            state: Mutex::default(),
            farthest: FARTHEST.min(cache_limit / 8).max(2 * TASK),
            far: None,
        }
    }

    /// For a reader of this array.
    pub fn of(array: &CachedArray, cache_limit: u64) -> Self {
        let info = array.is_far.then(|| array.array.info());
        let most = FETCHED_MOST.min(cache_limit / 8).max(FETCHED_LEAST);
        let far = info.and_then(Result::ok).map(|info| {
            let stored = info.stored().unwrap_or(info.bytes);
            FarWindow {
                most,
                ratio: array.bytes as f64 / stored.max(1) as f64,
                block: stored / info.blocks.max(1),
                strided: Mutex::default(),
            }
        });
        ReadAhead {
            far: far.map(Box::new),
            ..ReadAhead::new(cache_limit)
        }
    }

    /// Notes a read and says what it calls for: nothing if it is past the end, where a range may
    /// even end before it starts.
    pub fn advance(&self, range: Range<u64>, size: u64) -> Advance {
        if range.start >= range.end {
            return Advance::default();
        }
        let mut state = self.state.lock();
        // Small reads are an application's own; two that happen to be near are no sequence.
        let disorder = DISORDER.min((range.end - range.start).saturating_mul(8));
        let sequential = range.start <= state.next.saturating_add(disorder)
            && range.end.saturating_add(disorder) >= state.next
            && state.next > 0;
        if !sequential {
            let strides = self.strides(&state, &range, size);
            *state = ReaderPosition {
                start: range.start,
                next: range.end,
                ordered: range.end,
                skipped: 0,
                window: 0,
                passed: range.start,
                fetched: range.end,
                fetch_window: 0,
            };
            // Who begins at the beginning goes on, more often than not.
            let begins = range.start == 0 && self.far.is_some();
            let most = range.end.saturating_add(NAMED_WITH);
            let with = begins.then(|| self.fetch(&mut state, most.min(size)));
            let with = with.flatten();
            return Advance {
                fetch_with: with.map(|behind| 0..behind.end),
                strides,
                ..Advance::default()
            };
        }
        state.go_through(&range);
        if range.end <= state.next {
            return Advance::default();
        }
        state.next = range.end;
        if state.next - state.start <= AROUND || state.leaves_most_out() {
            state.ordered = state.next;
            // A request far away takes longer than reading a little in vain.
            let goes_on = !state.leaves_most_out() && !self.is_strided();
            return Advance {
                fetch: goes_on.then(|| self.fetch(&mut state, size)).flatten(),
                ..Advance::default()
            };
        }
        Advance {
            fetch: self.fetch(&mut state, size),
            ahead: self.order(&mut state, size),
            passed: pass(&mut state),
            ..Advance::default()
        }
    }

    /// What the next reads of a stride need, which are as long as the last one was.
    fn strides(&self, state: &ReaderPosition, range: &Range<u64>, size: u64) -> Vec<Range<u64>> {
        let len = (state.next - state.start).max(range.end - range.start);
        let far = self.far.as_ref().filter(|_| len <= TASK);
        far.map_or_else(Vec::new, |far| {
            let stored = (len as f64 / far.ratio) as u64;
            let places = far.most / far.block.saturating_add(stored).max(1);
            let mut strided = far.strided.lock();
            strided.note(range.start, len, size, places)
        })
    }

    fn is_strided(&self) -> bool {
        let far = self.far.as_ref();
        far.is_some_and(|far| far.strided.lock().is_recognised())
    }

    /// A part of a window at a time, so that the line is never empty; each window is four times as
    /// long as the one before, as it takes a round trip until the next one counts.
    fn fetch(&self, state: &mut ReaderPosition, size: u64) -> Option<Range<u64>> {
        let far = self.far.as_ref()?;
        let window = (state.fetch_window * 4).clamp(FETCHED_LEAST, far.most);
        let of_stored = |stored: u64| (stored as f64 * far.ratio) as u64;
        let decoded = of_stored(window).clamp(2 * TASK, NAMED_MOST);
        let part = of_stored(FETCH_PART).max(decoded / FETCH_PARTS);
        let to = state.next.saturating_add(decoded).min(size);
        let from = state.fetched.max(state.next);
        if to <= from || (to - from < part.min(decoded / 2) && to < size) {
            return None;
        }
        (state.fetch_window, state.fetched) = (window, to);
        Some(from..to)
    }

    /// Half a window at a time: fewer, larger orders.
    fn order(&self, state: &mut ReaderPosition, size: u64) -> Option<Range<u64>> {
        state.window = (state.window * 2).clamp(2 * TASK, self.farthest);
        let ahead = state.next.saturating_add(state.window).min(size);
        let from = state.ordered.max(state.next);
        if ahead <= from || (ahead - from < state.window / 2 && ahead < size) {
            return None;
        }
        state.ordered = ahead;
        Some(from..ahead)
    }
}

impl ReaderPosition {
    /// Counts what a read that belongs to the sequence leaves out, and what was left out before it.
    fn go_through(&mut self, range: &Range<u64>) {
        self.start = self.start.min(range.start);
        self.skipped = match range.start.checked_sub(self.next) {
            Some(left_out) => self.skipped.saturating_add(left_out),
            None => self
                .skipped
                .saturating_sub(range.end.min(self.next) - range.start),
        };
        if self.next - self.start > REMEMBERED {
            self.start = self.next - REMEMBERED / 2;
            self.skipped /= 2;
        }
    }

    /// A column of a table, read element by element: what lies between is wanted by nobody.
    fn leaves_most_out(&self) -> bool {
        self.skipped > (self.next - self.start) / 2
    }
}

/// At least a task's worth at a time; what the kernel may still ask for out of order stays.
fn pass(state: &mut ReaderPosition) -> Option<Range<u64>> {
    let to = state.next.saturating_sub(DISORDER);
    if to < state.passed.saturating_add(TASK) {
        return None;
    }
    let from = std::mem::replace(&mut state.passed, to);
    Some(from..to)
}

/// Tasks that wait at most: more do not help a reader that is so far behind them.
const WAITING: usize = 256;

/// The threads that decode ahead. Dropping them ends the threads.
pub struct ReadAheadWorkers {
    decoding: WorkerThreads,
    /// Names and asks for what is far away: whoever decodes may be waiting for it. Begun by the
    /// first array that is.
    fetching: OnceLock<Option<WorkerThreads>>,
}

impl ReadAheadWorkers {
    pub fn new(threads: usize) -> std::io::Result<Self> {
        Ok(ReadAheadWorkers {
            decoding: WorkerThreads::new("readahead", threads, WAITING)?,
            fetching: OnceLock::new(),
        })
    }

    /// Orders what a reader calls for.
    pub fn follow(&self, array: &Arc<CachedArray>, advance: &Advance) {
        if let Some(range) = advance.fetch_with.clone() {
            array.fetch_ahead(range);
        }
        let further = advance.fetch.iter().chain(&advance.strides);
        let further: Vec<_> = further.cloned().collect();
        if !further.is_empty() {
            self.fetch_ahead(array, further);
        }
        if let Some(range) = advance.ahead.clone() {
            self.order(array, range);
        }
    }

    /// Orders a range of the array's own bytes.
    fn order(&self, array: &Arc<CachedArray>, range: Range<u64>) {
        let mut at = range.start;
        while at < range.end {
            let end = (at - at % TASK + TASK).min(range.end);
            let array = Arc::downgrade(array);
            // The file may have been closed meanwhile. What cannot be decoded the reader meets, and
            // reports.
            let decode = move || {
                if let Some(array) = array.upgrade() {
                    array.prefetch(at..end);
                }
            };
            if !self.decoding.order(decode) {
                return;
            }
            at = end;
        }
    }

    /// Orders that a source which is far away is asked for all of them at once.
    fn fetch_ahead(&self, array: &Arc<CachedArray>, ranges: Vec<Range<u64>>) {
        let begin = || WorkerThreads::new("fetchahead", FETCHING, WAITING).ok();
        if let Some(fetching) = self.fetching.get_or_init(begin) {
            let array = Arc::downgrade(array);
            fetching.order(move || {
                if let Some(array) = array.upgrade() {
                    for range in ranges {
                        array.fetch_ahead(range);
                    }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn sequential_reading_is_recognised_and_ordered_once() {
        let stream = ReadAhead::new(1 << 30);
        let size = 64 * MIB;
        let (mut ordered, mut left_behind) = (0, 0);
        for i in 0..512u64 {
            let at = i * (size / 512);
            let advance = stream.advance(at..at + size / 512, size);
            if let Some(passed) = advance.passed {
                assert_eq!(passed.start, left_behind);
                left_behind = passed.end;
                assert!(left_behind <= at);
            }
            if let Some(range) = advance.ahead {
                assert!(range.start >= ordered && range.end > range.start);
                assert!(range.end <= at + size / 512 + FARTHEST);
                ordered = range.end;
            }
        }
        assert_eq!(ordered, size);
        assert!(left_behind > size - 3 * MIB);
    }

    #[test]
    fn of_what_is_far_away_stored_bytes_are_asked_for_in_windows_that_grow() {
        let stream = ReadAhead {
            far: Some(Box::new(FarWindow {
                most: FETCHED_MOST,
                ratio: 2.0,
                block: 1 << 20,
                strided: Mutex::default(),
            })),
            ..ReadAhead::new(1 << 30)
        };
        let size = 512 * MIB;
        let (mut fetched, mut longest) = (0, 0);
        for at in (0..size).step_by(MIB as usize / 8) {
            let advance = stream.advance(at..at + MIB / 8, size);
            if let Some(range) = advance.fetch.or(advance.fetch_with) {
                assert!(range.start >= fetched && range.start >= at);
                fetched = range.end;
                longest = longest.max(fetched - at);
            }
        }
        assert_eq!(fetched, size);
        assert!((60 * MIB..=65 * MIB).contains(&longest), "{longest}");
    }

    #[test]
    fn disorder_of_the_kernel_does_not_disturb() {
        let stream = ReadAhead::new(1 << 30);
        let mut orders = 0;
        for pair in 0..100u64 {
            for at in [2 * pair + 1, 2 * pair] {
                let at = at * (MIB / 8);
                orders += u32::from(stream.advance(at..at + MIB / 8, 64 * MIB).ahead.is_some());
            }
        }
        assert!(orders > 3);
    }

    #[test]
    fn random_reading_orders_nothing() {
        let stream = ReadAhead::new(1 << 30);
        for i in 0..100u64 {
            let at = (i * 37 % 100) * 16 * MIB;
            assert_eq!(
                stream.advance(at..at + 4096, 2000 * MIB),
                Advance::default()
            );
        }
    }

    #[test]
    fn reading_around_pages_orders_nothing() {
        let stream = ReadAhead::new(1 << 30);
        for page in [90, 3, 50, 4, 700] {
            let at = page * MIB;
            for part in [at..at + MIB / 4, at + MIB / 4..at + MIB / 2] {
                assert_eq!(stream.advance(part, 2000 * MIB).ahead, None);
            }
        }
    }

    #[test]
    fn a_column_of_a_table_orders_nothing_between_its_elements() {
        let stream = ReadAhead::new(1 << 30);
        let (row, size) = (24_000, 24_000 * 20_000);
        for column in 0..20_000u64 {
            let page = column * row / 4096 * 4096;
            assert_eq!(stream.advance(page..page + 4096, size), Advance::default());
        }
        // The whole table afterwards is read ahead soon.
        let mut ordered = 0;
        for at in (0..64 * MIB).step_by(MIB as usize / 8) {
            let ahead = stream.advance(at..at + MIB / 8, size).ahead;
            ordered += ahead.map_or(0, |ahead| ahead.end - ahead.start);
        }
        assert!(ordered > 60 * MIB);
    }

    #[test]
    fn reading_past_the_end_changes_nothing() {
        let stream = ReadAhead::new(1 << 30);
        let size = 64 * MIB;
        stream.advance(0..MIB, size);
        for past in [size..size, size + MIB..size, u64::MAX..size] {
            assert_eq!(stream.advance(past, size), Advance::default());
        }
        let expected = Some(2 * MIB..2 * MIB + 2 * TASK);
        assert_eq!(stream.advance(MIB..2 * MIB, size).ahead, expected);
    }
}
