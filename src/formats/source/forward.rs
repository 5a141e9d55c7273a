//! A window on a source that moves forward, for reading what lies close together.
//!
//! Headers, counts and entries are small and stand one behind the other: each read brings what
//! follows along, more of it the longer reading stays dense, and little where the reader leaps. The
//! memory is the reader's and is never exceeded. Used by the formats that walk.

use super::Source;
use crate::error::{Error, Fault, Result};

/// Read after a leap: a header and what may follow it.
const LEAST: usize = 512;

pub struct ForwardWindow<'s, 'b> {
    source: &'s dyn Source,
    /// Nothing is read from here on.
    limit: u64,
    /// Read at the next refill; grows while reading is dense.
    next: usize,
    /// Most that is read for less.
    most: usize,
    /// Where the bytes at hand begin in the source.
    start: u64,
    buf: &'b mut [u8],
    filled: usize,
}

impl<'s, 'b> ForwardWindow<'s, 'b> {
    /// Reads nothing beyond `limit`, into `buf`, whose content does not matter.
    pub fn new(source: &'s dyn Source, limit: u64, buf: &'b mut [u8]) -> Self {
        ForwardWindow {
            source,
            limit: limit.min(source.len()),
            next: LEAST.min(buf.len()),
            most: buf.len(),
            start: 0,
            buf,
            filled: 0,
        }
    }

    /// A window that is read in full at once: everything in it is wanted.
    pub fn eager(source: &'s dyn Source, limit: u64, buf: &'b mut [u8]) -> Self {
        ForwardWindow {
            next: buf.len(),
            ..ForwardWindow::new(source, limit, buf)
        }
    }

    /// Reads at most so much at once, for callers that may need less.
    pub fn at_once(self, most: usize) -> Self {
        ForwardWindow {
            most: most.min(self.buf.len()),
            ..self
        }
    }

    /// What is at hand from `at` on: at least `want` bytes, or a fault. `want` is at most the
    /// length of the window's memory.
    #[inline]
    pub fn bytes(&mut self, at: u64, want: usize) -> Result<&[u8]> {
        let skip = at.wrapping_sub(self.start);
        if skip > self.filled as u64 || self.filled - (skip as usize) < want {
            self.refill(at, want)?;
        }
        let skip = (at - self.start) as usize;
        Ok(&self.buf[skip..self.filled])
    }

    #[cold]
    fn refill(&mut self, at: u64, want: usize) -> Result<()> {
        let left = self.limit.saturating_sub(at);
        if left < want as u64 {
            return Err(Fault::new("the stored bytes end early")
                .bytes(at..self.limit.max(at))
                .expected(format_args!("{want} bytes"))
                .found(format_args!("{left} bytes"))
                .into());
        }
        if want > self.buf.len() {
            let room = self.buf.len();
            let wanted = format!("{want} bytes are wanted of a window of {room}");
            return Err(Error::Bug(wanted));
        }
        self.adapt(at);
        let len = left.min(self.next.max(want) as u64) as usize;
        // Nothing is at hand if reading fails.
        self.filled = 0;
        self.source.fetch_one(at, &mut self.buf[..len])?;
        self.start = at;
        self.filled = len;
        Ok(())
    }

    /// Reads more at once while reading goes on where it was, and less after leaps.
    fn adapt(&mut self, at: u64) {
        if self.filled == 0 {
            return;
        }
        let end = self.start + self.filled as u64;
        let near = at >= self.start && at <= end.saturating_add(LEAST as u64);
        self.next = match near {
            true => self.next.saturating_mul(4).min(self.most),
            false if self.next > LEAST => (self.next / 4).max(LEAST),
            false => self.next,
        };
    }

    pub fn u8(&mut self, at: u64) -> Result<u8> {
        self.array(at).map(|[byte]| byte)
    }

    /// Little-endian, as all numbers here.
    pub fn u16(&mut self, at: u64) -> Result<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub fn u32(&mut self, at: u64) -> Result<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, at: u64) -> Result<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        let mut own = [0; N];
        own.copy_from_slice(&self.bytes(at, N)?[..N]);
        Ok(own)
    }
}

#[cfg(test)]
mod tests {
    use crate::sync::Mutex;

    use super::*;
    use crate::source::{Fetch, ObjectTag, SourceIdentity};

    /// Bytes that count up, and the lengths that were fetched.
    struct Counting {
        len: u64,
        fetched: Mutex<Vec<(u64, usize)>>,
    }

    impl Source for Counting {
        fn len(&self) -> u64 {
            self.len
        }

        fn identity(&self) -> SourceIdentity {
            SourceIdentity::of_object(ObjectTag::default(), self.len)
        }

        fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
            for Fetch { offset, buf } in ranges {
                assert!(*offset + buf.len() as u64 <= self.len, "read past the end");
                self.fetched.lock().push((*offset, buf.len()));
                buf.iter_mut()
                    .zip(*offset..)
                    .for_each(|(byte, at)| *byte = at as u8);
            }
            Ok(())
        }

        fn read(&self, _offset: u64, _buf: &mut [u8]) -> Result<usize> {
            Err(Error::Unsupported)
        }
    }

    fn counting(len: u64) -> Counting {
        Counting {
            len,
            fetched: Mutex::default(),
        }
    }

    #[test]
    fn dense_reading_fetches_more_and_more_and_leaps_fetch_little() {
        let (source, mut buf) = (counting(1 << 20), vec![0; 16 << 10]);
        let mut window = ForwardWindow::new(&source, u64::MAX, &mut buf);
        for at in 0..100_000 {
            assert_eq!(window.u8(at).unwrap(), at as u8);
        }
        for leap in 0..10 {
            window.u64(200_000 + leap * 50_000).unwrap();
        }
        let fetched = source.fetched.lock();
        let lens: Vec<usize> = fetched.iter().map(|(_, len)| *len).collect();
        assert_eq!(lens[..4], [512, 2048, 8192, 16384]);
        assert_eq!(lens.iter().rev().take(6).max(), Some(&512));
        assert!(lens.len() < 25, "{lens:?}");
    }

    #[test]
    fn an_eager_window_fetches_all_it_has_room_for_up_to_its_limit() {
        let (source, mut buf) = (counting(10_000), [0; 1000]);
        let mut window = ForwardWindow::eager(&source, 1500, &mut buf);
        assert_eq!(window.bytes(0, 1).unwrap().len(), 1000);
        assert_eq!(window.bytes(999, 2).unwrap().len(), 501);
        assert_eq!(window.bytes(1500, 0).unwrap().len(), 0);
        assert!(matches!(window.bytes(1500, 1), Err(Error::Fault(_))));
        assert!(matches!(window.bytes(u64::MAX, 1), Err(Error::Fault(_))));
        assert_eq!(*source.fetched.lock(), [(0, 1000), (999, 501)]);
    }

    #[test]
    fn more_than_its_memory_is_a_mistake_of_ours_and_not_of_the_file() {
        let (source, mut buf) = (counting(10_000), [0; 600]);
        let mut window = ForwardWindow::new(&source, u64::MAX, &mut buf).at_once(512);
        assert_eq!(window.bytes(3, 600).unwrap()[..2], [3, 4]);
        assert!(matches!(window.bytes(0, 601), Err(Error::Bug(_))));
    }
}
