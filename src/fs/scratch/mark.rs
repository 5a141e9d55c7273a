//! The last bytes of a stored file: what lies behind its chunks, or, of one at rest, which mount
//! wrote it, whether that was synced, and when programs changed it last.
//!
//! A crash of the power may leave any part of what was not synced. Whether a chunk that does not
//! check is such a part, or damage, must not be told by a clock: so each mount has a random number,
//! its [`Epoch`], which stands in the mark of the store and at the end of what the mount writes
//! without syncing it. Stored times of change are those of storing; the time that programs have
//! seen is believed as long as nobody has touched the file since: then the two stamps differ.
//!
//! Uses the chunks' places alone. Used by [`super::tail`], and by all that writes the end of a file
//! or looks at it.

use super::base::read_all;
use crate::container::bloscpack::layout::{self, AT_REST, MARK, MARK_KIND, OF_LOG, OF_REDO};
use crate::error::Result;
use crate::records::of_another_version;
use crate::source::{Source, Timestamp};

pub(super) const MARK_LEN: u64 = layout::MARK_LEN as u64;

/// Bytes that the checksum is of, and where the stamp of storing lies.
const CHECKED: usize = 36;
const STAMP: std::ops::Range<usize> = 33..36;

/// One mount of a store, told from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch(pub(super) u64);

impl Epoch {
    /// Of what is synced, and of what no mount writes.
    pub(super) const NONE: Epoch = Epoch(0);

    /// Another one each time.
    pub(super) fn random() -> Epoch {
        use std::hash::{BuildHasher, Hasher, RandomState};
        // The keys of hashers are random.
        Epoch(RandomState::new().build_hasher().finish().max(1))
    }
}

/// When a file was stored, coarsely: a stamp comes again after three days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoringStamp(u32);

impl StoringStamp {
    const BITS: u32 = 24;
    const PER_SECOND: i64 = 64;

    /// Stamps of one storing differ by no more.
    const NEAR: u32 = 2;

    pub(super) fn of(time: Timestamp) -> StoringStamp {
        let part = i64::from(time.nanos) * Self::PER_SECOND / 1_000_000_000;
        let ticks = time.secs.wrapping_mul(Self::PER_SECOND).wrapping_add(part);
        StoringStamp((ticks & ((1 << Self::BITS) - 1)) as u32)
    }

    pub(super) fn is_near(self, other: StoringStamp) -> bool {
        let ahead = self.0.wrapping_sub(other.0) & ((1 << Self::BITS) - 1);
        ahead <= Self::NEAR || ahead >= (1 << Self::BITS) - Self::NEAR
    }
}

/// The time of a change that programs have seen, and when the file was stored after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenChange {
    /// Nanoseconds since 1970; none if no number holds them.
    nanos: Option<i64>,
    stored: StoringStamp,
}

impl SeenChange {
    pub(super) fn new(seen: Timestamp, stored: Timestamp) -> SeenChange {
        SeenChange {
            nanos: seen.as_nanos(),
            stored: StoringStamp::of(stored),
        }
    }

    /// Whether a file that is stored now says this time with it.
    pub(super) fn says(self, seen: Timestamp, now: Timestamp) -> bool {
        self.nanos == seen.as_nanos() && self.is_of(now)
    }

    /// Whether it was stored when the stored file got this time of change: nobody has touched that
    /// since.
    pub(super) fn is_of(self, stored: Timestamp) -> bool {
        self.stored.is_near(StoringStamp::of(stored))
    }

    /// The time, if the stored file was not touched since, which then has this one.
    pub(super) fn seen(self, stored: Timestamp) -> Option<Timestamp> {
        let nanos = self.nanos.filter(|_| self.is_of(stored));
        nanos.map(Timestamp::of_nanos)
    }

    /// As two numbers of a record.
    pub(super) fn numbers(self) -> [u64; 2] {
        let nanos = self.nanos.unwrap_or(i64::MIN);
        [nanos.cast_unsigned(), self.stored.0.into()]
    }

    pub(super) fn of_numbers([nanos, stored]: [u64; 2]) -> SeenChange {
        let nanos = nanos.cast_signed();
        SeenChange {
            nanos: (nanos != i64::MIN).then_some(nanos),
            stored: StoringStamp((stored & ((1 << StoringStamp::BITS) - 1)) as u32),
        }
    }
}

/// What the end of a file at rest says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RestMark {
    /// The mount that wrote what lies before it, of which not all may be on the disk; none if it
    /// was synced.
    pub(super) epoch: Epoch,
    /// Of the header and the places of the chunks.
    pub(super) fingerprint: u64,
    pub(super) changed: SeenChange,
}

/// A merge that has begun: where its records begin, their fingerprint, and how long the stored file
/// is when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PendingMerge {
    pub(super) start: u64,
    pub(super) fingerprint: u64,
    pub(super) end: u64,
}

