//! What libhdf5 would come to write for values of variable length: collections of the global heap,
//! which it writes as wholes, and elements. Reckoned as it packs them, one behind the other. Pure.
//! Used by [`super::texts`].

/// What an element takes where the dataset is stored.
const ELEMENT: u64 = 16;

/// About what the library would write for a dataset, at most: collections of the heap that are new,
/// and those in which values are that change; elements.
#[derive(Default)]
pub(super) struct WrittenCost {
    new: HeapCost,
    old: HeapCost,
    /// Of the old ones, those that change; up to which they have been counted.
    touched: u64,
    counted: u64,
    elements: u64,
}

impl WrittenCost {
    /// A value of so many bytes before, and then, if it is written.
    pub(super) fn add(&mut self, old: Option<u64>, written: Option<u64>, changes: bool) {
        if let Some(old) = old {
            self.old.add(old);
        }
        if !changes {
            return;
        }
        self.elements = self.elements.saturating_add(ELEMENT);
        if let Some(new) = written {
            self.new.add(new);
        }
        if old.is_some() && self.counted < self.old.bytes {
            self.counted = self.old.bytes;
            self.touched = self.touched.saturating_add(self.old.last);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let heap = self.new.bytes.saturating_add(self.touched);
        heap.saturating_add(self.elements)
    }
}

/// Values in collections of the global heap, one behind the other.
#[derive(Default)]
struct HeapCost {
    bytes: u64,
    /// Of the last collection: all of it, and what is free.
    last: u64,
    free: u64,
}

impl HeapCost {
    /// Least size of a collection.
    const LEAST: u64 = 4096;
    /// Before the objects of a collection, and before each of them.
    const HEADER: u64 = 16;

    fn add(&mut self, len: u64) {
        let padded = len.checked_next_multiple_of(8).unwrap_or(u64::MAX);
        let need = padded.saturating_add(HeapCost::HEADER);
        if need > self.free {
            let least = need.saturating_add(HeapCost::HEADER);
            self.last = least.max(HeapCost::LEAST);
            self.free = self.last - HeapCost::HEADER;
            self.bytes = self.bytes.saturating_add(self.last);
        }
        self.free = self.free.saturating_sub(need);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As libhdf5 2.2 makes them.
    #[test]
    fn collections_of_the_heap_are_reckoned_up() {
        let bytes = |lengths: &[u64]| {
            let mut cost = HeapCost::default();
            lengths.iter().for_each(|len| cost.add(*len));
            cost.bytes
        };
        assert_eq!(bytes(&[]), 0);
        assert_eq!(bytes(&[0; 255]), 4096);
        assert_eq!(bytes(&[0; 256]), 8192);
        assert_eq!(bytes(&[5000]), 5000 + 32);
        assert_eq!(bytes(&[2100; 3]), 3 * 4096);
        assert_eq!(bytes(&[u64::MAX]), u64::MAX);
    }
}
