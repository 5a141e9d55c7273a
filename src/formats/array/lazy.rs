//! A file that is not there, made of parts when it is read: bytes, parts of other files, and what
//! is computed.
//!
//! A [`LazySource`] keeps what its parts are and nothing of what they give, so it may be of any
//! size; who reads the same twice has it made twice, or reads it through a cache. Its parts must
//! give the same each time. Used by `container::bpcells` for containers that lie in fields of
//! others.

use std::sync::Arc;

use super::direct::DirectArray;
use super::dtype::Dtype;
use super::{Array, Info, Order};
use crate::error::{Error, Result};
use crate::memory::budget::Hold;
use crate::source::{Fetch, ObjectTag, Source, SourceIdentity};

/// Bytes that are computed from wherever they are asked for.
pub trait Computed: Send + Sync {
    fn len(&self) -> u64;

    /// Fills `out` from byte `at` on; the range lies within.
    fn fill(&self, at: u64, out: &mut [u8]) -> Result<()>;
}

/// What lies next in a file.
pub enum LazyPart {
    Bytes {
        bytes: Vec<u8>,
        _hold: Option<Hold>,
    },
    /// From there on in another file, so many bytes.
    Stored(Arc<dyn Source>, u64, u64),
    Computed(Arc<dyn Computed>),
}

impl LazyPart {
    /// These bytes, charged if there may be many.
    pub fn of(bytes: Vec<u8>, hold: Option<Hold>) -> LazyPart {
        LazyPart::Bytes { bytes, _hold: hold }
    }

    pub fn len(&self) -> u64 {
        match self {
            LazyPart::Bytes { bytes, .. } => bytes.len() as u64,
            LazyPart::Stored(_, _, len) => *len,
            LazyPart::Computed(computed) => computed.len(),
        }
    }

    fn fill(&self, at: u64, out: &mut [u8]) -> Result<()> {
        match self {
            LazyPart::Bytes { bytes, .. } => {
                let from = usize::try_from(at).ok();
                let part = from.and_then(|at| bytes.get(at..)?.get(..out.len()));
                out.copy_from_slice(part.ok_or_else(beyond)?);
                Ok(())
            }
            LazyPart::Stored(source, from, _) => source.fetch_one(from.saturating_add(at), out),
            LazyPart::Computed(computed) => computed.fill(at, out),
        }
    }
}

fn beyond() -> Error {
    let cause = std::io::ErrorKind::UnexpectedEof;
    Error::io("read behind the end of what is made when it is read", cause)
}

pub struct LazySource {
    /// Each with where it ends, in order.
    parts: Vec<(u64, LazyPart)>,
}

impl LazySource {
    pub fn new(parts: impl IntoIterator<Item = LazyPart>) -> LazySource {
        let mut end = 0u64;
        let parts = parts.into_iter().map(|part| {
            end = end.saturating_add(part.len());
            (end, part)
        });
        LazySource {
            parts: parts.collect(),
        }
    }

    fn fill(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (at, out);
        let first = self.parts.partition_point(|(end, _)| *end <= at);
        for (end, part) in &self.parts[first..] {
            let n = end.saturating_sub(at).min(rest.len() as u64) as usize;
            let (now, later) = rest.split_at_mut(n);
            if n > 0 {
                part.fill(at.saturating_sub(end.saturating_sub(part.len())), now)?;
            }
            (at, rest) = (at.saturating_add(n as u64), later);
        }
        match rest {
            [] => Ok(()),
            _ => Err(beyond()),
        }
    }
}

impl Source for LazySource {
    fn len(&self) -> u64 {
        self.parts.last().map_or(0, |(end, _)| *end)
    }

    fn identity(&self) -> SourceIdentity {
        SourceIdentity::of_object(ObjectTag::default(), self.len())
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        let mut ranges = ranges.iter_mut();
        ranges.try_for_each(|range| self.fill(range.offset, range.buf))
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let n = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        self.fill(offset, &mut buf[..n])?;
        Ok(n)
    }
}

/// An array of one dimension whose bytes are computed, with nothing to decode.
pub fn computed_array(
    name: &str,
    dtype: Dtype,
    computed: impl Computed + 'static,
) -> Arc<dyn Array> {
    let bytes = computed.len();
    let info = Info {
        shape: vec![bytes / dtype.itemsize().unwrap_or(1).max(1)],
        dtype,
        order: Order::C,
        bytes,
        stored_bytes: bytes,
        blocks: 1,
        codec: "none".into(),
    };
    let fill = move |at, out: &mut [u8]| computed.fill(at, out);
    Arc::new(DirectArray::new(name.to_owned(), info, fill))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::BytesSource;
    use proptest::prelude::*;

    struct Counting(u64);

    impl Computed for Counting {
        fn len(&self) -> u64 {
            self.0
        }

        fn fill(&self, at: u64, out: &mut [u8]) -> Result<()> {
            assert!(at + out.len() as u64 <= self.0);
            out.iter_mut()
                .zip(at..)
                .for_each(|(byte, at)| *byte = at as u8);
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn any_range_is_that_of_the_parts_behind_each_other(
            parts in proptest::collection::vec((0u64..3, 0u64..40), 0..6),
            (at, len) in (0u64..150, 1usize..100),
        ) {
            let mut expected = Vec::new();
            let stored: Arc<dyn Source> = Arc::new(BytesSource::new((0..50).collect()));
            let made = parts.into_iter().map(|(kind, len)| match kind {
                0 => (0, LazyPart::Computed(Arc::new(Counting(len)))),
                1 => (0, LazyPart::of((0..len as u8).collect(), None)),
                _ => (7, LazyPart::Stored(Arc::clone(&stored), 7, len)),
            });
            let made: Vec<_> = made.map(|(first, part)| {
                expected.extend(first..first + part.len() as u8);
                part
            }).collect();
            let source = LazySource::new(made);
            prop_assert_eq!(source.len(), expected.len() as u64);
            let mut out = vec![0; len];
            let range = expected.get(at as usize..).and_then(|rest| rest.get(..len));
            let fetched = source.fetch_one(at, &mut out);
            match range {
                Some(range) => {
                    fetched.unwrap();
                    prop_assert_eq!(&out[..], range);
                }
                None => prop_assert!(fetched.is_err()),
            }
            let n = source.read(at, &mut out).unwrap();
            let rest = expected.get(at as usize..).unwrap_or_default();
            prop_assert_eq!(&out[..n], &rest[..len.min(rest.len())]);
        }
    }
}
