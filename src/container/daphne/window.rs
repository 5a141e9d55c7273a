//! A moving window on a source, for reading forward what lies close together.
//!
//! Used by everything that walks: block headers, row counts, entries, labels.

use crate::error::{Fault, Result};
use crate::source::Source;

pub(super) struct Window<'a> {
    source: &'a dyn Source,
    /// Nothing is read from here on.
    limit: u64,
    /// Most that is read at once.
    most: usize,
    /// Read at the next refill; grows while reading is dense.
    next: usize,
    start: u64,
    buf: Vec<u8>,
    filled: usize,
}

/// Read after a leap: a header and what may follow it.
const LEAST: usize = 512;

impl<'a> Window<'a> {
    /// Reads from nowhere beyond `limit`, and at most `most` bytes at once.
    pub(super) fn new(source: &'a dyn Source, limit: u64, most: usize) -> Self {
        Window {
            source,
            limit: limit.min(source.len()),
            most: most.max(LEAST),
            next: LEAST,
            start: 0,
            buf: Vec::new(),
            filled: 0,
        }
    }

    /// A window that is read in full at once: everything in it is wanted.
    pub(super) fn eager(source: &'a dyn Source, limit: u64, most: usize) -> Self {
        let next = most.max(LEAST);
        Window {
            next,
            ..Window::new(source, limit, most)
        }
    }

    /// What is at hand from `at` on: at least `want` bytes, or a fault.
    #[inline]
    pub(super) fn bytes(&mut self, at: u64, want: usize) -> Result<&[u8]> {
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
        let end = self.start + self.filled as u64;
        let near = at >= self.start && at <= end.saturating_add(LEAST as u64);
        self.next = match near && self.filled > 0 {
            true => self.next.saturating_mul(4).min(self.most),
            false => self.next,
        };
        if !near && self.filled > 0 && self.next > LEAST {
            // Reading has become sparse.
            self.next = (self.next / 4).max(LEAST);
        }
        let len = left.min(self.next.max(want) as u64) as usize;
        if self.buf.len() < len {
            self.buf.resize(len, 0);
        }
        self.filled = 0;
        self.source.fetch_one(at, &mut self.buf[..len])?;
        self.start = at;
        self.filled = len;
        Ok(())
    }

    pub(super) fn u16(&mut self, at: u64) -> Result<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, at: u64) -> Result<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, at: u64) -> Result<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    pub(super) fn u8(&mut self, at: u64) -> Result<u8> {
        self.array(at).map(|[byte]| byte)
    }

    #[inline]
    fn array<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        let mut own = [0; N];
        own.copy_from_slice(&self.bytes(at, N)?[..N]);
        Ok(own)
    }
}
