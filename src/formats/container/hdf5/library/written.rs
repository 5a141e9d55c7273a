//! What libhdf5 has written to a file that it never sees: pieces over the file's bytes, and the
//! places of chunks, whose bytes are somebody else's.
//!
//! Bounded, whatever the library makes of a file. Pure. Used by [`super::driver`].

use std::collections::BTreeMap;
use std::ops::Range;

use super::identifier::Outcome;
use crate::range_set::RangeSet;

/// Most bytes that are kept.
const MOST: u64 = 192 << 20;

/// Most ranges that places of chunks make.
const PLACES_MOST: usize = 8 << 20;

#[derive(Debug, Default)]
pub(super) struct WrittenBytes {
    /// Where each begins; they do not touch each other.
    pieces: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
    /// Where chunks lie.
    places: RangeSet,
}

impl WrittenBytes {
    /// Copies what has been written of a range over what `out` holds.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) {
        let end = at.saturating_add(out.len() as u64);
        for (start, piece) in self.pieces_in(at..end) {
            let from = at.max(start);
            let to = end.min(start + piece.len() as u64);
            let bytes = &piece[(from - start) as usize..(to - start) as usize];
            out[(from - at) as usize..(to - at) as usize].copy_from_slice(bytes);
        }
    }

    fn pieces_in(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Vec<u8>)> {
        let before = self.pieces.range(..range.start).next_back();
        let within = self.pieces.range(range.clone());
        let all = before.into_iter().chain(within);
        all.map(|(start, piece)| (*start, piece))
            .filter(move |(start, piece)| start + piece.len() as u64 > range.start)
    }

    /// Bytes of the file's own. Where a chunk has been put they are not taken.
    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) -> Outcome<()> {
        let end = at.checked_add(bytes.len() as u64);
        let end = end.ok_or("something is written behind any end")?;
        if self.places.overlapping(&(at..end)).is_some() {
            return Err("the library writes over a chunk that has just been put".into());
        }
        // As a part of the heap is that gets one value after another.
        if let Some((start, piece)) = self.pieces.range_mut(..=at).next_back()
            && let Some(there) = piece.get_mut((at - start) as usize..)
            && there.len() >= bytes.len()
        {
            there[..bytes.len()].copy_from_slice(bytes);
            return Ok(());
        }
        self.cut(at..end);
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > MOST {
            let mebibytes = MOST >> 20;
            return Err(format!(
                "more than {mebibytes} MiB of the file would change"
            ));
        }
        let mut piece = Vec::new();
        let (start, room) = match self.pieces.range(..at).next_back() {
            // Behind the one before, as most are.
            Some((start, before)) if start + before.len() as u64 == at => {
                let start = *start;
                piece = self.pieces.remove(&start).unwrap_or_default();
                (start, bytes.len())
            }
            _ => (at, bytes.len()),
        };
        piece.try_reserve(room).map_err(|e| e.to_string())?;
        piece.extend_from_slice(bytes);
        self.pieces.insert(start, piece);
        Ok(())
    }

    /// Bytes of a chunk: what was written there before does not count.
    pub(super) fn place(&mut self, at: u64, len: u64) -> Outcome<()> {
        let end = at.checked_add(len).ok_or("a chunk lies behind any end")?;
        if self.places.overlapping(&(at..end)).is_some() {
            return Err("two chunks have one place".into());
        }
        if self.places.ranges() >= PLACES_MOST {
            return Err("more chunks are put than can be listed".into());
        }
        self.cut(at..end);
        self.places.insert(at..end);
        Ok(())
    }

    /// The chunk that was put there is put elsewhere.
    pub(super) fn unplace(&mut self, at: u64, len: u64) {
        self.places.remove(at..at.saturating_add(len));
    }

    /// Takes away what was written of a range.
    fn cut(&mut self, range: Range<u64>) {
        let touched: Vec<u64> = self
            .pieces_in(range.clone())
            .map(|(start, _)| start)
            .collect();
        for start in touched {
            let Some(mut piece) = self.pieces.remove(&start) else {
                continue;
            };
            let end = start + piece.len() as u64;
            self.bytes -= piece.len() as u64;
            if end > range.end {
                let behind = piece.split_off((range.end - start).min(end - start) as usize);
                self.bytes += behind.len() as u64;
                self.pieces.insert(range.end, behind);
            }
            if start < range.start {
                piece.truncate((range.start - start) as usize);
                self.bytes += piece.len() as u64;
                self.pieces.insert(start, piece);
            }
        }
    }

    /// All pieces up to an end, in order.
    pub(super) fn into_pieces(mut self, end: u64) -> Vec<(u64, Vec<u8>)> {
        self.cut(end..u64::MAX);
        self.pieces.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_last_is_read(
            writes in proptest::collection::vec((0u64..60, 1usize..20, any::<bool>()), 0..30),
        ) {
            let mut written = WrittenBytes::default();
            let (mut bytes, mut taken) = ([0u8; 100], [false; 100]);
            for (n, (at, len, is_place)) in writes.into_iter().enumerate() {
                let range = at as usize..at as usize + len;
                let free = !taken[range.clone()].contains(&true);
                match is_place {
                    true => {
                        prop_assert_eq!(written.place(at, len as u64).is_ok(), free);
                        if free {
                            taken[range.clone()].fill(true);
                            bytes[range].fill(0);
                        }
                    }
                    false => {
                        let piece = vec![n as u8 + 1; len];
                        prop_assert_eq!(written.put(at, &piece).is_ok(), free);
                        if free {
                            bytes[range].fill(n as u8 + 1);
                        }
                    }
                }
                let mut found = [0; 100];
                written.read(0, &mut found);
                prop_assert_eq!(&found[..], &bytes[..]);
                let kept: usize = written.pieces.values().map(Vec::len).sum();
                prop_assert_eq!(kept as u64, written.bytes);
            }
            let pieces = written.into_pieces(50);
            prop_assert!(pieces.iter().all(|(at, piece)| at + piece.len() as u64 <= 50));
        }
    }
}
