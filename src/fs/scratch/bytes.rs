//! Memory of chunks, used again: chunks come and go with every flush, and memory that the system
//! has to clear for each of them takes longer than encoding does.
//!
//! What was copied from another file as a whole chunk is also kept as that file has it stored,
//! until it is changed: then it need not be encoded again. Used by [`super::content`].

use std::ops::{Deref, DerefMut};

use crate::sync::Mutex;

/// So much is kept for the next chunks.
const KEPT: usize = 16 << 20;

/// Less is left to the allocator, which is good at it.
const LEAST: usize = 32 << 10;

static FREE: Mutex<FreeBytes> = Mutex::new(FreeBytes {
    lists: Vec::new(),
    bytes: 0,
});

struct FreeBytes {
    lists: Vec<Vec<u8>>,
    bytes: usize,
}

/// Bytes of a chunk.
#[derive(Debug, Default)]
pub(super) struct HeldBytes {
    plain: Vec<u8>,
    /// With the digest behind it.
    encoded: Option<Vec<u8>>,
}

impl HeldBytes {
    pub(super) fn of(plain: Vec<u8>) -> HeldBytes {
        let encoded = None;
        HeldBytes { plain, encoded }
    }

    /// The chunk as it may be stored, if it is known.
    pub(super) fn encoded(&self) -> Option<&[u8]> {
        self.encoded.as_deref()
    }

    /// What decodes to these bytes.
    pub(super) fn keep_encoded(&mut self, encoded: Vec<u8>) {
        self.encoded = Some(encoded);
    }

    /// Bytes of memory.
    pub(super) fn takes(&self) -> u64 {
        self.plain.len() as u64 + self.encoded.as_ref().map_or(0, Vec::len) as u64
    }

    /// Empty ones with memory for so many, if such are at hand; else without any.
    pub(super) fn with_capacity(len: usize) -> HeldBytes {
        if len < LEAST {
            return HeldBytes::default();
        }
        let mut free = FREE.lock();
        let fits = |list: &Vec<u8>| (len..=2 * len).contains(&list.capacity());
        match free.lists.iter().rposition(fits) {
            Some(at) => {
                let list = free.lists.swap_remove(at);
                free.bytes -= list.capacity();
                HeldBytes::of(list)
            }
            None => HeldBytes::default(),
        }
    }
}

impl Clone for HeldBytes {
    fn clone(&self) -> HeldBytes {
        let mut copy = HeldBytes::with_capacity(self.plain.len());
        copy.plain.extend_from_slice(&self.plain);
        copy
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let mut list = std::mem::take(&mut self.plain);
        if list.capacity() < LEAST {
            return;
        }
        let mut free = FREE.lock();
        if free.bytes + list.capacity() <= KEPT {
            list.clear();
            free.bytes += list.capacity();
            free.lists.push(list);
        }
    }
}

impl Deref for HeldBytes {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.plain
    }
}

impl DerefMut for HeldBytes {
    /// They are about to change.
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        self.encoded = None;
        &mut self.plain
    }
}
