//! Buffers in which replies are put together that do not lie in one block.
//!
//! There are as many as threads serve at once, and each is as long as the longest reply that it
//! held: so they are bounded by the number of threads and the size of a request, and not by what a
//! file says. A few are kept for the next request. They are beside the budget: a thread that has
//! one waits for a block, which a thread that holds memory of the budget must not. Used by `array`.

use std::ops::{Deref, DerefMut};

use super::no_memory;
use crate::error::Result;
use crate::sync::Mutex;

/// Buffers that are kept when they are not in use.
const KEPT: usize = 16;

#[derive(Default)]
pub struct ReplyBuffers {
    free: Mutex<Vec<Vec<u8>>>,
}

/// A buffer of arbitrary content, given back on drop.
pub struct ReplyBuffer<'a> {
    buffers: &'a ReplyBuffers,
    bytes: Vec<u8>,
    len: usize,
}

impl ReplyBuffers {
    /// One of `len` bytes; ENOMEM if the system has no memory left.
    pub fn take(&self, len: usize) -> Result<ReplyBuffer<'_>> {
        let mut free = self.free.lock();
        let mut bytes = free.pop().unwrap_or_default();
        drop(free);
        if bytes.len() < len {
            let more = bytes.try_reserve_exact(len - bytes.len());
            more.map_err(|_| no_memory("cannot put an answer together"))?;
            bytes.resize(len, 0);
        }
        Ok(ReplyBuffer {
            buffers: self,
            bytes,
            len,
        })
    }
}

impl Deref for ReplyBuffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for ReplyBuffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Drop for ReplyBuffer<'_> {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut free = self.buffers.free.lock();
        if free.len() < KEPT {
            free.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_as_long_as_asked_for() {
        let buffers = ReplyBuffers::default();
        let first = buffers.take(100).unwrap();
        let second = buffers.take(3).unwrap();
        assert_eq!((first.len(), second.len()), (100, 3));
        let place = first.as_ptr();
        drop(first);
        assert_eq!(buffers.take(50).unwrap().as_ptr(), place);
        drop(second);
        assert_eq!(buffers.free.lock().len(), 2);
        let many: Vec<_> = (0..2 * KEPT).map(|_| buffers.take(1).unwrap()).collect();
        drop(many);
        assert_eq!(buffers.free.lock().len(), KEPT);
        assert!(buffers.take(usize::MAX / 2).is_err());
    }
}
