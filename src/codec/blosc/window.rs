//! The two ends of an LZ decoder: instructions read from [`Input`], bytes written to [`Window`].
//!
//! Shared by LZ4 and BloscLZ. All bounds are checked here, once per instruction; short copies are
//! made in whole 16-byte pieces, so bytes *after* those written so far may hold rubbish until the
//! next instruction overwrites them. They never lie outside the plain stream, and a stream whose
//! length is not exact is an error.

use super::error::StreamError;

const WIDE: usize = 16;

/// The stored bytes of one stream, read front to back.
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self) -> Result<u8, StreamError> {
        let byte = *self.bytes.get(self.at).ok_or(StreamError::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline(always)]
    pub(super) fn pair(&mut self) -> Result<[u8; 2], StreamError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let pair = rest.first_chunk::<2>().ok_or(StreamError::Truncated)?;
        self.at += 2;
        Ok(*pair)
    }

    /// Adds up bytes through the first that is not 255.
    #[inline]
    pub(super) fn extension(&mut self) -> Result<usize, StreamError> {
        let mut sum = 0usize;
        while let Some(eight) = self.bytes[self.at..].first_chunk::<8>() {
            if *eight != [255; 8] {
                break;
            }
            sum = sum.saturating_add(8 * 255);
            self.at += 8;
        }
        loop {
            let byte = self.byte()?;
            sum = sum.saturating_add(usize::from(byte));
            if byte != 255 {
                return Ok(sum);
            }
        }
    }
}

/// The plain bytes of one stream, written front to back and copied from by matches.
pub(crate) struct Window<'a> {
    bytes: &'a mut [u8],
    filled: usize,
}

impl<'a> Window<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, filled: 0 }
    }

    /// Appends the next `len` bytes of `input`.
    #[inline(always)]
    pub(crate) fn literals(&mut self, input: &mut Input, len: usize) -> Result<(), StreamError> {
        let (to, from) = (self.filled, input.at);
        let room = self.bytes.len() - to;
        let present = input.bytes.len() - from;
        if len <= WIDE && room >= WIDE && present >= WIDE {
            self.bytes[to..to + WIDE].copy_from_slice(&input.bytes[from..from + WIDE]);
        } else if len > room {
            return Err(StreamError::TooLong {
                expected: self.bytes.len(),
            });
        } else if len > present {
            return Err(StreamError::Truncated);
        } else {
            self.bytes[to..to + len].copy_from_slice(&input.bytes[from..from + len]);
        }
        self.filled = to + len;
        input.at = from + len;
        Ok(())
    }

    /// Appends `len` bytes, each a copy of the byte `distance` before it.
    #[inline(always)]
    pub(crate) fn repeat(&mut self, distance: usize, len: usize) -> Result<(), StreamError> {
        let to = self.filled;
        if distance == 0 || distance > to {
            return Err(StreamError::Distance {
                distance,
                written: to,
            });
        }
        let (from, room) = (to - distance, self.bytes.len() - to);
        if len <= 2 * WIDE && distance >= WIDE && room >= 2 * WIDE {
            self.bytes.copy_within(from..from + WIDE, to);
            // Not when not needed: it may have to wait for what was just written.
            if len > WIDE {
                self.bytes
                    .copy_within(from + WIDE..from + 2 * WIDE, to + WIDE);
            }
        } else if len > room {
            return Err(StreamError::TooLong {
                expected: self.bytes.len(),
            });
        } else {
            repeat_within(self.bytes, from, to, len);
        }
        self.filled = to + len;
        Ok(())
    }

    /// Bytes appended so far.
    pub(crate) fn written(&self) -> usize {
        self.filled
    }

    /// Ends the stream: it must have given exactly its plain size.
    pub(super) fn finish(self) -> Result<(), StreamError> {
        let (found, expected) = (self.filled, self.bytes.len());
        if found == expected {
            Ok(())
        } else {
            Err(StreamError::TooShort { found, expected })
        }
    }
}

/// Fills `bytes[to..to + len]` with the pattern `bytes[from..to]` over and over.
///
/// The pattern grows twofold with each copy, so a long match of small distance soon moves in large
/// pieces, and no piece overlaps itself.
fn repeat_within(bytes: &mut [u8], from: usize, to: usize, len: usize) {
    let end = to + len;
    if to - from == 1 {
        let byte = bytes[from];
        bytes[to..end].fill(byte);
        return;
    }
    let mut to = to;
    while to < end {
        let piece = (to - from).min(end - to);
        bytes.copy_within(from..from + piece, to);
        to += piece;
    }
}