/// What the end of a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TailMark {
    /// A log of changes of the chunks that have this fingerprint.
    Log {
        start: u64,
        fingerprint: u64,
    },
    /// A merge is under way, or was: its records are to be put.
    Redo(PendingMerge),
    Rest(RestMark),
}

impl TailMark {
    pub(super) fn bytes(&self) -> [u8; MARK_LEN as usize] {
        let (kind, numbers, stamp) = match *self {
            TailMark::Log { start, fingerprint } => (OF_LOG, [start, fingerprint, 0], 0),
            TailMark::Redo(merge) => (OF_REDO, [merge.start, merge.fingerprint, merge.end], 0),
            TailMark::Rest(rest) => {
                let [nanos, stored] = rest.changed.numbers();
                (AT_REST, [rest.epoch.0, rest.fingerprint, nanos], stored)
            }
        };
        let mut bytes = [0; MARK_LEN as usize];
        bytes[..8].copy_from_slice(MARK);
        for (number, field) in numbers.into_iter().zip(bytes[8..].as_chunks_mut::<8>().0) {
            *field = number.to_le_bytes();
        }
        bytes[MARK_KIND] = kind;
        bytes[STAMP].copy_from_slice(&stamp.to_le_bytes()[..STAMP.len()]);
        let sum = crc32fast::hash(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What bytes that lie at an offset of a file say, if they are a mark.
    pub(super) fn parse(bytes: &[u8; MARK_LEN as usize], at: u64) -> Result<Option<TailMark>> {
        let sum = crc32fast::hash(&bytes[..CHECKED]).to_le_bytes();
        if bytes[..7] != MARK[..7] || bytes[CHECKED..] != sum {
            return Ok(None);
        }
        if bytes[7] != MARK[7] {
            return Err(of_another_version("mark", bytes[7], MARK[7]));
        }
        let [one, fingerprint, three] = [8, 16, 24].map(|at| number(bytes, at));
        let mut stamp = [0; 8];
        stamp[..STAMP.len()].copy_from_slice(&bytes[STAMP]);
        Ok(match bytes[MARK_KIND] {
            OF_LOG if one <= at => Some(TailMark::Log {
                start: one,
                fingerprint,
            }),
            OF_REDO if one <= at => Some(TailMark::Redo(PendingMerge {
                start: one,
                fingerprint,
                end: three,
            })),
            AT_REST => Some(TailMark::Rest(RestMark {
                epoch: Epoch(one),
                fingerprint,
                changed: SeenChange::of_numbers([three, u64::from_le_bytes(stamp)]),
            })),
            _ => None,
        })
    }

    /// The mark at the end of a file of so many bytes, if there is one.
    pub(super) fn read(source: &dyn Source, len: u64) -> Result<Option<TailMark>> {
        let Some(at) = len.checked_sub(MARK_LEN) else {
            return Ok(None);
        };
        let mut bytes = [0; MARK_LEN as usize];
        read_all(source, at, &mut bytes)?;
        TailMark::parse(&bytes, at)
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..at + 8).and_then(|field| field.first_chunk());
    field.map_or(0, |field| u64::from_le_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time() -> impl Strategy<Value = Timestamp> {
        let times = (-10_000_000_000i64..10_000_000_000, 0u32..1_000_000_000);
        times.prop_map(|(secs, nanos)| Timestamp { secs, nanos })
    }

    proptest! {
        #[test]
        fn marks_say_what_was_written(epoch in 0u64.., fingerprint in 0u64.., seen in time(), stored in time()) {
            let changed = SeenChange::new(seen, stored);
            let rest = RestMark { epoch: Epoch(epoch), fingerprint, changed };
            let merge = PendingMerge { start: epoch, fingerprint, end: 7 };
            for mark in [
                TailMark::Rest(rest),
                TailMark::Redo(merge),
                TailMark::Log { start: epoch, fingerprint },
            ] {
                prop_assert_eq!(TailMark::parse(&mark.bytes(), u64::MAX).unwrap(), Some(mark));
                let mut wrong = mark.bytes();
                wrong[(fingerprint % MARK_LEN) as usize] ^= 1;
                prop_assert_eq!(TailMark::parse(&wrong, u64::MAX).unwrap(), None);
            }
        }

        #[test]
        fn the_time_is_believed_until_the_file_is_touched(seen in time(), stored in time(), later in 1i64..100_000) {
            let changed = SeenChange::new(seen, stored);
            let is_held = seen.secs.abs() < 9_000_000_000;
            if is_held {
                prop_assert_eq!(changed.seen(stored), Some(seen));
            }
            let touched = Timestamp { secs: stored.secs + later, ..stored };
            prop_assert_eq!(changed.seen(touched), None);
        }
    }
}
